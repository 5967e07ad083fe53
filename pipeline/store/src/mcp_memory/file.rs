//! The two files: read at once, locked, replaced one after the other.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::graph::Graph;
use crate::origin::OriginError;

/// How often and how long to wait for the lock.
const LOCK_TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Both files as they were read.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) memory: Vec<u8>,
    pub(super) archive: String,
}

/// Returns the archive of a file: `memory.memfold-archive.jsonl`.
pub(super) fn archive_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".memfold-archive.jsonl");
    path.with_file_name(name)
}

/// Returns the first bytes of a file; none where it cannot be read.
pub(super) fn head(path: &Path, bytes: usize) -> Vec<u8> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes as u64).read_to_end(&mut head));
    // A file that cannot be read is not recognised; opening it says why.
    if read.is_err() { Vec::new() } else { head }
}

/// The digest by which the archive knows the file.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> OriginError + 'a {
    move |source| OriginError::Io { action, path: path.to_owned(), source }
}

/// Locks the file for the lifetime of what is returned. The lock is on the file itself, which a rename replaces: after it
/// was taken, the name must still mean the file that is locked.
pub(super) fn lock(path: &Path) -> Result<File, OriginError> {
    for _ in 0..LOCK_TRIES {
        let file = File::open(path).map_err(failed("lock", path))?;
        match file.try_lock() {
            Ok(()) if is_still(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            // Some network file systems know no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
        }
    }
    Err(OriginError::Locked { path: path.to_owned() })
}

#[cfg(unix)]
fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let look = |found: fs::Metadata| (found.dev(), found.ino());
    let locked = file.metadata().map(look);
    locked.is_ok_and(|locked| fs::metadata(path).map(look).is_ok_and(|named| named == locked))
}

#[cfg(not(unix))]
fn is_still(_: &File, _: &Path) -> bool {
    true
}

impl Files {
    /// Reads both files; a missing archive is an empty one.
    pub(super) fn read(path: &Path) -> Result<Self, OriginError> {
        let memory = fs::read(path).map_err(failed("read", path))?;
        let archive = archive_path(path);
        let archive = match fs::read_to_string(&archive) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed("read", &archive)(error)),
        };
        Ok(Self { memory, archive })
    }

    /// Writes what a graph is now, the archive before the file. Nothing is written where nothing changed.
    pub(super) fn replace(
        &self,
        path: &Path,
        after: &Graph,
        before: &Graph,
    ) -> Result<(), OriginError> {
        let memory = after.memory_bytes();
        let archive = archive_path(path);
        let settled = after.archive().to_text();
        if memory != self.memory {
            let both = after.archive().to_text_before(&digest(&memory), before.archive());
            put(&archive, both.as_bytes(), path)?;
            let now = fs::read(path).map_err(failed("read", path))?;
            if now != self.memory {
                return Err(OriginError::Locked { path: path.to_owned() });
            }
            put(path, &memory, path)?;
        }
        if settled != self.archive || memory != self.memory {
            return match settled.is_empty() {
                true => remove(&archive),
                false => put(&archive, settled.as_bytes(), path),
            };
        }
        Ok(())
    }
}

fn remove(path: &Path) -> Result<(), OriginError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Replaces a file by one with these bytes and the permissions of `like`, which is on the disk before it has its name.
fn put(path: &Path, bytes: &[u8], like: &Path) -> Result<(), OriginError> {
    let failed = failed("write", path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".memfold-");
    let mut file = builder.tempfile_in(folder).map_err(&failed)?;
    file.write_all(bytes).map_err(&failed)?;
    let permissions = fs::metadata(like).map_err(&failed)?.permissions();
    file.as_file().set_permissions(permissions).map_err(&failed)?;
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    // The name is on the disk with its folder; some file systems cannot sync one.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}
