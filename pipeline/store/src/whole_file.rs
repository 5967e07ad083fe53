//! Files of other systems: replaced and removed as a whole, and locked while that is done.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::origin::OriginError;
use memfold_datasets::atomic_file::{NewFile, TEMPORARY_PREFIX, temporary_suffix};
use memfold_index::file::FileMode;

/// How long to wait for another process that writes the same files.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait between two tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Replaces a file, or makes it, so that it is there as a whole and lasts. The new file has exactly
/// the permissions of `like`, by default the old file's. A link is followed: its target is
/// replaced, the link stays. Returns the metadata of the new file, before others can change it.
pub fn replace(path: &Path, bytes: &[u8], like: Option<&Path>) -> io::Result<fs::Metadata> {
    let like = like.or_else(|| path.exists().then_some(path));
    let mut file = match like {
        Some(like) => NewFile::create_like(path, like)?,
        None => NewFile::create(path)?,
    };
    file.write_all(bytes)?;
    let Some((name, place)) = file.finish()? else {
        return Err(io::Error::other("a file without a name takes no place"));
    };
    let look = fs::metadata(&name)?;
    name.persist(&place).map_err(|failed| failed.error)?;
    sync_folder_of(&place)?;
    Ok(look)
}

/// As [`replace`], if the file holds `expected` at that moment, or is missing where that is `None`. `false`: it holds
/// something else, which stays.
///
/// A write of another program between the check and the rename would be lost. So both files
/// exchange their names atomically, and the file that came out is checked.
pub fn replace_expected(path: &Path, bytes: &[u8], expected: Option<&[u8]>) -> io::Result<bool> {
    let Some(expected) = expected else {
        let mut file = NewFile::create(path)?;
        file.write_all(bytes)?;
        return match file.publish_new() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        };
    };
    let mut file = NewFile::create_like(path, path)?;
    file.write_all(bytes)?;
    let Some((name, place)) = file.finish()? else { return Ok(false) };
    if fs::read(&place)? != expected {
        return Ok(false);
    }
    let is_replaced = match exchange(&name, &place) {
        Ok(()) if fs::read(&name)? == expected => true,
        Ok(()) => {
            exchange(&name, &place)?;
            false
        }
        // This file system cannot; a moment ago the file was as expected.
        Err(_) => name.persist(&place).map(|()| true).map_err(|failed| failed.error)?,
    };
    sync_folder_of(&place)?;
    Ok(is_replaced)
}

/// Gives two files each other's names.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Returns the temporary files that killed processes left in a folder: of one file, or of any.
pub fn leftovers(folder: &Path, of: Option<&Path>) -> Vec<PathBuf> {
    let suffix = of.map_or_else(|| ".tmp".to_owned(), temporary_suffix);
    let is_leftover = |path: &PathBuf| {
        let name = path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        name.starts_with(TEMPORARY_PREFIX)
            && name.ends_with(&suffix)
            && path.symlink_metadata().is_ok_and(|found| found.is_file())
    };
    // A folder that cannot be read holds nothing that could be removed.
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = items.map(|item| item.path()).filter(is_leftover).collect();
    found.sort_unstable();
    found
}

/// Removes a file so that it stays away.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // Windows has no equivalent and needs none.
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// A lock of the operating system on a file. It ends with the process, in any case.
///
/// Where the file system knows no locks, it is held without effect.
#[derive(Debug)]
pub struct OsLock {
    file: File,
    is_effective: bool,
}

impl OsLock {
    /// Locks a file that serves for nothing else, and makes it where it is missing, with the permissions of `like`. It
    /// stays when the lock goes, because removing it would let two processes lock two files of one name. `None` where
    /// another process holds the lock for longer than `patience`.
    ///
    /// # Errors
    /// When the file cannot be made or locked, or is not a regular file; links are not followed.
    pub fn take(path: &Path, like: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let mode = like.metadata().map_or(FileMode::PRIVATE, |found| FileMode::like(&found));
        lock(path, patience, || open(path, mode))
    }

    /// Locks `PLACE.memfold-lock`, made with its folder where that is missing and with the
    /// permissions of `like`: one process writes the file at the place.
    ///
    /// # Errors
    /// When the file cannot be made or locked, or another process holds the lock for longer than [`PATIENCE`].
    pub fn beside(place: &Path, like: &Path) -> Result<Self, OriginError> {
        let mut path = place.as_os_str().to_owned();
        path.push(".memfold-lock");
        let path = PathBuf::from(path);
        let failed = |source| OriginError::Io { action: "lock", path: path.clone(), source };
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let lock = Self::take(&path, like, PATIENCE).map_err(failed)?;
        lock.ok_or(OriginError::Locked { path })
    }

    /// Locks a file that others replace by a rename: the lock is on the file that the name refers
    /// to at that moment.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn take_on(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        lock(path, patience, || File::open(path))
    }

    /// As [`Self::take_on`], for as long as another process holds the lock.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn wait_on(path: &Path) -> io::Result<Self> {
        loop {
            let file = File::open(path)?;
            let is_effective = match file.lock() {
                Ok(()) => true,
                Err(error) if knows_no_locks(&error) => false,
                Err(error) => return Err(error),
            };
            if !is_effective || is_at(&file, path) {
                return Ok(Self { file, is_effective });
            }
        }
    }

    /// Reads a holder's note from the file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds no text.
    pub fn content(&self) -> io::Result<String> {
        let mut content = String::new();
        (&self.file).seek(io::SeekFrom::Start(0))?;
        (&self.file).read_to_string(&mut content)?;
        Ok(content)
    }

    /// Replaces the content of the file, which stays when the lock goes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_content(&self, content: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).seek(io::SeekFrom::Start(0))?;
        (&self.file).write_all(content.as_bytes())
    }

    /// Tells whether the lock keeps others away.
    pub const fn is_effective(&self) -> bool {
        self.is_effective
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // Closing would do, were it not for programs that are started at this moment: until they run they have our open
        // files, and with them the lock.
        let _ = self.file.unlock();
    }
}

fn lock(
    path: &Path,
    patience: Duration,
    open: impl Fn() -> io::Result<File>,
) -> io::Result<Option<OsLock>> {
    let mut left = patience;
    loop {
        let file = open()?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(OsLock { file, is_effective: true })),
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) if left.is_zero() => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if knows_no_locks(&error) => {
                return Ok(Some(OsLock { file, is_effective: false }));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        std::thread::sleep(BETWEEN_TRIES.min(left));
        left = left.saturating_sub(BETWEEN_TRIES);
    }
}

/// Some network file systems lack locks, or a service for them.
fn knows_no_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// Opens a file for a lock, or makes one.
fn open(path: &Path, mode: FileMode) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// Tells whether the name still stands for the file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(held), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// An open file keeps its name there.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_lock_and_others_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let take = |patience| OsLock::take(&path, folder.path(), patience).unwrap();
        let held = take(Duration::ZERO).unwrap();
        assert!(held.is_effective());
        assert!(take(Duration::from_millis(25)).is_none());
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| take(Duration::from_secs(20)).is_some());
            std::thread::sleep(Duration::from_millis(30));
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    /// A server that replaces its file by a rename leaves the lock of the old one with nothing to keep.
    #[cfg(unix)]
    #[test]
    fn a_lock_is_on_what_the_name_means_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        fs::write(&path, "old").unwrap();
        let old = OsLock::take_on(&path, Duration::ZERO).unwrap().unwrap();
        replace(&path, b"new", None).unwrap();
        assert!(!is_at(&old.file, &path));
        let new = OsLock::take_on(&path, Duration::ZERO).unwrap().unwrap();
        assert!(is_at(&new.file, &path));
        assert!(OsLock::take_on(&path, Duration::ZERO).unwrap().is_none());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(OsLock::take(&link, &path, Duration::ZERO).is_err(), "links are not followed");
    }

    /// A write of another program between the check and the rename was lost.
    #[test]
    fn only_what_was_seen_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(replace_expected(&path, b"one", None).unwrap());
        assert!(!replace_expected(&path, b"two", None).unwrap());
        assert!(!replace_expected(&path, b"two", Some(b"other")).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert!(replace_expected(&path, b"two", Some(b"one")).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
        let temporary = NewFile::create(&path).unwrap();
        assert_eq!(leftovers(folder.path(), Some(&path)).len(), 1);
        assert_eq!(leftovers(folder.path(), Some(&folder.path().join("b.json"))).len(), 0);
        drop(temporary);
        assert!(leftovers(folder.path(), None).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_replaced_keeps_its_permissions_and_links_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&link, b"new", None).unwrap();
        assert!(link.is_symlink());
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o664));
        let other = folder.path().join("other");
        replace(&other, b"", Some(&file)).unwrap();
        assert_eq!(mode(&other), 0o664);
        remove(&other).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    }
}
