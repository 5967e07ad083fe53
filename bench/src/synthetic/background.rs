//! [`Neighborhoods`]: how near items come to their neighbours, learned from real ones.

use std::ops::Range;
use std::sync::Arc;

use memfold_index::{Pool, Progress};
use memfold_simd::Kernels;

use super::covariance::{Codes, dot, normalize, orthonormalize};
use super::stream::{self, Shuffle, Stream};

/// Nested groups of 2^shift items, from the widest; the last one is a pair.
const SHIFTS: [u32; 6] = [10, 8, 6, 4, 2, 1];
/// Kinds of groups that a kind of the next wider level falls into.
const BRANCHES: usize = 4;
/// Groups that a level has at least: with fewer, their centres would bend the covariance.
const GROUPS_MIN: usize = 64;
/// Number of items with measured neighbours: one for each kind of pair.
const QUERIES_MAX: usize = BRANCHES.pow(SHIFTS.len() as u32);
/// Number of items of a trial with measured neighbours.
const TRIAL_QUERIES_MAX: usize = 1024;
/// Trials; more of them bring no visible improvement.
const TRIALS: usize = 4;
/// The seed of trials: the learned shares do not depend on the seed of the generated rows.
const TRIAL_SEED: u64 = 0;

/// Which share of their variance items have in common with the groups they stand in.
///
/// Items stand in groups of 1,024 that fall into groups of 256, 64, 16, 4 and 2. The latent
/// coordinates of an item are a sum of independent parts, one for each group and one of its own,
/// with variances that add up to 1: however near the members of a group are, the covariance of all
/// items is that of the [`Shape`]. (A nested random-effects model: Searle, Casella and McCulloch,
/// *Variance Components*, 1992.)
///
/// A group is of one of several kinds, each with a share of its own. The kinds come from real rows:
/// sorted by their similarity to neighbours far away, cut into [`BRANCHES`], sorted by the
/// similarity to nearer neighbours within each part, and so on. So the groups inside a close group
/// are as close as in reality.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighborhoods {
    levels: Vec<Level>,
}

/// Groups of one size.
#[derive(Debug, Clone, PartialEq)]
struct Level {
    shift: u32,
    /// For each kind, the variance in common; the kinds within kind `k` of the next wider level are
    /// `4k..4k + 4`.
    shares: Vec<f64>,
}

/// Neighbourhoods and the order in which items fill them.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    neighborhoods: Arc<Neighborhoods>,
    /// Wider groups than these are left out, because there would be too few of them.
    shift_max: u32,
    order: Shuffle,
    seed: u64,
}

impl Neighborhoods {
    /// Learns from items that are not duplicates of each other, whole rows of `values`.
    ///
    /// Measured similarities include the similarity of random neighbours. So trials are generated,
    /// measured in the same way, and shares moved by the difference, quantile by quantile (the
    /// method of simulated moments: McFadden, *Econometrica* 57, 1989).
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
            let region = Region::new(neighborhoods, items as u64, TRIAL_SEED);
            let trial = Background::nested(Shape::clone(shape), region, TRIAL_SEED);
            learning.correct(&look(&generate(&trial, items, pool), TRIAL_QUERIES_MAX));
        }
        progress.end();
        learning.found
    }
}

/// Returns the levels that have enough groups of `items` items, from the widest.
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

/// Neighbourhoods that are still compared with the measured ones.
struct Learning {
    found: Neighborhoods,
    /// For each level, the similarities seen, ascending.
    seen: Vec<Vec<f64>>,
    /// For each level, its kinds by measured similarity, ascending.
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

    /// Moves shares by the difference of a trial.
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

impl Region {
    pub(crate) fn new(neighborhoods: Arc<Neighborhoods>, items: u64, seed: u64) -> Self {
        let shifts = shifts_of(items as usize);
        Self {
            neighborhoods,
            shift_max: shifts.first().copied().unwrap_or(0),
            order: Shuffle::new(items, Stream::new(seed, stream::NEST_ORDER, 0).next_u64()),
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
            let branch = Stream::new(self.seed, stream::NEST_KIND, group).below(BRANCHES as u64);
            kind = kind * BRANCHES + branch as usize;
            if *shift <= self.shift_max && shares[kind] > common {
                add(shares[kind] - common, Stream::new(self.seed, stream::NEST_GROUP, group));
                common = shares[kind];
            }
        }
        add(1.0 - common, Stream::new(self.seed, stream::OWN, item));
    }
}

/// Directions of a background that vary on their own account; the others share the rest.
pub(crate) const RANK: usize = 96;
/// Topics that the background gathers around.
const TOPIC_COUNT: u64 = 256;
/// Share of the leading directions' variance that lies between topics: two rows of a topic meet near
/// 0.4, others near 0.1.
const TOPIC_WEIGHT: f64 = 0.5;
/// Share of a synthetic vector's squared length that is common to all.
const COMMON_WEIGHT: f64 = 0.1;
/// Share of the rest that the leading directions have: the strongest 64 of 384 then hold about 0.65
/// of the variance, as in sentence embeddings (0.63 for all-MiniLM-L6-v2 on commit messages).
const LEADING_WEIGHT: f64 = 0.7;
/// The direction with half the variance of the strongest.
const HALF_VARIANCE_AT: f64 = 8.0;

/// Mean and covariance of unit vectors: `factors` of low rank and a variance of its own for each
/// dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) mean: Vec<f64>,
    /// Orthogonal directions, each as long as its standard deviation.
    pub(crate) factors: Vec<Vec<f64>>,
    /// Standard deviation of each dimension beside the factors.
    pub(crate) residual: Vec<f64>,
}

/// Components computed together: as many as stay in registers.
const TILE: usize = 32;

/// Draws unit vectors of a shape that gather.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    mean: Vec<f64>,
    /// For each tile of components, its part of each factor; zeros beyond the dimension.
    factor_tiles: Vec<Vec<[f32; TILE]>>,
    residual: Vec<f64>,
    rank: usize,
    gathering: Gathering,
    seed: u64,
}

/// The centres that items gather around.
#[derive(Debug, Clone)]
enum Gathering {
    /// Coordinates of each topic along the factors.
    Topics(Vec<Vec<f64>>),
    Nested(Region),
}

impl Shape {
    /// Returns a shape with the spectrum of sentence embeddings, in random directions.
    pub(crate) fn synthetic(dim: usize, seed: u64) -> Self {
        let direction = |purpose, item| -> Vec<f64> {
            let mut stream = Stream::new(seed, purpose, item);
            (0..dim).map(|_| stream.normal()).collect()
        };
        let mut mean = direction(stream::COMMON, 0);
        normalize(&mut mean);
        mean.iter_mut().for_each(|value| *value *= COMMON_WEIGHT.sqrt());
        let rank = RANK.min(dim);
        let directions = (0..rank).map(|k| direction(stream::FACTORS, k as u64)).collect();
        let mut factors = orthonormalize(directions);
        let variance = |k: usize| 1.0 / (1.0 + k as f64 / HALF_VARIANCE_AT);
        let total: f64 = (0..factors.len()).map(variance).sum();
        for (k, factor) in factors.iter_mut().enumerate() {
            let deviation = ((1.0 - COMMON_WEIGHT) * LEADING_WEIGHT * variance(k) / total).sqrt();
            factor.iter_mut().for_each(|value| *value *= deviation);
        }
        let rest = (1.0 - COMMON_WEIGHT) * (1.0 - LEADING_WEIGHT) / dim as f64;
        Self { mean, factors, residual: vec![rest.sqrt(); dim] }
    }
}

impl Background {
    /// Gathers around [`TOPIC_COUNT`] topics.
    pub(crate) fn topical(shape: Shape, seed: u64) -> Self {
        let rank = shape.factors.len();
        let topic = |item| {
            let mut stream = Stream::new(seed, stream::TOPIC, item);
            (0..rank).map(|_| TOPIC_WEIGHT.sqrt() * stream.normal()).collect()
        };
        let topics = (0..TOPIC_COUNT).map(topic).collect();
        Self::new(shape, Gathering::Topics(topics), seed)
    }

    /// Gathers in nested groups.
    pub(crate) fn nested(shape: Shape, region: Region, seed: u64) -> Self {
        Self::new(shape, Gathering::Nested(region), seed)
    }

    fn new(shape: Shape, gathering: Gathering, seed: u64) -> Self {
        let tile = |start: usize, factor: &[f64]| {
            std::array::from_fn(|at| factor.get(start + at).map_or(0.0, |&value| value as f32))
        };
        let starts = (0..shape.mean.len()).step_by(TILE);
        let factor_tiles =
            starts.map(|start| shape.factors.iter().map(|factor| tile(start, factor)).collect());
        Self {
            factor_tiles: factor_tiles.collect(),
            rank: shape.factors.len(),
            gathering,
            mean: shape.mean,
            residual: shape.residual,
            seed,
        }
    }

    /// Returns the unit vector number `item`.
    pub(crate) fn draw(&self, item: u64) -> Vec<f64> {
        let latent = self.latent(item);
        let (along, beside) = latent.split_at(self.rank);
        let coordinates: Vec<f32> = along.iter().map(|&value| value as f32).collect();
        let mut values = self.mean.clone();
        for (values, tile) in values.chunks_mut(TILE).zip(&self.factor_tiles) {
            let mut sums = [0.0_f32; TILE];
            for (coordinate, factor) in coordinates.iter().zip(tile) {
                for at in 0..TILE {
                    sums[at] += coordinate * factor[at];
                }
            }
            values.iter_mut().zip(sums).for_each(|(value, sum)| *value += f64::from(sum));
        }
        for ((value, deviation), own) in values.iter_mut().zip(&self.residual).zip(beside) {
            *value += deviation * own;
        }
        normalize(&mut values);
        values
    }

    /// Returns coordinates of mean 0 and variance 1: along the factors, then beside them for each dimension.
    fn latent(&self, item: u64) -> Vec<f64> {
        let topics = match &self.gathering {
            Gathering::Topics(topics) => topics,
            Gathering::Nested(region) => {
                let mut latent = vec![0.0; self.rank + self.residual.len()];
                region.add(item, &mut latent);
                return latent;
            }
        };
        let mut stream = Stream::new(self.seed, stream::OWN, item);
        let topic = &topics[stream.below(TOPIC_COUNT) as usize];
        let own_weight = (1.0 - TOPIC_WEIGHT).sqrt();
        let mut latent: Vec<f64> =
            topic.iter().map(|center| center + own_weight * stream.normal()).collect();
        latent.extend(self.residual.iter().map(|_| stream.normal()));
        latent
    }
}
