//! Runs in a line.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use jiff::tz::TimeZone;
use memfold::MemfoldError;
use memfold::consolidate::{Outcome, RunContext, consolidate_judged};
use memfold::incremental::{ChangedRun, RowMarks, consolidate_changed};
use memfold::judging::{Judging, StoredAnswers};
use memfold_core::judge::Judge;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, ActionType, Plan};
use memfold_core::policy::{ConfigLoader, Configuration, JudgeSettings, Policy};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::{NoProgress, Pool};
use memfold_simd::{Kernels, Level};
use memfold_store::{BrainDb, LoadRequest, MemoryStore};

use crate::store_now;

/// How to run: configuration, time, threads, ISA level.
#[derive(Debug, Clone)]
pub struct Run {
    set: Vec<String>,
    now: Instant,
    threads: usize,
    level: Level,
}

/// The hash that the plans made here name.
pub const CONFIG_HASH: &str = "sha256:0";

impl Run {
    /// Runs as built in at [`store_now`], on two threads and the best level.
    #[must_use]
    pub fn builtin() -> Self {
        Self { set: Vec::new(), now: store_now(), threads: 2, level: Level::best() }
    }

    /// Runs on vectors alone: no guard, no protection, no equal texts; merges from `threshold` on.
    #[must_use]
    pub fn on_vectors(threshold: f64) -> Self {
        Self::builtin()
            .set("guard.enabled=false")
            .set("protection.enabled=false")
            .set("detect.exact_text=false")
            .set(format!("threshold={threshold}"))
    }

    /// Sets a configuration key.
    #[must_use]
    pub fn set(mut self, text: impl Into<String>) -> Self {
        self.set.push(text.into());
        self
    }

    /// Sets the run's time.
    #[must_use]
    pub fn at(self, now: Instant) -> Self {
        Self { now, ..self }
    }

    /// Returns the run's time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the policy.
    ///
    /// # Panics
    /// When the configuration is wrong.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.configuration().policy
    }

    /// Returns the configuration.
    ///
    /// # Panics
    /// When it is wrong.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        let loader = self.set.iter().fold(ConfigLoader::new(), |loader, text| loader.set(text));
        loader.load().expect("the configuration is valid")
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets the ISA level, which this machine must have.
    #[must_use]
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Plans.
    ///
    /// # Panics
    /// When the configuration is wrong or the run fails.
    #[must_use]
    pub fn plan(&self, store: &dyn MemoryStore) -> Outcome {
        self.try_run(store, None).expect("the run succeeds")
    }

    fn try_run(
        &self,
        store: &dyn MemoryStore,
        judging: Option<&mut Judging<'_>>,
    ) -> Result<Outcome, MemfoldError> {
        self.with_context(|policy, guard, context| {
            consolidate_judged(store, policy, guard, context, judging)
        })
    }

    /// Plans over memories changed since the run that left its marks in a folder.
    ///
    /// # Panics
    /// When the configuration is wrong or the run fails.
    #[must_use]
    pub fn plan_changed(&self, store: &BrainDb, folder: &Path) -> ChangedRun {
        self.with_context(|policy, guard, context| {
            consolidate_changed(store, folder, policy, guard, context, None)
        })
        .expect("the run succeeds")
    }

    /// Reads the marks of a store's rows.
    ///
    /// # Panics
    /// When the store cannot be read.
    #[must_use]
    pub fn marks(&self, store: &BrainDb) -> RowMarks {
        let load = LoadRequest { time_zone: &TimeZone::UTC, now: self.now, progress: &NoProgress };
        RowMarks::read(store, &load, &self.policy()).expect("the store can be read")
    }

    fn with_context<T>(&self, run: impl FnOnce(&Policy, &Guard, &RunContext<'_>) -> T) -> T {
        let policy = self.policy();
        let guard = Guard::new(&policy.guard).expect("the built-in lexicon is valid");
        let scratch = tempfile::tempdir().expect("the folder of temporary files is writable");
        let context = RunContext {
            now: self.now,
            time_zone: &TimeZone::UTC,
            config_hash: CONFIG_HASH,
            pool: &Pool::new(NonZeroUsize::new(self.threads)).expect("threads start"),
            kernels: Kernels::at(self.level).expect("the caller asked for an available level"),
            progress: &NoProgress,
            clock: &|| 0.0,
            scratch_dir: scratch.path(),
        };
        run(&policy, &guard, &context)
    }
}

impl Run {
    /// Plans, with a judge who decides by other settings than the configured ones.
    ///
    /// # Panics
    /// When the configuration is wrong or the run fails.
    #[must_use]
    pub fn judge_by(
        &self,
        store: &dyn MemoryStore,
        judge: &mut dyn Judge,
        settings: &JudgeSettings,
    ) -> Outcome {
        self.judge_after(store, judge, settings, &mut StoredAnswers::default())
    }

    /// Plans, with known earlier answers of a judge and decisions of a person.
    ///
    /// # Panics
    /// When the configuration is wrong or the run fails.
    #[must_use]
    pub fn judge_after(
        &self,
        store: &dyn MemoryStore,
        judge: &mut dyn Judge,
        settings: &JudgeSettings,
        answers: &mut StoredAnswers,
    ) -> Outcome {
        let mut judging = Judging {
            judge,
            answers,
            settings,
            recorded_only: false,
            announce: &|_| {},
            progress: &|_, _, _| {},
            cancelled: &|| false,
        };
        self.try_run(store, Some(&mut judging)).expect("the run succeeds")
    }
}

/// Returns the merges of a plan: the survivor first, then the memories that merge into it.
#[must_use]
pub fn merges(plan: &Plan) -> Vec<Vec<&str>> {
    let merges = plan.actions.iter().filter(|action| action.action == ActionType::Merge);
    merges.map(|action| action.target_ids.iter().map(MemoryId::as_str).collect()).collect()
}

/// Returns the merges of a plan as sets of ids.
#[must_use]
pub fn clusters(plan: &Plan) -> BTreeSet<BTreeSet<String>> {
    merges(plan).into_iter().map(|ids| ids.into_iter().map(str::to_owned).collect()).collect()
}

/// Returns the rows that a plan leaves alone: id, cause and reasons.
#[must_use]
pub fn noops(plan: &Plan) -> Vec<(&str, &str, String)> {
    let noops = plan.actions.iter().filter(|action| action.action == ActionType::Noop);
    let line = |action: &Action| action.rationale.reasons.join("; ");
    noops
        .map(|action| (action.target_ids[0].as_str(), &*action.rationale.rule_id, line(action)))
        .collect()
}
