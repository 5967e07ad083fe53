//! How to read a SQLite file that belongs to somebody else without leaving a trace beside it.
//!
//! A reader of a store in WAL mode normally creates `-wal` and `-shm` and, being read-only, cannot
//! remove them. Where nobody has the store open, it is therefore read in ways that create nothing;
//! those see no locks, so [`Stamp`] tells afterwards whether somebody wrote meanwhile.
//! docs/decisions/0010-read-without-a-trace.md has the reasons.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::kept::read_head;

/// Length of SQLite's file header.
const HEADER_BYTES: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header says how the file is read (1: rollback journal, 2: WAL).
const READ_VERSION_AT: usize = 19;
const READ_VERSION_WAL: u8 = 2;

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// With SQLite's locks, beside other processes: the files they need are there already.
    Shared,
    /// As a file that does not change: there is no log to read, and nobody has it open.
    Frozen,
    /// With an index of the log in our own memory: a log is there, but nobody has it open.
    PrivateLog,
}

/// What a file looks like from outside; any write by anybody shows in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    database: FileStamp,
    header: Vec<u8>,
    log: FileStamp,
    journal: FileStamp,
}

/// What a file looks like, `None` where there is no such file.
type FileStamp = Option<FileLook>;

/// Length, modification time, and which file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileLook {
    length: u64,
    modified: Option<SystemTime>,
    identity: Option<(u64, u64)>,
}

impl Stamp {
    /// Looks at the store and the files beside it.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Ok(Self {
            database: file_stamp(path),
            header: read_head(path, HEADER_BYTES)?,
            log: file_stamp(&beside(path, "-wal")),
            journal: file_stamp(&beside(path, "-journal")),
        })
    }

    pub(super) fn is_sqlite(&self) -> bool {
        self.header.starts_with(MAGIC)
    }

    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    pub(super) fn has_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.length > 0)
    }

    /// Tells whether the store is in WAL mode.
    pub(super) fn in_wal_mode(&self) -> bool {
        // A log counts whatever the header says: the change of mode itself may be in the log.
        self.header.get(READ_VERSION_AT) == Some(&READ_VERSION_WAL) || self.log.is_some()
    }

    /// Tells whether a connection that was made in view of this sees, in view of the store as it is, what a new one would.
    pub(super) fn still_serves(&self, access: Access, now: &Self, path: &Path) -> bool {
        let identity = |stamp: &Self| stamp.database.as_ref().and_then(|look| look.identity);
        match access {
            // SQLite's locks show what others wrote, as long as it is the same file.
            Access::Shared => {
                identity(self).is_some()
                    && identity(self) == identity(now)
                    && now.access(path) == Access::Shared
            }
            Access::Frozen | Access::PrivateLog => self == now,
        }
    }

    /// Chooses the way to read.
    pub(super) fn access(&self, path: &Path) -> Access {
        // Whoever has a store in WAL mode open keeps both files beside it.
        let is_open = self.log.is_some() && beside(path, "-shm").exists();
        // Only SQLite can tell whether a journal is hot.
        let has_journal = self.journal.as_ref().is_some_and(|journal| journal.length > 0);
        match (self.in_wal_mode() && !has_journal, is_open, self.has_log()) {
            (false, _, _) | (_, true, _) => Access::Shared,
            (true, false, false) => Access::Frozen,
            (true, false, true) if cfg!(unix) => Access::PrivateLog,
            (true, false, true) => Access::Shared,
        }
    }
}

impl Access {
    /// Tells whether SQLite's locks keep writers from changing what is read.
    pub(super) const fn is_isolated(self) -> bool {
        matches!(self, Self::Shared)
    }

    /// Returns the URI that opens `path` this way.
    pub(super) fn uri(self, path: &Path) -> String {
        let parameters = match self {
            Self::Shared => "mode=ro",
            Self::Frozen => "mode=ro&immutable=1",
            Self::PrivateLog => "mode=ro&vfs=unix-none",
        };
        format!("file:{}?{parameters}", encoded(path))
    }
}

/// Returns the path of a companion file.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn file_stamp(path: &Path) -> FileStamp {
    let metadata = fs::metadata(path).ok()?;
    let (length, modified) = (metadata.len(), metadata.modified().ok());
    Some(FileLook { length, modified, identity: identity(&metadata) })
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// Escapes everything in a path that means something in a URI.
fn encoded(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = String::with_capacity(bytes.len());
    if cfg!(windows) && bytes.get(1) == Some(&b':') {
        uri.push('/');
    }
    for byte in bytes {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        let uri = Access::Frozen.uri(Path::new("/a b/%?#é.db"));
        assert_eq!(uri, "file:/a%20b/%25%3F%23%C3%A9.db?mode=ro&immutable=1");
    }
}
