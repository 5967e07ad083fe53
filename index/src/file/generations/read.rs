//! [`Generations`] and [`Generation`]: what is live, mapped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::manifest::{Manifest, ManifestFile, head_checksum};
use super::{GenerationError, INDEX_FILE, names};
use crate::file::sections::Checksum;
use crate::file::{FileKind, SectionFile, SectionFileError};
use crate::{Mapped, Progress};

/// Generations that may vanish while one tries to open them. Each is two builds that end within the
/// microseconds of an attempt, so this many mean that something else is wrong.
const ATTEMPTS: usize = 1_000;

/// Bytes between two looks at the wish to stop.
const PIECE_BYTES: usize = 4 << 20;

/// A folder of generations, for reading.
///
/// Readers take no lock, write nothing and never wait for a writer; they work in folders that they may
/// not write.
#[derive(Debug, Clone)]
pub struct Generations {
    folder: PathBuf,
}

/// A generation: its files, mapped, and the fresh rows seen so far.
///
/// It stays whole while newer ones are published and after its files are deleted.
#[derive(Debug, Clone)]
pub struct Generation {
    folder: PathBuf,
    /// Which folder it is, should another get the same name.
    identity: FolderIdentity,
    manifest: Manifest,
    files: BTreeMap<String, Mapped>,
    fresh: Vec<SectionFile>,
}

impl Generations {
    /// Names a folder, which need not exist.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Maps the live generation and its fresh rows; `None` where nothing was ever published.
    ///
    /// Costs some system calls for each file, whatever its size; contents are not read.
    ///
    /// # Errors
    /// When the manifest, a file or a segment of fresh rows is missing, damaged or cannot be read.
    pub fn current(&self) -> Result<Option<Generation>, GenerationError> {
        let mut tried = None;
        for _ in 0..ATTEMPTS {
            let Some(manifest) = Manifest::read(&self.folder)? else { return Ok(None) };
            match Generation::open(&self.folder, &manifest) {
                // It was replaced since MANIFEST was read, unless MANIFEST still says so.
                Err(GenerationError::Missing { .. }) if tried.as_ref() != Some(&manifest) => {
                    tried = Some(manifest);
                }
                opened => return opened.map(Some),
            }
        }
        Err(GenerationError::Unsettled { path: self.folder.clone() })
    }

    /// Tells whether a generation is still the live one; reads the manifest and nothing else.
    ///
    /// # Errors
    /// When the manifest is damaged or cannot be read.
    pub fn is_current(&self, generation: &Generation) -> Result<bool, GenerationError> {
        let live = Manifest::read(&self.folder)?;
        Ok(live.as_ref() == Some(&generation.manifest) && generation.is_in_place())
    }
}

impl Generation {
    fn open(folder: &Path, manifest: &Manifest) -> Result<Self, GenerationError> {
        Self::map_files(folder, manifest)?.with_fresh()
    }

    /// Maps the files that the manifest names.
    pub(super) fn map_files(folder: &Path, manifest: &Manifest) -> Result<Self, GenerationError> {
        let folder = folder.join(names::generation(manifest.number));
        let identity = FolderIdentity::of(&folder)?;
        let mut files = BTreeMap::new();
        for expected in &manifest.files {
            let path = folder.join(&expected.name);
            let mapped = map(&path)?.ok_or(GenerationError::Missing { path: path.clone() })?;
            check(&path, &mapped, expected)?;
            files.insert(expected.name.clone(), mapped);
        }
        Ok(Self { folder, identity, manifest: manifest.clone(), files, fresh: Vec::new() })
    }

    /// Maps all segments sealed so far.
    pub(super) fn with_fresh(mut self) -> Result<Self, GenerationError> {
        self.see_fresh()?;
        // Folders are renamed before they are emptied: one that is still in place had all its segments.
        if self.is_in_place() {
            Ok(self)
        } else {
            Err(GenerationError::Missing { path: self.folder })
        }
    }

    /// Returns its number, which grows with each generation.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.manifest.number
    }

    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a file by name; a clone shares the map.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&Mapped> {
        self.files.get(name)
    }

    /// Returns its files with their names, in the order of these.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Mapped)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }

    /// Returns names and lengths of all that lookups read: its files, then the segments of fresh rows seen so far.
    pub fn file_lengths(&self) -> impl Iterator<Item = (String, u64)> {
        let files = self.files.iter().map(|(name, file)| (name.clone(), file));
        let fresh = (1..).zip(&self.fresh);
        let fresh = fresh.map(|(number, file)| (names::fresh(number), file.mapped()));
        files.chain(fresh).map(|(name, file)| (name, file.len() as u64))
    }

    /// Compares every byte of its files with what was published.
    ///
    /// # Errors
    /// The first file that is not as it was written, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), SectionFileError> {
        let bytes = self.files.values().map(|file| file.len() as u64).sum();
        progress.begin("verify files", Some(bytes));
        for file in &self.manifest.files {
            // A generation is opened with all files of its manifest.
            let found = self.files.get(&file.name).map(|mapped| checksum_of(mapped, progress));
            if found.transpose()? != Some(file.checksum) {
                return Err(SectionFileError::File { path: self.folder.join(&file.name) });
            }
        }
        progress.end();
        Ok(())
    }

    /// Opens `index.mfi`.
    ///
    /// # Errors
    /// When the generation has none, or it is damaged.
    pub fn index(&self) -> Result<SectionFile, GenerationError> {
        let path = self.folder.join(INDEX_FILE);
        let Some(mapped) = self.file(INDEX_FILE) else {
            return Err(GenerationError::Missing { path });
        };
        Ok(SectionFile::from_mapped(mapped.clone(), &path, FileKind::Index)?)
    }

    /// Returns the segments of fresh rows seen so far, in the order in which they were sealed.
    #[must_use]
    pub fn fresh(&self) -> &[SectionFile] {
        &self.fresh
    }

    /// Maps the segments that any process has sealed since, and returns how many there were.
    ///
    /// Costs two system calls where there are none. A generation whose folder is gone gets no more.
    ///
    /// # Errors
    /// When a segment is damaged or cannot be mapped; those before it are kept.
    pub fn see_fresh(&mut self) -> Result<usize, GenerationError> {
        if !self.is_in_place() {
            return Ok(0);
        }
        let known = self.fresh.len();
        loop {
            let path = self.folder.join(names::fresh(self.next_fresh()));
            let Some(mapped) = map(&path)? else { break };
            self.fresh.push(SectionFile::from_mapped(mapped, &path, FileKind::Fresh)?);
        }
        Ok(self.fresh.len() - known)
    }

    /// Tells whether any process has sealed a segment that was not seen yet.
    #[must_use]
    pub fn has_more_fresh(&self) -> bool {
        self.folder.join(names::fresh(self.next_fresh())).exists()
    }

    /// Returns the number of the segment that would be sealed next.
    pub(super) fn next_fresh(&self) -> u32 {
        self.fresh.len() as u32 + 1
    }

    /// Tells whether its folder is there and not another of its name.
    pub(super) fn is_in_place(&self) -> bool {
        FolderIdentity::of(&self.folder).ok() == Some(self.identity)
    }
}

/// Maps a regular file that is not a link; `None` where there is nothing of this name.
pub(super) fn map(path: &Path) -> Result<Option<Mapped>, GenerationError> {
    let opened = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(GenerationError::NotAFile { path: path.into() });
        }
        Ok(_) => File::open(path),
        Err(error) => Err(error),
    };
    match opened {
        Ok(file) => Ok(Some(Mapped::map(&file, path)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(GenerationError::io("open", path)(error)),
    }
}

fn check(path: &Path, mapped: &Mapped, expected: &ManifestFile) -> Result<(), GenerationError> {
    let found = mapped.len() as u64;
    if found != expected.bytes {
        let (path, expected) = (path.into(), expected.bytes);
        return Err(GenerationError::Length { path, expected, found });
    }
    if head_checksum(mapped) != expected.head_checksum {
        return Err(GenerationError::Beginning { path: path.into() });
    }
    Ok(())
}

/// Returns the checksum of all bytes, looking now and then for the wish to stop; counts bytes as progress.
fn checksum_of(bytes: &[u8], progress: &dyn Progress) -> Result<u64, SectionFileError> {
    let mut hasher = Checksum::default();
    for piece in bytes.chunks(PIECE_BYTES) {
        if progress.cancelled() {
            return Err(SectionFileError::Cancelled);
        }
        hasher.update(piece);
        progress.advance(piece.len() as u64);
    }
    Ok(hasher.finish())
}

/// Tells folders of one name apart: numbers begin anew when everything was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderIdentity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    /// Inodes are used again; together with the time they are not. `None` where it is not kept.
    created: Option<SystemTime>,
}

impl FolderIdentity {
    fn of(path: &Path) -> Result<Self, GenerationError> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Ok(Self {
                #[cfg(unix)]
                device_and_inode: {
                    use std::os::unix::fs::MetadataExt;
                    (found.dev(), found.ino())
                },
                created: found.created().ok(),
            }),
            Ok(_) => Err(GenerationError::NotAFolder { path: path.into() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(GenerationError::Missing { path: path.into() })
            }
            Err(error) => Err(GenerationError::io("open", path)(error)),
        }
    }
}
