//! [`StoreIndex`]: the live generation of a store, opened.

use std::path::Path;

use memfold_datasets::MappedColumns;
use memfold_index::snapshot::generations::{COLUMNS_FILE, INDEX_FILE};
use memfold_index::snapshot::{Generation, Generations, SectionFile};
use memfold_index::tiers::TierViews;

use super::{FreshSegment, ORIGIN_FILE, OpenIndexError, Origin};
use crate::store::brain_db::Watermark;

/// Which tier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTier {
    /// The slab: exact.
    Scan,
    /// The graph: nearly all.
    Graph,
}

impl IndexTier {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Graph => "graph",
        }
    }
}

/// An index of a store: mapped files of one generation, and what they were built from.
#[derive(Debug, Clone)]
pub struct StoreIndex {
    generation: Generation,
    file: SectionFile,
    columns: MappedColumns,
    origin: Origin,
    tier: IndexTier,
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
        let mapped = |name: &'static str| {
            let found = generation.file(name).map(|file| (generation.folder().join(name), file));
            found.ok_or_else(|| OpenIndexError::NoFile {
                folder: generation.folder().into(),
                generation: generation.number(),
                name,
            })
        };
        let (path, bytes) = mapped(ORIGIN_FILE)?;
        let origin =
            Origin::from_json(bytes).map_err(|reason| OpenIndexError::Origin { path, reason })?;
        let (path, bytes) = mapped(COLUMNS_FILE)?;
        let columns = MappedColumns::from_mapped(bytes.clone(), &path)?;
        let file = generation.index()?;
        let opened = |source| OpenIndexError::Tiers { path: file.path().into(), source };
        let tier = match TierViews::open(&file).map_err(opened)?.graph {
            Some(_) => IndexTier::Graph,
            None => IndexTier::Scan,
        };
        let mut fresh = Vec::new();
        for file in generation.fresh() {
            let path = file.path().to_owned();
            let opened = FreshSegment::open(file.clone());
            fresh.push(opened.map_err(|reason| OpenIndexError::Origin { path, reason })?);
        }
        let index = Self { file, columns, origin, tier, fresh, generation };
        index.check()?;
        Ok(index)
    }

    /// Compares rows and dimensions of the parts.
    fn check(&self) -> Result<(), OpenIndexError> {
        let shape = |rows: usize, dim: usize| format!("{rows} rows of dimension {dim}");
        let (columns, head) = (&self.columns, self.file.head());
        let found = shape(head.row_count as usize, head.dim as usize);
        let expected = shape(columns.len(), columns.dim());
        let mismatch =
            |what| Err(OpenIndexError::Mismatch { path: self.generation.folder().into(), what });
        if found != expected {
            return mismatch(format!("{INDEX_FILE} has {found}, {COLUMNS_FILE} {expected}"));
        }
        if columns.dim() != self.origin.dim as usize {
            return mismatch(format!(
                "{ORIGIN_FILE} has dimension {}, {COLUMNS_FILE} {expected}",
                self.origin.dim
            ));
        }
        Ok(())
    }

    /// Returns the generation.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the file of slab and graph.
    #[must_use]
    pub const fn file(&self) -> &SectionFile {
        &self.file
    }

    /// Returns the rows with ids and vectors.
    #[must_use]
    pub const fn columns(&self) -> &MappedColumns {
        &self.columns
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

    /// Returns which tier answers lookups.
    #[must_use]
    pub const fn tier(&self) -> IndexTier {
        self.tier
    }
}
