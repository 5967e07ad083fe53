//! Lloyd's algorithm over int8 codes. All arithmetic is of integers: equal rows have equal centroids on every machine.

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
