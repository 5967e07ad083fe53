//! What `memfold index` prints with `--json`.

use std::collections::BTreeMap;

use memfold::lookup::{IndexDifference, IndexFiles};

use crate::document::documents;

documents! {
    "index-build" => BuildDocument,
    "index-info" => InfoDocument,
    "index-verify" => VerifyDocument,
}

/// `memfold index build --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BuildDocument {
    pub(super) schema_version: u32,
    /// The number of the generation that lookups read from now on.
    pub(super) generation: u64,
    /// What answers lookups: `scan` or `graph`.
    pub(super) tier: &'static str,
    /// Why the graph was thrown away; `null` where it was not.
    pub(super) graph_refused: Option<String>,
    /// Rows with a vector, which lookups find.
    pub(super) rows: u64,
    /// Live memories that have no vector of this model; rows of a file that have no usable one.
    pub(super) without_vector: u64,
    /// The embedding model; `null` for a file, which names none.
    pub(super) model: Option<String>,
    /// Components of each vector.
    pub(super) dim: u32,
    pub(super) index_bytes: u64,
    pub(super) columns_bytes: u64,
    /// The folder of generations.
    pub(super) folder: String,
    pub(super) seconds: f64,
    /// Peak resident memory of the process; `null` where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process; `null` where the system does not tell.
    pub(super) peak_anon_bytes: Option<u64>,
}

/// `memfold index info --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InfoDocument {
    pub(super) schema_version: u32,
    /// The number of the live generation.
    pub(super) generation: u64,
    /// What answers lookups: `scan` or `graph`.
    pub(super) tier: &'static str,
    /// Rows of the generation.
    pub(super) rows: u64,
    /// Rows that differ in at least one bit; all rows where there is no graph.
    pub(super) nodes: u64,
    /// The embedding model; `null` for a file, which names none.
    pub(super) model: Option<String>,
    /// Components of each vector.
    pub(super) dim: u32,
    /// Live memories that had no vector of this model; rows of a file that had no usable one.
    pub(super) without_vector: u64,
    /// Rows that were added since, and segments that hold them.
    pub(super) sealed_rows: u64,
    pub(super) segments: u64,
    /// Vectors that came since and are compared one by one; `null` where the index no longer fits.
    pub(super) fresh_rows: Option<u64>,
    /// Whether the index no longer fits, so that lookups do without it.
    pub(super) foreign: bool,
    /// Lengths of the files by their names.
    pub(super) bytes: BTreeMap<String, u64>,
    /// Stands for every byte of `index.mfi`: 16 hexadecimal digits.
    pub(super) fingerprint: String,
    /// The folder of generations.
    pub(super) folder: String,
}

impl InfoDocument {
    /// What the files of a generation tell: it fits, and nothing has come since.
    pub(super) fn of(files: &IndexFiles, folder: String) -> Self {
        Self {
            schema_version: 1,
            generation: files.generation().number(),
            tier: files.tier().name(),
            rows: files.columns().len() as u64,
            nodes: files.tiers().head().node_count.into(),
            model: None,
            // Dimensions are limited by what vectors can have.
            dim: files.columns().dim() as u32,
            without_vector: 0,
            sealed_rows: 0,
            segments: 0,
            fresh_rows: Some(0),
            foreign: false,
            bytes: files.generation().file_lengths().collect(),
            fingerprint: format!("{:016x}", files.tiers().fingerprint()),
            folder,
        }
    }
}

/// `memfold index verify --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerifyDocument {
    pub(super) schema_version: u32,
    /// The number of the live generation.
    pub(super) generation: u64,
    /// Bytes that are as they were written.
    pub(super) bytes: u64,
    /// Whether every file was compared as a whole; `false` for an index that an earlier version built, of whose
    /// `columns.arrow` only ids and vectors were compared: rebuild it.
    pub(super) compared: bool,
    /// Rows of the generation.
    pub(super) rows: u64,
    /// Rows that were looked up in the graph; `null` where there is none.
    pub(super) looked_up: Option<u64>,
    /// Of these, rows that found themselves.
    pub(super) found: Option<u64>,
    /// How the rows stand to the store or file; `null` without --full.
    pub(super) store: Option<DifferenceDocument>,
}

/// How the rows of an index stand to what it was built from.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DifferenceDocument {
    /// Rows as they were.
    pub(super) same: u64,
    /// Rows whose vector, or in a file also id, is another one now.
    pub(super) changed: u64,
    /// Rows that are gone, or no longer live.
    pub(super) gone: u64,
    /// Rows that came since.
    pub(super) fresh: u64,
}

impl From<IndexDifference> for DifferenceDocument {
    fn from(found: IndexDifference) -> Self {
        let IndexDifference { same, changed, gone, fresh } = found;
        Self { same, changed, gone, fresh }
    }
}
