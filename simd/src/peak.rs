//! How much the registers can multiply and add: what kernels are measured against.
//!
//! Every operation multiplies one by one and adds the product to one of many sums that do not wait for each other; nothing
//! but that happens. So the sums add up to the number of operations, which is what is returned: time it, and divide.
//! Level `scalar` reads the nearest cache, since plain code cannot be told to stay in registers.

use crate::kernels::Peaks;
use crate::{Level, arch, portable};

/// The most rounds of one call: an f32 counts no further by ones.
pub const ROUNDS_MAX: u32 = 1 << 24;

/// Multiplies int8 codes and adds to i32 sums, as the level's int8 kernels do, and returns how often; `None` where the
/// processor lacks the level. Takes less than a microsecond a round.
///
/// # Panics
/// With more than [`ROUNDS_MAX`] rounds.
#[must_use]
pub fn int8(level: Level, rounds: u32) -> Option<u64> {
    at(level, rounds).map(|peaks| (peaks.int8)(rounds))
}

/// Multiplies f32 numbers and adds to f32 sums, fused where the level can, and returns how often; `None` where the processor
/// lacks the level. Takes less than a microsecond a round.
///
/// # Panics
/// With more than [`ROUNDS_MAX`] rounds.
#[must_use]
pub fn f32(level: Level, rounds: u32) -> Option<u64> {
    at(level, rounds).map(|peaks| (peaks.f32)(rounds))
}

fn at(level: Level, rounds: u32) -> Option<&'static Peaks> {
    assert!(rounds <= ROUNDS_MAX, "{rounds} rounds are more than {ROUNDS_MAX}");
    match level {
        Level::Scalar => Some(&portable::PEAKS),
        _ => arch::peaks(level),
    }
}

#[cfg(test)]
mod tests {
    use super::{ROUNDS_MAX, f32, int8};
    use crate::Level;

    /// Operations of one round, int8 and f32.
    fn per_round(level: Level) -> (u64, u64) {
        match level {
            Level::Scalar => (1024, 1024),
            Level::Avx2 => (12 * 16, 12 * 8),
            Level::AvxVnni => (12 * 32, 12 * 8),
            Level::Avx512 => (16 * 64, 16 * 16),
            Level::Amx => (4 * 16 * 16 * 64, 16 * 16),
            Level::Neon => (8 * 16, 16 * 4),
            Level::NeonDot => (24 * 16, 16 * 4),
        }
    }

    #[test]
    fn sums_are_the_operations() {
        for level in Level::available() {
            let (int8_once, f32_once) = per_round(level);
            for rounds in [0, 1, 7, 1000] {
                let times = u64::from(rounds);
                assert_eq!(int8(level, rounds), Some(times * int8_once), "{level}");
                assert_eq!(f32(level, rounds), Some(times * f32_once), "{level}");
            }
        }
    }

    #[test]
    fn a_missing_level_has_no_peak() {
        let missing = Level::ALL.into_iter().find(|level| !level.is_available());
        assert_eq!(missing.and_then(|level| int8(level, 1)), None);
        assert_eq!(missing.and_then(|level| f32(level, 1)), None);
    }

    #[test]
    #[should_panic(expected = "rounds are more than")]
    fn rounds_that_f32_cannot_count_are_refused() {
        let _ = f32(Level::Scalar, ROUNDS_MAX + 1);
    }
}
