//! The OpenAPI 3.1 description, made of the types that requests are read into and of the published schemas of the
//! command line's documents.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::routes::{Operation, operations};
use crate::service::ProblemDocument;

/// A schema by its name.
pub(super) struct Shape {
    name: Cow<'static, str>,
    /// Adds it and its parts, where it is made of a type.
    add: fn(&mut SchemaGenerator),
}

impl Shape {
    /// A schema that is added by its name, or a content type that has none.
    pub(super) fn named(name: &'static str) -> Self {
        Self { name: name.into(), add: |_| {} }
    }

    pub(super) fn of<T: JsonSchema>() -> Self {
        let add = |generator: &mut SchemaGenerator| drop(generator.subschema_for::<T>());
        Self { name: T::schema_name(), add }
    }

    fn content(&self) -> Value {
        match self.name.contains('/') {
            true => json!({ &*self.name: {} }),
            false => json!({ "application/json": { "schema": reference(&self.name) } }),
        }
    }
}

/// Documents of the command line that requests are answered with, by their published schemas.
const PUBLISHED: [(&str, &str); 10] = [
    ("Check", include_str!("../../../../docs/schemas/check.schema.json")),
    ("Save", include_str!("../../../../docs/schemas/save.schema.json")),
    ("Search", include_str!("../../../../docs/schemas/search.schema.json")),
    ("Recall", include_str!("../../../../docs/schemas/recall.schema.json")),
    ("Flags", include_str!("../../../../docs/schemas/flags.schema.json")),
    ("FlagSettled", include_str!("../../../../docs/schemas/flags-settled.schema.json")),
    ("Status", include_str!("../../../../docs/schemas/status.schema.json")),
    ("Run", include_str!("../../../../docs/schemas/run.schema.json")),
    ("Plans", include_str!("../../../../docs/schemas/plans.schema.json")),
    ("SavedPlan", include_str!("../../../../docs/schemas/saved-plan.schema.json")),
];

/// Describes the paths.
pub(crate) fn openapi() -> Value {
    let mut paths = Map::new();
    for operation in &operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[method_of(operation)] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "memfold-server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Finds duplicate memories and merges them without losing a fact.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let in_path = operation.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
        )
    });
    let others = operation.parameters.iter().map(|name| parameter(name));
    let content = operation.answer.content();
    let mut value = json!({
        "summary": operation.summary,
        "operationId": name_of(operation),
        "parameters": in_path.chain(others).collect::<Vec<_>>(),
        "responses": {
            (operation.status.to_string()): { "description": "Done", "content": content },
            "default": {
                "description": "Why it was not done",
                "content": { "application/problem+json": { "schema": reference("ProblemDocument") } },
            },
        },
    });
    if operation.parameters.contains(&"Prefer") {
        let ended = json!({ "description": "It ended within `Prefer: wait`", "content": content });
        value["responses"]["200"] = ended;
    }
    if let Some(body) = &operation.body {
        value["requestBody"] = json!({ "content": body.content() });
    }
    value
}

fn method_of(operation: &Operation) -> String {
    operation.method.as_str().to_lowercase()
}

/// `post /v1/runs/{id}/undo` is `post_v1_runs_id_undo`.
fn name_of(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let method = method_of(operation);
    std::iter::once(&*method).chain(words).collect::<Vec<_>>().join("_")
}

fn parameter(name: &str) -> Value {
    let is_header = name.starts_with(char::is_uppercase);
    let kind = match name {
        "dry_run" | "skip_reextract" | "skip_consolidate" => {
            json!({ "type": "boolean", "default": true })
        }
        _ => json!({ "type": "string" }),
    };
    let description = match name {
        "store" => "The store; by default the first one",
        "user_id" => "Whose memories",
        "skip_reextract" => "Nothing is ever extracted anew",
        "skip_consolidate" => "Let no model write memories anew",
        "dry_run" => "Write nothing",
        "Idempotency-Key" => "A name for the save: sent again it is answered as before, for a day",
        "If-Match" => "The digest of the plan, its ETag",
        "Prefer" => "wait=SECONDS: answer when the job has ended, if it does within that time",
        _ => "The last event that was seen",
    };
    let place = if is_header { "header" } else { "query" };
    json!({ "name": name, "in": place, "description": description, "schema": kind })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The schemas by name.
fn schemas() -> Value {
    let mut all = Map::new();
    for (name, text) in PUBLISHED {
        let schema: Value = serde_json::from_str(text).unwrap_or_default();
        published(&mut all, name, schema);
    }
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut read = settings.clone().into_generator();
    let mut written = settings.for_serialize().into_generator();
    for operation in &operations() {
        operation.body.iter().for_each(|body| (body.add)(&mut read));
        (operation.answer.add)(&mut written);
    }
    (Shape::of::<ProblemDocument>().add)(&mut written);
    for mut generator in [read, written] {
        for (name, schema) in generator.take_definitions(true) {
            let mut schema = Schema::try_from(schema).unwrap_or_default();
            without_rustdoc(&mut schema);
            all.entry(name).or_insert_with(|| schema.to_value());
        }
    }
    let text = include_str!("../../../../docs/schemas/runs.schema.json");
    published(&mut all, "RunsOfStore", serde_json::from_str(text).unwrap_or_default());
    let jobs = json!({ "type": "object", "required": ["jobs"], "properties": {
        "jobs": { "type": "array", "items": reference("JobDocument") },
    } });
    all.insert("Runs".to_owned(), json!({ "allOf": [reference("RunsOfStore"), jobs] }));
    let either = [reference("JobDocument"), reference("Run")];
    all.insert("RunOrJob".to_owned(), json!({ "anyOf": either }));
    let status = json!({ "type": "object", "required": ["status"],
                         "properties": { "status": { "type": "string" } } });
    all.insert("Health".to_owned(), status);
    all.sort_keys();
    Value::Object(all)
}

/// Adds a published schema; its further definitions become `Name.Part`.
fn published(all: &mut Map<String, Value>, name: &str, mut schema: Value) {
    let parts = schema.as_object_mut().map(|schema| {
        schema.remove("$schema");
        schema.remove("$defs")
    });
    let renamed = |value: &mut Value| renamed(value, name);
    renamed(&mut schema);
    if let Some(Some(Value::Object(parts))) = parts {
        for (part, mut schema) in parts {
            renamed(&mut schema);
            all.insert(format!("{name}.{part}"), schema);
        }
    }
    all.insert(name.to_owned(), schema);
}

fn renamed(value: &mut Value, name: &str) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == "$ref" => {
                        if let Some(part) = text.strip_prefix("#/$defs/") {
                            *text = format!("#/components/schemas/{name}.{part}");
                        }
                    }
                    value => renamed(value, name),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| renamed(item, name)),
        _ => {}
    }
}

/// Descriptions are doc comments; their links mean nothing here.
fn without_rustdoc(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
    transform_subschemas(&mut without_rustdoc, schema);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50);
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("references stay within");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
