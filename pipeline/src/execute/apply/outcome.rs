//! What a run did.

use std::collections::BTreeMap;

use crate::execute::{Blocked, ExecutionUnit};
use memfold_model::runs::RunState;
use memfold_plan::plan::SavedPlan;
use memfold_plan::report::{AppliedReport, AppliedRun, Executed};
use memfold_store::brain_db::BackupOutcome;

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
#[derive(Debug, Clone, PartialEq)]
pub struct UnitOutcome {
    /// The actions' labels, `a3+a9`.
    pub label: String,
    /// The actions' positions in the plan.
    pub positions: Vec<usize>,
    /// The importance of its first memory before it was applied.
    pub importance_before: Option<f64>,
    /// What became of it.
    pub result: UnitResult,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
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
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// Is told of a run as it goes on.
pub trait RunWatcher {
    /// The run is written down, and its first unit comes next.
    fn began(&mut self, run_id: &str);

    /// A unit was tried.
    fn tried(&mut self, outcome: &UnitOutcome);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl RunWatcher for Unwatched {
    fn began(&mut self, _run_id: &str) {}

    fn tried(&mut self, _outcome: &UnitOutcome) {}
}

impl Execution {
    /// Returns the report on applying a saved plan, which took some seconds.
    #[must_use]
    pub fn report(&self, saved: &SavedPlan, seconds_execute: f64) -> AppliedReport {
        let mut tried: BTreeMap<usize, Option<&str>> = BTreeMap::new();
        for outcome in &self.outcomes {
            let reason = match &outcome.result {
                UnitResult::Applied => None,
                UnitResult::Stale(reason) | UnitResult::Failed(reason) => Some(reason.as_str()),
            };
            tried.extend(outcome.positions.iter().map(|&position| (position, reason)));
        }
        AppliedReport::of(
            saved,
            AppliedRun {
                run_id: &self.run_id,
                tried,
                executed: self.executed,
                remaining: self.remaining,
                state: self.state,
                seconds_execute,
            },
        )
    }
}

impl UnitOutcome {
    pub(super) fn of(unit: &ExecutionUnit<'_>, result: UnitResult) -> Self {
        let positions = unit.actions.iter().map(|action| action.position).collect();
        Self { label: unit.label(), positions, importance_before: None, result }
    }
}
