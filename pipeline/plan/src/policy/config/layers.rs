//! Lays one layer over another.

use serde_json::Number;

use super::admit::Admitted;
use super::document::{Node, NodeValue};
use super::error::ConfigError;
use super::keys::ProtectionConfig;
use crate::policy::{EXACT_DUPLICATE, NEAR_DUPLICATE, Profile};

/// Lays a checked layer over those below: mappings key by key, rules by id, lists and plain values
/// whole.
///
/// # Errors
///
/// `threshold` beside what it is short for.
pub(super) fn lay_over(base: &mut Node, layer: Admitted) -> Result<(), ConfigError> {
    let mut layer = layer.into_node();
    expand_profile(&mut layer);
    expand_threshold(&mut layer, base)?;
    merge(base, layer);
    Ok(())
}

fn merge(base: &mut Node, layer: Node) {
    match (&mut base.value, layer.value) {
        (NodeValue::Map(entries), NodeValue::Map(over)) => {
            for (key, node) in over {
                match entries.iter_mut().find(|(name, _)| *name == key) {
                    Some((_, below)) if key == "rules" => merge_rules(below, node),
                    Some((_, below)) => merge(below, node),
                    None => entries.push((key, node)),
                }
            }
        }
        (below, value) => {
            *below = value;
            base.source = layer.source;
        }
    }
}

/// Merges rules of the same id; new ones come before those below, in their own order.
fn merge_rules(base: &mut Node, layer: Node) {
    let (NodeValue::List(rules), NodeValue::List(over)) = (&mut base.value, layer.value) else {
        return;
    };
    let mut new = Vec::new();
    for mut rule in over {
        match rules.iter_mut().find(|below| below.id() == rule.id()) {
            Some(below) => {
                // The id is the key here; its origin stays the layer that made the rule.
                if let NodeValue::Map(entries) = &mut rule.value {
                    entries.retain(|(key, _)| key != "id");
                }
                merge(below, rule);
            }
            None => new.push(rule),
        }
    }
    rules.splice(0..0, new);
}

/// Spells out what a profile sets, beneath the layer's own keys.
fn expand_profile(layer: &mut Node) {
    let Some(set) = layer.get(&["protection", "profile"]) else { return };
    let NodeValue::Text(name) = &set.value else { return };
    let profile = if name == "strict" { Profile::Strict } else { Profile::Default };
    let mut keys = serde_json::to_value(ProtectionConfig::of(profile))
        .expect("a profile has text keys and finite numbers");
    // Whether anything is protected is no part of a profile.
    keys.as_object_mut().map(|keys| keys.shift_remove("enabled"));
    let mut spelled = Node::from_json(keys, &set.source);
    if let NodeValue::Map(entries) = &mut layer.value
        && let Some((_, protection)) = entries.iter_mut().find(|(key, _)| key == "protection")
    {
        let own = std::mem::replace(&mut protection.value, NodeValue::Null);
        let source = protection.source.clone();
        merge(&mut spelled, Node { value: own, source });
        *protection = spelled;
    }
}

/// Spells out `threshold`: the near-duplicate rule's similarity, and the exact-duplicate rule's too
/// where that one lies below, because nobody who asks for T wants merges under T.
fn expand_threshold(layer: &mut Node, base: &Node) -> Result<(), ConfigError> {
    let NodeValue::Map(entries) = &mut layer.value else { return Ok(()) };
    let Some(at) = entries.iter().position(|(key, _)| key == "threshold") else { return Ok(()) };
    let (_, threshold) = entries.remove(at);
    let NodeValue::Number(number) = &threshold.value else { return Ok(()) };
    let path = |id| ["rules", id, "when", "min_similarity"];
    if layer.get(&path(NEAR_DUPLICATE)).is_some() {
        let key = path(NEAR_DUPLICATE).join(".").into();
        return Err(ConfigError::ThresholdTwice { key, place: threshold.source });
    }
    let exact = layer.get(&path(EXACT_DUPLICATE)).or_else(|| base.get(&path(EXACT_DUPLICATE)));
    let raises = exact.is_some_and(|exact| is_below(&exact.value, number));
    for id in std::iter::once(NEAR_DUPLICATE).chain(raises.then_some(EXACT_DUPLICATE)) {
        let value = NodeValue::Number(number.clone());
        merge(layer, Node::nested(&path(id), value, &threshold.source));
    }
    Ok(())
}

fn is_below(value: &NodeValue, number: &Number) -> bool {
    match value {
        NodeValue::Number(value) => value.as_f64() < number.as_f64(),
        _ => false,
    }
}
