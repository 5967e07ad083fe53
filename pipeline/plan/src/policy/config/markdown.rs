//! docs/configuration.md.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::hivemind;
use super::keys::{Config, ProtectionConfig};
use super::layers::ALIASES;
use super::schema::{Kind, Shape, config_schema, joined, resolved};
use super::words::{environment_names, provider_variables};
use crate::policy::{Profile, defaults};

const INTRODUCTION: &str = "\
# Configuration

<!-- Made from the code: `BLESS=1 cargo test -p memfold-plan configuration_md` writes this file. -->

A configuration is YAML or JSON. Every key is optional; an unknown one is an error. `memfold config show` prints the
effective configuration and the source of each value, `memfold config schema` the JSON Schema.

```yaml
# memfold.yaml, beside the store
threshold: 0.96
profile: strict
rules:
  - id: R4-archive-low-utility
    enabled: true
```

## Layers

Later layers win: built-in defaults; `/etc/memfold/config.yaml`; `$XDG_CONFIG_HOME/memfold/config.yaml` (default
`~/.config`); `memfold.yaml` beside the store (never of the working directory); `--config FILE`; environment variables;
`--set KEY=VALUE`, from left to right; flags such as `--threshold`.

`.yml` and `.json` work as well, one file per folder. Mappings merge key by key and rules by `id`; lists and plain values are
replaced. Relative paths in a file count from its folder, elsewhere from the working directory.

A store can come from somebody else, and so can the file beside it. It must belong to you or root and be writable by nobody
else. Its sections `embed` and `judge`, and `guard.lexicon`, are ignored with a note: use your own file or `--config`.

An environment variable is the key in capitals after `MEMFOLD_`, with `_` for `.`: `guard.enabled` is
`MEMFOLD_GUARD_ENABLED`. An empty one counts as unset; booleans are `1`, `true`, `yes`, `on`, `enabled` and their opposites;
commas separate lists. `--set` also takes YAML lists (`--set cluster.separate_by=[private]`) and keys of rules (`--set
rules.R4-archive-low-utility.enabled=yes`). camelCase equals snake_case; the wrappers `brain:` and `consolidation:` are
accepted.

Every key but `enabled`, `read_only`, `quick_check`, `embed`, `judge`, `lifecycle` and `busy_timeout_ms` can change a
plan and is part of its `config_hash`.

## Keys
";

/// Returns docs/configuration.md: every key with its meaning and its default.
#[must_use]
pub(crate) fn configuration_markdown() -> String {
    let mut text = INTRODUCTION.to_owned();
    let defaults =
        serde_json::to_value(Config::default()).expect("the built-in configuration is plain JSON");
    let properties = properties(config_schema());
    let is_section = |schema: &'static Value| matches!(Shape::of(schema).kind, Kind::Map(_));
    let plain: Vec<_> = properties.iter().filter(|(_, schema)| !is_section(schema)).collect();
    write_table(&mut text, "", plain.into_iter().filter(|(key, _)| *key != "rules"), &defaults);
    for (section, schema) in properties.iter().filter(|(_, schema)| is_section(schema)) {
        let _ = write!(text, "\n### {section}\n\n{}\n", description(schema));
        write_table(&mut text, section, self::properties(schema).iter(), &defaults[section]);
        if section == "protection" {
            write_strict(&mut text);
        }
    }
    write_rules(&mut text, properties, &defaults["rules"]);
    write_names(&mut text);
    text
}

/// Writes a table of keys with their defaults.
fn write_table<'a>(
    text: &mut String,
    section: &str,
    keys: impl Iterator<Item = (&'a String, &'static Value)>,
    defaults: &Value,
) {
    text.push_str("\n| key | default | meaning |\n|---|---|---|\n");
    for (key, schema) in keys {
        let path = joined(section, key);
        let meaning = meaning(schema);
        let _ = writeln!(text, "| `{path}` | {} | {meaning} |", code(&defaults[key]));
    }
}

/// Writes what the strict profile adds.
fn write_strict(text: &mut String) {
    let strict = serde_json::to_value(ProtectionConfig::of(Profile::Strict))
        .expect("a profile is plain JSON");
    let default = serde_json::to_value(ProtectionConfig::of(Profile::Default))
        .expect("a profile is plain JSON");
    text.push_str("\n`profile: strict` sets:\n\n");
    for (key, value) in strict.as_object().into_iter().flatten() {
        if default[key] != *value {
            let _ = writeln!(text, "* `{key}`: {}", code(value));
        }
    }
    let ids = code(&defaults::STRICT_IDS.to_vec().into());
    let reads = defaults::STRICT_ACCESS_COUNT_MIN;
    let _ =
        writeln!(text, "\nIt also protects the ids {ids} and what was read {reads} times or more.");
}

/// Writes the keys of rules and the built-in ones.
fn write_rules(text: &mut String, properties: &'static Map<String, Value>, builtin: &Value) {
    let _ = write!(text, "\n### rules\n\n{}\n", description(&properties["rules"]));
    let Kind::List(rule) = Shape::of(&properties["rules"]).kind else { return };
    let rule = self::properties(rule);
    write_meanings(text, "", rule.iter());
    write_meanings(text, "when", self::properties(&rule["when"]).iter());
    let then = self::properties(&rule["then"]);
    write_meanings(text, "then", then.iter());
    write_meanings(text, "then.params", self::properties(&then["params"]).iter());
    text.push_str("\nBuilt in, in this order:\n\n```yaml\nrules:\n");
    for rule in builtin.as_array().into_iter().flatten() {
        write_rule(text, rule);
    }
    text.push_str(
        "```\n\n`profile: hivemind` protects as `strict` does, turns `R1`, `R2` and `R3` off and adds:\n\n\
         ```yaml\nrules:\n",
    );
    for rule in hivemind::rules() {
        write_rule(text, &rule);
    }
    text.push_str("```\n");
}

/// Writes a rule as YAML in flow style.
fn write_rule(text: &mut String, rule: &Value) {
    let _ = writeln!(text, "  - id: {}", flow(&rule["id"]));
    if rule["enabled"] == Value::Bool(false) {
        text.push_str("    enabled: false\n");
    }
    for key in ["trigger", "when", "then"] {
        if rule[key] != Value::Object(Map::new()) {
            let _ = writeln!(text, "    {key}: {}", flow(&rule[key]));
        }
    }
}

fn write_meanings<'a>(
    text: &mut String,
    section: &str,
    keys: impl Iterator<Item = (&'a String, &'static Value)>,
) {
    let heading =
        if section.is_empty() { "key of a rule".to_owned() } else { format!("key of `{section}`") };
    let _ = writeln!(text, "\n| {heading} | meaning |\n|---|---|");
    for (key, schema) in keys {
        let _ = writeln!(text, "| `{key}` | {} |", meaning(schema));
    }
}

/// Writes the names of others that are understood.
fn write_names(text: &mut String) {
    text.push_str("\n## Names of other systems\n\n| name | here |\n|---|---|\n");
    for (alias, key) in ALIASES {
        let _ = writeln!(text, "| `{alias}` | `{key}` |");
    }
    let own = |name: &str| name.starts_with("MEMFOLD_");
    for (name, key) in environment_names().into_iter().filter(|(name, _)| !own(name)) {
        let _ = writeln!(text, "| variable `{name}` | `{key}` |");
    }
    for (name, provider) in provider_variables() {
        let _ = writeln!(
            text,
            "| variable `{name}` | `embed.url`, where `embed.provider` is `{provider}` and no layer sets it |"
        );
    }
}

fn properties(schema: &'static Value) -> &'static Map<String, Value> {
    match Shape::of(schema).kind {
        Kind::Map(properties) => properties,
        _ => panic!("only mappings have keys"),
    }
}

/// Returns a key's description in one line, and its choices.
fn meaning(schema: &'static Value) -> String {
    let mut meaning = description(schema);
    if let Kind::Choice(_) = Shape::of(schema).kind {
        meaning += &choices(schema);
    }
    meaning.replace('|', "\\|")
}

fn choices(schema: &'static Value) -> String {
    let schema = resolved(schema);
    if let Some(options) = schema["anyOf"].as_array() {
        return options.iter().map(choices).collect();
    }
    let options = schema["oneOf"].as_array().into_iter().flatten();
    let choice = |option: &'static Value| {
        let name = option["const"].as_str().unwrap_or_default();
        let meaning = description(option);
        format!("<br>`{name}`: {}", meaning.trim_end_matches('.'))
    };
    options.map(choice).collect()
}

fn description(schema: &'static Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn code(value: &Value) -> String {
    format!("`{}`", flow(value))
}

/// Writes a value as YAML in flow style.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| format!("{key}: {}", flow(value));
            format!("{{ {} }}", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if text.contains([':', '*', ' ']) => value.to_string(),
        Value::String(text) => text.clone(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::policy::config::schema::leaves;

    #[test]
    fn configuration_md_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let expected = configuration_markdown();
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, expected, "BLESS=1 writes the file anew");
    }

    #[test]
    fn every_key_has_a_meaning() {
        for (key, schema) in leaves() {
            assert!(!description(schema).is_empty(), "{key} has no meaning");
        }
    }
}
