//! [`StoreIndex`]: the live generation of a store, opened.

use std::path::Path;

use memfold_index::snapshot::{Generation, Generations};

use super::files::IndexFiles;
use super::{FreshSegment, OpenIndexError, Origin};
use crate::store::brain_db::Watermark;

/// An index of a store: mapped files of one generation, and what they were built from.
#[derive(Debug, Clone)]
pub struct StoreIndex {
    files: IndexFiles,
    origin: Origin,
    fresh: Vec<FreshSegment>,
}

impl StoreIndex {
    /// Opens the live generation in a folder; `None` where nothing was ever published.
    ///
    /// Costs some system calls and a few pages, whatever the size, and the ids of rows sealed since.
    ///
    /// # Errors
    /// When a file is missing, damaged, of another version, or does not fit the others.
    pub fn open(folder: &Path) -> Result<Option<Self>, OpenIndexError> {
        Generations::at(folder).current()?.map(Self::of).transpose()
    }

    /// Reads a generation and the segments that it has seen.
    pub(super) fn of(generation: Generation) -> Result<Self, OpenIndexError> {
        let (files, origin) = IndexFiles::open(generation, Origin::from_json, |origin| origin.dim)?;
        let mut fresh = Vec::new();
        for file in files.generation().fresh() {
            let path = file.path().to_owned();
            let opened = FreshSegment::open(file.clone());
            fresh.push(opened.map_err(|reason| OpenIndexError::Origin { path, reason })?);
        }
        Ok(Self { files, origin, fresh })
    }

    /// Returns its files.
    #[must_use]
    pub const fn files(&self) -> &IndexFiles {
        &self.files
    }

    /// Returns what it was built from.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the rows that were sealed since, in the order in which they came.
    #[must_use]
    pub fn fresh(&self) -> &[FreshSegment] {
        &self.fresh
    }

    /// Returns where the store's embeddings ended when it was built, or rows were sealed last.
    pub(super) fn watermarks(&self) -> &[Watermark] {
        self.fresh.last().map_or(&self.origin.watermarks, FreshSegment::watermarks)
    }
}
