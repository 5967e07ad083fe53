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
