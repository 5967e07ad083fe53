//! A validator for the published JSON Schemas, stricter than they are: no field that a schema does not name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Documents with lists are cut to this many items before they are damaged.
const ITEMS_MAX: usize = 2;

/// Parts that users define: anything fits there.
const FREE: [&str; 3] = ["/merged", "/overrides", "/value"];

/// Where the schemas are published.
pub(crate) fn folder() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap().join("docs/schemas")
}

/// A published schema, restricted to the keywords of JSON Schema that our schemas use.
pub(crate) struct Schema {
    pub(crate) root: Value,
}

/// Asserts that a document fits a published schema.
#[track_caller]
pub(crate) fn assert_fits(name: &str, document: &Value) {
    if let Err(misfit) = Schema::published(name).check(document) {
        panic!("{name}: {misfit}\n{document:#}");
    }
}

impl Schema {
    pub(crate) fn published(name: &str) -> Self {
        let text = std::fs::read_to_string(folder().join(format!("{name}.schema.json")));
        Self { root: serde_json::from_str(&text.unwrap()).unwrap() }
    }

    /// The fields that are always there.
    pub(crate) fn required(&self) -> BTreeSet<&str> {
        self.root["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect()
    }

    /// Returns the first mismatch and its place.
    pub(crate) fn check(&self, document: &Value) -> Result<(), String> {
        self.check_at(&self.root, document, "")
    }

    fn check_at(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(words) = schema.as_object() else {
            return if schema == true { Ok(()) } else { Err(format!("nothing fits at {at}")) };
        };
        words.iter().try_for_each(|(word, said)| self.check_word(word, said, value, at))?;
        match value {
            Value::Object(fields) => self.check_fields(words, fields, at),
            _ => Ok(()),
        }
    }

    fn check_word(&self, word: &str, said: &Value, value: &Value, at: &str) -> Result<(), String> {
        let fit = |options: &Value| {
            let fits = |option: &&Value| self.check_at(option, value, at).is_ok();
            options.as_array().unwrap().iter().filter(fits).count()
        };
        let fits = match word {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
            // These need all fields at once.
            "properties" | "required" | "additionalProperties" => true,
            "$ref" => {
                let target = self.root.pointer(&said.as_str().unwrap()[1..]).unwrap();
                return self.check_at(target, value, at);
            }
            "anyOf" => fit(said) > 0,
            "oneOf" => fit(said) == 1,
            "const" => said == value,
            "enum" => said.as_array().unwrap().contains(value),
            "type" => match said {
                Value::Array(names) => names.iter().any(|name| is(name, value)),
                name => is(name, value),
            },
            "minimum" => value.as_f64().is_none_or(|found| Some(found) >= said.as_f64()),
            "minItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) >= said.as_u64())
            }
            "maxItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) <= said.as_u64())
            }
            "items" => {
                return value.as_array().into_iter().flatten().enumerate().try_for_each(
                    |(place, item)| self.check_at(said, item, &format!("{at}/{place}")),
                );
            }
            other => panic!("the validator does not know {other}"),
        };
        if fits { Ok(()) } else { Err(format!("{value} at {at:?} is not {word} {said}")) }
    }

    fn check_fields(
        &self,
        words: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        let mut required = words.get("required").and_then(Value::as_array).into_iter().flatten();
        if let Some(name) = required.find(|name| !fields.contains_key(name.as_str().unwrap())) {
            return Err(format!("no {name} at {at:?}"));
        }
        // A schema without any fields leaves them to the schemas that it names, or allows all.
        if !words.contains_key("type") && !words.contains_key("properties") {
            return Ok(());
        }
        fields.iter().try_for_each(|(name, value)| {
            let named = words.get("properties").and_then(|properties| properties.get(name));
            match named.or(words.get("additionalProperties")) {
                Some(schema) => self.check_at(schema, value, &format!("{at}/{name}")),
                None => Err(format!("undocumented {name:?} at {at:?}")),
            }
        })
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

/// Which command prints which documents, as the index page says: `| program command | [name](name.schema.json), … |`.
pub(crate) fn index(program: &str) -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let begin = format!("| `{program} ");
    let rows = page.lines().filter_map(|line| line.strip_prefix(&begin));
    let row = |line: &str| {
        let (command, rest) = line.split_once('`').unwrap();
        let links = rest.split("](").skip(1).map(|link| link.split(')').next().unwrap());
        let names = links.map(|link| link.strip_suffix(".schema.json").unwrap().to_owned());
        (command.to_owned(), names.collect())
    };
    rows.map(row).collect()
}

/// Asserts that a document fits a published schema, and that it would not if it were spoilt.
#[track_caller]
pub(crate) fn assert_right(name: &str, document: &Value) {
    let schema = Schema::published(name);
    if let Err(misfit) = schema.check(document) {
        panic!("{name}: {misfit}\n{document:#}");
    }
    assert_eq!(document["schema_version"], 1, "{name}");
    assert_refuses_wrong_ones(name, &schema, document);
}

/// Spoils a document in every place where it can be.
fn assert_refuses_wrong_ones(name: &str, schema: &Schema, document: &Value) {
    let mut short = document.clone();
    shorten(&mut short);
    assert_eq!(schema.check(&short), Ok(()), "{name}");
    for field in schema.required() {
        let mut lacking = short.clone();
        lacking.as_object_mut().unwrap().remove(field);
        assert!(schema.check(&lacking).is_err(), "{name} without {field} fits");
    }
    let mut places = vec![String::new()];
    pointers(&short, "", &mut places);
    for place in places {
        if FREE.iter().any(|free| place.contains(free)) {
            continue;
        }
        let mut spoilt = short.clone();
        match spoilt.pointer_mut(&place).unwrap() {
            Value::Object(fields) => {
                fields.insert("undocumented".to_owned(), Value::Array(vec![Value::Null]));
            }
            other => *other = serde_json::json!({ "undocumented": true }),
        }
        assert!(schema.check(&spoilt).is_err(), "{name} fits though spoilt at {place:?}");
    }
}

/// Leaves the first items of every list.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(ITEMS_MAX);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Collects where the values of a document are.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |name: String, value: &Value| {
        let place = format!("{at}/{name}");
        found.push(place.clone());
        pointers(value, &place, found);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| below(at.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            below(name.replace('~', "~0").replace('/', "~1"), value);
        }),
        _ => {}
    }
}
