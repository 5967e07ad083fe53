//! The file of a store, looked into without ever closing it.
//!
//! POSIX drops all locks that a process holds on a file as soon as it closes any descriptor of it: those of SQLite's
//! connections too, which then write without a lock, and whose log another process may remove under their hands. SQLite
//! itself therefore closes nothing while it holds locks; whoever else looks into the file has to do the same.

use std::io;
use std::path::Path;

/// Reads up to so many bytes from the beginning of a file.
pub(super) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    imp::read_head(path, length)
}

#[cfg(unix)]
mod imp {
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};

    /// Files that were looked into; only those that were deleted since are closed.
    static KEPT: Mutex<Vec<Arc<File>>> = Mutex::new(Vec::new());

    /// Returns the file, open for reading; it stays open when the caller drops it.
    fn keep(path: &Path) -> io::Result<Arc<File>> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = fs::metadata(path)?;
        if !wanted.is_file() {
            // A pipe would wait for whoever writes into it.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_wanted = |file: &File| file.metadata().is_ok_and(|found| is_same(&found, &wanted));
        if let Some(file) = kept.iter().find(|file| is_wanted(file)) {
            return Ok(Arc::clone(file));
        }
        let is_deleted = |file: &File| file.metadata().is_ok_and(|found| found.nlink() == 0);
        kept.retain(|file| !is_deleted(file));
        let file = Arc::new(File::open(path)?);
        kept.push(Arc::clone(&file));
        Ok(file)
    }

    pub(super) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let file = keep(path)?;
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            match file.read_at(&mut bytes[read..], read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn is_same(a: &Metadata, b: &Metadata) -> bool {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::File;
    use std::io::{self, Read as _};
    use std::path::Path;

    pub(super) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        File::open(path)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::read_head;

    #[test]
    fn the_file_of_the_name_is_read_whatever_stood_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(read_head(&path, 3).is_err());
        for content in ["", "ab", "abcdef"] {
            // The same file, longer; and then another one of the same name.
            std::fs::write(&path, content).unwrap();
            assert_eq!(read_head(&path, 3).unwrap(), content.as_bytes()[..content.len().min(3)]);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "xyz").unwrap();
        assert_eq!(read_head(&path, 2).unwrap(), b"xy");
        assert!(read_head(folder.path(), 2).is_err());
    }
}
