//! int8 codes of vectors that are the same bytes on every machine.
//!
//! 1. [`Coding`]: unit vectors, turned so that they differ most in their first coordinates ([`Rotation`]), less their
//!    mean, in steps of one length for all coordinates. It is learned from a sample that only depends on the set of
//!    vectors.
//! 2. [`CodeRows`]: codes and their squared norms, as slices, for building; [`SplitRows`]: the first codes of all rows,
//!    then the others, for searching. Distances are integers.
//! 3. [`Members`]: which rows stand behind a code: vectors of one code are one *node* of a graph.
//!
//! Codes only propose. Nothing about them is proven; see [`crate::transform`] for codes with bounds.

mod rows;

use std::borrow::Cow;

use memfold_simd::Kernels;

pub(crate) use rows::{CodeRows, Members, NodeCodes, Pages, SplitRows, split};

use crate::distinct::DistinctRows;
use crate::sample::smallest;
use crate::scan::squared_norm;
use crate::transform::{CODE_MAX, Covariance, NO_FRACTION, Products, push_unit, quantize};
use crate::{Damaged, Pool, VectorMatrix};

/// Rows from which rotation, mean and step are learned: the smallest hashes.
const SAMPLED_ROWS: usize = 8_192;

/// Sampled rows of a task.
const BATCH_ROWS: usize = 1_024;

/// Half the coded range, in root mean squares of a coordinate: coordinates along principal directions reach far.
const RANGE_SPREADS: f64 = 16.0;

/// Unit coordinates are summed as multiples of 2⁻³⁰: 2³² of them fit an i64.
const FIXED_POINT: f64 = 1_073_741_824.0;

/// Deviations are squared as multiples of 2⁻²⁰: a row of 65,536 fits an i64.
const SQUARED_POINT: f64 = 1_048_576.0;

/// Turns vectors into int8 codes: `round((R x / |x| − mean) / step)`, clipped to ±127, where `R` is a rotation or
/// leaves vectors as they are.
///
/// Division, square root and rounding are exact in IEEE arithmetic, sums have one order and nothing is fused, so
/// codes are the same bytes on every machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coding<'a> {
    rotation: Option<Rotation<'a>>,
    mean: Cow<'a, [f32]>,
    step: f32,
}

impl<'a> Coding<'a> {
    /// The largest dimension for which distances fit an i32.
    pub(crate) const DIM_MAX: usize = 32_768;

    /// Takes the numbers of a rotation, or none, a mean of `dim` values and the step between two codes.
    ///
    /// # Errors
    /// When the dimension is out of range, the step is not positive, or the rotation is of another dimension.
    pub(crate) fn new(
        rotation: &'a [f32],
        mean: impl Into<Cow<'a, [f32]>>,
        step: f32,
    ) -> Result<Self, Damaged> {
        let mean = mean.into();
        if mean.is_empty() || mean.len() > Self::DIM_MAX {
            return Err(dimension(mean.len()));
        }
        if !(step.is_finite() && step > 0.0) {
            return Err(Damaged::NotPositive { number: "the step between codes" });
        }
        let (dim, found) = (mean.len(), rotation.len());
        let expected = Rotation::number_count(dim).unwrap_or(0);
        let damaged = Damaged::Length { part: "the rotation", found, expected };
        let rotation = match found {
            0 => None,
            _ => Some(Rotation::new(rotation, dim).ok_or(damaged)?),
        };
        Ok(Self { rotation, mean, step })
    }

    /// Learns mean and step from distinct rows, and before them a rotation where vectors are to be turned and can be.
    pub(crate) fn learn(
        matrix: &VectorMatrix<'_>,
        distinct: &DistinctRows,
        turned: bool,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Result<Self, Damaged> {
        let sample = smallest(&distinct.hashes, SAMPLED_ROWS);
        let mut sampled = Sampled { matrix, distinct, positions: &sample, rotation: None };
        if turned {
            sampled.rotation = Rotation::learn(&sampled.units(), matrix.dim(), pool, kernels);
        }
        let mean = sampled.mean(pool);
        let (mean_square, largest) = sampled.spread(&mean, pool);
        let range = largest.min(RANGE_SPREADS * mean_square.sqrt());
        // Without a range every code is 0.
        let step = if range > 1e-12 { (range / CODE_MAX) as f32 } else { 1.0 };
        let mean: Vec<f32> = mean.into_iter().map(|value| value as f32).collect();
        Ok(Self { rotation: sampled.rotation, ..Self::new(&[], mean, step)? })
    }

    /// Returns the numbers of the rotation; none where vectors are left as they are.
    pub(crate) fn rotation(&self) -> &[f32] {
        self.rotation.as_ref().map_or(&[], Rotation::numbers)
    }

    /// Returns the mean, one value for each coordinate.
    pub(crate) fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Returns the step between two codes.
    pub(crate) const fn step(&self) -> f32 {
        self.step
    }

    /// Returns the codes of each vector: its dimension, rounded up to a multiple of 4; the last ones are 0.
    pub(crate) fn code_dim(&self) -> usize {
        self.mean.len().next_multiple_of(4)
    }

    /// Returns the largest squared distance of codes at which two vectors of a cosine of at least `threshold` are
    /// expected: rounding adds a twelfth for each coordinate of both and a random part, taken six times.
    pub(crate) fn squared_radius(&self, threshold: f64) -> i32 {
        let apart = (2.0 - 2.0 * threshold).max(0.0).sqrt() / f64::from(self.step);
        let rounding = self.mean.len() as f64 / 6.0;
        let radius = apart * apart + rounding + 6.0 * ((apart * apart + rounding) / 6.0).sqrt();
        (radius + 4.0).min(f64::from(i32::MAX)) as i32
    }

    /// Writes the codes of a vector of the coding's dimension.
    ///
    /// # Panics
    /// When `codes` is not [`code_dim`](Self::code_dim) long.
    pub(crate) fn encode(&self, vector: &[f32], squared_norm: f64, codes: &mut [i8]) {
        assert_eq!(codes.len(), self.code_dim(), "codes of another dimension");
        let inverse_step = 1.0 / f64::from(self.step);
        let (rotation, norm) = (self.rotation.as_ref(), squared_norm.sqrt());
        each_coordinate(rotation, vector, norm, |at, coordinate| {
            let scaled = (coordinate - f64::from(self.mean[at])) * inverse_step;
            (codes[at], _) = quantize(scaled, CODE_MAX);
        });
        codes[self.mean.len()..].fill(0);
    }

    /// Writes the codes of a vector and returns its canonical squared norm, or `None` where it has no direction.
    ///
    /// # Panics
    /// When the vector has another dimension.
    pub(crate) fn encode_query(
        &self,
        vector: &[f32],
        kernels: &Kernels,
        codes: &mut Vec<i8>,
    ) -> Option<f64> {
        assert_eq!(vector.len(), self.mean.len(), "vector of another dimension");
        let squared_norm = squared_norm(vector, kernels)?;
        codes.resize(self.code_dim(), 0);
        self.encode(vector, squared_norm, codes);
        Some(squared_norm)
    }
}

const fn dimension(found: usize) -> Damaged {
    Damaged::Range { number: "the dimension", found, expected: "1 to 32,768" }
}

/// Calls `take` with each coordinate of a vector that is divided by its norm, and turned.
fn each_coordinate(
    rotation: Option<&Rotation<'_>>,
    vector: &[f32],
    norm: f64,
    mut take: impl FnMut(usize, f64),
) {
    match rotation {
        Some(rotation) => rotation.each_coordinate(vector, norm, take),
        None => (0..).zip(vector).for_each(|(at, &value)| take(at, f64::from(value) / norm)),
    }
}

/// Rows from which a coding is learned.
struct Sampled<'a> {
    matrix: &'a VectorMatrix<'a>,
    distinct: &'a DistinctRows,
    positions: &'a [usize],
    rotation: Option<Rotation<'static>>,
}

impl Sampled<'_> {
    /// Returns the unit vectors as they are.
    fn units(&self) -> Vec<f32> {
        let mut units = Vec::new();
        for &position in self.positions {
            let vector = self.matrix.vector(self.distinct.rows[position]);
            push_unit(vector, self.distinct.squared_norms[position], &mut units);
        }
        units
    }

    /// Returns the mean of the turned unit vectors, by exact sums.
    fn mean(&self, pool: &Pool) -> Vec<f64> {
        let sums = self.fold(pool, &vec![0_i64; self.matrix.dim()], |sums, at, value| {
            sums[at] += rounded(value * FIXED_POINT);
        });
        let count = self.positions.len().max(1) as f64;
        let sum = |at: usize| sums.iter().map(|sums| sums[at]).sum::<i64>();
        (0..self.matrix.dim()).map(|at| sum(at) as f64 / FIXED_POINT / count).collect()
    }

    /// Returns the mean square of deviations from `mean`, by exact sums, and the largest deviation.
    fn spread(&self, mean: &[f64], pool: &Pool) -> (f64, f64) {
        let parts = self.fold(pool, &(0_i128, 0.0_f64), |(squares, largest), at, value| {
            let deviation = value - mean[at];
            let fixed = rounded(deviation * SQUARED_POINT);
            *squares += i128::from(fixed * fixed);
            *largest = largest.max(deviation.abs());
        });
        let squares: i128 = parts.iter().map(|(squares, _)| squares).sum();
        let count = (self.positions.len() * mean.len()).max(1) as f64;
        let mean_square = squares as f64 / (SQUARED_POINT * SQUARED_POINT) / count;
        (mean_square, parts.iter().map(|&(_, largest)| largest).fold(0.0, f64::max))
    }

    /// Adds every coordinate of the turned unit vectors to `zero`, batch by batch.
    fn fold<T: Clone + Send + Sync>(
        &self,
        pool: &Pool,
        zero: &T,
        add: impl Fn(&mut T, usize, f64) + Send + Sync,
    ) -> Vec<T> {
        let batches: Vec<&[usize]> = self.positions.chunks(BATCH_ROWS).collect();
        pool.map(batches.len(), |batch| {
            let mut sum = zero.clone();
            for &position in batches[batch] {
                let norm = self.distinct.squared_norms[position].sqrt();
                let vector = self.matrix.vector(self.distinct.rows[position]);
                let add = |at, value| add(&mut sum, at, value);
                each_coordinate(self.rotation.as_ref(), vector, norm, add);
            }
            sum
        })
    }
}

/// Returns the nearest integer of a number below 2⁵⁰, to the even one from the middle.
fn rounded(number: f64) -> i64 {
    ((number + NO_FRACTION) - NO_FRACTION) as i64
}

/// Coordinates that come first: as many codes as a line of the cache holds.
pub(crate) const LEAD_DIMS: usize = 64;

/// A rotation of vectors of `dim` coordinates ; the first [`LEAD_DIMS`] lie along principal directions.
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

/// Adds to some columns the rows of `width` numbers, each row times a factor.
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
    use crate::NoProgress;
    use crate::testing::{Values, matrix, pool};

    fn learned(values: &[f32], dim: usize, threads: usize) -> Coding<'static> {
        let pool = pool(threads);
        let matrix = matrix(values, dim);
        let distinct =
            DistinctRows::of(&matrix, Kernels::active(), &pool, None, &NoProgress).unwrap();
        Coding::learn(&matrix, &distinct, false, &pool, Kernels::active()).unwrap()
    }

    #[test]
    fn the_mean_is_subtracted_and_the_range_is_used() {
        let coding = learned(&[1.0, 0.0, 0.0, 2.0], 2, 1);
        assert_eq!((coding.mean(), coding.code_dim()), (&[0.5, 0.5][..], 4));
        let mut codes = Vec::new();
        assert_eq!(coding.encode_query(&[3.0, 0.0], Kernels::active(), &mut codes), Some(9.0));
        assert_eq!(codes, [127, -127, 0, 0]);
        assert_eq!(coding.encode_query(&[0.0, 0.0], Kernels::active(), &mut codes), None);
        assert_eq!(coding.encode_query(&[f32::NAN, 0.0], Kernels::active(), &mut codes), None);
    }

    #[test]
    fn it_depends_on_the_set_of_vectors_only() {
        let values: Vec<f32> =
            (0..3_000 * 5).map(|at| ((at * 7_919 % 1_013) as f32) - 500.0).collect();
        let mut turned = values.clone();
        turned.rotate_left(5 * 1_234);
        let coding = learned(&values, 5, 1);
        assert_eq!(coding, learned(&turned, 5, 8));
        assert_eq!(coding, learned(&[values.as_slice(), &values[..500]].concat(), 5, 2));
    }

    #[test]
    fn equal_rows_have_codes_of_zero() {
        let coding = learned(&[0.6, 0.8, 0.0, 0.6, 0.8, 0.0], 3, 1);
        let mut codes = Vec::new();
        coding.encode_query(&[0.6, 0.8, 0.0], Kernels::active(), &mut codes).unwrap();
        assert_eq!(codes, [0; 4]);
    }

    #[test]
    fn what_is_no_coding_is_refused() {
        assert_eq!(Coding::new(&[], vec![], 1.0), Err(dimension(0)));
        assert_eq!(Coding::new(&[], vec![0.0; 40_000], 1.0), Err(dimension(40_000)));
        for step in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let coding = Coding::new(&[], vec![0.0], step);
            assert!(matches!(coding, Err(Damaged::NotPositive { .. })));
        }
        let rotation = Coding::new(&[0.0; 3], vec![0.0; 90], 1.0);
        assert_eq!(
            rotation,
            Err(Damaged::Length { part: "the rotation", found: 3, expected: 64 * (90 + 26) })
        );
        // A damaged mean gives codes, whatever they mean.
        let coding = Coding::new(&[], vec![f32::NAN, f32::INFINITY], f32::MIN_POSITIVE).unwrap();
        coding.encode_query(&[1.0, 1.0], Kernels::active(), &mut Vec::new()).unwrap();
    }

    const DIM: usize = 100;

    fn rotated(rotation: &Rotation<'_>, vector: &[f32]) -> Vec<f64> {
        let mut coordinates = Vec::new();
        let take = |_, coordinate| coordinates.push(coordinate);
        rotation.each_coordinate(vector, 1.0, take);
        coordinates
    }

    #[test]
    fn lengths_and_angles_stay_and_variance_comes_first() {
        let mut noise = Values(3);
        let units: Vec<f32> = (0..2_000)
            .flat_map(|_| {
                (0..DIM).map(|at| noise.next() / (1 + (at * 37) % DIM) as f32).collect::<Vec<_>>()
            })
            .collect();
        let (pool, kernels) = (pool(2), Kernels::active());
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
        let (pool, kernels) = (pool(2), Kernels::active());
        assert_eq!(Rotation::learn(&vec![0.1; 100 * DIM], DIM, &pool, kernels), None);
        assert_eq!(Rotation::learn(&[1.0; 6_400], LEAD_DIMS, &pool, kernels), None);
        assert_eq!(Rotation::new(&[0.0; 5], DIM), None);
    }
}
