//! Files of a store: how they are read, written and removed, and what killed processes left.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::NewFile;
use memfold_index::file::FileMode;
use memfold_store::origin::OriginError;
use memfold_store::whole_file;

/// Makes an error of an answer of the system.
pub(crate) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> OriginError + 'a {
    move |source| OriginError::Io { action, path: path.to_owned(), source }
}

/// Reads a file as text; `None` where there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, OriginError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Returns the paths of files in a folder and below it, with `/`, in the order of their names, and why some of them cannot be
/// read. Links are not followed. `is_wanted` is asked of each path, and whether it is that of a folder.
pub(crate) fn walk(
    root: &Path,
    within: &str,
    depth_max: usize,
    is_wanted: &dyn Fn(&str, bool) -> bool,
) -> Result<Vec<(String, Option<&'static str>)>, OriginError> {
    let folder = root.join(within);
    let failed = failed("read", &folder);
    let items = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut items = items.map_err(&failed)?;
    items.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for item in items {
        let name = item.file_name().to_string_lossy().into_owned();
        let path = if within.is_empty() { name } else { format!("{within}/{name}") };
        let kind = item.file_type().map_err(&failed)?;
        let is_folder = kind.is_dir() || kind.is_symlink() && item.path().is_dir();
        let reason = if !is_wanted(&path, is_folder) {
            continue;
        } else if kind.is_symlink() {
            Some("it is a link, and links are not followed")
        } else if item.file_name().to_str().is_none() {
            Some("its name is not UTF-8")
        } else if kind.is_dir() && depth_max == 0 {
            Some("it is too deep")
        } else if kind.is_dir() {
            found.extend(walk(root, &path, depth_max - 1, is_wanted)?);
            continue;
        } else {
            (!kind.is_file()).then_some("it is not a regular file")
        };
        found.push((path, reason));
    }
    Ok(found)
}

/// Returns the temporary files that killed processes left in a folder and below it.
pub(crate) fn leftovers_below(
    folder: &Path,
    depth_max: usize,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Vec<PathBuf> {
    let mut found = whole_file::leftovers(folder, None);
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = items.filter(|item| {
        depth_max > 0
            && item.file_type().is_ok_and(|kind| kind.is_dir())
            && is_wanted(&item.file_name().to_string_lossy())
    });
    let mut folders: Vec<PathBuf> = folders.map(|item| item.path()).collect();
    folders.sort_unstable();
    for folder in folders {
        found.extend(leftovers_below(&folder, depth_max - 1, is_wanted));
    }
    found
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> Result<(), OriginError> {
    match whole_file::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes the temporary files that killed processes left; only the holder of the lock may.
pub(crate) fn remove_leftovers(left: &[PathBuf]) -> Result<(), OriginError> {
    left.iter().try_for_each(|path| remove(path))
}

/// Says what [`remove_leftovers`] will do.
pub(crate) fn advice_on(left: &Path) -> String {
    let left = left.display();
    format!("{left} was left by a process that was killed: the next run that writes removes it")
}

/// What changes files. Tests put one in its place that fails at the k-th change.
pub(crate) trait FileLayer: fmt::Debug + Send + Sync {
    /// Writes a file of our own, for nobody else to read.
    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Replaces a file that holds `expected`, or makes one like `like` where that is `None`, so that it is there as a
    /// whole and lasts. `false`: another process changed the file, and nothing was written.
    fn write(
        &self,
        path: &Path,
        text: &str,
        expected: Option<&str>,
        like: Option<&Path>,
    ) -> io::Result<bool>;

    /// Removes a file that holds `expected`; `false` where it holds something else.
    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool>;
}

/// The system's files.
#[derive(Debug)]
pub(crate) struct SystemFiles;

impl FileLayer for SystemFiles {
    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        make_folder_of(path)?;
        let mut file = NewFile::create_with(path, FileMode::PRIVATE)?;
        file.write_all(bytes)?;
        file.publish().map(drop)
    }

    fn write(
        &self,
        path: &Path,
        text: &str,
        expected: Option<&str>,
        like: Option<&Path>,
    ) -> io::Result<bool> {
        if expected.is_none() {
            make_folder_of(path)?;
        }
        let Some(like) = like.filter(|_| expected.is_none()) else {
            return whole_file::replace_expected(
                path,
                text.as_bytes(),
                expected.map(str::as_bytes),
            );
        };
        if path.symlink_metadata().is_ok() {
            return Ok(fs::read(path)? == text.as_bytes());
        }
        whole_file::replace(path, text.as_bytes(), Some(like)).map(|()| true)
    }

    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool> {
        match fs::read(path) {
            Ok(bytes) if bytes == expected.as_bytes() => whole_file::remove(path).map(|()| true),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Makes the folder of a file.
pub(crate) fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns the git directory of the repository that a path is in; of a linked work tree the common one is not looked for.
pub(crate) fn git_dir(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
    path.ancestors().find_map(|folder| {
        let inner = folder.join(".git");
        let is_bare = || folder.join("HEAD").is_file() && folder.join("objects").is_dir();
        inner.is_dir().then_some(inner).or_else(|| is_bare().then(|| folder.to_owned()))
    })
}
