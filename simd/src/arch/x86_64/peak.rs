//! Peaks of AVX2, AVX-VNNI, AVX-512 and AMX. See [`crate::peak`].
//!
//! Operands pass through `black_box` before the rounds, so that the compiler neither knows that they are ones nor that sums
//! are equal. Within the rounds nothing may touch memory.
#![expect(
    unsafe_code,
    reason = "calls from where the processor is not known, and registers that the compiler knows nothing of"
)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;

use crate::Level;
use crate::kernels::Peaks;

/// Returns the loops of `level`, or `None` where the processor lacks it.
pub(crate) fn peaks(level: Level) -> Option<&'static Peaks> {
    let peaks = match level {
        Level::Avx2 => &AVX2,
        Level::AvxVnni => &AVX_VNNI,
        Level::Avx512 => &AVX512,
        Level::Amx => &AMX,
        _ => return None,
    };
    level.is_available().then_some(peaks)
}

static AVX2: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { avx2_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level.
    f32: |rounds| unsafe { avx2_f32(rounds) },
};

static AVX_VNNI: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { avx_vnni_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level, which includes AVX2.
    f32: |rounds| unsafe { avx2_f32(rounds) },
};

static AVX512: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { avx512_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level.
    f32: |rounds| unsafe { avx512_f32(rounds) },
};

static AMX: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { super::amx::peak_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level, which includes AVX-512.
    f32: |rounds| unsafe { avx512_f32(rounds) },
};

/// Sums of AVX2, which leave room for operands in its 16 registers.
const AVX2_SUMS: usize = 12;

/// Sums of AVX-512: more than its units have operations under way.
const AVX512_SUMS: usize = 16;

/// Widened codes, as in the sign test: each of six rows meets each of two columns.
#[target_feature(enable = "avx2")]
fn avx2_int8(rounds: u32) -> u64 {
    let ones = _mm256_set1_epi16(1);
    let columns = black_box([ones; 2]);
    let mut row = ones;
    let mut sums = black_box([[_mm256_setzero_si256(); 2]; AVX2_SUMS / 2]);
    for _ in 0..rounds {
        for sums in &mut sums {
            row = another(row);
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, column));
            }
        }
    }
    sums.into_iter().flatten().map(|sum| total_256(sum)).sum()
}

#[target_feature(enable = "avx2,avxvnni")]
fn avx_vnni_int8(rounds: u32) -> u64 {
    let [a, b] = black_box([_mm256_set1_epi8(1); 2]);
    let mut sums = black_box([_mm256_setzero_si256(); AVX2_SUMS]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| total_256(sum)).sum()
}

#[target_feature(enable = "avx2")]
fn total_256(lanes: __m256i) -> u64 {
    total_i32(_mm256_castsi256_si128(lanes)) + total_i32(_mm256_extracti128_si256::<1>(lanes))
}

/// Returns `row`, which the compiler takes for a row that it has not seen: else it would keep products. Unlike
/// `black_box`, this leaves it in its register.
#[target_feature(enable = "avx2")]
fn another(mut row: __m256i) -> __m256i {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(ymm_reg) row, options(nomem, nostack, preserves_flags)) };
    row
}

#[target_feature(enable = "avx2,fma")]
fn avx2_f32(rounds: u32) -> u64 {
    let [a, b] = black_box([_mm256_set1_ps(1.0); 2]);
    let mut sums = black_box([_mm256_setzero_ps(); AVX2_SUMS]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(a, b, *sum);
        }
    }
    let halves = |sum: __m256| [_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum)];
    sums.into_iter().flat_map(halves).map(|half| total_i32(_mm_cvtps_epi32(half))).sum()
}

#[target_feature(enable = "avx2")]
fn total_i32(lanes: __m128i) -> u64 {
    let (low, high) = (_mm_cvtsi128_si64(lanes), _mm_extract_epi64::<1>(lanes));
    [low, low >> 32, high, high >> 32].into_iter().map(|lane| lane as u64 & 0xffff_ffff).sum()
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn avx512_int8(rounds: u32) -> u64 {
    let [a, b] = black_box([_mm512_set1_epi8(1); 2]);
    let mut sums = black_box([_mm512_setzero_si512(); AVX512_SUMS]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| total_512(sum)).sum()
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn avx512_f32(rounds: u32) -> u64 {
    let [a, b] = black_box([_mm512_set1_ps(1.0); 2]);
    let mut sums = black_box([_mm512_setzero_ps(); AVX512_SUMS]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(a, b, *sum);
        }
    }
    sums.into_iter().map(|sum| total_512(_mm512_cvtps_epi32(sum))).sum()
}

#[target_feature(enable = "avx512f")]
fn total_512(lanes: __m512i) -> u64 {
    let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(lanes));
    let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(lanes));
    _mm512_reduce_add_epi64(_mm512_add_epi64(low, high)).cast_unsigned()
}
