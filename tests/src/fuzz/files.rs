//! Files for inputs that are read by path, in memory where possible.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use memfold_index::Mapped;
use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// A folder that is gone with its thread.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(IN_MEMORY).or_else(|_| tempfile::tempdir());
    folder.expect("the folder of temporary files is writable")
}

/// Maps bytes through a file without a name.
pub(super) fn map(bytes: &[u8]) -> Mapped {
    let file = tempfile::tempfile_in(IN_MEMORY).or_else(|_| tempfile::tempfile());
    let mut file: File = file.expect("the folder of temporary files is writable");
    file.write_all(bytes).expect("there is room for a small file");
    Mapped::from_file(&file).expect("a regular file can be mapped")
}

/// Puts a new file in the place of one, so that maps of the old one stay as they are.
pub(super) fn replace(path: &Path, bytes: &[u8]) {
    // It need not be there.
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).expect("there is room for a small file");
}

/// Calls back with the path of a file of these bytes.
pub(super) fn with_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FOLDER: TempDir = folder();
    }
    let path: PathBuf = FOLDER.with(|folder| folder.path().join(name));
    replace(&path, bytes);
    read(&path);
}
