//! [`IndexFiles`]: the mapped files of a generation, whatever it was built from.

use memfold_datasets::MappedColumns;
use memfold_index::Mapped;
use memfold_index::file::generations::{COLUMNS_FILE, INDEX_FILE};
use memfold_index::file::{Generation, SectionFile};
use memfold_index::index_file::IndexView;

use super::{ORIGIN_FILE, OpenIndexError};

/// Which tier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTier {
    /// The flat index: exact.
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

/// Mapped files of one generation.
#[derive(Debug, Clone)]
pub struct IndexFiles {
    generation: Generation,
    tiers: SectionFile,
    columns: MappedColumns,
    tier: IndexTier,
}

impl IndexFiles {
    /// Opens the files of a generation, and reads its origin: what that is, and the dimension it tells.
    pub(super) fn open<T>(
        generation: Generation,
        read_origin: impl FnOnce(&[u8]) -> Result<T, String>,
        dim_of: impl FnOnce(&T) -> u32,
    ) -> Result<(Self, T), OpenIndexError> {
        let bytes = mapped(&generation, ORIGIN_FILE)?;
        let path = generation.folder().join(ORIGIN_FILE);
        let origin =
            read_origin(bytes).map_err(|reason| OpenIndexError::Origin { path, reason })?;
        let bytes = mapped(&generation, COLUMNS_FILE)?.clone();
        let columns = MappedColumns::from_mapped(bytes, &generation.folder().join(COLUMNS_FILE))?;
        let tiers = generation.index()?;
        let opened = |source| OpenIndexError::IndexBuild { path: tiers.path().into(), source };
        let tier = match IndexView::open(&tiers).map_err(opened)?.graph {
            Some(_) => IndexTier::Graph,
            None => IndexTier::Scan,
        };
        let files = Self { generation, tiers, columns, tier };
        files.check(dim_of(&origin))?;
        Ok((files, origin))
    }

    /// Returns a file of the generation.
    pub(super) fn mapped(&self, name: &'static str) -> Result<&Mapped, OpenIndexError> {
        mapped(&self.generation, name)
    }

    /// Compares rows and dimensions of the parts.
    fn check(&self, origin_dim: u32) -> Result<(), OpenIndexError> {
        let shape = |rows: usize, dim: usize| format!("{rows} rows of dimension {dim}");
        let (columns, head) = (&self.columns, self.tiers.head());
        let found = shape(head.row_count as usize, head.dim as usize);
        let expected = shape(columns.len(), columns.dim());
        let mismatch =
            |what| Err(OpenIndexError::Mismatch { path: self.generation.folder().into(), what });
        if found != expected {
            return mismatch(format!("{INDEX_FILE} has {found}, {COLUMNS_FILE} {expected}"));
        }
        if columns.dim() != origin_dim as usize {
            return mismatch(format!(
                "{ORIGIN_FILE} has dimension {origin_dim}, {COLUMNS_FILE} {expected}"
            ));
        }
        Ok(())
    }
    /// Returns the generation.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the file of flat index and graph.
    #[must_use]
    pub const fn tiers(&self) -> &SectionFile {
        &self.tiers
    }

    /// Returns the rows with ids and vectors; in the index of a file `rowid` is a row's place in it.
    #[must_use]
    pub const fn columns(&self) -> &MappedColumns {
        &self.columns
    }

    /// Returns which tier answers lookups.
    #[must_use]
    pub const fn tier(&self) -> IndexTier {
        self.tier
    }
}

fn mapped<'g>(
    generation: &'g Generation,
    name: &'static str,
) -> Result<&'g Mapped, OpenIndexError> {
    generation.file(name).ok_or_else(|| OpenIndexError::NoFile {
        folder: generation.folder().into(),
        generation: generation.number(),
        name,
    })
}
