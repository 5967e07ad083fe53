//! [`build_corpus_index`]: from a file of vectors to a generation.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_datasets::ReadError;
use memfold_datasets::columns::ColumnFileError;
use memfold_datasets::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, MappedColumns,
};
use memfold_index::file::generations::COLUMNS_FILE;
use memfold_index::file::{FileMode, GenerationError, GenerationWriter};
use memfold_index::graph::DamagedGraph;
use memfold_index::index_file::{GraphOutcome, OpenIndexFileError};
use memfold_index::{DamagedFlatIndex, Pool, Progress, Row, ScanError};
use memfold_simd::Kernels;

use super::rows::ReadRows;
use super::{CorpusColumns, CorpusOrigin, FileStamp, rows};
use crate::lookup::build::{identity_of, write_origin, write_tiers};
use crate::lookup::error::REBUILD;
use crate::lookup::{BuildIndexError, TierChoice};

/// Rows written between two looks at the progress.
const BATCH: usize = 4096;

/// How to build an index of a file.
#[derive(Clone, Copy)]
pub struct BuildCorpusIndex<'a> {
    /// The folder of generations.
    pub folder: &'a Path,
    /// Permissions of its files: those of the file.
    pub mode: FileMode,
    /// Which columns are read.
    pub columns: &'a CorpusColumns,
    /// Which tiers.
    pub tier: TierChoice,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// A folder for unlinked temporary files as large as the vectors.
    pub scratch_dir: &'a Path,
    /// Told what is being done, and asked whether to stop.
    pub progress: &'a dyn Progress,
    /// How long to wait for another process that builds.
    pub wait: Duration,
}

/// What was built.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltCorpusIndex {
    /// Its number.
    pub generation: u64,
    /// Rows indexed.
    pub rows: u64,
    /// What it was built from.
    pub origin: CorpusOrigin,
    /// What became of the graph.
    pub graph: GraphOutcome,
    /// Bytes of the index file, and of the columns.
    pub file_bytes: [u64; 2],
}

/// Builds the index of a file's rows with vectors and publishes it as the next generation.
///
/// The bytes of `index.mfi` depend on the ids and vectors of these rows and on the tiers alone: not on the order of rows or
/// the format of the file, on threads or kernels.
///
/// # Errors
/// When the file cannot be read, has no vectors or is written to meanwhile, the folder cannot be written, another process
/// builds for longer than the time to wait, or when cancelled. Nothing is published then.
pub fn build_corpus_index(
    path: &Path,
    request: &BuildCorpusIndex<'_>,
) -> Result<BuiltCorpusIndex, BuildCorpusIndexError> {
    let look = || {
        FileStamp::take(path)
            .map_err(|source| BuildCorpusIndexError::Look { path: path.into(), source })
    };
    let stamp = look()?;
    let corpus = read(path, request)?;
    let writer = GenerationWriter::begin(request.folder, request.mode, request.wait)?;
    let columns = ColumnsWriter::from_file(writer.create(COLUMNS_FILE)?, &meta(&corpus))?;
    let columns = write_rows(&corpus, columns, request)?;
    let read = ReadRows {
        // Dimensions are limited by what vectors can have.
        dim: corpus.dim() as u32,
        rows: corpus.rows(),
        skipped: corpus.skipped().len() as u64,
        has_ids: corpus.has_ids(),
    };
    drop(corpus);
    if look()? != stamp {
        return Err(ReadError::Changed { path: PathBuf::from(path) }.into());
    }
    let identity = identity_of(&columns, &vec![0; columns.len()])?;
    let tools = (request.pool, request.kernels, request.progress);
    let (graph, file_bytes) = write_tiers(&writer, &columns, (identity, &[]), request.tier, tools)?;
    let origin = CorpusOrigin::new(stamp, request.columns.clone(), read);
    write_origin(&writer, &origin.to_json())?;
    let (generation, rows) = (writer.publish()?, columns.len() as u64);
    Ok(BuiltCorpusIndex { generation, rows, origin, graph, file_bytes })
}

fn read(path: &Path, request: &BuildCorpusIndex<'_>) -> Result<Corpus, BuildCorpusIndexError> {
    let options = request.columns.options(request.scratch_dir, request.progress);
    let corpus = Corpus::open(&[path.to_owned()], &options)?;
    if corpus.matrix().is_empty() {
        return Err(BuildCorpusIndexError::NoVectors { path: path.into(), rows: corpus.rows() });
    }
    Ok(corpus)
}

fn meta(corpus: &Corpus) -> ColumnsMeta {
    let columns = ColumnSet::Records { text: false, lineage: false };
    ColumnsMeta { columns, ..ColumnsMeta::vectors(corpus.dim() as u32) }
}

/// Writes ordinals, ids and vectors; the other columns of a record hold nothing.
fn write_rows(
    corpus: &Corpus,
    mut writer: ColumnsWriter,
    request: &BuildCorpusIndex<'_>,
) -> Result<MappedColumns, BuildCorpusIndexError> {
    let (matrix, progress) = (corpus.matrix(), request.progress);
    progress.begin("write", Some(matrix.len() as u64));
    let rows = rows::sorted(corpus, &matrix, request.pool);
    for batch in rows.chunks(BATCH) {
        if progress.cancelled() {
            return Err(BuildCorpusIndexError::Cancelled);
        }
        for &row in batch {
            writer.push(&record(corpus, row, matrix.vector(row)))?;
        }
        progress.advance(batch.len() as u64);
    }
    progress.end();
    Ok(writer.finish()?)
}

fn record<'a>(corpus: &'a Corpus, row: Row, vector: &'a [f32]) -> ColumnRecord<'a> {
    let rowid = corpus.ordinal(row).cast_signed();
    let id = corpus.id(row).unwrap_or_default();
    ColumnRecord { rowid, id, vector, ..ColumnRecord::default() }
}

/// Why an index was not built. The one that was live before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildCorpusIndexError {
    /// The file could not be read.
    #[error(transparent)]
    Corpus(#[from] ReadError),
    /// The file could not be looked at.
    #[error("{}: {source}", path.display())]
    Look {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// No row has a vector.
    #[error("{}: none of its {rows} rows has a usable vector", path.display())]
    NoVectors {
        /// The file.
        path: PathBuf,
        /// Its rows.
        rows: u64,
    },
    /// The generation could not be written.
    #[error(transparent)]
    Index(#[from] BuildIndexError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<GenerationError> for BuildCorpusIndexError {
    fn from(error: GenerationError) -> Self {
        Self::Index(error.into())
    }
}

impl From<ColumnFileError> for BuildCorpusIndexError {
    fn from(error: ColumnFileError) -> Self {
        Self::Index(error.into())
    }
}

impl BuildCorpusIndexError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Corpus(error) => error.hint(),
            Self::Index(error) => error.hint(),
            Self::NoVectors { .. } => {
                Some("choose the column of the vectors with --vector-column NAME".to_owned())
            }
            Self::Look { .. } | Self::Cancelled => None,
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled | Self::Corpus(ReadError::Cancelled) => true,
            Self::Index(error) => error.is_cancelled(),
            _ => false,
        }
    }
}

/// Why a search among rows has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchRowsError {
    /// The query does not fit the vectors.
    #[error(transparent)]
    Query(#[from] ScanError),
    /// There is no such row.
    #[error("no row {row}: there are {rows}, counted from 0")]
    NoRow {
        /// The row asked for.
        row: u64,
        /// How many there are.
        rows: u64,
    },
    /// The row has no vector.
    #[error("row {row} has no usable vector")]
    NoVector {
        /// The row asked for.
        row: u64,
    },
    /// No row has the id.
    #[error("no row with a vector has the id {id:?}")]
    NoId {
        /// The id asked for.
        id: Box<str>,
    },
    /// Rows have no ids.
    #[error("the rows have no ids")]
    NoIds,
    /// No row has a vector.
    #[error("none of the {rows} rows has a usable vector")]
    NoVectors {
        /// How many there are.
        rows: u64,
    },
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<ColumnFileError> for SearchRowsError {
    fn from(error: ColumnFileError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<OpenIndexFileError> for SearchRowsError {
    fn from(error: OpenIndexFileError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedFlatIndex> for SearchRowsError {
    fn from(error: DamagedFlatIndex) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedGraph> for SearchRowsError {
    fn from(error: DamagedGraph) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl SearchRowsError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Query(ScanError::Dimension { .. }) => {
                "embed the query with the model of the file"
            }
            Self::NoIds => "name a row by its place with --row N",
            Self::NoVectors { .. } => "choose the column of the vectors with --vector-column NAME",
            Self::Damaged(_) => REBUILD,
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
