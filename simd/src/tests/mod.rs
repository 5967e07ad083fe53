//! All levels against references that nobody optimises.
//!
//! `SIMD_TEST_REQUIRE=avx512,avx2` turns a level that this processor lacks from skipped into failed.

mod dot;
mod hits;

use crate::{Kernels, Level};

/// Returns the tables of this processor's levels, and fails where a required level is missing.
fn tables() -> Vec<&'static Kernels> {
    let available = Level::available();
    let required = std::env::var("SIMD_TEST_REQUIRE").unwrap_or_default();
    for name in required.split(',').filter(|name| !name.is_empty()) {
        assert!(
            available.iter().any(|level| level.name() == name),
            "SIMD_TEST_REQUIRE asks for {name}, this processor has {available:?}"
        );
    }
    available
        .into_iter()
        .map(|level| Kernels::at(level).unwrap_or_else(|| panic!("no table for {level}")))
        .collect()
}

/// A stream of equally distributed numbers that is the same everywhere.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a code; every seventh is extreme.
    fn code(&mut self) -> i8 {
        let bits = self.next();
        match bits % 7 {
            0 if bits & 64 == 0 => i8::MIN,
            0 => i8::MAX,
            _ => (bits >> 32) as i8,
        }
    }

    /// Returns a number in \[−1, 1).
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

#[test]
fn every_available_level_has_its_own_table() {
    for (kernels, level) in tables().into_iter().zip(Level::available()) {
        assert_eq!(kernels.level(), level);
    }
    assert!(tables().iter().any(|kernels| kernels.level() == Kernels::active().level()));
}
