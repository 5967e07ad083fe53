//! [`Snapshot`]: a store at one instant.

use std::collections::BTreeMap;

use crate::SkipReason;
use crate::decisions::Decisions;
use crate::memory::{Memory, Standing, VectorSpace};

/// A store at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Which store this is: stable while the store lives, the same for every reader.
    pub store_id: Box<str>,
    /// Every row that could be read, in any order: live rows, ghosts and excluded ones. Also those that an
    /// earlier run moved out of the memory table; they are in no count of rows.
    pub memories: Vec<Memory>,
    /// The vector spaces, indexed by [`SpaceIndex`](crate::memory::SpaceIndex).
    pub spaces: Vec<VectorSpace>,
    /// Rows and embeddings that were left out, by reason.
    ///
    /// Reasons that concern an embedding or a creation time count live rows only; orphaned and
    /// repeated embeddings count embedding rows.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// One example (id or rowid, and what was found) for each reason.
    pub skip_examples: BTreeMap<SkipReason, String>,
    /// Rows in the store's memory table, whether readable or not.
    pub rows_total: u64,
    /// What was decided before.
    pub decisions: Decisions,
    /// Remarks for the report: what the store lacks and how it was read nevertheless.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// Counts the live rows.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        self.count(|memory| memory.standing == Standing::Live)
    }

    /// Counts the live rows that have a valid, fresh vector.
    #[must_use]
    pub fn with_vector_count(&self) -> u64 {
        self.count(|m| m.standing == Standing::Live && m.embedding.vector().is_some())
    }

    /// Returns how often `reason` was met.
    #[must_use]
    pub fn skipped_count(&self, reason: SkipReason) -> u64 {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Counts the rows that are no candidates, for whatever reason; with
    /// [`live_count`](Self::live_count) they make `rows_total`.
    #[must_use]
    pub fn left_out_count(&self) -> u64 {
        let rows = self.skipped.iter().filter(|(reason, _)| reason.leaves_out_row());
        rows.map(|(_, count)| count).sum()
    }

    fn count(&self, wanted: impl Fn(&Memory) -> bool) -> u64 {
        self.memories.iter().filter(|memory| wanted(memory)).count() as u64
    }
}
