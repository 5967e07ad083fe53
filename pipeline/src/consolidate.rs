//! The stages in one call: load → export → join → cluster → plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::tz::TimeZone;
use memfold_datasets::embedding;
use memfold_index::{JoinOptions, Pool, Progress, Row, VectorMatrix};
use memfold_simd::Kernels;
use tracing::field::Empty;
use tracing::info_span;

use crate::columns::{ColumnSink, ColumnsError, VectorColumns};
use crate::error::MemfoldError;
use crate::judging::{Ground, Judging, judge_plan};
use memfold_core::Snapshot;
use memfold_core::detect::{
    BuiltIn, DetectInput, Detection, Joins, NearMiss, detect, join_spaces, join_threshold,
};
use memfold_core::memory::{Memory, MemoryId, MemoryIndex, SpaceIndex, VectorSpace};
use memfold_core::plan::{Decided, GuardedTexts, Plan, PlanInput, decide, differences};
use memfold_core::policy::Policy;
use memfold_core::report::{Executed, Incremental, Mode, Report, Run, Seconds};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_store::{LoadRequest, MemoryStore, VectorSink};

/// The surroundings of a run; only `now` and `time_zone` reach the plan.
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

/// The result of a run: its plan and its report.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The planned actions.
    pub plan: Plan,
    /// Access counts at which its promotions are recorded once they are applied.
    pub access_counts: BTreeMap<MemoryId, i64>,
    /// The plan with its evidence, for people and programs. Its memory figures are the caller's to
    /// fill in.
    pub report: Report,
    /// Near pairs that the run refused, where [`refused_pairs`] requests some.
    pub(crate) refused: Vec<RefusedPair>,
}

/// Two live memories that are similar, and that a run neither merges nor proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedPair {
    /// The older memory.
    pub older: MemoryId,
    /// The newer memory.
    pub newer: MemoryId,
    /// Their canonical similarity.
    pub similarity: f64,
    /// The differences that keep them apart, in words.
    pub differences: Vec<String>,
}

/// Loads a store, finds duplicates and plans actions. Writes nothing to the store.
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
    load_and_plan(store, policy, guard, context, judging, 0)
}

/// Draws `count` of the near pairs that a run over the store would refuse, at random: the same ones each time.
///
/// # Errors
/// As [`consolidate`].
pub(crate) fn refused_pairs(
    store: &dyn MemoryStore,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    count: usize,
) -> Result<Vec<RefusedPair>, MemfoldError> {
    Ok(load_and_plan(store, policy, guard, context, None, count)?.refused)
}

fn load_and_plan(
    store: &dyn MemoryStore,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    judging: Option<&mut Judging<'_>>,
    refused_count: usize,
) -> Result<Outcome, MemfoldError> {
    let mut laps = Laps::new(context.clock);
    let mut sink = ColumnSink::new(context.scratch_dir);
    let request =
        LoadRequest { time_zone: context.time_zone, now: context.now, progress: context.progress };
    let span = info_span!("consolidation.load", store_id = Empty, memories = Empty);
    let mut snapshot = span.in_scope(|| store.load(&request, &mut sink))?;
    if policy.merge.again {
        snapshot.decisions.allow_undone_merges();
    }
    span.record("store_id", &*snapshot.store_id).record("memories", snapshot.memories.len() as i64);
    drop(span);
    let load = laps.lap();
    let columns = sink.finish()?;
    let matrices = columns.matrices();
    let loaded =
        Loaded { snapshot: &snapshot, matrices: &matrices, load, narrowed: None, refused_count };
    plan_loaded(loaded, policy, guard, context, laps, judging)
}

/// The inputs of a plan.
pub(crate) struct Loaded<'a> {
    /// The store, or a part of it.
    pub(crate) snapshot: &'a Snapshot,
    /// The vectors of each space.
    pub(crate) matrices: &'a [VectorMatrix<'a>],
    /// Seconds that reading took.
    pub(crate) load: f64,
    /// The memories to plan around, if not all; and the report's entry about that.
    pub(crate) narrowed: Option<(&'a BTreeSet<MemoryIndex>, Incremental)>,
    /// How many refused pairs are drawn for an audit.
    pub(crate) refused_count: usize,
}

const fn join_options<'a>(context: &'a RunContext<'_>) -> JoinOptions<'a> {
    JoinOptions {
        pool: context.pool,
        kernels: context.kernels,
        pair_budget: None,
        scratch_dir: Some(context.scratch_dir),
        progress: context.progress,
    }
}

/// Finds the duplicates of a snapshot and plans actions.
pub(crate) fn plan_loaded(
    loaded: Loaded<'_>,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    mut laps: Laps<'_>,
    judging: Option<&mut Judging<'_>>,
) -> Result<Outcome, MemfoldError> {
    let Loaded { snapshot, matrices, load, narrowed, refused_count } = loaded;
    let export = laps.lap();
    let options = join_options(context);
    let built_in = BuiltInVectors::of(snapshot, policy, context)?;
    let mut matrices = matrices.to_vec();
    matrices.extend(built_in.iter().flat_map(|built_in| built_in.columns.matrices()));
    let joins = joins(snapshot, &matrices, policy, &options)?;
    let join = laps.lap();
    let input = DetectInput {
        snapshot,
        matrices: &matrices,
        built_in: built_in.as_ref().map(|built_in| built_in.beside(snapshot)),
        policy,
        guard,
        pool: context.pool,
        kernels: context.kernels,
        progress: context.progress,
        refused_count,
    };
    let mut detection = clusters(&input, &joins)?;
    drop(joins);
    let (changed, incremental) = narrowed.unzip();
    let only = changed.map(|changed| detection.narrow(changed));
    let cluster = laps.lap();

    let similarity = |a, b| input.similarity(a, b);
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
    let (judge, total) = (laps.lap(), laps.total());
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
    let refused = detection.refused.iter().map(|pair| RefusedPair::of(pair, snapshot)).collect();
    Ok(Outcome { plan: decided.plan, access_counts: decided.access_counts, report, refused })
}

impl RefusedPair {
    fn of(pair: &NearMiss, snapshot: &Snapshot) -> Self {
        let memory = |at: MemoryIndex| &snapshot.memories[at.index()];
        let (older, newer) = (memory(pair.older), memory(pair.newer));
        let judgement = pair.kept_apart.as_ref();
        Self {
            older: older.id.clone(),
            newer: newer.id.clone(),
            similarity: pair.similarity.get(),
            differences: judgement.map_or_else(Vec::new, |judgement| {
                differences(judgement, &older.content, &newer.content)
            }),
        }
    }
}

/// Joins the spaces of a snapshot, and that of the built-in embedding where it has a matrix behind theirs.
fn joins(
    snapshot: &Snapshot,
    matrices: &[VectorMatrix<'_>],
    policy: &Policy,
    options: &JoinOptions<'_>,
) -> Result<Joins, MemfoldError> {
    let (threshold, by) = (join_threshold(policy), policy.detect.method.graph_join());
    let mut spaces = snapshot.spaces.clone();
    spaces.push(BuiltInVectors::space());
    let joins = info_span!("consolidation.scan", memories = snapshot.memories.len() as i64)
        .in_scope(|| join_spaces(&spaces, matrices, threshold, by.as_ref(), options))?;
    Ok(joins)
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

/// Vectors of the built-in embedding, for a run over memories some of which have no vector of their own.
struct BuiltInVectors {
    columns: VectorColumns,
    /// Of each memory of the snapshot.
    rows: Vec<Option<Row>>,
}

impl BuiltInVectors {
    /// Texts that are embedded before their vectors are written.
    const BATCH: usize = 1 << 16;

    fn space() -> VectorSpace {
        VectorSpace { model: embedding::MODEL.into(), dim: embedding::DIM as u32 }
    }

    /// Returns them as one more space, after the snapshot's.
    fn beside(&self, snapshot: &Snapshot) -> BuiltIn<'_> {
        BuiltIn { space: SpaceIndex(snapshot.spaces.len() as u32), rows: &self.rows }
    }

    /// Embeds every memory that is live or was merged; `None` where all live ones have a vector of
    /// their own, and where no pairs are searched.
    fn of(
        snapshot: &Snapshot,
        policy: &Policy,
        context: &RunContext<'_>,
    ) -> Result<Option<Self>, MemfoldError> {
        let is_whole = snapshot.with_vector_count() == snapshot.live_count();
        if is_whole || join_threshold(policy).is_none() {
            return Ok(None);
        }
        let mut sink = ColumnSink::new(context.scratch_dir);
        let kept = |source| ColumnsError::write(context.scratch_dir, source);
        let space = sink.open_space(&Self::space()).map_err(kept)?;
        let mut rows = Vec::with_capacity(snapshot.memories.len());
        context.progress.begin("embed texts", Some(snapshot.memories.len() as u64));
        for batch in snapshot.memories.chunks(Self::BATCH) {
            if context.progress.cancelled() {
                return Err(MemfoldError::Cancelled);
            }
            let counts = |memory: &Memory| !memory.status.is_excluded();
            let texts: Vec<&str> = batch
                .iter()
                .map(|memory| if counts(memory) { &*memory.content } else { "" })
                .collect();
            for vector in embedding::embed_all(&texts, context.pool) {
                let row = vector.map(|vector| sink.push(space, &vector)).transpose();
                rows.push(row.map_err(kept)?);
            }
            context.progress.advance(batch.len() as u64);
        }
        context.progress.end();
        Ok(Some(Self { columns: sink.finish()?, rows }))
    }
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
