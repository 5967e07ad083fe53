//! [`build_index`]: from a store to a generation.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use memfold_datasets::DataError;
use memfold_datasets::{ColumnsWriter, MappedColumns};
use memfold_index::file::generations::{COLUMNS_FILE, INDEX_FILE};
use memfold_index::file::{FileMode, GenerationWriter};
use memfold_index::graph::GraphOptions;
use memfold_index::index_file::{GraphOutcome, IndexBuild, TextKeys};
use memfold_index::{Pool, Progress, Row};
use memfold_simd::Kernels;

use super::files::{NewTextRows, TEXTS_FILE, text_hash};
use super::{IndexError, IndexTier, ORIGIN_FILE, Origin, StoreIndex};
use crate::export::{Export, ExportOptions};
use memfold_store::{BrainDb, LoadRequest};

/// Up to this many rows a scan answers in a fraction of a millisecond, and exactly: no graph is
/// worth its build.
const SCANNED_ROWS_MAX: usize = 250_000;

/// Bytes of a write to an index: two large pages. File systems keep the bytes of one write on large
/// pages, and a process that maps the file has a third of the page faults.
const WRITE_BYTES: usize = 4 << 20;

/// Which tiers an index has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum TierChoice {
    /// A graph for more than 250,000 rows.
    #[default]
    #[cfg_attr(feature = "clap", value(help = "By a scan up to 250,000 rows, else by a graph"))]
    Auto,
    /// None: every lookup is exact.
    #[cfg_attr(feature = "clap", value(help = "By a scan of codes: exact"))]
    Scan,
    /// A graph whatever the size.
    #[cfg_attr(
        feature = "clap",
        value(help = "By a graph: faster from some 100,000 rows on, and nearly exact")
    )]
    Graph,
}

impl TierChoice {
    /// Keeps the tier of an existing index in a folder, unless it has no graph because it had few
    /// rows.
    #[must_use]
    pub(crate) fn as_built(folder: &Path) -> Self {
        let Ok(Some(index)) = StoreIndex::open(folder) else { return Self::Auto };
        match index.files().tier() {
            IndexTier::Graph => Self::Graph,
            IndexTier::Scan if index.files().columns().len() > SCANNED_ROWS_MAX => Self::Scan,
            IndexTier::Scan => Self::Auto,
        }
    }
}

/// How to build an index.
#[derive(Clone, Copy)]
pub struct BuildIndex<'a> {
    /// The folder of generations.
    pub folder: &'a Path,
    /// Permissions of its files: the store's.
    pub mode: FileMode,
    /// How to read the store.
    pub load: LoadRequest<'a>,
    /// Only vectors of this model; `None`: of the model with most vectors.
    pub model: Option<&'a str>,
    /// Which tiers.
    pub tier: TierChoice,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// A folder for unlinked temporary files as large as the vectors.
    pub scratch_dir: &'a Path,
    /// How long to wait for another process that builds.
    pub wait: Duration,
}

/// The result of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltIndex {
    /// Its number.
    pub generation: u64,
    /// Rows indexed.
    pub rows: u64,
    /// Live memories without a vector of this model; rows of a file without a usable one.
    pub without_vector: u64,
    /// The model; `None` for a file, which names none.
    pub model: Option<String>,
    /// Components of each vector.
    pub dim: u32,
    /// The outcome of the graph's build.
    pub graph: GraphOutcome,
    /// Bytes of the index file, and of the columns.
    pub file_bytes: [u64; 2],
}

/// Builds the index of a store's live memories and publishes it as the next generation.
///
/// The bytes of `index.mfi` depend on the ids, vectors and texts of the live memories and on the
/// tiers alone: not on the order of rows, on earlier additions or removals, on threads or kernels.
/// Readers keep the generation that they have opened.
///
/// # Errors
/// When the store cannot be read or has no vectors, the folder cannot be written, another process builds for longer than
/// the time to wait, or when cancelled. Nothing is published then.
pub fn build_index(store: &BrainDb, request: &BuildIndex<'_>) -> Result<BuiltIndex, IndexError> {
    let writer = GenerationWriter::begin(request.folder, request.mode, request.wait)?;
    // Before the rows: rows written in between are indexed and searched once more, and nothing is
    // missed.
    let (name, marks, shapes) = store.look_up(&request.load, |reader| {
        Ok::<_, IndexError>((reader.recorded_name()?, reader.marks()?, reader.shapes()?))
    })?;
    let options = ExportOptions {
        model: request.model,
        text: false,
        lineage: false,
        scratch_dir: request.scratch_dir,
    };
    let export = Export::read(store, &request.load, &options)?.by_id();
    let mut columns = ColumnsWriter::from_file(writer.create(COLUMNS_FILE)?, &export.meta())?;
    let exported = export.write(&mut columns, request.load.progress)?;
    let columns = columns.finish()?;
    let (identity, keys) = describe(&export, &columns)?;
    write_texts(&writer, &export, exported.space.dim, identity)?;
    drop(export);

    let (graph, file_bytes) = write_tiers(
        &writer,
        &columns,
        identity,
        &keys,
        request.tier,
        request.pool,
        request.kernels,
        request.load.progress,
    )?;
    write_origin(&writer, &Origin::new(&exported, name, marks, shapes).to_json())?;
    Ok(BuiltIndex {
        generation: writer.publish()?,
        rows: exported.rows,
        without_vector: exported.without_vector,
        model: Some(exported.space.model.to_string()),
        dim: exported.space.dim,
        graph,
        file_bytes,
    })
}

/// Builds tiers over the columns of a generation and writes them; returns the outcome of the
/// graph's build, and the lengths of index and columns.
pub(super) fn write_tiers(
    writer: &GenerationWriter,
    columns: &MappedColumns,
    identity: [u8; 32],
    text_keys: &[u64],
    tier: TierChoice,
    pool: &Pool,
    kernels: &'static Kernels,
    progress: &dyn Progress,
) -> Result<(GraphOutcome, [u64; 2]), IndexError> {
    let matrix = columns.vectors();
    let graph = match tier {
        TierChoice::Auto => matrix.len() > SCANNED_ROWS_MAX,
        TierChoice::Scan => false,
        TierChoice::Graph => true,
    };
    let graph = graph.then(GraphOptions::default);
    let (tiers, graph) = IndexBuild::build(&matrix, graph, pool, kernels, progress)?;
    let output = BufWriter::with_capacity(WRITE_BYTES, writer.create(INDEX_FILE)?);
    let mut output = tiers.write(output, identity, text_keys)?;
    let failed = |source| IndexError::Write { path: writer.path().join(INDEX_FILE), source };
    output.flush().map_err(failed)?;
    let bytes = |name: &str| writer.path().join(name).metadata().map_or(0, |found| found.len());
    Ok((graph, [bytes(INDEX_FILE), bytes(COLUMNS_FILE)]))
}

/// Writes the rows without a vector to index by their texts: live ones without a vector, merged and
/// archived ones.
fn write_texts(
    writer: &GenerationWriter,
    export: &Export,
    dim: u32,
    identity: [u8; 32],
) -> Result<(), IndexError> {
    let mut texts = NewTextRows::default();
    for memory in export.others() {
        texts.push(memory.id.as_str(), &memory.content);
    }
    let output = BufWriter::new(writer.create(TEXTS_FILE)?);
    let mut output = texts.write_file(output, dim, identity)?;
    let failed = |source| IndexError::Write { path: writer.path().join(TEXTS_FILE), source };
    output.flush().map_err(failed)
}

/// Writes the origin of a generation.
pub(super) fn write_origin(writer: &GenerationWriter, origin: &[u8]) -> Result<(), IndexError> {
    let mut file = writer.create(ORIGIN_FILE)?;
    file.write_all(origin)
        .map_err(|source| IndexError::Write { path: writer.path().join(ORIGIN_FILE), source })
}

/// Returns the identity of this set of memories, and the keys of their texts.
fn describe(export: &Export, columns: &MappedColumns) -> Result<([u8; 32], Vec<u64>), DataError> {
    let hashes: Vec<u64> = export.memories().map(|memory| text_hash(&memory.content)).collect();
    let keys = TextKeys::sorted((0..).map(Row).zip(&hashes).map(|(row, &hash)| (hash, row)));
    Ok((identity_of(columns, &hashes)?, keys))
}

/// Returns the blake3 of ids, vectors and the upper halves of text hashes, row after row.
pub(super) fn identity_of(
    columns: &MappedColumns,
    text_hashes: &[u64],
) -> Result<[u8; 32], DataError> {
    let (matrix, ids) = (columns.vectors(), columns.ids()?);
    let mut hasher = blake3::Hasher::new();
    let mut vector = Vec::with_capacity(4 * matrix.dim());
    for ((row, id), &hash) in matrix.rows().zip(ids.iter()).zip(text_hashes) {
        let id = id.unwrap_or_default();
        vector.clear();
        vector.extend(matrix.vector(row).iter().flat_map(|component| component.to_le_bytes()));
        hasher.update(&(id.len() as u64).to_le_bytes());
        hasher.update(id.as_bytes());
        hasher.update(&vector);
        hasher.update(&(hash >> 32).to_le_bytes());
    }
    Ok(*hasher.finalize().as_bytes())
}
