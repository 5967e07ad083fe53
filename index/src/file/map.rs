//! [`Mapped`]: a read-only memory map behind a safe type.
#![expect(unsafe_code, reason = "mapping a file cannot be expressed safely")]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

/// Smaller files do not gain from large pages: two of them.
#[cfg(target_os = "linux")]
const LARGE_PAGES_BYTES_MIN: u64 = 4 << 20;

/// A read-only memory map of a whole regular file.
///
/// Opening costs no read: pages come in when they are touched, many at a time where the system can keep a file on
/// large pages: with a cold cache the first check among a million memories takes half the time. The map stays valid when the file is
/// renamed, replaced or unlinked, since it holds the file itself and not its name. Clones share it.
///
/// # Soundness
///
/// A map is a shared slice, so its bytes must not change while it lives. Files handed to this type
/// are ours and follow one protocol: they are written under a temporary name (or unlinked), published
/// by rename, and never truncated or changed afterwards; a new state is a new file. Pipes, devices
/// and folders are refused. Never map a file that another program may still write (a store).
///
/// # Examples
/// ```
/// let mut file = tempfile::tempfile()?;
/// std::io::Write::write_all(&mut file, b"rows")?;
/// let mapped = memfold_index::Mapped::from_file(&file)?;
/// assert_eq!(&*mapped, b"rows");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mapped {
    /// `None`: the file is empty, and an empty range cannot be mapped.
    map: Option<Arc<Mmap>>,
}

/// A file could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The file could not be opened.
    #[error("open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Only regular files keep their bytes.
    #[error("map {}: not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused the map.
    #[error("map {}", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl MapError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotAFile { .. } => {
                Some("give the path of a file, not of a folder, pipe or device".into())
            }
            Self::Open { .. } | Self::Map { .. } => None,
        }
    }
}

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened, is not a regular file, or cannot be mapped.
    pub fn open(path: &Path) -> Result<Self, MapError> {
        // Before opening: opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(path)
            .map_err(|source| MapError::Open { path: path.into(), source })?;
        if !metadata.is_file() {
            return Err(MapError::NotAFile { path: path.into() });
        }
        let file =
            File::open(path).map_err(|source| MapError::Open { path: path.into(), source })?;
        Self::map(&file, path)
    }

    /// Maps an open file, for instance one without a name.
    ///
    /// # Errors
    /// When it is not a regular file or cannot be mapped.
    pub fn from_file(file: &File) -> Result<Self, MapError> {
        Self::map(file, Path::new("unnamed file"))
    }

    /// Maps an open file; `path` is the name that errors use.
    pub(super) fn map(file: &File, path: &Path) -> Result<Self, MapError> {
        let failed = |source| MapError::Map { path: path.into(), source };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(MapError::NotAFile { path: path.into() });
        }
        if metadata.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the file is regular and, by the protocol in the type's docs, never changed or truncated.
        let map = unsafe { Mmap::map(file) }.map_err(failed)?;
        // A hint: without it everything works, and takes longer.
        #[cfg(target_os = "linux")]
        if metadata.len() >= LARGE_PAGES_BYTES_MIN {
            let _unheeded = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map: Some(Arc::new(map)) })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| map)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_map_outlives_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        std::fs::write(&path, b"some rows").unwrap();
        let mapped = Mapped::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped.as_ref(), b"some rows");
    }

    #[test]
    fn an_empty_file_is_an_empty_slice() {
        let mapped = Mapped::from_file(&tempfile::tempfile().unwrap()).unwrap();
        assert!(mapped.is_empty());
    }

    #[test]
    fn an_unnamed_file_is_mapped_whole() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        assert_eq!(*Mapped::from_file(&file).unwrap(), [7; 10_000]);
    }

    #[test]
    fn errors_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = Mapped::open(folder.path()).unwrap_err();
        assert!(error.to_string().ends_with("not a regular file"), "{error}");
        assert!(error.hint().is_some());
        let missing = folder.path().join("missing");
        let error = Mapped::open(&missing).unwrap_err();
        assert_eq!(error.to_string(), format!("open {}", missing.display()));
    }
}
