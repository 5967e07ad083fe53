//! An undo under way: unit after unit, last first.

use std::collections::BTreeSet;

use super::UndoOutcome;
use super::UndoRequest;
use super::find::{examine, key};
use super::keep::{decisions, digests};
use super::outcome::{TakenBack, outcome};
use crate::execute::pace::{give_way, heartbeat};
use crate::execute::select::{APPROVED_NOTE, is_approved};
use memfold_plan::plan::ActionState;
use memfold_plan::report::Executed;
use memfold_store::brain_db::{
    ActionUpdate, Mark, Session, SessionError, UnitRecord, Writes, apply,
};

/// An undo under way.
pub(super) struct Run<'a> {
    pub(super) session: &'a Session,
    pub(super) request: &'a UndoRequest<'a>,
    pub(super) run_id: &'a str,
    pub(super) at: &'a str,
    pub(super) started: f64,
    pub(super) executed: Executed,
    pub(super) outcomes: Vec<UndoOutcome>,
}

impl Run<'_> {
    /// Takes all units back; `false` where the user asked to stop.
    pub(super) fn take_all_back(&mut self, units: &[UnitRecord]) -> Result<bool, SessionError> {
        let progress = self.request.progress;
        progress.begin("undo", Some(units.len() as u64));
        for unit in units {
            if progress.cancelled() {
                progress.end();
                return Ok(false);
            }
            self.take_back(unit)?;
            progress.advance(1);
        }
        progress.end();
        Ok(true)
    }

    fn take_back(&mut self, unit: &UnitRecord) -> Result<(), SessionError> {
        let started = (self.request.clock)();
        let found = match self.try_to_take_back(unit) {
            Ok(found) => {
                match found {
                    Ok(()) => self.executed.applied += 1,
                    Err(_) => self.executed.stale += 1,
                }
                found
            }
            Err(error) if error.stops_the_run() => return Err(error),
            Err(error) => {
                self.executed.failed += 1;
                Err(vec![(error.to_string(), None)])
            }
        };
        self.outcomes.push(outcome(unit, found));
        give_way((self.request.clock)() - started);
        Ok(())
    }

    fn try_to_take_back(&self, unit: &UnitRecord) -> Result<TakenBack, SessionError> {
        if self.session.read(|reads| reads.moved_memories(key(unit)))? {
            return self.session.write_back(|writes| self.transact(writes, unit));
        }
        self.session.write(|writes| self.transact(writes, unit))
    }

    /// One transaction: the unit goes back whole, or nothing is written.
    fn transact(&self, writes: &Writes<'_>, unit: &UnitRecord) -> Result<TakenBack, SessionError> {
        let layout = writes.layout()?;
        let alone = BTreeSet::new();
        let changes = match examine(writes, &layout, unit, (self.request.options, &alone))? {
            Ok(changes) => changes,
            Err(conflicts) => return Ok(Err(conflicts)),
        };
        let number = (self.executed.applied + 1) as i64;
        let mark = Mark { run_id: self.run_id, unit: number, at: self.at };
        apply(writes, &layout, &mark, &changes)?;
        let root = self.turn_over(writes, unit)?;
        if unit.reverts.is_none() && !self.request.remerge_ok {
            let group = format!("{}/{number}", self.run_id);
            apply(writes, &layout, &mark, &decisions(writes, &layout, unit, &group)?)?;
        }
        let record = UnitRecord {
            run_id: self.run_id.to_owned(),
            unit: number,
            undone_by: None,
            is_applied: true,
            plan_id: None,
            deeds: root.deeds,
            reverts: Some((unit.run_id.clone(), unit.unit)),
            digests: digests(writes, &layout, &unit.deeds)?,
        };
        writes.insert_unit(&record, self.at)?;
        let executed = Executed { applied: self.executed.applied + 1, ..self.executed };
        let at = heartbeat(self.request.now, self.request.clock, self.started)
            .to_naive_local(self.request.time_zone);
        writes.beat(self.run_id, &at, executed)?;
        Ok(Ok(()))
    }

    /// Marks a unit as undone; what it had undone itself is in force again, and so on to the unit that
    /// carried out actions, which is returned.
    fn turn_over(
        &self,
        writes: &Writes<'_>,
        unit: &UnitRecord,
    ) -> Result<UnitRecord, SessionError> {
        let mut by = Some(self.run_id.to_owned());
        let mut at = unit.clone();
        loop {
            writes.mark_unit(key(&at), by.as_deref())?;
            let Some((run, number)) = at.reverts.clone() else { break };
            let reverted = writes.unit((&run, number))?;
            let Some(reverted) = reverted else { break };
            by = if by.is_some() { None } else { Some(at.run_id.clone()) };
            at = reverted;
        }
        if let Some(plan_id) = &at.plan_id {
            for deed in &at.deeds {
                let noted = writes.action_note(plan_id, deed.position)?;
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
                writes.set_action_state(plan_id, deed.position, &update)?;
            }
        }
        Ok(at)
    }
}
