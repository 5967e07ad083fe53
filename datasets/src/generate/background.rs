//! [`Background`]: what vectors look like before anything is planted.

use super::linear::{normalize, orthonormalize};
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

/// Draws unit vectors of a shape, gathered around topics.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    mean: Vec<f64>,
    /// For each tile of components, its part of each factor; zeros beyond the dimension.
    factor_tiles: Vec<Vec<[f32; TILE]>>,
    residual: Vec<f64>,
    /// Coordinates of each topic along the factors.
    topics: Vec<Vec<f64>>,
    seed: u64,
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
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let topic = |item| {
            let mut stream = Stream::new(seed, purpose::TOPIC, item);
            (0..shape.factors.len()).map(|_| TOPIC_WEIGHT.sqrt() * stream.normal()).collect()
        };
        let tile = |start: usize, factor: &[f64]| {
            std::array::from_fn(|at| factor.get(start + at).map_or(0.0, |&value| value as f32))
        };
        let starts = (0..shape.mean.len()).step_by(TILE);
        let factor_tiles =
            starts.map(|start| shape.factors.iter().map(|factor| tile(start, factor)).collect());
        Self {
            factor_tiles: factor_tiles.collect(),
            topics: (0..TOPIC_COUNT).map(topic).collect(),
            mean: shape.mean,
            residual: shape.residual,
            seed,
        }
    }

    /// Returns the unit vector number `item`.
    pub(crate) fn draw(&self, item: u64) -> Vec<f64> {
        let mut stream = Stream::new(self.seed, purpose::OWN, item);
        let topic = &self.topics[stream.below(TOPIC_COUNT) as usize];
        let own_weight = (1.0 - TOPIC_WEIGHT).sqrt();
        let coordinates: Vec<f32> =
            topic.iter().map(|center| (center + own_weight * stream.normal()) as f32).collect();
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
        for (value, deviation) in values.iter_mut().zip(&self.residual) {
            *value += deviation * stream.normal();
        }
        normalize(&mut values);
        values
    }
}
