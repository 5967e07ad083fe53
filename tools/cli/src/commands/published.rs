//! Are the published JSON Schemas those of the types that are printed?

use std::path::Path;

/// Compares a file of docs/schemas; `BLESS=1` writes it instead.
#[track_caller]
pub(crate) fn assert_published(name: &str, schema: schemars::Schema) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let path = folder.join(format!("{name}.schema.json"));
    let expected = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is old: run with BLESS=1", path.display());
}
