//! AVX-512 with VNNI.
//!
//! `VPDPBUSD` multiplies unsigned by signed bytes and adds four products to each i32, exactly: it
//! does not saturate. The canonical dot product is the AVX2 kernel: its 16 lanes fill four
//! registers. With two registers, additions wait for each other (measured on Zen 4: 8 against 12
//! products per ns). The sign test keeps a tile of 12 rows × 32 columns in 24 of the 32 registers.
//!
//! Measured on one Zen 4 core, 1,024 rows × 4,096 columns × 64 random codes, one pair in 2,048
//! passing, November 2026: 220 GMAC/s of the 240 that `VPDPBUSD` alone reaches; the same with 256-bit
//! registers 214.
#![expect(
    unsafe_code,
    reason = "loads by pointer, and calls from where the processor is not known"
)]

use std::arch::x86_64::*;

use super::avx2::{self, SUMMED_TOGETHER};
use crate::Kernels;
use crate::float_panel::{FloatPanel, FloatStep, FloatTile, GROUP_COLUMNS};
use crate::panel::{Columns, Found, Group, RowBlock, RowTile};
use crate::portable::{self, picked_row};

pub(crate) static KERNELS: Kernels = kernels!(
    Avx512,
    avx2::prefetch,
    avx2::dot,
    dot_f32,
    products_f32,
    dot_i8,
    dots_i8,
    squared_distances,
    hits,
    hits
);

/// Rows of a full tile.
const TILE_ROWS: usize = 12;

/// Blocks of up to this many rows, as scans have, are swept row by row: padding would cost more.
pub(super) const FEW_ROWS: usize = 3;

/// Registers of a tile's row: 32 columns.
const TILE_REGISTERS: usize = 2;

/// The scores of a tile.
type Scores<const ROWS: usize> = [[__m512i; TILE_REGISTERS]; ROWS];

#[target_feature(enable = "avx512f")]
fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<64>();
    let (b_chunks, b_rest) = b.as_chunks::<64>();
    let mut sums = [_mm512_setzero_ps(); 4];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = _mm512_fmadd_ps(load_f32(a), load_f32(b), *sum);
        }
    }
    for (a, b) in a_rest.chunks(16).zip(b_rest.chunks(16)) {
        sums[0] = _mm512_fmadd_ps(load_f32_part(a), load_f32_part(b), sums[0]);
    }
    let [s0, s1, s2, s3] = sums;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f")]
fn products_f32(rows: &[&[f32]], panel: &FloatPanel, count: usize, products: &mut Vec<f32>) {
    if rows.len() <= FEW_ROWS {
        panel.sweep::<1>(rows, count, products, |rows, steps| float_tile(rows, steps));
    } else {
        panel.sweep::<TILE_ROWS>(rows, count, products, |rows, steps| float_tile(rows, steps));
    }
}

/// A tile of 12 rows takes 24 of the 32 registers.
#[target_feature(enable = "avx512f")]
fn float_tile<const ROWS: usize>(rows: &[&[f32]; ROWS], steps: &[FloatStep]) -> FloatTile<ROWS> {
    let mut sums = [[_mm512_setzero_ps(); TILE_REGISTERS]; ROWS];
    // Slices of one known length: the loop needs no further checks.
    let rows = rows.map(|row| &row[..steps.len()]);
    for (at, step) in steps.iter().enumerate() {
        let columns: &[[f32; 16]] = step.0.as_chunks().0;
        let columns = [load_f32(&columns[0]), load_f32(&columns[1])];
        for (sums, row) in sums.iter_mut().zip(rows) {
            let component = _mm512_set1_ps(row[at]);
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm512_fmadd_ps(component, column, *sum);
            }
        }
    }
    let mut tile = [[0.0; GROUP_COLUMNS]; ROWS];
    for (tile, sums) in tile.iter_mut().zip(sums) {
        for (lanes, sum) in tile.as_chunks_mut::<16>().0.iter_mut().zip(sums) {
            // SAFETY: the array is the 64 bytes that are written.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
        }
    }
    tile
}

#[target_feature(enable = "avx512f")]
fn load_f32(x: &[f32; 16]) -> __m512 {
    // SAFETY: the array is the 64 bytes that are read.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

/// Loads up to 16 numbers, and zeros for the rest.
#[target_feature(enable = "avx512f")]
fn load_f32_part(x: &[f32]) -> __m512 {
    let mask = ((1_u32 << x.len().min(16)) - 1) as __mmask16;
    // SAFETY: the mask has a bit for no more elements than the slice; others are not read.
    unsafe { _mm512_maskz_loadu_ps(mask, x.as_ptr()) }
}

/// `Σ a·b = Σ (a + 128)·b − 128 Σ b`; sums may wrap on the way.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let shift = _mm512_set1_epi8(i8::MIN);
    let (mut sum, mut correction) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (a, b) in a.chunks(64).zip(b.chunks(64)) {
        let (a, b) = (load_part(a), load_part(b));
        sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(a, shift), b);
        correction = _mm512_dpbusd_epi32(correction, shift, b);
    }
    _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, correction))
}

/// `Σ a·b = Σ a·(b + 128) − 128 Σ a`, with the last sum taken once.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dots_i8(vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    let correction = vector.iter().map(|&code| 128 * i32::from(code)).sum::<i32>();
    let shift = _mm512_set1_epi8(i8::MIN);
    let dim = vector.len();
    let (chunks, tail) = vector.as_chunks::<64>();
    let mut together = rows.chunks_exact(SUMMED_TOGETHER * dim);
    for rows in &mut together {
        let mut sums = [_mm512_setzero_si512(); SUMMED_TOGETHER];
        // Slices of one known length: the loop needs no further checks.
        let row_chunks: [&[[i8; 64]]; SUMMED_TOGETHER] =
            std::array::from_fn(|row| &rows[row * dim..].as_chunks().0[..chunks.len()]);
        for (at, chunk) in chunks.iter().enumerate() {
            let chunk = load_i8(chunk);
            for (sum, row) in sums.iter_mut().zip(row_chunks) {
                *sum = _mm512_dpbusd_epi32(*sum, _mm512_xor_si512(load_i8(&row[at]), shift), chunk);
            }
        }
        if !tail.is_empty() {
            let rest = load_part(tail);
            for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(dim)) {
                let row = _mm512_xor_si512(load_part(&row[dim - tail.len()..]), shift);
                *sum = _mm512_dpbusd_epi32(*sum, row, rest);
            }
        }
        dots.extend(sums_across(sums).map(|sum| sum.wrapping_sub(correction)));
    }
    let rest = together.remainder().chunks_exact(dim);
    dots.extend(rest.map(|row| dot_i8(row, vector)));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn squared_distances(vector: &[i8], rows: &[i8], picked: &[u32], distances: &mut Vec<i32>) {
    let dim = vector.len();
    let (chunks, tail) = vector.as_chunks::<32>();
    let (together, rest) = avx2::picked_together(rows, dim, picked);
    for rows in together {
        let mut sums = [_mm512_setzero_si512(); SUMMED_TOGETHER];
        // Slices of one known length: the loop needs no further checks.
        let row_chunks = rows.map(|row| &row.as_chunks::<32>().0[..chunks.len()]);
        for (at, chunk) in chunks.iter().enumerate() {
            let chunk = widen_i8(chunk);
            for (sum, row) in sums.iter_mut().zip(row_chunks) {
                let difference = _mm512_sub_epi16(chunk, widen_i8(&row[at]));
                *sum = _mm512_dpwssd_epi32(*sum, difference, difference);
            }
        }
        let mut sums = sums_across(sums);
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum += portable::squared_distance(tail, &row[dim - tail.len()..]);
        }
        distances.extend(sums);
    }
    let row = |&row: &u32| avx2::squared_distance(vector, picked_row(rows, dim, row));
    distances.extend(rest.iter().map(row));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen_i8(x: &[i8; 32]) -> __m512i {
    // SAFETY: the array is the 32 bytes that are read.
    _mm512_cvtepi8_epi16(unsafe { _mm256_loadu_si256(x.as_ptr().cast()) })
}

/// Returns the sum of all lanes of each register.
#[target_feature(enable = "avx512f")]
fn sums_across([a, b, c, d]: [__m512i; SUMMED_TOGETHER]) -> [i32; SUMMED_TOGETHER] {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    // Each quarter now holds a part of every sum, in order.
    let parts = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let half =
        _mm256_add_epi32(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64::<1>(parts));
    let sum = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let mut sums = [0; SUMMED_TOGETHER];
    // SAFETY: the array is the 16 bytes that are written.
    unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), sum) };
    sums
}

/// Loads up to 64 codes, and zeros for the rest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load_part<T>(codes: &[T]) -> __m512i {
    const { assert!(size_of::<T>() == 1) };
    let mask = u64::MAX.unbounded_shr(64 - codes.len().min(64) as u32);
    // SAFETY: the mask has a bit for no more codes than the slice has; others are not read.
    unsafe { _mm512_maskz_loadu_epi8(mask, codes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_i8(x: &[i8; 64]) -> __m512i {
    // SAFETY: the array is the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    if rows.biases.len() <= FEW_ROWS {
        sweep::<1, H>(rows, columns, hits);
    } else {
        sweep::<TILE_ROWS, H>(rows, columns, hits);
    }
}

/// Compares tiles of rows with groups of columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn sweep<const ROWS: usize, H: Found>(
    rows: &RowBlock<'_>,
    columns: Columns<'_>,
    hits: &mut Vec<H>,
) {
    let mut tile = RowTile::<i32, ROWS>::new();
    for first_row in (0..rows.biases.len()).step_by(ROWS) {
        tile.fill(rows, first_row, i32::from_le_bytes);
        for group in rows.groups(columns, first_row, ROWS) {
            let scores = scores(&tile, &group);
            if any_passes(&scores) {
                let stored = match H::HAS_SCORES {
                    true => scores.map(|scores| stored(scores)),
                    false => [[0; GROUP_COLUMNS]; ROWS],
                };
                for (row, mask) in passing(&scores).into_iter().enumerate() {
                    H::push(hits, first_row + row, group.first_column, mask, &stored[row]);
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
fn stored(scores: [__m512i; TILE_REGISTERS]) -> [i32; GROUP_COLUMNS] {
    let mut stored = [0; GROUP_COLUMNS];
    for (stored, score) in stored.as_chunks_mut::<16>().0.iter_mut().zip(scores) {
        // SAFETY: the array is the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(stored.as_mut_ptr().cast(), score) };
    }
    stored
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn scores<const ROWS: usize>(tile: &RowTile<i32, ROWS>, group: &Group<'_>) -> Scores<ROWS> {
    let biases: &[[i32; 16]] = group.biases.shifted.as_chunks().0;
    // SAFETY: each half is the 64 bytes that are read.
    let biases = [0, 1].map(|half| unsafe { _mm512_loadu_si512(biases[half].as_ptr().cast()) });
    let mut scores = [biases; ROWS];
    for (scores, &bias) in scores.iter_mut().zip(&tile.biases) {
        for score in scores {
            *score = _mm512_add_epi32(*score, _mm512_set1_epi32(bias));
        }
    }
    for (rows, columns) in tile.steps().iter().zip(group.steps) {
        let columns: &[[i8; 64]] = columns.0.as_chunks().0;
        let columns = [load_i8(&columns[0]), load_i8(&columns[1])];
        for (scores, &row) in scores.iter_mut().zip(rows) {
            let row = _mm512_set1_epi32(row);
            for (score, column) in scores.iter_mut().zip(columns) {
                *score = _mm512_dpbusd_epi32(*score, row, column);
            }
        }
    }
    scores
}

/// Tells whether a score is not negative: whether the signs' conjunction is clear somewhere.
#[inline]
#[target_feature(enable = "avx512f")]
fn any_passes<const ROWS: usize>(scores: &Scores<ROWS>) -> bool {
    let mut all = _mm512_set1_epi32(-1);
    for &[low, high] in scores {
        // 0x80: the conjunction of all three.
        all = _mm512_ternarylogic_epi32::<0x80>(all, low, high);
    }
    _mm512_cmpge_epi32_mask(all, _mm512_setzero_si512()) != 0
}

/// Returns the columns that pass with each row, one bit each.
#[inline]
#[target_feature(enable = "avx512f")]
fn passing<const ROWS: usize>(scores: &Scores<ROWS>) -> [u32; ROWS] {
    let zero = _mm512_setzero_si512();
    // All masks first: a loop that pushes is not unrolled, and would have every tile's scores stored.
    let mut masks = [0_u32; ROWS];
    for (mask, &[low, high]) in masks.iter_mut().zip(scores) {
        let (low, high) = (_mm512_cmpge_epi32_mask(low, zero), _mm512_cmpge_epi32_mask(high, zero));
        *mask = u32::from(low) | u32::from(high) << 16;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    /// One byte was read beyond an empty slice, although its address need not be readable.
    #[test]
    fn an_empty_slice_is_not_read() {
        if Level::Avx512.is_available() {
            // SAFETY: the processor has the level.
            let lanes = unsafe { sums_across([load_part::<i8>(&[]); SUMMED_TOGETHER]) };
            assert_eq!(lanes, [0; SUMMED_TOGETHER]);
        }
    }
}
