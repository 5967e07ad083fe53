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
use crate::panel::{
    Columns, GROUP_COLUMNS, Group, Hit, RowBlock, RowTile, ScoredHit, push_mask, push_scored,
};
use crate::portable;
use crate::{Kernels, Level};

/// Returns this level's table, or `None` where the processor lacks it.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    Level::AvxVnni.is_available().then_some(&KERNELS)
}

static KERNELS: Kernels = Kernels {
    level: Level::AvxVnni,
    // SAFETY: `kernels` hands this out only where the processor has the level, which includes AVX2.
    dot: |a, b| unsafe { avx2::dot(a, b) },
    // SAFETY: `kernels` hands this out only where the processor has the level, which includes AVX2.
    dot_f32: |a, b| unsafe { avx2::dot_f32(a, b) },
    // SAFETY: `kernels` hands this out only where the processor has the level, which includes AVX2.
    products_f32: |rows, panel, count, products| unsafe {
        avx2::products_f32(rows, panel, count, products);
    },
    // SAFETY: `kernels` hands this out only where the processor has the level.
    dot_i8: |a, b| unsafe { dot_i8(a, b) },
    // SAFETY: `kernels` hands this out only where the processor has the level.
    dots_i8: |vector, rows, dots| unsafe { dots_i8(vector, rows, dots) },
    // SAFETY: `kernels` hands this out only where the processor has the level, which includes AVX2.
    squared_distances: |vector, rows, picked, to| unsafe {
        avx2::squared_distances(vector, rows, picked, to);
    },
    prefetch: avx2::prefetch,
    // SAFETY: `kernels` hands this out only where the processor has the level.
    hits: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // Codes of 8 bits take as long.
    // SAFETY: `kernels` hands this out only where the processor has the level.
    hits_i7: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // SAFETY: `kernels` hands this out only where the processor has the level.
    scored_hits: |rows, columns, hits| unsafe { self::scored_hits(rows, columns, hits) },
};

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
fn hits(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<Hit>) {
    if rows.biases.len() <= FEW_ROWS {
        sweep::<1, GROUP_REGISTERS, _>(rows, columns, hits, |s, row, column, hits| {
            push_passing(s, row, column, hits)
        });
    } else {
        let push = |s: &Scores<TILE_ROWS, TILE_REGISTERS>, row, column, hits: &mut _| {
            push_passing(s, row, column, hits)
        };
        sweep::<TILE_ROWS, TILE_REGISTERS, _>(rows, columns, hits, push);
    }
}

#[target_feature(enable = "avx2,avxvnni")]
fn scored_hits(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<ScoredHit>) {
    if rows.biases.len() <= FEW_ROWS {
        sweep::<1, GROUP_REGISTERS, _>(rows, columns, hits, |s, row, column, hits| {
            push_scores(s, row, column, hits)
        });
    } else {
        let push = |s: &Scores<TILE_ROWS, TILE_REGISTERS>, row, column, hits: &mut _| {
            push_scores(s, row, column, hits)
        };
        sweep::<TILE_ROWS, TILE_REGISTERS, _>(rows, columns, hits, push);
    }
}

/// Compares tiles of rows and columns; `push` appends what passes of a tile, whose first row and first column
/// it is told.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn sweep<const ROWS: usize, const REGISTERS: usize, T>(
    rows: &RowBlock<'_>,
    columns: Columns<'_>,
    hits: &mut Vec<T>,
    push: impl Fn(&Scores<ROWS, REGISTERS>, usize, usize, &mut Vec<T>),
) {
    let mut tile = RowTile::<i32, ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(ROWS) {
        tile.fill(rows, first_row, i32::from_le_bytes);
        for group in rows.groups(columns, first_row, ROWS) {
            for first in (0..GROUP_REGISTERS).step_by(REGISTERS) {
                let scores = scores(&tile, &group, first);
                if any_passes(&scores) {
                    push(&scores, first_row, group.first_column + first * LANES, hits);
                }
            }
        }
    }
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

#[inline]
#[target_feature(enable = "avx2")]
fn push_passing<const ROWS: usize, const REGISTERS: usize>(
    scores: &Scores<ROWS, REGISTERS>,
    first_row: usize,
    first_column: usize,
    hits: &mut Vec<Hit>,
) {
    for (row, mask) in passing(scores).into_iter().enumerate() {
        push_mask(hits, first_row + row, first_column, mask);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn push_scores<const ROWS: usize, const REGISTERS: usize>(
    scores: &Scores<ROWS, REGISTERS>,
    first_row: usize,
    first_column: usize,
    hits: &mut Vec<ScoredHit>,
) {
    for (row, (mask, scores)) in passing(scores).into_iter().zip(scores).enumerate() {
        let mut stored = [0; GROUP_COLUMNS];
        for (stored, &score) in stored.as_chunks_mut::<LANES>().0.iter_mut().zip(scores) {
            // SAFETY: the array is the 32 bytes that are written.
            unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), score) };
        }
        push_scored(hits, first_row + row, first_column, mask, &stored);
    }
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
