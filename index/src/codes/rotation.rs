//! [`Rotation`]: turns vectors so that where they differ most comes first.

use std::borrow::Cow;

use memfold_simd::Kernels;

use crate::Pool;
use crate::transform::Covariance;
use crate::transform::covariance::Products;

/// Coordinates that come first: as many codes as a line of the cache holds.
pub(crate) const LEAD_DIMS: usize = 64;

/// A rotation of vectors of `dim` coordinates whose first [`LEAD_DIMS`] ones are those along principal directions.
///
/// Let the rows of `D = (D₁ D₂)` be orthonormal directions, `x = (x₁, x₂)`, and `I − D₁` have an inverse. Then
///
/// ```text
/// y₁ = D x,   y₂ = x₂ − M (x₁ − y₁),   Mᵀ = −(I − D₁)⁻¹ D₂
/// ```
///
/// is a rotation, which is a product of as many Householder reflections and takes less than `2 · 64 · dim` products
/// instead of `dim²`. Each direction has the sign that keeps pivots of the elimination at 1 or more.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rotation<'a> {
    /// `Dᵀ`, row by row, then `Mᵀ`, row by row.
    numbers: Cow<'a, [f32]>,
    dim: usize,
}

/// Columns that are computed together.
const COLUMNS: usize = 16;

impl<'a> Rotation<'a> {
    /// Returns the numbers of a rotation of vectors of this dimension, or `None` where there is none.
    pub(crate) const fn number_count(dim: usize) -> Option<usize> {
        if dim > LEAD_DIMS { Some(LEAD_DIMS * dim + LEAD_DIMS * (dim - LEAD_DIMS)) } else { None }
    }

    /// Takes the numbers of a rotation; `None` where vectors of this dimension have another number of them.
    pub(crate) fn new(numbers: &'a [f32], dim: usize) -> Option<Self> {
        let fits = Self::number_count(dim) == Some(numbers.len());
        fits.then_some(Self { numbers: numbers.into(), dim })
    }

    /// Learns one from a sample of unit vectors; the same bytes on every machine. `None` where they are short or span
    /// too few directions.
    pub(crate) fn learn(units: &[f32], dim: usize, pool: &Pool, kernels: &Kernels) -> Option<Self> {
        let count = Self::number_count(dim)?;
        let covariance = Covariance::of(Products::Canonical, units, dim, pool, kernels);
        let mut directions = covariance.leading_directions(LEAD_DIMS, pool, kernels);
        if directions.len() < LEAD_DIMS * dim {
            return None;
        }
        let eliminated = eliminate(&mut directions, dim);
        let mut numbers = Vec::with_capacity(count);
        for at in 0..dim {
            numbers.extend(directions.chunks_exact(dim).map(|direction| direction[at]));
        }
        for row in eliminated {
            numbers.extend(row[LEAD_DIMS..].iter().map(|&value| value as f32));
        }
        Some(Self { numbers: numbers.into(), dim })
    }

    pub(crate) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Calls `take` with each coordinate of the turned vector, which is divided by `norm`.
    ///
    /// Sums are of f32 in one order, and never fused: the same bits on every machine.
    pub(crate) fn each_coordinate(
        &self,
        vector: &[f32],
        norm: f64,
        mut take: impl FnMut(usize, f64),
    ) {
        let scale = 1.0 / norm;
        let unit = |value: f32| (f64::from(value) * scale) as f32;
        let (directions, mixing) = self.numbers.split_at(LEAD_DIMS * self.dim);
        let mut lead = [0.0_f32; LEAD_DIMS];
        let parts = vector.chunks(LEAD_DIMS).zip(directions.chunks(LEAD_DIMS * LEAD_DIMS));
        let mut moved = [0.0_f32; LEAD_DIMS];
        for (values, rows) in parts {
            moved.iter_mut().zip(values).for_each(|(to, &value)| *to = unit(value));
            let values = &moved[..values.len()];
            for (block, sums) in lead.as_chunks_mut::<COLUMNS>().0.iter_mut().enumerate() {
                add_scaled(sums, values, rows, LEAD_DIMS, block * COLUMNS);
            }
        }
        for (at, (moved, &lead)) in moved.iter_mut().zip(&lead).enumerate() {
            *moved = lead - unit(vector[at]);
            take(at, f64::from(lead));
        }
        let rest_dim = self.dim - LEAD_DIMS;
        for first in (0..rest_dim).step_by(COLUMNS) {
            let mut sums = [0.0; COLUMNS];
            let values = &vector[LEAD_DIMS + first..];
            sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum = unit(value));
            add_scaled(&mut sums, &moved, mixing, rest_dim, first);
            let places = LEAD_DIMS + first..self.dim;
            places.zip(sums).for_each(|(at, sum)| take(at, f64::from(sum)));
        }
    }
}

/// Adds to some columns those of rows of `width` numbers, each row times a factor.
fn add_scaled(
    sums: &mut [f32; COLUMNS],
    factors: &[f32],
    rows: &[f32],
    width: usize,
    first: usize,
) {
    let last = (first + COLUMNS).min(width);
    for (&factor, row) in factors.iter().zip(rows.chunks_exact(width)) {
        let row = &row[first..last];
        let mut add = |row: &[f32]| {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
        };
        // The compiler makes more of a length that it knows.
        match row.as_array::<COLUMNS>() {
            Some(row) => add(row),
            None => add(row),
        }
    }
}

/// Gives directions their signs and returns rows of (I, Mᵀ).
fn eliminate(directions: &mut [f32], dim: usize) -> Vec<Vec<f64>> {
    // Rows of (I − D₁, −D₂) to begin with.
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(LEAD_DIMS);
    for (at, direction) in directions.chunks_exact_mut(dim).enumerate() {
        let mut row: Vec<f64> = direction.iter().map(|&value| -f64::from(value)).collect();
        for (column, pivot) in rows.iter().enumerate() {
            subtract(&mut row, pivot, column);
        }
        if row[at] < 0.0 {
            row.iter_mut().for_each(|value| *value = -*value);
            direction.iter_mut().for_each(|value| *value = -*value);
        }
        row[at] += 1.0;
        let pivot = row[at];
        row.iter_mut().for_each(|value| *value /= pivot);
        rows.push(row);
    }
    for column in (1..LEAD_DIMS).rev() {
        let (above, below) = rows.split_at_mut(column);
        above.iter_mut().for_each(|row| subtract(row, &below[0], column));
    }
    rows
}

/// Makes `row` zero in the column in which `pivot` is one.
fn subtract(row: &mut [f64], pivot: &[f64], column: usize) {
    let factor = row[column];
    for (value, pivot) in row.iter_mut().zip(pivot) {
        *value -= factor * pivot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 100;

    fn rotated(rotation: &Rotation<'_>, vector: &[f32]) -> Vec<f64> {
        let mut coordinates = Vec::new();
        let take = |_, coordinate| coordinates.push(coordinate);
        rotation.each_coordinate(vector, 1.0, take);
        coordinates
    }

    #[test]
    fn lengths_and_angles_stay_and_variance_comes_first() {
        let mut noise = crate::join::tests::Values(3);
        let units: Vec<f32> = (0..2_000)
            .flat_map(|_| {
                (0..DIM).map(|at| noise.next() / (1 + (at * 37) % DIM) as f32).collect::<Vec<_>>()
            })
            .collect();
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        let rotation = Rotation::learn(&units, DIM, &pool, kernels).unwrap();
        assert_eq!(Rotation::new(rotation.numbers(), DIM), Some(rotation.clone()));
        let rows: Vec<&[f32]> = units.chunks_exact(DIM).collect();
        let (mut first, mut rest) = (0.0, 0.0);
        for pair in rows[..50].windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|row| rotated(&rotation, row));
            let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((dot - kernels.dot(pair[0], pair[1])).abs() < 1e-5);
            let norm: f64 = a.iter().map(|a| a * a).sum();
            assert!((norm - kernels.dot(pair[0], pair[0])).abs() < 1e-5);
            first += a[..LEAD_DIMS].iter().map(|a| a * a).sum::<f64>();
            rest += a[LEAD_DIMS..].iter().map(|a| a * a).sum::<f64>();
        }
        assert!(rest < 0.02 * first, "{rest} beside {first}");
    }

    #[test]
    fn few_directions_and_short_vectors_have_none() {
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        assert_eq!(Rotation::learn(&vec![0.1; 100 * DIM], DIM, &pool, kernels), None);
        assert_eq!(Rotation::learn(&[1.0; 6_400], LEAD_DIMS, &pool, kernels), None);
        assert_eq!(Rotation::new(&[0.0; 5], DIM), None);
    }
}
