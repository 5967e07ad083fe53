//! [`SkipReason`]: why a row or an embedding takes no part.

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
    pub const fn leaves_out_row(self) -> bool {
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
