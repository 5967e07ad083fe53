//! Time zones and instants as people write them.

use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use memfold_model::time::{Instant, in_zone};

/// Reads an IANA name, in any case, or an offset from UTC (`+02:00`).
#[must_use]
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let name = name.trim();
    if name.starts_with(['+', '-']) {
        return DateTimeParser::new().parse_time_zone(name).ok();
    }
    TimeZone::get(name).ok().filter(|zone| !zone.is_unknown())
}

/// Returns the one spelling of a zone: its IANA name, or its offset as `+02:00`.
pub(super) fn zone_name(zone: &TimeZone) -> Option<String> {
    if let Some(name) = zone.iana_name() {
        return Some(name.to_owned());
    }
    let seconds = zone.to_fixed_offset().ok()?.seconds();
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let tail = if rest == 0 { String::new() } else { format!(":{rest:02}") };
    Some(format!("{sign}{hours:02}:{minutes:02}{tail}"))
}

/// Reads a date, or a date and time with or without offset; without one it is in `zone`.
pub(super) fn instant(text: &str, zone: &TimeZone) -> Option<Instant> {
    let text = text.trim();
    let timestamp =
        text.parse::<Timestamp>().or_else(|_| text.parse::<Zoned>().map(|zoned| zoned.timestamp()));
    match timestamp {
        Ok(timestamp) => Some(Instant::from(timestamp)),
        // With an offset, at the ends of time.
        Err(_) => Instant::parse(text, zone)
            .filter(|_| text.get(4..5) == Some("-"))
            .or_else(|| text.parse::<DateTime>().ok().map(|naive| in_zone(naive, zone))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<String> {
        time_zone(text).as_ref().and_then(zone_name)
    }

    #[test]
    fn zones_have_one_spelling() {
        assert_eq!(name("europe/berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(name("+02").as_deref(), Some("+02:00"));
        assert_eq!(name("-05:30").as_deref(), Some("-05:30"));
        assert_eq!(name("UTC").as_deref(), Some("UTC"));
        for unknown in ["", "nowhere", "Etc/Unknown", "+99:00"] {
            assert_eq!(name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn instants_are_read_in_the_zone_unless_they_name_their_own() {
        let berlin = time_zone("Europe/Berlin").unwrap();
        let utc = |text: &str| instant(text, &TimeZone::UTC);
        assert_eq!(instant("2026-01-01", &berlin), utc("2025-12-31T23:00:00Z"));
        assert_eq!(instant("2026-07-01 10:00", &berlin), utc("2026-07-01T08:00:00Z"));
        assert_eq!(instant("2026-07-01T10:00:00+00:00", &berlin), utc("2026-07-01T10:00"));
        assert_eq!(instant("2026-07-01T10:00[Asia/Tokyo]", &berlin), utc("2026-07-01T01:00Z"));
        // In the gap of spring the clock runs on, in the fold of autumn the first time counts.
        assert_eq!(instant("2026-03-29T02:30", &berlin), utc("2026-03-29T01:30Z"));
        assert_eq!(instant("2026-10-25T02:30", &berlin), utc("2026-10-25T00:30Z"));
        assert_eq!(utc("two weeks ago"), None);
        // The last day means "without end".
        let last = [utc("9999-12-30"), utc("9999-12-31"), utc("9999-12-31T23:59:59Z")];
        assert!(last[0].is_some() && last.is_sorted() && instant("9999-12-31", &berlin).is_some());
    }
}
