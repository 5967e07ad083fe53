//! aarch64.

pub(crate) mod neon;
