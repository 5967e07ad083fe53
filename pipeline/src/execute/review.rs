//! Decisions of people about a saved plan, recorded at once.

use memfold_core::journal::Change;
use memfold_core::memory::MemoryId;
use memfold_core::merge::kept_apart;
use memfold_core::plan::{ActionState, ActionType, SavedAction};
use memfold_core::report::Executed;
use memfold_core::runs::{RunKind, RunState};
use memfold_store::StoreError;
use memfold_store::brain_db::{
    ActionRecord, ActionUpdate, Layout, Mark, NewUnit, RunStart, Session, Writes, apply,
};

/// The name of a decision that keeps memories apart, in a run's list.
const KEPT_APART: &str = "keep-both";

/// Memories that a person wants to keep apart, and the action that wanted otherwise.
#[derive(Debug, Clone, Copy)]
pub struct KeepBothRequest<'a> {
    /// The plan.
    pub plan_id: &'a str,
    /// Its action: a merge or a flag.
    pub action: &'a SavedAction,
    /// The id wanted for the run.
    pub run_id: &'a str,
    /// When, as the owner writes times.
    pub at: &'a str,
    /// Who decides: `<machine> <process>`.
    pub holder: &'a str,
}

/// Rejects an action and keeps its memories apart from each other while their texts stay as they are.
/// This is a run of its own, which can be undone; returns its id. The session must hold the store's lock.
///
/// # Errors
/// When the action was applied meanwhile, or the store cannot be written.
pub fn keep_both(session: &Session, request: &KeepBothRequest<'_>) -> Result<String, StoreError> {
    let KeepBothRequest { plan_id, action, run_id, at, holder } = *request;
    let run_id = session.begin_run(&RunStart {
        run_id,
        kind: RunKind::Review,
        plan_id: Some(plan_id),
        target: Some(&action.label()),
        holder,
        at,
    })?;
    let kept = session.write(|writes| keep(writes, request, &run_id));
    let (state, executed) = match &kept {
        Ok(()) => (RunState::Done, Executed { applied: 1, ..Executed::default() }),
        Err(_) => (RunState::Failed, Executed { failed: 1, ..Executed::default() }),
    };
    let finished = session.finish_run(&run_id, state, at, executed);
    kept.and(finished).map(|()| run_id)
}

fn keep(
    writes: &Writes<'_>,
    request: &KeepBothRequest<'_>,
    run_id: &str,
) -> Result<(), StoreError> {
    let KeepBothRequest { plan_id, action, at, .. } = *request;
    writes.check_undecided(plan_id, action.position)?;
    let unit = 1;
    let ids = &action.effective().target_ids;
    let layout = writes.layout()?;
    let changes = apart(writes, &layout, ids, &format!("{run_id}/{unit}"))?;
    let mark = Mark { run_id, unit, at };
    apply(writes, &layout, &mark, &changes)?;
    let ids = ids.clone();
    let (label, position) = (KEPT_APART.to_owned(), action.position);
    let record = ActionRecord { label, position, action: ActionType::Noop, ids, by: None };
    let done = NewUnit { actions: vec![record], ..NewUnit::default() };
    writes.record_unit(&layout, &mark, &done)?;
    let update = ActionUpdate {
        state: ActionState::Rejected,
        run_id: Some(run_id),
        unit: Some(unit),
        note: Some("kept apart"),
    };
    writes.set_action_state(plan_id, action.position, &update)
}

/// One decision for each memory that is there; they make a group.
fn apart(
    writes: &Writes<'_>,
    layout: &Layout,
    ids: &[MemoryId],
    group: &str,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::with_capacity(ids.len());
    for id in ids {
        changes.extend(kept_apart(writes.memory(layout, id)?.as_ref(), group));
    }
    if changes.len() < 2 {
        let reason = "fewer than two of its memories are there".to_owned();
        return Err(StoreError::Refused { what: "keep memories apart", reason });
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use jiff::tz::TimeZone;
    use memfold_index::NoProgress;
    use serde_json::Map;

    use super::*;
    use crate::execute::{UndoRequest, UndoTarget, undo};
    use memfold_core::decisions::content_hash;
    use memfold_core::plan::{Action, Plan, Rationale, Risk};
    use memfold_core::time::Instant;
    use memfold_store::brain_db::{
        BrainDb, BrainDbWriter, CreateOptions, NewMemory, OpenOptions, SessionOptions,
    };
    use memfold_store::journal::RevertOptions;

    const AT: &str = "2026-06-30T12:00:00.000000";

    struct Place {
        folder: tempfile::TempDir,
        session: Session,
        plan_id: String,
    }

    fn plan() -> Plan {
        let action = Action::new(
            ActionType::Merge,
            ["b", "a", "gone"].map(MemoryId::new).to_vec(),
            Rationale::new("R", Vec::new()),
        );
        Plan {
            schema_version: 1,
            store_id: "store".to_owned(),
            config_hash: String::new(),
            engine_version: String::new(),
            now: String::new(),
            overrides: Map::new(),
            actions: vec![action],
            base_digests: BTreeMap::new(),
        }
    }

    /// A store of `a` and `b`, with a plan to merge `a` and one that is gone into `b`.
    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        let mut writer = BrainDbWriter::create(&path, CreateOptions::default()).unwrap();
        for id in ["a", "b"] {
            let memory = NewMemory {
                id,
                content: &format!("text {id}"),
                categories: &[],
                importance: 1.0,
                access_count: 0,
                created_at: AT,
                updated_at: None,
                expires_at: None,
                source: "agent",
                vector: None,
                embedded_text: None,
                model: None,
            };
            writer.push(&memory).unwrap();
        }
        writer.finish().unwrap();
        let options =
            SessionOptions { busy_timeout: Duration::from_secs(1), holder: "here 1".to_owned() };
        let session = Session::open(&path, &options).unwrap();
        let plan_id = session.save_plan(&plan(), &BTreeMap::new(), AT).unwrap();
        Place { folder, session, plan_id }
    }

    impl Place {
        fn action(&self) -> SavedAction {
            let path = self.folder.path().join("brain.db");
            let store = BrainDb::open(path, OpenOptions::default()).unwrap();
            store.plan(&self.plan_id).unwrap().actions.remove(0)
        }

        fn keep_both(&self) -> Result<String, StoreError> {
            let request = KeepBothRequest {
                plan_id: &self.plan_id,
                action: &self.action(),
                run_id: "r-1",
                at: AT,
                holder: "here 1",
            };
            keep_both(&self.session, &request)
        }

        /// Group, memory, hash of the decisions in force.
        fn kept(&self) -> Vec<(String, String, String)> {
            let store = rusqlite::Connection::open(self.session.path()).unwrap();
            let sql = "SELECT group_id, memory_id, content_hash FROM memfold_decisions
                       WHERE active = 1 AND kind = 'keep_both' ORDER BY memory_id";
            let mut statement = store.prepare(sql).unwrap();
            let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)));
            rows.unwrap().collect::<Result<_, _>>().unwrap()
        }
    }

    #[test]
    fn decisions_replace_each_other_until_the_action_is_carried_out() {
        let place = place();
        let decide = |state| place.session.decide(&place.plan_id, &[0], state);
        for state in [ActionState::Approved, ActionState::Rejected, ActionState::Proposed] {
            decide(state).unwrap();
            assert_eq!(place.action().state, state);
        }
        let swapped = Action { risk: Risk::Reworded, ..plan().actions.remove(0) };
        place.session.amend(&place.plan_id, 0, Some(&swapped)).unwrap();
        assert_eq!(*place.action().effective(), swapped);
        decide(ActionState::Applied).unwrap();
        let refused = decide(ActionState::Rejected).unwrap_err();
        assert_eq!(refused.to_string(), "failed to write down a decision: it is applied meanwhile");
        assert!(place.session.amend(&place.plan_id, 0, None).is_err());
        assert!(place.keep_both().is_err() && place.kept().is_empty());
        assert!(place.session.decide(&place.plan_id, &[1], ActionState::Approved).is_err());
    }

    #[test]
    fn kept_apart_are_those_that_are_there() {
        let place = place();
        let run = place.keep_both().unwrap();
        let group = format!("{run}/1");
        let row = |id: &str| (group.clone(), id.to_owned(), content_hash(&format!("text {id}")));
        assert_eq!(place.kept(), [row("a"), row("b")]);
        let action = place.action();
        assert_eq!((action.state, action.run_id), (ActionState::Rejected, Some(run)));
    }

    #[test]
    fn a_decision_to_keep_both_can_be_undone() {
        let place = place();
        let run = place.keep_both().unwrap();
        let undone = undo(
            &place.session,
            &UndoRequest {
                target: &UndoTarget::Run(run),
                options: RevertOptions::default(),
                remerge_ok: true,
                run_id: "r-2",
                now: Instant(1_780_272_000_000_000),
                time_zone: &TimeZone::UTC,
                holder: "here 1",
                progress: &NoProgress,
                clock: &|| 0.0,
            },
        );
        let undone = undone.unwrap();
        assert_eq!((undone.executed.applied, undone.state), (1, RunState::Done));
        assert!(place.kept().is_empty());
        place.session.decide(&place.plan_id, &[0], ActionState::Proposed).unwrap();
        assert_eq!(place.action().state, ActionState::Proposed);
    }
}
