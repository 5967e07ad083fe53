//! The JSON Schema and docs/configuration.md, generated from the types of the configuration.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::config::{Config, HIVEMIND, Profile, ProtectionPolicy};
use super::layers::joined;
use super::names::{ALIASES, builtin, environment_names, plain_keys, provider_variables};

/// Returns the JSON Schema of the types.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    schema["title"] = "memfold configuration".into();
    // A layer may name a rule of the layers below and change one key of it.
    for (name, keys, required) in [
        ("RuleConfig", &["id", "trigger", "then"][..], json!(["id"])),
        ("ThenConfig", &["action"], json!([])),
    ] {
        let definition = &mut schema["$defs"][name];
        definition["required"] = required;
        for key in keys {
            definition["properties"][key].as_object_mut().map(|keys| keys.shift_remove("default"));
        }
    }
    schema
}

/// Returns docs/configuration.md: every key with its meaning and its default.
fn configuration_markdown() -> String {
    let (schema, builtin) = (schema(), builtin().json());
    let pages = Pages { schema: &schema };
    let properties = pages.properties(&schema);
    let keys = properties.iter().filter(|(key, _)| *key != "rules");
    let (sections, plain): (Vec<_>, Vec<_>) =
        keys.partition(|(_, schema)| pages.resolved(schema)["properties"].is_object());
    let mut text = include_str!("configuration_head.md").to_owned();
    text += &pages.defaults("", plain, &builtin);
    for (section, schema) in sections {
        let _ = write!(text, "\n### {section}\n\n{}\n", description(schema));
        text += &pages.defaults(section, pages.properties(schema), &builtin[section]);
        if section == "protection" {
            text += &strict();
        }
    }
    let _ = write!(text, "\n### rules\n\n{}\n", description(&properties["rules"]));
    let rule = pages.properties(&properties["rules"]["items"]);
    let then = pages.properties(&rule["then"]);
    text += &pages.meanings("a rule", rule);
    text += &pages.meanings("`when`", pages.properties(&rule["when"]));
    text += &pages.meanings("`then`", then);
    text += &pages.meanings("`then.params`", pages.properties(&then["params"]));
    let _ = write!(text, "\nBuilt in, in this order:\n\n{}", rules(&builtin["rules"]));
    let mut hivemind: Value = serde_json::from_str(HIVEMIND).expect("the profile is JSON");
    let added = hivemind["rules"].as_array_mut().unwrap();
    added.retain(|rule| rule.get("enabled").is_none());
    text += "\n`profile: hivemind` protects as `strict` does, turns `R1`, `R2` and `R3` off and adds:\n\n";
    text + &rules(&hivemind["rules"]) + &names()
}

/// Writes pages from a schema.
#[derive(Clone, Copy)]
struct Pages<'a> {
    schema: &'a Value,
}

impl<'a> Pages<'a> {
    /// Follows a reference.
    fn resolved(self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        reference.and_then(|path| self.schema.pointer(&path[1..])).unwrap_or(schema)
    }

    fn properties(self, schema: &'a Value) -> &'a Map<String, Value> {
        self.resolved(schema)["properties"].as_object().expect("only mappings have keys")
    }

    /// Writes a table of keys with their defaults.
    fn defaults(
        self,
        section: &str,
        keys: impl IntoIterator<Item = (&'a String, &'a Value)>,
        builtin: &Value,
    ) -> String {
        let row = |(key, schema): (&String, &'a Value)| {
            let (path, value) = (joined(section, key), flow(&builtin[key]));
            format!("| `{path}` | `{value}` | {} |\n", self.meaning(schema))
        };
        let rows: String = keys.into_iter().map(row).collect();
        format!("\n| key | default | meaning |\n|---|---|---|\n{rows}")
    }

    /// Writes a table of the keys of a rule.
    fn meanings(self, of: &str, keys: &'a Map<String, Value>) -> String {
        let row = |(key, schema)| format!("| `{key}` | {} |\n", self.meaning(schema));
        let rows: String = keys.iter().map(row).collect();
        format!("\n| key of {of} | meaning |\n|---|---|\n{rows}")
    }

    /// Returns a key's description in one line, and its choices.
    fn meaning(self, schema: &'a Value) -> String {
        (description(schema) + &self.choices(schema)).replace('|', "\\|")
    }

    fn choices(self, schema: &'a Value) -> String {
        let schema = self.resolved(schema);
        let list = |key: &str| schema[key].as_array().into_iter().flatten();
        let choice = |option: &Value| {
            let name = option["const"].as_str().unwrap_or_default();
            format!("<br>`{name}`: {}", description(option).trim_end_matches('.'))
        };
        let inner: String = list("anyOf").map(|option| self.choices(option)).collect();
        inner + &list("oneOf").map(choice).collect::<String>()
    }
}

/// Writes the additions of the strict profile.
fn strict() -> String {
    let protection = |profile| serde_json::to_value(ProtectionPolicy::of(profile)).unwrap();
    let (strict, default) = (protection(Profile::Strict), protection(Profile::Default));
    let set =
        strict.as_object().into_iter().flatten().filter(|(key, value)| default[key] != **value);
    let set: String = set.map(|(key, value)| format!("* `{key}`: `{}`\n", flow(value))).collect();
    let strict = ProtectionPolicy::of(Profile::Strict);
    let (ids, reads) = (flow(&strict.ids.into()), strict.access_count_min.unwrap());
    format!(
        "\n`profile: strict` sets:\n\n{set}\n\
         It also protects the ids `{ids}` and what was read {reads} times or more.\n"
    )
}

/// Writes rules as YAML in flow style.
fn rules(rules: &Value) -> String {
    let mut text = "```yaml\nrules:\n".to_owned();
    for rule in rules.as_array().into_iter().flatten() {
        let _ = writeln!(text, "  - id: {}", flow(&rule["id"]));
        if rule["enabled"] == Value::Bool(false) {
            text += "    enabled: false\n";
        }
        for key in ["trigger", "when", "then"].iter().filter(|key| rule[key] != json!({})) {
            let _ = writeln!(text, "    {key}: {}", flow(&rule[key]));
        }
    }
    text + "```\n"
}

/// Writes the names of others that are understood.
fn names() -> String {
    let mut text = "\n## Names of other systems\n\n| name | here |\n|---|---|\n".to_owned();
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
    text
}

fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
        Value::String(text) if !text.contains([':', '*', ' ']) => text.clone(),
        _ => value.to_string(),
    }
}

/// Compares a made text with the file that holds it; `BLESS=1` writes the file anew.
fn assert_current(file: &str, made: &str, is_current: impl Fn(&str) -> bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let is_current = is_current(&std::fs::read_to_string(&path).unwrap_or_default());
    if !is_current && std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, made).unwrap();
    }
    assert!(is_current, "{file} is not current; BLESS=1 writes it anew:\n{made}");
}

#[test]
fn configuration_md_is_what_the_code_says() {
    let made = configuration_markdown();
    assert_current("../../docs/configuration.md", &made, |found| found == made);
}

#[test]
fn the_schema_is_that_of_the_types() {
    /// Bounds are the same as whole and as other numbers.
    fn plain(value: &Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(items) => items.iter().map(plain).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), plain(value))).collect()
            }
            other => other.clone(),
        }
    }
    let made = schema();
    assert_current("src/policy/schema.json", &format!("{made:#}\n"), |found| {
        serde_json::from_str(found).is_ok_and(|found: Value| plain(&found) == plain(&made))
    });
}

#[test]
fn every_mapping_is_closed_and_every_key_has_a_meaning() {
    fn visit(schema: &Value, path: &str, keys: &mut Vec<String>) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            assert_eq!(schema["additionalProperties"], json!(false), "{path}");
            assert!(!description(inner).is_empty(), "{path}.{key} has no description");
            keys.push(key.clone());
        }
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            visit(definition, name, keys);
        }
    }
    let (schema, mut keys) = (schema(), Vec::new());
    visit(&schema, "", &mut keys);
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in plain_keys() {
        let last = key.rsplit('.').next().unwrap();
        assert!(keys.iter().any(|key| key == last), "{key} is not in the schema");
    }
    assert!(plain_keys().len() <= 70, "{}", plain_keys().len());
}
