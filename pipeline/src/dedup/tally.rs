//! [`Tally`]: what is counted of the pairs at one threshold.

use memfold_index::{Pair, PairStream, Row};
use memfold_simd::Similarity;

use super::PairsDigest;
use super::digest::PairsHasher;
use super::vertices::Vertices;

/// What is counted of the pairs at one threshold, as they stream by in order.
pub(super) struct Tally {
    threshold: Similarity,
    distinct_pairs: u64,
    between_groups: u64,
    hasher: PairsHasher,
}

/// The counts of the pairs at one threshold.
pub(super) struct Tallied {
    pub(super) distinct_pairs: u64,
    pub(super) logical_pairs: u64,
    pub(super) digest: PairsDigest,
}

impl Tally {
    pub(super) fn at(threshold: Similarity) -> Self {
        let hasher = PairsHasher::default();
        Self { threshold, distinct_pairs: 0, between_groups: 0, hasher }
    }

    pub(super) fn add(&mut self, pair: &Pair, vertices: &Vertices, ordinal: &dyn Fn(Row) -> u64) {
        if pair.similarity < self.threshold {
            return;
        }
        self.distinct_pairs += 1;
        self.between_groups += vertices.logical_pairs(pair);
        self.hasher.pair(pair, ordinal);
    }

    /// Adds the pairs inside groups: those are at or above every threshold.
    pub(super) fn finish(self, pairs: &PairStream, ordinal: &dyn Fn(Row) -> u64) -> Tallied {
        let inside = |group: &Vec<Row>| group.len() as u64 * (group.len() as u64 - 1) / 2;
        let inside: u64 = pairs.groups().iter().map(inside).sum();
        Tallied {
            distinct_pairs: self.distinct_pairs,
            logical_pairs: self.between_groups + inside,
            digest: self.hasher.groups(pairs.groups(), ordinal),
        }
    }
}
