//! The request of a run, and reasons to refuse it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{ActionType, Plan, Risk, SavedPlan, plan_digest};
use memfold_core::policy::{Policy, Settings};
use memfold_core::report::{AppliedReport, AppliedRun, Executed};
use memfold_core::runs::RunState;
use memfold_core::time::Instant;
use memfold_index::Progress;
use memfold_store::StoreError;
use memfold_store::brain_db::BackupOutcome;

use crate::embed::fill::NewVectors;

use super::{Blocked, ExecutionUnit, Selection};

/// A request to apply a plan or a part of it.
#[derive(Clone, Copy)]
pub struct ExecuteRequest<'a> {
    /// The plan, as saved in the store or read from a file.
    pub plan: &'a Plan,
    /// The vectors of its new texts.
    pub vectors: &'a NewVectors,
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
    /// The policy; its hash must equal the plan's.
    pub policy: &'a Policy,
    /// sha256 of the semantic configuration.
    pub config_hash: &'a str,
    /// Conditions that must hold before anything is written.
    pub rules: WriteRules<'a>,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
    /// Receives progress, and says whether to cancel.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// Why nothing could be applied, undone or settled, or why a run stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store failed in the middle of a run; units applied before stay applied.
    #[error("run {run_id} stopped after {} applied units: {error}", executed.applied)]
    Stopped {
        /// The run.
        run_id: String,
        /// Units by result so far.
        executed: Executed,
        /// Why.
        #[source]
        error: Box<StoreError>,
    },
    /// The configuration forbids every write.
    #[error("{key}, so nothing may be written")]
    Forbidden {
        /// The key and its value.
        key: &'static str,
    },
    /// The guard or protection is off.
    #[error("{key} is false: memories that differ in a fact could be merged")]
    Unguarded {
        /// The key.
        key: &'static str,
    },
    /// The plan differs from the reviewed one.
    #[error("the plan is not the one that was reviewed: expected {expected}, found {found}")]
    AnotherPlan {
        /// The digest of the reviewed plan.
        expected: String,
        /// The digest of this plan.
        found: String,
    },
    /// Nobody reviewed the plan, and it changes much.
    #[error(
        "the plan changes {:.1} % of the live memories by more than merging identical texts; \
         without a review at most {:.1} % may change",
        share * 100.0,
        share_max * 100.0
    )]
    TooManyChanges {
        /// The share of the live memories that it changes.
        share: f64,
        /// The largest share.
        share_max: f64,
        /// The digest of the plan.
        digest: String,
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
    #[error("{} stale: {example}", all_units(*units))]
    AllStale {
        /// How many.
        units: u64,
        /// The first one's reason.
        example: String,
    },
    /// The store failed in the middle; units undone before stay undone.
    #[error("undo {run_id} stopped after {} units: {error}", executed.applied)]
    UndoStopped {
        /// The undo's own run.
        run_id: String,
        /// Units by result so far.
        executed: Executed,
        /// Why.
        #[source]
        error: Box<StoreError>,
    },
    /// The store knows nothing of the kind.
    #[error("there is no {target} to undo")]
    Unknown {
        /// The requested target.
        target: String,
    },
    /// It was undone already.
    #[error("{target} was undone already, by {by}")]
    Undone {
        /// The requested target.
        target: String,
        /// The undo.
        by: String,
    },
    /// Its journal was pruned.
    #[error("the journal of {target} was pruned")]
    Pruned {
        /// The requested target.
        target: String,
    },
    /// No pair of this name waits.
    #[error("no pair {key} waits for a look")]
    UnknownPair {
        /// The name, escaped.
        key: String,
    },
    /// A memory changed since the pair was flagged.
    #[error("{id} was edited, archived or deleted since the pair was flagged")]
    Changed {
        /// The memory, escaped.
        id: String,
    },
}

/// `all 3 units of the plan are`
fn all_units(units: u64) -> String {
    match units {
        1 => "the one unit of the plan is".to_owned(),
        _ => format!("all {units} units of the plan are"),
    }
}

impl ExecuteError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Stopped { error, .. } | Self::UndoStopped { error, .. } => error.hint(),
            Self::Unknown { .. } => Some("`memfold runs DB` lists what was done".to_owned()),
            Self::Undone { by, .. } => {
                Some(format!("`memfold undo DB {by}` takes the undo itself back"))
            }
            Self::Pruned { .. } => {
                Some("`memfold undo DB --memory ID` brings single memories back".to_owned())
            }
            Self::UnknownPair { .. } => Some("`memfold review DB --flags` lists them".to_owned()),
            Self::Changed { .. } => {
                Some("look at both again; the flag closes with the next run".to_owned())
            }
            Self::Forbidden { .. } => {
                Some("`memfold config show DB` says where it is set".to_owned())
            }
            Self::Unguarded { .. } => Some("turn it on, or say --allow-unguarded".to_owned()),
            Self::AnotherPlan { .. } => {
                Some("the store or the configuration changed since: review the new plan".to_owned())
            }
            Self::TooManyChanges { digest, .. } => Some(format!(
                "look at the plan (--save-plan, then memfold review), then apply it, or say \
                 --expect {digest} or --max-change-share 1"
            )),
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
        }
    }
}

/// The result of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitResult {
    /// It was applied.
    Applied,
    /// A row was changed since the plan was made; nothing of it was applied.
    Stale(String),
    /// The store refused it; nothing of it was applied.
    Failed(String),
}

/// A unit and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitOutcome {
    /// The actions' labels, `a3+a9`.
    pub label: String,
    /// The actions' positions in the plan.
    pub positions: Vec<usize>,
    /// The importance of its first memory before it was applied.
    pub importance_before: Option<f64>,
    /// Its result.
    pub result: UnitResult,
}

/// The result of a run.
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
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Watches a run as it goes on.
pub(crate) trait RunWatcher {
    /// The run is recorded, and its first unit comes next.
    fn began(&mut self, run_id: &str);

    /// A unit was tried.
    fn tried(&mut self, outcome: &UnitOutcome);
}

/// No watcher.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unwatched;

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

/// Without a review, a run changes at most this share of the live memories: consolidators without
/// such a limit have archived most of a store in one night.
pub const CHANGE_SHARE_MAX: f64 = 0.1;

/// Conditions that must hold before a run changes a store.
#[derive(Debug, Clone, Copy)]
pub struct WriteRules<'a> {
    /// `read_only: true` and `enabled: false` forbid every write.
    pub settings: &'a Settings,
    /// Whether to write although the guard or protection is off.
    pub allow_unguarded: bool,
    /// The review of the plan.
    pub review: Review<'a>,
}

/// The review of a plan before it is applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Review<'a> {
    /// A person named the saved plan that is to be applied.
    Saved,
    /// A person reviewed the plan with this digest (`sha256:` may stand before it).
    Digest(&'a str),
    /// Nobody: at most a share of the `live` memories may change, from 0 to 1; merges of identical
    /// texts and flags do not count.
    Nobody {
        /// The largest share.
        share_max: f64,
        /// The live memories of the store.
        live: u64,
    },
}

impl WriteRules<'_> {
    /// Checks a plan that a policy made.
    ///
    /// # Errors
    /// When the configuration forbids writes, a guard is off, or the plan is another or larger than
    /// was agreed to.
    pub fn check(&self, policy: &Policy, plan: &Plan) -> Result<(), ExecuteError> {
        if let Some(key) = forbidden_by(self.settings) {
            return Err(ExecuteError::Forbidden { key });
        }
        if let Some(key) = guard_off(policy).filter(|_| !self.allow_unguarded) {
            return Err(ExecuteError::Unguarded { key });
        }
        match self.review {
            Review::Saved => Ok(()),
            Review::Digest(expected) => {
                let found = plan_digest(plan);
                if expected.trim_start_matches("sha256:") == found.trim_start_matches("sha256:") {
                    return Ok(());
                }
                Err(ExecuteError::AnotherPlan { expected: expected.to_owned(), found })
            }
            Review::Nobody { share_max, live } => {
                let share = change_share(plan, live);
                if share <= share_max {
                    return Ok(());
                }
                Err(ExecuteError::TooManyChanges { share, share_max, digest: plan_digest(plan) })
            }
        }
    }
}

/// Returns the key and value that forbid every write, if any.
#[must_use]
pub const fn forbidden_by(settings: &Settings) -> Option<&'static str> {
    if settings.read_only {
        Some("read_only is set")
    } else if !settings.enabled {
        Some("enabled is false")
    } else {
        None
    }
}

/// Returns the key of the guard that is off, if any.
const fn guard_off(policy: &Policy) -> Option<&'static str> {
    if !policy.guard.enabled {
        Some("guard.enabled")
    } else if !policy.protection.enabled {
        Some("protection.enabled")
    } else {
        None
    }
}

/// Returns which share of the live memories a plan touches by anything but merging identical texts
/// and flagging, from 0 to 1.
fn change_share(plan: &Plan, live: u64) -> f64 {
    let touching = plan.actions.iter().filter(|action| match action.action {
        ActionType::Merge => action.risk != Risk::Identical,
        ActionType::Promote | ActionType::Archive | ActionType::Rewrite => true,
        // A proposal is done only where a person approved it; the others change no memory.
        ActionType::FlagContradiction
        | ActionType::Summarize
        | ActionType::Supersede
        | ActionType::ProposeMerge
        | ActionType::Noop => false,
    });
    let touched: BTreeSet<_> = touching.flat_map(|action| &action.target_ids).collect();
    if live == 0 { 0.0 } else { touched.len() as f64 / live as f64 }
}
