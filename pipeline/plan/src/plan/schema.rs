//! The published JSON Schema of plans.

use super::Plan;

/// Returns the JSON Schema of the plan file.
#[must_use]
pub fn plan_schema() -> serde_json::Value {
    schemars::schema_for!(Plan).to_value()
}
