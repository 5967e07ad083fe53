//! [`DistinctRows`]: validates rows and collapses bit-equal vectors, for the join and for the graph.

use std::path::Path;

use bytemuck::{Pod, Zeroable};
use memfold_simd::Kernels;

use crate::join::JoinError;
use crate::sample::hash_values;
use crate::{ExternalSort, Pool, Progress, Row, VectorMatrix};

/// Rows for each task and for each look at the wish to stop.
const BATCH_ROWS: usize = 1_024;

/// Rows that are read before they are sorted in.
const WAVE_ROWS: usize = 256 * BATCH_ROWS;

/// Rows that are sorted in memory where there is a folder for more: 24 MiB.
const ROWS_IN_MEMORY: usize = 1 << 20;

/// The distinct rows of a matrix, ascending, with norm and hash of each.
#[derive(Debug, Default)]
pub(crate) struct DistinctRows {
    /// The smallest row of each group of equal vectors.
    pub(crate) rows: Vec<Row>,
    /// The canonical squared norm of each.
    pub(crate) squared_norms: Vec<f64>,
    /// A hash of each vector's values: spreads samples whatever the order of rows.
    pub(crate) hashes: Vec<u64>,
    /// Groups of two or more: members ascending, groups by their smallest row.
    pub(crate) groups: Vec<Vec<Row>>,
    /// blake3 of the hashes of all rows, in order.
    pub(crate) digest: [u8; 32],
}

/// Hash and norm of a row, sorted by hash and row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Scanned {
    hash: u64,
    row: u64,
    squared_norm_bits: u64,
}

impl DistinctRows {
    /// Reads every row once, refuses vectors without a direction, and groups equal ones.
    ///
    /// Values are compared as numbers: −0 equals +0. Sorts in `scratch_dir`, where there is one; memory then holds 24 bytes of
    /// each distinct row.
    pub(crate) fn of(
        matrix: &VectorMatrix<'_>,
        kernels: &Kernels,
        pool: &Pool,
        scratch_dir: Option<&Path>,
        progress: &dyn Progress,
    ) -> Result<Self, JoinError> {
        let failed = JoinError::scratch(scratch_dir);
        let mut sort = ExternalSort::new(scratch_dir, ROWS_IN_MEMORY);
        let digest = scan_rows(matrix, kernels, pool, progress, |scanned| {
            sort.push(scanned).map_err(&failed)
        })?;
        // Rows of one hash that differ, each with the rows equal to it.
        let mut run: Vec<(Scanned, Vec<Row>)> = Vec::new();
        let mut distinct = Classes::default();
        for one in sort.finish().map_err(&failed)?.iter() {
            if run.first().is_some_and(|(first, _)| first.hash != one.hash) {
                run.drain(..).for_each(|(first, others)| distinct.push(first, others));
            }
            let vector = matrix.vector(one.row());
            let equal = run.iter_mut().find(|(first, _)| matrix.vector(first.row()) == vector);
            match equal {
                Some((_, others)) => others.push(one.row()),
                None => run.push((one, Vec::new())),
            }
        }
        run.into_iter().for_each(|(first, others)| distinct.push(first, others));
        Ok(distinct.in_order(pool, digest))
    }

    /// Returns the number of distinct rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }
}

impl Scanned {
    const fn row(&self) -> Row {
        // Written from 32 bits.
        Row(self.row as u32)
    }
}

/// Distinct rows by their hashes, and groups.
#[derive(Default)]
struct Classes {
    firsts: Vec<Scanned>,
    groups: Vec<Vec<Row>>,
}

impl Classes {
    fn push(&mut self, first: Scanned, others: Vec<Row>) {
        self.firsts.push(first);
        if !others.is_empty() {
            self.groups.push(std::iter::once(first.row()).chain(others).collect());
        }
    }

    fn in_order(mut self, pool: &Pool, digest: [u8; 32]) -> DistinctRows {
        pool.sort_by_key(&mut self.firsts, |first| first.row);
        pool.sort_by_key(&mut self.groups, |group| group[0]);
        let norm = |first: &Scanned| f64::from_bits(first.squared_norm_bits);
        DistinctRows {
            rows: self.firsts.iter().map(Scanned::row).collect(),
            squared_norms: self.firsts.iter().map(norm).collect(),
            hashes: self.firsts.iter().map(|first| first.hash).collect(),
            groups: self.groups,
            digest,
        }
    }
}

/// Passes on hash and norm of each row, in order of rows, and returns the [`DistinctRows::digest`].
pub(crate) fn scan_rows(
    matrix: &VectorMatrix<'_>,
    kernels: &Kernels,
    pool: &Pool,
    progress: &dyn Progress,
    mut each: impl FnMut(Scanned) -> Result<(), JoinError>,
) -> Result<[u8; 32], JoinError> {
    let mut hasher = blake3::Hasher::new();
    progress.begin("read vectors", Some(matrix.len() as u64));
    let mut read_wave = |start: usize| {
        let count = WAVE_ROWS.min(matrix.len() - start);
        let batches = pool.map_batches(count, BATCH_ROWS, progress, |rows| {
            progress.advance(rows.len() as u64);
            let mut bits = Vec::with_capacity(matrix.dim());
            // A matrix has fewer than 2³² rows.
            let mut scan = |row| scan_row(matrix, Row((start + row) as u32), kernels, &mut bits);
            rows.map(&mut scan).collect::<Result<Vec<_>, _>>()
        });
        for batch in batches.ok_or(JoinError::Cancelled)? {
            for one in batch? {
                hasher.update(&one.hash.to_le_bytes());
                each(one)?;
            }
        }
        Ok(())
    };
    let read = (0..matrix.len()).step_by(WAVE_ROWS).try_for_each(&mut read_wave);
    progress.end();
    read.map(|()| *hasher.finalize().as_bytes())
}

fn scan_row(
    matrix: &VectorMatrix<'_>,
    row: Row,
    kernels: &Kernels,
    bits: &mut Vec<u32>,
) -> Result<Scanned, JoinError> {
    let vector = matrix.vector(row);
    // Squares of finite f32 neither overflow nor vanish in f64.
    let squared_norm = kernels.dot(vector, vector);
    if !squared_norm.is_finite() {
        let reason = "the vector holds NaN or an infinite value";
        return Err(JoinError::InvalidVector { row: row.0, reason });
    }
    if squared_norm <= 0.0 {
        return Err(JoinError::InvalidVector { row: row.0, reason: "the vector is all zeros" });
    }
    let hash = hash_values(vector, bits);
    Ok(Scanned { hash, row: row.0.into(), squared_norm_bits: squared_norm.to_bits() })
}
