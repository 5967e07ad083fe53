//! Lays one layer over another.

use serde_json::Number;

use super::document::{FileLayer, Node, NodeValue, Notice, Source};
use super::error::ConfigError;
use super::hivemind;
use super::schema::joined;
use crate::policy::{EXACT_DUPLICATE, NEAR_DUPLICATE};

/// Lays a checked layer over those below: mappings key by key, rules by id, lists and plain values
/// whole.
///
/// # Errors
///
/// `threshold` beside what it is short for.
pub(super) fn lay_over(base: &mut Node, layer: Admitted) -> Result<(), ConfigError> {
    let mut layer = layer.into_node();
    hivemind::expand(&mut layer);
    expand_threshold(&mut layer, base)?;
    merge(base, layer);
    Ok(())
}

pub(super) fn merge(base: &mut Node, layer: Node) {
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

/// Keys that count only in a person's own layers, and what they would decide.
const PERSONAL: &[(&str, &str)] =
    &[("embed", SENDS), ("judge", SENDS), ("guard.lexicon", "which words mean the same")];
const SENDS: &str = "where texts or keys go";

/// Whose word a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// That of the person who runs this: their own files, variables and command line.
    Own,
    /// That of whoever made the store.
    Store,
}

impl Origin {
    /// Returns whose word a file is.
    pub(super) const fn of_file(file: FileLayer) -> Self {
        match file {
            FileLayer::Store => Self::Store,
            FileLayer::System | FileLayer::User | FileLayer::Given => Self::Own,
        }
    }
}

/// A layer that holds only what its place may say.
pub(super) struct Admitted(Node);

impl Admitted {
    /// Takes a layer in one spelling; what its place may not say is left out, and told.
    pub(super) fn of(mut layer: Node, origin: Origin, notices: &mut Vec<Notice>) -> Self {
        if origin == Origin::Store {
            for &(key, decides) in PERSONAL {
                if let Some(node) = take(&mut layer, key) {
                    notices.push(not_used(key, decides, node.source));
                }
            }
        }
        Self(layer)
    }

    pub(super) fn into_node(self) -> Node {
        self.0
    }

    /// Changes the layer without moving it to another place.
    pub(super) fn try_map<E>(
        self,
        change: impl FnOnce(Node) -> Result<Node, E>,
    ) -> Result<Self, E> {
        change(self.0).map(Self)
    }
}

fn not_used(key: &str, decides: &str, source: Source) -> Notice {
    let text = format!(
        "`{key}` is not used: what comes with a store does not say {decides}; move it to \
         ~/.config/memfold/config.yaml, or name the file with --config"
    );
    Notice { source, text }
}

/// Mappings that only wrap the configuration.
const WRAPPERS: &[&str] = &["brain", "consolidation"];

/// Other names of keys: snake-case path and ours.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("similarity_threshold", "threshold"), ("deep_consolidation.dry_run", "read_only")];

/// Keys of earlier versions and of other memory systems, and what takes their place.
pub(super) const REMOVED: &[(&str, &str)] = &[
    ("schedule", "the schedule is not configured here: use cron, or memfold-server --schedule"),
    ("model", "models that decide are named in `judge.chain`"),
    ("deep_consolidation", "rules hold the thresholds, `judge` what models decide"),
    ("helios_metrics", "there is no successor: read `memfold_*` in the metrics"),
    (
        "detect.contradiction_threshold",
        "there is no successor: every conflict that is proven is flagged",
    ),
    ("detect.contradiction_similarity", "there is no successor: it is 0.85"),
    ("merge.importance_cap", "there is no successor: it is 3.0"),
    ("scope.sources", "there is no successor: use `scope.categories`"),
    ("embed.inline_timeout_ms", "there is no successor: it is 2000"),
    ("judge.batch_size", "there is no successor: it is 10"),
    ("judge.replace_similarity_min", "there is no successor: it is 0.9"),
    ("judge.loss.max_content_words", "there is no successor: it is 0.25"),
    ("lifecycle.weights", "there is no successor: they are 0.4, 0.2 and 0.4"),
    ("lifecycle.activation_cap", "there is no successor: it is 20"),
    ("lifecycle.superseded_factor", "there is no successor: it is 0.2"),
    ("lifecycle.pinned_importance_min", "there is no successor: it is 3.0"),
    ("lifecycle.category_importance", "there is no successor: docs/lifecycle.md has the table"),
    ("lifecycle.due.interval_hours", "there is no successor: it is 24"),
    ("lifecycle.due.unindexed_max", "there is no successor: it is 100"),
    ("lifecycle.due.idle_minutes", "there is no successor: it is 30"),
    ("rules.then.params.cap", "there is no successor: it is 3.0"),
    ("rules.then.params.increase", "there is no successor: it is 0.5"),
    ("rules.then.params.validated", "there is no successor: promotions raise importance alone"),
    ("rules.then.params.scope", "leave it out: an agent's goes to its team, a team's to everybody"),
    ("rules.when.or_equal_text", "it holds for all rules: set `detect.exact_text`"),
    (
        "rules.when.max_similarity",
        "there is no successor: order rules, the first that matches wins",
    ),
    (
        "rules.when.max_cluster_size",
        "there is no successor: order rules, the first that matches wins",
    ),
    (
        "rules.when.max_age_days",
        "there is no successor: use `scope.since`, or `protection.min_age_hours`",
    ),
    ("rules.when.content_similarity_min", "there is no successor: use `min_similarity`"),
    ("rules.when.types_any", "use `categories_any: [\"type:NAME\"]`"),
    (
        "rules.when.content_chars_min",
        "there is no successor: `summarize` takes more than 5,000 characters",
    ),
    ("rules.when.source_prefix_any", "there is no successor: use `categories_any`"),
    ("rules.when.priority_none", "use `categories_none: [\"priority:NAME\"]`"),
    ("rules.when.tags_none", "use `categories_none`"),
    ("rules.when.created_by_none", "use `categories_none: [\"created_by:NAME\"]`"),
    ("reports_dir", "use --report-dir"),
    ("detect.index", "write `detect.method: hnsw_rs`"),
    ("detect.recall_target", "there is no successor: it is 0.99"),
    ("detect.pair_budget", "there is no successor: it is 64 for each row, at least 1,000,000"),
    ("detect.shared_vector_texts_max", "there is no successor: it is 20"),
    ("cluster.max_cluster_size", "there is no successor: clusters have any size"),
    ("protection.profile", "write `profile` at the top"),
    ("protection.ids", "give these memories the category `pinned`"),
    ("protection.access_count_min", "there is no successor: `profile: strict` protects from 10 on"),
    ("merge.canonical", "set `then.params.canonical` of the rule"),
    ("merge.categories", "there is no successor: all categories are kept"),
    ("flags.max_per_memory", "there is no successor: it is 3"),
    ("scope.newest", "there is no successor: use `scope.since`"),
    ("quick_check.scope", "there is no successor: `cluster.separate_by` keeps apart"),
    ("embed.timeout_ms", "there is no successor: it is 30000"),
    ("embed.retries", "there is no successor: it is 2"),
    ("embed.batch_size", "there is no successor: it is 32"),
    ("embed.dir", "name the folder in `embed.url`"),
    ("judge.golden_similarity_min", "there is no successor: it is 0.75"),
    ("judge.summary_similarity_min", "there is no successor: it is 0.85"),
    ("judge.supersession_confidence_min", "there is no successor: it is high"),
    ("judge.chain.price_in", "write both prices as `price: [IN, OUT]`"),
    ("judge.chain.price_out", "write both prices as `price: [IN, OUT]`"),
    ("lifecycle.hot_min", "there is no successor: it is 0.6"),
    ("lifecycle.warm_min", "there is no successor: it is 0.3"),
];

/// Says what takes the place of a key of an earlier version. Ids of rules and places in a chain do not count.
pub(super) fn successor(path: &str) -> Option<&'static str> {
    let in_list = ["rules", "judge.chain"].into_iter().find_map(|list| {
        let (_, key) = path.strip_prefix(list)?.strip_prefix('.')?.split_once('.')?;
        Some(format!("{list}.{key}"))
    });
    let path = in_list.unwrap_or_else(|| path.to_owned());
    let is_it = |key: &str| {
        path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    REMOVED.iter().find(|(key, _)| is_it(key)).map(|(_, successor)| *successor)
}

/// Brings the keys of a layer to one spelling.
pub(super) fn unify(layer: Node) -> Result<Node, ConfigError> {
    let mut layer = unwrapped(snake_case(layer, "")?)?;
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
