//! [`build_corpus_index`]: from a file of vectors to a generation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_datasets::DataError;
use memfold_datasets::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, MappedColumns,
};
use memfold_index::file::generations::COLUMNS_FILE;
use memfold_index::file::{FileMode, GenerationWriter};
use memfold_index::{Pool, Progress, Row};
use memfold_simd::Kernels;

use super::rows::ReadRows;
use super::{CorpusColumns, CorpusOrigin, FileVersion, rows};
use crate::lookup::build::{identity_of, write_origin, write_tiers};
use crate::lookup::{BuiltIndex, IndexError, TierChoice};

/// Rows written between two progress reports.
const BATCH: usize = 4096;

/// How to build an index of a file.
#[derive(Clone, Copy)]
pub struct BuildCorpusIndex<'a> {
    /// The folder of generations.
    pub folder: &'a Path,
    /// Permissions of its files: the file's.
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
    /// Receives progress, and says whether to cancel.
    pub progress: &'a dyn Progress,
    /// How long to wait for another process that builds.
    pub wait: Duration,
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
) -> Result<BuiltIndex, IndexError> {
    let look =
        || FileVersion::take(path).map_err(|source| IndexError::Look { path: path.into(), source });
    let version = look()?;
    let corpus = read(path, request)?;
    let writer = GenerationWriter::begin(request.folder, request.mode, request.wait)?;
    let columns = ColumnsWriter::from_file(writer.create(COLUMNS_FILE)?, &meta(&corpus))?;
    let columns = write_rows(&corpus, columns, request)?;
    let read = ReadRows {
        // Dimensions are limited by the vectors' maximum.
        dim: corpus.dim() as u32,
        rows: corpus.rows(),
        skipped: corpus.skipped().len() as u64,
        has_ids: corpus.has_ids(),
    };
    drop(corpus);
    if look()? != version {
        let changed = DataError::Changed { path: PathBuf::from(path) };
        return Err(IndexError::Corpus(changed));
    }
    let identity = identity_of(&columns, &vec![0; columns.len()])?;
    let (graph, file_bytes) = write_tiers(
        &writer,
        &columns,
        identity,
        &[],
        request.tier,
        request.pool,
        request.kernels,
        request.progress,
    )?;
    let origin = CorpusOrigin::new(version, request.columns.clone(), read);
    write_origin(&writer, &origin.to_json())?;
    Ok(BuiltIndex {
        generation: writer.publish()?,
        rows: columns.len() as u64,
        without_vector: origin.skipped,
        model: None,
        dim: origin.dim,
        graph,
        file_bytes,
    })
}

fn read(path: &Path, request: &BuildCorpusIndex<'_>) -> Result<Corpus, IndexError> {
    let options = request.columns.options(request.scratch_dir, request.progress);
    let corpus = Corpus::open(&[path.to_owned()], &options).map_err(IndexError::Corpus)?;
    if corpus.matrix().is_empty() {
        return Err(IndexError::NoVectors { path: path.into(), rows: corpus.rows() });
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
) -> Result<MappedColumns, IndexError> {
    let (matrix, progress) = (corpus.matrix(), request.progress);
    progress.begin("write", Some(matrix.len() as u64));
    let rows = rows::sorted(corpus, &matrix, request.pool);
    for batch in rows.chunks(BATCH) {
        if progress.cancelled() {
            return Err(IndexError::Cancelled);
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
