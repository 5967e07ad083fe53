//! [`Duplicates`]: which copies a matrix holds.

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, Pair, PairStream, Row, VectorMatrix, join_pairs,
};
use memfold_simd::{Kernels, Similarity};

use super::recipe::ObservedGroup;

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
    pub(crate) groups: Vec<ObservedGroup>,
    /// Rows that are no copies, ascending.
    pub(crate) firsts: Vec<Row>,
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
        Ok(Self::of(sample, &joined, options.kernels))
    }

    fn of(sample: &VectorMatrix<'_>, joined: &JoinedPairs, kernels: &Kernels) -> Self {
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
            let near: Vec<Pair> = neighbors
                .iter()
                .filter(|pair| !copies[pair.right.index()].taken)
                .copied()
                .collect();
            let mut similarities = vec![1.0; count as usize - 1];
            for pair in &near {
                let copies = &mut copies[pair.right.index()];
                copies.taken = true;
                similarities.extend((0..copies.count).map(|_| pair.similarity.get()));
            }
            if !similarities.is_empty() {
                let drift_share = drift_share(sample, &near, kernels);
                found.groups.push(ObservedGroup { similarities, drift_share });
            }
        }
        let in_groups: usize = found.sizes().map(|size| size as usize).sum();
        found.share = in_groups as f64 / sample.len() as f64;
        found
    }

    /// Returns the sizes of groups, two or more.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        self.groups.iter().map(|group| 1 + group.similarities.len() as u32)
    }
}

/// Returns how much of what sets copies apart from the first they have in common, from each one and the next.
///
/// With s the cosine to the first, two copies whose parts across it meet at a cosine of c are
/// s₁ s₂ + √(1 − s₁²) √(1 − s₂²) c near each other.
fn drift_share(sample: &VectorMatrix<'_>, near: &[Pair], kernels: &Kernels) -> f64 {
    /// Where there are no two copies to compare.
    const UNKNOWN: f64 = 0.5;
    let cosine = |pair: &[Pair]| {
        let [a, b] = [&pair[0], &pair[1]].map(|pair| sample.vector(pair.right));
        let norms = (kernels.dot(a, a), kernels.dot(b, b));
        let between = kernels.similarity(a, b, norms)?.get();
        let (a, b) = (pair[0].similarity.get(), pair[1].similarity.get());
        let across = ((1.0 - a * a) * (1.0 - b * b)).sqrt();
        (across > 1e-6).then(|| (between - a * b) / across)
    };
    let cosines: Vec<f64> = near.windows(2).filter_map(cosine).collect();
    if cosines.is_empty() {
        return UNKNOWN;
    }
    (cosines.iter().sum::<f64>() / cosines.len() as f64).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use memfold_index::{NoProgress, Pool};

    use super::*;

    #[test]
    fn duplicates_gather_around_the_first() {
        let pool = Pool::new(None).unwrap();
        let kernels = Kernels::active();
        let options = JoinOptions {
            pool: &pool,
            kernels,
            pair_budget: None,
            scratch_dir: None,
            progress: &NoProgress,
        };
        // 0 = 4, near 1; 1 near 2, 2 not near 0; 3 alone.
        let values = [1.0, 0.0, 0.9, 0.43, 0.7, 0.7, -1.0, 0.0, 1.0, 0.0];
        let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
        let found = Duplicates::count(&matrix, &options).unwrap();
        assert_eq!((found.share, found.firsts.as_slice()), (0.6, &[Row(0), Row(2), Row(3)][..]));
        assert_eq!(found.sizes().collect::<Vec<_>>(), [3]);
        let similarities = &found.groups[0].similarities;
        assert!(similarities[0] >= 1.0 && (similarities[1] - 0.902).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn copies_that_drift_together_are_seen_to() {
        let pool = Pool::new(None).unwrap();
        let kernels = Kernels::active();
        let options = JoinOptions {
            pool: &pool,
            kernels,
            pair_budget: None,
            scratch_dir: None,
            progress: &NoProgress,
        };
        let share = |second: [f32; 3]| {
            let values = [[1.0, 0.0, 0.0], [0.9, 0.43, 0.0], second].concat();
            let matrix = VectorMatrix::from_slice(&values, 3).unwrap();
            Duplicates::count(&matrix, &options).unwrap().groups[0].drift_share
        };
        let [together, across, apart] =
            [[0.9, 0.40, 0.0], [0.9, 0.0, 0.43], [0.9, -0.43, 0.0]].map(share);
        assert!(together > 0.999 && across < 1e-6 && apart < 1e-6, "{together} {across} {apart}");
    }
}
