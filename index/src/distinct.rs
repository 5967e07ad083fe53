//! [`DistinctRows`]: validates rows and collapses bit-equal vectors, for the join and for the graph.

use memfold_simd::Kernels;
use twox_hash::XxHash3_64;

use crate::{Pool, Progress, Row, VectorMatrix};

/// Rows for each task and for each look at the wish to stop.
const BATCH_ROWS: usize = 1_024;

/// The distinct rows of a matrix, ascending, with what is known about each.
#[derive(Debug, Default)]
pub(crate) struct DistinctRows {
    /// The smallest row of each group of equal vectors.
    pub(crate) rows: Vec<Row>,
    /// The canonical squared norm of each.
    pub(crate) squared_norms: Vec<f64>,
    /// How many rows are equal to each, itself included.
    pub(crate) multiplicities: Vec<u32>,
    /// A hash of each vector's values: spreads samples whatever the order of rows.
    pub(crate) hashes: Vec<u64>,
    /// Groups of two or more.
    pub(crate) groups: Vec<Vec<Row>>,
}

/// Why rows cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DistinctError {
    /// A row holds NaN, an infinite value, or only zeros.
    InvalidVector {
        /// The row.
        row: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The caller asked to stop.
    Cancelled,
}

/// What one pass over a row finds out.
#[derive(Clone, Copy)]
struct Scanned {
    hash: u64,
    row: Row,
    squared_norm: f64,
}

impl DistinctRows {
    /// Reads every row once, refuses vectors without a direction, and groups equal ones.
    ///
    /// Values are compared as numbers: −0 equals +0.
    pub(crate) fn of(
        matrix: &VectorMatrix<'_>,
        kernels: &Kernels,
        pool: &Pool,
        progress: &dyn Progress,
    ) -> Result<Self, DistinctError> {
        let mut scanned = scan_rows(matrix, kernels, pool, progress)?;
        pool.sort_by_key(&mut scanned, |one| (one.hash, one.row));
        let mut classes: Vec<(Scanned, Vec<Row>)> = Vec::new();
        let mut run_start = 0;
        for one in scanned {
            if classes.get(run_start).is_none_or(|(first, _)| first.hash != one.hash) {
                run_start = classes.len();
            }
            let equal = classes[run_start..]
                .iter_mut()
                .find(|(first, _)| matrix.vector(first.row) == matrix.vector(one.row));
            match equal {
                Some((_, others)) => others.push(one.row),
                None => classes.push((one, Vec::new())),
            }
        }
        pool.sort_by_key(&mut classes, |(first, _)| first.row);
        Ok(Self::from_classes(classes))
    }

    fn from_classes(classes: Vec<(Scanned, Vec<Row>)>) -> Self {
        let mut distinct = Self::default();
        for (first, others) in classes {
            distinct.rows.push(first.row);
            distinct.squared_norms.push(first.squared_norm);
            distinct.hashes.push(first.hash);
            // A matrix has fewer than 2³² rows.
            distinct.multiplicities.push(others.len() as u32 + 1);
            if !others.is_empty() {
                distinct.groups.push(std::iter::once(first.row).chain(others).collect());
            }
        }
        distinct
    }

    /// Returns the number of distinct rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }
}

fn scan_rows(
    matrix: &VectorMatrix<'_>,
    kernels: &Kernels,
    pool: &Pool,
    progress: &dyn Progress,
) -> Result<Vec<Scanned>, DistinctError> {
    progress.begin("read vectors", Some(matrix.len() as u64));
    let batches = pool.map(matrix.len().div_ceil(BATCH_ROWS), |batch| {
        let rows = batch * BATCH_ROWS..matrix.len().min((batch + 1) * BATCH_ROWS);
        if progress.cancelled() {
            return Err(DistinctError::Cancelled);
        }
        let count = rows.len() as u64;
        let mut bits = Vec::with_capacity(matrix.dim());
        let scanned: Result<Vec<_>, _> =
            rows.map(|row| scan_row(matrix, Row(row as u32), kernels, &mut bits)).collect();
        progress.advance(count);
        scanned
    });
    progress.end();
    let mut scanned = Vec::with_capacity(matrix.len());
    for batch in batches {
        scanned.extend(batch?);
    }
    Ok(scanned)
}

fn scan_row(
    matrix: &VectorMatrix<'_>,
    row: Row,
    kernels: &Kernels,
    bits: &mut Vec<u32>,
) -> Result<Scanned, DistinctError> {
    let vector = matrix.vector(row);
    // Squares of finite f32 neither overflow nor vanish in f64.
    let squared_norm = kernels.dot(vector, vector);
    if !squared_norm.is_finite() {
        let reason = "the vector holds NaN or an infinite value";
        return Err(DistinctError::InvalidVector { row: row.0, reason });
    }
    if squared_norm <= 0.0 {
        return Err(DistinctError::InvalidVector { row: row.0, reason: "the vector is all zeros" });
    }
    bits.clear();
    // `+ 0.0` turns −0 into +0.
    bits.extend(vector.iter().map(|value| (value + 0.0).to_bits().to_le()));
    let hash = XxHash3_64::oneshot(bytemuck::cast_slice(bits));
    Ok(Scanned { hash, row, squared_norm })
}
