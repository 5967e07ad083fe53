//! AVX2 with the `VPDPBUSD` of AVX-VNNI: processors that multiply bytes as AVX-512 does, 32 at a time.
//!
//! It multiplies unsigned by signed bytes and adds four products to each i32, exactly. The sign test keeps a tile of 6
//! rows × 16 columns in 12 of the 16 registers.
#![expect(
    unsafe_code,
    reason = "loads by pointer, and calls from where the processor is not known"
)]

use std::arch::x86_64::*;

use super::avx2;
use crate::panel::{Columns, Found, GROUP_COLUMNS, Group, RowBlock, RowTile};
use crate::{Kernels, portable};

pub(crate) static KERNELS: Kernels = kernels!(
    AvxVnni,
    avx2::prefetch,
    avx2::dot,
    avx2::dot_f32,
    avx2::products_f32,
    dot_i8,
    dots_i8,
    avx2::squared_distances,
    hits,
    hits
);

/// Rows of a full tile.
const TILE_ROWS: usize = 6;

/// Blocks of up to this many rows, as scans have, are swept row by row: padding would cost more.
const FEW_ROWS: usize = 2;

/// Columns of a register.
const LANES: usize = 8;

/// Registers of a row of a full tile: 16 columns.
const TILE_REGISTERS: usize = 2;

/// Registers of a row and all columns of a group.
const GROUP_REGISTERS: usize = GROUP_COLUMNS / LANES;

/// The scores of a tile.
type Scores<const ROWS: usize, const REGISTERS: usize> = [[__m256i; REGISTERS]; ROWS];

#[target_feature(enable = "avx2,avxvnni")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    shifted_dot(a, b).wrapping_sub(128 * b.iter().map(|&code| i32::from(code)).sum::<i32>())
}

#[target_feature(enable = "avx2,avxvnni")]
fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    let correction = 128 * vector.iter().map(|&code| i32::from(code)).sum::<i32>();
    let rows = rows.chunks_exact(vector.len());
    dots.extend(rows.map(|row| shifted_dot(row, vector).wrapping_sub(correction)));
}

/// Returns `Σ (row + 128) · vector`; sums may wrap on the way.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn shifted_dot(row: &[i8], vector: &[i8]) -> i32 {
    let shift = _mm256_set1_epi8(i8::MIN);
    let (row_chunks, row_tail) = row.as_chunks::<64>();
    let (chunks, tail) = vector.as_chunks::<64>();
    let mut sums = [_mm256_setzero_si256(); 2];
    for (row, vector) in row_chunks.iter().zip(chunks) {
        let (row, vector) = (row.as_chunks::<32>().0, vector.as_chunks::<32>().0);
        for (sum, (row, vector)) in sums.iter_mut().zip(row.iter().zip(vector)) {
            let row = _mm256_xor_si256(avx2::load_codes(row), shift);
            *sum = _mm256_dpbusd_avx_epi32(*sum, row, avx2::load_codes(vector));
        }
    }
    let sum = _mm256_add_epi32(sums[0], sums[1]);
    let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b11_10_11_10>(sum));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_01_01_01>(sum));
    let tail_sum: i32 = 128 * tail.iter().map(|&code| i32::from(code)).sum::<i32>();
    _mm_cvtsi128_si32(sum).wrapping_add(portable::dot_i8(row_tail, tail)).wrapping_add(tail_sum)
}

#[target_feature(enable = "avx2,avxvnni")]
fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    if rows.biases.len() <= FEW_ROWS {
        sweep::<1, GROUP_REGISTERS, H>(rows, columns, hits);
    } else {
        sweep::<TILE_ROWS, TILE_REGISTERS, H>(rows, columns, hits);
    }
}

/// Compares tiles of rows and columns.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn sweep<const ROWS: usize, const REGISTERS: usize, H: Found>(
    rows: &RowBlock<'_>,
    columns: Columns<'_>,
    hits: &mut Vec<H>,
) {
    let mut tile = RowTile::<i32, ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(ROWS) {
        tile.fill(rows, first_row, i32::from_le_bytes);
        for group in rows.groups(columns, first_row, ROWS) {
            for first in (0..GROUP_REGISTERS).step_by(REGISTERS) {
                let scores = scores::<ROWS, REGISTERS>(&tile, &group, first);
                if any_passes(&scores) {
                    let first_column = group.first_column + first * LANES;
                    let stored = match H::HAS_SCORES {
                        true => scores.map(|scores| stored(scores)),
                        false => [[0; GROUP_COLUMNS]; ROWS],
                    };
                    for (row, mask) in passing(&scores).into_iter().enumerate() {
                        H::push(hits, first_row + row, first_column, mask, &stored[row]);
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "avx2")]
fn stored<const REGISTERS: usize>(scores: [__m256i; REGISTERS]) -> [i32; GROUP_COLUMNS] {
    let mut stored = [0; GROUP_COLUMNS];
    for (stored, score) in stored.as_chunks_mut::<LANES>().0.iter_mut().zip(scores) {
        // SAFETY: the array is the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), score) };
    }
    stored
}

/// Returns the scores of a tile with some registers of columns, from the first one on.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn scores<const ROWS: usize, const REGISTERS: usize>(
    tile: &RowTile<i32, ROWS>,
    group: &Group<'_>,
    first: usize,
) -> Scores<ROWS, REGISTERS> {
    let biases: &[[i32; LANES]] = &group.biases.shifted.as_chunks().0[first..first + REGISTERS];
    let mut scores = [[_mm256_setzero_si256(); REGISTERS]; ROWS];
    for (scores, &bias) in scores.iter_mut().zip(&tile.biases) {
        for (score, column_biases) in scores.iter_mut().zip(biases) {
            let bias = _mm256_set1_epi32(bias);
            *score = _mm256_add_epi32(avx2::load_i32(column_biases), bias);
        }
    }
    for (rows, step) in tile.steps().iter().zip(group.steps) {
        if ROWS == 1 {
            // Memory is slower than the arithmetic of one row.
            for line in step.0.as_chunks::<64>().0 {
                _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(avx2::COLUMN_BYTES_AHEAD));
            }
        }
        let columns: &[[i8; 32]] = &step.0.as_chunks().0[first..first + REGISTERS];
        let columns: [__m256i; REGISTERS] =
            std::array::from_fn(|at| avx2::load_codes(&columns[at]));
        for (scores, &row) in scores.iter_mut().zip(rows) {
            let row = _mm256_set1_epi32(row);
            for (score, column) in scores.iter_mut().zip(columns) {
                *score = _mm256_dpbusd_avx_epi32(*score, row, column);
            }
        }
    }
    scores
}

/// Tells whether a score is not negative: whether the signs' conjunction is clear somewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn any_passes<const ROWS: usize, const REGISTERS: usize>(scores: &Scores<ROWS, REGISTERS>) -> bool {
    let ones = _mm256_set1_epi32(-1);
    let all = scores.as_flattened().iter().fold(ones, |all, &score| _mm256_and_si256(all, score));
    avx2::sign_mask(all) != 0xff
}

/// Returns the columns that pass with each row, one bit each.
#[inline]
#[target_feature(enable = "avx2")]
fn passing<const ROWS: usize, const REGISTERS: usize>(
    scores: &Scores<ROWS, REGISTERS>,
) -> [u32; ROWS] {
    // All masks first: a loop that pushes is not unrolled, and would have every tile's scores stored.
    let mut masks = [0_u32; ROWS];
    for (mask, scores) in masks.iter_mut().zip(scores) {
        for (at, &score) in scores.iter().enumerate() {
            *mask |= (!avx2::sign_mask(score) & 0xff) << (at * LANES);
        }
    }
    masks
}
