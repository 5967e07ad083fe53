//! Finds and reads the files of a configuration.

use std::fs::{self, File, FileType};
use std::io::Read;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};

use super::error::ConfigError;

/// Far above any configuration or lexicon written by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Endings of configuration files, the preferred first.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Returns the folder of the system's configuration.
pub(super) fn system_folder() -> PathBuf {
    PathBuf::from("/etc/memfold")
}

/// Returns the folder of the user's configuration (XDG, on every system), if there is a home.
pub(super) fn user_folder() -> Option<PathBuf> {
    Xdg::new().ok().map(|base| base.config_dir().join("memfold"))
}

/// Returns the folder of a store.
pub(super) fn store_folder(store: &Path) -> PathBuf {
    store.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Finds the one configuration of a name in a folder.
///
/// # Errors
///
/// Two of them, or a folder that cannot be looked into.
pub(super) fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>, ConfigError> {
    let mut found: Option<PathBuf> = None;
    for ending in ENDINGS {
        let path = folder.join(format!("{name}.{ending}"));
        match (path.try_exists(), found) {
            (Ok(false), before) => found = before,
            (Ok(true), None) => found = Some(path),
            (Ok(true), Some(first)) => return Err(ConfigError::TwoFiles { first, second: path }),
            (Err(cause), _) => return Err(ConfigError::Unreadable { path, cause }),
        }
    }
    Ok(found)
}

/// Reads a text file of limited size. Anything but a regular file, or a link to one, is refused before it is opened: opening a
/// named pipe waits for a writer that may never come, and a device may have no end.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable { path: path.into(), cause };
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        return Err(ConfigError::NotAFile { path: path.into(), found: kind_name(kind) });
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge { path: path.into(), bytes_max: FILE_BYTES_MAX });
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText { path: path.into() })
}

/// Names what is no regular file.
fn kind_name(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() { "a folder" } else { "no regular file" }
}
