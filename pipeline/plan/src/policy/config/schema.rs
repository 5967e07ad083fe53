//! The JSON Schema of the configuration, and what it says of a key.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::keys::Config;

/// The schema, made once.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = schemars::schema_for!(Config).to_value();
    schema["title"] = "memfold configuration".into();
    // A layer may name a rule of the layers below and change one key of it.
    schema["$defs"]["RuleConfig"]["required"] = json!(["id"]);
    schema["$defs"]["ThenConfig"]["required"] = json!([]);
    schema
});

/// Returns the JSON Schema (draft 2020-12) of a configuration file.
#[must_use]
pub fn config_schema() -> &'static Value {
    &SCHEMA
}

/// What a key holds.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) nullable: bool,
}

/// The kinds of values.
#[derive(Debug)]
pub(super) enum Kind {
    Map(&'static Map<String, Value>),
    List(&'static Value),
    Choice(Vec<&'static str>),
    Bool,
    Text,
    Number(Range),
}

/// Which numbers are allowed.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) whole: bool,
    pub(super) min: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) max: Option<f64>,
}

impl Shape {
    /// Reads a schema.
    pub(super) fn of(schema: &'static Value) -> Self {
        let schema = resolved(schema);
        if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
            let is_null = |option: &Value| option["type"] == "null";
            let other = options.iter().find(|option| !is_null(option));
            let other = other.expect("an optional key has a type of its own");
            return Self { nullable: options.iter().any(is_null), ..Self::of(other) };
        }
        if let Some(options) = schema.get("oneOf").and_then(Value::as_array) {
            let choices = options.iter().filter_map(|option| option["const"].as_str()).collect();
            return Self { kind: Kind::Choice(choices), nullable: false };
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let nullable = types.contains(&"null");
        Self { kind: Kind::of(schema, types.first().copied().unwrap_or_default()), nullable }
    }

    /// Returns what is expected, in words.
    pub(super) fn expected(&self) -> String {
        let kind = match &self.kind {
            Kind::Map(_) => "keys and values".to_owned(),
            Kind::List(items) if matches!(Self::of(items).kind, Kind::Map(_)) => {
                "a list of rules".to_owned()
            }
            Kind::List(_) => "a list of texts".to_owned(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
            Kind::Bool => "true or false".to_owned(),
            Kind::Text => "a text".to_owned(),
            Kind::Number(range) => range.expected(),
        };
        if self.nullable { format!("{kind}, or null") } else { kind }
    }
}

impl Kind {
    fn of(schema: &'static Value, name: &str) -> Self {
        match name {
            "object" => {
                Self::Map(schema["properties"].as_object().expect("every mapping lists its keys"))
            }
            "array" => Self::List(&schema["items"]),
            "boolean" => Self::Bool,
            "number" | "integer" => Self::Number(Range {
                whole: name == "integer",
                min: schema["minimum"].as_f64(),
                above: schema["exclusiveMinimum"].as_f64(),
                max: schema["maximum"].as_f64(),
            }),
            _ => Self::Text,
        }
    }
}

impl Range {
    /// Returns whether a number is allowed.
    pub(super) fn contains(&self, number: f64) -> bool {
        self.min.is_none_or(|min| number >= min)
            && self.above.is_none_or(|above| number > above)
            && self.max.is_none_or(|max| number <= max)
    }

    fn expected(&self) -> String {
        let number = if self.whole { "a whole number" } else { "a number" };
        match (self.min, self.above, self.max) {
            (Some(min), _, Some(max)) => format!("{number} from {min} to {max}"),
            (Some(min), _, None) => format!("{number} of at least {min}"),
            (_, Some(above), Some(max)) => format!("{number} above {above} and at most {max}"),
            (_, _, Some(max)) => format!("{number} of at most {max}"),
            _ => number.to_owned(),
        }
    }
}

/// Follows a reference.
pub(super) fn resolved(schema: &'static Value) -> &'static Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    match reference.and_then(|reference| config_schema().pointer(&reference[1..])) {
        Some(definition) => definition,
        None => schema,
    }
}

/// Returns every key with a plain value or a list of texts, by path, in the order of the schema;
/// the keys of rules are left out.
pub(super) fn leaves() -> Vec<(String, &'static Value)> {
    let mut found = Vec::new();
    collect_leaves(config_schema(), "", &mut found);
    found
}

fn collect_leaves(schema: &'static Value, path: &str, found: &mut Vec<(String, &'static Value)>) {
    match Shape::of(schema).kind {
        Kind::Map(properties) => {
            for (key, inner) in properties {
                collect_leaves(inner, &joined(path, key), found);
            }
        }
        Kind::List(items) if matches!(Shape::of(items).kind, Kind::Map(_)) => {}
        _ => found.push((path.to_owned(), schema)),
    }
}

/// Appends a key to a path.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
