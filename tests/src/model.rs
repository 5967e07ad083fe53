//! The effects of applying a plan, on plain rows.

use crate::PlainMemory;
use jiff::tz::TimeZone;
use memfold_core::plan::{Action, ActionType, Plan};
use memfold_core::time::Instant;
use serde_json::{Value, json};

/// The name and the time that the model's own runs write into provenance.
const RUN: &str = "r";
const AT: &str = "2026-06-30T12:00:00.000000";

/// Merged ids that a survivor lists.
const LISTED_MAX: usize = 100;

/// Applies merges, promotions and archivals to the rows, as the spec of the store says.
///
/// # Panics
/// When the plan names rows that are not there.
pub fn apply(plan: &Plan, rows: &mut [PlainMemory]) {
    for action in &plan.actions {
        match action.action {
            ActionType::Merge => merge(action, rows),
            ActionType::Promote => change(action, rows),
            ActionType::Archive => archive(action, rows),
            // A judge's actions have tests of their own.
            ActionType::Rewrite | ActionType::Summarize | ActionType::Supersede => {
                panic!("no judge was asked")
            }
            ActionType::FlagContradiction | ActionType::ProposeMerge | ActionType::Noop => {}
        }
    }
}

/// Returns a source without the parts that two runs write differently, for comparison.
#[must_use]
pub fn comparable_source(source: &str) -> String {
    for prefix in ["consolidation:", "archived:"] {
        let fields = source.strip_prefix(prefix).map(serde_json::from_str::<Value>);
        if let Some(Ok(Value::Object(mut fields))) = fields {
            for name in ["run_id", "at"] {
                fields.entry(name).and_modify(|field| *field = Value::Null);
            }
            fields.sort_keys();
            return format!("{prefix}{}", Value::Object(fields));
        }
    }
    source.to_owned()
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

fn archive(action: &Action, rows: &mut [PlainMemory]) {
    change(action, rows);
    let row = row(rows, action.target_ids[0].as_str());
    row.source = provenance(
        "archived:",
        &json!({
            "reason": action.rationale.rule_id, "run_id": RUN, "previous_source": root(&row.source),
        }),
    );
}

fn merge(action: &Action, rows: &mut [PlainMemory]) {
    let survivor = action.target_ids[0].as_str();
    let mut taken = Taken::of(row(rows, survivor));
    for id in action.merged_ids() {
        let row = row(rows, id.as_str());
        taken.take(row);
        row.categories = archived(&row.categories);
        row.source = provenance(
            "archived:",
            &json!({ "merged_into": survivor, "run_id": RUN, "previous_source": root(&row.source) }),
        );
    }
    if action.survivor_protected {
        return;
    }
    change(action, rows);
    let row = row(rows, survivor);
    row.access_count = taken.access_count;
    row.expires_at = taken.expires_at;
    let listed = &taken.merged_from[taken.merged_from.len().saturating_sub(LISTED_MAX)..];
    row.source = provenance(
        "consolidation:",
        &json!({
            "merged_from": listed, "merged_count": taken.merged_count, "run_id": RUN, "at": AT,
            "previous_source": root(&row.source),
        }),
    );
}

/// The values that a survivor takes over.
struct Taken {
    access_count: i64,
    expires_at: Option<String>,
    merged_from: Vec<String>,
    merged_count: u64,
}

impl Taken {
    fn of(survivor: &PlainMemory) -> Self {
        let (merged_from, merged_count) = merged_from(&survivor.source);
        Self {
            access_count: survivor.access_count,
            expires_at: survivor.expires_at.clone(),
            merged_from,
            merged_count,
        }
    }

    fn take(&mut self, merged: &PlainMemory) {
        self.access_count = self.access_count.saturating_add(merged.access_count);
        let end = |text: &Option<String>| {
            text.as_deref().map(|text| Instant::parse(text, &TimeZone::UTC).expect("a time"))
        };
        // None, which is for ever, beats any.
        let is_later = match (end(&self.expires_at), end(&merged.expires_at)) {
            (Some(own), Some(other)) => other > own,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_later {
            self.expires_at.clone_from(&merged.expires_at);
        }
        let (from, count) = merged_from(&merged.source);
        self.merged_from.extend(from);
        self.merged_from.push(merged.id.clone());
        self.merged_count += count + 1;
    }
}

/// The ids that were merged into a row, and how many they are.
fn merged_from(source: &str) -> (Vec<String>, u64) {
    let Some(fields) = fields("consolidation:", source) else { return (Vec::new(), 0) };
    let from = fields["merged_from"].as_array().into_iter().flatten();
    let from: Vec<String> = from.filter_map(Value::as_str).map(str::to_owned).collect();
    let count = fields["merged_count"].as_u64().unwrap_or(from.len() as u64);
    (from, count)
}

/// The source before any run.
fn root(source: &str) -> String {
    let wrapped = ["consolidation:", "archived:"].iter().find_map(|prefix| fields(prefix, source));
    let previous = wrapped.as_ref().and_then(|fields| fields["previous_source"].as_str());
    previous.map_or_else(|| source.to_owned(), str::to_owned)
}

fn fields(prefix: &str, source: &str) -> Option<Value> {
    serde_json::from_str(source.strip_prefix(prefix)?).ok()
}

fn archived(categories: &[String]) -> Vec<String> {
    let old = categories.iter().map(|category| format!("archive/{category}"));
    std::iter::once("archived".to_owned()).chain(old).collect()
}

fn provenance(prefix: &str, value: &Value) -> String {
    format!("{prefix}{value}")
}
