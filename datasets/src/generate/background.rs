//! [`Background`]: what vectors look like before anything is planted.

use super::linear::{normalize, orthonormalize};
use super::neighborhoods::Nest;
use super::purpose;
use super::random::Stream;

/// Directions of a background that vary on their own account; the others share what is left.
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

/// What items gather around.
#[derive(Debug, Clone)]
enum Gathering {
    /// Coordinates of each topic along the factors.
    Topics(Vec<Vec<f64>>),
    Nested(Nest),
}

impl Shape {
    /// Returns a shape with the spectrum of sentence embeddings, in random directions.
    pub(crate) fn synthetic(dim: usize, seed: u64) -> Self {
        let direction = |purpose, item| -> Vec<f64> {
            let mut stream = Stream::new(seed, purpose, item);
            (0..dim).map(|_| stream.normal()).collect()
        };
        let mut mean = direction(purpose::COMMON, 0);
        normalize(&mut mean);
        mean.iter_mut().for_each(|value| *value *= COMMON_WEIGHT.sqrt());
        let rank = RANK.min(dim);
        let directions = (0..rank).map(|k| direction(purpose::FACTORS, k as u64)).collect();
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
            let mut stream = Stream::new(seed, purpose::TOPIC, item);
            (0..rank).map(|_| TOPIC_WEIGHT.sqrt() * stream.normal()).collect()
        };
        let topics = (0..TOPIC_COUNT).map(topic).collect();
        Self::new(shape, Gathering::Topics(topics), seed)
    }

    /// Gathers in nested groups.
    pub(crate) fn nested(shape: Shape, nest: Nest, seed: u64) -> Self {
        Self::new(shape, Gathering::Nested(nest), seed)
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
            Gathering::Nested(nest) => {
                let mut latent = vec![0.0; self.rank + self.residual.len()];
                nest.add(item, &mut latent);
                return latent;
            }
        };
        let mut stream = Stream::new(self.seed, purpose::OWN, item);
        let topic = &topics[stream.below(TOPIC_COUNT) as usize];
        let own_weight = (1.0 - TOPIC_WEIGHT).sqrt();
        let mut latent: Vec<f64> =
            topic.iter().map(|center| center + own_weight * stream.normal()).collect();
        latent.extend(self.residual.iter().map(|_| stream.normal()));
        latent
    }
}
