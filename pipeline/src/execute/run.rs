//! [`execute`]: a run that applies a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_index::Progress;

use super::edits::{EditContext, edits};
use super::units::units;
use super::{Blocked, ExecutionUnit, Selection};
use crate::memory::MemoryId;
use crate::plan::{ActionState, ActionType, Plan, SavedPlan};
use crate::policy::{Absorbed, Policy};
use crate::report::Executed;
use crate::runs::{RunKind, RunState};
use crate::store::brain_db::own::runs::RunStart;
use crate::store::brain_db::{
    ActionUpdate, BackupOutcome, BrainDb, Deed, FindPlanError, Mark, Session, SessionError,
    UnitRecord, UnitRow, Writes, apply, own,
};
use crate::time::Instant;

/// What a run applies, and how.
#[derive(Clone, Copy)]
pub struct ExecuteRequest<'a> {
    /// The plan, as saved in the store or read from a file.
    pub plan: &'a Plan,
    /// Access counts at which promotions are recorded.
    pub access_counts: &'a BTreeMap<MemoryId, i64>,
    /// Which of its actions.
    pub selection: &'a Selection,
    /// Units to apply at most.
    pub limit: Option<u64>,
    /// The id wanted for the run; another is taken where it is in use.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// The policy, whose hash must be the plan's.
    pub policy: &'a Policy,
    /// sha256 of the semantic configuration.
    pub config_hash: &'a str,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
    /// Where progress goes, and the wish to stop comes from.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// What became of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitResult {
    /// It was applied.
    Applied,
    /// A row was changed since the plan was made; nothing of it was applied.
    Stale(String),
    /// The store refused it; nothing of it was applied.
    Failed(String),
}

/// A unit and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitOutcome {
    /// The actions' labels, `a3+a9`.
    pub label: String,
    /// The actions' positions in the plan.
    pub positions: Vec<usize>,
    /// What became of it.
    pub result: UnitResult,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The run.
    pub run_id: String,
    /// The plan's id in the store.
    pub plan_id: String,
    /// Units by result.
    pub executed: Executed,
    /// Each unit that was tried.
    pub outcomes: Vec<UnitOutcome>,
    /// Actions that need another one which was not wanted.
    pub blocked: Vec<Blocked>,
    /// Units that were not tried: beyond the limit, or after an interruption.
    pub remaining: u64,
    /// How the run ended.
    pub state: RunState,
    /// The copy of the store, made before the first execution.
    pub backup: Option<BackupOutcome>,
}

/// Why nothing could be applied, or a run stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The store cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store failed in the middle of a run; what was applied stays applied.
    #[error("run {run_id} stopped after {} applied units: {error}", executed.applied)]
    Stopped {
        /// The run.
        run_id: String,
        /// Units by result so far.
        executed: Executed,
        /// Why.
        #[source]
        error: SessionError,
    },
    /// The plan was made from another store.
    #[error("the plan was made for {expected}, this store is {found}")]
    AnotherStore {
        /// The plan's store.
        expected: String,
        /// This store.
        found: String,
    },
    /// The configuration is not the one the plan was made with.
    #[error("the plan was made with configuration {expected}, it is {found} now")]
    AnotherConfiguration {
        /// The plan's.
        expected: String,
        /// The present one.
        found: String,
    },
    /// Every wanted unit has a row that was changed since.
    #[error("all {units} units of the plan are stale: {example}")]
    AllStale {
        /// How many.
        units: u64,
        /// The first one's reason.
        example: String,
    },
    /// Rows cannot be moved because others refer to them.
    #[error("memories cannot be moved: table {table} refers to stm by a foreign key")]
    Referred {
        /// The table.
        table: String,
    },
    /// What the store holds of the plan cannot be read.
    #[error(transparent)]
    Plan(#[from] FindPlanError),
}

impl ExecuteError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) | Self::Stopped { error, .. } => error.hint(),
            Self::AnotherStore { .. } => {
                Some("make a plan from this store: memfold consolidate DB --save-plan".to_owned())
            }
            Self::AnotherConfiguration { .. } => Some(
                "rules or protection changed since: make the plan again, or restore the \
                 configuration (`memfold config show DB` prints what holds)"
                    .to_owned(),
            ),
            Self::AllStale { .. } => {
                Some("make the plan again: memfold consolidate DB --save-plan".to_owned())
            }
            Self::Referred { .. } => Some("use merge.absorbed: archive".to_owned()),
            Self::Plan(error) => error.hint(),
        }
    }
}

/// Tells which units would be applied and which are stale, without writing.
///
/// # Errors
/// When the store cannot be read.
pub fn preview(
    store: &BrainDb,
    saved: &SavedPlan,
    selection: &Selection,
) -> Result<(Vec<UnitOutcome>, Vec<Blocked>), SessionError> {
    let (units, blocked) = units(&saved.actions, selection);
    let outcomes = store.look_on(|reads| {
        let expected = expected_digests(reads, saved)?;
        let layout = reads.layout()?;
        let tried = units.iter().map(|unit| {
            let read = read_fresh(reads, &layout, unit, &expected)?;
            let result = read.map_or_else(UnitResult::Stale, |_| UnitResult::Applied);
            Ok(outcome(unit, result))
        });
        tried.collect::<Result<Vec<_>, SessionError>>()
    })?;
    Ok((outcomes, blocked))
}

/// Applies the wanted actions of a plan, unit by unit, and saves the plan first.
///
/// Between two transactions others get as much time as the last one took. The cost of a unit is one commit that
/// reaches the disk and a few writes for each row.
///
/// # Errors
/// When the plan belongs to another store or configuration, when all of it is stale, or when the store
/// fails; what was applied until then stays applied, and a later run continues.
pub fn execute(session: &Session, request: &ExecuteRequest<'_>) -> Result<Execution, ExecuteError> {
    check_configuration(request)?;
    check_store(session, request)?;
    let at = request.now.to_naive_local(request.time_zone);
    let saved = save(session, request, &at)?;
    let (units, blocked) = units(&saved.actions, request.selection);
    check_moves(session, request, &units)?;
    let expected = session.read(|reads| check_freshness(reads, &saved, &units))?;
    let run_id = begin(session, request, &saved, &at)?;
    let backup = session.is_first_execution(&run_id)?.then(|| session.back_up(&run_id));
    let mut run = Run {
        session,
        request,
        plan_id: &saved.plan_id,
        run_id: &run_id,
        at: &at,
        expected,
        started: (request.clock)(),
        executed: Executed::default(),
        outcomes: Vec::new(),
    };
    let ended = run.apply_all(&units);
    let state = match &ended {
        Err(_) => RunState::Interrupted,
        Ok(false) => RunState::Interrupted,
        Ok(true) if run.executed.stale + run.executed.failed > 0 => RunState::Partial,
        Ok(true) => RunState::Done,
    };
    let (executed, outcomes) = (run.executed, run.outcomes);
    let finished = session.write(|writes| {
        writes.step("finish the run", |c| own::runs::finish(c, &run_id, state, &at, executed))?;
        own::close_flags(writes)
    });
    match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            Err(ExecuteError::Stopped { run_id, executed, error })
        }
        (Ok(_), Ok(())) => Ok(Execution {
            run_id,
            plan_id: saved.plan_id,
            executed,
            remaining: (units.len() - outcomes.len()) as u64,
            outcomes,
            blocked,
            state,
            backup,
        }),
    }
}

fn check_configuration(request: &ExecuteRequest<'_>) -> Result<(), ExecuteError> {
    if request.plan.config_hash == request.config_hash {
        return Ok(());
    }
    Err(ExecuteError::AnotherConfiguration {
        expected: request.plan.config_hash.clone(),
        found: request.config_hash.to_owned(),
    })
}

fn check_store(session: &Session, request: &ExecuteRequest<'_>) -> Result<(), ExecuteError> {
    let found = session.store_id()?;
    if found == request.plan.store_id {
        return Ok(());
    }
    Err(ExecuteError::AnotherStore { expected: request.plan.store_id.clone(), found })
}

fn check_moves(
    session: &Session,
    request: &ExecuteRequest<'_>,
    units: &[ExecutionUnit<'_>],
) -> Result<(), ExecuteError> {
    let moves = |action: ActionType| matches!(action, ActionType::Merge | ActionType::Archive);
    let any = units.iter().flat_map(|unit| &unit.actions).any(|a| moves(a.effective().action));
    if request.policy.merge.absorbed != Absorbed::Move || !any {
        return Ok(());
    }
    let layout = session.read(|reads| reads.layout())?;
    match layout.referring.into_iter().next() {
        Some(table) => Err(ExecuteError::Referred { table }),
        None => Ok(()),
    }
}

fn save(
    session: &Session,
    request: &ExecuteRequest<'_>,
    at: &str,
) -> Result<SavedPlan, ExecuteError> {
    session.prepare(at)?;
    let plan_id = session.save_plan(request.plan, request.access_counts, at)?;
    Ok(session.plan(&plan_id)?)
}

/// Begins a run with tables that are there; runs that were killed are marked first.
fn begin(
    session: &Session,
    request: &ExecuteRequest<'_>,
    saved: &SavedPlan,
    at: &str,
) -> Result<String, SessionError> {
    session.begin_run(&RunStart {
        run_id: request.run_id,
        kind: RunKind::Execute,
        plan_id: Some(&saved.plan_id),
        target: None,
        holder: request.holder,
        at,
    })
}

/// What each memory must look like: as the plan saw it, or as earlier units of the plan left it.
fn expected_digests(
    reads: &Writes<'_>,
    saved: &SavedPlan,
) -> Result<BTreeMap<MemoryId, String>, SessionError> {
    let mut expected = saved.plan.base_digests.clone();
    if !reads.query("look for memfold's tables", own::exist)? {
        return Ok(expected);
    }
    let units = reads
        .query("read memfold_units", |connection| own::units_of_plan(connection, &saved.plan_id))?;
    for unit in units {
        expected.extend(unit.digests);
    }
    Ok(expected)
}

fn check_freshness(
    reads: &Writes<'_>,
    saved: &SavedPlan,
    units: &[ExecutionUnit<'_>],
) -> Result<BTreeMap<MemoryId, String>, ExecuteError> {
    let expected = expected_digests(reads, saved)?;
    let layout = reads.layout()?;
    let mut example = None;
    for unit in units {
        match read_fresh(reads, &layout, unit, &expected)? {
            Ok(_) => return Ok(expected),
            Err(reason) => {
                example.get_or_insert(reason);
            }
        }
    }
    match example {
        Some(example) => Err(ExecuteError::AllStale { units: units.len() as u64, example }),
        None => Ok(expected),
    }
}

/// The rows of a unit, or why it is stale.
fn read_fresh(
    reads: &Writes<'_>,
    layout: &crate::store::brain_db::Layout,
    unit: &ExecutionUnit<'_>,
    expected: &BTreeMap<MemoryId, String>,
) -> Result<Result<Vec<UnitRow>, String>, SessionError> {
    let mut rows = Vec::new();
    for id in unit.ids() {
        let Some(row) = reads.memory(layout, id)? else {
            return Ok(Err(format!("{id} is gone")));
        };
        if expected.get(id).is_none_or(|digest| *digest != row.digest.to_string()) {
            return Ok(Err(format!("{id} was changed since the plan was made")));
        }
        rows.push(row);
    }
    Ok(Ok(rows))
}

fn outcome(unit: &ExecutionUnit<'_>, result: UnitResult) -> UnitOutcome {
    let positions = unit.actions.iter().map(|action| action.position).collect();
    UnitOutcome { label: unit.label(), positions, result }
}

/// A run under way.
struct Run<'a> {
    session: &'a Session,
    request: &'a ExecuteRequest<'a>,
    plan_id: &'a str,
    run_id: &'a str,
    at: &'a str,
    expected: BTreeMap<MemoryId, String>,
    started: f64,
    executed: Executed,
    outcomes: Vec<UnitOutcome>,
}

impl Run<'_> {
    /// Applies units up to the limit; `false` where the user asked to stop.
    fn apply_all(&mut self, units: &[ExecutionUnit<'_>]) -> Result<bool, SessionError> {
        let progress = self.request.progress;
        progress.begin("apply", Some(units.len() as u64));
        for unit in units {
            if self.request.limit.is_some_and(|limit| self.executed.applied >= limit) {
                break;
            }
            if progress.cancelled() {
                progress.end();
                return Ok(false);
            }
            self.apply_one(unit)?;
            progress.advance(1);
        }
        progress.end();
        Ok(true)
    }

    fn apply_one(&mut self, unit: &ExecutionUnit<'_>) -> Result<(), SessionError> {
        let started = (self.request.clock)();
        let before = self.executed;
        let result = match self.session.write(|writes| self.transact(writes, unit)) {
            Ok(Ok(digests)) => {
                self.expected.extend(digests);
                UnitResult::Applied
            }
            Ok(Err(reason)) => UnitResult::Stale(reason),
            Err(error) if error.stops_the_run() => return Err(error),
            Err(error) => {
                let reason = error.to_string();
                self.note_failure(unit, &reason)?;
                UnitResult::Failed(reason)
            }
        };
        self.executed = counted(before, &result);
        self.outcomes.push(outcome(unit, result));
        give_way((self.request.clock)() - started);
        Ok(())
    }

    /// One transaction: the unit, or a note that it is stale.
    fn transact(
        &self,
        writes: &Writes<'_>,
        unit: &ExecutionUnit<'_>,
    ) -> Result<Result<BTreeMap<MemoryId, String>, String>, SessionError> {
        let layout = writes.layout()?;
        let rows = match read_fresh(writes, &layout, unit, &self.expected)? {
            Ok(rows) => rows,
            Err(reason) => {
                let executed = counted(self.executed, &UnitResult::Stale(String::new()));
                self.mark_actions(writes, unit, (ActionState::Stale, None, Some(&reason)))?;
                self.beat(writes, executed)?;
                return Ok(Err(reason));
            }
        };
        let number = (self.executed.applied + 1) as i64;
        let mark = Mark { run_id: self.run_id, unit: number, at: self.at };
        let context = EditContext {
            policy: self.request.policy,
            time_zone: self.request.time_zone,
            run_id: self.run_id,
            now: self.request.now,
            at: self.at,
        };
        let changes = edits(&unit.actions, &rows, context).map_err(|id| SessionError::Refused {
            what: "read a memory",
            reason: format!("{id} is no longer readable"),
        })?;
        apply(writes, &layout, &mark, &changes)?;
        let digests = digests_after(writes, &layout, &rows)?;
        let record = UnitRecord {
            run_id: self.run_id.to_owned(),
            unit: number,
            undone_by: None,
            is_applied: true,
            plan_id: Some(self.plan_id.to_owned()),
            deeds: unit.actions.iter().map(|action| deed(action)).collect(),
            reverts: None,
            digests: digests.clone(),
        };
        writes.step("write down the unit", |c| own::insert_unit(c, &record, self.at))?;
        self.mark_actions(writes, unit, (ActionState::Applied, Some(number), None))?;
        self.beat(writes, counted(self.executed, &UnitResult::Applied))?;
        Ok(Ok(digests))
    }

    fn note_failure(&self, unit: &ExecutionUnit<'_>, reason: &str) -> Result<(), SessionError> {
        self.session.write(|writes| {
            for action in &unit.actions {
                let change = (action.state, None, Some(reason));
                self.mark_action(writes, action.position, change)?;
            }
            self.beat(writes, counted(self.executed, &UnitResult::Failed(String::new())))
        })
    }

    fn mark_actions(
        &self,
        writes: &Writes<'_>,
        unit: &ExecutionUnit<'_>,
        change: (ActionState, Option<i64>, Option<&str>),
    ) -> Result<(), SessionError> {
        let mut actions = unit.actions.iter();
        actions.try_for_each(|action| self.mark_action(writes, action.position, change))
    }

    fn mark_action(
        &self,
        writes: &Writes<'_>,
        position: usize,
        (state, unit, note): (ActionState, Option<i64>, Option<&str>),
    ) -> Result<(), SessionError> {
        let update = ActionUpdate { state, run_id: Some(self.run_id), unit, note };
        writes.step("write down what became of an action", |connection| {
            own::plans::set_state(connection, self.plan_id, position, &update)
        })
    }

    fn beat(&self, writes: &Writes<'_>, executed: Executed) -> Result<(), SessionError> {
        let at = heartbeat(self.request.now, self.request.clock, self.started)
            .to_naive_local(self.request.time_zone);
        writes.step("write down the run", |c| own::runs::beat(c, self.run_id, &at, executed))
    }
}

fn deed(action: &crate::plan::SavedAction) -> Deed {
    let effective = action.effective();
    Deed {
        label: crate::plan::action_label(action.position),
        position: action.position,
        action: effective.action,
        ids: effective.target_ids.clone(),
    }
}

fn digests_after(
    writes: &Writes<'_>,
    layout: &crate::store::brain_db::Layout,
    rows: &[UnitRow],
) -> Result<BTreeMap<MemoryId, String>, SessionError> {
    let mut digests = BTreeMap::new();
    for row in rows {
        let after = writes.memory(layout, &row.id)?;
        let digest = after.map_or_else(String::new, |row| row.digest.to_string());
        digests.insert(row.id.clone(), digest);
    }
    Ok(digests)
}

fn counted(mut executed: Executed, result: &UnitResult) -> Executed {
    match result {
        UnitResult::Applied => executed.applied += 1,
        UnitResult::Stale(_) => executed.stale += 1,
        UnitResult::Failed(_) => executed.failed += 1,
    }
    executed
}

/// The run's time moved on by what has passed since it began: it shows that the run is alive.
pub(super) fn heartbeat(now: Instant, clock: &dyn Fn() -> f64, started: f64) -> Instant {
    Instant(now.0.saturating_add(((clock() - started) * 1e6) as i64))
}

/// Others wait for the store by trying again after pauses that grow to 100 ms. With every second moment
/// theirs, hardly anybody meets a closed door many times in a row.
const GIVE_WAY_MAX: Duration = Duration::from_millis(100);

/// Lets others at the store for as long as they just had to wait.
pub(super) fn give_way(held_seconds: f64) {
    let held = Duration::try_from_secs_f64(held_seconds).unwrap_or_default();
    std::thread::sleep(held.min(GIVE_WAY_MAX));
}
