//! `source`: where a row came from and what became of it, for readers of the store that know nothing of memfold.

use serde_json::{Map, Value, json};

use memfold_model::memory::MemoryId;

/// Folded ids that a survivor lists, at most.
const LISTED_MAX: usize = 100;
/// A survivor's `source` stays within this, unless its own root is longer.
const SOURCE_BYTES_MAX: usize = 4096;

/// What a survivor says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Merged<'a> {
    /// All ever folded into it, latest last.
    pub(super) from: Vec<MemoryId>,
    /// How many they are.
    pub(super) count: u64,
    pub(super) run_id: &'a str,
    pub(super) at: &'a str,
    pub(super) root: &'a str,
}

/// Returns the source of a survivor: `consolidation:{…}` with the latest folded ids that fit.
pub(super) fn of_survivor(merged: &Merged<'_>) -> String {
    let mut from = &merged.from[merged.from.len().saturating_sub(LISTED_MAX)..];
    loop {
        let source = prefixed(
            "consolidation:",
            &[
                ("merged_from", json!(from)),
                ("merged_count", json!(merged.count)),
                ("run_id", json!(merged.run_id)),
                ("at", json!(merged.at)),
                ("previous_source", json!(merged.root)),
            ],
        );
        if source.len() <= SOURCE_BYTES_MAX || from.is_empty() {
            return source;
        }
        let excess = source.len() - SOURCE_BYTES_MAX;
        let shortest = from.iter().map(|id| id.as_str().len() + 4).max().unwrap_or(1);
        from = &from[excess.div_ceil(shortest).clamp(1, from.len())..];
    }
}

/// Returns the source of a row that was folded into another.
pub(super) fn of_absorbed(survivor: &MemoryId, run_id: &str, root: &str) -> String {
    prefixed(
        "archived:",
        &[
            ("merged_into", json!(survivor)),
            ("run_id", json!(run_id)),
            ("previous_source", json!(root)),
        ],
    )
}

/// Returns the source of a row that a rule archived.
pub(super) fn of_archived(rule_id: &str, run_id: &str, root: &str) -> String {
    prefixed(
        "archived:",
        &[("reason", json!(rule_id)), ("run_id", json!(run_id)), ("previous_source", json!(root))],
    )
}

fn prefixed(prefix: &str, fields: &[(&str, Value)]) -> String {
    let fields: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    format!("{prefix}{}", Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(ids: usize, id_bytes: usize) -> String {
        let from = (0..ids).map(|i| MemoryId::new(format!("{i:0id_bytes$}"))).collect();
        let (run_id, at) = ("20260630T120000Z-00000000", "2026-06-30T12:00:00.000000");
        of_survivor(&Merged { from, count: ids as u64, run_id, at, root: "agent" })
    }

    #[test]
    fn a_survivor_lists_the_latest_that_fit() {
        for (ids, id_bytes, listed) in [(3, 16, 3), (250, 16, 100), (250, 60, 63), (3, 5000, 0)] {
            let source = source(ids, id_bytes);
            assert!(source.len() <= SOURCE_BYTES_MAX, "{ids} of {id_bytes}: {}", source.len());
            let json: Value = serde_json::from_str(&source["consolidation:".len()..]).unwrap();
            let from = json["merged_from"].as_array().unwrap();
            assert!(from.len() <= listed && from.len() + 8 > listed, "{}", from.len());
            if let Some(last) = from.last() {
                assert_eq!(*last, format!("{:0id_bytes$}", ids - 1));
            }
            assert_eq!(json["merged_count"], ids);
        }
    }

    #[test]
    fn an_absurdly_long_root_is_kept() {
        let root = "x".repeat(10_000);
        let merged =
            Merged { from: vec![MemoryId::new("a")], count: 1, run_id: "r", at: "t", root: &root };
        assert!(of_survivor(&merged).contains(&root));
    }
}
