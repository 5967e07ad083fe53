//! [`StoreIndex`]: the live generation of a store, opened.

use std::path::Path;

use memfold_index::file::{Generation, Generations};

use memfold_index::file::{FileKind, SectionFile};
use memfold_index::index_file::IndexView;

use super::files::IndexFiles;
use super::texts::{TEXTS_FILE, TextRows, text_hash};
use super::{FreshSegment, OpenIndexError, Origin, SearchError};
use memfold_model::memory::MemoryId;
use memfold_store::brain_db::Marks;

/// An index of a store: mapped files of one generation, and what they were built from.
#[derive(Debug, Clone)]
pub struct StoreIndex {
    files: IndexFiles,
    origin: Origin,
    texts: SectionFile,
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
        let texts = files.mapped(TEXTS_FILE)?;
        let path = files.generation().folder().join(TEXTS_FILE);
        let texts = SectionFile::from_mapped(texts.clone(), &path, FileKind::Texts)
            .map_err(|error| OpenIndexError::Generation(error.into()))?;
        TextRows::open(&texts).map_err(|reason| OpenIndexError::Origin { path, reason })?;
        let mut fresh = Vec::new();
        for file in files.generation().fresh() {
            let path = file.path().to_owned();
            let opened = FreshSegment::open(file.clone());
            fresh.push(opened.map_err(|reason| OpenIndexError::Origin { path, reason })?);
        }
        Ok(Self { files, origin, texts, fresh })
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

    /// Returns the file of rows that are known by their text alone.
    pub(super) const fn texts(&self) -> &SectionFile {
        &self.texts
    }

    /// Returns the ids of rows whose text may have the loose key of this one, ascending. Some may be gone.
    ///
    /// # Errors
    /// When the index is damaged.
    pub(crate) fn ids_of_text(&self, text: &str) -> Result<Vec<String>, SearchError> {
        let damaged = |reason: String| SearchError::Damaged(reason);
        let (hash, columns) = (text_hash(text), self.files.columns());
        let tiers = IndexView::open(self.files.tiers()).map_err(|e| damaged(e.to_string()))?;
        let rows = tiers.text_keys.rows(hash).filter(|row| row.index() < columns.len());
        let mut ids = rows
            .map(|row| Ok(columns.id_at(row)?.to_owned()))
            .collect::<Result<Vec<_>, SearchError>>()?;
        let others = TextRows::open(&self.texts).map_err(damaged)?;
        ids.extend(others.ids(hash).map(str::to_owned));
        for segment in &self.fresh {
            ids.extend(segment.texts().map_err(damaged)?.ids(hash).map(str::to_owned));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Tells whether the index in a folder names one of the memories, or cannot be read; `None` where there is no index.
    #[must_use]
    pub fn names_any(folder: &Path, ids: &[MemoryId]) -> Option<bool> {
        match Self::open(folder) {
            Ok(None) => None,
            Ok(Some(index)) => Some(index.names(ids).unwrap_or(true)),
            Err(_) => Some(true),
        }
    }

    fn names(&self, ids: &[MemoryId]) -> Result<bool, SearchError> {
        let damaged = |reason: String| SearchError::Damaged(reason);
        let is_one = |id: &str| ids.iter().any(|wanted| wanted.as_str() == id);
        let columns = self.files.columns();
        if columns.ids().map_err(|error| damaged(error.to_string()))?.iter().flatten().any(is_one) {
            return Ok(true);
        }
        let others = TextRows::open(&self.texts).map_err(damaged)?;
        if others.all_ids().any(is_one) {
            return Ok(true);
        }
        for segment in &self.fresh {
            let texts = segment.texts().map_err(damaged)?;
            let rows = 0..segment.len();
            if texts.all_ids().any(is_one) || rows.into_iter().any(|row| is_one(segment.id(row))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns where the store ended when it was built, or rows were sealed last.
    pub(crate) fn marks(&self) -> &Marks {
        self.fresh.last().map_or(&self.origin.marks, FreshSegment::marks)
    }
}
