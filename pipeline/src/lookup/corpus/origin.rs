//! [`CorpusOrigin`]: what a generation of rows of a file was built from.

use std::path::Path;

use memfold_datasets::corpus::CorpusOptions;
use memfold_index::Progress;

use super::FileStamp;
use crate::lookup::origin::{VERSION, read_origin};

/// Which columns of a file are read; `None`: those of the usual names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CorpusColumns {
    /// The column of the vectors.
    pub vector: Option<String>,
    /// The column of the ids.
    pub id: Option<String>,
}

impl CorpusColumns {
    /// Returns how a file is read by these columns; see [`CorpusOptions`].
    #[must_use]
    pub fn options<'a>(&self, scratch_dir: &Path, progress: &'a dyn Progress) -> CorpusOptions<'a> {
        let (vector_column, id_column) = (self.vector.clone(), self.id.clone());
        CorpusOptions { vector_column, id_column, progress, ..CorpusOptions::new(scratch_dir) }
    }
}

/// What a generation was built from, as its `origin.json` says it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CorpusOrigin {
    version: u32,
    /// The file.
    pub corpus: FileStamp,
    /// The columns that were asked for.
    pub columns: CorpusColumns,
    /// Components of each vector.
    pub dim: u32,
    /// Rows of the file.
    pub rows: u64,
    /// Those of them that have no usable vector.
    pub skipped: u64,
    /// Whether rows have ids.
    pub has_ids: bool,
}

/// What is found out when a file is read.
pub(super) struct ReadRows {
    pub(super) dim: u32,
    pub(super) rows: u64,
    pub(super) skipped: u64,
    pub(super) has_ids: bool,
}

impl CorpusOrigin {
    pub(super) fn new(corpus: FileStamp, columns: CorpusColumns, read: ReadRows) -> Self {
        let ReadRows { dim, rows, skipped, has_ids } = read;
        Self { version: VERSION, corpus, columns, dim, rows, skipped, has_ids }
    }

    /// Reads the file; an error says what is wrong with it.
    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        read_origin(bytes, ("model", "a store, not of a file of vectors"))
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("maps with text keys can be written as JSON")
    }
}
