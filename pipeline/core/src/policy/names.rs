//! Names of keys: environment variables, names of other systems, removed keys, and suggestions for typing errors.

use serde_json::Value;

use super::config::{Config, Provider, name_of};
use super::error::ConfigError;
use super::layers::{Layer, Notice, Source, each_inner, joined};

/// Keys that count only in the user's own layers, and what they decide.
pub(super) const PERSONAL: &[(&str, &str)] =
    &[("embed", SENDS), ("judge", SENDS), ("guard.lexicon", "which words mean the same")];
const SENDS: &str = "where texts or keys go";

/// Mappings that only wrap the configuration.
pub(super) const WRAPPERS: &[&str] = &["brain", "consolidation"];

/// Other names of keys: snake-case path and ours.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("similarity_threshold", "threshold"), ("deep_consolidation.dry_run", "read_only")];

/// Keys of earlier versions and of other memory systems, and what takes their place.
const REMOVED: &[(&str, &str)] = &[
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

/// Variables of other programs that mean the same as a key of ours.
const FOREIGN_VARIABLES: &[(&str, &str)] = &[
    ("MEMORY_CONSOLIDATION_ENABLED", "enabled"),
    ("MEMORY_RETENTION_HALF_LIFE_DAYS", "lifecycle.half_life_days"),
    ("MEMORY_ARCHIVE_THRESHOLD", "lifecycle.archive_below"),
    ("MEMORY_TIER_ARCHIVE_BELOW", "lifecycle.archive_below"),
    ("HOOK_CONSOLIDATION_MEMORY_THRESHOLD", "lifecycle.due.new_memories_min"),
];

/// Variables of other programs that tell where a provider listens, which holds where no layer does.
const PROVIDER_VARIABLES: &[(&str, Provider)] =
    &[("EMBEDDINGS_URL", Provider::Daemon), ("OLLAMA_URL", Provider::Ollama)];

/// Variables of other programs that look like a key of ours and mean something else.
const UNUSED_VARIABLES: &[(&str, &str)] = &[
    (
        "MEMORY_CONSOLIDATION_THRESHOLD",
        "it is the threshold of topic summaries, not of merges; set MEMFOLD_THRESHOLD for these",
    ),
    ("MEMORY_TIER_HOT_MIN", "the threshold is 0.6"),
    ("MEMORY_TIER_WARM_MIN", "the threshold is 0.3"),
];

/// Returns every environment variable that is read, and its key: the foreign ones first, because
/// later ones win.
#[must_use]
pub fn environment_names() -> Vec<(String, String)> {
    let foreign = FOREIGN_VARIABLES.iter().map(|(name, key)| ((*name).into(), (*key).into()));
    let own = plain_keys().into_iter().map(|key| (own_variable(&key), key));
    foreign.chain(own).collect()
}

fn own_variable(key: &str) -> String {
    format!("MEMFOLD_{}", key.replace('.', "_").to_uppercase())
}

/// Returns every key with a plain value or a list of texts, by path, in the order of the schema; the keys of rules are left
/// out.
pub(super) fn plain_keys() -> Vec<String> {
    fn collect(value: &Value, path: &str, keys: &mut Vec<String>) {
        match value {
            Value::Object(_) => {
                each_inner(value, path, &mut |path, value| collect(value, path, keys));
            }
            Value::Array(_) if path == "rules" => {}
            _ => keys.push(path.to_owned()),
        }
    }
    // It stands for another key, and has no value of its own.
    let mut keys = vec!["threshold".to_owned()];
    collect(&builtin(), "", &mut keys);
    keys
}

/// Returns every built-in value.
pub(super) fn builtin() -> Value {
    serde_json::to_value(Config::default())
        .expect("the built-in configuration has text keys and finite numbers")
}

/// Suggests a key for an unknown one: a neighbour that begins with its name or is spelled alike, else a key elsewhere.
pub(super) fn suggestion(path: &str, neighbours: &[&'static str]) -> Option<String> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let siblings = || neighbours.iter().copied();
    if let Some(sibling) = begun(name, siblings()).or_else(|| nearest(name, siblings())) {
        return Some(joined(parent, sibling));
    }
    let known = plain_keys();
    let names = || known.iter().filter_map(|key| key.rsplit('.').next());
    let elsewhere =
        |name: &str| names().position(|other| other == name).map(|at| known[at].clone());
    elsewhere(name)
        .or_else(|| elsewhere(begun(name, names())?))
        .or_else(|| elsewhere(nearest(name, names())?))
}

/// Returns the first candidate that begins with `name`, where that is long enough to say anything.
fn begun<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const CHARS_MIN: usize = 3;
    let is_begun = |candidate: &&str| candidate.starts_with(name);
    candidates.into_iter().find(|candidate| name.len() >= CHARS_MIN && is_begun(candidate))
}

/// Variables of ours that are no keys: the kernels, and what tests and measurements are told.
const OTHER_VARIABLES: &[&str] =
    &["MEMFOLD_ISA", "MEMFOLD_DATA", "MEMFOLD_LLAMA_PYTHON", "MEMFOLD_MINILM_DIR", "MEMFOLD_SHOW"];
const TEST_VARIABLES: &str = "MEMFOLD_TEST_";

/// Letters by which a name of others may differ from one that is read, to be taken for a slip: theirs are alike.
const FOREIGN_SLIPS_MAX: usize = 2;

/// Returns one layer per variable that is read, weakest first. Empty variables count as unset.
pub(super) fn environment_layers(
    variables: &[(String, String)],
    notices: &mut Vec<Notice>,
) -> Result<Vec<Layer>, ConfigError> {
    let prefixes = ["MEMFOLD_", "MEMORY_", "HOOK_"];
    let concerns = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if !variables.iter().any(|(name, _)| concerns(name)) {
        return Ok(Vec::new());
    }
    let names = environment_names();
    let place = |name: &str| Source::Environment { name: name.into() };
    let is_set = |name: &str| variables.iter().any(|(set, text)| set == name && !text.is_empty());
    for (name, reason) in UNUSED_VARIABLES.iter().filter(|(name, _)| is_set(name)) {
        notices.push(Notice { source: place(name), text: format!("not used: {reason}") });
    }
    for (name, _) in variables {
        notices.extend(slip(name, &names).map(|text| Notice { source: place(name), text }));
    }
    let layer = |(name, key): &(String, String)| {
        let (_, text) = variables.iter().rfind(|(set, text)| set == name && !text.is_empty())?;
        Some(Layer::of_words(key, text.trim(), place(name)))
    };
    names.iter().filter_map(layer).collect()
}

/// Says that a variable that looks like one of ours is not read.
fn slip(name: &str, names: &[(String, String)]) -> Option<String> {
    let known = || names.iter().map(|(name, _)| name.as_str());
    if known().any(|known| known == name) {
        return None;
    }
    if name.starts_with("MEMFOLD_") {
        if OTHER_VARIABLES.contains(&name) || name.starts_with(TEST_VARIABLES) {
            return None;
        }
        if let Some((_, successor)) = REMOVED.iter().find(|(key, _)| own_variable(key) == name) {
            return Some(format!("not used: {successor}"));
        }
        return Some(match nearest(name, known().chain(OTHER_VARIABLES.iter().copied())) {
            Some(meant) => format!("not used; did you mean {meant}?"),
            None => "not used: there is no such key; `memfold config schema` lists them".to_owned(),
        });
    }
    let of_others = FOREIGN_VARIABLES.iter().map(|(name, _)| *name);
    let of_others: Vec<&str> =
        of_others.chain(UNUSED_VARIABLES.iter().map(|(name, _)| *name)).collect();
    if !name.starts_with("MEMORY_") || of_others.contains(&name) {
        return None;
    }
    let near = |known: &&str| edit_distance(name, known) <= FOREIGN_SLIPS_MAX;
    let meant = of_others.into_iter().find(near)?;
    Some(format!("not used; did you mean {meant}?"))
}

/// Returns the variables that tell where a provider listens, with the provider.
pub(super) fn provider_variables() -> impl Iterator<Item = (&'static str, String)> {
    PROVIDER_VARIABLES.iter().map(|(name, provider)| (*name, name_of(provider)))
}

/// Puts the address that others use for the provider where no layer names one.
pub(super) fn fill_embed_url(merged: &mut Layer, variables: &[(String, String)]) {
    let provider = merged.get("embed.provider").and_then(Value::as_str);
    let variable = provider_variables().find(|(_, of)| Some(of.as_str()) == provider);
    let is_set = |name: &str, text: &str| {
        variable.as_ref().is_some_and(|(variable, _)| *variable == name) && !text.is_empty()
    };
    let set = variables.iter().rfind(|(name, text)| is_set(name, text.trim()));
    if let (Some((name, text)), Some(Value::Null)) = (set, merged.get("embed.url")) {
        let source = Source::Environment { name: name.clone() };
        merged.set("embed.url", text.trim().into(), source);
    }
}

/// Returns the layer of one `KEY=VALUE`.
pub(super) fn set_layer(text: &str) -> Result<Layer, ConfigError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Layer::of_words(key.trim(), value.trim(), Source::Set { text: text.to_owned() })
        }
        _ => {
            let problem = format!("--set {}: expected KEY=VALUE", super::error::shown(text));
            Err(ConfigError::layers(problem, "for example: --set threshold=0.95"))
        }
    }
}

/// Returns the candidate nearest to `name`, if it is near enough to be a typing error; the first of
/// equals.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let distance_max = (name.chars().count() / 3).max(1);
    let distance = |candidate| (edit_distance(name, candidate), candidate);
    let near =
        candidates.into_iter().map(distance).filter(|(distance, _)| *distance <= distance_max);
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Counts insertions, deletions, substitutions and swaps of neighbours, whatever the case.
pub(super) fn edit_distance(left: &str, right: &str) -> usize {
    strsim::osa_distance(&left.to_lowercase(), &right.to_lowercase())
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

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let keys = ["enabled", "linkage", "shared_vector_texts_max", "guard"];
        assert_eq!(nearest("gaurd", keys), Some("guard"));
        assert_eq!(nearest("enabeld", keys), Some("enabled"));
        assert_eq!(nearest("sharedvectortextsmax", keys), Some("shared_vector_texts_max"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
