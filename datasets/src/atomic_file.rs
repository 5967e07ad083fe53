//! [`NewFile`]: a file that appears whole or not at all, and [`place_of`]: where it may.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use memfold_index::file::FileMode;
use tempfile::{PathPersistError, TempPath};

/// Returns where a file that is written to `path` will stand: a link is followed, so that the file
/// it leads to is replaced and the link stays.
///
/// # Errors
/// When something other than a file is there (a folder, a device, a named pipe, a socket), when a
/// link leads nowhere, or when the system refuses to look. None of these is ever replaced.
pub fn place_of(path: &Path) -> io::Result<PathBuf> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let is_link = match path.symlink_metadata() {
        Ok(found) => found.is_symlink(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path.to_owned()),
        Err(error) => return Err(error),
    };
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            return Err(refused("it is a link that leads nowhere"));
        }
        Err(error) => return Err(error),
    };
    if !found.is_file() {
        return Err(refused(&format!("it is {}, not a file", kind_of(found.file_type()))));
    }
    // Links in these folders are the streams of a process, with any target.
    if is_link && ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) {
        return Err(refused("it is a stream, not a file"));
    }
    if is_link { path.canonicalize() } else { Ok(path.to_owned()) }
}

/// Refuses a path below `folder` of which a part is a link that leads out of the folder: a folder
/// that somebody else made (a clone of a repository, for example) does not decide where else is
/// written.
///
/// # Errors
/// When a part is a link out of the folder, or the folder cannot be read.
pub fn stay_within(folder: &Path, path: &Path) -> io::Result<()> {
    let Ok(below) = path.strip_prefix(folder) else { return Ok(()) };
    // The folder of a bare file name.
    let is_here = folder.as_os_str().is_empty();
    let root = if is_here { Path::new(".") } else { folder }.canonicalize()?;
    let mut at = folder.to_owned();
    for part in below.components() {
        at.push(part);
        if !at.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            continue;
        }
        let leads_within = at.canonicalize().is_ok_and(|place| place.starts_with(&root));
        if !leads_within {
            let reason =
                format!("{} is a link that leads out of {}", at.display(), folder.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
    }
    Ok(())
}

/// Makes a file that is not there yet, with the permissions that both `mode` and the process's mask
/// allow, open for reading and writing. Unlike the crate `tempfile`, its errors do not name the
/// file.
///
/// # Errors
/// When the file is there already, or the system refuses.
pub fn open_new(path: &Path, mode: FileMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// Removes the path of a temporary file from a system error: the user never named that file.
pub fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((what, _)) => io::Error::new(error.kind(), what.to_owned()),
        None => error,
    }
}

#[cfg(unix)]
fn kind_of(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn kind_of(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "a device" }
}

/// A file being written: under a temporary name beside its place, or under no name at all.
///
/// Nobody sees the content before [`publish`](Self::publish), not even under its name. Dropped
/// before [`publish`](Self::publish), it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    file: BufWriter<File>,
    /// The temporary name and the place; `None` for a file without a name.
    place: Option<(TempPath, PathBuf)>,
}

/// How the names of temporary files begin; they end with `-NAME.tmp`, so that the owner of a
/// leftover is known after a process was killed.
pub const TEMPORARY_PREFIX: &str = ".memfold-";

/// File systems limit names to 255 bytes.
const NAME_BYTES_MAX: usize = 200;

/// How the name of a temporary file for a place ends.
#[must_use]
pub fn temporary_suffix(path: &Path) -> String {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    match name.filter(|name| name.len() <= NAME_BYTES_MAX) {
        Some(name) => format!("-{name}.tmp"),
        None => ".tmp".to_owned(),
    }
}

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

impl NewFile {
    /// Opens a temporary file in the folder of the [place](place_of) of `path`, with the
    /// permissions that the process's mask allows.
    ///
    /// # Errors
    /// When the folder is missing or cannot be written, or something other than a file is there.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_with(path, FileMode::from_bits(0o666))
    }

    /// As [`create`](Self::create), with the permissions that both `mode` and the mask allow:
    /// nobody who may not read a store may read files derived from it.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_with(path: &Path, mode: FileMode) -> io::Result<Self> {
        let path = &*place_of(path)?;
        let suffix = temporary_suffix(path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY_PREFIX).suffix(&suffix);
        let file = builder.make_in(folder_of(path), |path| open_new(path, mode))?;
        let (file, name) = file.into_parts();
        Ok(Self { place: Some((name, path.into())), ..Self::from_file(file) })
    }

    /// As [`create`](Self::create), with exactly the permissions of `like`, independent of the
    /// mask: a file that takes the place of another one is for the same people.
    ///
    /// # Errors
    /// As [`create`](Self::create), and when `like` cannot be examined.
    pub fn create_like(path: &Path, like: &Path) -> io::Result<Self> {
        let found = like.metadata()?;
        let file = Self::create_with(path, FileMode::PRIVATE)?;
        file.file.get_ref().set_permissions(found.permissions())?;
        Ok(file)
    }

    /// Opens a file without a name in `folder`; the system removes it when it is closed.
    ///
    /// # Errors
    /// When the folder is missing or cannot be written.
    pub fn create_unlinked(folder: &Path) -> io::Result<Self> {
        Ok(Self::from_file(tempfile::tempfile_in(folder)?))
    }

    /// Takes an empty, readable and writable file that needs no publishing.
    #[must_use]
    pub fn from_file(file: File) -> Self {
        Self { file: BufWriter::with_capacity(BUFFER_BYTES, file), place: None }
    }

    /// Returns the place that the file will take.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.as_ref().map_or(Path::new("unnamed file"), |(_, path)| path)
    }

    /// Makes the bytes durable and returns the temporary name and the place, for a caller who moves
    /// the file; `None` for a file without a name. The temporary file goes when its name is
    /// dropped.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(self) -> io::Result<Option<(TempPath, PathBuf)>> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(self.place)
    }

    /// Makes the bytes durable, moves the file to its place and makes that durable too.
    ///
    /// A file without a name is returned as it is.
    ///
    /// # Errors
    /// When the system refuses; the place then has its former content.
    pub fn publish(self) -> io::Result<File> {
        self.publish_by(TempPath::persist)
    }

    /// As [`publish`](Self::publish), unless a file is at the place already.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and `AlreadyExists`.
    pub fn publish_new(self) -> io::Result<File> {
        self.publish_by(TempPath::persist_noclobber)
    }

    fn publish_by(
        self,
        persist: impl FnOnce(TempPath, PathBuf) -> Result<(), PathPersistError>,
    ) -> io::Result<File> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some((name, path)) = self.place {
            file.sync_all()?;
            persist(name, path.clone()).map_err(|failed| failed.error)?;
            sync_folder(folder_of(&path))?;
        }
        Ok(file)
    }
}

impl io::Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl io::Seek for NewFile {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows has no equivalent and needs none.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn nothing_is_seen_before_publish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"all").unwrap();
        assert!(!path.exists());
        file.publish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"all");
    }

    #[cfg(unix)]
    #[test]
    fn links_must_not_lead_out_of_a_folder() {
        use std::os::unix::fs::symlink;
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        symlink(other.path(), at("out")).unwrap();
        symlink("real", at("in")).unwrap();
        symlink(other.path().join("missing"), at("nowhere")).unwrap();
        for (path, stays) in
            [("real/a", true), ("in/a", true), ("out/a", false), ("nowhere", false), ("b/c", true)]
        {
            assert_eq!(stay_within(folder.path(), &at(path)).is_ok(), stays, "{path}");
        }
        assert!(stay_within(folder.path(), other.path()).is_ok(), "not below it");
        assert!(stay_within(Path::new(""), Path::new(".memfold/a")).is_ok());
    }

    /// `--force` replaced `/dev/null` and named pipes by a rename, and links by a file.
    #[cfg(unix)]
    #[test]
    fn only_files_are_replaced_and_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("sink")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let mut file = NewFile::create(&at("link")).unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert_eq!(std::fs::read(at("file")).unwrap(), b"new");
        assert!(at("link").is_symlink());
        for (path, reason) in [
            (at("dangling"), "it is a link that leads nowhere"),
            (at("sink"), "it is a device, not a file"),
            (at("socket"), "it is a socket, not a file"),
            (folder.path().to_owned(), "it is a folder, not a file"),
            (PathBuf::from("/dev/null"), "it is a device, not a file"),
        ] {
            let error = NewFile::create(&path).unwrap_err();
            assert_eq!(error.to_string(), reason, "{}", path.display());
        }
        assert_eq!(place_of(&at("nothing")).unwrap(), at("nothing"));
        // Messages named the temporary file, although the user had never named it.
        let missing = NewFile::create(&at("nowhere/file")).unwrap_err().to_string();
        assert_eq!(missing, io::Error::from_raw_os_error(2).to_string());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "no leftovers");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_for_those_whom_its_mode_allows() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let file = NewFile::create_with(&path, FileMode::PRIVATE).unwrap();
        let partial = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        assert_eq!(mode(&partial), 0o600, "from the start");
        file.publish().unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_like_another_is_for_the_same_people() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("rows"), folder.path().join("other"));
        std::fs::write(&other, "").unwrap();
        // The usual mask takes writing from the group and from others.
        for bits in [0o664, 0o666, 0o600, 0o444] {
            std::fs::set_permissions(&other, std::fs::Permissions::from_mode(bits)).unwrap();
            let mut file = NewFile::create_like(&path, &other).unwrap();
            file.write_all(b"new").unwrap();
            file.publish().unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, bits);
        }
        assert!(NewFile::create_like(&path, &folder.path().join("missing")).is_err());
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(NewFile::create(&folder.path().join("rows")).unwrap());
        let missing = NewFile::create(&folder.path().join("missing/rows")).unwrap_err();
        assert!(!missing.to_string().contains(".tmp"), "{missing} names what the user knows");
        drop(NewFile::create_unlinked(folder.path()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
