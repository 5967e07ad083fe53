//! [`Generations`] and [`Generation`]: the live generation, mapped.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::disk::{self, Identity, fresh_name};
use super::manifest::{Manifest, head_checksum};
use super::{GenerationError, INDEX_FILE};
use crate::file::sections::SectionFault;
use crate::file::{FileKind, SectionFile, SectionFileError};
use crate::{Mapped, Progress};

/// Bytes between two looks at the wish to stop.
const PIECE_BYTES: usize = 4 << 20;

/// A folder of generations.
///
/// Readers take no lock, write nothing and never wait for a writer; they work in folders that they may
/// not write.
#[derive(Debug, Clone)]
pub struct Generations {
    pub(super) folder: PathBuf,
}

/// A generation: its files, mapped, and the fresh rows seen so far.
///
/// It stays whole while newer ones are published and after its files are deleted.
#[derive(Debug, Clone)]
pub struct Generation {
    folder: PathBuf,
    /// Numbers begin anew when everything was deleted: another folder may get this name.
    identity: Identity,
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

    /// Maps the live generation and its fresh rows; `None` where nothing was ever published.
    ///
    /// Costs some system calls for each file, whatever its size; contents are not read.
    ///
    /// # Errors
    /// When the manifest, a file or a segment of fresh rows is missing, damaged or cannot be read.
    pub fn current(&self) -> Result<Option<Generation>, GenerationError> {
        let mut tried = None;
        loop {
            let Some(manifest) = Manifest::read(&self.folder)? else { return Ok(None) };
            match Generation::map(&self.folder, &manifest).and_then(Generation::with_fresh) {
                // It was replaced since MANIFEST was read, unless MANIFEST still says so.
                Err(GenerationError::Missing(_)) if tried.as_ref() != Some(&manifest) => {
                    tried = Some(manifest);
                }
                opened => return opened.map(Some),
            }
        }
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
    /// Maps the files that the manifest names.
    pub(super) fn map(folder: &Path, manifest: &Manifest) -> Result<Self, GenerationError> {
        let folder = folder.join(disk::generation_name(manifest.number));
        let missing = |path: &Path| GenerationError::Missing(path.into());
        let identity = disk::find_folder(&folder)?.ok_or_else(|| missing(&folder))?;
        let mut files = BTreeMap::new();
        for file in &manifest.files {
            let path = folder.join(&file.name);
            let mapped = disk::map(&path)?.ok_or_else(|| missing(&path))?;
            let (expected, found) = (file.bytes, mapped.len() as u64);
            if found != expected {
                return Err(GenerationError::Length { path, expected, found });
            }
            if head_checksum(&mapped) != file.head_checksum {
                return Err(GenerationError::Beginning(path));
            }
            files.insert(file.name.clone(), mapped);
        }
        let manifest = manifest.clone();
        Ok(Self { folder, identity, manifest, files, fresh: Vec::new() })
    }

    /// Maps all segments sealed so far.
    pub(super) fn with_fresh(mut self) -> Result<Self, GenerationError> {
        self.see_fresh()?;
        // Folders are renamed before they are emptied: one that is still in place had all its segments.
        if self.is_in_place() { Ok(self) } else { Err(GenerationError::Missing(self.folder)) }
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
        let files = self.files().map(|(name, file)| (name.to_owned(), file));
        let fresh =
            (1..).zip(&self.fresh).map(|(number, file)| (fresh_name(number), file.mapped()));
        files.chain(fresh).map(|(name, file)| (name, file.len() as u64))
    }

    /// Compares every byte of its files with what was published.
    ///
    /// # Errors
    /// The first file that is not as it was written, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), SectionFileError> {
        let bytes = self.files.values().map(|file| file.len() as u64).sum();
        progress.begin("verify files", Some(bytes));
        // A generation is opened with all files of its manifest, which are in the same order.
        for (file, mapped) in self.manifest.files.iter().zip(self.files.values()) {
            let mut found = XxHash3_64::default();
            for piece in mapped.chunks(PIECE_BYTES) {
                if progress.cancelled() {
                    return Err(SectionFileError::Cancelled);
                }
                found.write(piece);
                progress.advance(piece.len() as u64);
            }
            if found.finish() != file.checksum {
                return Err(SectionFault::Bytes.of(&self.folder.join(&file.name)));
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
        match self.file(INDEX_FILE) {
            Some(mapped) => Ok(SectionFile::from_mapped(mapped.clone(), &path, FileKind::Index)?),
            None => Err(GenerationError::Missing(path)),
        }
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
        let known = self.fresh.len();
        while self.is_in_place() {
            let path = self.next_fresh_path();
            let Some(mapped) = disk::map(&path)? else { break };
            self.fresh.push(SectionFile::from_mapped(mapped, &path, FileKind::Fresh)?);
        }
        Ok(self.fresh.len() - known)
    }

    /// Tells whether any process has sealed a segment that was not seen yet.
    #[must_use]
    pub fn has_more_fresh(&self) -> bool {
        self.next_fresh_path().exists()
    }

    /// Returns the number of the segment that would be sealed next.
    pub(super) fn next_fresh(&self) -> u32 {
        self.fresh.len() as u32 + 1
    }

    pub(super) fn next_fresh_path(&self) -> PathBuf {
        self.folder.join(fresh_name(self.next_fresh()))
    }

    /// Tells whether its folder is there and not another of its name.
    pub(super) fn is_in_place(&self) -> bool {
        disk::find_folder(&self.folder).ok().flatten() == Some(self.identity)
    }
}
