//! Finds and reads the files of a configuration.

use std::fs::{self, File, FileType};
use std::io::Read;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};

use super::error::{ConfigError, shown};

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
            (Ok(true), Some(first)) => {
                let [first, second] = [first, path].map(|path| shown(&path.to_string_lossy()));
                let problem =
                    format!("two configurations stand in one folder: {first} and {second}");
                return Err(ConfigError::layers(problem, "remove one of them"));
            }
            (Err(cause), _) => return Err(ConfigError::Unreadable { path, cause }),
        }
    }
    Ok(found)
}

/// Reads a text file of limited size. Anything but a regular file, or a link to one, is refused before it is opened: opening a
/// named pipe waits for a writer that may never come, and a device may have no end.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    read_text_if(path, |_| Ok(()))
}

/// As [`read_text`], only where nobody but the user of this process, or the system's administrator, can have written it.
pub(super) fn read_own_text(path: &Path) -> Result<String, ConfigError> {
    let not_own = |problem: String| unusable(path, problem, OWN_ADVICE);
    let unreadable = |cause| ConfigError::Unreadable { path: path.into(), cause };
    // A link of somebody else's leads to whatever they like.
    let link = fs::symlink_metadata(path).map_err(unreadable)?;
    if link.is_symlink() {
        owner::check_owner(&link).map_err(|reason| not_own(format!("is a link that {reason}")))?;
    }
    read_text_if(path, |file| {
        owner::check_owner(file).and_then(|()| owner::check_writers(file)).map_err(not_own)
    })
}

/// As [`read_text`], where the opened file may be read.
fn read_text_if(
    path: &Path,
    check: impl FnOnce(&fs::Metadata) -> Result<(), ConfigError>,
) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable { path: path.into(), cause };
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let found = kind_name(kind);
        return Err(unusable(
            path,
            format!("is {found}"),
            match found {
                PIPE => "write its contents to a file and name that; `<(...)` makes a pipe as well",
                _ => "name a regular file, or a link to one",
            },
        ));
    }
    let file = File::open(path).map_err(unreadable)?;
    check(&file.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("is larger than {FILE_BYTES_MAX} bytes");
        let hint = "check that the path is that of a configuration";
        return Err(unusable(path, problem, hint));
    }
    String::from_utf8(bytes)
        .map_err(|_| unusable(path, "is not UTF-8 text", "save the file as UTF-8"))
}

fn unusable(path: &Path, problem: impl Into<String>, hint: &'static str) -> ConfigError {
    ConfigError::Unusable { path: path.into(), problem: problem.into().into(), hint }
}

const OWN_ADVICE: &str = "all who can write it decide what runs here do: make it yours alone (chown, chmod go-w), or \
                          move it away and name it with --config";
const PIPE: &str = "a pipe";

/// Names what is no regular file.
fn kind_name(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return PIPE;
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

/// Who owns a file, and who may write it.
#[cfg(unix)]
mod owner {
    use std::fs::Metadata;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    const ROOT: u32 = 0;
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;

    /// Says whose a file is, unless it is the user's or root's.
    pub(super) fn check_owner(file: &Metadata) -> Result<(), String> {
        let owner = file.uid();
        if owner == ROOT || Some(owner) == own_user() {
            return Ok(());
        }
        Err(format!("belongs to another user (number {owner})"))
    }

    /// Says that others may write a file. A group of the owner's number is taken for the owner's own: with such groups the
    /// mask 002 is common.
    pub(super) fn check_writers(file: &Metadata) -> Result<(), String> {
        let mode = file.permissions().mode();
        if mode & OTHERS_WRITE != 0 {
            return Err("can be written by everybody".to_owned());
        }
        if mode & GROUP_WRITES != 0 && file.gid() != file.uid() {
            return Err(format!("can be written by the group {}", file.gid()));
        }
        Ok(())
    }

    /// Returns the user of this process: the owner of what it makes.
    fn own_user() -> Option<u32> {
        let process = std::fs::metadata("/proc/self").ok();
        process
            .or_else(|| tempfile::tempfile().and_then(|file| file.metadata()).ok())
            .map(|found| found.uid())
    }
}

/// Files have no such owners here.
#[cfg(not(unix))]
mod owner {
    use std::fs::Metadata;

    pub(super) fn check_owner(_file: &Metadata) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn check_writers(_file: &Metadata) -> Result<(), String> {
        Ok(())
    }
}
