//! [`AppliedReport`]: what applying a saved plan did. Nothing was detected in such a run, so it says nothing of
//! pairs, clusters and recall: the report of the plan does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::markdown::{cell, heading_row};
use super::{AbsorbedByRisk, Executed, Mode, Planned, REPORT_SCHEMA_VERSION, Reported};
use crate::plan::{Action, ActionState, ActionType, SavedPlan};
use crate::runs::RunState;

/// The most actions that the page for people names.
const ACTIONS_SHOWN_MAX: usize = 1_000;

/// What applying a saved plan did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedReport {
    /// Version of this format.
    pub schema_version: u32,
    /// `YYYYMMDDTHHMMSSZ-<8 hex>`.
    pub run_id: String,
    /// Always that the store was written to.
    pub mode: Mode,
    /// The plan's name in the store.
    pub plan_id: String,
    /// sha256 of the canonical JSON of the plan's actions as they were made.
    pub plan_digest: String,
    /// The time the plan was made for, RFC 3339.
    pub planned_for: String,
    /// sha256 of the semantic configuration.
    pub config_hash: String,
    /// The plan's actions by type.
    pub planned: Planned,
    /// What was done, by unit.
    pub executed: Executed,
    /// Units that were not tried.
    pub remaining: u64,
    /// How the run ended.
    pub state: String,
    /// Memories that the applied merges absorbed, by the risk of their merge.
    pub absorbed: AbsorbedByRisk,
    /// Wall time of writing to the store.
    pub seconds_execute: f64,
    /// The plan's actions that were tried, in plan order.
    pub actions: Vec<AppliedAction>,
}

/// An action and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedAction {
    /// The name that people use: `a1`, `a2`, …
    pub label: String,
    /// Whether it was applied in this run.
    pub applied: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The action, as amended in a review.
    pub action: Action,
}

/// A run that applied a saved plan, as far as a report tells of it.
#[derive(Debug, Clone)]
pub struct AppliedRun<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The positions of the actions that were tried, each with the reason why it was not applied.
    pub tried: BTreeMap<usize, Option<&'a str>>,
    /// Units by result.
    pub executed: Executed,
    /// Units that were not tried.
    pub remaining: u64,
    /// How the run ended.
    pub state: RunState,
    /// Wall time of writing to the store.
    pub seconds_execute: f64,
}

impl AppliedReport {
    /// Tells of a run that applied a plan.
    #[must_use]
    pub fn of(saved: &SavedPlan, run: AppliedRun<'_>) -> Self {
        let AppliedRun { run_id, tried, executed, remaining, state, seconds_execute } = run;
        let mut absorbed = AbsorbedByRisk::default();
        let mut actions = Vec::with_capacity(tried.len());
        for (position, reason) in tried {
            let Some(action) = saved.actions.get(position) else { continue };
            let effective = action.effective();
            if effective.action.merges() && reason.is_none() {
                absorbed.add(effective.risk, effective.absorbed_ids().len() as u64);
            }
            actions.push(AppliedAction {
                label: action.label(),
                applied: reason.is_none(),
                reason: reason.map(str::to_owned),
                action: effective.clone(),
            });
        }
        Self {
            schema_version: REPORT_SCHEMA_VERSION,
            run_id: run_id.to_owned(),
            mode: Mode::Execute,
            plan_id: saved.plan_id.clone(),
            plan_digest: saved.plan_digest.clone(),
            planned_for: saved.plan.now.clone(),
            config_hash: saved.plan.config_hash.clone(),
            planned: planned(saved),
            executed,
            remaining,
            state: state.name().to_owned(),
            absorbed,
            seconds_execute,
            actions,
        }
    }

    /// Tells whether all that was tried was applied, and nothing interrupted the run.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.state == RunState::Done.name()
    }
}

/// The changes of a plan, as reviewed.
fn planned(saved: &SavedPlan) -> Planned {
    let count = |wanted| {
        let of_type = saved.actions.iter().filter(|a| a.effective().action == wanted);
        of_type.filter(|action| action.state != ActionState::Rejected).count() as u64
    };
    Planned::count(count)
}

impl Reported for AppliedReport {
    fn run_id(&self) -> &str {
        &self.run_id
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    fn to_markdown(&self) -> String {
        let mut page = format!(
            "# Consolidation {}\n\nplan {} of {}, applied: {}\n\n",
            self.run_id, self.plan_id, self.planned_for, self.state
        );
        let AbsorbedByRisk { identical, trivial, reworded } = self.absorbed;
        page.push_str(&heading_row(["what", "count"]));
        for (name, count) in [
            ("units applied", self.executed.applied),
            ("stale", self.executed.stale),
            ("failed", self.executed.failed),
            ("not tried", self.remaining),
            ("absorbed, identical", identical),
            ("absorbed, trivial", trivial),
            ("absorbed, reworded", reworded),
        ] {
            page.push_str(&format!("| {name} | {count} |\n"));
        }
        page.push_str("\n## Actions\n\n");
        page.push_str(&heading_row(["action", "memories"]));
        for action in self.actions.iter().take(ACTIONS_SHOWN_MAX) {
            page.push_str(&action.row());
        }
        let hidden = self.actions.len().saturating_sub(ACTIONS_SHOWN_MAX);
        if hidden > 0 {
            page.push_str(&format!("\n{hidden} more stand in the JSON report only.\n"));
        }
        page
    }
}

impl AppliedAction {
    fn row(&self) -> String {
        let Action { action, target_ids, risk, .. } = &self.action;
        let risk = match action {
            ActionType::Merge => format!(" {}", risk.name()),
            _ => String::new(),
        };
        let ids: Vec<String> = target_ids.iter().map(|id| cell(id.as_str())).collect();
        let between = if action.merges() { " ← " } else { ", " };
        let ids = match ids.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                format!("{first}{between}{}", rest.join(", "))
            }
            _ => ids.concat(),
        };
        let why = self
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(": not applied, {}", cell(reason)));
        format!("| {} {}{risk} | {ids}{why} |\n", self.label, action.name())
    }
}
