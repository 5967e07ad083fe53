//! Groups of duplicates: [`Duplicates`] finds them in given vectors, [`ObservedGroup`] repeats one.

use std::collections::{BTreeMap, BTreeSet};

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, PairStream, Row, VectorMatrix, join_pairs,
};
use memfold_simd::{Kernels, Similarity};

use super::covariance::{add_scaled, dot, normalize, orthonormalize, solve};
use super::stream::Stream;

/// The threshold at which a row is a duplicate, …
const THRESHOLD: f64 = 0.85;
/// … and the thresholds for vectors that are nearly all that near.
const NARROWER_THRESHOLDS: [f64; 2] = [0.95, 0.98];

/// Groups of rows around the first one that is near: stars, as they are generated.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Duplicates {
    /// Rows in groups of two or more.
    pub(crate) share: f64,
    /// In the order of their first rows.
    pub(crate) groups: Vec<Star>,
    /// Rows that are not copies, ascending.
    pub(crate) firsts: Vec<Row>,
}

/// A row and its near rows.
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

/// A group that was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedGroup {
    /// Not empty.
    pub(crate) copies: Vec<ObservedCopy>,
    /// Which way copies lie from the first.
    pub(crate) drifts: Vec<Drift>,
}

/// A copy of the first row of a group. Bit-equal ones are equal here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObservedCopy {
    /// To the first; 1.0 for a bit-equal one.
    pub(crate) similarity: f64,
    /// Where its drift stands in its group; `None` for a bit-equal one.
    pub(crate) drift: Option<u32>,
}

/// Earlier copies that a drift is computed from; with two of them pairs at 0.95 are a tenth fewer
/// than were seen.
const NEAREST_MAX: usize = 3;
/// Copies of a group that others are computed from: a row costs at most this many directions. More
/// of them improve nothing that shows.
const LEADERS_MAX: usize = 32;
/// Added to the variance of each drift, so that copies with the same drift are distinguished.
const RIDGE: f64 = 1e-6;
/// Squared lengths below are rounding noise.
const NOISE: f64 = 1e-12;

/// The direction in which a copy lies from the first row of its group, across that row: a weighted sum of the
/// directions of the nearest among earlier copies, and a part of its own.
///
/// Weights come from a regression on the nearest (Vecchia, *Estimation and model identification for
/// continuous spatial processes*, Journal of the Royal Statistical Society B 50, 1988). So copies
/// that stand close to each other, off the first, come out as close.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drift {
    /// Earlier drifts of the group.
    nearest: Vec<Weighted>,
    /// Length of the part of its own, in \[0, 1\].
    own: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Weighted {
    at: u32,
    weight: f64,
}

impl ObservedGroup {
    /// Learns how the rows of `star` stand to its first one and to each other.
    pub(crate) fn learn(sample: &VectorMatrix<'_>, star: &Star, kernels: &Kernels) -> Self {
        let equal = ObservedCopy { similarity: 1.0, drift: None };
        let mut copies = vec![equal; star.equal_count as usize];
        let mut drifting = Vec::new();
        for near in &star.near {
            let drift = (near.similarity < 1.0).then_some(drifting.len() as u32);
            if drift.is_some() {
                drifting.push((near.row, near.similarity));
            }
            let copy = ObservedCopy { similarity: near.similarity.min(1.0), drift };
            copies.extend((0..near.count).map(|_| copy));
        }
        let cosine = |a: usize, b: usize| {
            let ((left, left_similarity), (right, right_similarity)) = (drifting[a], drifting[b]);
            drift_cosine(sample, left, left_similarity, right, right_similarity, kernels)
        };
        Self { drifts: (0..drifting.len()).map(|at| Drift::learn(at, &cosine)).collect(), copies }
    }
}

/// Returns the cosine between the directions in which two rows differ from a third one that they
/// have similarities s₁ and s₂ to.
///
/// If the parts of two rows across it meet at a cosine of c, the rows have the similarity s₁ s₂ +
/// √(1 − s₁²) √(1 − s₂²) c.
fn drift_cosine(
    sample: &VectorMatrix<'_>,
    left: Row,
    left_similarity: f64,
    right: Row,
    right_similarity: f64,
    kernels: &Kernels,
) -> f64 {
    let [a, b] = [left, right].map(|row| sample.vector(row));
    let norms = [kernels.dot(a, a), kernels.dot(b, b)];
    let between = kernels.similarity(a, b, norms).map_or(0.0, |similarity| similarity.get());
    let height = |similarity: f64| 1.0 - similarity * similarity;
    let across = (height(left_similarity) * height(right_similarity)).sqrt();
    let along = left_similarity * right_similarity;
    if across > NOISE { ((between - along) / across).clamp(-1.0, 1.0) } else { 0.0 }
}

impl Drift {
    /// Regresses the drift `at` on the nearest of the leading ones before it.
    fn learn(at: usize, cosine: &impl Fn(usize, usize) -> f64) -> Self {
        let mut nearest: Vec<(usize, f64)> =
            (0..at.min(LEADERS_MAX)).map(|other| (other, cosine(at, other))).collect();
        nearest.sort_by(|a, b| b.1.total_cmp(&a.1));
        nearest.truncate(NEAREST_MAX);
        let variance = |a: usize, b: usize| if a == b { 1.0 + RIDGE } else { cosine(a, b) };
        let row = |&(a, _): &(usize, f64)| nearest.iter().map(|&(b, _)| variance(a, b)).collect();
        let cosines: Vec<f64> = nearest.iter().map(|&(_, cosine)| cosine).collect();
        let weights = solve(nearest.iter().map(row).collect(), cosines.clone());
        let told = dot(&weights, &cosines).clamp(0.0, 1.0);
        let weighted = nearest.iter().zip(weights);
        let nearest = weighted.map(|(&(at, _), weight)| Weighted { at: at as u32, weight });
        Self { nearest: nearest.collect(), own: (1.0 - told).sqrt() }
    }

    /// Returns the unit direction of a group's drift number `at`, across the unit vector `first`; `stream` has the
    /// random numbers of each drift.
    pub(crate) fn direction(
        drifts: &[Self],
        at: u32,
        first: &[f64],
        stream: impl Fn(u32) -> Stream,
    ) -> Vec<f64> {
        let mut directions = BTreeMap::new();
        for needed in needed(drifts, at) {
            let direction = drifts[needed as usize].draw(stream(needed), first, &directions);
            directions.insert(needed, direction);
        }
        directions.remove(&at).unwrap_or_default()
    }

    fn draw(
        &self,
        mut stream: Stream,
        first: &[f64],
        directions: &BTreeMap<u32, Vec<f64>>,
    ) -> Vec<f64> {
        let random: Vec<f64> = first.iter().map(|_| stream.normal()).collect();
        let nearest = self.nearest.iter().map(|nearest| directions[&nearest.at].clone());
        let told_by = orthonormalize(std::iter::once(first.to_vec()).chain(nearest).collect());
        // Where nearest drifts fill all dimensions, nothing is left to be its own.
        let mut direction =
            across(random.clone(), &told_by).unwrap_or_else(|| vec![0.0; first.len()]);
        direction.iter_mut().for_each(|value| *value *= self.own);
        for nearest in &self.nearest {
            add_scaled(&mut direction, nearest.weight, &directions[&nearest.at]);
        }
        across(direction, &told_by[..1])
            .or_else(|| across(random, &told_by[..1]))
            .unwrap_or_else(|| vec![0.0; first.len()])
    }
}

/// Returns the numbers of the drifts that one is computed from, directly or indirectly, and its
/// own, ascending.
fn needed(drifts: &[Drift], at: u32) -> Vec<u32> {
    let mut waiting = vec![at];
    let mut needed = BTreeSet::new();
    while let Some(next) = waiting.pop() {
        if needed.insert(next) {
            waiting.extend(drifts[next as usize].nearest.iter().map(|nearest| nearest.at));
        }
    }
    needed.into_iter().collect()
}

/// Returns the direction of the part of `values` across orthonormal `others`, unless there is none.
fn across(mut values: Vec<f64>, others: &[Vec<f64>]) -> Option<Vec<f64>> {
    let before = dot(&values, &values);
    // Twice: the first pass leaves a remainder where little is left.
    for _ in 0..2 {
        for other in others {
            let along = dot(&values, other);
            add_scaled(&mut values, -along, other);
        }
    }
    let is_noise = dot(&values, &values) <= NOISE * before;
    normalize(&mut values);
    (!is_noise).then_some(values)
}

#[cfg(test)]
mod drift_tests {
    use super::*;

    const DIM: usize = 24;

    /// Rows at cosines of 0.9 and a bit to the first axis; each leans towards the axes that it names.
    fn rows(leanings: &[&[usize]]) -> Vec<f32> {
        let mut values = vec![0.0; DIM];
        values[0] = 1.0;
        for (at, axes) in leanings.iter().enumerate() {
            let mut row = vec![0.0; DIM];
            row[0] = 2.0 + at as f32 / 50.0;
            axes.iter().for_each(|&axis| row[axis] += 0.7);
            values.extend(row);
        }
        values
    }

    /// Learns from rows of which the last one comes twice, and draws them.
    fn drawn(values: &[f32]) -> (ObservedGroup, Vec<Vec<f64>>) {
        let sample = VectorMatrix::from_slice(values, DIM).unwrap();
        let rows: Vec<Row> = sample.rows().collect();
        let similarity = |row| similarity(sample.vector(Row(0)), sample.vector(row));
        let near = rows[1..].iter().map(|&row| NearRow {
            row,
            count: 1 + u32::from(row == rows[rows.len() - 1]),
            similarity: similarity(row),
        });
        let star = Star { first: rows[0], equal_count: 1, near: near.collect() };
        let group = ObservedGroup::learn(&sample, &star, Kernels::active());
        let mut first: Vec<f64> = (0..DIM).map(|at| (at as f64).sqrt()).collect();
        normalize(&mut first);
        let draw = |copy: &ObservedCopy| match copy.drift {
            None => first.clone(),
            Some(drift) => {
                let stream = |drift| Stream::new(8, 0, u64::from(drift));
                let across = Drift::direction(&group.drifts, drift, &first, stream);
                let height = (1.0 - copy.similarity * copy.similarity).sqrt();
                let parts = first.iter().zip(&across);
                parts.map(|(first, across)| copy.similarity * first + height * across).collect()
            }
        };
        let copies = std::iter::once(first.clone()).chain(group.copies.iter().map(draw)).collect();
        (group, copies)
    }

    fn similarity(a: &[f32], b: &[f32]) -> f64 {
        memfold_simd::canonical::similarity(a, b).unwrap().get()
    }

    #[test]
    fn copies_stand_as_near_to_each_other_as_those_seen() {
        let values = rows(&[&[1], &[1, 2], &[2], &[2, 3]]);
        let (_, copies) = drawn(&values);
        let copies: Vec<&Vec<f64>> = copies[..1].iter().chain(&copies[2..6]).collect();
        for (a, left) in copies.iter().enumerate() {
            for (b, right) in copies.iter().enumerate() {
                let seen = similarity(&values[a * DIM..][..DIM], &values[b * DIM..][..DIM]);
                let found = dot(left, right);
                assert!((found - seen).abs() < 1e-3, "{a} and {b}: {found} for {seen}");
            }
        }
    }

    #[test]
    fn bit_equal_copies_come_out_bit_equal() {
        let (group, copies) = drawn(&rows(&[&[1], &[2], &[1, 2]]));
        assert_eq!((group.copies.len(), group.drifts.len()), (5, 3));
        assert_eq!((&copies[0], &copies[4]), (&copies[1], &copies[5]));
        assert!(copies[3] != copies[4]);
    }

    #[test]
    fn copies_beyond_the_leaders_stay_in_their_clumps() {
        let leanings: Vec<Vec<usize>> = (0..60).map(|at| vec![1 + at % 3, 4 + at % 20]).collect();
        let leanings: Vec<&[usize]> = leanings.iter().map(Vec::as_slice).collect();
        let values = rows(&leanings);
        let (group, copies) = drawn(&values);
        assert!(needed(&group.drifts, 59).len() <= LEADERS_MAX + 1);
        let row = |at: usize| &values[(at + 1) * DIM..][..DIM];
        // Leaning the same way, and not.
        let [same, other] = [3, 1].map(|step| {
            let pairs = || (0..60 - step).map(|at| (at, at + step));
            let count = pairs().count() as f64;
            let found: f64 = pairs().map(|(a, b)| dot(&copies[a + 2], &copies[b + 2])).sum();
            let seen: f64 = pairs().map(|(a, b)| similarity(row(a), row(b))).sum();
            assert!((found - seen).abs() / count < 0.02, "{found} for {seen} of {count}");
            found / count
        });
        assert!(same > other + 0.03, "{same} {other}");
    }
}

#[cfg(test)]
mod duplicates_tests {
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
