//! Files of a folder: read as text, written whole, never through links, one writer at a time.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use memfold_store::origin::OriginError;
use memfold_store::whole_file::{self, OsLock};

/// What changes files. Tests put one in its place that fails at the k-th change.
pub(super) trait FileLayer: fmt::Debug + Send + Sync {
    /// Replaces a file that holds `expected`, or makes one where that is `None`, so that it is there as a whole and lasts.
    /// `false`: another process changed the file, and nothing was written.
    fn write(&self, path: &Path, text: &str, expected: Option<&str>) -> io::Result<bool>;

    /// Removes a file that holds `expected`; `false` where it holds something else.
    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool>;
}

/// The system's files.
#[derive(Debug)]
pub(super) struct SystemFiles;

impl FileLayer for SystemFiles {
    fn write(&self, path: &Path, text: &str, expected: Option<&str>) -> io::Result<bool> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        whole_file::replace_expected(path, text.as_bytes(), expected.map(str::as_bytes))
    }

    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool> {
        if fs::read(path)? != expected.as_bytes() {
            return Ok(false);
        }
        whole_file::remove(path).map(|()| true)
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

/// Returns the temporary files that killed processes left anywhere in a folder.
pub(super) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let mut found = whole_file::leftovers(folder, None);
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = folders.filter(|item| item.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|item| item.path()).collect();
    folders.sort_unstable();
    folders.iter().for_each(|folder| found.extend(leftovers(folder)));
    found
}

/// Removes them; only the holder of the lock may.
pub(super) fn remove_leftovers(folder: &Path) -> Result<(), OriginError> {
    for path in leftovers(folder) {
        whole_file::remove(&path).map_err(|source| OriginError::Io {
            action: "remove",
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Takes the lock beside a folder: one process writes.
pub(super) fn lock(root: &Path) -> Result<OsLock, OriginError> {
    let mut name = root.as_os_str().to_owned();
    name.push(".memfold-lock");
    let path = PathBuf::from(name);
    match OsLock::take(&path, root, Duration::ZERO) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(OriginError::Locked { path }),
        Err(source) => Err(OriginError::Io { action: "lock", path, source }),
    }
}
