//! Kernels in plain Rust: the twin that every processor has.

use crate::float_panel::{self, FloatPanel};
use crate::panel::{Columns, Found, GROUP_COLUMNS, Group, RowBlock, STEP_DIMS, signed_codes};
use crate::{Kernels, Level, canonical};

/// The table of level `scalar`.
pub(crate) static KERNELS: Kernels = Kernels {
    level: Level::Scalar,
    dot: canonical::dot,
    dot_f32,
    products_f32,
    dot_i8,
    dots_i8,
    squared_distances,
    prefetch: |_| {},
    hits,
    hits_i7: hits,
    scored_hits: hits,
};

/// Accumulators of [`dot_f32`], so that additions do not wait for each other.
const F32_LANES: usize = 32;

fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; F32_LANES];
    let (a_chunks, a_tail) = a.as_chunks::<F32_LANES>();
    let (b_chunks, b_tail) = b.as_chunks::<F32_LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + tail
}

fn products_f32(rows: &[&[f32]], panel: &FloatPanel, count: usize, products: &mut Vec<f32>) {
    panel.sweep::<1>(rows, count, products, |[row], steps| {
        let mut sums = [0.0_f32; float_panel::GROUP_COLUMNS];
        for (&component, step) in row.iter().zip(steps) {
            for (sum, column) in sums.iter_mut().zip(&step.0) {
                *sum += component * column;
            }
        }
        [sums]
    });
}

/// Returns the exact sum; also the tail of the other levels.
pub(crate) fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(i16::from(a) * i16::from(b))).sum()
}

fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    dots.extend(rows.chunks_exact(vector.len()).map(|row| dot_i8(vector, row)));
}

fn squared_distances(vector: &[i8], rows: &[i8], picked: &[u32], distances: &mut Vec<i32>) {
    let row = |&row: &u32| squared_distance(vector, picked_row(rows, vector.len(), row));
    distances.extend(picked.iter().map(row));
}

pub(crate) fn squared_distance(a: &[i8], b: &[i8]) -> i32 {
    let difference = |(&a, &b): (&i8, &i8)| i32::from(i16::from(a) - i16::from(b));
    a.iter().zip(b).map(difference).map(|difference| difference * difference).sum()
}

/// Returns one of many rows of `dim` codes.
#[inline]
pub(crate) fn picked_row(rows: &[i8], dim: usize, row: u32) -> &[i8] {
    &rows[row as usize * dim..][..dim]
}

fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    for (row, &bias) in rows.biases.iter().enumerate() {
        let codes = &rows.shifted_codes[row * rows.dim..][..rows.dim];
        for group in rows.groups(columns, row, 1) {
            let scores = scores(codes, bias, &group);
            H::push(hits, row, group.first_column, passing(&scores), &scores);
        }
    }
}

/// Returns the scores of a row with the group's columns.
fn scores(row: &[u8], row_bias: i32, group: &Group<'_>) -> [i32; GROUP_COLUMNS] {
    let mut scores = group.biases.signed.map(|bias| bias.wrapping_add(row_bias));
    let row_steps: &[[u8; STEP_DIMS]] = row.as_chunks().0;
    for (row, columns) in row_steps.iter().zip(group.steps) {
        let row = signed_codes(*row);
        let columns: &[[i8; STEP_DIMS]] = columns.0.as_chunks().0;
        for (score, column) in scores.iter_mut().zip(columns) {
            for (row, &column) in row.into_iter().zip(column) {
                *score = score.wrapping_add(i32::from(row) * i32::from(column));
            }
        }
    }
    scores
}

/// Returns the columns that pass, one bit each.
fn passing(scores: &[i32; GROUP_COLUMNS]) -> u32 {
    let mut mask = 0;
    for (column, &score) in scores.iter().enumerate() {
        mask |= u32::from(score >= 0) << column;
    }
    const { assert!(GROUP_COLUMNS == u32::BITS as usize) };
    mask
}
