//! [`WriteRules`]: what must hold before a run changes a store, whoever starts it.

use std::collections::BTreeSet;

use memfold_plan::plan::{ActionType, Plan, Risk, plan_digest};
use memfold_plan::policy::{Policy, Settings};

use super::ExecuteError;

/// Without a review, a run changes at most this share of the live memories: consolidators without
/// such a limit have archived most of a store in one night.
pub const CHANGE_SHARE_MAX: f64 = 0.1;

/// What must hold before a run changes a store.
#[derive(Debug, Clone, Copy)]
pub struct WriteRules<'a> {
    /// `read_only: true` and `enabled: false` forbid every write.
    pub settings: &'a Settings,
    /// Whether to write although the guard or protection is off.
    pub allow_unguarded: bool,
    /// Who looked at the plan.
    pub review: Review<'a>,
}

/// Who looked at a plan before it is applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Review<'a> {
    /// A person named the saved plan that is to be applied.
    Saved,
    /// A person looked at the plan with this digest (`sha256:` may stand before it).
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
        ActionType::Promote | ActionType::Archive => true,
        ActionType::FlagContradiction | ActionType::Noop => false,
    });
    let touched: BTreeSet<_> = touching.flat_map(|action| &action.target_ids).collect();
    if live == 0 { 0.0 } else { touched.len() as f64 / live as f64 }
}
