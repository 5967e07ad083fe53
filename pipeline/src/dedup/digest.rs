//! [`PairsDigest`]: one number for all pairs.

use std::fmt;

use memfold_index::{Pair, Row};

/// blake3 of the pairs at one threshold; every number is 8 bytes, little-endian.
///
/// For each pair of distinct rows, by (left, right): left, right and the bits of the similarity as f64. Then
/// for each group of two or more bit-equal rows, by its smallest row: how many they are, and the rows,
/// ascending. Rows are ordinals over all inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairsDigest(pub [u8; 32]);

impl fmt::Display for PairsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A [`PairsDigest`] in the making.
#[derive(Debug, Default)]
pub(super) struct PairsHasher {
    hasher: blake3::Hasher,
}

impl PairsHasher {
    /// Adds a pair of distinct rows.
    pub(super) fn pair(&mut self, pair: &Pair, ordinal: &dyn Fn(Row) -> u64) {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&ordinal(pair.left).to_le_bytes());
        bytes[8..16].copy_from_slice(&ordinal(pair.right).to_le_bytes());
        bytes[16..].copy_from_slice(&pair.similarity.get().to_le_bytes());
        self.hasher.update(&bytes);
    }

    /// Adds all groups, after the last pair.
    pub(super) fn groups(
        mut self,
        groups: &[Vec<Row>],
        ordinal: &dyn Fn(Row) -> u64,
    ) -> PairsDigest {
        for group in groups {
            self.hasher.update(&(group.len() as u64).to_le_bytes());
            for &row in group {
                self.hasher.update(&ordinal(row).to_le_bytes());
            }
        }
        PairsDigest(*self.hasher.finalize().as_bytes())
    }
}
