//! The two files: read at once, locked, replaced one after the other.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::graph::Graph;
use memfold_store::origin::OriginError;
use memfold_store::whole_file::{self, OsLock, PATIENCE};

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

/// Other programs empty the file before they write it anew: so long is waited for what they write.
const REWRITE: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Reads a file; one that is empty only once it stays so.
pub(super) fn settled(path: &Path) -> io::Result<Vec<u8>> {
    let mut left = REWRITE;
    loop {
        let bytes = fs::read(path)?;
        if !bytes.is_empty() || left.is_zero() {
            return Ok(bytes);
        }
        std::thread::sleep(BETWEEN_LOOKS);
        left = left.saturating_sub(BETWEEN_LOOKS);
    }
}

/// The digest by which the archive knows the file.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> OriginError + 'a {
    move |source| OriginError::Io { action, path: path.to_owned(), source }
}

/// Locks the file for the lifetime of what is returned.
pub(super) fn lock(path: &Path) -> Result<OsLock, OriginError> {
    let lock = OsLock::take_on(path, PATIENCE).map_err(failed("lock", path))?;
    lock.ok_or_else(|| OriginError::Locked { path: path.to_owned() })
}

impl Files {
    /// Reads both files; a missing archive is an empty one.
    pub(super) fn read(path: &Path) -> Result<Self, OriginError> {
        let memory = settled(path).map_err(failed("read", path))?;
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
            let replaced = whole_file::replace_expected(path, &memory, Some(&self.memory));
            if !replaced.map_err(failed("write", path))? {
                return Err(OriginError::Locked { path: path.to_owned() });
            }
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
    match whole_file::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes the temporary files that killed processes left of both files; only the holder of the lock may.
pub(super) fn remove_leftovers(path: &Path) -> Result<(), OriginError> {
    for left in leftovers(path) {
        remove(&left)?;
    }
    Ok(())
}

/// Returns the temporary files that killed processes left of both files.
pub(super) fn leftovers(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let mut found = whole_file::leftovers(folder, Some(path));
    found.extend(whole_file::leftovers(folder, Some(&archive_path(path))));
    found
}

/// Replaces a file by one with the permissions of `like`: the archive is for those who may read the file.
fn put(path: &Path, bytes: &[u8], like: &Path) -> Result<(), OriginError> {
    whole_file::replace(path, bytes, Some(like)).map_err(failed("write", path))
}
