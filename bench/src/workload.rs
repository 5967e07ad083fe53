//! Workloads: stores to consolidate, and the other inputs of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::consolidate::{Outcome, RunContext, consolidate};
use memfold::export::SYNTHETIC_MODEL;
use memfold::lookup::{BuildIndex, TierChoice, build_index};
use memfold::quick_check::{QuickCheck, QuickCheckOptions};
use memfold_core::policy::{ConfigLoader, Policy, QuickCheckPolicy, config_hash};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::file::FileMode;
use memfold_index::{NoProgress, Pool, VectorMatrix};
use memfold_simd::Kernels;
use memfold_store::brain_db::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, OpenOptions,
};
use memfold_store::{BrainDb, LoadRequest};

use crate::synthetic::{VectorGenerator, VectorRecipe, templated};

/// Components of a generated vector, as of small embedding models.
pub const DIM: usize = 384;

/// One seed for all stores, so that a figure can be compared with yesterday's.
const SEED: u64 = 1;

/// 2027-06-30T00:00:00Z, in microseconds since 1970: later than every memory, so that none is protected
/// for being fresh.
const NOW: Instant = Instant(1_814_313_600_000_000);

/// A limit that nothing should reach on a machine that benchmarks: for a lock, or a check.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

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
    /// # Panics
    /// When the temporary folder cannot be written.
    #[must_use]
    pub fn build(row_count: u32) -> Self {
        let folder = tempfile::tempdir().expect("the temporary folder can be written");
        let path = folder.path().join("brain.db");
        let generator = generator(row_count, DIM);
        let mut writer = BrainDbWriter::create(&path, CreateOptions::default())
            .expect("the temporary folder can be written");
        let mut vector = vec![0.0; DIM];
        for row in 0..row_count {
            let planted = generator.row(row, &mut vector);
            let text = templated(planted.group, planted.member.into(), SEED);
            let row = u64::from(row);
            let (created_at, model) = (created_at(row), SYNTHETIC_MODEL);
            let memory = GeneratedMemory {
                row,
                text: &text,
                created_at: &created_at,
                model,
                vector: &vector,
            };
            memory.write(&mut writer).expect("the store can be written");
        }
        writer.finish().expect("the store can be written");
        Self { folder, path }
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

/// A memory of a generated store.
#[derive(Debug, Clone, Copy)]
pub struct GeneratedMemory<'a> {
    /// Its place in the store, from 0, which gives its id, categories, importance and accesses.
    pub row: u64,
    /// What it says.
    pub text: &'a str,
    /// When it was made, as the owner of a store writes times.
    pub created_at: &'a str,
    /// The model that made its vector.
    pub model: &'a str,
    /// Its vector.
    pub vector: &'a [f32],
}

impl GeneratedMemory<'_> {
    /// Adds it to a store.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn write(self, writer: &mut BrainDbWriter) -> Result<(), CreateStoreError> {
        const CATEGORIES: [&[&str]; 4] =
            [&["general"], &["facts"], &["coding", "facts"], &["procedure"]];
        let Self { row, text, created_at, model, vector } = self;
        writer.push(&NewMemory {
            id: &format!("stm_{row:012x}"),
            content: text,
            categories: CATEGORIES[(row % 4) as usize],
            importance: 1.0 + (row % 3) as f64 * 0.5,
            access_count: (row % 7) as i64,
            created_at,
            updated_at: None,
            expires_at: None,
            source: "agent",
            vector: Some(vector),
            embedded_text: None,
            model: Some(model),
        })
    }
}

/// Returns when a generated memory was made: from 2026-01-01T00:00:00Z on within half a year, a minute and a bit
/// between two memories.
#[must_use]
pub fn created_at(row: u64) -> String {
    const FIRST: i64 = 1_767_225_600_000_000;
    const STEP: i64 = 61_000_003;
    const HALF_A_YEAR: i64 = 365 * 86_400 * 1_000_000 / 2;
    let offset = (row as i64).wrapping_mul(STEP).rem_euclid(HALF_A_YEAR);
    Instant(FIRST + offset).to_naive_local(&TimeZone::UTC)
}

/// Generated vectors: rows to be indexed or joined, and others like them to be looked up.
#[derive(Debug)]
pub struct SyntheticVectors {
    dim: usize,
    rows: Vec<f32>,
    queries: Vec<f32>,
}

impl SyntheticVectors {
    /// Generates the given numbers of rows and queries. Equal on every machine and in every run.
    ///
    /// # Panics
    /// When there are more than a generator makes.
    #[must_use]
    pub fn new(row_count: u32, query_count: u32, dim: usize) -> Self {
        let mut rows = generator(row_count + query_count, dim).all();
        let queries = rows.split_off(row_count as usize * dim);
        Self { dim, rows, queries }
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.rows, self.dim).expect("rows are whole")
    }

    /// Returns the queries.
    #[must_use]
    pub fn queries(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.queries, self.dim).expect("queries are whole")
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
    /// # Panics
    /// When the threads cannot be started.
    #[must_use]
    pub fn start() -> Self {
        let policy = Policy::builtin();
        let guard = Guard::new(&policy.guard).expect("the built-in lexicon can be read");
        let config_hash = config_hash(&policy, guard.lexicon_text().as_bytes());
        let pool = Pool::new(None).expect("threads start on a machine that benchmarks");
        Self { policy, guard, config_hash, pool }
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
    /// # Panics
    /// When the store cannot be read or its folder not written.
    pub fn build_index(&self, store: &SyntheticStore) {
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
            .expect("the temporary folder can be written");
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
    /// # Panics
    /// When the store cannot be read or the scratch folder not written.
    #[must_use]
    pub fn consolidate(&self, store: &SyntheticStore) -> Outcome {
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
        let opened = BrainDb::open(store.path(), OpenOptions::default());
        let opened = opened.expect("the store can be read");
        consolidate(&opened, &self.policy, &self.guard, &context).expect("the store can be read")
    }
}

/// Prepares the invented vectors of a workload.
fn generator(row_count: u32, dim: usize) -> VectorGenerator {
    let recipe = VectorRecipe::builder(row_count, dim, SEED).build();
    VectorGenerator::new(recipe.expect("so many can be generated"))
}

#[cfg(test)]
mod tests {
    use super::{SyntheticStore, Workbench};

    #[test]
    fn a_synthetic_store_has_rows_to_merge() {
        let store = SyntheticStore::build(300);
        let outcome = Workbench::start().consolidate(&store);
        assert_eq!(outcome.report.loaded.live, 300);
        assert!(outcome.report.detected.pairs > 30, "{}", outcome.report.detected.pairs);
        assert!(outcome.report.planned.merge > 10, "{}", outcome.report.planned.merge);
    }
}
