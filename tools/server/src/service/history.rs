//! [`PastRun`]: the results of a consolidation, in the report's form of the compatible paths.

use std::sync::Arc;

use memfold::machine;
use memfold::ops::Consolidated;
use memfold_core::plan::{Action, ActionType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::jobs::Outcome;
use super::problem::Problem;

/// A consolidation of this server.
#[derive(Debug, Clone)]
pub(crate) struct PastRun {
    /// Its report.
    pub(crate) report: HistoryReport,
    /// Its results, as counts.
    pub(crate) stats: CompactStats,
    /// The job that did it.
    pub(crate) job_id: String,
    /// How many actions the report lists.
    listed: usize,
}

/// A report of `GET /api/v1/brain/consolidation/history`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryReport {
    /// When it ended, in milliseconds since 1970.
    pub(crate) timestamp: i64,
    /// Live memories of the store.
    pub(crate) total_candidates: u64,
    /// What was planned; memories that are left alone are only counted.
    // As JSON, in one piece: thousands of small pieces that stay for long keep the memory of a run from being given
    // back.
    #[schemars(with = "Vec<HistoryAction>")]
    pub(crate) actions: Box<RawValue>,
    /// How many actions an old report no longer lists.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) actions_left_out: u64,
    /// Counts of them.
    pub(crate) summary: HistorySummary,
    /// Whether nothing was written.
    pub(crate) dry_run: bool,
    /// How long it took.
    pub(crate) duration_ms: u64,
    /// The run that it wrote to the store, by which it can be undone.
    pub(crate) run_id: Option<String>,
    /// Why it failed; `null` where it did not.
    pub(crate) error: Option<String>,
}

/// An action of a report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryAction {
    /// `MERGE` (into a new memory), `REPLACE` (one memory stays for the others), `UPDATE`, `KEEP_SEPARATE` or `SKIP`.
    pub(crate) r#type: &'static str,
    /// The memories.
    pub(crate) source_ids: Vec<String>,
    /// The text of the new memory of a `MERGE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merged_content: Option<String>,
    /// The memory that stays for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replace_target_id: Option<String>,
    /// What changes on the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update_data: Option<Value>,
    /// Why.
    pub(crate) reason: String,
}

/// Counts of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistorySummary {
    /// Memories that a new memory takes the place of.
    pub(crate) merged: u64,
    /// Memories that another one stays for.
    pub(crate) replaced: u64,
    /// Memories that were promoted or archived.
    pub(crate) updated: u64,
    /// Pairs that contradict each other.
    pub(crate) kept_separate: u64,
    /// Proposals, and memories left alone.
    pub(crate) skipped: u64,
}

/// Counts of `POST /v1/maintenance/compact`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CompactStats {
    /// Always 0: expired memories are the owner's to delete.
    pub(crate) ttl_deleted: u64,
    /// Live memories of the store, also where only memories of one user were compared.
    pub(crate) dedup_scanned: u64,
    /// Memories that were merged into others, or would be.
    pub(crate) dedup_removed: u64,
    /// New memories that models wrote.
    pub(crate) consolidated_count: u64,
    /// Memories that these take the place of.
    pub(crate) sources_removed: u64,
    /// New rows written.
    pub(crate) applied_upserts: u64,
    /// Rows moved to the archive.
    pub(crate) applied_deletes: u64,
    /// How long it took.
    pub(crate) duration_ms: u64,
}

/// Of `POST /api/v1/brain/consolidation/run`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RunOptions {
    /// Whether nothing is written; by default so.
    #[schemars(with = "Option<bool>")]
    pub(crate) dry_run: Option<bool>,
}

/// Answer of `POST /api/v1/brain/consolidation/run`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunAnswer {
    /// What the run did.
    pub(crate) report: HistoryReport,
}

/// Answer of `GET /api/v1/brain/consolidation/history`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryAnswer {
    /// The consolidations of this server, the latest one first, 50 at most.
    pub(crate) reports: Vec<HistoryReport>,
}

/// Answer of `POST /v1/maintenance/compact`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactAnswer {
    /// The user of the memories; `null` for all users.
    pub(crate) user_id: Option<String>,
    /// Always true: nothing is extracted anew.
    pub(crate) skip_reextract: bool,
    /// Whether models wrote no memories anew; by default so.
    pub(crate) skip_consolidate: bool,
    /// Whether nothing was written; by default so.
    pub(crate) dry_run: bool,
    /// `completed` or `failed`.
    pub(crate) status: &'static str,
    /// What was done, or would be.
    pub(crate) stats: CompactStats,
}

/// Answer of `POST /v1/maintenance/compact_all`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactAllAnswer {
    /// `completed` or `failed`.
    pub(crate) status: &'static str,
    /// One for each store, over the memories of all users: they never merge across users.
    pub(crate) results: Vec<CompactAnswer>,
}

impl PastRun {
    pub(crate) fn of(
        job_id: &str,
        done: &Consolidated,
        outcome: &Outcome,
        duration_ms: u64,
    ) -> Self {
        let report = &done.outcome.report;
        let actions = done.outcome.plan.actions.iter();
        let listed = actions.clone().filter(|action| action.action != ActionType::Noop);
        let listed: Vec<_> = listed.map(HistoryAction::of).collect();
        let of = |kinds: &[ActionType]| -> u64 {
            let chosen = actions.clone().filter(|action| kinds.contains(&action.action));
            chosen.map(|action| action.target_ids.len() as u64).sum()
        };
        let count = |kinds: &[ActionType]| {
            actions.clone().filter(|action| kinds.contains(&action.action)).count() as u64
        };
        let replaced = of(&[ActionType::Merge]) - count(&[ActionType::Merge]);
        let merged = of(&[ActionType::Rewrite]);
        let written = count(&[ActionType::Rewrite, ActionType::Summarize]);
        let has_run = outcome.run_id.is_some();
        let stats = CompactStats {
            dedup_scanned: report.loaded.live,
            dedup_removed: replaced,
            consolidated_count: written,
            sources_removed: merged,
            applied_upserts: if has_run { written } else { 0 },
            applied_deletes: if has_run { replaced + merged } else { 0 },
            duration_ms,
            ..CompactStats::default()
        };
        let report = HistoryReport {
            timestamp: machine::clock().0 / 1_000,
            total_candidates: report.loaded.live,
            actions: told(&listed),
            actions_left_out: 0,
            summary: HistorySummary {
                merged,
                replaced,
                updated: of(&[ActionType::Promote, ActionType::Archive]),
                kept_separate: count(&[ActionType::FlagContradiction, ActionType::Supersede]),
                skipped: count(&[ActionType::ProposeMerge, ActionType::Noop]),
            },
            dry_run: !has_run,
            duration_ms,
            run_id: outcome.run_id.clone(),
            error: None,
        };
        Self { report, stats, job_id: job_id.to_owned(), listed: listed.len() }
    }

    pub(crate) fn failed(job_id: &str, problem: &Problem, dry_run: bool, duration_ms: u64) -> Self {
        let report = HistoryReport {
            timestamp: machine::clock().0 / 1_000,
            actions: told(&[]),
            dry_run,
            duration_ms,
            error: Some(problem.detail.clone()),
            ..HistoryReport::default()
        };
        let stats = CompactStats { duration_ms, ..CompactStats::default() };
        Self { report, stats, job_id: job_id.to_owned(), listed: 0 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Takes the actions out of the oldest runs, until all together list at most `most`. The latest run
/// keeps its list.
pub(crate) fn leave_out_old_actions(past: &mut [Arc<PastRun>], most: usize) {
    let mut listed = 0;
    for (age, run) in past.iter_mut().rev().enumerate() {
        listed += run.listed;
        if age > 0 && listed > most && run.listed > 0 {
            let run = Arc::make_mut(run);
            run.report.actions_left_out = std::mem::take(&mut run.listed) as u64;
            run.report.actions = told(&[]);
        }
    }
}

fn told(actions: &[HistoryAction]) -> Box<RawValue> {
    serde_json::value::to_raw_value(actions).unwrap_or_default()
}

impl HistoryAction {
    fn of(action: &Action) -> Self {
        let kind = match action.action {
            ActionType::Merge => "REPLACE",
            ActionType::Rewrite | ActionType::Summarize => "MERGE",
            ActionType::Promote | ActionType::Archive => "UPDATE",
            ActionType::FlagContradiction | ActionType::Supersede => "KEEP_SEPARATE",
            ActionType::ProposeMerge | ActionType::Noop => "SKIP",
        };
        let update_data = match action.action {
            ActionType::Promote => Some(json!({ "importance": action.new_importance })),
            ActionType::Archive => Some(json!({ "archived": true })),
            _ => None,
        };
        Self {
            r#type: kind,
            source_ids: action.target_ids.iter().map(ToString::to_string).collect(),
            merged_content: action.new_content.clone(),
            replace_target_id: (action.action == ActionType::Merge)
                .then(|| action.target_ids.first().map(ToString::to_string))
                .flatten(),
            update_data,
            reason: action.rationale.reasons.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(actions: usize) -> Arc<PastRun> {
        let action = HistoryAction {
            r#type: "SKIP",
            source_ids: vec!["a".to_owned()],
            merged_content: None,
            replace_target_id: None,
            update_data: None,
            reason: String::new(),
        };
        let actions = vec![action; actions];
        let report = HistoryReport { actions: told(&actions), ..HistoryReport::default() };
        let (stats, job_id) = (CompactStats::default(), String::new());
        Arc::new(PastRun { report, stats, job_id, listed: actions.len() })
    }

    #[test]
    fn old_runs_are_counted_where_all_together_list_too_much() {
        let listed = |past: &[Arc<PastRun>]| -> Vec<(usize, u64)> {
            let told = |run: &Arc<PastRun>| {
                let listed: Vec<Value> = serde_json::from_str(run.report.actions.get()).unwrap();
                (listed.len(), run.report.actions_left_out)
            };
            past.iter().map(told).collect()
        };
        let mut past = [run(3), run(0), run(4), run(5)];
        leave_out_old_actions(&mut past, 12);
        assert_eq!(listed(&past), [(3, 0), (0, 0), (4, 0), (5, 0)]);
        leave_out_old_actions(&mut past, 9);
        assert_eq!(listed(&past), [(0, 3), (0, 0), (4, 0), (5, 0)]);
        leave_out_old_actions(&mut past, 1);
        assert_eq!(listed(&past), [(0, 3), (0, 0), (0, 4), (5, 0)]);
        assert!(!serde_json::to_string(&past[3].report).unwrap().contains("actionsLeftOut"));
    }
}
