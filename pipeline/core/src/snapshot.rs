//! [`Snapshot`]: a store at one instant.

use std::collections::BTreeMap;

use super::decisions::Decisions;
use super::memory::{Memory, Status, VectorSpace};

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
        self.count(|memory| memory.status == Status::Live)
    }

    /// Counts the live rows that have a valid, fresh vector.
    #[must_use]
    pub fn with_vector_count(&self) -> u64 {
        self.count(|m| m.status == Status::Live && m.embedding.vector().is_some())
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

/// Why a row or an embedding was left out of consolidation or of vector merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// The id is NULL.
    IdNull,
    /// The id is a BLOB.
    IdBlob,
    /// Two rows share an id (only without a primary key).
    IdRepeated,
    /// The content is NULL, a BLOB or empty of text.
    ContentMissing,
    /// Text that is no UTF-8.
    InvalidUtf8,
    /// Archived before.
    Archived,
    /// Expired.
    Expired,
    /// A record that a consolidator wrote about others.
    ConsolidationRecord,
    /// Folded into another memory before (a ghost).
    Folded,
    /// No embedding; the row takes part in the exact tier.
    EmbeddingMissing,
    /// The embedding belongs to an earlier wording.
    EmbeddingStale,
    /// The embedding's length is no vector.
    EmbeddingLength,
    /// The embedding holds NaN or infinite values.
    EmbeddingNotFinite,
    /// The embedding is all zeros.
    EmbeddingZero,
    /// The embedding is neither numbers nor JSON.
    EmbeddingUnreadable,
    /// An embedding whose memory is gone.
    EmbeddingOrphan,
    /// A second embedding of one memory.
    EmbeddingRepeated,
    /// The creation time cannot be read; the row counts as oldest.
    CreatedAtUnreadable,
    /// Outside the scope of this run.
    OutOfScope,
}

impl SkipReason {
    /// Tells whether a row with this reason is no candidate at all.
    ///
    /// Each row has at most one such reason: rows in the store = live rows + these counts.
    #[must_use]
    pub(crate) const fn leaves_out_row(self) -> bool {
        matches!(
            self,
            Self::IdNull
                | Self::IdBlob
                | Self::IdRepeated
                | Self::ContentMissing
                | Self::InvalidUtf8
                | Self::Archived
                | Self::Expired
                | Self::ConsolidationRecord
                | Self::Folded
        )
    }

    /// Tells whether the reason keeps a live row out of vector merging only.
    ///
    /// Each live row has at most one such reason: live rows = rows with a vector + these counts.
    #[must_use]
    pub const fn leaves_out_vector(self) -> bool {
        matches!(
            self,
            Self::EmbeddingMissing
                | Self::EmbeddingStale
                | Self::EmbeddingLength
                | Self::EmbeddingNotFinite
                | Self::EmbeddingZero
                | Self::EmbeddingUnreadable
        )
    }
}
