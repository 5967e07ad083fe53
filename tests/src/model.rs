//! What applying a plan does, on plain rows.

use memfold_pipeline::plan::{Action, ActionType, Plan};
use memfold_pipeline::store::PlainMemory;

/// Applies merges, promotions and archivals to the rows, as the spec of the store says.
pub fn apply(plan: &Plan, rows: &mut [PlainMemory]) {
    for action in &plan.actions {
        match action.action {
            ActionType::Merge => merge(action, rows),
            ActionType::Promote | ActionType::Archive => change(action, rows),
            ActionType::FlagContradiction | ActionType::Noop => {}
        }
    }
}

fn row<'a>(rows: &'a mut [PlainMemory], id: &str) -> &'a mut PlainMemory {
    rows.iter_mut().find(|row| row.id == id).expect("a plan names rows of its store")
}

fn change(action: &Action, rows: &mut [PlainMemory]) {
    let row = row(rows, action.target_ids[0].as_str());
    if let Some(categories) = &action.new_categories {
        row.categories.clone_from(categories);
    }
    if let Some(importance) = action.new_importance {
        row.importance = importance;
    }
}

fn merge(action: &Action, rows: &mut [PlainMemory]) {
    let survivor = action.target_ids[0].as_str();
    let mut accesses = 0;
    for id in action.absorbed_ids() {
        let row = row(rows, id.as_str());
        accesses += row.access_count;
        row.categories = archived(&row.categories);
        row.source = provenance(
            "archived:",
            &serde_json::json!({ "merged_into": survivor, "run_id": "r", "previous_source": row.source }),
        );
    }
    if action.survivor_protected {
        return;
    }
    change(action, rows);
    let row = row(rows, survivor);
    row.access_count += accesses;
    row.source = provenance(
        "consolidation:",
        &serde_json::json!({
            "merged_from": action.absorbed_ids(), "merged_count": action.absorbed_ids().len(),
            "run_id": "r", "at": "2026-06-30T12:00:00", "previous_source": row.source,
        }),
    );
}

fn archived(categories: &[String]) -> Vec<String> {
    let old = categories.iter().map(|category| format!("archive/{category}"));
    std::iter::once("archived".to_owned()).chain(old).collect()
}

fn provenance(prefix: &str, value: &serde_json::Value) -> String {
    format!("{prefix}{value}")
}
