//! [`Disk`]: every act on which the safety of a generation rests, in one place.
//!
//! Tests put a hook before each act: it writes down what happens, fails, or kills the process.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::FileMode;

/// An act on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    CreateFolder(PathBuf),
    CreateFile(PathBuf),
    Write(PathBuf),
    SetMode(PathBuf),
    SyncFile(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

type Hook = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// The disk, as writers of generations see it.
#[derive(Clone, Default)]
pub(super) struct Disk {
    hook: Option<Arc<Hook>>,
}

/// The operating system refused an act.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) action: &'static str,
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Refused {
    pub(super) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.into(), source }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Disk {
    #[cfg(test)]
    pub(super) fn hooked(hook: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    fn step(&self, step: impl FnOnce() -> Step) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(step()))
    }

    /// Makes a folder that only the owner may enter.
    pub(super) fn create_folder(&self, path: &Path) -> Result<(), Refused> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(false);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, FileMode::PRIVATE.folder_bits());
        self.step(|| Step::CreateFolder(path.into()))
            .and_then(|()| builder.create(path))
            .map_err(|e| Refused::new("create folder", path, e))
    }

    /// Makes a file that did not exist, with these permissions whatever the mask.
    pub(super) fn create_file(&self, path: &Path, mode: FileMode) -> Result<File, Refused> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
        let file = self
            .step(|| Step::CreateFile(path.into()))
            .and_then(|()| options.open(path))
            .map_err(|e| Refused::new("create", path, e))?;
        self.set_mode(path, mode.file_bits())?;
        Ok(file)
    }

    pub(super) fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), Refused> {
        self.step(|| Step::Write(path.into()))
            .and_then(|()| file.write_all(bytes))
            .map_err(|e| Refused::new("write", path, e))
    }

    /// Gives a file or folder its permissions.
    pub(super) fn set_mode(&self, path: &Path, bits: u32) -> Result<(), Refused> {
        self.step(|| Step::SetMode(path.into()))
            .and_then(|()| set_bits(path, bits))
            .map_err(|e| Refused::new("set permissions of", path, e))
    }

    pub(super) fn sync_file(&self, file: &File, path: &Path) -> Result<(), Refused> {
        self.step(|| Step::SyncFile(path.into()))
            .and_then(|()| file.sync_all())
            .map_err(|e| Refused::new("make durable", path, e))
    }

    /// Makes names in a folder durable.
    pub(super) fn sync_folder(&self, path: &Path) -> Result<(), Refused> {
        // Windows has no such call and needs none.
        let sync = || if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) };
        self.step(|| Step::SyncFolder(path.into()))
            .and_then(|()| sync())
            .map_err(|e| Refused::new("make durable", path, e))
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), Refused> {
        self.step(|| Step::Rename(from.into(), to.into()))
            .and_then(|()| fs::rename(from, to))
            .map_err(|e| Refused::new("rename", from, e))
    }

    /// Removes a file, a link or a folder with all that is in it, if it is there; follows no link.
    pub(super) fn remove(&self, path: &Path) -> Result<(), Refused> {
        let remove = || match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match self.step(|| Step::Remove(path.into())).and_then(|()| remove()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Refused::new("remove", path, error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn set_bits(path: &Path, bits: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn set_bits(_path: &Path, _bits: u32) -> io::Result<()> {
    Ok(())
}
