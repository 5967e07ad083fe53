//! What earlier runs and people decided, as recorded in the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::MemoryId;

/// Decisions that a plan must honour.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Absorbed id → the id it was folded into, from lineage and provenance.
    pub folded_into: BTreeMap<MemoryId, MemoryId>,
    /// Pairs a person wants to keep apart: smaller id first.
    pub keep_both: BTreeSet<(MemoryId, MemoryId)>,
    /// Access count at the last promotion of a memory.
    pub promoted_at_access: BTreeMap<MemoryId, i64>,
}

/// Returns the hash by which a decision about a text is void once the text changes: 32 hex digits.
#[must_use]
pub fn content_hash(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex()[..32].to_owned()
}
