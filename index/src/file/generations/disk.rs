//! [`Disk`]: every act on which the safety of a generation rests, in one place.
//!
//! Tests put a hook before each act: it writes down what happens, fails, or kills the process.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::GenerationError;

/// An act on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    CreateFolder(PathBuf),
    CreateFile(PathBuf),
    Write(PathBuf),
    SetMode(PathBuf),
    SyncFile(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

type Hook = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// The disk, as writers of generations see it.
#[derive(Clone, Default)]
pub(super) struct Disk {
    hook: Option<Arc<Hook>>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Disk {
    #[cfg(test)]
    pub(super) fn hooked(hook: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    fn step(&self, step: impl FnOnce() -> Step) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(step()))
    }

    /// Makes a folder that only the owner may enter.
    pub(super) fn create_folder(&self, path: &Path) -> Result<(), GenerationError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(false);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, FileMode::PRIVATE.folder_bits());
        self.step(|| Step::CreateFolder(path.into()))
            .and_then(|()| builder.create(path))
            .map_err(GenerationError::io("create folder", path))
    }

    /// Makes a file that did not exist, with these permissions whatever the mask.
    pub(super) fn create_file(&self, path: &Path, mode: FileMode) -> Result<File, GenerationError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
        let file = self
            .step(|| Step::CreateFile(path.into()))
            .and_then(|()| options.open(path))
            .map_err(GenerationError::io("create", path))?;
        self.set_mode(path, mode.file_bits())?;
        Ok(file)
    }

    pub(super) fn write(
        &self,
        file: &mut File,
        path: &Path,
        bytes: &[u8],
    ) -> Result<(), GenerationError> {
        self.step(|| Step::Write(path.into()))
            .and_then(|()| file.write_all(bytes))
            .map_err(GenerationError::io("write", path))
    }

    /// Gives a file or folder its permissions.
    pub(super) fn set_mode(&self, path: &Path, bits: u32) -> Result<(), GenerationError> {
        self.step(|| Step::SetMode(path.into()))
            .and_then(|()| set_bits(path, bits))
            .map_err(GenerationError::io("set permissions of", path))
    }

    pub(super) fn sync_file(&self, file: &File, path: &Path) -> Result<(), GenerationError> {
        self.step(|| Step::SyncFile(path.into()))
            .and_then(|()| file.sync_all())
            .map_err(GenerationError::io("make durable", path))
    }

    /// Makes names in a folder durable.
    pub(super) fn sync_folder(&self, path: &Path) -> Result<(), GenerationError> {
        // Windows has no such call and needs none.
        let sync = || if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) };
        self.step(|| Step::SyncFolder(path.into()))
            .and_then(|()| sync())
            .map_err(GenerationError::io("make durable", path))
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), GenerationError> {
        self.step(|| Step::Rename(from.into(), to.into()))
            .and_then(|()| fs::rename(from, to))
            .map_err(GenerationError::io("rename", from))
    }

    /// Removes a file, a link or a folder with all that is in it, if it is there; follows no link.
    pub(super) fn remove(&self, path: &Path) -> Result<(), GenerationError> {
        let remove = || match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match self.step(|| Step::Remove(path.into())).and_then(|()| remove()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(GenerationError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn set_bits(path: &Path, bits: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn set_bits(_path: &Path, _bits: u32) -> io::Result<()> {
    Ok(())
}

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
    ) -> Result<Self, GenerationError> {
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
fn wait_for(file: &File, path: &Path, left: &mut Duration) -> Result<(), GenerationError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if left.is_zero() => {
                return Err(GenerationError::Locked { path: path.into() });
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(POLL.min(*left));
                *left = left.saturating_sub(POLL);
            }
            Err(TryLockError::Error(error)) => {
                return Err(GenerationError::io("lock", path)(error));
            }
        }
    }
}

fn open(disk: &Disk, path: &Path, mode: FileMode) -> Result<File, GenerationError> {
    loop {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => {
                return Err(GenerationError::NotAFile { path: path.into() });
            }
            Ok(_) => match OpenOptions::new().read(true).write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map_err(GenerationError::io("open", path)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match disk.create_file(path, mode) {
                    Err(error) if error.is(io::ErrorKind::AlreadyExists) => {}
                    created => return created,
                }
            }
            Err(error) => return Err(GenerationError::io("open", path)(error)),
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

/// Permissions of derived files: those of the store that they are derived from.
///
/// On Unix these are the bits of a mode, whatever the process's mask; elsewhere they mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode {
    bits: u32,
}

impl FileMode {
    /// The owner reads and writes, nobody else does anything.
    pub const PRIVATE: Self = Self { bits: 0o600 };

    /// Takes read and write bits of a Unix mode; the owner has both in any case.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self { bits: bits & 0o666 | 0o600 }
    }

    /// Takes the permissions of a file.
    #[must_use]
    pub fn like(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            Self::from_bits(metadata.permissions().mode())
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            Self::PRIVATE
        }
    }

    /// Returns the bits of files.
    #[must_use]
    pub const fn file_bits(self) -> u32 {
        self.bits
    }

    /// Returns the bits of folders: who may read may enter.
    #[must_use]
    pub(crate) const fn folder_bits(self) -> u32 {
        self.bits | (self.bits & 0o444) >> 2
    }
}

#[cfg(test)]
mod mode_tests {
    use super::*;

    #[test]
    fn folders_can_be_entered_by_those_who_read() {
        assert_eq!(FileMode::from_bits(0o100_664).file_bits(), 0o664);
        assert_eq!(FileMode::from_bits(0o664).folder_bits(), 0o775);
        assert_eq!(FileMode::from_bits(0o640).folder_bits(), 0o750);
        assert_eq!(FileMode::PRIVATE.folder_bits(), 0o700);
        assert_eq!(FileMode::from_bits(0o4_577), FileMode::from_bits(0o666), "no x, no set-id");
        assert_eq!(FileMode::from_bits(0o444).file_bits(), 0o644, "a store that is read-only");
    }
}
