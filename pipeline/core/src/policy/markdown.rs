//! The JSON Schema and docs/configuration.md, generated from the types of the configuration.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::config::{Config, Profile, ProtectionPolicy};
use super::defaults;
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

const INTRODUCTION: &str = include_str!("configuration_head.md");

/// Returns docs/configuration.md: every key with its meaning and its default.
fn configuration_markdown() -> String {
    let mut text = INTRODUCTION.to_owned();
    let (schema, defaults) = (schema(), builtin());
    let pages = Pages { schema: &schema };
    let properties = pages.properties(&schema);
    let is_section = |schema: &Value| pages.resolved(schema)["properties"].is_object();
    let plain = properties.iter().filter(|(key, schema)| !is_section(schema) && *key != "rules");
    pages.write_table(&mut text, "", plain, &defaults);
    for (section, schema) in properties.iter().filter(|(_, schema)| is_section(schema)) {
        let _ = write!(text, "\n### {section}\n\n{}\n", description(schema));
        pages.write_table(&mut text, section, pages.properties(schema).iter(), &defaults[section]);
        if section == "protection" {
            write_strict(&mut text);
        }
    }
    pages.write_rules(&mut text, properties, &defaults["rules"]);
    write_names(&mut text);
    text
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
    fn write_table(
        self,
        text: &mut String,
        section: &str,
        keys: impl Iterator<Item = (&'a String, &'a Value)>,
        defaults: &Value,
    ) {
        text.push_str("\n| key | default | meaning |\n|---|---|---|\n");
        for (key, schema) in keys {
            let path = joined(section, key);
            let meaning = self.meaning(schema);
            let _ = writeln!(text, "| `{path}` | {} | {meaning} |", code(&defaults[key]));
        }
    }

    /// Writes the keys of rules and the built-in ones.
    fn write_rules(self, text: &mut String, properties: &'a Map<String, Value>, builtin: &Value) {
        let _ = write!(text, "\n### rules\n\n{}\n", description(&properties["rules"]));
        let rule = self.properties(&properties["rules"]["items"]);
        self.write_meanings(text, "", rule.iter());
        self.write_meanings(text, "when", self.properties(&rule["when"]).iter());
        let then = self.properties(&rule["then"]);
        self.write_meanings(text, "then", then.iter());
        self.write_meanings(text, "then.params", self.properties(&then["params"]).iter());
        text.push_str("\nBuilt in, in this order:\n\n```yaml\nrules:\n");
        for rule in builtin.as_array().into_iter().flatten() {
            write_rule(text, rule);
        }
        text.push_str(
        "```\n\n`profile: hivemind` protects as `strict` does, turns `R1`, `R2` and `R3` off and adds:\n\n\
         ```yaml\nrules:\n",
    );
        let hivemind: Value =
            serde_json::from_str(defaults::HIVEMIND).expect("the profile is JSON");
        let adds = |rule: &&Value| rule.get("enabled").is_none();
        for rule in hivemind["rules"].as_array().into_iter().flatten().filter(adds) {
            write_rule(text, rule);
        }
        text.push_str("```\n");
    }

    fn write_meanings(
        self,
        text: &mut String,
        section: &str,
        keys: impl Iterator<Item = (&'a String, &'a Value)>,
    ) {
        let heading = if section.is_empty() {
            "key of a rule".to_owned()
        } else {
            format!("key of `{section}`")
        };
        let _ = writeln!(text, "\n| {heading} | meaning |\n|---|---|");
        for (key, schema) in keys {
            let _ = writeln!(text, "| `{key}` | {} |", self.meaning(schema));
        }
    }

    /// Returns a key's description in one line, and its choices.
    fn meaning(self, schema: &'a Value) -> String {
        let meaning = description(schema) + &self.choices(schema);
        meaning.replace('|', "\\|")
    }

    fn choices(self, schema: &'a Value) -> String {
        let schema = self.resolved(schema);
        if let Some(options) = schema["anyOf"].as_array() {
            return options.iter().map(|option| self.choices(option)).collect();
        }
        let options = schema["oneOf"].as_array().into_iter().flatten();
        let choice = |option: &'a Value| {
            let name = option["const"].as_str().unwrap_or_default();
            let meaning = description(option);
            format!("<br>`{name}`: {}", meaning.trim_end_matches('.'))
        };
        options.map(choice).collect()
    }
}

/// Writes what the strict profile adds.
fn write_strict(text: &mut String) {
    let strict = serde_json::to_value(ProtectionPolicy::of(Profile::Strict))
        .expect("a profile is plain JSON");
    let default = serde_json::to_value(ProtectionPolicy::of(Profile::Default))
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

fn description(schema: &Value) -> String {
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
