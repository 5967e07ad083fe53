//! The published schema says what the loader does.

use serde_json::{Value, json};

use super::super::config_schema;
use super::*;

/// A validator of the few words of JSON Schema that the published one uses.
fn accepts(schema: &Value, value: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        return accepts(config_schema().pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(options) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return options.iter().any(|option| accepts(option, value));
    }
    if let Some(constant) = schema.get("const") {
        return constant == value;
    }
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    let types = &schema["type"];
    let typed = types.as_array().map_or_else(|| is(types), |types| types.iter().any(is));
    let within = value.as_f64().is_none_or(|number| {
        schema["minimum"].as_f64().is_none_or(|min| number >= min)
            && schema["maximum"].as_f64().is_none_or(|max| number <= max)
            && schema["exclusiveMinimum"].as_f64().is_none_or(|above| number > above)
    });
    let items = value
        .as_array()
        .is_none_or(|items| items.iter().all(|item| accepts(&schema["items"], item)));
    let keys = value.as_object().is_none_or(|map| {
        let required = schema["required"].as_array().into_iter().flatten();
        map.iter().all(|(key, value)| {
            schema["properties"].get(key).is_some_and(|schema| accepts(schema, value))
        }) && required.into_iter().all(|key| map.contains_key(key.as_str().unwrap()))
    });
    typed && within && items && keys
}

#[test]
fn the_schema_closes_every_mapping_and_explains_every_key() {
    fn visit(schema: &Value, path: &str) {
        if let Some(properties) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], json!(false), "{path}");
            for (key, inner) in properties {
                assert!(inner["description"].is_string(), "{path}.{key} has no description");
                visit(inner, &format!("{path}.{key}"));
            }
        }
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            visit(definition, name);
        }
    }
    visit(config_schema(), "");
    assert_eq!(config_schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(config_schema()["title"], "memfold configuration");
}

#[test]
fn the_built_in_configuration_fits_the_schema() {
    let merged = ConfigLoader::new().load().unwrap().merged();
    assert!(accepts(config_schema(), &merged));
    let defaults = &config_schema()["properties"]["guard"]["default"];
    assert_eq!(*defaults, merged["guard"]);
}

#[test]
fn schema_and_loader_agree() {
    for (text, fits) in [
        (r#"{"threshold": 0.9}"#, true),
        (r#"{"threshold": null}"#, true),
        (r#"{"threshold": 1.1}"#, false),
        (r#"{"threshold": "0.9"}"#, false),
        (r#"{"cluster": {"linkage": "single"}}"#, true),
        (r#"{"cluster": {"linkage": "double"}}"#, false),
        (r#"{"judge": {"votes": 6}}"#, false),
        (r#"{"judge": {"golden": 2}}"#, false),
        (r#"{"judge": {"votes": 1}}"#, true),
        (r#"{"trigger": "weekly"}"#, true),
        (r#"{"trigger": null}"#, true),
        (r#"{"trigger": "hourly"}"#, false),
        (r#"{"guard": {"enabled": 1}}"#, false),
        (r#"{"judge": {"votes": 0}}"#, false),
        (r#"{"unknown": 1}"#, false),
        (r#"{"rules": [{"id": "a", "trigger": "daily", "then": {"action": "noop"}}]}"#, true),
        (r#"{"rules": [{"id": "a", "trigger": "daily", "then": {"action": "delete"}}]}"#, false),
        (r#"{"rules": [{"id": "R4-archive-low-utility", "enabled": false}]}"#, true),
        (r#"{"rules": [{"id": "R4-archive-low-utility", "then": {"params": {}}}]}"#, true),
        (r#"{"rules": [{"trigger": "daily", "then": {"action": "noop"}}]}"#, false),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(accepts(config_schema(), &value), fits, "{text} by the schema");
        assert_eq!(load(text).is_ok(), fits, "{text} by the loader");
    }
}
