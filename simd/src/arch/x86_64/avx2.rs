//! AVX2 and FMA.
//!
//! `VPMADDUBSW` would saturate, so bytes are widened: `VPMADDWD` multiplies 16-bit codes and adds
//! pairs into an i32, exactly. The sign test keeps a tile of 6 rows × 8 columns in 12 of the 16
//! registers; each column has two partial sums, which are added at the end.
//!
//! Codes of 7 bits do not saturate (two products are at most 127 · 63 · 2), so their sign test multiplies bytes: twice the
//! products in one instruction, and half the loads. Sums of 16 bits wrap on the way and are exact at the end, as the
//! lengths of [`I7_SQUARED_LENGTH_MAX`](crate::panel::I7_SQUARED_LENGTH_MAX) keep the whole product within 16 bits.
#![expect(
    unsafe_code,
    reason = "loads by pointer, and calls from where the processor is not known"
)]

use std::arch::x86_64::*;

use crate::float_panel::{FloatPanel, FloatStep, FloatTile, GROUP_COLUMNS};
use crate::panel::{Columns, Found, Group, GroupStep, Hit, RowBlock, RowTile, STEP_DIMS};
use crate::portable::picked_row;
use crate::{Kernels, canonical, portable};

pub(crate) static KERNELS: Kernels = kernels!(
    Avx2,
    prefetch,
    dot,
    dot_f32,
    products_f32,
    dot_i8,
    dots_i8,
    squared_distances,
    hits,
    hits_i7
);

/// Rows of a full tile.
const TILE_ROWS: usize = 6;

/// Blocks of up to this many rows, as scans have, are swept row by row: padding would cost more.
const FEW_ROWS: usize = 2;

/// Columns of a tile.
const TILE_COLUMNS: usize = 8;

/// Columns of a tile of 7-bit codes.
const I7_COLUMNS: usize = 16;

/// Unsigned rows of 7-bit codes are `code + 64`; a block holds `code + 128`.
const I7_SHIFT: u8 = 64;

/// Picked rows that are on their way from memory.
const FETCHED_AHEAD: usize = 8;

/// Rows whose sums are reduced together.
pub(super) const SUMMED_TOGETHER: usize = 4;

/// Columns in the order in which `VPHADDD` leaves them.
const COLUMN_ORDER: [u32; TILE_COLUMNS] = [0, 1, 4, 5, 2, 3, 6, 7];

/// The scores of a tile, columns in [`COLUMN_ORDER`].
type Scores<const ROWS: usize> = [__m256i; ROWS];

#[target_feature(enable = "avx2,fma")]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sums = [_mm256_setzero_pd(); 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<4>().0, b.as_chunks::<4>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = _mm256_fmadd_pd(widen(a), widen(b), *sum);
        }
    }
    let mut lanes = [0.0; canonical::LANES];
    for (lanes, sum) in lanes.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        // SAFETY: the array is the 32 bytes that are written.
        unsafe { _mm256_storeu_pd(lanes.as_mut_ptr(), sum) };
    }
    canonical::finish(lanes, a_tail, b_tail)
}

#[target_feature(enable = "avx2")]
fn widen(x: &[f32; 4]) -> __m256d {
    // SAFETY: the array is the 16 bytes that are read.
    _mm256_cvtps_pd(unsafe { _mm_loadu_ps(x.as_ptr()) })
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_tail) = a.as_chunks::<32>();
    let (b_chunks, b_tail) = b.as_chunks::<32>();
    let mut sums = [_mm256_setzero_ps(); 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = _mm256_fmadd_ps(load_f32(a), load_f32(b), *sum);
        }
    }
    let [s0, s1, s2, s3] = sums;
    let sum = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    let mut lanes = [0.0; 8];
    // SAFETY: the array is the 32 bytes that are written.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + tail
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn products_f32(
    rows: &[&[f32]],
    panel: &FloatPanel,
    count: usize,
    products: &mut Vec<f32>,
) {
    if rows.len() <= FEW_ROWS {
        panel.sweep::<1>(rows, count, products, |rows, steps| float_tile(rows, steps));
    } else {
        panel.sweep::<TILE_ROWS>(rows, count, products, |rows, steps| float_tile(rows, steps));
    }
}

/// Half a group at a time: 6 rows × 16 columns take 12 of the 16 registers.
#[target_feature(enable = "avx2,fma")]
fn float_tile<const ROWS: usize>(rows: &[&[f32]; ROWS], steps: &[FloatStep]) -> FloatTile<ROWS> {
    let mut tile = [[0.0; GROUP_COLUMNS]; ROWS];
    // Slices of one known length: the loop needs no further checks.
    let rows = rows.map(|row| &row[..steps.len()]);
    for half in [0, 2] {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        for (at, step) in steps.iter().enumerate() {
            let columns: &[[f32; 8]] = step.0.as_chunks().0;
            let columns = [load_f32(&columns[half]), load_f32(&columns[half + 1])];
            for (sums, row) in sums.iter_mut().zip(rows) {
                let component = _mm256_set1_ps(row[at]);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = _mm256_fmadd_ps(component, column, *sum);
                }
            }
        }
        for (tile, sums) in tile.iter_mut().zip(sums) {
            for (lanes, sum) in tile.as_chunks_mut::<8>().0[half..].iter_mut().zip(sums) {
                // SAFETY: the array is the 32 bytes that are written.
                unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
            }
        }
    }
    tile
}

#[target_feature(enable = "avx2")]
fn load_f32(x: &[f32; 8]) -> __m256 {
    // SAFETY: the array is the 32 bytes that are read.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[target_feature(enable = "avx2")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_chunks, a_tail) = a.as_chunks::<32>();
    let (b_chunks, b_tail) = b.as_chunks::<32>();
    let mut sums = [_mm256_setzero_si256(); 2];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(widen_i8(a), widen_i8(b)));
        }
    }
    let sum = _mm256_add_epi32(sums[0], sums[1]);
    let mut lanes = [0; 8];
    // SAFETY: the array is the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
    lanes.iter().sum::<i32>() + portable::dot_i8(a_tail, b_tail)
}

#[target_feature(enable = "avx2")]
fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    dots.extend(rows.chunks_exact(vector.len()).map(|row| dot_i8(vector, row)));
}

#[target_feature(enable = "avx2")]
pub(super) fn squared_distances(
    vector: &[i8],
    rows: &[i8],
    picked: &[u32],
    distances: &mut Vec<i32>,
) {
    let dim = vector.len();
    let (chunks, tail) = vector.as_chunks::<16>();
    let (together, rest) = picked_together(rows, dim, picked);
    for rows in together {
        // Slices of one known length: the loop needs no further checks.
        let row_chunks = rows.map(|row| &row.as_chunks::<16>().0[..chunks.len()]);
        let mut sums = [_mm256_setzero_si256(); SUMMED_TOGETHER];
        for (at, chunk) in chunks.iter().enumerate() {
            let chunk = widen_i8(chunk);
            for (sum, row) in sums.iter_mut().zip(row_chunks) {
                let difference = _mm256_sub_epi16(chunk, widen_i8(&row[at]));
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(difference, difference));
            }
        }
        let mut sums = sums_across(sums);
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum += portable::squared_distance(tail, &row[dim - tail.len()..]);
        }
        distances.extend(sums);
    }
    let row = |&row: &u32| squared_distance(vector, picked_row(rows, dim, row));
    distances.extend(rest.iter().map(row));
}

/// Returns the picked rows in groups, prefetched, and the rest.
#[inline]
pub(super) fn picked_together<'a>(
    rows: &'a [i8],
    dim: usize,
    picked: &'a [u32],
) -> (impl Iterator<Item = [&'a [i8]; SUMMED_TOGETHER]>, &'a [u32]) {
    let row = move |row: u32| picked_row(rows, dim, row);
    let fetch = move |picked: &[u32]| picked.iter().for_each(|&at| prefetch(row(at)));
    let (first, ahead) = picked.split_at(picked.len().min(FETCHED_AHEAD));
    fetch(first);
    let mut ahead = ahead.chunks(SUMMED_TOGETHER);
    let (together, rest) = picked.as_chunks();
    let together = together.iter().map(move |together| {
        ahead.next().into_iter().for_each(fetch);
        together.map(row)
    });
    (together, rest)
}

#[target_feature(enable = "avx2")]
pub(super) fn squared_distance(a: &[i8], b: &[i8]) -> i32 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut sum = _mm256_setzero_si256();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let difference = _mm256_sub_epi16(widen_i8(a), widen_i8(b));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(difference, difference));
    }
    let zero = _mm256_setzero_si256();
    sums_across([sum, zero, zero, zero])[0] + portable::squared_distance(a_tail, b_tail)
}

/// Returns the sum of all lanes of each register.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_across([a, b, c, d]: [__m256i; SUMMED_TOGETHER]) -> [i32; SUMMED_TOGETHER] {
    // Each half now holds a part of every sum, in order.
    let parts = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let sum = _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256::<1>(parts));
    let mut sums = [0; SUMMED_TOGETHER];
    // SAFETY: the array is the 16 bytes that are written.
    unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), sum) };
    sums
}

/// Asks for every line of the bytes, or of codes.
#[inline]
pub(super) fn prefetch<T>(bytes: &[T]) {
    const { assert!(size_of::<T>() == 1) };
    for line in bytes.chunks(64) {
        // SAFETY: SSE is part of x86-64; the instruction reads nothing that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[target_feature(enable = "avx2")]
fn widen_i8(x: &[i8; 16]) -> __m256i {
    // SAFETY: the array is the 16 bytes that are read.
    _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(x.as_ptr().cast()) })
}

#[target_feature(enable = "avx2")]
fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    if rows.biases.len() <= FEW_ROWS {
        sweep_rows(rows, columns, hits);
    } else {
        sweep(rows, columns, hits);
    }
}

/// Compares tiles of rows and columns.
#[inline]
#[target_feature(enable = "avx2")]
fn sweep<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    let mut tile = RowTile::<i64, TILE_ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, join_widened);
        for group in rows.groups(columns, first_row, TILE_ROWS) {
            for first_column in (0..group.biases.shifted.len()).step_by(TILE_COLUMNS) {
                let scores = scores(&tile, &group, first_column);
                if any_passes(&scores) {
                    push(&scores, first_row, group.first_column + first_column, hits);
                }
            }
        }
    }
}

/// Does the same as [`sweep`] for few rows. Memory is slower than the arithmetic then, so columns
/// are read in storage order, and a whole group is scored before its scores are checked.
#[inline]
#[target_feature(enable = "avx2")]
fn sweep_rows<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    let mut tile = RowTile::<i64, 1>::new();
    for row in 0..rows.biases.len() {
        tile.fill(rows, row, join_widened);
        for group in rows.groups(columns, row, 1) {
            let scores = group_scores(&tile, &group);
            if any_passes(&scores) {
                for (at, &score) in scores.iter().enumerate() {
                    push(&[score], row, group.first_column + at * TILE_COLUMNS, hits);
                }
            }
        }
    }
}

/// Appends the hits of a tile.
#[inline]
#[target_feature(enable = "avx2")]
fn push<const ROWS: usize, H: Found>(
    scores: &Scores<ROWS>,
    first_row: usize,
    first_column: usize,
    hits: &mut Vec<H>,
) {
    let stored = match H::HAS_SCORES {
        true => scores.map(|scores| stored(scores)),
        false => [[0; GROUP_COLUMNS]; ROWS],
    };
    for (row, mask) in passing(scores).into_iter().enumerate() {
        H::push(hits, first_row + row, first_column, mask, &stored[row]);
    }
}

/// Returns scores in the order of columns.
#[target_feature(enable = "avx2")]
fn stored(scores: __m256i) -> [i32; GROUP_COLUMNS] {
    let mut stored = [0; TILE_COLUMNS];
    // SAFETY: the array is the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), scores) };
    let mut ordered = [0; GROUP_COLUMNS];
    for (column, score) in COLUMN_ORDER.into_iter().zip(stored) {
        ordered[column as usize] = score;
    }
    ordered
}

/// Compares tiles of rows and columns of 7-bit codes.
#[target_feature(enable = "avx2")]
fn hits_i7(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<Hit>) {
    let mut tile = RowTile::<i32, TILE_ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, join_i7);
        for group in rows.groups(columns, first_row, TILE_ROWS) {
            for first_column in (0..GROUP_COLUMNS).step_by(I7_COLUMNS) {
                let scores = scores_i7(&tile, &group, first_column);
                if any_passes_i7(&scores) {
                    for (row, &score) in scores.iter().enumerate() {
                        let column = group.first_column + first_column;
                        let mask = passing_i7(score);
                        Hit::push(hits, first_row + row, column, mask, &[0; GROUP_COLUMNS]);
                    }
                }
            }
        }
    }
}

/// Joins four codes as the unsigned bytes that are multiplied.
fn join_i7(shifted: [u8; STEP_DIMS]) -> i32 {
    i32::from_le_bytes(shifted.map(|code| code.wrapping_sub(I7_SHIFT)))
}

/// Returns the scores of a tile in 16 bits, columns in the order 0–3, 8–11, 4–7, 12–15.
#[inline]
#[target_feature(enable = "avx2")]
fn scores_i7(
    tile: &RowTile<i32, TILE_ROWS>,
    group: &Group<'_>,
    first_column: usize,
) -> [__m256i; TILE_ROWS] {
    let zero = _mm256_setzero_si256();
    let mut sums = [[zero; 2]; TILE_ROWS];
    for (rows, step) in tile.steps().iter().zip(group.steps) {
        let columns: &[[i8; 32]] = step.0.as_chunks().0;
        let columns =
            [load_codes(&columns[first_column / 8]), load_codes(&columns[first_column / 8 + 1])];
        for (sums, &row) in sums.iter_mut().zip(rows) {
            let row = _mm256_set1_epi32(row);
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(row, column));
            }
        }
    }
    let (biases, corrections) = biases_i7(group, first_column);
    let mut scores = [zero; TILE_ROWS];
    for ((score, [low, high]), &bias) in scores.iter_mut().zip(sums).zip(&tile.biases) {
        let product = _mm256_add_epi16(_mm256_hadd_epi16(low, high), corrections);
        let bias = bias.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        *score = _mm256_adds_epi16(_mm256_adds_epi16(product, biases), _mm256_set1_epi16(bias));
    }
    scores
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_codes(x: &[i8; 32]) -> __m256i {
    // SAFETY: the array is the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Returns the biases of a tile's columns, cut to 16 bits, and the correction for the rows' shift
/// by 64, columns ordered as scores.
#[inline]
#[target_feature(enable = "avx2")]
fn biases_i7(group: &Group<'_>, first_column: usize) -> (__m256i, __m256i) {
    let at = first_column / TILE_COLUMNS;
    let signed: &[[i32; TILE_COLUMNS]] = group.biases.signed.as_chunks().0;
    let shifted: &[[i32; TILE_COLUMNS]] = group.biases.shifted.as_chunks().0;
    let signed = [load_i32(&signed[at]), load_i32(&signed[at + 1])];
    let biases = _mm256_packs_epi32(signed[0], signed[1]);
    // They differ by 128 times the sum of a column's codes.
    let low_half = _mm256_set1_epi32(0xffff);
    let first = _mm256_srai_epi32::<1>(_mm256_sub_epi32(load_i32(&shifted[at]), signed[0]));
    let second = _mm256_srai_epi32::<1>(_mm256_sub_epi32(load_i32(&shifted[at + 1]), signed[1]));
    let halves = (_mm256_and_si256(first, low_half), _mm256_and_si256(second, low_half));
    (biases, _mm256_packus_epi32(halves.0, halves.1))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_i32(x: &[i32; TILE_COLUMNS]) -> __m256i {
    // SAFETY: the array is the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_passes_i7(scores: &[__m256i; TILE_ROWS]) -> bool {
    const SIGNS: u32 = 0xaaaa_aaaa;
    let all = scores.iter().fold(_mm256_set1_epi32(-1), |all, &score| _mm256_and_si256(all, score));
    _mm256_movemask_epi8(all).cast_unsigned() & SIGNS != SIGNS
}

/// Returns the columns that pass, one bit each, in their order.
#[inline]
#[target_feature(enable = "avx2")]
fn passing_i7(score: __m256i) -> u32 {
    let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(score);
    let halves = (_mm256_castsi256_si128(ordered), _mm256_extracti128_si256::<1>(ordered));
    !_mm_movemask_epi8(_mm_packs_epi16(halves.0, halves.1)).cast_unsigned() & 0xffff
}

/// Tiles of a group.
const GROUP_TILES: usize = GROUP_COLUMNS / TILE_COLUMNS;

/// Bytes of columns that are on their way from memory.
pub(super) const COLUMN_BYTES_AHEAD: usize = 4_096;

/// Returns the scores of one row and all columns of a group.
#[inline]
#[target_feature(enable = "avx2")]
fn group_scores(tile: &RowTile<i64, 1>, group: &Group<'_>) -> [__m256i; GROUP_TILES] {
    let mut sums = [[_mm256_setzero_si256(); 2]; GROUP_TILES];
    for ([row], columns) in tile.steps().iter().zip(group.steps) {
        for line in columns.0.as_chunks::<64>().0 {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(COLUMN_BYTES_AHEAD));
        }
        let row = _mm256_set1_epi64x(*row);
        let quads: &[[i8; 16]] = columns.0.as_chunks().0;
        for (sum, quad) in sums.as_flattened_mut().iter_mut().zip(quads) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, widen_i8(quad)));
        }
    }
    let bias = _mm256_set1_epi32(tile.biases[0]);
    let mut scores = [_mm256_setzero_si256(); GROUP_TILES];
    for (at, (score, [low, high])) in scores.iter_mut().zip(sums).enumerate() {
        let bias = _mm256_add_epi32(load_biases(group, at * TILE_COLUMNS), bias);
        *score = _mm256_add_epi32(_mm256_hadd_epi32(low, high), bias);
    }
    scores
}

/// Joins four codes, each widened to 16 bits.
fn join_widened(codes: [u8; STEP_DIMS]) -> i64 {
    codes.into_iter().rev().fold(0, |joined, code| joined << 16 | i64::from(code))
}

#[inline]
#[target_feature(enable = "avx2")]
fn scores(
    tile: &RowTile<i64, TILE_ROWS>,
    group: &Group<'_>,
    first_column: usize,
) -> Scores<TILE_ROWS> {
    let zero = _mm256_setzero_si256();
    let mut sums = [[zero; 2]; TILE_ROWS];
    for (rows, columns) in tile.steps().iter().zip(group.steps) {
        let columns = load_columns(columns, first_column);
        for (sums, &row) in sums.iter_mut().zip(rows) {
            let row = _mm256_set1_epi64x(row);
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, column));
            }
        }
    }
    let biases = load_biases(group, first_column);
    let mut scores = [zero; TILE_ROWS];
    for ((score, [low, high]), &bias) in scores.iter_mut().zip(sums).zip(&tile.biases) {
        let bias = _mm256_add_epi32(biases, _mm256_set1_epi32(bias));
        *score = _mm256_add_epi32(_mm256_hadd_epi32(low, high), bias);
    }
    scores
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_columns(step: &GroupStep, first_column: usize) -> [__m256i; 2] {
    let quads: &[[i8; 16]] = step.0.as_chunks().0;
    [widen_i8(&quads[first_column / 4]), widen_i8(&quads[first_column / 4 + 1])]
}

/// Loads the biases of the tile's columns, in [`COLUMN_ORDER`].
#[inline]
#[target_feature(enable = "avx2")]
fn load_biases(group: &Group<'_>, first_column: usize) -> __m256i {
    let biases: &[[i32; TILE_COLUMNS]] = group.biases.shifted.as_chunks().0;
    // SAFETY: the array is the 32 bytes that are read.
    let biases = unsafe { _mm256_loadu_si256(biases[first_column / TILE_COLUMNS].as_ptr().cast()) };
    // The middle pairs change places, as in `COLUMN_ORDER`.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(biases)
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_passes<const ROWS: usize>(scores: &Scores<ROWS>) -> bool {
    let all = scores.iter().fold(_mm256_set1_epi32(-1), |all, &score| _mm256_and_si256(all, score));
    sign_mask(all) != 0xff
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sign_mask(x: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(x)).cast_unsigned()
}

/// Returns the columns that pass with each row, one bit each.
#[inline]
#[target_feature(enable = "avx2")]
fn passing<const ROWS: usize>(scores: &Scores<ROWS>) -> [u32; ROWS] {
    // All signs first: a loop that pushes is not unrolled, and would have every tile's scores stored.
    let mut signs = [0_u32; ROWS];
    for (signs, &score) in signs.iter_mut().zip(scores) {
        *signs = sign_mask(score);
    }
    signs.map(|signs| {
        COLUMN_ORDER.iter().enumerate().map(|(bit, column)| (!signs >> bit & 1) << column).sum()
    })
}
