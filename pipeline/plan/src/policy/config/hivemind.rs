//! What `profile` sets; of `hivemind` the rules of memory folders in JSON files.

use super::document::{Node, NodeValue};
use super::keys::ProtectionConfig;
use super::layers::merge;
use crate::policy::Profile;

/// What the profile sets.
///
/// Overlaps of tags *above* 0.8 count, and 4 of 5 are 0.8. Memories of different creators or scopes stay
/// apart. What is younger than 7 days, critical, permanent, protected, core, a decision, a user's or read at
/// least 10 times is protected by the profile `strict`.
const HIVEMIND: &str = r#"{
  "rules": [
    { "id": "H1-merge-duplicates", "trigger": "on_similarity",
      "when": { "min_similarity": 0.8, "min_cluster_size": 2, "tag_overlap_min": 0.801,
                "same": ["type", "subtype", "scope", "scope_id", "created_by"] },
      "then": { "action": "merge", "params": { "canonical": "newest" } } },
    { "id": "H2-summarize-verbose-episodic", "trigger": "weekly",
      "when": { "categories_any": ["type:episodic"], "min_age_days": 30, "categories_none": ["summarized"] },
      "then": { "action": "summarize" } },
    { "id": "H3-promote-to-team", "trigger": "weekly",
      "when": { "categories_all": ["type:procedural", "scope:agent"], "min_access_count": 5 },
      "then": { "action": "promote_scope" } },
    { "id": "H4-promote-to-global", "trigger": "weekly",
      "when": { "categories_all": ["type:procedural", "scope:team"], "min_access_count": 10 },
      "then": { "action": "promote_scope" } },
    { "id": "H5-archive-unread", "trigger": "weekly",
      "when": { "max_access_count": 0 }, "then": { "action": "archive" } },
    { "id": "H6-archive-stale", "trigger": "weekly",
      "when": { "min_idle_days": 90 }, "then": { "action": "archive" } },
    { "id": "R1-exact-duplicate-merge", "enabled": false },
    { "id": "R2-near-duplicate-merge", "enabled": false },
    { "id": "R3-promote-high-value-procedural", "enabled": false }
  ]
}"#;

/// Returns what the profile sets.
fn keys() -> serde_json::Value {
    serde_json::from_str(HIVEMIND).expect("the profile is JSON")
}

/// Returns the profile's own rules, in order.
#[cfg(test)]
pub(super) fn rules() -> Vec<serde_json::Value> {
    let mut keys = keys();
    let rules = keys["rules"].as_array_mut().map(std::mem::take).unwrap_or_default();
    rules.into_iter().filter(|rule| rule.get("enabled").is_none()).collect()
}

/// Spells out what a profile sets, beneath the layer's own keys.
pub(super) fn expand(layer: &mut Node) {
    let Some(set) = layer.get(&["profile"]) else { return };
    let NodeValue::Text(name) = &set.value else { return };
    let profile = match name.as_str() {
        "strict" => Profile::Strict,
        "hivemind" => Profile::Hivemind,
        _ => Profile::Default,
    };
    let mut spelled = if profile == Profile::Hivemind { keys() } else { serde_json::json!({}) };
    let protection = serde_json::to_value(ProtectionConfig::of(profile));
    spelled["protection"] = protection.expect("a profile has text keys and finite numbers");
    // Whether anything is protected is no part of a profile.
    spelled["protection"].as_object_mut().map(|keys| keys.shift_remove("enabled"));
    let mut spelled = Node::from_json(spelled, &set.source);
    let own = std::mem::replace(&mut layer.value, NodeValue::Null);
    merge(&mut spelled, Node { value: own, source: layer.source.clone() });
    *layer = spelled;
}
