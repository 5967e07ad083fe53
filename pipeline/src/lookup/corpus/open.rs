//! [`CorpusIndex`]: the live generation of a file's rows, opened.

use std::io;
use std::path::Path;

use memfold_index::file::Generations;

use super::{CorpusOrigin, FileStamp};
use crate::lookup::{IndexFiles, OpenIndexError};

/// An index of a file: mapped files of one generation, and what they were built from.
#[derive(Debug, Clone)]
pub struct CorpusIndex {
    files: IndexFiles,
    origin: CorpusOrigin,
}

impl CorpusIndex {
    /// Opens the live generation in a folder, in constant time; `None` where nothing was ever published.
    ///
    /// # Errors
    /// When a file is missing, damaged, of another version, does not fit the others, or is of a store.
    pub fn open(folder: &Path) -> Result<Option<Self>, OpenIndexError> {
        let Some(generation) = Generations::at(folder).current()? else { return Ok(None) };
        let (files, origin) =
            IndexFiles::open(generation, CorpusOrigin::from_json, |origin| origin.dim)?;
        Ok(Some(Self { files, origin }))
    }

    /// Tells whether the file at `path` looks as it did when it was indexed: length, time of the last change, both ends.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn fits(&self, path: &Path) -> io::Result<bool> {
        Ok(self.origin.corpus.fits(&FileStamp::take(path)?))
    }

    /// Returns its files.
    #[must_use]
    pub const fn files(&self) -> &IndexFiles {
        &self.files
    }

    /// Returns what it was built from.
    #[must_use]
    pub const fn origin(&self) -> &CorpusOrigin {
        &self.origin
    }
}
