//! Checks a layer against the schema.

use serde_json::{Map, Value};

use super::document::{Node, NodeValue};
use super::error::ConfigError;
use super::nearest::nearest;
use super::schema::{Kind, Range, Shape, config_schema, joined, leaves};
use super::words::typed;

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
    let is_rules = matches!(Shape::of(schema).kind, Kind::Map(_));
    let mut ids: Vec<String> = Vec::new();
    let mut conformed = Vec::with_capacity(items.len());
    for item in items {
        if !is_rules {
            conformed.push(conform_node(item, schema, path)?);
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
