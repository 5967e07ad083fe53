//! [`Age`]: how long ago, as people type it.

use memfold_model::time::Instant;

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// A span of time before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age {
    micros: i64,
}

impl Age {
    /// Returns the moment that lies so long before another.
    pub(crate) const fn before(self, now: Instant) -> Instant {
        Instant(now.0.saturating_sub(self.micros))
    }
}

/// Reads `24h`, `90d` or `12w`.
pub(crate) fn parse(text: &str) -> Result<Age, String> {
    let wrong = || "expected hours, days or weeks, such as 24h, 90d or 12w".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 24 * 7,
        _ => return Err(wrong()),
    };
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let micros = i64::from(number).checked_mul(hours * MICROS_PER_HOUR);
    micros.map(|micros| Age { micros }).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_hours_days_or_weeks() {
        let now = Instant(1_780_272_000_000_000);
        for (text, hours) in [("0h", 0), ("24h", 24), ("90d", 2_160), ("12w", 2_016)] {
            let before = parse(text).unwrap().before(now);
            assert_eq!(before.0, now.0 - hours * MICROS_PER_HOUR, "{text}");
        }
        for text in ["", "90", "d", "-1d", "1.5d", "90 d", "3m", "99999999999d", "é"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
