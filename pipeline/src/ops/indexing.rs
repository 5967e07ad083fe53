//! The index of a store is kept up to date beside other work.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_index::file::FileMode;
use memfold_index::index_file::GraphOutcome;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};
use serde::Serialize;

use super::{Failure, Listener, Settings, index_to_build, open_store, pool, scratch_dir};
use crate::lookup::corpus::CorpusIndex;
use crate::lookup::{
    BuildIndex, BuiltIndex, Freshness, IndexDifference, IndexError, IndexFiles, SealFresh, Sealed,
    StoreIndex, TierChoice, VerifiedIndex, build_index, seal_fresh,
};
use crate::machine::{self, MemoryWatch, Stopwatch};

/// Fewer rows are compared one by one as fast as in a segment.
const SEALED_ROWS_MIN: usize = 512;

/// Up to this many rows a build takes seconds.
const REBUILT_ROWS_MAX: u64 = 250_000;

/// Without an index, this many rows are read for each check.
pub(super) const UNINDEXED_ROWS_MAX: u64 = 2_000;

/// From this share of newer rows on, a build is worth its time.
const FRESH_SHARE: u64 = 10;

/// Tells whether an index of `rows` rows (0: none) should be rebuilt, given the number of newer
/// rows.
#[must_use]
pub const fn wants_rebuild(rows: u64, fresh_rows: u64) -> bool {
    let is_many = fresh_rows > UNINDEXED_ROWS_MAX && fresh_rows * FRESH_SHARE > rows;
    is_many && rows + fresh_rows <= REBUILT_ROWS_MAX
}

/// The index of a store, which is kept up to date.
#[derive(Clone, Copy)]
pub struct IndexUpkeep<'a> {
    /// The store.
    pub db: &'a Path,
    /// The folder of the index, where it is not the usual one.
    pub index_dir: Option<&'a Path>,
    /// The configuration.
    pub settings: &'a Settings,
    /// Worker threads.
    pub threads: Option<NonZeroUsize>,
    /// Receives progress and remarks.
    pub listener: &'a dyn Listener,
    /// How long to wait for another process that builds.
    pub wait: Duration,
}

impl IndexUpkeep<'_> {
    /// Opens the store: the work gets it, the folder with the permissions of its files, and how to read.
    fn opened<T>(
        &self,
        work: impl FnOnce(&BrainDb, &Path, FileMode, LoadRequest<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let store = open_store(self.db, self.settings)?;
        let folder = index_to_build(self.db, self.index_dir)?;
        let mode = mode_of(self.db)?;
        let time_zone = self.settings.time_zone()?;
        let now = machine::clock();
        let load = LoadRequest { time_zone: &time_zone, now, progress: self.listener };
        work(&store, &folder, mode, load)
    }

    /// Builds the index and returns its folder too; by default with the tiers of the present one.
    ///
    /// # Errors
    /// When the store cannot be read, or the index not be written.
    pub fn build(
        &self,
        model: Option<&str>,
        tier: Option<TierChoice>,
    ) -> Result<(PathBuf, BuiltIndex), Failure> {
        self.opened(|store, folder, mode, load| {
            let built = build_index(
                store,
                &BuildIndex {
                    folder,
                    mode,
                    load,
                    model,
                    tier: tier.unwrap_or_else(|| TierChoice::as_built(folder)),
                    pool: &pool(self.threads)?,
                    kernels: Kernels::active(),
                    scratch_dir: &scratch_dir(),
                    wait: self.wait,
                },
            );
            let what = format!("build the index of {}", self.db.display());
            let built = built.map_err(|error| Failure::of(&what, &error))?;
            Ok((folder.to_owned(), built))
        })
    }

    /// Adds at least so many newer rows.
    fn add(&self, rows_min: usize) -> Result<Result<Sealed, IndexError>, Failure> {
        self.opened(|store, folder, mode, load| {
            let (kernels, wait) = (Kernels::active(), self.wait);
            Ok(seal_fresh(store, &SealFresh { folder, mode, load, rows_min, kernels, wait }))
        })
    }

    /// Adds all newer rows; `None` where only a build can do it.
    ///
    /// # Errors
    /// When the store cannot be read, or the index not be written.
    pub fn append(&self) -> Result<Option<Sealed>, Failure> {
        match self.add(1)? {
            Ok(Sealed::NoIndex) => Ok(None),
            Ok(sealed) => Ok(Some(sealed)),
            Err(error) if error.is_mended_by_a_build() => {
                self.listener.note(&format!("note: {error}; building anew"));
                Ok(None)
            }
            Err(error) => Err(Failure::of("add to the index", &error)),
        }
    }

    /// Adds new rows, if there are enough for a segment; rebuilds the index if it no longer fits.
    ///
    /// # Errors
    /// When the store cannot be read, or the index not be written.
    pub fn seal(&self) -> Result<(), Failure> {
        match self.add(SEALED_ROWS_MIN)? {
            Ok(Sealed::Segment { .. } | Sealed::TooFew { .. }) => Ok(()),
            Ok(Sealed::NoIndex) => self.build(None, None).map(drop),
            Err(error) if error.is_mended_by_a_build() => self.build(None, None).map(drop),
            Err(error) => Err(Failure::of("add to the index", &error)),
        }
    }
}

/// Returns the permissions of files that are derived from a store.
///
/// # Errors
/// When the store cannot be found.
pub fn mode_of(db: &Path) -> Result<FileMode, Failure> {
    let metadata = std::fs::metadata(db)
        .map_err(|error| Failure::new(&format!("open {}", db.display()), &error, None))?;
    Ok(FileMode::like(&metadata))
}

/// `memfold index build --json`
#[derive(Debug, Serialize)]
pub struct IndexBuildDocument {
    schema_version: u32,
    /// The number of the generation that lookups read from now on.
    pub generation: u64,
    /// The tier that answers lookups: `scan` or `graph`.
    pub tier: &'static str,
    /// Why the graph was thrown away; `null` where it was not.
    pub graph_refused: Option<String>,
    /// Rows with a vector, which lookups find.
    pub rows: u64,
    /// Live memories that have no vector of this model; rows of a file that have no usable one.
    pub without_vector: u64,
    /// The embedding model; `null` for a file, which names none.
    pub model: Option<String>,
    /// Components of each vector.
    pub dim: u32,
    /// Bytes of the index file.
    pub index_bytes: u64,
    /// Bytes of the columns.
    pub columns_bytes: u64,
    /// The folder of generations.
    pub folder: String,
    /// Seconds of the build.
    pub seconds: f64,
    /// Peak resident memory of the process; `null` where the system does not tell.
    peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process; `null` where the system does not tell.
    peak_anon_bytes: Option<u64>,
}

impl IndexBuildDocument {
    /// Measures a build, which returns the folder as well.
    ///
    /// # Errors
    /// Those of the build.
    pub fn measure(
        build: impl FnOnce() -> Result<(PathBuf, BuiltIndex), Failure>,
    ) -> Result<Self, Failure> {
        let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
        let (folder, built) = build()?;
        let (tier, graph_refused) = match built.graph {
            GraphOutcome::Kept(_) => ("graph", None),
            GraphOutcome::Refused(error) => ("scan", Some(error.to_string())),
            GraphOutcome::NotAsked => ("scan", None),
        };
        let seconds = stopwatch.seconds();
        let (peak_rss_bytes, peak_anon_bytes) = watch.finish();
        let [index_bytes, columns_bytes] = built.file_bytes;
        Ok(Self {
            schema_version: 1,
            generation: built.generation,
            tier,
            graph_refused,
            rows: built.rows,
            without_vector: built.without_vector,
            model: built.model,
            dim: built.dim,
            index_bytes,
            columns_bytes,
            folder: folder.display().to_string(),
            seconds,
            peak_rss_bytes,
            peak_anon_bytes,
        })
    }
}

/// `memfold index info --json`
#[derive(Debug, Serialize)]
pub struct IndexInfoDocument {
    schema_version: u32,
    /// The number of the live generation.
    generation: u64,
    /// The tier that answers lookups: `scan` or `graph`.
    tier: &'static str,
    /// Rows of the generation.
    rows: u64,
    /// Rows that differ in at least one bit; all rows where there is no graph.
    nodes: u64,
    /// The embedding model; `null` for a file, which names none.
    model: Option<String>,
    /// Components of each vector.
    dim: u32,
    /// Live memories that had no vector of this model; rows of a file that had no usable one.
    without_vector: u64,
    /// Rows that were added since, and segments that hold them.
    sealed_rows: u64,
    segments: u64,
    /// Newer vectors that are compared one by one; `null` where the index no longer fits.
    fresh_rows: Option<u64>,
    /// Whether the index no longer fits, so that lookups do without it.
    foreign: bool,
    /// Lengths of the files by their names.
    bytes: BTreeMap<String, u64>,
    /// Stands for every byte of `index.mfi`: 16 hexadecimal digits.
    fingerprint: String,
    /// The folder of generations.
    folder: String,
    /// The results of verification; `null` where it was not requested.
    verified: Option<VerifiedDocument>,
}

/// The results of verifying an index.
#[derive(Debug, Serialize)]
struct VerifiedDocument {
    /// Bytes that are as they were written.
    bytes: u64,
    /// Rows that were looked up in the graph; `null` where there is none.
    looked_up: Option<u64>,
    /// Of these, rows that found themselves.
    found: Option<u64>,
    /// How the rows stand to the store or file.
    store: Option<IndexDifference>,
}

impl IndexInfoDocument {
    /// Takes the index of a store.
    #[must_use]
    pub fn of_store(
        index: &StoreIndex,
        found: Freshness,
        folder: &Path,
        verified: Option<VerifiedIndex>,
    ) -> Self {
        let origin = index.origin();
        let fresh_rows = match found {
            Freshness::Since { fresh_rows } => Some(fresh_rows),
            Freshness::Foreign => None,
        };
        Self {
            model: Some(origin.model.to_string()),
            without_vector: origin.without_vector,
            sealed_rows: index.sealed_rows(),
            segments: index.fresh().len() as u64,
            fresh_rows,
            foreign: fresh_rows.is_none(),
            ..Self::of_files(index.files(), folder, verified)
        }
    }

    /// Takes the index of a file; `fits` tells whether the file is as it was.
    #[must_use]
    pub fn of_corpus(
        index: &CorpusIndex,
        fits: bool,
        folder: &Path,
        verified: Option<VerifiedIndex>,
    ) -> Self {
        Self {
            without_vector: index.origin().skipped,
            fresh_rows: fits.then_some(0),
            foreign: !fits,
            ..Self::of_files(index.files(), folder, verified)
        }
    }

    fn of_files(files: &IndexFiles, folder: &Path, verified: Option<VerifiedIndex>) -> Self {
        Self {
            schema_version: 1,
            generation: files.generation().number(),
            tier: files.tier().name(),
            rows: files.columns().len() as u64,
            nodes: files.tiers().head().node_count.into(),
            model: None,
            // Dimensions are limited by the vectors' maximum.
            dim: files.columns().dim() as u32,
            without_vector: 0,
            sealed_rows: 0,
            segments: 0,
            fresh_rows: Some(0),
            foreign: false,
            bytes: files.generation().file_lengths().collect(),
            fingerprint: format!("{:016x}", files.tiers().fingerprint()),
            folder: folder.display().to_string(),
            verified: verified.map(|VerifiedIndex { bytes, graph, difference }| VerifiedDocument {
                bytes,
                looked_up: graph.as_ref().map(|graph| graph.looked_up as u64),
                found: graph.map(|graph| graph.found as u64),
                store: difference,
            }),
        }
    }
}
