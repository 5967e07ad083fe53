//! Kernels per instruction set. `unsafe` is allowed below here only.
//!
//! Each level's module keeps its table private and hands it out only where the processor has the
//! level.

use crate::{Kernels, Level};

/// Makes the table of a level from its functions, in the order of [`Kernels`]; `prefetch` is safe on every processor.
macro_rules! kernels {
    (
        $level:ident, $prefetch:path, $dot:path, $dot_f32:path, $products_f32:path, $dot_i8:path, $dots_i8:path,
        $squared_distances:path, $hits:path, $hits_i7:path
    ) => {
        $crate::Kernels {
            level: $crate::Level::$level,
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            dot: |a, b| unsafe { $dot(a, b) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            dot_f32: |a, b| unsafe { $dot_f32(a, b) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            products_f32: |rows, panel, count, to| unsafe { $products_f32(rows, panel, count, to) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            dot_i8: |a, b| unsafe { $dot_i8(a, b) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            dots_i8: |vector, rows, to| unsafe { $dots_i8(vector, rows, to) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            squared_distances: |a, rows, picked, to| unsafe {
                $squared_distances(a, rows, picked, to)
            },
            prefetch: $prefetch,
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            hits: |rows, columns, hits| unsafe { $hits(rows, columns, hits) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            hits_i7: |rows, columns, hits| unsafe { $hits_i7(rows, columns, hits) },
            // SAFETY: `arch::kernels` hands this out only where the processor has the level.
            scored_hits: |rows, columns, hits| unsafe { $hits(rows, columns, hits) },
        }
    };
}

pub(crate) mod packed;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Returns the table for `level`, or `None` where the processor lacks it.
pub(crate) fn kernels(level: Level) -> Option<&'static Kernels> {
    if !level.is_available() {
        return None;
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(&x86_64::avx2::KERNELS),
        #[cfg(target_arch = "x86_64")]
        Level::AvxVnni => Some(&x86_64::avx_vnni::KERNELS),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(&x86_64::avx512::KERNELS),
        #[cfg(target_arch = "x86_64")]
        Level::Amx => Some(&x86_64::amx::KERNELS),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => Some(&aarch64::neon::KERNELS),
        #[cfg(target_arch = "aarch64")]
        Level::NeonDot => Some(&aarch64::neon_dot::KERNELS),
        _ => None,
    }
}

/// Tells whether a processor with AVX-512 multiplies tiles of int8, too, and the system lets this process do so.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_amx() -> bool {
    x86_64::amx::is_available()
}
