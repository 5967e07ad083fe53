//! Names of keys: environment variables, names of other systems, removed keys, and suggestions for typing errors.

use super::config::{Config, Provider, name_of};
use super::error::{ConfigError, Notice, Source};
use super::layers::{Layer, Node, joined};

/// Keys that count only in the user's own layers, and their subjects.
pub(super) const PERSONAL: &[(&str, &str)] =
    &[("embed", SENDS), ("judge", SENDS), ("guard.lexicon", "which words mean the same")];
const SENDS: &str = "where texts or keys go";

/// Mappings that only wrap the configuration.
pub(super) const WRAPPERS: &[&str] = &["brain", "consolidation"];

/// Other names of keys: snake-case path and ours.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("similarity_threshold", "threshold"), ("deep_consolidation.dry_run", "read_only")];

/// Returns keys of earlier versions and of other memory systems, and their replacements.
fn removed() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("removed_keys.txt").lines().filter_map(|line| line.split_once(": "))
}

/// Names the replacement of a key of an earlier version. Ids of rules and places in a chain do not count.
pub(super) fn successor(path: &str) -> Option<&'static str> {
    let in_list = ["rules", "judge.chain"].into_iter().find_map(|list| {
        let (_, key) = path.strip_prefix(list)?.strip_prefix('.')?.split_once('.')?;
        Some(format!("{list}.{key}"))
    });
    let path = in_list.unwrap_or_else(|| path.to_owned());
    let is_it = |key: &str| {
        path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    removed().find(|(key, _)| is_it(key)).map(|(_, successor)| successor)
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
pub(super) fn environment_names() -> Vec<(String, String)> {
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
    let builtin = builtin();
    let keys = builtin.leaves().into_iter().map(|(key, _)| key);
    let keys = keys.filter(|key| !key.starts_with("rules."));
    // It stands for another key, and has no value of its own.
    std::iter::once("threshold".to_owned()).chain(keys).collect()
}

/// Returns every built-in value.
pub(super) fn builtin() -> Node {
    let value = serde_json::to_value(Config::default());
    Node::of(
        value.expect("the built-in configuration has text keys and finite numbers"),
        Source::BuiltIn,
    )
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

/// Variables of ours that are no keys: the kernels, and parameters of tests and measurements.
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
        if let Some((_, successor)) = removed().find(|(key, _)| own_variable(key) == name) {
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
pub(super) fn fill_embed_url(merged: &mut Node, variables: &[(String, String)]) {
    let provider = merged.get("embed.provider").and_then(Node::text);
    let Some((variable, _)) = provider_variables().find(|(_, of)| Some(of.as_str()) == provider)
    else {
        return;
    };
    let set = variables.iter().rfind(|(name, text)| name == variable && !text.trim().is_empty());
    if let (Some((name, text)), Some(url)) = (set, merged.get_mut("embed.url"))
        && url.plain().is_null()
    {
        *url = Node::of(text.trim().into(), Source::Environment { name: name.clone() });
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
            Err(ConfigError::new(problem, "for example: --set threshold=0.95"))
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

    /// A configuration of an earlier version must not fail without advice.
    #[test]
    fn removed_keys_name_their_successors() {
        for (key, replacement) in removed() {
            let path = key.replacen("rules.", "rules.R1.", 1);
            let path = path.replacen("judge.chain.", "judge.chain.0.", 1);
            assert_eq!(successor(&path), Some(replacement), "{key}");
            assert_eq!(successor(&format!("{path}.part")), Some(replacement), "{key}");
        }
        assert_eq!(successor("threshold"), None);
    }
}
