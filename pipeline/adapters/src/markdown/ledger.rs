//! [`Ledger`]: what memfold took out of the files of a store and what it wrote there, in a file of its own.
//!
//! Several files cannot be replaced at once. So the ledger is written before the first of them, with what holds of each
//! file as long as that is not replaced, and once more behind the last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::document::Removed;
use super::scan::{Kind, scan};
use crate::changes;
use crate::files::read_text;
use memfold_store::origin::{OriginError, OriginRecord};

/// What is kept of a store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    pub(super) files: BTreeMap<String, Kept>,
    /// What holds of a file that is not replaced yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<String, Pending>,
}

/// What holds of a file as long as it is not replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) kept: Kept,
    /// The digest of the file, and of the one that replaces it.
    before: String,
    after: String,
    /// How many memories of the file say what is taken out or put back.
    count: usize,
}

/// What is kept of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The digest of the file that the places are of; empty where there is no file.
    pub(super) digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) removed: Vec<Removed>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) written: Vec<Written>,
    /// Where the whole file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) archived: Option<Archived>,
    /// Whether memfold made the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_made: bool,
}

/// A memory whose id does not follow from its text: memfold wrote it, or its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    /// The digits of its text.
    pub(super) hash: String,
    /// What was written before it.
    pub(super) lead: String,
    pub(super) made_of: Vec<String>,
}

/// A file that was moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Archived {
    pub(super) record: Box<OriginRecord>,
    /// The path of the copy.
    pub(super) copy: String,
}

impl Kept {
    /// Tells whether anything is kept but the digest.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self { digest: self.digest.clone(), ..Self::default() }
    }
}

/// The digest by which the ledger knows a file; none of an empty one, which is as one that is missing.
pub(super) fn digest(text: &str) -> String {
    if text.is_empty() { String::new() } else { changes::digest(text) }
}

impl Ledger {
    /// Reads a ledger; a missing one is empty.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, OriginError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        serde_json::from_str(&text).map_err(|error| OriginError::Format {
            path: path.to_owned(),
            kind: "list of removed texts",
            reason: error.to_string(),
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Returns what holds of a file with this text.
    pub(super) fn kept(&self, path: &str, text: Option<&str>) -> Kept {
        let after = self.files.get(path).cloned().unwrap_or_default();
        let Some(pending) = self.pending.get(path) else { return after };
        let text = text.unwrap_or_default();
        let is_before = match digest(text) {
            digest if digest == pending.before => true,
            digest if digest == pending.after => false,
            // Others changed the file before it was replaced, or since.
            _ => count_of(text, &pending.kept, &after) == pending.count,
        };
        if is_before { pending.kept.clone() } else { after }
    }
}

impl Pending {
    pub(super) fn new(text: &str, before: Kept, after: &Kept) -> Self {
        let count = count_of(text, &before, after);
        Self { before: digest(text), after: after.digest.clone(), count, kept: before }
    }
}

/// Returns how many memories of a text say what one of two states has and the other one has not.
fn count_of(text: &str, before: &Kept, after: &Kept) -> usize {
    let out = |kept: &Kept| -> BTreeMap<String, String> {
        let records = kept.removed.iter().filter_map(|removed| removed.record.as_ref());
        records.map(|record| (record.id.clone(), record.text.clone())).collect()
    };
    let (before, after) = (out(before), out(after));
    let moved = before.iter().filter(|(id, _)| !after.contains_key(*id));
    let moved = moved.chain(after.iter().filter(|(id, _)| !before.contains_key(*id)));
    let moved: BTreeSet<&String> = moved.map(|(_, text)| text).collect();
    let pieces = scan(text, None);
    let said = pieces.iter().filter_map(|piece| match &piece.kind {
        Kind::Memory(memory) => Some(&memory.text),
        _ => None,
    });
    said.filter(|said| moved.contains(said)).count()
}
