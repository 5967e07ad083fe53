//! [`Neighborhoods`]: how near items come to those around them, learned from real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use memfold_index::{Pool, Progress, Row, VectorMatrix};
use memfold_simd::Kernels;

use super::covariance::{Codes, add_scaled, dot, normalize, orthonormalize, solve};
use super::recipe;
use super::recipe::{ObservedCopy, ObservedGroup, Shuffle, Stream};
use super::vectors::{Background, Shape, Star};

/// Nested groups of 2^shift items, from the widest; the last one is a pair.
const SHIFTS: [u32; 6] = [10, 8, 6, 4, 2, 1];
/// Kinds of groups that a kind of the next wider level falls into.
const BRANCHES: usize = 4;
/// Groups that a level has at least: with fewer, their centres would bend the covariance.
const GROUPS_MIN: usize = 64;
/// Items whose neighbours are looked at: one for each kind of pair.
const QUERIES_MAX: usize = BRANCHES.pow(SHIFTS.len() as u32);
/// Items of a trial whose neighbours are looked at.
const TRIAL_QUERIES_MAX: usize = 1024;
/// Trials; more of them mend nothing that shows.
const TRIALS: usize = 4;
/// The seed of trials: what is learned does not depend on the seed of what is generated.
const TRIAL_SEED: u64 = 0;

/// Which share of their variance items have in common with the groups they stand in.
///
/// Items stand in groups of 1,024 that fall into groups of 256, 64, 16, 4 and 2. The latent coordinates of an
/// item are a sum of independent parts, one for each group and one of its own, whose variances add up to 1:
/// however near the members of a group are, the covariance of all items is that of the [`Shape`]. (A nested
/// random-effects model: Searle, Casella and McCulloch, *Variance Components*, 1992.)
///
/// A group is of one of several kinds, each with a share of its own. The kinds are those of real rows: sorted by
/// their similarity to neighbours far away, cut into [`BRANCHES`], sorted by that to nearer neighbours within each
/// part, and so on. So a group that stands close holds groups as close as those that stand close in reality.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighborhoods {
    levels: Vec<Level>,
}

/// Groups of one size.
#[derive(Debug, Clone, PartialEq)]
struct Level {
    shift: u32,
    /// For each kind, the variance in common; those within kind `k` of the next wider level are `4k..4k + 4`.
    shares: Vec<f64>,
}

/// Neighbourhoods and the order in which items fill them.
#[derive(Debug, Clone)]
pub(crate) struct Nest {
    neighborhoods: Arc<Neighborhoods>,
    /// Wider groups than these are left out, because there would be too few of them.
    shift_max: u32,
    order: Shuffle,
    seed: u64,
}

impl Neighborhoods {
    /// Learns from items that are no duplicates of each other, whole rows of `values`.
    ///
    /// Similarities that random neighbours have anyway are in what is seen. So trials are generated, looked at in
    /// the same way, and shares moved by what the trials are off, quantile by quantile (the method of simulated
    /// moments: McFadden, *Econometrica* 57, 1989).
    pub(crate) fn learn(
        values: &[f32],
        shape: &Arc<Shape>,
        pool: &Pool,
        kernels: &Kernels,
        progress: &dyn Progress,
    ) -> Self {
        let dim = shape.mean.len();
        let items = values.len() / dim;
        let shifts = shifts_of(items);
        let ranks: Vec<Range<usize>> = (0..shifts.len()).map(|at| ranks(shifts, at)).collect();
        progress.begin("learn neighborhoods", Some(TRIALS as u64 + 1));
        let look = |values: &[f32], queries_max| {
            let seen = Codes::of(values, dim, pool).neighbors(queries_max, &ranks, pool, kernels);
            progress.advance(1);
            seen
        };
        let mut learning = Learning::of(&look(values, QUERIES_MAX), shifts, shape);
        for _ in 0..TRIALS {
            if shifts.is_empty() || progress.cancelled() {
                break;
            }
            let neighborhoods = Arc::new(learning.found.clone());
            let nest = Nest::new(neighborhoods, items as u64, TRIAL_SEED);
            let trial = Background::nested(Shape::clone(shape), nest, TRIAL_SEED);
            learning.correct(&look(&generate(&trial, items, pool), TRIAL_QUERIES_MAX));
        }
        progress.end();
        learning.found
    }
}

/// Returns the levels that have enough groups of so many items, from the widest.
fn shifts_of(items: usize) -> &'static [u32] {
    let wide = SHIFTS.iter().take_while(|&&shift| items >> shift < GROUPS_MIN).count();
    &SHIFTS[wide..]
}

/// Returns the ranks of neighbours that share a group of a level with an item, but none of the next narrower one.
fn ranks(shifts: &[u32], level: usize) -> Range<usize> {
    let narrower = shifts.get(level + 1).map_or(0, |shift| (1 << shift) - 1);
    narrower..(1 << shifts[level]) - 1
}

/// Draws all items in order.
fn generate(background: &Background, items: usize, pool: &Pool) -> Vec<f32> {
    const BATCH: usize = 256;
    let batches = pool.map(items.div_ceil(BATCH), |batch| {
        let items = batch * BATCH..items.min((batch + 1) * BATCH);
        let draw = |item| background.draw(item as u64).into_iter().map(|value| value as f32);
        items.flat_map(draw).collect::<Vec<f32>>()
    });
    batches.concat()
}

/// Neighbourhoods that are still compared with what was seen.
struct Learning {
    found: Neighborhoods,
    /// For each level, the similarities seen, ascending.
    seen: Vec<Vec<f64>>,
    /// For each level, its kinds by what was seen of them, ascending.
    orders: Vec<Vec<usize>>,
    /// Squared length of the mean: the similarity of items that share nothing.
    common: f64,
}

impl Learning {
    /// Cuts rows into kinds; `profiles` holds their similarities at each level.
    fn of(profiles: &[Vec<f64>], shifts: &[u32], shape: &Shape) -> Self {
        let common = dot(&shape.mean, &shape.mean).min(1.0);
        let mut learning = Self {
            found: Neighborhoods { levels: Vec::new() },
            seen: Vec::new(),
            orders: Vec::new(),
            common,
        };
        let mut kinds: Vec<Vec<usize>> = vec![(0..profiles.len()).collect()];
        for (level, &shift) in shifts.iter().enumerate() {
            let of = |row: usize| profiles[row][level];
            kinds = kinds.into_iter().flat_map(|rows| parts(rows, of)).collect();
            let means: Vec<f64> = kinds.iter().map(|rows| mean(rows, of)).collect();
            let mut order: Vec<usize> = (0..kinds.len()).collect();
            order.sort_by(|&a, &b| means[a].total_cmp(&means[b]));
            learning.orders.push(order);
            learning.seen.push(sorted(profiles, level));
            let shares = means.iter().map(|mean| (mean - common) / (1.0 - common).max(1e-9));
            let shares = shares.map(|share| share.clamp(0.0, 1.0)).collect();
            learning.found.levels.push(Level { shift, shares });
        }
        learning.found.nest_shares();
        learning
    }

    /// Moves shares by what a trial is off.
    fn correct(&mut self, trial: &[Vec<f64>]) {
        for (at, level) in self.found.levels.iter_mut().enumerate() {
            let found = sorted(trial, at);
            let kinds = self.orders[at].len();
            for (position, &kind) in self.orders[at].iter().enumerate() {
                let quantile = (position as f64 + 0.5) / kinds as f64;
                let off = value_at(&self.seen[at], quantile) - value_at(&found, quantile);
                let share = level.shares[kind] + off / (1.0 - self.common).max(1e-9);
                level.shares[kind] = share.clamp(0.0, 1.0);
            }
        }
        self.found.nest_shares();
    }
}

impl Neighborhoods {
    /// Lets no kind have less in common than the wider one around it.
    fn nest_shares(&mut self) {
        for level in 1..self.levels.len() {
            let (wider, narrower) = self.levels.split_at_mut(level);
            let wider = &wider[level - 1].shares;
            for (kind, share) in narrower[0].shares.iter_mut().enumerate() {
                *share = share.max(wider[kind / BRANCHES]);
            }
        }
    }
}

/// Cuts rows in order of their value into [`BRANCHES`] parts; none of them is empty.
fn parts(mut rows: Vec<usize>, value: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
    rows.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
    let part = |k: usize| {
        let start = k * rows.len() / BRANCHES;
        let end = ((k + 1) * rows.len() / BRANCHES).max(start + 1);
        rows[start..end].to_vec()
    };
    (0..BRANCHES).map(part).collect()
}

fn mean(rows: &[usize], value: impl Fn(usize) -> f64) -> f64 {
    rows.iter().map(|&row| value(row)).sum::<f64>() / rows.len() as f64
}

fn sorted(profiles: &[Vec<f64>], level: usize) -> Vec<f64> {
    let mut values: Vec<f64> = profiles.iter().map(|profile| profile[level]).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the value that the share of ascending values does not exceed.
fn value_at(ascending: &[f64], quantile: f64) -> f64 {
    ascending[((quantile * ascending.len() as f64) as usize).min(ascending.len() - 1)]
}

impl Nest {
    pub(crate) fn new(neighborhoods: Arc<Neighborhoods>, items: u64, seed: u64) -> Self {
        let shifts = shifts_of(items as usize);
        Self {
            neighborhoods,
            shift_max: shifts.first().copied().unwrap_or(0),
            order: Shuffle::new(items, Stream::new(seed, recipe::NEST_ORDER, 0).next_u64()),
            seed,
        }
    }

    /// Adds the latent coordinates of an item, of mean 0 and variance 1 each, to `latent`.
    pub(crate) fn add(&self, item: u64, latent: &mut [f64]) {
        let place = self.order.apply(item);
        let mut add = |variance: f64, mut stream: Stream| {
            let deviation = variance.sqrt();
            latent.iter_mut().for_each(|value| *value += deviation * stream.normal());
        };
        let (mut kind, mut common) = (0, 0.0);
        for (level, Level { shift, shares }) in self.neighborhoods.levels.iter().enumerate() {
            let group = (level as u64) << 40 | place >> shift.min(&self.shift_max);
            let branch = Stream::new(self.seed, recipe::NEST_KIND, group).below(BRANCHES as u64);
            kind = kind * BRANCHES + branch as usize;
            if *shift <= self.shift_max && shares[kind] > common {
                add(shares[kind] - common, Stream::new(self.seed, recipe::NEST_GROUP, group));
                common = shares[kind];
            }
        }
        add(1.0 - common, Stream::new(self.seed, recipe::OWN, item));
    }
}

/// Earlier copies that a drift is told by; with two of them pairs at 0.95 are a tenth fewer than were seen.
const NEAREST_MAX: usize = 3;
/// Copies of a group that others are told by: a row costs at most so many directions. More of them mend
/// nothing that shows.
const LEADERS_MAX: usize = 32;
/// Added to the variance of each drift, so that copies that drift the same way can be told apart.
const RIDGE: f64 = 1e-6;
/// Squared lengths below are rounding noise.
const NOISE: f64 = 1e-12;

/// The direction in which a copy lies from the first row of its group, across that row: a weighted sum of the
/// directions of the nearest among earlier copies, and a part of its own.
///
/// Weights are those of a regression on the nearest (Vecchia, *Estimation and model identification for
/// continuous spatial processes*, Journal of the Royal Statistical Society B 50, 1988). So copies that stand
/// close to each other, off the first, come out as close.
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
        let cosine = |a: usize, b: usize| drift_cosine(sample, drifting[a], drifting[b], kernels);
        Self { drifts: (0..drifting.len()).map(|at| Drift::learn(at, &cosine)).collect(), copies }
    }
}

/// Returns the cosine between what sets two rows apart from a third one that they have similarities s₁ and s₂ to.
///
/// Two rows whose parts across it meet at a cosine of c are s₁ s₂ + √(1 − s₁²) √(1 − s₂²) c near each other.
fn drift_cosine(
    sample: &VectorMatrix<'_>,
    (left, left_similarity): (Row, f64),
    (right, right_similarity): (Row, f64),
    kernels: &Kernels,
) -> f64 {
    let [a, b] = [left, right].map(|row| sample.vector(row));
    let norms = (kernels.dot(a, a), kernels.dot(b, b));
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

/// Returns the numbers of the drifts that one is told by, at first or second hand, and its own, ascending.
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
mod tests {
    use super::super::vectors::NearRow;
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
