//! The published JSON Schema of reports.

use super::{AppliedReport, Report};

/// Returns the JSON Schema of the report.
#[must_use]
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

/// Returns the JSON Schema of the report on applying a saved plan.
#[must_use]
pub fn applied_report_schema() -> serde_json::Value {
    schemars::schema_for!(AppliedReport).to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::plan_schema;

    /// `BLESS=1` writes the schemas instead of comparing them.
    #[test]
    fn published_schemas_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        let schemas = [
            ("plan", plan_schema()),
            ("report", report_schema()),
            ("applied-report", applied_report_schema()),
        ];
        for (name, schema) in schemas {
            let path = folder.join(format!("{name}.schema.json"));
            let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("BLESS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &expected).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == expected, "{} is old: run with BLESS=1", path.display());
        }
    }
}
