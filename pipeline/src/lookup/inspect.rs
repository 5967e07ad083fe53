//! Checks whether an index still fits its store, and whether every byte of it is intact.

use std::collections::BTreeSet;

use memfold_index::graph::verify::{self, GraphReport};
use memfold_index::index_file::IndexView;
use memfold_index::{Pool, Progress};
use memfold_simd::Kernels;
use serde::Serialize;

use super::build::identity_of;
use super::files::IndexFiles;
use super::{SearchError, StoreIndex};
use crate::columns::ColumnSink;
use crate::lookup::IndexError;
use memfold_core::memory::Status;
use memfold_store::brain_db::SpaceShapes;
use memfold_store::{BrainDb, LoadRequest, MemoryStore as _};

/// How a store stands to its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The index fits the store, which has this many newer rows.
    Since {
        /// Rows that lookups compare one by one.
        fresh_rows: u64,
    },
    /// Rows were renumbered, or it is another store: lookups do not use the index.
    Foreign,
}

/// The results of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedIndex {
    /// Bytes read.
    pub bytes: u64,
    /// The recall of the graph on its own rows; `None` without a graph.
    pub graph: Option<GraphReport>,
    /// Its differences from the store or file now; `None` where they were not requested.
    pub difference: Option<IndexDifference>,
}

/// How an index differs from its store or file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct IndexDifference {
    /// Unchanged rows.
    pub same: u64,
    /// Rows with another vector now, or in a file also another id.
    pub changed: u64,
    /// Rows that are gone, or no longer live.
    pub gone: u64,
    /// Newer live memories, or rows of a file.
    pub fresh: u64,
}

/// Finds out how far an index reaches into its store as it is now.
///
/// # Errors
/// When the store cannot be read.
pub fn freshness(
    store: &BrainDb,
    index: &StoreIndex,
    load: &LoadRequest<'_>,
) -> Result<Freshness, SearchError> {
    store.look_up(load, |reader| {
        let origin = index.origin();
        let reaches = reader.reaches(index.marks())?;
        if reaches.is_lost() {
            return Ok(Freshness::Foreign);
        }
        let mut fresh_rows = 0;
        reader.since(
            reaches,
            SpaceShapes { space: &origin.space(), shapes: &origin.shapes },
            |_, _| {
                fresh_rows += 1;
                Ok::<_, SearchError>(())
            },
        )?;
        Ok(Freshness::Since { fresh_rows })
    })
}

/// How thoroughly to verify.
#[derive(Clone, Copy)]
pub struct Thoroughness<'a> {
    /// Look up every row in the graph, not 10,000; compare with the store.
    pub store: Option<(&'a BrainDb, &'a std::path::Path)>,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels.
    pub kernels: &'static Kernels,
}

/// Verifies every byte of an index against its checksums, and looks up rows in its graph: 10,000,
/// or all of them where it is compared with the store too.
///
/// # Errors
/// The first damage found; or the store cannot be read, or the caller cancelled.
pub fn verify(
    index: &StoreIndex,
    load: &LoadRequest<'_>,
    thoroughness: &Thoroughness<'_>,
) -> Result<VerifiedIndex, IndexError> {
    let Thoroughness { store, pool, kernels } = *thoroughness;
    let lookups = if store.is_some() { usize::MAX } else { verify::SAMPLED_LOOKUPS };
    index.texts().verify(load.progress)?;
    let verified =
        verify_files(index.files(), HasTexts(true), lookups, pool, kernels, load.progress)?;
    let compare = |(store, scratch)| difference(index, store, load, scratch);
    Ok(VerifiedIndex { difference: store.map(compare).transpose()?, ..verified })
}

/// Whether the rows of an index have texts.
pub(super) struct HasTexts(pub(super) bool);

/// Verifies every byte of a generation against its checksums, and looks up rows in its graph.
pub(super) fn verify_files(
    files: &IndexFiles,
    HasTexts(has_texts): HasTexts,
    lookups: usize,
    pool: &Pool,
    kernels: &'static Kernels,
    progress: &dyn Progress,
) -> Result<VerifiedIndex, IndexError> {
    let (generation, file, columns) = (files.generation(), files.tiers(), files.columns());
    file.verify(progress)?;
    for segment in generation.fresh() {
        segment.verify(progress)?;
    }
    generation.verify(progress)?;
    let content = || IndexError::Content { path: generation.folder().into() };
    let tiers = IndexView::open(file).map_err(|_| content())?;
    progress.begin("compare content", None);
    let hashes = match has_texts {
        true => tiers.text_keys.hashes(columns.len()),
        // There must be none.
        false => tiers.text_keys.hashes(0).map(|_| vec![0; columns.len()]),
    };
    let hashes = hashes.ok_or_else(content)?;
    if identity_of(columns, &hashes)? != file.head().store_identity {
        return Err(content());
    }
    progress.end();
    let matrix = columns.vectors();
    let check = |graph| verify::check(graph, &matrix, lookups, pool, kernels, progress);
    let graph = tiers.graph.as_ref().map(check).transpose()?;
    let bytes = generation.file_lengths().map(|(_, bytes)| bytes).sum();
    Ok(VerifiedIndex { bytes, graph, difference: None })
}

/// Compares every row with the store.
fn difference(
    index: &StoreIndex,
    store: &BrainDb,
    load: &LoadRequest<'_>,
    scratch_dir: &std::path::Path,
) -> Result<IndexDifference, IndexError> {
    let mut sink = ColumnSink::new(scratch_dir);
    let snapshot = store.load(load, &mut sink)?;
    let columns = sink.finish()?;
    let matrices = columns.matrices();
    let space = index.origin().space();
    let indexed = index.files().columns().vectors();
    let mut found = IndexDifference::default();
    let mut seen = BTreeSet::new();
    for memory in &snapshot.memories {
        let Some((at, row)) = memory.embedding.vector() else { continue };
        if memory.status != Status::Live || snapshot.spaces[at.0 as usize] != space {
            continue;
        }
        match index.files().row_of(memory.id.as_str())? {
            None => found.fresh += 1,
            Some(place) => {
                seen.insert(place);
                let is_same = matrices[at.0 as usize].vector(row) == indexed.vector(place);
                *(if is_same { &mut found.same } else { &mut found.changed }) += 1;
            }
        }
    }
    found.gone = (indexed.len() - seen.len()) as u64;
    Ok(found)
}
