//! Samples by hash, so that the draw depends on the values of rows and not on their order, and centroids learned from them
//! by Lloyd's algorithm over int8 codes. All its arithmetic is of integers: equal rows have equal centroids on every machine.

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

/// Moves centroids of `dim` codes, `rounds` times, to the rounded means of the rows nearest to them; one without rows
/// stays where it is. `nearest` returns the number of the centroid nearest to each row, in the order of `rows`.
pub(crate) fn k_means<'c, R: Iterator<Item = &'c [i8]>>(
    mut centroids: Vec<i8>,
    dim: usize,
    rounds: usize,
    rows: impl Fn() -> R,
    nearest: impl Fn(&[i8]) -> Vec<u32>,
) -> Vec<i8> {
    for _ in 0..rounds {
        let mut sums = vec![0_i32; centroids.len()];
        let mut counts = vec![0_i32; centroids.len() / dim];
        for (row, cell) in rows().zip(nearest(&centroids)) {
            let cell = cell as usize;
            counts[cell] += 1;
            for (sum, &code) in sums[cell * dim..][..dim].iter_mut().zip(row) {
                *sum += i32::from(code);
            }
        }
        let cells = centroids.chunks_exact_mut(dim).zip(sums.chunks_exact(dim)).zip(counts);
        for ((centroid, sums), count) in cells.filter(|(_, count)| *count > 0) {
            for (code, sum) in centroid.iter_mut().zip(sums) {
                // A mean of codes is a code.
                *code = (2 * sum + count).div_euclid(2 * count) as i8;
            }
        }
    }
    centroids
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

    #[test]
    fn centroids_move_to_their_rows_and_stay_without() {
        let rows: [&[i8]; 4] = [&[10, 0], &[20, 1], &[-127, -7], &[-126, -8]];
        let nearest = |centroids: &[i8]| {
            assert_eq!(centroids.len(), 6);
            vec![0, 0, 2, 2]
        };
        let moved = k_means(vec![1, 1, 99, 99, 2, 2], 2, 2, || rows.into_iter(), nearest);
        // Halves are rounded up.
        assert_eq!(moved, [15, 1, 99, 99, -126, -7]);
    }
}
