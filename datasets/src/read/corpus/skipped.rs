//! [`SkippedRows`]: rows without a usable vector.

use std::path::PathBuf;

use memfold_index::Row;

/// Rows named for each reason.
const NAMED_ROWS_MAX: usize = 3;

/// Why a row takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// The vector, or one of its components, is null.
    VectorNull,
    /// The vector has another length than most.
    VectorLength,
    /// A component is NaN or infinite, or too large for 32 bits.
    VectorNotFinite,
    /// All components are zero, so there is no direction to compare.
    VectorZero,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [Self; 4] =
        [Self::VectorNull, Self::VectorLength, Self::VectorNotFinite, Self::VectorZero];

    /// Returns the reason's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VectorNull => "vector_null",
            Self::VectorLength => "vector_length",
            Self::VectorNotFinite => "vector_not_finite",
            Self::VectorZero => "vector_zero",
        }
    }
}

/// A row that was skipped, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// Why.
    pub reason: SkipReason,
    /// Its file.
    pub path: PathBuf,
    /// Its position in the file, from 0.
    pub row: u64,
}

/// Rows without a usable vector, counted by reason and kept in their place.
#[derive(Debug, Clone, Default)]
pub struct SkippedRows {
    counts: [u64; SkipReason::ALL.len()],
    examples: Vec<SkippedRow>,
    /// Ascending.
    ordinals: Vec<u64>,
}

impl SkippedRows {
    /// Adds the row at `ordinal`, the largest so far; `row` tells its place.
    pub(super) fn add(
        &mut self,
        ordinal: u64,
        reason: SkipReason,
        place: impl FnOnce() -> (PathBuf, u64),
    ) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count <= NAMED_ROWS_MAX as u64 {
            let (path, row) = place();
            self.examples.push(SkippedRow { reason, path, row });
        }
        self.ordinals.push(ordinal);
    }

    /// Returns how many rows were skipped.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Tells whether no row was skipped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Returns the reasons that occurred, in the order of [`SkipReason::ALL`], with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let all = SkipReason::ALL.into_iter().zip(self.counts);
        all.filter(|(_, count)| *count > 0)
    }

    /// Returns the first rows of each reason, in the order in which they were met.
    #[must_use]
    pub fn examples(&self) -> &[SkippedRow] {
        &self.examples
    }

    /// Returns the ordinals of the skipped rows, ascending.
    #[must_use]
    pub fn ordinals(&self) -> &[u64] {
        &self.ordinals
    }

    /// Returns the ordinal of the kept row `row`.
    pub(super) fn ordinal(&self, row: Row) -> u64 {
        let row = u64::from(row.0);
        // Before the i-th skipped row lie all rows with smaller ordinals but the i skipped ones.
        let mut skipped = (0, self.ordinals.len());
        while skipped.0 < skipped.1 {
            let middle = usize::midpoint(skipped.0, skipped.1);
            if self.ordinals[middle] - middle as u64 <= row {
                skipped.0 = middle + 1;
            } else {
                skipped.1 = middle;
            }
        }
        row + skipped.0 as u64
    }

    /// Returns the kept row at `ordinal`; `None` where it was skipped.
    pub(super) fn row(&self, ordinal: u64) -> Option<Row> {
        let before = self.ordinals.binary_search(&ordinal).err()?;
        u32::try_from(ordinal - before as u64).ok().map(Row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_ordinals_agree_around_gaps() {
        for mask in 0..1_u32 << 9 {
            let mut skipped = SkippedRows::default();
            let mut kept = Vec::new();
            for ordinal in 0..9 {
                if mask >> ordinal & 1 == 1 {
                    skipped.add(ordinal, SkipReason::VectorZero, || (PathBuf::new(), ordinal));
                    assert_eq!(skipped.row(ordinal), None);
                } else {
                    kept.push(ordinal);
                }
            }
            for (row, &ordinal) in kept.iter().enumerate() {
                assert_eq!(skipped.ordinal(Row(row as u32)), ordinal, "{mask:b}");
                assert_eq!(skipped.row(ordinal), Some(Row(row as u32)), "{mask:b}");
            }
        }
    }

    #[test]
    fn the_first_of_each_reason_are_named() {
        let mut skipped = SkippedRows::default();
        for ordinal in 0..5 {
            skipped.add(ordinal, SkipReason::VectorNull, || ("a".into(), ordinal));
        }
        skipped.add(5, SkipReason::VectorZero, || ("b".into(), 0));
        let named: Vec<(SkipReason, u64)> =
            skipped.examples().iter().map(|example| (example.reason, example.row)).collect();
        let null = SkipReason::VectorNull;
        assert_eq!(named, [(null, 0), (null, 1), (null, 2), (SkipReason::VectorZero, 0)]);
        let counts: Vec<_> = skipped.counts().collect();
        assert_eq!(counts, [(null, 5), (SkipReason::VectorZero, 1)]);
    }
}
