//! Samples by hash: which rows are drawn depends on their values, not on their order.

use twox_hash::XxHash3_64;

/// Returns a hash of a vector's values as numbers: −0 and +0 are equal. `bits` is memory that is used again.
pub(crate) fn hash_values(vector: &[f32], bits: &mut Vec<u32>) -> u64 {
    bits.clear();
    // `+ 0.0` turns −0 into +0.
    bits.extend(vector.iter().map(|value| (value + 0.0).to_bits().to_le()));
    XxHash3_64::oneshot(bytemuck::cast_slice(bits))
}

/// Returns a hash of codes: it spreads samples, levels and orders.
pub(crate) fn hash_codes(codes: &[i8]) -> u64 {
    XxHash3_64::oneshot(bytemuck::cast_slice(codes))
}

/// Returns the positions of the `count` smallest hashes, by hash, then by position.
pub(crate) fn smallest(hashes: &[u64], count: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..hashes.len()).collect();
    if positions.len() > count {
        positions.select_nth_unstable_by_key(count, |&at| (hashes[at], at));
        positions.truncate(count);
    }
    positions.sort_unstable_by_key(|&at| (hashes[at], at));
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hashes_are_drawn_in_order() {
        assert_eq!(smallest(&[5, 1, 9, 1, 0], 3), [4, 1, 3]);
        assert_eq!(smallest(&[2, 1], 9), [1, 0]);
        let mut bits = Vec::new();
        assert_eq!(hash_values(&[-0.0, 1.0], &mut bits), hash_values(&[0.0, 1.0], &mut bits));
    }
}
