//! Export: the live memories of a store with their vectors, as one column file.
//!
//! [`export`] writes them as they are read, in the order of the store; [`Export`] holds the store to write them by id.

mod held;
mod streamed;

use std::path::Path;

use memfold_datasets::columns::WriteColumnsError;
use memfold_datasets::{ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, ParquetWriter};
use serde_json::json;

use crate::columns::ColumnsError;
use memfold_model::memory::VectorSpace;
use memfold_store::{LiveRow, LoadStoreError};

pub use self::held::Export;
pub use self::streamed::export;

/// The model's name in a store of generated vectors: nobody should take them for real ones.
pub const SYNTHETIC_MODEL: &str = "synthetic";

/// What to export, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions<'a> {
    /// Only vectors of this model; `None`: the space with most vectors.
    pub model: Option<&'a str>,
    /// Whether texts are written.
    pub text: bool,
    /// Whether it is written what each memory was folded into.
    pub lineage: bool,
    /// The folder for unlinked temporary files as large as the vectors, where the store has to be held.
    pub scratch_dir: &'a Path,
}

impl ExportOptions<'_> {
    const fn column_set(&self) -> ColumnSet {
        ColumnSet::Records { text: self.text, lineage: self.lineage }
    }
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Rows written.
    pub rows: u64,
    /// Model and dimension.
    pub space: VectorSpace,
    /// Live memories that were left out because they have no vector of this space.
    pub without_vector: u64,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store could not be read.
    #[error(transparent)]
    Load(#[from] LoadStoreError),
    /// The temporary columns could not be written or mapped.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteColumnsError),
    /// No live memory has a vector (of this model).
    #[error("no vectors to export{}; the store has {}", of(model.as_deref()), listed(found))]
    NoVectors {
        /// The model asked for.
        model: Option<String>,
        /// The spaces there are.
        found: Vec<VectorSpace>,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

fn of(model: Option<&str>) -> String {
    model.map(|model| format!(" of model {model:?}")).unwrap_or_default()
}

fn listed(spaces: &[VectorSpace]) -> String {
    if spaces.is_empty() {
        return "none".to_owned();
    }
    let names = spaces.iter().map(|space| format!("{} ({})", space.model, space.dim));
    names.collect::<Vec<_>>().join(", ")
}

impl ExportError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Write(error) => error.hint(),
            Self::NoVectors { model: Some(_), .. } => {
                Some("name one of the models found with --model".to_owned())
            }
            Self::NoVectors { .. } => {
                Some("`memfold doctor` tells why vectors are left out".to_owned())
            }
            Self::Cancelled => None,
        }
    }

    fn no_vectors(options: &ExportOptions<'_>, found: Vec<VectorSpace>) -> Self {
        Self::NoVectors { model: options.model.map(str::to_owned), found }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Load(LoadStoreError::Cancelled))
    }
}

/// A column file being written, whatever its format.
pub trait RecordWriter: Send {
    /// Appends a row.
    ///
    /// # Errors
    /// When the row does not fit or writing fails.
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError>;

    /// Writes what is left and publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    fn finish_file(self: Box<Self>) -> Result<(), WriteColumnsError>;
}

impl RecordWriter for ColumnsWriter {
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError> {
        self.push(record).map(drop)
    }

    fn finish_file(self: Box<Self>) -> Result<(), WriteColumnsError> {
        self.publish()
    }
}

impl RecordWriter for ParquetWriter {
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError> {
        self.push(record).map(drop)
    }

    fn finish_file(self: Box<Self>) -> Result<(), WriteColumnsError> {
        self.finish().map(drop)
    }
}

/// Returns which of the spaces that are wanted has most rows; among equals the first by name and dimension.
fn largest(
    spaces: &[VectorSpace],
    sizes: impl Iterator<Item = usize>,
    options: &ExportOptions<'_>,
) -> Option<usize> {
    let sizes: Vec<usize> = sizes.collect();
    let wanted = |&space: &usize| {
        sizes[space] > 0 && options.model.is_none_or(|model| *spaces[space].model == *model)
    };
    (0..spaces.len()).filter(wanted).max_by(|&a, &b| {
        let size = sizes[a].cmp(&sizes[b]);
        size.then_with(|| spaces[b].cmp(&spaces[a]))
    })
}

/// Describes the file of a space.
fn meta(store_id: &str, space: &VectorSpace, columns: ColumnSet) -> ColumnsMeta {
    ColumnsMeta {
        model: Some(space.model.clone()),
        source_hash: Some(store_id.into()),
        synthetic: *space.model == *SYNTHETIC_MODEL,
        columns,
        ..ColumnsMeta::vectors(space.dim)
    }
}

fn write_record(
    writer: &mut dyn RecordWriter,
    row: &LiveRow<'_>,
    (model, vector): (&str, &[f32]),
    lineage: bool,
) -> Result<(), WriteColumnsError> {
    let lineage = lineage.then(|| json!({ "root_source": row.root_source }).to_string());
    writer.push_record(&ColumnRecord {
        rowid: row.rowid,
        id: row.id,
        created_at: row.created_at.map(|at| at.0),
        categories: row.categories,
        importance: row.importance,
        access_count: row.access_count,
        source: row.source,
        model,
        text: Some(row.content),
        lineage: lineage.as_deref(),
        vector,
    })
}
