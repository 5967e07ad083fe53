//! Files of a folder: read as text, written whole, never through links, one writer at a time.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use memfold_datasets::atomic_file::NewFile;
use memfold_index::file::FileMode;

use crate::origin::OriginError;

/// What changes files. Tests put one in its place that fails at the k-th change.
pub(super) trait FileLayer: fmt::Debug + Send + Sync {
    /// Replaces a file, or makes it, so that it is there as a whole and lasts.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The system's files.
#[derive(Debug)]
pub(super) struct SystemFiles;

impl FileLayer for SystemFiles {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = match path.metadata() {
            Ok(old) => NewFile::create_with(path, FileMode::like(&old))?,
            Err(_) => NewFile::create(path)?,
        };
        file.write_all(text.as_bytes())?;
        file.publish().map(drop)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        match path.parent() {
            // Windows has no such call and needs none.
            Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }
}

/// A folder and the paths within it, which are written with `/`.
#[derive(Debug, Clone)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where a path within the folder leads; refuses what leads out of it.
    pub(super) fn join(&self, within: &str) -> Result<PathBuf, OriginError> {
        let refused = |reason: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
            OriginError::Io { action: "enter", path: self.0.join(within), source }
        };
        if !Path::new(within).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused("it leads out of the folder"));
        }
        let mut path = self.0.clone();
        for part in within.split('/') {
            path.push(part);
            if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                return Err(refused("it is a link, and links are not followed"));
            }
        }
        Ok(path)
    }

    /// Reads a file; `None` where there is none.
    pub(super) fn read(&self, within: &str) -> Result<Option<String>, OriginError> {
        let path = self.join(within)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OriginError::Io { action: "read", path, source }),
        }
    }
}

/// Held while a process writes. The lock goes with the process; its empty file stays, because removing it
/// would let two processes lock two files of one name.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock beside a folder.
    pub(super) fn take(root: &Path) -> Result<Self, OriginError> {
        let mut name = root.as_os_str().to_owned();
        name.push(".memfold-lock");
        let path = PathBuf::from(name);
        let failed = |source| OriginError::Io { action: "lock", path: path.clone(), source };
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("not a regular file")));
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OriginError::Locked { path }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}
