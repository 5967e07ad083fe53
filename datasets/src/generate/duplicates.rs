//! [`Duplicates`]: which copies a matrix holds.

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, PairStream, Row, VectorMatrix, join_pairs,
};
use memfold_simd::Similarity;

/// The threshold at which a row is a duplicate, …
const THRESHOLD: f64 = 0.85;
/// … and those for vectors that are nearly all that near.
const NARROWER_THRESHOLDS: [f64; 2] = [0.95, 0.98];

/// Groups of rows around the first one that is near: stars, as they are generated.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Duplicates {
    /// Rows in groups of two or more.
    pub(crate) share: f64,
    /// In the order of their first rows.
    pub(crate) groups: Vec<Star>,
    /// Rows that are no copies, ascending.
    pub(crate) firsts: Vec<Row>,
}

/// A row and what is near it.
#[derive(Debug, PartialEq)]
pub(crate) struct Star {
    pub(crate) first: Row,
    /// Other rows that are bit-equal to the first.
    pub(crate) equal_count: u32,
    /// Ascending.
    pub(crate) near: Vec<NearRow>,
}

/// A row near the first of its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NearRow {
    pub(crate) row: Row,
    /// Bit-equal rows, itself among them.
    pub(crate) count: u32,
    /// To the first.
    pub(crate) similarity: f64,
}

/// A row's place among duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copies {
    /// Bit-equal rows, itself among them; 0 for all but the first of them.
    count: u32,
    taken: bool,
}

impl Duplicates {
    /// Counts at the lowest threshold that discriminates.
    pub(crate) fn count(
        sample: &VectorMatrix<'_>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let mut counted = Self::at(sample, THRESHOLD, options);
        for threshold in NARROWER_THRESHOLDS {
            if let Err(JoinError::PairBudget { .. }) = counted {
                counted = Self::at(sample, threshold, options);
            }
        }
        counted
    }

    /// Counts at one threshold.
    pub(crate) fn at(
        sample: &VectorMatrix<'_>,
        threshold: f64,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let threshold = Similarity::clamped(threshold).unwrap_or_default();
        let joined = join_pairs(sample, threshold, options).map(PairStream::collect)?;
        Ok(Self::of(sample, &joined))
    }

    fn of(sample: &VectorMatrix<'_>, joined: &JoinedPairs) -> Self {
        let mut copies = vec![Copies { count: 1, taken: false }; sample.len()];
        for group in &joined.groups {
            copies[group[0].index()].count = group.len() as u32;
            group[1..].iter().for_each(|row| copies[row.index()].count = 0);
        }
        let mut found = Self::default();
        let mut pairs = joined.pairs.as_slice();
        for row in sample.rows() {
            let own = pairs.partition_point(|pair| pair.left <= row);
            let (neighbors, later) = pairs.split_at(own);
            pairs = later;
            let Copies { count, taken } = copies[row.index()];
            if taken || count == 0 {
                continue;
            }
            found.firsts.push(row);
            let untaken = neighbors.iter().filter(|pair| !copies[pair.right.index()].taken);
            let near: Vec<NearRow> = untaken
                .map(|pair| NearRow {
                    row: pair.right,
                    count: copies[pair.right.index()].count,
                    similarity: pair.similarity.get(),
                })
                .collect();
            near.iter().for_each(|near| copies[near.row.index()].taken = true);
            if count > 1 || !near.is_empty() {
                found.groups.push(Star { first: row, equal_count: count - 1, near });
            }
        }
        let in_groups: usize = found.sizes().map(|size| size as usize).sum();
        found.share = in_groups as f64 / sample.len() as f64;
        found
    }

    /// Returns the sizes of groups, two or more.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        self.groups.iter().map(Star::size)
    }
}

impl Star {
    fn size(&self) -> u32 {
        1 + self.equal_count + self.near.iter().map(|near| near.count).sum::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use memfold_index::Pool;

    use super::*;

    #[test]
    fn duplicates_gather_around_the_first() {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        // 0 = 4, near 1; 1 near 2, 2 not near 0; 3 alone.
        let values = [1.0, 0.0, 0.9, 0.43, 0.7, 0.7, -1.0, 0.0, 1.0, 0.0];
        let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
        let found = Duplicates::count(&matrix, &options).unwrap();
        assert_eq!((found.share, found.firsts.as_slice()), (0.6, &[Row(0), Row(2), Row(3)][..]));
        assert_eq!(found.sizes().collect::<Vec<_>>(), [3]);
        let Star { first, equal_count, near } = &found.groups[0];
        assert_eq!((*first, *equal_count, near.len()), (Row(0), 1, 1));
        assert_eq!((near[0].row, near[0].count), (Row(1), 1));
        assert!((near[0].similarity - 0.902).abs() < 1e-3, "{found:?}");
    }
}
