//! The little linear algebra that generating needs: f64, one fixed order of additions, no fused
//! multiply-add and no platform maths library, so that every machine gets the same bits.

/// Partial sums of [`dot`].
const LANES: usize = 8;

/// A direction shorter than this share of what it was before is rounding noise.
const NOISE: f64 = 1e-9;

/// Returns the dot product: lane `k` sums the products of the elements `i` with `i % 8 == k`, then the
/// lanes are summed in order.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a_chunks, a_tail), (b_chunks, b_tail)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for k in 0..LANES {
            lanes[k] += a[k] * b[k];
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_tail).zip(b_tail) {
        *lane += a * b;
    }
    lanes.iter().sum()
}

/// Adds `factor` times `from` to `to`.
pub(crate) fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// Gives `values` length 1, unless all are zero.
pub(crate) fn normalize(values: &mut [f64]) {
    let norm = dot(values, values).sqrt();
    if norm > 0.0 {
        let inverse = 1.0 / norm;
        values.iter_mut().for_each(|value| *value *= inverse);
    }
}

/// Makes directions orthonormal in the given order (Gram–Schmidt, twice); those without a part of
/// their own are dropped.
pub(crate) fn orthonormalize(directions: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut kept: Vec<Vec<f64>> = Vec::with_capacity(directions.len());
    for mut direction in directions {
        let before = dot(&direction, &direction).sqrt();
        for _ in 0..2 {
            for other in &kept {
                let along = dot(&direction, other);
                add_scaled(&mut direction, -along, other);
            }
        }
        if dot(&direction, &direction).sqrt() > NOISE * before {
            normalize(&mut direction);
            kept.push(direction);
        }
    }
    kept
}

/// Solves `matrix` · x = `right` for a symmetric positive definite matrix (elimination without pivoting).
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for pivot in 0..size {
        for row in pivot + 1..size {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let (above, below) = matrix.split_at_mut(row);
            add_scaled(&mut below[0], -factor, &above[pivot]);
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|at| matrix[row][at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let matrix = vec![vec![4.0, 2.0, 1.0], vec![2.0, 5.0, 3.0], vec![1.0, 3.0, 6.0]];
        let found = solve(matrix, vec![11.0, 21.0, 25.0]);
        for (found, expected) in found.iter().zip([1.0, 2.0, 3.0]) {
            assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
        assert!(solve(Vec::new(), Vec::new()).is_empty());
    }

    #[test]
    fn the_tail_takes_part() {
        let a: Vec<f64> = (1..=11).map(f64::from).collect();
        assert!((dot(&a, &a) - 506.0).abs() < 1e-9);
    }

    #[test]
    fn dependent_directions_are_dropped() {
        let kept = orthonormalize(vec![vec![3.0, 4.0, 0.0], vec![6.0, 8.0, 0.0], vec![1.0; 3]]);
        assert_eq!(kept.len(), 2);
        assert!(dot(&kept[0], &kept[1]).abs() < 1e-15);
        assert!((dot(&kept[1], &kept[1]) - 1.0).abs() < 1e-15);
    }
}
