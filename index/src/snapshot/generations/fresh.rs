//! [`FreshWriter`]: sealed fresh rows for a generation that is live.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{Disk, Refused};
use super::lock::LockFile;
use super::{FileMode, Generation, OpenGenerationError, WriteGenerationError, names};
use crate::Mapped;
use crate::snapshot::{FileKind, SectionFile};

/// Adds a segment of fresh rows; holds a lock of the generation until it is published or dropped.
///
/// The lock is not that of generations: rows can be sealed while the next generation is being built. Dropped before
/// [`publish`](Self::publish), it leaves nothing that a reader would see.
#[derive(Debug)]
pub struct FreshWriter<'g> {
    generation: &'g mut Generation,
    path: PathBuf,
    mode: FileMode,
    disk: Disk,
    _lock: LockFile,
}

impl<'g> FreshWriter<'g> {
    /// Takes the lock and maps the segments that others have sealed, so that the caller knows what is left.
    ///
    /// Waits up to about `wait` for another process; zero tries once.
    ///
    /// # Errors
    /// When another process seals, the generation's folder is gone, or the system refuses.
    pub fn begin(
        generation: &'g mut Generation,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, WriteGenerationError> {
        Self::begin_on(Disk::default(), generation, mode, wait)
    }

    pub(super) fn begin_on(
        disk: Disk,
        generation: &'g mut Generation,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, WriteGenerationError> {
        let gone = || WriteGenerationError::Gone { path: generation.folder().to_owned() };
        if !generation.is_in_place() {
            return Err(gone());
        }
        let lock = LockFile::take(&disk, &generation.folder().join(names::LOCK), mode, wait);
        if !generation.is_in_place() {
            return Err(gone());
        }
        let lock = lock?;
        generation.see_fresh()?;
        let name = names::fresh(generation.next_fresh()) + names::PENDING;
        let path = generation.folder().join(name);
        // Left behind by one that died: the lock is ours.
        disk.remove(&path)?;
        Ok(Self { generation, path, mode, disk, _lock: lock })
    }

    /// Returns the generation with all segments sealed so far.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        self.generation
    }

    /// Returns where the segment is written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file of the segment, for a [`SectionFileWriter`](crate::snapshot::SectionFileWriter).
    ///
    /// # Errors
    /// When it was opened before, the generation is gone, or the system refuses.
    pub fn create(&self) -> Result<File, WriteGenerationError> {
        self.disk.create_file(&self.path, self.mode).map_err(|refused| self.refused(refused))
    }

    /// Makes the segment durable and visible to every process, and returns its number.
    ///
    /// # Errors
    /// When the file is no finished segment, the generation is gone, or the system refuses; the segment is then
    /// not there, unless only the very last step failed, which makes its name durable.
    pub fn publish(self) -> Result<u32, WriteGenerationError> {
        let number = self.generation.next_fresh();
        let place = self.generation.folder().join(names::fresh(number));
        let refused = |refused| self.refused(refused);
        let file = File::open(&self.path)
            .map_err(|error| refused(Refused::new("open", &self.path, error)))?;
        let mapped = Mapped::map(&file, &self.path).map_err(OpenGenerationError::from)?;
        SectionFile::from_mapped(mapped, &self.path, FileKind::Fresh)?;
        self.disk.sync_file(&file, &self.path).map_err(refused)?;
        self.disk.rename(&self.path, &place).map_err(refused)?;
        self.disk.sync_folder(self.generation.folder()).map_err(refused)?;
        self.generation.see_fresh()?;
        Ok(number)
    }

    /// Says so where the folder went away under our hands.
    fn refused(&self, refused: Refused) -> WriteGenerationError {
        if self.generation.is_in_place() {
            refused.into()
        } else {
            WriteGenerationError::Gone { path: self.generation.folder().to_owned() }
        }
    }
}

impl Drop for FreshWriter<'_> {
    fn drop(&mut self) {
        // After publishing there is nothing of this name.
        if self.generation.is_in_place() {
            let _ = self.disk.remove(&self.path);
        }
    }
}
