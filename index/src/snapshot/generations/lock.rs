//! [`LockFile`]: one writer at a time.
//!
//! A lock of the operating system on a file of its own. It goes with the process, however that ends;
//! the empty file stays, because removing it would let two writers lock two files of one name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::disk::{Disk, Refused};
use super::{FileMode, WriteGenerationError};

/// How long to wait before trying again.
const POLL: Duration = Duration::from_millis(10);

/// Held while its process writes.
#[derive(Debug)]
pub(super) struct LockFile {
    file: File,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing would do, were it not for programs that we start at this moment: until they run
        // they have our open files, and with them the lock.
        let _ = self.file.unlock();
    }
}

impl LockFile {
    /// Takes the lock, waiting up to about `wait` for another writer to end.
    pub(super) fn take(
        disk: &Disk,
        path: &Path,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, WriteGenerationError> {
        let mut left = wait;
        loop {
            let file = open(disk, path, mode)?;
            wait_for(&file, path, &mut left)?;
            // Otherwise it was removed meanwhile, and the name stands for another file or for none.
            if is_at(&file, path) {
                return Ok(Self { file });
            }
        }
    }
}

/// Locks the file, taking what it waits from `left`.
fn wait_for(file: &File, path: &Path, left: &mut Duration) -> Result<(), WriteGenerationError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if left.is_zero() => {
                return Err(WriteGenerationError::Locked { path: path.into() });
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(POLL.min(*left));
                *left = left.saturating_sub(POLL);
            }
            Err(TryLockError::Error(error)) => {
                return Err(Refused::new("lock", path, error).into());
            }
        }
    }
}

fn open(disk: &Disk, path: &Path, mode: FileMode) -> Result<File, WriteGenerationError> {
    loop {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => {
                return Err(WriteGenerationError::NotAFile { path: path.into() });
            }
            Ok(_) => match OpenOptions::new().read(true).write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map_err(|e| Refused::new("open", path, e).into()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match disk.create_file(path, mode) {
                    Err(refused) if refused.source.kind() == io::ErrorKind::AlreadyExists => {}
                    created => return Ok(created?),
                }
            }
            Err(error) => return Err(Refused::new("open", path, error).into()),
        }
    }
}

/// Tells whether the name still stands for the file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// An open file keeps its name there.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_name_stands_for_another_file_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("LOCK");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        File::create(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
