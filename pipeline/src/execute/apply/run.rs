//! A run under way: unit after unit.

use std::collections::BTreeMap;

use super::fresh::read_fresh;
use super::{ExecuteRequest, RunWatcher, UnitOutcome, UnitResult};
use crate::execute::ExecutionUnit;
use crate::execute::edits::{EditContext, Edited, edits};
use crate::execute::pace::{give_way, heartbeat};
use crate::execute::select::{APPROVED_NOTE, is_approved};
use memfold_model::memory::MemoryId;
use memfold_plan::plan::{ActionState, SavedAction, action_label};
use memfold_plan::report::Executed;
use memfold_store::brain_db::{
    ActionUpdate, Deed, Layout, Mark, Session, SessionError, UnitRecord, UnitRow, Writes, apply,
};
pub(super) use memfold_store::reading::Cell;

/// What is known of a unit once it was applied.
struct Applied {
    digests: BTreeMap<MemoryId, String>,
    importance_before: Option<f64>,
    kept: Vec<(MemoryId, String)>,
}

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) session: &'a Session,
    pub(super) request: &'a ExecuteRequest<'a>,
    pub(super) watcher: &'a mut dyn RunWatcher,
    pub(super) plan_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) at: &'a str,
    pub(super) expected: BTreeMap<MemoryId, String>,
    pub(super) started: f64,
    pub(super) executed: Executed,
    pub(super) outcomes: Vec<UnitOutcome>,
    /// Why memories were not moved away, and how many.
    pub(super) kept: BTreeMap<String, u64>,
}

impl Run<'_> {
    /// Applies units up to the limit; `false` where the user asked to stop.
    pub(super) fn apply_all(&mut self, units: &[ExecutionUnit<'_>]) -> Result<bool, SessionError> {
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
        let mut importance_before = None;
        let result = match self.session.write(|writes| self.transact(writes, unit)) {
            Ok(Ok(applied)) => {
                self.expected.extend(applied.digests);
                importance_before = applied.importance_before;
                for (_, reason) in applied.kept {
                    *self.kept.entry(reason).or_default() += 1;
                }
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
        let outcome = UnitOutcome { importance_before, ..UnitOutcome::of(unit, result) };
        self.watcher.tried(&outcome);
        self.outcomes.push(outcome);
        give_way((self.request.clock)() - started);
        Ok(())
    }

    /// One transaction: the unit, or a note that it is stale.
    fn transact(
        &self,
        writes: &Writes<'_>,
        unit: &ExecutionUnit<'_>,
    ) -> Result<Result<Applied, String>, SessionError> {
        let layout = writes.layout()?;
        let rows = match read_fresh(writes, &layout, unit, &self.expected)? {
            Ok(rows) => rows,
            Err(reason) => {
                let executed = counted(self.executed, &UnitResult::Stale(String::new()));
                for action in &unit.actions {
                    let note = approval(action).map(|word| format!("{word}; {reason}"));
                    let note = note.as_deref().unwrap_or(&reason);
                    self.mark_action(
                        writes,
                        action.position,
                        (ActionState::Stale, None, Some(note)),
                    )?;
                }
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
        let Edited { changes, kept } = edits(&unit.actions, &rows, (writes, &layout), context)?;
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
        writes.insert_unit(&record, self.at)?;
        for action in &unit.actions {
            let change = (ActionState::Applied, Some(number), approval(action));
            self.mark_action(writes, action.position, change)?;
        }
        self.beat(writes, counted(self.executed, &UnitResult::Applied))?;
        let importance = rows.first().and_then(|row| row.image.get("importance"));
        let importance_before = importance.and_then(|value| Cell::from(value).number());
        Ok(Ok(Applied { digests, importance_before, kept }))
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

    fn mark_action(
        &self,
        writes: &Writes<'_>,
        position: usize,
        (state, unit, note): (ActionState, Option<i64>, Option<&str>),
    ) -> Result<(), SessionError> {
        let update = ActionUpdate { state, run_id: Some(self.run_id), unit, note };
        writes.set_action_state(self.plan_id, position, &update)
    }

    fn beat(&self, writes: &Writes<'_>, executed: Executed) -> Result<(), SessionError> {
        let at = heartbeat(self.request.now, self.request.clock, self.started)
            .to_naive_local(self.request.time_zone);
        writes.beat(self.run_id, &at, executed)
    }
}

/// What an action notes that a person approved.
fn approval(action: &SavedAction) -> Option<&'static str> {
    (action.state == ActionState::Approved || is_approved(action.note.as_deref()))
        .then_some(APPROVED_NOTE)
}

fn deed(action: &SavedAction) -> Deed {
    let effective = action.effective();
    Deed {
        label: action_label(action.position),
        position: action.position,
        action: effective.action,
        ids: effective.target_ids.clone(),
    }
}

fn digests_after(
    writes: &Writes<'_>,
    layout: &Layout,
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
