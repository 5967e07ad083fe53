//! aarch64.

pub(crate) mod neon;
pub(crate) mod neon_dot;
