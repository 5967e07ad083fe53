//! `ops/consolidation-log.json`: what was done, an entry for each run.

use serde_json::{Value, json};

use super::edit::{Piece, Style, indent_at, with_pieces};
use super::entry::PROMOTED;
use super::json::{Node, parse};
use memfold_store::origin::{OriginChange, OriginUnit};

/// Where the log stands.
pub(super) const LOG: &str = "ops/consolidation-log.json";

/// Members that hold the entries: what the rules document, and what files have.
const KEYS: [&str; 2] = ["entries", "log"];

/// Returns the log with the actions of units that it lacks; `None` where it is no log.
pub(super) fn logged(text: Option<&str>, units: &[&OriginUnit], trigger: &str) -> Option<String> {
    let mut text = text.map_or_else(|| "{\n  \"entries\": []\n}\n".to_owned(), str::to_owned);
    let root = parse(&text).ok()?;
    if !root.is_list() {
        list(&root)?;
    }
    for unit in units {
        text = with_unit(&text, unit, trigger)?;
    }
    Some(text)
}

fn with_unit(text: &str, unit: &OriginUnit, trigger: &str) -> Option<String> {
    let root = parse(text).ok()?;
    let list = if root.is_list() { &root } else { list(&root)? };
    let is_run = |entry: &Node| entry.text_of("run_id") == Some(&unit.run_id);
    let known = list.items().iter().position(is_run);
    let mut entry = match known {
        Some(at) => serde_json::from_str(&text[list.items()[at].span.clone()]).ok()?,
        None => {
            json!({ "timestamp": unit.at, "run_id": unit.run_id, "trigger": trigger, "actions": [] })
        }
    };
    let actions = entry.get_mut("actions")?.as_array_mut()?;
    let new: Vec<Value> =
        actions_of(unit).into_iter().filter(|action| !actions.contains(action)).collect();
    if new.is_empty() {
        return Some(text.to_owned());
    }
    actions.extend(new);
    entry["stats"] = stats(entry["actions"].as_array()?);
    let indent = list.items().first().map_or_else(
        || format!("{}  ", indent_at(text, list.span.start)),
        |first| indent_at(text, first.span.start).to_owned(),
    );
    let entry = Piece::New(Style::of(text).write(&entry, &indent));
    let mut pieces: Vec<Piece> = (0..list.items().len()).map(Piece::Kept).collect();
    match known {
        Some(at) => pieces[at] = entry,
        None => pieces.push(entry),
    }
    Some(with_pieces(text, list, &pieces))
}

fn list(root: &Node) -> Option<&Node> {
    KEYS.iter().find_map(|key| root.get(key).filter(|list| list.is_list()))
}

/// Returns the actions of a unit as the log writes them.
fn actions_of(unit: &OriginUnit) -> Vec<Value> {
    let merged: Vec<&String> = unit
        .changes
        .iter()
        .filter_map(|change| match change {
            OriginChange::Update { merged, .. } => Some(merged),
            _ => None,
        })
        .flatten()
        .collect();
    let action = |change: &OriginChange| match change {
        OriginChange::Update { record, merged, .. } if !merged.is_empty() => {
            let sources: Vec<&String> = std::iter::once(&record.id).chain(merged).collect();
            Some(
                json!({ "type": "merge", "source_ids": sources, "result_id": record.id, "rule": unit.rule }),
            )
        }
        OriginChange::Update { record, .. } => {
            Some(json!({ "type": "update", "memory_id": record.id, "rule": unit.rule }))
        }
        OriginChange::Create { record, made_of } => {
            let is_copy = record.tags.iter().any(|tag| tag == PROMOTED);
            let kind = if is_copy { "promote" } else { "summarize" };
            Some(
                json!({ "type": kind, "source_ids": made_of, "result_id": record.id, "rule": unit.rule }),
            )
        }
        OriginChange::Retire { id, into, .. } if into.is_some() && merged.contains(&id) => None,
        OriginChange::Retire { id, into, reason, .. } => {
            let mut action = json!({ "type": "archive", "memory_id": id, "reason": reason });
            if let Some(into) = into {
                action["superseded_by"] = into.as_str().into();
            }
            Some(action)
        }
        OriginChange::Restore { record, .. } => {
            Some(json!({ "type": "restore", "memory_id": record.id }))
        }
        OriginChange::Remove { id, .. } => Some(json!({ "type": "remove", "memory_id": id })),
    };
    unit.changes.iter().filter_map(action).collect()
}

/// Counts memories as the rules document it.
fn stats(actions: &[Value]) -> Value {
    let of = |kind: &'static str| actions.iter().filter(move |action| action["type"] == kind);
    let merged: usize = of("merge")
        .map(|action| action["source_ids"].as_array().map_or(0, |ids| ids.len().saturating_sub(1)))
        .sum();
    json!({
        "memories_merged": merged,
        "memories_archived": of("archive").count(),
        "memories_promoted": of("promote").count(),
    })
}
