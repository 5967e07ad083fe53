//! Names in the folder, and every act on which the safety of a generation rests.
//!
//! Files are written under a name that ends with `.pending` until [`publish`] moves them to their place.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::GenerationError;
use crate::Mapped;

/// The index of a generation, a section file.
pub const INDEX_FILE: &str = "index.mfi";
/// The columns of a generation, an Arrow file.
pub const COLUMNS_FILE: &str = "columns.arrow";
/// The state of a store's rows when a run had searched them, a section file beside the generations.
pub const SEARCHED_FILE: &str = "searched.mfi";

pub(super) const MANIFEST: &str = "MANIFEST";
pub(super) const LOCK: &str = "LOCK";
const PENDING: &str = ".pending";

/// Longest name of a file.
const NAME_BYTES_MAX: usize = 64;

/// Names the folder of a generation.
pub(super) fn generation_name(number: u64) -> String {
    format!("gen-{number:06}")
}

/// Returns the number of a generation's folder, and whether it is still being written.
pub(super) fn parse_generation(name: &str) -> Option<(u64, bool)> {
    let folder = name.strip_suffix(PENDING).unwrap_or(name);
    let number = folder.strip_prefix("gen-")?.parse().ok()?;
    (generation_name(number) == folder).then_some((number, folder != name))
}

/// Names a segment of fresh rows, counted from 1.
pub(super) fn fresh_name(number: u32) -> String {
    format!("fresh-{number:04}.mfi")
}

/// Tells whether a generation may hold a file of this name.
pub(super) fn is_file_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !(name.starts_with('.') || name.starts_with("fresh-") || name.ends_with(PENDING))
        // Some file systems do not tell them apart.
        && !name.eq_ignore_ascii_case(LOCK)
}

/// Refuses a name that no file of a generation may have.
pub(super) fn check_file_name(name: &str, path: &Path) -> Result<(), GenerationError> {
    let found = "not a name for a file of a generation";
    let unfit = || GenerationError::Unfit { path: path.into(), found };
    is_file_name(name).then_some(()).ok_or_else(unfit)
}

/// Tells whether the folder of a generation may hold something of this name, finished or not.
fn is_in_generation(name: &str) -> bool {
    let finished = name.strip_suffix(PENDING).unwrap_or(name);
    let number = finished.strip_prefix("fresh-").and_then(|rest| rest.strip_suffix(".mfi"));
    let is_fresh = |number| fresh_name(number) == finished;
    let number = number.and_then(|number| number.parse().ok());
    number.is_some_and(is_fresh) || is_file_name(name) || name == LOCK
}

/// Returns where something is written before it takes its place.
pub(super) fn pending(place: &Path) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(PENDING);
    path.into()
}

/// Names in a folder; the replacement characters of one that is not UTF-8 make it unlike any of ours.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>, GenerationError> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into());
    let names = fs::read_dir(folder).and_then(|entries| entries.map(name).collect());
    names.map_err(GenerationError::io("list", folder))
}

/// Lists folders of generations that are not among these, and unfinished ones, as far as they are ours.
pub(super) fn superfluous(folder: &Path, kept: &[u64]) -> Result<Vec<PathBuf>, GenerationError> {
    let is_kept = |name: &str| {
        parse_generation(name).is_none_or(|(number, pending)| !pending && kept.contains(&number))
    };
    let mut names = names_in(folder)?;
    names.retain(|name| !is_kept(name) && is_ours(&folder.join(name)));
    // Unfinished ones first: they have the names that others take on their way out.
    names.sort_unstable_by(|left, right| right.cmp(left));
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// Tells whether a folder with the name of a generation holds files of a generation and nothing else, so that it may be
/// removed. A folder that cannot be listed is not ours.
fn is_ours(path: &Path) -> bool {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let Some(names) = is_folder(path).then(|| names_in(path).ok()).flatten() else {
        return false;
    };
    let is_pending = path.as_os_str().as_encoded_bytes().ends_with(PENDING.as_bytes());
    let is_marked = names.iter().any(|name| [INDEX_FILE, COLUMNS_FILE].contains(&name.as_str()));
    let is_plain = |name: &String| is_in_generation(name) && !is_folder(&path.join(name));
    (is_pending || is_marked || names.is_empty()) && names.iter().all(is_plain)
}

/// Performs an act on the disk; tests see each one and may let it fail.
fn act<T>(
    action: &'static str,
    path: &Path,
    act: impl FnOnce() -> io::Result<T>,
) -> Result<T, GenerationError> {
    #[cfg(test)]
    let act = || super::tests::hook(action, path).and_then(|()| act());
    act().map_err(GenerationError::io(action, path))
}

/// Makes a folder that only the owner may enter.
pub(super) fn create_folder(path: &Path) -> Result<(), GenerationError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FileMode::PRIVATE.folder_bits());
    act("create folder", path, || builder.create(path))
}

/// Makes a file that did not exist, with the permissions that both `mode` and the process's mask allow.
pub(super) fn create_file(path: &Path, mode: FileMode) -> Result<File, GenerationError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
    act("create", path, || options.open(path))
}

/// Gives a file or folder exactly its permissions, whatever the process's mask.
pub(super) fn set_mode(path: &Path, mode: FileMode) -> Result<(), GenerationError> {
    act("set permissions of", path, || {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let bits = if path.is_dir() { mode.folder_bits() } else { mode.file_bits() };
            fs::set_permissions(path, fs::Permissions::from_mode(bits))?;
        }
        Ok(())
    })
}

/// Makes the bytes of a file durable, or the names in a folder.
pub(super) fn sync(path: &Path) -> Result<(), GenerationError> {
    // Windows has no such call for folders and needs none.
    let sync = || if cfg!(unix) || path.is_file() { File::open(path)?.sync_all() } else { Ok(()) };
    act("make durable", path, sync)
}

/// Makes the file written for `place` durable and moves it there: from then on others see it.
///
/// Its name is durable only after a [`sync`] of the folder.
pub(super) fn publish(place: &Path, mode: FileMode) -> Result<(), GenerationError> {
    let from = pending(place);
    set_mode(&from, mode)?;
    sync(&from)?;
    act("rename", &from, || fs::rename(&from, place))
}

/// Removes a file, a link or a folder with all that is in it, if it is there; follows no link.
pub(super) fn remove(path: &Path) -> Result<(), GenerationError> {
    let remove = || match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match act("remove", path, remove) {
        Err(error) if error.is(io::ErrorKind::NotFound) => Ok(()),
        removed => removed,
    }
}

/// Removes a generation under another name, so that no reader sees it with some of its files.
pub(super) fn remove_generation(path: &Path) -> Result<(), GenerationError> {
    if path.as_os_str().as_encoded_bytes().ends_with(PENDING.as_bytes()) {
        return remove(path);
    }
    let aside = pending(path);
    act("rename", path, || fs::rename(path, &aside))?;
    remove(&aside)
}

/// Finds a folder; `None` where there is nothing of this name. A link to one is refused: superfluous generations are
/// removed from it, and the folder may be anybody's.
pub(super) fn find_folder(path: &Path) -> Result<Option<Identity>, GenerationError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(Some(Identity::of(&found))),
        Ok(found) if found.is_symlink() => Err(GenerationError::Link(path.into())),
        Ok(_) => Err(GenerationError::NotAFolder(path.into())),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            io::ErrorKind::NotADirectory => Err(GenerationError::NotAFolder(path.into())),
            _ => Err(GenerationError::io("open", path)(error)),
        },
    }
}

/// Opens a regular file that is not a link; `None` where there is nothing of this name.
pub(super) fn open_regular(
    action: &'static str,
    path: &Path,
    options: &OpenOptions,
) -> Result<Option<File>, GenerationError> {
    let opened = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(GenerationError::NotAFile(path.into())),
        Ok(_) => options.open(path),
        Err(error) => Err(error),
    };
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            io::ErrorKind::NotADirectory => {
                Err(GenerationError::NotAFolder(path.parent().unwrap_or(path).into()))
            }
            _ => Err(GenerationError::io(action, path)(error)),
        },
    }
}

/// Maps a regular file that is not a link; `None` where there is nothing of this name.
pub(super) fn map(path: &Path) -> Result<Option<Mapped>, GenerationError> {
    let file = open_regular("open", path, OpenOptions::new().read(true))?;
    Ok(file.map(|file| Mapped::map(&file, path)).transpose()?)
}

/// Tells files or folders of one name apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    /// Inodes are used again; together with the time they are not. `None` where it is not kept.
    created: Option<SystemTime>,
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        Self {
            #[cfg(unix)]
            device_and_inode: {
                use std::os::unix::fs::MetadataExt;
                (found.dev(), found.ino())
            },
            created: found.created().ok(),
        }
    }
}

/// How long to wait before trying again.
const POLL: Duration = Duration::from_millis(10);

/// Held while its process writes.
#[derive(Debug)]
pub(super) struct LockFile(File);

impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing would do, were it not for programs that we start at this moment: until they run
        // they have our open files, and with them the lock.
        let _ = self.0.unlock();
    }
}

impl LockFile {
    /// Takes the lock of a folder, waiting up to about `wait` for another writer to end.
    pub(super) fn take(
        folder: &Path,
        mode: FileMode,
        mut wait: Duration,
    ) -> Result<Self, GenerationError> {
        let path = &*folder.join(LOCK);
        let existing = || open_regular("open", path, OpenOptions::new().read(true).write(true));
        loop {
            let Some(file) = existing()?.map_or_else(|| new_lock(path, mode), |f| Ok(Some(f)))?
            else {
                continue;
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, path) => return Ok(Self(file)),
                // It was removed meanwhile, and the name stands for another file or for none.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if wait.is_zero() => {
                    return Err(GenerationError::Locked(path.into()));
                }
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(POLL.min(wait));
                    wait = wait.saturating_sub(POLL);
                }
                Err(TryLockError::Error(error)) => {
                    return Err(GenerationError::io("lock", path)(error));
                }
            }
        }
    }
}

/// Makes a lock; `None` where another writer was quicker.
fn new_lock(path: &Path, mode: FileMode) -> Result<Option<File>, GenerationError> {
    match create_file(path, mode) {
        Err(error) if error.is(io::ErrorKind::AlreadyExists) => Ok(None),
        Err(error) => Err(error),
        Ok(file) => set_mode(path, mode).map(|()| Some(file)),
    }
}

/// Tells whether the name still stands for the file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: io::Result<Metadata>| found.ok().map(|found| Identity::of(&found));
    let held = identity(file.metadata());
    held.is_some() && held == identity(fs::symlink_metadata(path))
}

/// Permissions of derived files: as the store that they are derived from.
///
/// On Unix these are the bits of a mode, whatever the process's mask; elsewhere they mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(u32);

impl FileMode {
    /// The owner reads and writes, nobody else does anything.
    pub const PRIVATE: Self = Self(0o600);

    /// Takes read and write bits of a Unix mode; the owner has both in any case.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 0o666 | 0o600)
    }

    /// Takes the permissions of a file.
    #[must_use]
    pub fn like(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let bits = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
        #[cfg(not(unix))]
        let (bits, _) = (Self::PRIVATE.0, metadata);
        Self::from_bits(bits)
    }

    /// Returns the bits of files.
    #[must_use]
    pub const fn file_bits(self) -> u32 {
        self.0
    }

    /// Returns the bits of folders: who may read may enter.
    pub(super) const fn folder_bits(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for number in [1, 42, 999_999, 1_000_000, u64::MAX] {
            let name = generation_name(number);
            assert_eq!(parse_generation(&(name.clone() + PENDING)), Some((number, true)));
            assert_eq!(parse_generation(&name), Some((number, false)));
        }
        for name in ["gen-42", "gen-0000042", "gen-+00042", "gen-", "gen-00004x", "gen-000042.bak"]
        {
            assert_eq!(parse_generation(name), None, "{name}");
        }
        // Names, whether a generation publishes it, and whether its folder may hold one.
        let (long, longer) = (&*"x".repeat(64), &*"x".repeat(65));
        let kinds: [(&[&str], [bool; 2]); 3] = [
            (&[INDEX_FILE, COLUMNS_FILE, "A-b_9", long], [true, true]),
            (&["LOCK", "fresh-0001.mfi", "fresh-0001.mfi.pending"], [false, true]),
            (
                &[
                    "",
                    ".hidden",
                    ".git",
                    "a/b",
                    "a b",
                    "a\nb",
                    "ä",
                    "lock",
                    "x.pending",
                    "fresh-1.mfi",
                    "fresh-.mfi",
                    longer,
                ],
                [false, false],
            ),
        ];
        for (names, expected) in kinds {
            for name in names {
                assert_eq!([is_file_name(name), is_in_generation(name)], expected, "{name}");
            }
        }
    }

    #[test]
    fn folders_can_be_entered_by_those_who_read() {
        for (bits, file, folder) in [
            (0o100_664, 0o664, 0o775),
            (0o640, 0o640, 0o750),
            (0o600, 0o600, 0o700),
            (0o4_577, 0o666, 0o777), // No x, no set-id.
            (0o444, 0o644, 0o755),   // A store that is read-only.
        ] {
            let mode = FileMode::from_bits(bits);
            assert_eq!((mode.file_bits(), mode.folder_bits()), (file, folder), "{bits:o}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_whose_name_stands_for_another_file_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(LOCK);
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        File::create(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
