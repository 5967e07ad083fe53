//! The JSON Schema of the configuration, and layers checked against it.

use std::sync::LazyLock;

use serde_json::{Map, Number, Value, json};

use super::document::{Node, NodeValue, Source, read_words};
use super::error::ConfigError;
use super::keys::Config;
use super::layers::successor;

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
        Kind::List(_) if path == "rules" => {}
        _ => found.push((path.to_owned(), schema)),
    }
}

/// Appends a key to a path.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Checks every key and value of a layer, and gives words their types.
///
/// # Errors
///
/// The first unknown key, or value of another type or outside its range.
pub(super) fn conform(layer: Node) -> Result<Node, ConfigError> {
    conform_node(layer, config_schema(), "")
}

fn conform_node(node: Node, schema: &'static Value, path: &str) -> Result<Node, ConfigError> {
    let shape = Shape::of(schema);
    let Node { mut value, source } = node;
    if let NodeValue::Words(words) = &value {
        value = typed(words, &shape, &source)?;
    }
    let fits = match (&shape.kind, &value) {
        (_, NodeValue::Null) => shape.nullable,
        (Kind::Bool, NodeValue::Bool(_)) | (Kind::Text, NodeValue::Text(_)) => true,
        (Kind::Choice(choices), NodeValue::Text(text)) => choices.contains(&text.as_str()),
        (Kind::Number(range), NodeValue::Number(number)) => fits_range(number, range),
        (Kind::Map(_), NodeValue::Map(_)) | (Kind::List(_), NodeValue::List(_)) => true,
        _ => false,
    };
    if !fits {
        return Err(wrong_value(&Node { value, source }, &shape, path));
    }
    let value = match (&shape.kind, value) {
        (Kind::Map(properties), NodeValue::Map(entries)) => {
            NodeValue::Map(conform_entries(entries, properties, path)?)
        }
        (Kind::List(schema), NodeValue::List(items)) => {
            NodeValue::List(conform_items(items, schema, path)?)
        }
        (_, plain) => plain,
    };
    Ok(Node { value, source })
}

fn conform_entries(
    entries: Vec<(String, Node)>,
    properties: &'static Map<String, Value>,
    path: &str,
) -> Result<Vec<(String, Node)>, ConfigError> {
    let entry = |(key, node): (String, Node)| {
        let path = joined(path, &key);
        match properties.get(&key) {
            Some(schema) => Ok((key, conform_node(node, schema, &path)?)),
            None => Err(ConfigError::UnknownKey {
                suggestion: suggestion(&key, &path, properties),
                successor: successor(&path),
                key: path.into(),
                place: node.source,
            }),
        }
    };
    entries.into_iter().map(entry).collect()
}

fn conform_items(
    items: Vec<Node>,
    schema: &'static Value,
    path: &str,
) -> Result<Vec<Node>, ConfigError> {
    let are_maps = matches!(Shape::of(schema).kind, Kind::Map(_));
    let mut ids: Vec<String> = Vec::new();
    let mut conformed = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        if path != "rules" {
            let path = if are_maps { joined(path, &at.to_string()) } else { path.to_owned() };
            conformed.push(conform_node(item, schema, &path)?);
            continue;
        }
        let id = item.id().unwrap_or("?").to_owned();
        let rule = conform_node(item, schema, &joined(path, &id))?;
        check_rule_id(&rule, &ids)?;
        ids.push(id);
        conformed.push(rule);
    }
    Ok(conformed)
}

fn check_rule_id(rule: &Node, before: &[String]) -> Result<(), ConfigError> {
    let place = rule.source.clone();
    let Some(id) = rule.id() else { return Err(ConfigError::RuleWithoutId { place }) };
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    if id.is_empty() || !id.chars().all(is_plain) {
        return Err(ConfigError::BadRuleId { id: id.into(), place });
    }
    if before.iter().any(|other| other == id) {
        return Err(ConfigError::RepeatedRule { id: id.into(), place });
    }
    Ok(())
}

fn fits_range(number: &serde_json::Number, range: &Range) -> bool {
    // Whole numbers stay within i64, so that every integer type of the configuration can take them.
    let is_whole = number.as_i64().is_some();
    (!range.whole || is_whole) && number.as_f64().is_some_and(|float| range.contains(float))
}

fn wrong_value(node: &Node, shape: &Shape, path: &str) -> ConfigError {
    let advice = match (&shape.kind, &node.value) {
        (Kind::Choice(choices), NodeValue::Text(text)) => {
            nearest(text, choices.iter().copied()).map(|choice| format!("did you mean {choice}?"))
        }
        (Kind::Number(_), NodeValue::Text(text)) if text.parse::<f64>().is_ok() => {
            Some("write the number without quotes".to_owned())
        }
        (Kind::Text, NodeValue::Number(_) | NodeValue::Bool(_)) => {
            Some("put it in quotes".to_owned())
        }
        (Kind::List(_), NodeValue::Text(_)) => Some("write it as a list: [ … ]".to_owned()),
        _ => Some(format!("docs/configuration.md tells what `{path}` means")),
    };
    ConfigError::WrongValue {
        key: path.into(),
        place: node.source.clone(),
        expected: shape.expected().into(),
        found: node.described().into(),
        advice: advice.map(Into::into),
    }
}

/// Finds the key that was meant: a neighbour spelled alike, else a key of that name elsewhere.
fn suggestion(key: &str, path: &str, properties: &Map<String, Value>) -> Option<Box<str>> {
    let parent = path.strip_suffix(key).unwrap_or_default();
    let neighbour = nearest(key, properties.keys().map(String::as_str));
    neighbour.map(|neighbour| format!("{parent}{neighbour}").into()).or_else(|| {
        let known = leaves();
        let same_name = |name: &&str| name.rsplit('.').next() == Some(key);
        known.iter().map(|(name, _)| name.as_str()).find(same_name).map(Into::into)
    })
}

/// Words for true.
const TRUE: &[&str] = &["1", "true", "yes", "on", "enabled"];
/// Words for false.
const FALSE: &[&str] = &["0", "false", "no", "off", "disabled"];

/// Gives words the type that the schema wants; words that have none of it stay words.
pub(super) fn typed(words: &str, shape: &Shape, source: &Source) -> Result<NodeValue, ConfigError> {
    let lower = words.to_lowercase();
    let stays = || NodeValue::Words(words.to_owned());
    if shape.nullable && ["", "null", "none", "~"].contains(&lower.as_str()) {
        return Ok(NodeValue::Null);
    }
    Ok(match &shape.kind {
        Kind::Bool if TRUE.contains(&lower.as_str()) => NodeValue::Bool(true),
        Kind::Bool if FALSE.contains(&lower.as_str()) => NodeValue::Bool(false),
        Kind::Bool => stays(),
        Kind::Text | Kind::Choice(_) => NodeValue::Text(words.to_owned()),
        Kind::Number(_) => number(words).map_or_else(stays, NodeValue::Number),
        Kind::List(items) if !words.starts_with('[') => match Shape::of(items).kind {
            Kind::Map(_) => stays(),
            _ => NodeValue::List(listed(words, source)),
        },
        Kind::List(_) | Kind::Map(_) => read_words(words, source)?.value,
    })
}

fn number(words: &str) -> Option<Number> {
    let whole = words.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| words.parse::<f64>().ok().and_then(Number::from_f64))
}

/// Splits at commas.
fn listed(words: &str, source: &Source) -> Vec<Node> {
    let texts = words.split(',').map(str::trim).filter(|text| !text.is_empty());
    let node = |text: &str| Node { value: NodeValue::Text(text.into()), source: source.clone() };
    texts.map(node).collect()
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
