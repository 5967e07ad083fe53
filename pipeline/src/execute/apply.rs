//! [`execute`]: a run that applies a plan.

use std::collections::BTreeMap;

use memfold_core::memory::MemoryId;
use memfold_core::merge::{KeptInPlace, MemoryRow, MergeContext, Step, UnitChanges, kept_note};
use memfold_core::plan::{ActionState, SavedAction, SavedPlan, action_label, plan_id};
use memfold_core::report::Executed;
use memfold_core::runs::{RunKind, RunState};
use memfold_store::StoreError;
use memfold_store::brain_db::{
    ActionRecord, ActionUpdate, BrainDb, Layout, Mark, NewUnit, RunStart, Session, Writes, apply,
};

use tracing::field::Empty;
use tracing::info_span;

use super::request::{
    ExecuteError, ExecuteRequest, Execution, RunWatcher, UnitOutcome, UnitResult, Unwatched,
};
use super::select::{APPROVED_NOTE, is_approved};
use super::units::{Pace, changes_of, heartbeat, units};
use super::{Blocked, ExecutionUnit, Selection};

/// Applies the wanted actions of a plan, unit by unit, and saves the plan first.
///
/// A transaction holds as many units as fit into some 20 ms; a unit that fails is rolled back alone. Between two
/// transactions others get 5 ms, and more where any were seen to write.
///
/// # Errors
/// When the plan belongs to another store or configuration, when all of it is stale, or when the
/// store fails; units applied before stay applied, and a later run continues.
pub fn execute(session: &Session, request: &ExecuteRequest<'_>) -> Result<Execution, ExecuteError> {
    execute_watched(session, request, &mut Unwatched)
}

/// As [`execute`]; notifies a watcher after each step.
///
/// # Errors
/// As [`execute`].
pub(crate) fn execute_watched(
    session: &Session,
    request: &ExecuteRequest<'_>,
    watcher: &mut dyn RunWatcher,
) -> Result<Execution, ExecuteError> {
    let span = info_span!(
        "consolidation.persist",
        run_id = Empty,
        plan_id = Empty,
        applied = Empty,
        stale = Empty,
        failed = Empty,
    );
    let execution = span.in_scope(|| carry_out(session, request, watcher))?;
    let Executed { applied, stale, failed, .. } = execution.executed;
    span.record("run_id", &*execution.run_id).record("plan_id", &*execution.plan_id);
    span.record("applied", applied as i64)
        .record("stale", stale as i64)
        .record("failed", failed as i64);
    Ok(execution)
}

fn carry_out(
    session: &Session,
    request: &ExecuteRequest<'_>,
    watcher: &mut dyn RunWatcher,
) -> Result<Execution, ExecuteError> {
    request.rules.check(request.policy, request.plan)?;
    check_configuration(request)?;
    check_store(session, request)?;
    check_anything_fresh(session, request)?;
    let backup = session.is_first_execution()?.then(|| session.back_up(request.run_id));
    let at = request.now.to_naive_local(request.time_zone);
    let saved = save(session, request, &at)?;
    let (units, blocked) = units(&saved.actions, request.selection);
    let expected = session.read(|reads| expected_digests(reads, &saved))?;
    let run_id = begin(session, request, &saved, &at)?;
    watcher.began(&run_id);
    let mut run = Run {
        session,
        request,
        watcher,
        plan_id: &saved.plan_id,
        run_id: &run_id,
        at: &at,
        expected,
        started: (request.clock)(),
        executed: Executed::default(),
        outcomes: Vec::new(),
        kept: BTreeMap::new(),
        pace: Pace::default(),
    };
    let ended = run.apply_all(&units);
    let state = match &ended {
        Err(_) => RunState::Interrupted,
        Ok(false) => RunState::Interrupted,
        Ok(true) if run.executed.stale + run.executed.failed > 0 => RunState::Partial,
        Ok(true) => RunState::Done,
    };
    let (executed, outcomes) = (run.executed, run.outcomes);
    let notes = run.kept.iter().map(|(reason, count)| kept_note(*count, reason)).collect();
    let finished = session.write(|writes| {
        writes.finish_run(&run_id, state, &at, executed)?;
        writes.close_outdated_flags()
    });
    match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            Err(ExecuteError::Stopped { run_id, executed, error: Box::new(error) })
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
            notes,
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

/// Refuses a plan of which nothing can be applied, before anything is written.
fn check_anything_fresh(
    session: &Session,
    request: &ExecuteRequest<'_>,
) -> Result<(), ExecuteError> {
    let known = session.plan(&plan_id(request.plan));
    let saved = known.unwrap_or_else(|_| SavedPlan::proposed(request.plan.clone()));
    let (units, _) = units(&saved.actions, request.selection);
    session.read(|reads| check_freshness(reads, &saved, &units))
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
) -> Result<String, StoreError> {
    session.begin_run(&RunStart {
        run_id: request.run_id,
        kind: RunKind::Execute,
        plan_id: Some(&saved.plan_id),
        target: None,
        holder: request.holder,
        at,
    })
}

/// The record of an applied unit.
struct Applied {
    importance_before: Option<f64>,
    kept: Vec<KeptInPlace>,
}

/// The results of the units of one transaction; they count once the transaction is committed.
struct Batch {
    executed: Executed,
    /// Digests of the memories that the units changed.
    digests: BTreeMap<MemoryId, String>,
    outcomes: Vec<UnitOutcome>,
    kept: Vec<KeptInPlace>,
}

/// A run under way.
struct Run<'a> {
    session: &'a Session,
    request: &'a ExecuteRequest<'a>,
    watcher: &'a mut dyn RunWatcher,
    plan_id: &'a str,
    run_id: &'a str,
    at: &'a str,
    expected: BTreeMap<MemoryId, String>,
    started: f64,
    executed: Executed,
    outcomes: Vec<UnitOutcome>,
    /// Why memories were not moved away, and how many.
    kept: BTreeMap<String, u64>,
    pace: Pace,
}

impl Run<'_> {
    /// Applies units up to the limit; `false` where the user cancelled.
    fn apply_all(&mut self, units: &[ExecutionUnit<'_>]) -> Result<bool, StoreError> {
        let progress = self.request.progress;
        progress.begin("apply", Some(units.len() as u64));
        let mut rest = units;
        while !rest.is_empty() && !self.is_at_limit(self.executed) {
            if progress.cancelled() {
                progress.end();
                return Ok(false);
            }
            let done = self.apply_some(rest)?;
            progress.advance(done as u64);
            rest = &rest[done..];
        }
        progress.end();
        Ok(true)
    }

    fn is_at_limit(&self, executed: Executed) -> bool {
        self.request.limit.is_some_and(|limit| executed.applied >= limit)
    }

    /// One transaction; returns how many units were dealt with.
    fn apply_some(&mut self, units: &[ExecutionUnit<'_>]) -> Result<usize, StoreError> {
        let batch = match self.session.write(|writes| self.batch(writes, units)) {
            Ok(batch) => batch,
            Err(error) if error.stops_the_run() => return Err(error),
            Err(_) if self.pace.units_max() > 1 => {
                self.pace.separate();
                return Ok(0);
            }
            Err(error) => {
                let mut batch = self.empty_batch();
                batch.add(&units[0], UnitResult::Failed(error.to_string()), None);
                self.session.write(|writes| {
                    self.note_failure(writes, &units[0], &error.to_string())?;
                    self.beat(writes, batch.executed)
                })?;
                batch
            }
        };
        let count = batch.outcomes.len();
        self.executed = batch.executed;
        self.expected.extend(batch.digests);
        for KeptInPlace { reason, .. } in batch.kept {
            *self.kept.entry(reason).or_default() += 1;
        }
        for outcome in batch.outcomes {
            self.watcher.tried(&outcome);
            self.outcomes.push(outcome);
        }
        self.pace.pause(self.session, count)?;
        Ok(count)
    }

    fn empty_batch(&self) -> Batch {
        Batch {
            executed: self.executed,
            digests: BTreeMap::new(),
            outcomes: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Applies units in one transaction until its time is over.
    fn batch(&self, writes: &Writes<'_>, units: &[ExecutionUnit<'_>]) -> Result<Batch, StoreError> {
        let layout = writes.layout()?;
        let clock = self.request.clock;
        let until = clock() + self.pace.seconds_max();
        let mut batch = self.empty_batch();
        for unit in units.iter().take(self.pace.units_max()) {
            match writes.nested(|| self.transact(writes, &layout, unit, &mut batch)) {
                Ok(Ok(Applied { importance_before, kept })) => {
                    batch.kept.extend(kept);
                    batch.add(unit, UnitResult::Applied, importance_before);
                }
                Ok(Err(reason)) => batch.add(unit, UnitResult::Stale(reason), None),
                Err(error) if error.stops_the_run() || writes.has_ended() => return Err(error),
                Err(error) => {
                    self.note_failure(writes, unit, &error.to_string())?;
                    batch.add(unit, UnitResult::Failed(error.to_string()), None);
                }
            }
            let is_over = clock() >= until || self.request.progress.cancelled();
            if is_over || self.is_at_limit(batch.executed) {
                break;
            }
        }
        self.beat(writes, batch.executed)?;
        Ok(batch)
    }

    /// The unit, or a note that it is stale.
    fn transact(
        &self,
        writes: &Writes<'_>,
        layout: &Layout,
        unit: &ExecutionUnit<'_>,
        batch: &mut Batch,
    ) -> Result<Result<Applied, String>, StoreError> {
        let expected = |id: &MemoryId| batch.digests.get(id).or_else(|| self.expected.get(id));
        let rows = match read_fresh(writes, layout, unit, expected)? {
            Ok(rows) => rows,
            Err(reason) => {
                for action in &unit.actions {
                    let note = approval(action).map(|word| format!("{word}; {reason}"));
                    let note = note.as_deref().unwrap_or(&reason);
                    let position = action.position;
                    self.mark_action(writes, position, ActionState::Stale, None, Some(note))?;
                }
                return Ok(Err(reason));
            }
        };
        let number = (batch.executed.applied + 1) as i64;
        let mark = Mark { run_id: self.run_id, unit: number, at: self.at };
        let context = MergeContext {
            policy: self.request.policy,
            time_zone: self.request.time_zone,
            run_id: self.run_id,
            now: self.request.now,
            at: self.at,
        };
        let importance_before = rows.first().and_then(|row| row.image.value("importance").number());
        let has_vectors = rows.iter().any(|row| row.has_embedding);
        let steps = unit.actions.iter().map(|saved| {
            let (action, access_count) = (saved.effective(), saved.access_count);
            Step { action, access_count }
        });
        let steps: Vec<Step<'_>> = steps.collect();
        let UnitChanges { changes, kept } = changes_of(writes, layout, &context, &steps, rows)?;
        apply(writes, layout, &mark, &changes)?;
        let mut memories = unit.ids();
        for action in unit.actions.iter().map(|action| action.effective()) {
            if let (Some(id), Some(text)) = (&action.canonical_id, &action.new_content) {
                // In a store without vectors a rule's own text needs none.
                let needs_none = action.rationale.evidence.decided_by.is_none()
                    && !self.request.vectors.has(text)
                    && !has_vectors;
                if !needs_none {
                    self.request.vectors.insert(writes, layout, id.as_str(), text, self.at)?;
                }
                memories.push(id);
            }
        }
        let actions = unit.actions.iter().map(|action| record(action)).collect();
        let plan_id = Some(self.plan_id);
        let unit_done = NewUnit { plan_id, actions, reverts: None, memories };
        let digests = writes.record_unit(layout, &mark, &unit_done)?;
        for action in &unit.actions {
            let (position, note) = (action.position, approval(action));
            self.mark_action(writes, position, ActionState::Applied, Some(number), note)?;
        }
        batch.digests.extend(digests);
        Ok(Ok(Applied { importance_before, kept }))
    }

    fn note_failure(
        &self,
        writes: &Writes<'_>,
        unit: &ExecutionUnit<'_>,
        reason: &str,
    ) -> Result<(), StoreError> {
        for action in &unit.actions {
            self.mark_action(writes, action.position, action.state, None, Some(reason))?;
        }
        Ok(())
    }

    fn mark_action(
        &self,
        writes: &Writes<'_>,
        position: usize,
        state: ActionState,
        unit: Option<i64>,
        note: Option<&str>,
    ) -> Result<(), StoreError> {
        let update = ActionUpdate { state, run_id: Some(self.run_id), unit, note };
        writes.set_action_state(self.plan_id, position, &update)
    }

    fn beat(&self, writes: &Writes<'_>, executed: Executed) -> Result<(), StoreError> {
        let at = heartbeat(self.request.now, self.request.clock, self.started)
            .to_naive_local(self.request.time_zone);
        writes.beat(self.run_id, &at, executed)
    }
}

/// The note on an action that a person approved.
fn approval(action: &SavedAction) -> Option<&'static str> {
    (action.state == ActionState::Approved || is_approved(action.note.as_deref()))
        .then_some(APPROVED_NOTE)
}

fn record(action: &SavedAction) -> ActionRecord {
    let effective = action.effective();
    let person = approval(action).map(|_| "a person".to_owned());
    ActionRecord {
        label: action_label(action.position),
        position: action.position,
        action: effective.action,
        ids: effective
            .new_content
            .iter()
            .flat_map(|_| effective.canonical_id.clone())
            .chain(effective.rests_on().cloned())
            .collect(),
        by: effective.rationale.evidence.decided_by.clone().or(person),
    }
}

impl Batch {
    fn add(
        &mut self,
        unit: &ExecutionUnit<'_>,
        result: UnitResult,
        importance_before: Option<f64>,
    ) {
        match result {
            UnitResult::Applied => self.executed.applied += 1,
            UnitResult::Stale(_) => self.executed.stale += 1,
            UnitResult::Failed(_) => self.executed.failed += 1,
        }
        let outcome = UnitOutcome::of(unit, result);
        self.outcomes.push(UnitOutcome { importance_before, ..outcome });
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
) -> Result<(Vec<UnitOutcome>, Vec<Blocked>), StoreError> {
    let (units, blocked) = units(&saved.actions, selection);
    let outcomes = store.look_on(|reads| {
        let expected = expected_digests(reads, saved)?;
        let layout = reads.layout()?;
        let tried = units.iter().map(|unit| {
            let read = read_fresh(reads, &layout, unit, |id| expected.get(id))?;
            let result = read.map_or_else(UnitResult::Stale, |_| UnitResult::Applied);
            Ok(UnitOutcome::of(unit, result))
        });
        tried.collect::<Result<Vec<_>, StoreError>>()
    })?;
    Ok((outcomes, blocked))
}

/// The expected digest of each memory: as in the plan, or as earlier units of the plan left it.
fn expected_digests(
    reads: &Writes<'_>,
    saved: &SavedPlan,
) -> Result<BTreeMap<MemoryId, String>, StoreError> {
    let mut expected = saved.plan.base_digests.clone();
    for unit in reads.units_of_plan(&saved.plan_id)? {
        expected.extend(unit.digests);
    }
    Ok(expected)
}

fn check_freshness(
    reads: &Writes<'_>,
    saved: &SavedPlan,
    units: &[ExecutionUnit<'_>],
) -> Result<(), ExecuteError> {
    let expected = expected_digests(reads, saved)?;
    let layout = reads.layout()?;
    let mut example = None;
    for unit in units {
        match read_fresh(reads, &layout, unit, |id| expected.get(id))? {
            Ok(_) => return Ok(()),
            Err(reason) => {
                example.get_or_insert(reason);
            }
        }
    }
    match example {
        Some(example) => Err(ExecuteError::AllStale { units: units.len() as u64, example }),
        None => Ok(()),
    }
}

/// The rows of a unit, or why it is stale.
fn read_fresh<'e>(
    reads: &Writes<'_>,
    layout: &Layout,
    unit: &ExecutionUnit<'_>,
    expected: impl Fn(&MemoryId) -> Option<&'e String>,
) -> Result<Result<Vec<MemoryRow>, String>, StoreError> {
    let mut rows = Vec::new();
    for id in unit.ids() {
        let Some(row) = reads.memory(layout, id)? else {
            return Ok(Err(format!("{id} is gone")));
        };
        if expected(id).is_none_or(|digest| *digest != row.digest.to_string()) {
            return Ok(Err(format!("{id} was changed since the plan was made")));
        }
        rows.push(row);
    }
    Ok(Ok(rows))
}
