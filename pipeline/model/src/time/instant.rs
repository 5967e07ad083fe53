//! [`Instant`] and how it is written.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::parse;

pub(super) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The last microsecond of the year 9999.
const LAST: DateTime = DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_000);

/// Microseconds since 1970-01-01T00:00:00Z, within the years -9999 to 9999 of any zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub i64);

impl Instant {
    /// Reads a time as any of the known writers spells it; `None` where it is no time.
    ///
    /// Spellings, with white space around them allowed: `YYYY-MM-DD`, then `T` or a space and
    /// `HH:MM[:SS[.fraction]]` (1 to 9 digits, cut to microseconds), then nothing (naive: local in
    /// `time_zone`, gaps and folds as jiff's `compatible`), `Z`, `±hh:mm`, `±hhmm` or `±hh`; or an
    /// epoch number of at least nine digits (see [`from_epoch`](Self::from_epoch)).
    #[must_use]
    pub fn parse(text: &str, time_zone: &TimeZone) -> Option<Self> {
        parse::parse(text.as_bytes(), time_zone)
    }

    /// Reads an epoch number: seconds, or milli-, micro- or nanoseconds by its magnitude.
    ///
    /// `None` for a value that is not finite or outside the years -9999 to 9999.
    #[must_use]
    pub fn from_epoch(value: f64) -> Option<Self> {
        parse::from_epoch(value)
    }

    /// Writes it as Python's naive local ISO form, always with six digits of fraction.
    ///
    /// Owners of stores sort these strings as text.
    #[must_use]
    pub fn to_naive_local(self, time_zone: &TimeZone) -> String {
        let local = self.to_timestamp().to_zoned(time_zone.clone());
        local.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
    }

    /// Writes it as RFC 3339 in UTC, with as many digits of fraction as it needs.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        self.to_string()
    }

    /// Returns the nearest jiff timestamp (values out of its range are clamped to its ends).
    #[must_use]
    pub fn to_timestamp(self) -> Timestamp {
        let limit = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_microsecond(self.0).unwrap_or(limit)
    }
}

impl From<Timestamp> for Instant {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.as_microsecond())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => timestamp.fmt(f),
            // The first and last day, which timestamps leave out.
            Err(_) => {
                let end = if self.0 < 0 { DateTime::MIN } else { LAST };
                let utc = EPOCH.checked_add(SignedDuration::from_micros(self.0)).unwrap_or(end);
                write!(f, "{}Z", utc.min(LAST))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn berlin() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    #[test]
    fn writes_six_digits_and_local_time() {
        let instant = Instant::parse("2026-02-21T11:12:02Z", &berlin()).unwrap();
        assert_eq!(instant.to_naive_local(&berlin()), "2026-02-21T12:12:02.000000");
        assert_eq!(instant.to_rfc3339(), "2026-02-21T11:12:02Z");
        assert_eq!(Instant(instant.0 + 285_411).to_string(), "2026-02-21T11:12:02.285411Z");
    }

    proptest! {
        #[test]
        fn written_forms_read_back(micros in -62_000_000_000_000_000_i64..253_000_000_000_000_000) {
            let instant = Instant(micros);
            let utc = TimeZone::UTC;
            prop_assert_eq!(Instant::parse(&instant.to_rfc3339(), &berlin()), Some(instant));
            prop_assert_eq!(Instant::parse(&instant.to_naive_local(&utc), &utc), Some(instant));
        }

        /// Ages and times at the ends of 64 bits are shown somehow, and in order.
        #[test]
        fn any_instant_is_shown(micros in any::<i64>(), later in 0_i64..i64::MAX) {
            let instant = Instant(micros);
            let _ = (instant.to_naive_local(&berlin()), instant.to_rfc3339(), instant.to_timestamp());
            let late = Instant(micros.saturating_add(later));
            prop_assert!(instant.to_timestamp() <= late.to_timestamp());
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = Instant::parse(&text, &berlin());
        }
    }
}
