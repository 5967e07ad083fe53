//! Peaks of NEON. See [`crate::peak`].
//!
//! Operands pass through `black_box` before the rounds, so that the compiler neither knows that they are ones nor that sums
//! are equal. Within the rounds nothing may touch memory.
#![expect(
    unsafe_code,
    reason = "calls from where the processor is not known, and registers that the compiler knows nothing of"
)]

use std::arch::aarch64::*;
use std::arch::asm;
use std::hint::black_box;

use super::neon_dot;
use crate::Level;
use crate::kernels::Peaks;

/// Returns the loops of `level`, or `None` where the processor lacks it.
pub(crate) fn peaks(level: Level) -> Option<&'static Peaks> {
    let peaks = match level {
        Level::Neon => &NEON,
        Level::NeonDot => &NEON_DOT,
        _ => return None,
    };
    level.is_available().then_some(peaks)
}

static NEON: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { neon_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level.
    f32: |rounds| unsafe { neon_f32(rounds) },
};

static NEON_DOT: Peaks = Peaks {
    // SAFETY: `peaks` hands this out only where the processor has the level.
    int8: |rounds| unsafe { neon_dot_int8(rounds) },
    // SAFETY: `peaks` hands this out only where the processor has the level, which includes NEON.
    f32: |rounds| unsafe { neon_f32(rounds) },
};

/// As in the sign test: each of six rows meets each of four columns.
#[target_feature(enable = "neon,dotprod")]
fn neon_dot_int8(rounds: u32) -> u64 {
    let [row, column] = black_box([vdupq_n_s8(1); 2]);
    let mut sums = black_box([vdupq_n_s32(0); 24]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = neon_dot::add_products(*sum, row, column);
        }
    }
    sums.into_iter().map(|sum| vaddlvq_s32(sum).cast_unsigned()).sum()
}

/// As in the sign test: each of four rows meets each of two columns, and each product has two registers of sums.
#[target_feature(enable = "neon")]
fn neon_int8(rounds: u32) -> u64 {
    let ones = vdupq_n_s8(1);
    let columns = black_box([ones; 2]);
    let mut row = ones;
    let mut sums = black_box([[[vdupq_n_s32(0); 2]; 2]; 4]);
    for _ in 0..rounds {
        for sums in &mut sums {
            row = another(row);
            for ([low, high], column) in sums.iter_mut().zip(columns) {
                *low = vpadalq_s16(*low, vmull_s8(vget_low_s8(row), vget_low_s8(column)));
                *high = vpadalq_s16(*high, vmull_high_s8(row, column));
            }
        }
    }
    let sums = sums.as_flattened().as_flattened();
    sums.iter().map(|&sum| vaddlvq_s32(sum).cast_unsigned()).sum()
}

/// Returns `row`, which the compiler takes for a row that it has not seen: else it would keep products. Unlike
/// `black_box`, this leaves it in its register.
#[target_feature(enable = "neon")]
fn another(mut row: int8x16_t) -> int8x16_t {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0:v} */", inout(vreg) row, options(nomem, nostack, preserves_flags)) };
    row
}

#[target_feature(enable = "neon")]
fn neon_f32(rounds: u32) -> u64 {
    let [a, b] = black_box([vdupq_n_f32(1.0); 2]);
    let mut sums = black_box([vdupq_n_f32(0.0); 16]);
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = vfmaq_f32(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| vaddlvq_u32(vcvtq_u32_f32(sum))).sum()
}
