//! What `memfold check` and `memfold save` print with `--json`.

use memfold::quick_check::{Check, Saved};

use crate::document::documents;

documents! {
    "check" => CheckDocument<'_>,
    "save" => SaveDocument<'_>,
    "save-refused" => NotSavedDocument,
}

/// `memfold check --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CheckDocument<'a> {
    pub(super) schema_version: u32,
    #[serde(flatten)]
    pub(super) check: &'a Check,
}

/// `memfold save --json`, and a line that answers one of `--jsonl`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SaveDocument<'a> {
    pub(super) schema_version: u32,
    /// The line of `--jsonl`, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// Whether it is on disk.
    pub(super) stored: bool,
    #[serde(flatten)]
    pub(super) saved: &'a Saved,
}

/// A memory that was not saved
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NotSavedDocument {
    pub(super) schema_version: u32,
    /// The line of `--jsonl`, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// Whether it is on disk.
    pub(super) stored: bool,
    pub(super) error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl<'a> SaveDocument<'a> {
    pub(super) const fn new(line: Option<u64>, saved: &'a Saved) -> Self {
        Self { schema_version: 1, line, stored: true, saved }
    }
}

impl NotSavedDocument {
    pub(super) fn new(line: Option<u64>, (error, hint): (String, Option<String>)) -> Self {
        Self { schema_version: 1, line, stored: false, error, hint }
    }
}
