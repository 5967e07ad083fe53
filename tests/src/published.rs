//! Schemas of the output of `--json`.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Asserts that a file of docs/schemas is the schema of a type; `BLESS=1` writes it instead. Fields
/// that are always printed are required.
#[track_caller]
pub fn assert_published<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(schemars::transform::RecursiveTransform(without_rustdoc));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas");
    let path = folder.join(format!("{name}.schema.json"));
    let expected = format!("{:#}\n", schema.to_value());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).expect("docs/schemas can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is old: run with BLESS=1", path.display());
}

/// Descriptions are doc comments; their links and escapes mean nothing in a schema.
fn without_rustdoc(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let links = text.replace("[`", "`").replace("`]", "`");
        *text = links.replace("\\[", "[").replace("\\]", "]");
    }
}
