//! [`undo`]: a run that takes units back, each whole or not at all.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use memfold_core::journal::{Change, Conflict, RevertOptions, revert};
use memfold_core::memory::MemoryId;
use memfold_core::merge::{DecisionAbout, decision};
use memfold_core::plan::{ActionState, ActionType};
use memfold_core::report::Executed;
use memfold_core::runs::{RunKind, RunState};
use memfold_core::time::Instant;
use memfold_index::Progress;
use memfold_store::StoreError;
use memfold_store::brain_db::{
    ActionRecord, ActionUpdate, BrainDb, Layout, Mark, NewUnit, NowRows, RunStart, Session,
    UnitRecord, Writes, apply,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::select::{APPROVED_NOTE, is_approved};
use super::units::{Pace, heartbeat};
use crate::execute::ExecuteError;

/// Returns the units that an undo would revert, without writing.
///
/// # Errors
/// When there is nothing to undo, or the store cannot be read.
pub fn preview_undo(
    store: &BrainDb,
    target: &UndoTarget,
    options: RevertOptions,
) -> Result<Vec<UndoOutcome>, ExecuteError> {
    store.look_on(|reads| {
        let layout = reads.layout()?;
        let units = find(reads, target)?;
        let going: BTreeSet<(&str, i64)> =
            units.iter().map(|unit| (&*unit.run_id, unit.unit)).collect();
        let examined = units.iter().map(|unit| {
            let found = examine(reads, &layout, unit, options, &going)?;
            Ok(outcome(unit, found.map(drop)))
        });
        examined.collect()
    })
}

/// Takes units back, last first, and keeps the next run from doing the same again.
///
/// # Errors
/// When there is nothing to undo or the store fails; units undone before stay undone.
pub fn undo(session: &Session, request: &UndoRequest<'_>) -> Result<Undo, ExecuteError> {
    let units = session.read(|reads| find(reads, request.target))?;
    let at = request.now.to_naive_local(request.time_zone);
    session.prepare(&at)?;
    let run_id = session.begin_run(&RunStart {
        run_id: request.run_id,
        kind: RunKind::Undo,
        plan_id: None,
        target: Some(&request.target.to_string()),
        holder: request.holder,
        at: &at,
    })?;
    let mut run = Run {
        session,
        request,
        run_id: &run_id,
        at: &at,
        started: (request.clock)(),
        executed: Executed::default(),
        outcomes: Vec::new(),
        pace: Pace::default(),
    };
    let ended = run.take_all_back(&units);
    let state = match &ended {
        Err(_) | Ok(false) => RunState::Interrupted,
        Ok(true) if run.executed.stale + run.executed.failed > 0 => RunState::Partial,
        Ok(true) => RunState::Done,
    };
    let (executed, outcomes) = (run.executed, run.outcomes);
    let finished = session.finish_run(&run_id, state, &at, executed);
    match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            Err(ExecuteError::UndoStopped { run_id, executed, error: Box::new(error) })
        }
        (Ok(_), Ok(())) => {
            let remaining = (units.len() - outcomes.len()) as u64;
            Ok(Undo { run_id, executed, outcomes, remaining, state })
        }
    }
}

/// The target of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoTarget {
    /// All that a run did, last first.
    Run(String),
    /// The unit with an action: of a run, or of the last run that applied an action of this label.
    Action {
        /// The run.
        run_id: Option<String>,
        /// The action's label, `a17`.
        label: String,
    },
    /// The last unit that changed a memory.
    Memory(MemoryId),
}

impl std::fmt::Display for UndoTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Action { run_id: Some(run), label } => write!(f, "action {label} of run {run}"),
            Self::Action { run_id: None, label } => write!(f, "action {label}"),
            Self::Memory(id) => write!(f, "memory {id}"),
        }
    }
}

/// A request to undo.
#[derive(Clone, Copy)]
pub struct UndoRequest<'a> {
    /// The target.
    pub target: &'a UndoTarget,
    /// How conflicts are handled.
    pub options: RevertOptions,
    /// Leaves out the decisions that keep the next run from doing the same again.
    pub remerge_ok: bool,
    /// The id wanted for the run.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
    /// Receives progress, and says whether to cancel.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// An undo under way.
struct Run<'a> {
    session: &'a Session,
    request: &'a UndoRequest<'a>,
    run_id: &'a str,
    at: &'a str,
    started: f64,
    executed: Executed,
    outcomes: Vec<UndoOutcome>,
    pace: Pace,
}

/// The results of the units of one transaction; they count once the transaction is committed.
struct Batch {
    executed: Executed,
    outcomes: Vec<UndoOutcome>,
}

impl Batch {
    fn add(&mut self, unit: &UnitRecord, found: TakenBack) {
        match found {
            Ok(()) => self.executed.applied += 1,
            Err(_) => self.executed.stale += 1,
        }
        self.outcomes.push(outcome(unit, found));
    }

    fn fail(&mut self, unit: &UnitRecord, error: &StoreError) {
        self.executed.failed += 1;
        self.outcomes.push(outcome(unit, Err(vec![(error.to_string(), None)])));
    }
}

impl Run<'_> {
    /// Undoes all units; `false` where the user cancelled.
    fn take_all_back(&mut self, units: &[UnitRecord]) -> Result<bool, StoreError> {
        let progress = self.request.progress;
        progress.begin("undo", Some(units.len() as u64));
        let mut rest = units;
        while !rest.is_empty() {
            if progress.cancelled() {
                progress.end();
                return Ok(false);
            }
            let done = self.take_some_back(rest)?;
            progress.advance(done as u64);
            rest = &rest[done..];
        }
        progress.end();
        Ok(true)
    }

    /// One transaction; returns how many units were dealt with.
    fn take_some_back(&mut self, units: &[UnitRecord]) -> Result<usize, StoreError> {
        let moved =
            self.session.read(|reads| reads.moved_memories(&units[0].run_id, units[0].unit))?;
        let work = |writes: &Writes<'_>| self.batch(writes, units, moved);
        // Rows come back unchanged: the rows that they refer to may be gone.
        let done = if moved { self.session.write_back(work) } else { self.session.write(work) };
        let batch = match done {
            Ok(batch) => batch,
            Err(error) if error.stops_the_run() => return Err(error),
            Err(_) if self.pace.units_max() > 1 => {
                self.pace.separate();
                return Ok(0);
            }
            Err(error) => {
                let mut batch = self.empty_batch();
                batch.fail(&units[0], &error);
                batch
            }
        };
        let count = batch.outcomes.len();
        self.executed = batch.executed;
        self.outcomes.extend(batch.outcomes);
        self.pace.pause(self.session, count)?;
        Ok(count)
    }

    fn empty_batch(&self) -> Batch {
        Batch { executed: self.executed, outcomes: Vec::new() }
    }

    /// Takes units back in one transaction until its time is over: all that moved memories, or none of them.
    fn batch(
        &self,
        writes: &Writes<'_>,
        units: &[UnitRecord],
        moved: bool,
    ) -> Result<Batch, StoreError> {
        let layout = writes.layout()?;
        let clock = self.request.clock;
        let until = clock() + self.pace.seconds_max();
        let mut batch = self.empty_batch();
        for unit in units.iter().take(self.pace.units_max()) {
            if !batch.outcomes.is_empty()
                && writes.moved_memories(&unit.run_id, unit.unit)? != moved
            {
                break;
            }
            let number = (batch.executed.applied + 1) as i64;
            match writes.nested(|| self.transact(writes, &layout, unit, number)) {
                Ok(found) => batch.add(unit, found),
                Err(error) if error.stops_the_run() || writes.has_ended() => return Err(error),
                Err(error) => batch.fail(unit, &error),
            }
            if clock() >= until || self.request.progress.cancelled() {
                break;
            }
        }
        let at =
            heartbeat(self.request.now, clock, self.started).to_naive_local(self.request.time_zone);
        writes.beat(self.run_id, &at, batch.executed)?;
        Ok(batch)
    }

    /// The unit is undone whole, or nothing is written.
    fn transact(
        &self,
        writes: &Writes<'_>,
        layout: &Layout,
        unit: &UnitRecord,
        number: i64,
    ) -> Result<TakenBack, StoreError> {
        let alone = BTreeSet::new();
        let changes = match examine(writes, layout, unit, self.request.options, &alone)? {
            Ok(changes) => changes,
            Err(conflicts) => return Ok(Err(conflicts)),
        };
        let mark = Mark { run_id: self.run_id, unit: number, at: self.at };
        apply(writes, layout, &mark, &changes)?;
        let root = self.turn_over(writes, unit)?;
        if unit.reverts.is_none() && !self.request.remerge_ok {
            let group = format!("{}/{number}", self.run_id);
            apply(writes, layout, &mark, &decisions(writes, layout, unit, &group)?)?;
        }
        let memories = unit.actions.iter().flat_map(|action| &action.ids).collect();
        let reverts = Some((unit.run_id.as_str(), unit.unit));
        let undone = NewUnit { plan_id: None, actions: root.actions, reverts, memories };
        writes.record_unit(layout, &mark, &undone)?;
        Ok(Ok(()))
    }

    /// Marks a unit as undone; the unit that it had undone itself is in force again, and so on to
    /// the unit that applied actions, which is returned.
    fn turn_over(&self, writes: &Writes<'_>, unit: &UnitRecord) -> Result<UnitRecord, StoreError> {
        let mut by = Some(self.run_id.to_owned());
        let mut at = unit.clone();
        loop {
            writes.mark_unit(&at.run_id, at.unit, by.as_deref())?;
            let Some((run, number)) = at.reverts.clone() else { break };
            let reverted = writes.unit(&run, number)?;
            let Some(reverted) = reverted else { break };
            by = if by.is_some() { None } else { Some(at.run_id.clone()) };
            at = reverted;
        }
        if let Some(plan_id) = &at.plan_id {
            for action in &at.actions {
                let noted = writes.action_note(plan_id, action.position)?;
                let approved = is_approved(noted.as_deref()).then_some(APPROVED_NOTE);
                let state = match by {
                    None => ActionState::Applied,
                    // The next run may make the same plan, under the same name.
                    Some(_) if self.request.remerge_ok && approved.is_some() => {
                        ActionState::Approved
                    }
                    Some(_) if self.request.remerge_ok => ActionState::Proposed,
                    Some(_) => ActionState::Undone,
                };
                let (run_id, unit) = (Some(at.run_id.as_str()), Some(at.unit));
                let update = ActionUpdate { state, run_id, unit, note: approved };
                writes.set_action_state(plan_id, action.position, &update)?;
            }
        }
        Ok(at)
    }
}

/// The units to undo, last first.
fn find(reads: &Writes<'_>, target: &UndoTarget) -> Result<Vec<UnitRecord>, ExecuteError> {
    let unknown = || ExecuteError::Unknown { target: target.to_string() };
    if !reads.has_own_tables()? {
        return Err(unknown());
    }
    let mut units = match target {
        UndoTarget::Run(run) => {
            let units = reads.units_of_run(run)?;
            if units.is_empty() {
                return Err(missing(reads, target, run)?);
            }
            units
        }
        UndoTarget::Action { run_id, label } => {
            let found = reads.unit_of_action(run_id.as_deref(), label)?;
            vec![found.ok_or_else(unknown)?]
        }
        UndoTarget::Memory(id) => {
            let found = reads.last_unit_of_memory(id)?;
            vec![found.ok_or_else(unknown)?]
        }
    };
    if let Some(by) = units.first().and_then(|unit| unit.undone_by.clone())
        && units.iter().all(|unit| !unit.is_applied)
    {
        return Err(ExecuteError::Undone { target: target.to_string(), by });
    }
    units.retain(|unit| unit.is_applied);
    units.reverse();
    Ok(units)
}

/// A run without units did nothing, or was pruned, or never was.
fn missing(reads: &Writes<'_>, target: &UndoTarget, run: &str) -> Result<ExecuteError, StoreError> {
    let applied = reads.applied_units(run)?;
    let target = target.to_string();
    Ok(match applied {
        Some(1..) => ExecuteError::Pruned { target },
        _ => ExecuteError::Unknown { target },
    })
}

type Examined = Result<Vec<Change>, Vec<Reason>>;

/// The changes that take a unit back, or why that cannot be done. `going` are units that go in the same undo.
fn examine(
    reads: &Writes<'_>,
    layout: &Layout,
    unit: &UnitRecord,
    options: RevertOptions,
    going: &BTreeSet<(&str, i64)>,
) -> Result<Examined, StoreError> {
    let later = reads.later_units(&unit.run_id, unit.unit)?;
    let blocking = later.iter().find(|(run, number)| !going.contains(&(run.as_str(), *number)));
    if let Some((run, _)) = blocking {
        return Ok(Err(vec![(format!("a later run built on it: undo {run} first"), None)]));
    }
    let entries = reads.journal(&unit.run_id, unit.unit)?;
    if entries.is_empty() {
        return Ok(Err(vec![("its journal was pruned".to_owned(), None)]));
    }
    let rows = NowRows { writes: reads, layout };
    let reverted = revert(&entries, &rows, options)?;
    Ok(reverted.map_err(|conflicts| conflicts.iter().map(told).collect()))
}

fn told(conflict: &Conflict) -> Reason {
    (conflict.to_string(), conflict.remedy())
}

/// Decisions that keep the next run from merging the same again, while the texts stay as they are.
fn decisions(
    writes: &Writes<'_>,
    layout: &Layout,
    unit: &UnitRecord,
    group: &str,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let rules = [
        ActionType::Merge,
        ActionType::ProposeMerge,
        ActionType::Rewrite,
        ActionType::Promote,
        ActionType::Archive,
    ];
    let mut decide = |id: &MemoryId, kind: &str, about| {
        let row = writes.memory(layout, id)?;
        changes.extend(row.and_then(|row| decision(&row, kind, about)));
        Ok::<_, StoreError>(())
    };
    let touched = unit.actions.iter().filter(|action| rules.contains(&action.action));
    for id in touched.flat_map(|action| &action.ids).collect::<BTreeSet<_>>() {
        decide(id, "undone", DecisionAbout::Group(group))?;
    }
    for ActionRecord { action, ids, .. } in &unit.actions {
        let (kind, about) = match action {
            ActionType::Merge | ActionType::ProposeMerge | ActionType::Rewrite => {
                ("keep_both", DecisionAbout::Group(group))
            }
            ActionType::Promote
            | ActionType::Archive
            | ActionType::Summarize
            | ActionType::Supersede => ("declined", DecisionAbout::Action(action.name())),
            ActionType::FlagContradiction | ActionType::Noop => continue,
        };
        for id in ids {
            decide(id, kind, about)?;
        }
    }
    if unit.actions.iter().any(|action| action.action == ActionType::FlagContradiction) {
        let closed = writes.closed_flags_of(&unit.run_id, unit.unit)?;
        changes.extend(closed.into_iter().map(Change::Record));
    }
    Ok(changes)
}

/// A reason not to take a unit back, and the flag that gets past it.
type Reason = (String, Option<&'static str>);

/// Whether a unit was undone, or why it cannot be.
type TakenBack = Result<(), Vec<Reason>>;

/// A unit that was, or can be, undone, unless it has conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "UndoneDocument")]
pub struct UndoOutcome {
    /// The run that did it.
    pub run_id: String,
    /// Its number in that run.
    pub unit: i64,
    /// What it did, by label and type: `a3 merge`.
    pub what: String,
    /// The memories it changed, survivors first.
    pub ids: Vec<MemoryId>,
    /// Why it cannot be undone; empty where it was, or can be.
    pub conflicts: Vec<String>,
    /// Flags of the command line that get past all of the conflicts.
    pub remedies: Vec<&'static str>,
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Its own run, which can be undone in turn.
    pub run_id: String,
    /// Units by result: conflicts count as stale.
    pub executed: Executed,
    /// Each unit.
    pub outcomes: Vec<UndoOutcome>,
    /// Units that were not tried after an interruption.
    pub remaining: u64,
    /// How it ended.
    pub state: RunState,
}

fn outcome(unit: &UnitRecord, found: TakenBack) -> UndoOutcome {
    let conflicts = found.err().unwrap_or_default();
    let what: Vec<String> =
        unit.actions.iter().map(|it| format!("{} {}", it.label, it.action.name())).collect();
    let mut seen = BTreeSet::new();
    let ids =
        unit.actions.iter().flat_map(|action| &action.ids).filter(|id| seen.insert(*id)).cloned();
    let all_have_remedies = conflicts.iter().all(|(_, remedy)| remedy.is_some());
    let remedies: BTreeSet<&'static str> =
        conflicts.iter().filter(|_| all_have_remedies).filter_map(|(_, remedy)| *remedy).collect();
    UndoOutcome {
        run_id: unit.run_id.clone(),
        unit: unit.unit,
        what: if what.is_empty() { "undo".to_owned() } else { what.join(", ") },
        ids: ids.collect(),
        conflicts: conflicts.into_iter().map(|(text, _)| text).collect(),
        remedies: remedies.into_iter().collect(),
    }
}
