//! What a run is asked for, and why it may be refused.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use memfold_index::Progress;

use crate::execute::{Selection, WriteRules};
use memfold_model::memory::MemoryId;
use memfold_model::time::Instant;
use memfold_plan::plan::Plan;
use memfold_plan::policy::Policy;
use memfold_plan::report::Executed;
use memfold_store::brain_db::{FindPlanError, SessionError};

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
    /// What must hold before anything is written.
    pub rules: WriteRules<'a>,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
    /// Where progress goes, and the wish to stop comes from.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment.
    pub clock: &'a dyn Fn() -> f64,
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
    /// The plan is not the one that a person looked at.
    #[error("the plan is not the one that was reviewed: expected {expected}, found {found}")]
    AnotherPlan {
        /// The digest of the reviewed plan.
        expected: String,
        /// The digest of this plan.
        found: String,
    },
    /// Nobody looked at the plan, and it changes much.
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
    /// What the store holds of the plan cannot be read.
    #[error(transparent)]
    Plan(#[from] FindPlanError),
}

/// `all 3 units of the plan are`
fn all_units(units: u64) -> String {
    match units {
        1 => "the one unit of the plan is".to_owned(),
        _ => format!("all {units} units of the plan are"),
    }
}

impl ExecuteError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) | Self::Stopped { error, .. } => error.hint(),
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
            Self::Plan(error) => error.hint(),
        }
    }
}
