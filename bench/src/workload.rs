//! Workloads: stores to consolidate, and the other inputs of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::MemfoldError;
use memfold::consolidate::{Outcome, RunContext, consolidate};
use memfold::lookup::{BuildIndex, BuiltIndex, IndexError, TierChoice, build_index};
use memfold::quick_check::{QuickCheck, QuickCheckOptions};
use memfold_core::policy::{ConfigLoader, Policy, QuickCheckPolicy, config_hash};
use memfold_core::time::Instant;
use memfold_guard::{Guard, LexiconError};
use memfold_index::file::FileMode;
use memfold_index::{NoProgress, Pool, StartPoolError, VectorMatrix};
use memfold_simd::Kernels;
use memfold_store::brain_db::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, OpenOptions,
};
use memfold_store::{BrainDb, LoadRequest, StoreError};

use crate::synthetic::{GenerateError, VectorGenerator, VectorRecipe, templated};

/// Components of a generated vector, as of small embedding models.
pub const DIM: usize = 384;

/// One seed for all stores, so that a figure can be compared with yesterday's.
const SEED: u64 = 1;

/// 2026-01-01T00:00:00Z, in microseconds since 1970: when the first memory was made.
const FIRST_INSTANT: i64 = 1_767_225_600_000_000;

/// Time between two memories, in microseconds.
const INTERVAL: i64 = 61_000_003;

/// 2027-06-30T00:00:00Z, in microseconds since 1970: later than every memory, so that none is protected
/// for being fresh.
const NOW: Instant = Instant(1_814_313_600_000_000);

/// A limit that nothing should reach on a machine that benchmarks: for a lock, or a check.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a run of a workload failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] StoreError),
    /// No plan was made.
    #[error(transparent)]
    Consolidate(#[from] MemfoldError),
    /// No temporary folder could be made.
    #[error("temporary folder: {0}")]
    Folder(#[from] std::io::Error),
    /// The vectors cannot be generated.
    #[error(transparent)]
    Recipe(#[from] GenerateError),
    /// The store could not be written.
    #[error(transparent)]
    Create(#[from] CreateStoreError),
    /// The threads could not be started.
    #[error(transparent)]
    Pool(#[from] StartPoolError),
    /// The lexicon cannot be read.
    #[error(transparent)]
    Lexicon(#[from] LexiconError),
}

/// A generated `brain.db` in a temporary folder, removed when dropped.
///
/// Vectors and texts are synthetic: 30 % of the memories stand in groups of 2 to 48 that say the same,
/// with cosines of 0.86 to 1 to the first of their group.
#[derive(Debug)]
pub struct SyntheticStore {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl SyntheticStore {
    /// Writes a store of `row_count` memories of [`DIM`] components. Equal on every machine and in every run.
    ///
    /// # Errors
    /// When the temporary folder cannot be written.
    pub fn build(row_count: u32) -> Result<Self, RunError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("brain.db");
        let generator = VectorGenerator::new(VectorRecipe::builder(row_count, DIM, SEED).build()?);
        let mut writer = BrainDbWriter::create(&path, CreateOptions::default())?;
        let mut vector = vec![0.0; DIM];
        for row in 0..row_count {
            let planted = generator.row(row, &mut vector);
            let text = templated(planted.group, planted.member.into(), SEED);
            write(&mut writer, row, &text, &vector)?;
        }
        writer.finish()?;
        Ok(Self { folder, path })
    }

    /// Returns the path of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the store's index.
    fn index_folder(&self) -> PathBuf {
        self.folder().join("brain.db.memfold")
    }

    /// Returns the folder of the store; files beside it are removed with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn write(
    writer: &mut BrainDbWriter,
    row: u32,
    text: &str,
    vector: &[f32],
) -> Result<(), CreateStoreError> {
    const CATEGORIES: [&[&str]; 3] = [&["general"], &["facts"], &["coding", "facts"]];
    let created_at = Instant(FIRST_INSTANT + i64::from(row) * INTERVAL);
    writer.push(&NewMemory {
        id: &format!("stm_{row:012x}"),
        content: text,
        categories: CATEGORIES[row as usize % CATEGORIES.len()],
        importance: 1.0,
        access_count: i64::from(row % 7),
        created_at: &created_at.to_naive_local(&TimeZone::UTC),
        updated_at: None,
        expires_at: None,
        source: "agent",
        vector: Some(vector),
        embedded_text: None,
        model: Some("synthetic"),
    })
}

/// Generated vectors of [`DIM`] components: rows to be indexed, and others like them to be looked up.
#[derive(Debug)]
pub struct SyntheticVectors {
    rows: Vec<f32>,
    queries: Vec<f32>,
}

impl SyntheticVectors {
    /// Generates the given numbers of rows and queries. Equal on every machine and in every run.
    ///
    /// # Errors
    /// When there are more than a generator makes.
    pub fn new(row_count: u32, query_count: u32) -> Result<Self, RunError> {
        let recipe = VectorRecipe::builder(row_count + query_count, DIM, SEED).build()?;
        let generator = VectorGenerator::new(recipe);
        let (mut values, mut vector) = (Vec::new(), vec![0.0; DIM]);
        for row in 0..row_count + query_count {
            generator.row(row, &mut vector);
            values.extend_from_slice(&vector);
        }
        let queries = values.split_off(row_count as usize * DIM);
        Ok(Self { rows: values, queries })
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.rows, DIM).expect("rows are whole")
    }

    /// Returns the queries.
    #[must_use]
    pub fn queries(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.queries, DIM).expect("queries are whole")
    }
}

/// The surroundings of every run of the pipeline: the built-in policy, a guard and threads.
#[derive(Debug)]
pub struct Workbench {
    policy: Policy,
    guard: Guard,
    config_hash: String,
    pool: Pool,
}

impl Workbench {
    /// Starts one thread for each core and reads the built-in policy and lexicon.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn start() -> Result<Self, RunError> {
        let policy = Policy::builtin();
        let guard = Guard::new(&policy.guard)?;
        let config_hash = config_hash(&policy, guard.lexicon_text().as_bytes());
        Ok(Self { policy, guard, config_hash, pool: Pool::new(None)? })
    }

    /// Returns the workers.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the moment at which everything happens.
    #[must_use]
    pub const fn now(&self) -> Instant {
        NOW
    }

    /// Builds the index of a store, without a graph: lookups miss nothing.
    ///
    /// # Errors
    /// When the store cannot be read or its folder not written.
    pub fn build_index(&self, store: &SyntheticStore) -> Result<BuiltIndex, IndexError> {
        let request = BuildIndex {
            folder: &store.index_folder(),
            mode: FileMode::PRIVATE,
            load: LoadRequest { time_zone: &TimeZone::UTC, now: NOW, progress: &NoProgress },
            model: None,
            tier: TierChoice::Scan,
            pool: &self.pool,
            kernels: Kernels::active(),
            scratch_dir: store.folder(),
            wait: BUSY_TIMEOUT,
        };
        build_index(&BrainDb::at(store.path(), OpenOptions::default()), &request)
    }

    /// Opens a store for checks and saves, with the built-in policy and all the time they want.
    ///
    /// # Panics
    /// When the built-in configuration or lexicon is wrong.
    #[must_use]
    pub fn quick_check(&self, store: &SyntheticStore) -> QuickCheck {
        let configured = ConfigLoader::new().load().expect("the built-in configuration is valid");
        let options = QuickCheckOptions {
            policy: self.policy.clone(),
            check: QuickCheckPolicy { time_limit: BUSY_TIMEOUT, ..configured.settings.quick_check },
            time_zone: TimeZone::UTC,
            busy_timeout: BUSY_TIMEOUT,
            holder: format!("bench {}", std::process::id()),
            index_folder: store.index_folder(),
            read_only: false,
            kernels: Kernels::active(),
            clock: || 0.0,
        };
        QuickCheck::open(store.path(), options).expect("there is no lexicon of the user's")
    }

    /// Opens a store and makes its plan and report, as `memfold consolidate` does.
    ///
    /// # Errors
    /// When the store cannot be read or the scratch folder not written.
    pub fn consolidate(&self, store: &SyntheticStore) -> Result<Outcome, RunError> {
        let context = RunContext {
            now: NOW,
            time_zone: &TimeZone::UTC,
            config_hash: &self.config_hash,
            pool: &self.pool,
            kernels: Kernels::active(),
            progress: &NoProgress,
            clock: &|| 0.0,
            scratch_dir: store.folder(),
        };
        let opened = BrainDb::open(store.path(), OpenOptions::default())?;
        Ok(consolidate(&opened, &self.policy, &self.guard, &context)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{SyntheticStore, Workbench};

    #[test]
    fn a_synthetic_store_has_something_to_fold() {
        let store = SyntheticStore::build(300).unwrap();
        let outcome = Workbench::start().unwrap().consolidate(&store).unwrap();
        assert_eq!(outcome.report.loaded.live, 300);
        assert!(outcome.report.detected.pairs > 30, "{}", outcome.report.detected.pairs);
        assert!(outcome.report.planned.merge > 10, "{}", outcome.report.planned.merge);
    }
}
