//! Runs: consolidations, plans that are applied, and undos, each a [`Job`].

use std::sync::Arc;

use clap::ValueEnum;
use memfold::execute::{Execution, preview_undo};
use memfold::machine::Stopwatch;
use memfold::ops::{
    self, ApplyDocument, ApplyRequest, ConsolidateDocument, ConsolidateRequest, Consolidated,
    Failure, JudgeMode, Listener, RunFiles, Scope, Settings, UndoDocument, UndoRequest,
};
use memfold::quick_check::with_user;
use memfold_core::plan::{ActionState, PlanSummary, SavedPlan};
use memfold_core::report::Mode;
use memfold_core::runs::{RunHistory, RunState, RunSummary, UnitSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::{PastRun, leave_out_old_actions};
use super::jobs::{Job, JobState, Outcome};
use super::problem::{Problem, ProblemKind};
use super::store::{ServedStore, locked};

/// Past runs that are remembered.
const PAST_KEPT: usize = 50;
/// Actions that past runs list together; further ones are only counted.
const PAST_ACTIONS_KEPT: usize = 20_000;

/// What of a plan is applied at once.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecuteMode {
    /// Nothing.
    #[default]
    None,
    /// Merges of identical texts; the rest is saved for review.
    #[value(help = "Merges of identical texts")]
    Identical,
    /// What people approved in saved plans; the new plan is saved for review.
    #[value(help = "What people approved")]
    Reviewed,
    /// Everything, as far as no more than the largest share of the memories changes.
    #[value(help = "Everything")]
    All,
}

/// A consolidation that is wanted: a dry run unless it says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// What of the plan is applied at once.
    pub(crate) execute: ExecuteMode,
    /// Save the plan in the store, for review; kept in the server's memory otherwise.
    pub(crate) save_plan: bool,
    /// Search only changes since the last run that wrote.
    pub(crate) incremental: bool,
    /// Allow merges again that were undone.
    pub(crate) again: bool,
    /// Let models decide about proposals.
    pub(crate) judge: Option<JudgeMode>,
    /// Merge at or above this cosine similarity.
    pub(crate) threshold: Option<f64>,
    /// Only memories of these categories.
    pub(crate) categories: Vec<String>,
    /// Only memories of this user.
    pub(crate) user_id: Option<String>,
    /// Only memories created at or after this time (ISO 8601).
    pub(crate) since: Option<String>,
    /// Only memories created before this time (ISO 8601).
    pub(crate) until: Option<String>,
    /// Run only the rules of this trigger.
    pub(crate) trigger: Option<String>,
    /// Plan as if it were this time (RFC 3339).
    pub(crate) now: Option<String>,
    /// Apply so many units at most.
    pub(crate) limit: Option<u64>,
    /// Refuse to change a larger share of the live memories without a review, 0 to 1.
    pub(crate) max_change_share: Option<f64>,
}

impl RunRequest {
    fn writes(&self) -> bool {
        self.save_plan || self.execute != ExecuteMode::None
    }

    /// Returns the configuration keys that it sets.
    fn scope(&self) -> Result<Scope, Problem> {
        let in_unit = |value: Option<f64>| value.is_none_or(|value| (0.0..=1.0).contains(&value));
        if !in_unit(self.threshold) || !in_unit(self.max_change_share) {
            return Err(Problem::unprocessable(
                "threshold and max_change_share are numbers from 0 to 1",
            ));
        }
        if self.user_id.is_some() && !self.categories.is_empty() {
            // A run takes memories of any of its categories: memories of other users would be among
            // them.
            return Err(Problem::unprocessable("a run is for a user or for categories")
                .with_hint("leave one of user_id and categories out"));
        }
        Ok(Scope {
            threshold: self.threshold,
            method: None,
            categories: with_user(&self.categories, self.user_id.as_deref()),
            since: self.since.clone(),
            until: self.until.clone(),
            now: self.now.clone(),
            trigger: self.trigger.clone(),
        })
    }

    /// Returns the library's request.
    fn of(&self, scope: &Scope) -> ConsolidateRequest {
        let execute = self.execute == ExecuteMode::All;
        ConsolidateRequest {
            incremental: self.incremental,
            again: self.again,
            judge: self.judge,
            save_plan: self.writes() && !execute,
            execute,
            limit: self.limit.filter(|_| execute),
            max_change_share: self.max_change_share,
            dry_run: !self.writes(),
            scope: scope.clone(),
            ..ConsolidateRequest::default()
        }
    }
}

impl ServedStore {
    /// Starts a consolidation.
    ///
    /// # Errors
    /// When it wants to write where that is not allowed, cannot be fulfilled, or too many runs
    /// wait.
    pub(crate) fn start_run(self: &Arc<Self>, request: RunRequest) -> Result<Arc<Job>, Problem> {
        if request.writes() {
            self.may_write()?;
        }
        let scope = request.scope()?;
        let store = Arc::clone(self);
        self.queue("consolidate", move |job| {
            let stopwatch = Stopwatch::start();
            let done = store.mirrored(|| store.consolidate(&request, &scope, job));
            let ms = (stopwatch.seconds() * 1e3) as u64;
            store.remember(match &done {
                Ok((done, outcome)) => PastRun::of(&job.id, done, outcome, ms),
                Err(problem) => PastRun::failed(&job.id, problem, !request.writes(), ms),
            });
            done.map(|(_, outcome)| outcome)
        })
    }

    /// Does work on a store of another kind: pulls before it, publishes after it.
    fn mirrored<T>(&self, work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
        self.pull()?;
        let done = work()?;
        if self.may_write().is_ok() {
            self.publish()?;
        }
        Ok(done)
    }

    fn remember(&self, run: PastRun) {
        let mut past = locked(&self.past);
        past.push_back(Arc::new(run));
        if past.len() > PAST_KEPT {
            past.pop_front();
        }
        leave_out_old_actions(past.make_contiguous(), PAST_ACTIONS_KEPT);
    }

    /// Returns the consolidations of this server, the first one first.
    pub(crate) fn past_runs(&self) -> Vec<Arc<PastRun>> {
        locked(&self.past).iter().cloned().collect()
    }

    fn consolidate(
        &self,
        request: &RunRequest,
        scope: &Scope,
        job: &Job,
    ) -> Result<(Consolidated, Outcome), Problem> {
        let mut applied = Vec::new();
        if request.execute == ExecuteMode::Reviewed {
            applied = self.apply_reviewed(job)?;
        }
        let (wanted, serving) = (request.of(scope), &self.serving);
        let mut done =
            ops::consolidate(&serving.sources, &self.path, &wanted, serving.threads, job)?;
        for failure in &done.written.failures {
            self.printer.failure(failure);
        }
        let plan = SavedPlan::proposed(done.outcome.plan.clone());
        let (plan_id, plan_digest) = (plan.plan_id.clone(), plan.plan_digest.clone());
        if done.saved_as.is_none() && done.execution.is_none() {
            self.keep_plan(plan.clone());
        }
        if request.execute == ExecuteMode::Identical && done.saved_as.is_some() {
            let only = ApplyRequest { only: vec!["identical".to_owned()], ..Default::default() };
            let saved = self.db.plan(&plan_id)?;
            applied.push(self.apply(&only, &saved, job)?);
        }
        let report = &mut done.outcome.report;
        for execution in applied.iter().filter(|execution| recorded(execution).is_some()) {
            report.mode = Mode::Execute;
            report.run_id.clone_from(&execution.run_id);
            report.executed.applied += execution.executed.applied;
            report.executed.stale += execution.executed.stale;
            report.executed.failed += execution.executed.failed;
        }
        let result = value(&ConsolidateDocument::of(&done.outcome.report));
        let execution = done.execution.as_ref().or(applied.last());
        let outcome = Outcome {
            state: execution.map(|execution| state_of(execution.state)),
            run_id: execution.and_then(recorded),
            plan_id: Some(plan_id),
            plan_digest: Some(plan_digest),
            result: Some(result),
        };
        Ok((done, outcome))
    }

    /// Applies approved actions that are still pending.
    fn apply_reviewed(&self, listener: &dyn Listener) -> Result<Vec<Execution>, Problem> {
        let mut applied = Vec::new();
        for summary in self.db.plans()? {
            let waits = |plan: &PlanSummary| plan.states.contains_key(&ActionState::Approved);
            if waits(&summary) {
                let saved = self.db.plan(&summary.plan_id)?;
                applied.push(self.apply(&ApplyRequest::default(), &saved, listener)?);
            }
        }
        Ok(applied)
    }

    fn apply(
        &self,
        request: &ApplyRequest,
        saved: &SavedPlan,
        listener: &dyn Listener,
    ) -> Result<Execution, Failure> {
        let (sources, overrides) = (&self.serving.sources, &saved.plan.overrides);
        let settings = Settings::load_for_plan(sources, Some(&self.path), overrides)?;
        let files = RunFiles::default();
        let (execution, written) =
            ops::apply(&self.path, &settings, saved, request, None, &files, listener)?;
        for failure in &written.failures {
            self.printer.failure(failure);
        }
        Ok(execution)
    }

    /// Starts to apply a plan, given its id and the digest that the caller knows.
    ///
    /// # Errors
    /// When writing is not allowed, the plan does not exist, or its digest is another one.
    pub(crate) fn start_apply(
        self: &Arc<Self>,
        plan: &str,
        digest: &str,
        request: ApplyRequest,
    ) -> Result<Arc<Job>, Problem> {
        self.may_write()?;
        let saved = self.plan_with(plan, digest)?;
        if request.limit == Some(0) {
            return Err(Problem::unprocessable("the limit is 0: leave it out, or give 1 or more"));
        }
        let store = Arc::clone(self);
        self.queue("apply", move |job| {
            let work = || Ok(store.apply(&request, &saved, &**job)?);
            let execution = store.mirrored(work)?;
            store.drop_plan(&saved.plan_id);
            Ok(Outcome {
                state: Some(state_of(execution.state)),
                run_id: recorded(&execution),
                plan_id: Some(saved.plan_id.clone()),
                plan_digest: Some(saved.plan_digest.clone()),
                result: Some(value(&ApplyDocument::of_run(&execution, &saved))),
            })
        })
    }

    /// Starts to undo a run.
    ///
    /// # Errors
    /// When writing is not allowed, the run does not exist, or it has nothing to undo.
    pub(crate) fn start_undo(
        self: &Arc<Self>,
        run: &str,
        request: UndoRequest,
    ) -> Result<Arc<Job>, Problem> {
        self.may_write()?;
        let job = self.job(run).map(|job| job.document());
        let run = job.and_then(|job| job.run_id).unwrap_or_else(|| run.to_owned());
        let request = UndoRequest { run: Some(self.run(&run)?.run_id), ..request };
        let settings = Settings::load(&self.serving.sources, Some(&self.path), &[])?;
        let target = request.target(&self.path, &settings)?;
        // A target that cannot be undone at all is reported at once.
        preview_undo(&self.db, &target, request.options())?;
        let store = Arc::clone(self);
        self.queue("undo", move |job| {
            let work = || Ok(ops::undo(&store.path, &settings, &target, &request, None, &**job)?);
            let undone = store.mirrored(work)?;
            Ok(Outcome {
                state: Some(state_of(undone.state)),
                run_id: Some(undone.run_id.clone()),
                result: Some(value(&UndoDocument::of_run(&target, &undone))),
                ..Outcome::default()
            })
        })
    }

    /// Returns the runs that wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn runs(&self) -> Result<RunHistory, Problem> {
        Ok(self.db.runs()?)
    }

    /// Finds a run by its id or how that begins.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub(crate) fn run(&self, wanted: &str) -> Result<RunSummary, Problem> {
        let history = self.runs()?;
        let found = ops::find_run(&history, wanted).map_err(|failure| {
            let hint = "GET /v1/runs lists them";
            Problem::not_found(failure.message).with_hint(hint)
        });
        found.cloned()
    }

    /// Returns the units of a run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn units(&self, run_id: &str) -> Result<Vec<UnitSummary>, Problem> {
        Ok(self.db.units(run_id)?)
    }
}

/// Refuses a plan that differs from the one that the caller has seen.
pub(crate) fn check_digest(plan: &SavedPlan, digest: &str) -> Result<(), Problem> {
    let bare = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
    if bare(digest) == bare(&plan.plan_digest) {
        return Ok(());
    }
    let detail = format!("plan {} has the digest {}", plan.plan_id, plan.plan_digest);
    Err(Problem::new(ProblemKind::AnotherPlan, detail).with_hint("look at the plan again"))
}

/// The id under which a run is recorded. A run without a unit is not recorded, and nothing of it
/// can be undone.
fn recorded(execution: &Execution) -> Option<String> {
    (!execution.outcomes.is_empty()).then(|| execution.run_id.clone())
}

const fn state_of(state: RunState) -> JobState {
    match state {
        RunState::Done | RunState::Running => JobState::Done,
        RunState::Partial => JobState::Partial,
        RunState::Interrupted => JobState::Interrupted,
        RunState::Failed => JobState::Failed,
    }
}

/// Makes a document JSON.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("documents hold strings, numbers and lists of them")
}
