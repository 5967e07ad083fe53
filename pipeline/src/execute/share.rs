//! How much of a store a plan changes.

use std::collections::BTreeSet;

use memfold_plan::plan::{ActionType, Plan, Risk};

/// Without a review, a run changes at most this share of the live memories: consolidators that were let
/// loose have archived most of a store in one night.
pub const CHANGE_SHARE_MAX: f64 = 0.1;

/// Returns which share of the live memories a plan touches by anything but folding identical texts and
/// flagging, from 0 to 1.
#[must_use]
pub fn change_share(plan: &Plan, live: u64) -> f64 {
    let touching = plan.actions.iter().filter(|action| match action.action {
        ActionType::Merge => action.risk != Risk::Identical,
        ActionType::Promote | ActionType::Archive => true,
        ActionType::FlagContradiction | ActionType::Noop => false,
    });
    let touched: BTreeSet<_> = touching.flat_map(|action| &action.target_ids).collect();
    if live == 0 { 0.0 } else { touched.len() as f64 / live as f64 }
}
