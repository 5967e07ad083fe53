//! Values given as words: environment variables and `--set`.

use serde_json::Value;

use super::document::{Node, NodeValue, Notice, Source};
use super::error::ConfigError;
use super::keys::builtin_json;
use super::layers::{REMOVED, nested_words};
use super::schema::{edit_distance, joined, nearest};
use crate::policy::Provider;

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

/// Returns the keys that [`leaves`](super::schema::leaves) returns, without making the schema: this runs at every start.
fn plain_keys() -> Vec<String> {
    fn collect(value: &Value, path: &str, keys: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    collect(inner, &joined(path, key), keys);
                }
            }
            Value::Array(_) if path == "rules" => {}
            _ => keys.push(path.to_owned()),
        }
    }
    // It stands for another key, and has no value of its own.
    let mut keys = vec!["threshold".to_owned()];
    collect(&builtin_json(), "", &mut keys);
    keys
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
) -> Vec<Node> {
    let prefixes = ["MEMFOLD_", "MEMORY_", "HOOK_"];
    let concerns = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if !variables.iter().any(|(name, _)| concerns(name)) {
        return Vec::new();
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
        Some(nested_words(key, text.trim(), &place(name)))
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
pub(super) fn provider_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROVIDER_VARIABLES.iter().map(|(name, provider)| (*name, provider.name()))
}

/// Puts the address that others use for the provider where no layer names one.
pub(super) fn fill_embed_url(merged: &mut Node, variables: &[(String, String)]) {
    let provider = match merged.get(&["embed", "provider"]).map(|node| &node.value) {
        Some(NodeValue::Text(provider)) => provider.clone(),
        _ => return,
    };
    let Some((variable, _)) = provider_variables().find(|(_, of)| *of == provider) else { return };
    let set = variables.iter().rfind(|(name, text)| name == variable && !text.trim().is_empty());
    let url = merged.get_mut(&["embed", "url"]).filter(|url| url.value == NodeValue::Null);
    if let (Some((name, text)), Some(url)) = (set, url) {
        let source = Source::Environment { name: name.as_str().into() };
        *url = Node { value: NodeValue::Text(text.trim().to_owned()), source };
    }
}

/// Returns the layer of one `KEY=VALUE`.
pub(super) fn set_layer(text: &str) -> Result<Node, ConfigError> {
    let source = Source::Set { text: text.into() };
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok(nested_words(key.trim(), value.trim(), &source))
        }
        _ => Err(ConfigError::SetWithoutValue { text: text.into() }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::schema::leaves;
    use super::*;

    #[test]
    fn keys_are_those_of_the_schema() {
        let of_schema: BTreeSet<String> = leaves().into_iter().map(|(key, _)| key).collect();
        assert_eq!(plain_keys().into_iter().collect::<BTreeSet<_>>(), of_schema);
    }
}
