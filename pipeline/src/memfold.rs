//! [`Memfold`]: a store with its configuration, the door to plans and runs.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_core::plan::Plan;
use memfold_core::policy::{Configuration, config_hash};
use memfold_core::report::Report;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::{NoProgress, Pool, Progress};
use memfold_simd::Kernels;
use memfold_store::brain_db::{Session, SessionOptions};
use memfold_store::{BrainDb, OpenOptions};
use tracing::info_span;

use crate::consolidate::{Outcome, RunContext, consolidate};
use crate::embed::fill::NewVectors;
use crate::error::MemfoldError;
use crate::execute::{
    CHANGE_SHARE_MAX, ExecuteRequest, Execution, Review, Selection, WriteRules, execute,
    rejudge_flags,
};
use crate::machine;

/// A store with its configuration.
///
/// # Examples
///
/// ```no_run
/// use memfold::Memfold;
///
/// # fn main() -> Result<(), memfold::MemfoldError> {
/// let memfold = Memfold::open("brain.db")?;
/// let planned = memfold.plan()?;
/// println!("{} merges", planned.report().planned.merge);
/// let run = planned.apply()?;
/// println!("undo with: memfold undo brain.db {}", run.run_id);
/// # Ok(())
/// # }
/// ```
pub struct Memfold {
    store: BrainDb,
    configuration: Configuration,
    guard: Guard,
    config_hash: String,
    time_zone: TimeZone,
    pool: Pool,
    options: Options,
}

/// How a store is opened; [`Default`] suits most callers.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The configuration; by default that of the machine, of the environment and of the file beside
    /// the store.
    pub configuration: Option<Configuration>,
    /// Worker threads; by default one for each core.
    pub threads: Option<NonZeroUsize>,
    /// The time of plans and runs; by default the clock's.
    pub now: Option<Instant>,
    /// A folder for temporary files as large as the vectors; by default the system's.
    pub scratch_dir: PathBuf,
    /// Receives progress, and says whether to cancel.
    pub progress: Arc<dyn Progress + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            configuration: None,
            threads: None,
            now: None,
            scratch_dir: std::env::temp_dir(),
            progress: Arc::new(NoProgress),
        }
    }
}

/// A plan that waits to be applied.
pub struct Planned<'a> {
    memfold: &'a Memfold,
    owned: OwnedPlan,
}

/// A plan apart from the store that it was made of: [`Memfold::apply`] applies it.
#[derive(Debug)]
pub struct OwnedPlan {
    outcome: Outcome,
    now: Instant,
}

/// The part of a plan to apply, and its conditions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// Which actions; by default all.
    pub selection: Selection,
    /// Units to apply at most; by default all.
    pub limit: Option<u64>,
    /// The digest of a plan that a person reviewed, in place of [`Self::change_share_max`].
    pub expect: Option<String>,
    /// The largest share of the live memories that may change without a review of the plan, from 0
    /// to 1.
    pub change_share_max: f64,
    /// Whether to write although the guard or protection is off.
    pub allow_unguarded: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            limit: None,
            expect: None,
            change_share_max: CHANGE_SHARE_MAX,
            allow_unguarded: false,
        }
    }
}

impl Memfold {
    /// Opens a store with the configuration that the command line would use.
    ///
    /// # Errors
    /// When the store cannot be read or is of another kind, which is opened by its [`mirror`](crate::mirror), or the
    /// configuration is not valid.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemfoldError> {
        Self::open_with(path, Options::default())
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    /// As [`Self::open`]; also where no thread can be started.
    pub fn open_with(path: impl Into<PathBuf>, options: Options) -> Result<Self, MemfoldError> {
        let path = path.into();
        if let Some(kind) = memfold_adapters::detect(&path) {
            return Err(MemfoldError::NeedsMirror { path, kind });
        }
        let configuration = match &options.configuration {
            Some(configuration) => configuration.clone(),
            None => machine::config_loader().store(&path).load()?,
        };
        let guard = Guard::new(&configuration.policy.guard)?;
        let patience = Duration::from_millis(configuration.settings.busy_timeout_ms.into());
        let store = BrainDb::open(path, OpenOptions::default().busy_timeout(patience))?;
        let config_hash = config_hash(&configuration.policy, guard.lexicon_text().as_bytes());
        let time_zone = configuration.policy.zone();
        let time_zone = time_zone.ok_or_else(|| MemfoldError::TimeZone {
            name: configuration.policy.time_zone.clone(),
        })?;
        let pool = Pool::new(options.threads)?;
        Ok(Self { store, configuration, guard, config_hash, time_zone, pool, options })
    }

    /// Returns the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Finds duplicates in the store and plans actions. Writes nothing to the store.
    ///
    /// # Errors
    /// When the store cannot be read, the scratch folder not written, or the caller cancelled.
    pub fn plan(&self) -> Result<Planned<'_>, MemfoldError> {
        let policy = &self.configuration.policy;
        let _run = info_span!("consolidation.run", store = %self.path().display()).entered();
        let stopwatch = machine::Stopwatch::start();
        let now = self.options.now.unwrap_or_else(machine::clock);
        let context = RunContext {
            now,
            time_zone: &self.time_zone,
            config_hash: &self.config_hash,
            pool: &self.pool,
            kernels: Kernels::active(),
            progress: &*self.options.progress,
            clock: &|| stopwatch.seconds(),
            scratch_dir: &self.options.scratch_dir,
        };
        let outcome = consolidate(&self.store, policy, &self.guard, &context)?;
        Ok(Planned { memfold: self, owned: OwnedPlan { outcome, now } })
    }

    /// Applies a plan that was made of this store.
    ///
    /// # Errors
    /// As [`Planned::apply`].
    pub fn apply(
        &self,
        plan: &OwnedPlan,
        options: &ApplyOptions,
    ) -> Result<Execution, MemfoldError> {
        let outcome = &plan.outcome;
        let live = outcome.report.loaded.live;
        let review = match &options.expect {
            Some(digest) => Review::Digest(digest),
            None => Review::Nobody { share_max: options.change_share_max, live },
        };
        let rules = WriteRules {
            settings: &self.configuration.settings,
            allow_unguarded: options.allow_unguarded,
            review,
        };
        rules.check(&self.configuration.policy, &outcome.plan)?;
        let (holder, stopwatch) = (machine::holder(), machine::Stopwatch::start());
        let busy_timeout =
            Duration::from_millis(self.configuration.settings.busy_timeout_ms.into());
        let session = SessionOptions { busy_timeout, holder: holder.clone() };
        let session = Session::open(self.path(), &session)?;
        let execution = execute(
            &session,
            &ExecuteRequest {
                plan: &outcome.plan,
                // Without a judge nothing is written anew.
                vectors: &NewVectors::default(),
                access_counts: &outcome.access_counts,
                selection: &options.selection,
                limit: options.limit,
                run_id: &outcome.report.run_id,
                now: plan.now,
                time_zone: &self.time_zone,
                policy: &self.configuration.policy,
                config_hash: &self.config_hash,
                rules,
                holder: &holder,
                progress: &*self.options.progress,
                clock: &|| stopwatch.seconds(),
            },
        )?;
        rejudge_flags(&session, &self.guard)?;
        Ok(execution)
    }
}

impl Planned<'_> {
    /// Returns the plan.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        self.owned.plan()
    }

    /// Returns the report: the findings and the planned actions.
    #[must_use]
    pub const fn report(&self) -> &Report {
        self.owned.report()
    }

    /// Applies the plan. Each unit is one transaction, journaled, and can be undone.
    ///
    /// # Errors
    /// When the configuration forbids writes, a guard is off, the plan changes more than
    /// [`CHANGE_SHARE_MAX`] of the live memories, another run holds the store, or the store fails.
    pub fn apply(&self) -> Result<Execution, MemfoldError> {
        self.apply_with(&ApplyOptions::default())
    }

    /// As [`Self::apply`], with options.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_with(&self, options: &ApplyOptions) -> Result<Execution, MemfoldError> {
        self.memfold.apply(&self.owned, options)
    }

    /// Takes the plan away from the store, to be applied later.
    #[must_use]
    pub fn into_owned(self) -> OwnedPlan {
        self.owned
    }
}

impl OwnedPlan {
    /// Returns the plan.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.outcome.plan
    }

    /// Returns the report: the findings and the planned actions.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.outcome.report
    }
}
