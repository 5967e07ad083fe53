//! Kernels per instruction set. `unsafe` is allowed below here only.
//!
//! Each level's module keeps its table private and hands it out only where the processor has the
//! level.

use crate::{Kernels, Level};

pub(crate) mod packed;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Returns the table for `level`, or `None` where the processor lacks it.
pub(crate) fn kernels(level: Level) -> Option<&'static Kernels> {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86_64::avx2::kernels(),
        #[cfg(target_arch = "x86_64")]
        Level::AvxVnni => x86_64::avx_vnni::kernels(),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => x86_64::avx512::kernels(),
        #[cfg(target_arch = "x86_64")]
        Level::Amx => x86_64::amx::kernels(),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => aarch64::neon::kernels(),
        #[cfg(target_arch = "aarch64")]
        Level::NeonDot => aarch64::neon_dot::kernels(),
        _ => None,
    }
}

/// Tells whether a processor with AVX-512 multiplies tiles of int8, too, and the system lets this process do so.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_amx() -> bool {
    x86_64::amx::is_available()
}
