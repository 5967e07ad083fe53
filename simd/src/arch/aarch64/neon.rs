//! NEON.
//!
//! Base NEON multiplies signed by signed bytes (`SMULL`) and adds pairs of the 16-bit products into
//! an i32 (`SADALP`), exactly; so rows are shifted back. The sign test keeps a tile of 4 rows × 8
//! columns in 16 of the 32 registers; each column has two partial sums, which are added at the end.
#![expect(
    unsafe_code,
    reason = "loads by pointer, and calls from where the processor is not known"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use crate::float_panel::{FloatPanel, FloatStep, FloatTile, GROUP_COLUMNS};
use crate::panel::{Columns, Found, Group, GroupStep, RowBlock, RowTile, STEP_DIMS, signed_codes};
use crate::portable::picked_row;
use crate::{Kernels, canonical, portable};

pub(crate) static KERNELS: Kernels = kernels!(
    Neon,
    prefetch,
    dot,
    dot_f32,
    products_f32,
    dot_i8,
    dots_i8,
    squared_distances,
    hits,
    hits
);

/// Rows of a tile.
const TILE_ROWS: usize = 4;

/// Columns of a tile: two registers of four.
const TILE_COLUMNS: usize = 8;

/// Picked rows that are on their way from memory.
const FETCHED_AHEAD: usize = 8;

/// The scores of a tile.
type Scores = [[int32x4_t; 2]; TILE_ROWS];

#[target_feature(enable = "neon")]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sums = [[vdupq_n_f64(0.0); 2]; 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<4>().0, b.as_chunks::<4>().0);
        for ([low, high], (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            let (a, b) = (load_f32(a), load_f32(b));
            let a_low = vcvt_f64_f32(vget_low_f32(a));
            *low = vfmaq_f64(*low, a_low, vcvt_f64_f32(vget_low_f32(b)));
            *high = vfmaq_f64(*high, vcvt_high_f64_f32(a), vcvt_high_f64_f32(b));
        }
    }
    let mut lanes = [0.0; canonical::LANES];
    for (lanes, sum) in lanes.as_chunks_mut::<2>().0.iter_mut().zip(sums.as_flattened()) {
        // SAFETY: the array is the 16 bytes that are written.
        unsafe { vst1q_f64(lanes.as_mut_ptr(), *sum) };
    }
    canonical::finish(lanes, a_tail, b_tail)
}

#[target_feature(enable = "neon")]
pub(super) fn products_f32(
    rows: &[&[f32]],
    panel: &FloatPanel,
    count: usize,
    products: &mut Vec<f32>,
) {
    panel.sweep(rows, count, products, |rows, steps| float_tile(rows, steps));
}

/// Half a group at a time: 4 rows × 16 columns take 16 of the 32 registers.
#[target_feature(enable = "neon")]
fn float_tile(rows: &[&[f32]; TILE_ROWS], steps: &[FloatStep]) -> FloatTile<TILE_ROWS> {
    let mut tile = [[0.0; GROUP_COLUMNS]; TILE_ROWS];
    // Slices of one known length: the loop needs no further checks.
    let rows = rows.map(|row| &row[..steps.len()]);
    for half in [0, 4] {
        let mut sums = [[vdupq_n_f32(0.0); 4]; TILE_ROWS];
        for (at, step) in steps.iter().enumerate() {
            let columns: &[[f32; 4]] = step.0.as_chunks().0;
            for (sums, row) in sums.iter_mut().zip(rows) {
                for (sum, column) in sums.iter_mut().zip(&columns[half..]) {
                    *sum = vfmaq_n_f32(*sum, load_f32(column), row[at]);
                }
            }
        }
        for (tile, sums) in tile.iter_mut().zip(sums) {
            for (lanes, sum) in tile.as_chunks_mut::<4>().0[half..].iter_mut().zip(sums) {
                // SAFETY: the array is the 16 bytes that are written.
                unsafe { vst1q_f32(lanes.as_mut_ptr(), sum) };
            }
        }
    }
    tile
}

#[target_feature(enable = "neon")]
fn load_f32(x: &[f32; 4]) -> float32x4_t {
    // SAFETY: the array is the 16 bytes that are read.
    unsafe { vld1q_f32(x.as_ptr()) }
}

#[target_feature(enable = "neon")]
pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sums = [vdupq_n_f32(0.0); 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<4>().0, b.as_chunks::<4>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = vfmaq_f32(*sum, load_f32(a), load_f32(b));
        }
    }
    let [s0, s1, s2, s3] = sums;
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3))) + tail
}

#[target_feature(enable = "neon")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sums = [vdupq_n_s32(0); 2];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        sums = add_products(sums, load_i8(a), load_i8(b));
    }
    vaddvq_s32(vaddq_s32(sums[0], sums[1])) + portable::dot_i8(a_tail, b_tail)
}

#[target_feature(enable = "neon")]
fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    dots.extend(rows.chunks_exact(vector.len()).map(|row| dot_i8(vector, row)));
}

#[target_feature(enable = "neon")]
pub(super) fn squared_distances(
    vector: &[i8],
    rows: &[i8],
    picked: &[u32],
    distances: &mut Vec<i32>,
) {
    let dim = vector.len();
    for (at, &row) in picked.iter().enumerate() {
        if let Some(&ahead) = picked.get(at + FETCHED_AHEAD) {
            prefetch_i8(picked_row(rows, dim, ahead));
        }
        distances.push(squared_distance(vector, picked_row(rows, dim, row)));
    }
}

#[target_feature(enable = "neon")]
fn squared_distance(a: &[i8], b: &[i8]) -> i32 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sums = [vdupq_n_u32(0); 2];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        // As unsigned numbers these are right up to 255.
        let difference = vreinterpretq_u8_s8(vabdq_s8(load_i8(a), load_i8(b)));
        let low = vget_low_u8(difference);
        sums[0] = vpadalq_u16(sums[0], vmull_u8(low, low));
        sums[1] = vpadalq_u16(sums[1], vmull_high_u8(difference, difference));
    }
    let sum = vaddvq_u32(vaddq_u32(sums[0], sums[1])).cast_signed();
    sum + portable::squared_distance(a_tail, b_tail)
}

/// Asks for every line of the bytes.
pub(super) fn prefetch(bytes: &[u8]) {
    bytes.chunks(64).for_each(|line| prefetch_line(line.as_ptr()));
}

fn prefetch_i8(codes: &[i8]) {
    codes.chunks(64).for_each(|line| prefetch_line(line.as_ptr().cast()));
}

#[inline]
fn prefetch_line(line: *const u8) {
    // There is no stable intrinsic for it.
    // SAFETY: the instruction reads nothing that a program could see, and no address is wrong.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
}

#[target_feature(enable = "neon")]
pub(super) fn load_i8(x: &[i8; 16]) -> int8x16_t {
    // SAFETY: the array is the 16 bytes that are read.
    unsafe { vld1q_s8(x.as_ptr()) }
}

#[target_feature(enable = "neon")]
pub(super) fn load_i32(x: &[i32; 4]) -> int32x4_t {
    // SAFETY: the array is the 16 bytes that are read.
    unsafe { vld1q_s32(x.as_ptr()) }
}

/// Adds pairs of products: of the lower eight bytes to the first sums, of the upper to the second.
#[inline]
#[target_feature(enable = "neon")]
fn add_products([low, high]: [int32x4_t; 2], a: int8x16_t, b: int8x16_t) -> [int32x4_t; 2] {
    let low_products = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    [vpadalq_s16(low, low_products), vpadalq_s16(high, vmull_high_s8(a, b))]
}

/// Compares tiles of rows and columns.
#[target_feature(enable = "neon")]
fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    let mut tile = RowTile::<i32, TILE_ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, join_signed);
        for group in rows.groups(columns, first_row, TILE_ROWS) {
            for first_column in (0..group.biases.signed.len()).step_by(TILE_COLUMNS) {
                push(
                    &scores(&tile, &group, first_column),
                    first_row,
                    group.first_column + first_column,
                    hits,
                );
            }
        }
    }
}

/// Appends the hits of a tile.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn push<const ROWS: usize, const REGISTERS: usize, H: Found>(
    scores: &[[int32x4_t; REGISTERS]; ROWS],
    first_row: usize,
    first_column: usize,
    hits: &mut Vec<H>,
) {
    if any_passes(scores) {
        for (row, scores) in scores.iter().enumerate() {
            let scores = stored(scores);
            let mask = passing(&scores[..4 * REGISTERS]);
            H::push(hits, first_row + row, first_column, mask, &scores);
        }
    }
}

/// Joins four codes, shifted back to signed.
pub(super) fn join_signed(codes: [u8; STEP_DIMS]) -> i32 {
    i32::from_le_bytes(signed_codes(codes).map(i8::cast_unsigned))
}

#[inline]
#[target_feature(enable = "neon")]
fn scores(tile: &RowTile<i32, TILE_ROWS>, group: &Group<'_>, first_column: usize) -> Scores {
    let zero = vdupq_n_s32(0);
    // Row, register of columns, half of that register.
    let mut sums = [[[zero; 2]; 2]; TILE_ROWS];
    for (rows, columns) in tile.steps().iter().zip(group.steps) {
        let columns = load_columns(columns, first_column);
        for (sums, &row) in sums.iter_mut().zip(rows) {
            let row = vreinterpretq_s8_s32(vdupq_n_s32(row));
            for (sums, column) in sums.iter_mut().zip(columns) {
                *sums = add_products(*sums, row, column);
            }
        }
    }
    let biases = load_biases(group, first_column);
    let mut scores = [[zero; 2]; TILE_ROWS];
    for ((scores, sums), &row_bias) in scores.iter_mut().zip(sums).zip(&tile.biases) {
        for ((score, [low, high]), bias) in scores.iter_mut().zip(sums).zip(biases) {
            let bias = vaddq_s32(bias, vdupq_n_s32(row_bias));
            *score = vaddq_s32(vpaddq_s32(low, high), bias);
        }
    }
    scores
}

#[inline]
#[target_feature(enable = "neon")]
fn load_columns(step: &GroupStep, first_column: usize) -> [int8x16_t; 2] {
    let quads: &[[i8; 16]] = step.0.as_chunks().0;
    [load_i8(&quads[first_column / 4]), load_i8(&quads[first_column / 4 + 1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn load_biases(group: &Group<'_>, first_column: usize) -> [int32x4_t; 2] {
    let quads: &[[i32; 4]] = group.biases.signed.as_chunks().0;
    [load_i32(&quads[first_column / 4]), load_i32(&quads[first_column / 4 + 1])]
}

/// Tells whether a score of a tile is not negative.
#[inline]
#[target_feature(enable = "neon")]
fn any_passes<const ROWS: usize, const REGISTERS: usize>(
    scores: &[[int32x4_t; REGISTERS]; ROWS],
) -> bool {
    let mut largest = vdupq_n_s32(i32::MIN);
    for &score in scores.as_flattened() {
        largest = vmaxq_s32(largest, score);
    }
    vmaxvq_s32(largest) >= 0
}

/// Returns a row's scores, four of a register.
#[inline]
#[target_feature(enable = "neon")]
fn stored<const REGISTERS: usize>(scores: &[int32x4_t; REGISTERS]) -> [i32; GROUP_COLUMNS] {
    let mut stored = [0; GROUP_COLUMNS];
    for (stored, &score) in stored.as_chunks_mut::<4>().0.iter_mut().zip(scores) {
        // SAFETY: the array is the 16 bytes that are written.
        unsafe { vst1q_s32(stored.as_mut_ptr(), score) };
    }
    stored
}

/// Returns the columns that pass, one bit each.
#[inline]
fn passing(scores: &[i32]) -> u32 {
    let passing = scores.iter().enumerate().map(|(column, &score)| u32::from(score >= 0) << column);
    passing.sum()
}
