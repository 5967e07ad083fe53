//! NEON with the `SDOT` of ARMv8.2 (most processors since 2018): four products of signed bytes are added to each i32,
//! exactly.
//!
//! The sign test keeps a tile of 6 rows × 16 columns in 24 of the 32 registers.
#![expect(
    unsafe_code,
    reason = "an instruction without a stable intrinsic, and calls from where the processor is not known"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::neon;
use crate::panel::{Columns, Found, GROUP_COLUMNS, Group, RowBlock, RowTile};
use crate::{Kernels, portable};

pub(crate) static KERNELS: Kernels = kernels!(
    NeonDot,
    neon::prefetch,
    neon::dot,
    neon::dot_f32,
    neon::products_f32,
    dot_i8,
    dots_i8,
    neon::squared_distances,
    hits,
    hits
);

/// Rows of a tile.
const TILE_ROWS: usize = 6;

/// Columns of a register.
const LANES: usize = 4;

/// Registers of a row of a tile.
const TILE_REGISTERS: usize = 4;

const TILE_COLUMNS: usize = TILE_REGISTERS * LANES;

/// The scores of a tile.
type Scores = [[int32x4_t; TILE_REGISTERS]; TILE_ROWS];

/// Adds the products of four bytes each.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn add_products(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the function has the feature; the instruction reads and writes these registers alone.
    unsafe {
        asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum,
            in(vreg) a,
            in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

#[target_feature(enable = "neon,dotprod")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_chunks, a_tail) = a.as_chunks::<64>();
    let (b_chunks, b_tail) = b.as_chunks::<64>();
    let mut sums = [vdupq_n_s32(0); 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = add_products(*sum, neon::load_i8(a), neon::load_i8(b));
        }
    }
    let [s0, s1, s2, s3] = sums;
    let sum = vaddvq_s32(vaddq_s32(vaddq_s32(s0, s1), vaddq_s32(s2, s3)));
    sum.wrapping_add(portable::dot_i8(a_tail, b_tail))
}

#[target_feature(enable = "neon,dotprod")]
fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    dots.extend(rows.chunks_exact(vector.len()).map(|row| dot_i8(vector, row)));
}

/// Compares tiles of rows and columns.
#[target_feature(enable = "neon,dotprod")]
fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    let mut tile = RowTile::<i32, TILE_ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, neon::join_signed);
        for group in rows.groups(columns, first_row, TILE_ROWS) {
            for first_column in (0..GROUP_COLUMNS).step_by(TILE_COLUMNS) {
                let scores = scores(&tile, &group, first_column / LANES);
                neon::push(&scores, first_row, group.first_column + first_column, hits);
            }
        }
    }
}

/// Returns the scores of a tile that starts at register `first` of the group.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn scores(tile: &RowTile<i32, TILE_ROWS>, group: &Group<'_>, first: usize) -> Scores {
    let biases: &[[i32; LANES]] = &group.biases.signed.as_chunks().0[first..][..TILE_REGISTERS];
    let mut scores = [[vdupq_n_s32(0); TILE_REGISTERS]; TILE_ROWS];
    for (scores, &bias) in scores.iter_mut().zip(&tile.biases) {
        for (score, column_biases) in scores.iter_mut().zip(biases) {
            *score = vaddq_s32(neon::load_i32(column_biases), vdupq_n_s32(bias));
        }
    }
    for (rows, step) in tile.steps().iter().zip(group.steps) {
        let columns: &[[i8; 16]] = &step.0.as_chunks().0[first..][..TILE_REGISTERS];
        let columns: [int8x16_t; TILE_REGISTERS] =
            std::array::from_fn(|at| neon::load_i8(&columns[at]));
        for (scores, &row) in scores.iter_mut().zip(rows) {
            let row = vreinterpretq_s8_s32(vdupq_n_s32(row));
            for (score, column) in scores.iter_mut().zip(columns) {
                *score = add_products(*score, row, column);
            }
        }
    }
    scores
}
