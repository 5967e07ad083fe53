//! Units of execution: all changes of one memory in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use memfold_core::decisions::content_hash;
use memfold_core::journal::Change;
use memfold_core::memory::MemoryId;
use memfold_core::merge::{
    MemoryRow, MergeContext, Step, UnitChanges, UnreadableRow, changes, kept_note,
};
use memfold_core::plan::{Action, ActionState, ActionType, SavedAction, action_label};
use memfold_core::time::Instant;
use memfold_guard::{Guard, Verdict};
use memfold_store::StoreError;
use memfold_store::brain_db::{
    ActionRecord, Layout, Mark, NewUnit, Session, WaitingFlag, Writes, apply,
};

use super::Selection;

/// Actions that are applied together or not at all: a merge and further actions on its survivor, or
/// one action alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionUnit<'a> {
    /// The actions in plan order; a merge comes first.
    pub actions: Vec<&'a SavedAction>,
}

/// An action that cannot be applied without another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The action, by position.
    pub position: usize,
    /// The action that it needs, by position.
    pub needs: usize,
}

impl<'a> ExecutionUnit<'a> {
    /// Returns the labels of the actions, `a3+a9`.
    #[must_use]
    pub fn label(&self) -> String {
        let labels = self.actions.iter().map(|action| action_label(action.position));
        labels.collect::<Vec<_>>().join("+")
    }

    /// Returns the memories that the actions name, each once, survivors first.
    #[must_use]
    pub fn ids(&self) -> Vec<&'a MemoryId> {
        let mut seen = std::collections::BTreeSet::new();
        let ids = self.actions.iter().flat_map(|action| action.effective().rests_on());
        ids.filter(|id| seen.insert(*id)).collect()
    }
}

/// Groups the selected actions into units, in plan order.
pub(super) fn units<'a>(
    actions: &'a [SavedAction],
    selection: &Selection,
) -> (Vec<ExecutionUnit<'a>>, Vec<Blocked>) {
    let wanted = selection.wanted(actions);
    let merge_of = merges_by_survivor(actions);
    let mut units: Vec<ExecutionUnit<'a>> = Vec::new();
    let mut unit_of_merge: BTreeMap<usize, usize> = BTreeMap::new();
    let mut blocked = Vec::new();
    for action in actions.iter().filter(|action| wanted[action.position]) {
        let follows = follows_a_merge(action.effective())
            .and_then(|id| merge_of.get(id))
            .filter(|merge| merge.state != ActionState::Applied);
        match follows.map(|merge| (merge, unit_of_merge.get(&merge.position))) {
            Some((_, Some(&unit))) => units[unit].actions.push(action),
            Some((merge, None)) => {
                blocked.push(Blocked { position: action.position, needs: merge.position });
            }
            None => {
                unit_of_merge.insert(action.position, units.len());
                units.push(ExecutionUnit { actions: vec![action] });
            }
        }
    }
    (units, blocked)
}

/// The memory that must be merged first: promotions and archivals depend on its values after the
/// merge.
fn follows_a_merge(action: &Action) -> Option<&MemoryId> {
    match action.action {
        ActionType::Promote | ActionType::Archive => action.target_ids.first(),
        _ => None,
    }
}

fn merges_by_survivor(actions: &[SavedAction]) -> BTreeMap<&MemoryId, &SavedAction> {
    let merges = actions.iter().filter(|action| action.effective().action == ActionType::Merge);
    merges.filter_map(|merge| Some((merge.effective().target_ids.first()?, merge))).collect()
}

/// Returns the changes that carry out actions.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn changes_of(
    writes: &Writes<'_>,
    layout: &Layout,
    context: &MergeContext<'_>,
    actions: &[Step<'_>],
    rows: Vec<MemoryRow>,
) -> Result<UnitChanges, StoreError> {
    let named: Vec<&Action> = actions.iter().map(|step| step.action).collect();
    let rows = writes.unit_rows(layout, rows, &named)?;
    changes(actions, &rows, context).map_err(unreadable)
}

/// Says that a row can no longer be read.
pub(crate) fn unreadable(error: UnreadableRow) -> StoreError {
    StoreError::Refused { what: "read a memory", reason: error.to_string() }
}

/// Carries out an action and further changes as one unit of a run. Returns why a memory was not moved away, though
/// that was wanted.
pub(crate) fn carry_out_alone(
    writes: &Writes<'_>,
    layout: &Layout,
    context: &MergeContext<'_>,
    unit: i64,
    label: &'static str,
    action: &Action,
    rows: Vec<MemoryRow>,
    further: Vec<Change>,
) -> Result<Option<String>, StoreError> {
    let ids: Vec<MemoryId> = rows.iter().map(|row| row.id.clone()).collect();
    let UnitChanges { mut changes, kept } =
        changes_of(writes, layout, context, &[Step::of(action)], rows)?;
    changes.extend(further);
    let mark = Mark { run_id: context.run_id, unit, at: context.at };
    let record = ActionRecord::alone(label, action.action, action.target_ids.clone());
    write_unit(writes, layout, &mark, record, &changes, &ids)?;
    Ok(kept.first().map(|first| kept_note(kept.len() as u64, &first.reason)))
}

/// Applies changes as one unit of a run and records them; `memories` are the memories with digests
/// to keep.
pub(crate) fn write_unit(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    action: ActionRecord,
    changes: &[Change],
    memories: &[MemoryId],
) -> Result<(), StoreError> {
    apply(writes, layout, mark, changes)?;
    let memories = memories.iter().collect();
    let unit = NewUnit { actions: vec![action], memories, ..NewUnit::default() };
    writes.record_unit(layout, mark, &unit).map(drop)
}

/// The run's time plus the time passed since it began: it shows that the run is alive.
pub(super) fn heartbeat(now: Instant, clock: &dyn Fn() -> f64, started: f64) -> Instant {
    Instant(now.0.saturating_add(((clock() - started) * 1e6) as i64))
}

/// Units in one transaction, at most; a clock may stand still.
const UNITS_AT_ONCE: usize = 256;
/// How long a transaction takes further units while no other writer is seen.
const HELD_ALONE: f64 = 0.05;
/// The same beside other writers.
const HELD_BESIDE: f64 = 0.005;
/// Between two transactions. SQLite shows no waiters, so the gap is always left.
const GAP_ALONE: Duration = Duration::from_millis(5);
/// Others wait for the store by trying again after pauses that grow to 100 ms. With three moments of four theirs, hardly
/// any of them waits for long.
const GAP_BESIDE: Duration = Duration::from_millis(20);
/// After this many transactions another writer is forgotten.
const REMEMBERED: u32 = 100;

/// The length of transactions, and of the gaps for other writers between them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Number of further transactions for which other writers are expected.
    beside: u32,
    /// Number of further units that each have their own transaction.
    alone: usize,
}

impl Pace {
    /// Units in the next transaction, at most.
    pub(super) const fn units_max(&self) -> usize {
        if self.alone > 0 { 1 } else { UNITS_AT_ONCE }
    }

    /// Seconds until the next transaction takes no further unit.
    pub(super) const fn seconds_max(&self) -> f64 {
        if self.beside > 0 { HELD_BESIDE } else { HELD_ALONE }
    }

    /// A unit brought down the transaction that it shared: tries the next ones one by one.
    pub(super) const fn separate(&mut self) {
        self.alone = UNITS_AT_ONCE;
    }

    /// Lets others at the store after a transaction of some units.
    pub(super) fn pause(&mut self, session: &Session, units: usize) -> Result<(), StoreError> {
        self.alone = self.alone.saturating_sub(units);
        self.beside =
            if session.met_others()? { REMEMBERED } else { self.beside.saturating_sub(1) };
        std::thread::sleep(if self.beside > 0 { GAP_BESIDE } else { GAP_ALONE });
        Ok(())
    }
}

/// Judges the pairs that saves flagged as alike and that are unchanged, by the present rules. A
/// flag closes by itself when one of its memories is merged, edited or deleted.
///
/// # Errors
/// When the store cannot be written.
pub(crate) fn rejudge_flags(session: &Session, guard: &Guard) -> Result<(), StoreError> {
    for flag in session.read(|reads| reads.near_flags())? {
        session.write(|writes| {
            let Some([left, right]) = texts(writes, &flag)? else { return Ok(()) };
            let judgement = guard.judge(&guard.read(&left), &guard.read(&right));
            match judgement.verdict {
                // The two speak of different things: no review is needed.
                Verdict::Different => writes.close_flag(flag.id),
                Verdict::Conflict => {
                    writes.flag_as_contradiction(flag.id, judgement.contradiction_score)
                }
                Verdict::Same | Verdict::Extends | Verdict::Undecided => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// The texts of a flag's memories, if both are unchanged.
fn texts(writes: &Writes<'_>, flag: &WaitingFlag) -> Result<Option<[String; 2]>, StoreError> {
    let layout = writes.layout()?;
    let mut texts = Vec::with_capacity(2);
    for (id, hash) in &flag.sides {
        let row = writes.memory(&layout, &memfold_core::memory::MemoryId::new(id.as_str()))?;
        let text = row.and_then(|row| Some(row.image.get("content")?.as_text()?.to_owned()));
        texts.extend(text.filter(|text| content_hash(text) == *hash));
    }
    Ok(<[String; 2]>::try_from(texts).ok())
}
