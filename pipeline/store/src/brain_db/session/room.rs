//! Why a store cannot grow: SQLite says "disk I/O error" of a full disk too, and nothing of limits.

use std::fmt;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::brain_db::access::beside;
use crate::brain_db::checkup::free_bytes;

/// Bytes that are tried to be written: an index of a write-ahead log, which is what SQLite asks for at once.
const TRIED_BYTES: usize = 64 << 10;

/// Why a store cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// The disk is full.
    Disk {
        /// Bytes that are free; `None` where the system does not tell.
        free: Option<u64>,
    },
    /// The user has used up what they may write on this disk.
    Quota,
    /// The process may not make files as large (`ulimit -f`).
    FileSize,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { free: None } => f.write_str("the disk is full"),
            Self::Disk { free: Some(free) } => {
                write!(f, "the disk is full ({free} bytes are free)")
            }
            Self::Quota => f.write_str("the disk quota is used up"),
            Self::FileSize => f.write_str("the limit on the size of files is reached (ulimit -f)"),
        }
    }
}

impl Shortage {
    /// What SQLite means where it says that the disk is full.
    pub(super) fn of_disk(store: &Path) -> Self {
        Self::Disk { free: free_bytes(store) }
    }

    /// Finds out whether a file beside the store can be as long as the store's and a little longer; `None` where it can.
    ///
    /// Asks the system by writing a file without a name: only after a write of ours has failed.
    pub(in crate::brain_db) fn find(store: &Path) -> Option<Self> {
        let error = grow_beside(store).err()?;
        match error.kind() {
            io::ErrorKind::StorageFull => Some(Self::of_disk(store)),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::FileTooLarge => Some(Self::FileSize),
            _ => None,
        }
    }
}

fn grow_beside(store: &Path) -> io::Result<()> {
    let files = ["", "-wal", "-journal"].map(|suffix| beside(store, suffix).metadata());
    let longest = files.iter().flatten().map(|found| found.len()).max().unwrap_or(0);
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))?;
    let bytes = [0; TRIED_BYTES];
    file.write_all(&bytes)?;
    // What lies between takes no room.
    file.seek(SeekFrom::Start(longest))?;
    file.write_all(&bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_with_room_lacks_nothing_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("brain.db");
        std::fs::write(&store, [7; 100]).unwrap();
        assert_eq!(Shortage::find(&store), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_short_is_said_with_what_is_left() {
        let said = |shortage: Shortage| shortage.to_string();
        assert_eq!(said(Shortage::Disk { free: Some(0) }), "the disk is full (0 bytes are free)");
        assert_eq!(said(Shortage::Quota), "the disk quota is used up");
        assert!(said(Shortage::FileSize).contains("ulimit -f"));
    }
}
