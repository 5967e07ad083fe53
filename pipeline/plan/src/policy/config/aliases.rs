//! One spelling for every key: camelCase, and the trees and names of other memory systems.

use super::document::{Node, NodeValue};
use super::error::ConfigError;
use super::schema::joined;
use super::source::{Notice, Source};

/// Mappings that only wrap the configuration.
const WRAPPERS: &[&str] = &["brain", "consolidation"];

/// Other names of keys: snake-case path and ours.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("similarity_threshold", "threshold"), ("deep_consolidation.dry_run", "read_only")];

/// Keys of other memory systems that nothing here answers to, and why.
pub(super) const UNUSED: &[(&str, &str)] = &[
    ("schedule", "memfold has no scheduler of its own; use cron or a timer"),
    ("model", "no model takes part"),
    ("deep_consolidation.replace_threshold", "no model takes part; rules hold the thresholds"),
    ("deep_consolidation.batch_size", "no model takes part"),
    ("deep_consolidation.timeout_ms", "no model takes part"),
];

/// Brings the keys of a layer to one spelling.
pub(super) fn unify(layer: Node, notices: &mut Vec<Notice>) -> Result<Node, ConfigError> {
    let mut layer = unwrapped(snake_case(layer, "")?)?;
    for (path, reason) in UNUSED {
        if let Some(node) = take(&mut layer, path) {
            let text = format!("`{path}` is not used: {reason}");
            notices.push(Notice { source: node.source, text });
        }
    }
    for (alias, path) in ALIASES {
        if let Some(node) = take(&mut layer, alias) {
            let segments: Vec<&str> = path.split('.').collect();
            let source = node.source;
            let nested = Node::nested(&segments, node.value, &source);
            let NodeValue::Map(entries) = nested.value else { continue };
            add_entries(&mut layer, entries, "")?;
        }
    }
    Ok(layer)
}

/// Writes every key in snake_case.
fn snake_case(node: Node, path: &str) -> Result<Node, ConfigError> {
    let value = match node.value {
        NodeValue::Map(entries) => {
            let mut renamed: Vec<(String, Node)> = Vec::with_capacity(entries.len());
            for (key, inner) in entries {
                let name = snake_cased(&key);
                let path = joined(path, &name);
                if renamed.iter().any(|(other, _)| *other == name) {
                    return Err(ConfigError::RepeatedKey { key: path.into(), place: inner.source });
                }
                renamed.push((name, snake_case(inner, &path)?));
            }
            NodeValue::Map(renamed)
        }
        NodeValue::List(items) => NodeValue::List(
            items.into_iter().map(|item| snake_case(item, path)).collect::<Result<_, _>>()?,
        ),
        plain => plain,
    };
    Ok(Node { value, source: node.source })
}

/// Writes a name in snake_case: an underscore before each capital that follows a small letter or digit.
pub(super) fn snake_cased(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut after_small = false;
    for char in name.chars() {
        if char.is_ascii_uppercase() && after_small {
            snake.push('_');
        }
        after_small = char.is_ascii_lowercase() || char.is_ascii_digit();
        snake.push(char.to_ascii_lowercase());
    }
    snake
}

/// Lifts what stands in wrappers to the top.
fn unwrapped(mut layer: Node) -> Result<Node, ConfigError> {
    for wrapper in WRAPPERS {
        let Some(inner) = take(&mut layer, wrapper) else { continue };
        match inner.value {
            NodeValue::Map(entries) => add_entries(&mut layer, entries, "")?,
            NodeValue::Null => {}
            _ => {
                return Err(ConfigError::WrongValue {
                    key: (*wrapper).into(),
                    found: inner.described().into(),
                    place: inner.source,
                    expected: "keys and values".into(),
                    advice: None,
                });
            }
        }
    }
    Ok(layer)
}

/// Adds entries that must not be there yet.
fn add_entries(node: &mut Node, added: Vec<(String, Node)>, path: &str) -> Result<(), ConfigError> {
    let NodeValue::Map(entries) = &mut node.value else { return Ok(()) };
    for (key, inner) in added {
        let path = joined(path, &key);
        let present = entries.iter_mut().find(|(name, _)| *name == key);
        match (present, inner.value) {
            (None, value) => entries.push((key, Node { value, source: inner.source })),
            (Some((_, there)), NodeValue::Map(more))
                if matches!(there.value, NodeValue::Map(_)) =>
            {
                add_entries(there, more, &path)?;
            }
            (Some(_), _) => {
                return Err(ConfigError::RepeatedKey { key: path.into(), place: inner.source });
            }
        }
    }
    Ok(())
}

/// Takes the value under a path out of a mapping; mappings that are left empty go too.
pub(super) fn take(node: &mut Node, path: &str) -> Option<Node> {
    let NodeValue::Map(entries) = &mut node.value else { return None };
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let at = entries.iter().position(|(name, _)| name == key)?;
    let Some(rest) = rest else { return Some(entries.remove(at).1) };
    let taken = take(&mut entries[at].1, rest)?;
    if entries[at].1.entries().is_empty() {
        entries.remove(at);
    }
    Some(taken)
}

/// Returns the layer of a key path as typed: its segments in one spelling, ids of rules untouched.
pub(super) fn nested_words(key: &str, words: &str, source: &Source) -> Node {
    let mut segments: Vec<String> = Vec::new();
    for typed in key.split('.') {
        let is_rule_id = segments.last().is_some_and(|last| last == "rules");
        segments.push(if is_rule_id { typed.to_owned() } else { snake_cased(typed) });
    }
    while segments.len() > 1 && WRAPPERS.contains(&segments[0].as_str()) {
        segments.remove(0);
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    Node::nested(&segments, NodeValue::Words(words.to_owned()), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_snake_case() {
        for (typed, name) in [
            ("minSimilarity", "min_similarity"),
            ("autoDedup_threshold", "auto_dedup_threshold"),
            ("autoDedupThreshold", "auto_dedup_threshold"),
            ("min_similarity", "min_similarity"),
            ("timeoutMs", "timeout_ms"),
        ] {
            assert_eq!(snake_cased(typed), name);
        }
    }
}
