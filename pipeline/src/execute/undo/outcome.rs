//! What an undo did.

use std::collections::BTreeSet;

use memfold_model::memory::MemoryId;
use memfold_model::runs::RunState;
use memfold_plan::report::Executed;
use memfold_store::brain_db::UnitRecord;

/// A reason not to take a unit back, and the flag that gets past it.
pub(super) type Reason = (String, Option<&'static str>);

/// Whether a unit was taken back, or why it cannot be.
pub(super) type TakenBack = Result<(), Vec<Reason>>;

/// A unit and whether it was, or can be, taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// The unit: its run and number.
    pub unit: (String, i64),
    /// What it did, by label and type: `a3 merge`.
    pub what: String,
    /// The memories it changed, survivors first.
    pub ids: Vec<MemoryId>,
    /// Why it cannot be taken back; empty: it was, or can be.
    pub conflicts: Vec<String>,
    /// Flags of the command line that get past all of the conflicts.
    pub remedies: Vec<&'static str>,
}

/// What an undo did.
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

pub(super) fn outcome(unit: &UnitRecord, found: TakenBack) -> UndoOutcome {
    let conflicts = found.err().unwrap_or_default();
    let what: Vec<String> =
        unit.deeds.iter().map(|deed| format!("{} {}", deed.label, deed.action.name())).collect();
    let mut seen = BTreeSet::new();
    let ids = unit.deeds.iter().flat_map(|deed| &deed.ids).filter(|id| seen.insert(*id)).cloned();
    let all_have_remedies = conflicts.iter().all(|(_, remedy)| remedy.is_some());
    let remedies: BTreeSet<&'static str> =
        conflicts.iter().filter(|_| all_have_remedies).filter_map(|(_, remedy)| *remedy).collect();
    UndoOutcome {
        unit: (unit.run_id.clone(), unit.unit),
        what: if what.is_empty() { "undo".to_owned() } else { what.join(", ") },
        ids: ids.collect(),
        conflicts: conflicts.into_iter().map(|(text, _)| text).collect(),
        remedies: remedies.into_iter().collect(),
    }
}
