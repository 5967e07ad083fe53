//! The stages in one call: load → export → join → cluster → plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::tz::TimeZone;
use memfold_index::{JoinOptions, Pool, Progress, VectorMatrix};
use memfold_simd::{Kernels, Similarity};
use tracing::field::Empty;
use tracing::info_span;

use crate::columns::ColumnSink;
use crate::error::MemfoldError;
use crate::judging::{Ground, Judging, judge_plan};
use memfold_guard::Guard;
use memfold_model::memory::{MemoryId, MemoryIndex};
use memfold_model::time::Instant;
use memfold_plan::detect::{DetectInput, Detection, Joins, detect, join_spaces, join_threshold};
use memfold_plan::plan::{Decided, GuardedTexts, Plan, PlanInput, decide};
use memfold_plan::policy::Policy;
use memfold_plan::report::{Executed, Incremental, Mode, Report, Run, Seconds};
use memfold_store::{LoadRequest, MemoryStore, Snapshot};

/// What a run works with; only `now` and `time_zone` reach the plan.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// sha256 of the semantic configuration.
    pub config_hash: &'a str,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment, for the report.
    pub clock: &'a dyn Fn() -> f64,
    /// A folder for unlinked temporary files as large as the vectors.
    pub scratch_dir: &'a Path,
}

/// What a run found and would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What should be done.
    pub plan: Plan,
    /// Access counts at which its promotions are recorded once they are applied.
    pub access_counts: BTreeMap<MemoryId, i64>,
    /// The plan with what it rests on, for people and programs. Its memory figures are the caller's to fill in.
    pub report: Report,
}

/// Loads a store, finds what it says twice and plans what to do. Writes nothing to the store.
///
/// # Errors
/// As [`consolidate_judged`].
pub fn consolidate(
    store: &dyn MemoryStore,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
) -> Result<Outcome, MemfoldError> {
    consolidate_judged(store, policy, guard, context, None)
}

/// As [`consolidate`]; models decide about the proposals, and their answers are kept as [`Judging`] says.
///
/// # Errors
/// When the store cannot be read, the scratch folder not written, the threshold tells nothing apart, or the
/// run is cancelled; when answers cannot be kept.
pub fn consolidate_judged(
    store: &dyn MemoryStore,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    judging: Option<&mut Judging<'_>>,
) -> Result<Outcome, MemfoldError> {
    let mut laps = Laps::new(context.clock);
    let mut sink = ColumnSink::new(context.scratch_dir);
    let request =
        LoadRequest { time_zone: context.time_zone, now: context.now, progress: context.progress };
    let span = info_span!("consolidation.load", store_id = Empty, memories = Empty);
    let snapshot = span.in_scope(|| store.load(&request, &mut sink))?;
    span.record("store_id", &*snapshot.store_id).record("memories", snapshot.memories.len() as i64);
    drop(span);
    let load = laps.lap();
    let columns = sink.finish()?;
    let matrices = columns.matrices();
    let loaded = Loaded { snapshot: &snapshot, matrices: &matrices, load, narrowed: None };
    plan_loaded(loaded, policy, guard, context, laps, judging)
}

/// What a plan is made from.
pub(crate) struct Loaded<'a> {
    /// The store, or a part of it.
    pub(crate) snapshot: &'a Snapshot,
    /// The vectors of each space.
    pub(crate) matrices: &'a [VectorMatrix<'a>],
    /// Seconds that reading took.
    pub(crate) load: f64,
    /// The memories around which something is planned, where it is not all; and what the report says of that.
    pub(crate) narrowed: Option<(&'a BTreeSet<MemoryIndex>, Incremental)>,
}

/// Finds what a snapshot says twice and plans what to do.
pub(crate) fn plan_loaded(
    loaded: Loaded<'_>,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    mut laps: Laps<'_>,
    judging: Option<&mut Judging<'_>>,
) -> Result<Outcome, MemfoldError> {
    let Loaded { snapshot, matrices, load, narrowed } = loaded;
    let export = laps.lap();
    let options = JoinOptions {
        pool: context.pool,
        kernels: context.kernels,
        pair_budget: None,
        scratch_dir: Some(context.scratch_dir),
        progress: context.progress,
    };
    let (threshold, by) = (join_threshold(policy), policy.detect.method.graph_join());
    let joins = info_span!("consolidation.scan", memories = snapshot.memories.len() as i64)
        .in_scope(|| join_spaces(&snapshot.spaces, matrices, threshold, by.as_ref(), &options))?;
    let join = laps.lap();
    let input = DetectInput {
        snapshot,
        matrices,
        policy,
        guard,
        pool: context.pool,
        kernels: context.kernels,
        progress: context.progress,
    };
    let mut detection = clusters(&input, &joins)?;
    drop(joins);
    let (changed, incremental) = narrowed.unzip();
    let only = changed.map(|changed| detection.narrow(changed));
    let cluster = laps.lap();

    let similarity = |a, b| similarity(snapshot, matrices, context.kernels, a, b);
    let mut decided = decided(&PlanInput {
        snapshot,
        detection: &detection,
        policy,
        only: only.as_ref(),
        guard: &GuardedTexts::new(guard, &snapshot.memories),
        similarity: &similarity,
        now: context.now,
        config_hash: context.config_hash,
    });
    let plan = laps.lap();
    let ground = Ground {
        input: &input,
        options: &options,
        detection: &detection,
        similarity: &similarity,
        protected: &decided.protected,
    };
    let judged =
        judging.map(|judging| judge_plan(&mut decided.plan, ground, judging)).transpose()?;
    let judge = laps.lap();
    let total = laps.total();
    let seconds = Seconds { load, export, join, cluster, plan, judge, total, ..Seconds::default() };
    let mut report = Report::from(&Run {
        snapshot,
        detection: &detection,
        decided: &decided,
        policy,
        similarity: &similarity,
        incremental,
        now: context.now,
        mode: Mode::DryRun,
        executed: Executed::default(),
        seconds,
        peak_rss_bytes: 0,
        peak_anon_bytes: 0,
        threads: context.pool.threads(),
        isa: context.kernels.level().name(),
    });
    report.judged = judged;
    Ok(Outcome { plan: decided.plan, access_counts: decided.access_counts, report })
}

fn clusters(input: &DetectInput<'_>, joins: &Joins) -> Result<Detection, MemfoldError> {
    let span = info_span!(
        "consolidation.cluster",
        pairs = Empty,
        clusters = Empty,
        contradictory_pairs = Empty,
    );
    let found = span.in_scope(|| detect(input, joins))?;
    span.record("pairs", found.pairs as i64)
        .record("clusters", found.clusters.len() as i64)
        .record("contradictory_pairs", found.contradiction_pairs as i64);
    Ok(found)
}

fn decided(input: &PlanInput<'_>) -> Decided {
    let span = info_span!("consolidation.plan", actions = Empty, changes = Empty);
    let decided = span.in_scope(|| decide(input));
    let plan = &decided.plan;
    span.record("actions", plan.actions.len() as i64).record("changes", plan.changes() as i64);
    decided
}

/// The canonical similarity of two memories with vectors of one space.
fn similarity(
    snapshot: &Snapshot,
    matrices: &[VectorMatrix<'_>],
    kernels: &Kernels,
    a: MemoryIndex,
    b: MemoryIndex,
) -> Option<Similarity> {
    let place = |memory: MemoryIndex| snapshot.memories[memory.index()].embedding.vector();
    let ((space, row), (other_space, other_row)) = (place(a)?, place(b)?);
    if space != other_space {
        return None;
    }
    let matrix = &matrices[space.0 as usize];
    let (x, y) = (matrix.vector(row), matrix.vector(other_row));
    kernels.similarity(x, y, (kernels.dot(x, x), kernels.dot(y, y)))
}

/// Takes the time of one stage after the other.
pub(crate) struct Laps<'a> {
    clock: &'a dyn Fn() -> f64,
    start: f64,
    last: f64,
}

impl<'a> Laps<'a> {
    pub(crate) fn new(clock: &'a dyn Fn() -> f64) -> Self {
        let now = clock();
        Self { clock, start: now, last: now }
    }

    pub(crate) fn lap(&mut self) -> f64 {
        let now = (self.clock)();
        now - std::mem::replace(&mut self.last, now)
    }

    fn total(&self) -> f64 {
        self.last - self.start
    }
}
