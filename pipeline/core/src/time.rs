//! Instants as stores spell them: naive local, `Z`, offsets and epoch numbers, mixed in one column.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The last microsecond of the year 9999.
const LAST: DateTime = DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_000);

/// Microseconds since 1970-01-01T00:00:00Z, within the years -9999 to 9999 of any zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub i64);

impl Instant {
    /// Returns the day it falls on, in days since 1970-01-01 UTC.
    #[must_use]
    pub const fn day(self) -> i32 {
        self.0.div_euclid(86_400_000_000) as i32
    }

    /// Returns how many days it comes after an earlier time; 0 where it does not.
    pub(crate) fn days_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0).max(0) as f64 / 86_400e6
    }

    /// Reads a time as any of the known writers spells it; `None` where it is no time.
    ///
    /// Spellings, with white space around them allowed: `YYYY-MM-DD`, then `T` or a space and
    /// `HH:MM[:SS[.fraction]]` (1 to 9 digits, cut to microseconds), then nothing (naive: local in
    /// `time_zone`, gaps and folds as jiff's `compatible`), `Z`, `±hh:mm`, `±hhmm` or `±hh`; or an
    /// epoch number of at least nine digits (see `from_epoch`).
    #[must_use]
    pub fn parse(text: &str, time_zone: &TimeZone) -> Option<Self> {
        let text = text.as_bytes().trim_ascii();
        if text.get(4) == Some(&b'-') { parse_iso(text, time_zone) } else { parse_epoch(text) }
    }

    /// Reads an epoch number: seconds, or milli-, micro- or nanoseconds by its magnitude.
    ///
    /// `None` for a value that is not finite or outside the years -9999 to 9999.
    #[must_use]
    pub(crate) fn from_epoch(value: f64) -> Option<Self> {
        let mut seconds = value;
        for _ in 0..3 {
            if seconds.abs() >= EPOCH_UNIT_LIMIT {
                seconds /= 1000.0;
            }
        }
        let micros = (seconds * MICROS_PER_SECOND).round();
        // Out of range saturates, which jiff then refuses; NaN is refused here.
        let in_range = micros.is_finite() && Timestamp::from_microsecond(micros as i64).is_ok();
        in_range.then_some(Self(micros as i64))
    }

    /// Reads a field that holds a time: as [`parse`](Self::parse), or an epoch number of any length.
    #[must_use]
    pub fn parse_any(text: &str, time_zone: &TimeZone) -> Option<Self> {
        Self::parse(text, time_zone).or_else(|| Self::from_epoch(text.parse().ok()?))
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
    pub(crate) fn to_timestamp(self) -> Timestamp {
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

/// Shorter numbers in text are years, counters or ids rather than epoch seconds.
const EPOCH_TEXT_DIGITS_MIN: usize = 9;

/// Seconds reach this in the year 5138, milliseconds passed it in 1973.
const EPOCH_UNIT_LIMIT: f64 = 1e11;

const MICROS_PER_SECOND: f64 = 1e6;

fn parse_epoch(text: &[u8]) -> Option<Instant> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let plain = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if whole < EPOCH_TEXT_DIGITS_MIN || !plain {
        return None;
    }
    Instant::from_epoch(std::str::from_utf8(text).ok()?.parse().ok()?)
}

fn parse_iso(text: &[u8], time_zone: &TimeZone) -> Option<Instant> {
    let mut cursor = Cursor { rest: text };
    let date = cursor.date()?;
    let time = cursor.time()?;
    let local = DateTime::from_parts(date, time);
    match cursor.offset()? {
        Some(offset_seconds) => Some(at_offset(local, offset_seconds)),
        None => Some(in_zone(local, time_zone)),
    }
}

/// Returns the instant at which a zone's clocks show a date and time: gaps and folds as jiff's `compatible`.
///
/// Within a day of the ends of the years -9999 and 9999, which jiff's timestamps leave out, the zone's last known offset counts:
/// writers take `9999-12-31T23:59:59` for "never".
pub fn in_zone(local: DateTime, time_zone: &TimeZone) -> Instant {
    match time_zone.to_ambiguous_timestamp(local).compatible() {
        Ok(timestamp) => Instant::from(timestamp),
        Err(_) => {
            let end = if local.year() < 0 { Timestamp::MIN } else { Timestamp::MAX };
            at_offset(local, time_zone.to_offset(end).seconds())
        }
    }
}

fn at_offset(local: DateTime, offset_seconds: i32) -> Instant {
    let since_epoch = local.duration_since(EPOCH);
    // 20,000 years of microseconds are far within 64 bits.
    let micros = since_epoch.as_secs() * 1_000_000 + i64::from(since_epoch.subsec_micros());
    Instant(micros - i64::from(offset_seconds) * 1_000_000)
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn date(&mut self) -> Option<Date> {
        let year = self.number(4)?;
        self.expect(b'-')?;
        let month = self.number(2)?;
        self.expect(b'-')?;
        let day = self.number(2)?;
        Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?)
            .ok()
    }

    /// Reads a time of day, or midnight where the text ends after the date.
    fn time(&mut self) -> Option<Time> {
        if self.rest.is_empty() {
            return Some(Time::midnight());
        }
        if !self.accept(|byte| matches!(byte, b'T' | b't' | b' ')) {
            return None;
        }
        let hour = self.number(2)?;
        self.expect(b':')?;
        let minute = self.number(2)?;
        let second = if self.accept(|byte| byte == b':') { self.number(2)? } else { 0 };
        let micros = self.fraction_micros()?;
        let small = |value: u32| i8::try_from(value).ok();
        Time::new(small(hour)?, small(minute)?, small(second)?, micros.checked_mul(1000)?).ok()
    }

    fn fraction_micros(&mut self) -> Option<i32> {
        if !self.accept(|byte| matches!(byte, b'.' | b',')) {
            return Some(0);
        }
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        let value = self.number(digits)?;
        let micros = match u32::try_from(digits).ok()? {
            short @ ..=6 => value * 10_u32.pow(6 - short),
            long => value / 10_u32.pow(long - 6),
        };
        i32::try_from(micros).ok()
    }

    /// Reads the rest as an offset in seconds: `Some(None)` where nothing is left.
    fn offset(&mut self) -> Option<Option<i32>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        self.accept(|byte| byte == b' ');
        if matches!(self.rest, b"Z" | b"z") {
            return Some(Some(0));
        }
        let sign = match self.rest.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.number(2)?;
        self.accept(|byte| byte == b':');
        let minutes = if self.rest.is_empty() { 0 } else { self.number(2)? };
        if !self.rest.is_empty() || hours > 23 || minutes > 59 {
            return None;
        }
        Some(Some(sign * i32::try_from(hours * 3600 + minutes * 60).ok()?))
    }

    /// Reads exactly `digits` decimal digits, nine at most.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (head, tail) = self.rest.split_at_checked(digits)?;
        self.rest = tail;
        head.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0'))
        })
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.accept(|found| found == byte).then_some(())
    }

    fn accept(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.rest.first().is_some_and(|byte| wanted(*byte));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZoneDatabase;
    use proptest::prelude::*;

    fn zone(name: &str) -> TimeZone {
        TimeZoneDatabase::bundled().get(name).unwrap()
    }

    fn berlin() -> TimeZone {
        zone("Europe/Berlin")
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

    fn read(text: &str, zone_name: &str) -> Option<String> {
        Instant::parse(text, &zone(zone_name)).map(Instant::to_rfc3339)
    }

    #[test]
    fn reads_every_spelling() {
        let cases = [
            ("2026-02-21T11:12:02.285411", "2026-02-21T10:12:02.285411Z"),
            ("2026-02-21T11:12:02", "2026-02-21T10:12:02Z"),
            ("2026-02-21T11:12", "2026-02-21T10:12:00Z"),
            ("  2026-02-21 11:12:02\n", "2026-02-21T10:12:02Z"),
            ("2026-02-21", "2026-02-20T23:00:00Z"),
            ("2026-02-21T11:12:02Z", "2026-02-21T11:12:02Z"),
            ("2026-02-21t11:12:02.5z", "2026-02-21T11:12:02.5Z"),
            ("2026-02-21T11:12:02.123Z", "2026-02-21T11:12:02.123Z"),
            ("2026-02-21T11:12:02.123456789Z", "2026-02-21T11:12:02.123456Z"),
            ("2026-02-21T11:12:02+00:00", "2026-02-21T11:12:02Z"),
            ("2026-02-21T11:12:02.1+05:30", "2026-02-21T05:42:02.1Z"),
            ("2026-02-21T11:12:02-0800", "2026-02-21T19:12:02Z"),
            ("2026-02-21 11:12:02 +0100", "2026-02-21T10:12:02Z"),
            ("2026-02-21T11:12:02+02", "2026-02-21T09:12:02Z"),
            ("1771672322", "2026-02-21T11:12:02Z"),
            ("1771672322.5", "2026-02-21T11:12:02.5Z"),
            ("1771672322500", "2026-02-21T11:12:02.5Z"),
            // A gap moves forward by its length, a fold takes the earlier instant.
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z"),
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text, "Europe/Berlin").as_deref(), Some(expected), "{text}");
        }
    }

    /// `9999-12-31T23:59:59`, which writers take for "never", was no time at all, and its row the oldest.
    #[test]
    fn reads_the_ends_of_time_in_their_order() {
        let spelled = [
            "-9999",
            "0000-01-01T00:00:00",
            "0001-01-01",
            "2026-01-01",
            "9999-12-30T23:59:59",
            "9999-12-31",
            "9999-12-31T23:59:59",
            "9999-12-31T23:59:59.999999",
        ];
        for zone_name in ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Los_Angeles"] {
            let at = |text: &str| Instant::parse(text, &zone(zone_name));
            assert_eq!(at(spelled[0]), None);
            for pair in spelled[1..].windows(2) {
                assert!(at(pair[0]).unwrap() < at(pair[1]).unwrap(), "{zone_name} {pair:?}");
            }
        }
        assert_eq!(
            read("9999-12-31T23:59:59.5Z", "UTC").as_deref(),
            Some("9999-12-31T23:59:59.5Z")
        );
        let late = Instant::parse("9999-12-31T23:59:59-23:59", &TimeZone::UTC).unwrap();
        assert_eq!(late.to_rfc3339(), "9999-12-31T23:59:59.999999Z", "shown no later than that");
        let early = Instant::parse("0000-01-01T00:00:00+23:59", &TimeZone::UTC).unwrap();
        assert!(early < Instant::parse("0000-01-01T00:00:00Z", &TimeZone::UTC).unwrap());
    }

    #[test]
    fn resolves_gaps_and_folds_as_compatible_elsewhere() {
        assert_eq!(
            read("2026-03-08T02:30:00", "America/New_York").unwrap(),
            "2026-03-08T07:30:00Z"
        );
        assert_eq!(
            read("2026-11-01T01:30:00", "America/New_York").unwrap(),
            "2026-11-01T05:30:00Z"
        );
    }

    #[test]
    fn refuses_what_is_no_time() {
        let cases = [
            "",
            "now",
            "yesterday",
            "2026",
            "20260221",
            "2026-02-30",
            "2026-13-01T00:00:00",
            "2026-02-21T25:00:00",
            "2026-02-21T11:60:00",
            "2026-02-21T11:12:02.",
            "2026-02-21T",
            "2026-02-21T11:12:02.1234567890",
            "2026-02-21T11:12:02+25:00",
            "2026-02-21T11:12:02 CET",
            "2026-02-21X11:12:02",
            "2026-02-21T11:12:02Zjunk",
            "12345678",
            "1771672322x",
            "1.7.7",
            "2026/02/21",
            "99999999999999999999999999",
            "-",
        ];
        for text in cases {
            assert_eq!(read(text, "UTC"), None, "{text:?}");
        }
    }

    #[test]
    fn reads_epochs_by_magnitude() {
        let expected = Some(Instant(1_771_672_322_000_000));
        for value in [1_771_672_322.0, 1_771_672_322e3, 1_771_672_322e6, 1_771_672_322e9] {
            assert_eq!(Instant::from_epoch(value), expected, "{value}");
        }
        assert_eq!(Instant::from_epoch(0.0), Some(Instant(0)));
        assert_eq!(Instant::from_epoch(-1.5), Some(Instant(-1_500_000)));
        assert_eq!(Instant::from_epoch(f64::NAN), None);
        assert_eq!(Instant::from_epoch(f64::INFINITY), None);
        assert_eq!(Instant::from_epoch(1e30), None);
    }
}
