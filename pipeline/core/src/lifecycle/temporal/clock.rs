//! Reads clock times and parts of the day, and joins them with days.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use memfold_guard::cardinal;

use super::calendar::{self, When};
use super::grammar::{Found, Reader, SAME_WEEKDAY};
use super::reference::{Confidence, Grain};
use super::tokens::{self, Kind, Unit};

/// A part of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Morning,
    Afternoon,
    Evening,
    Night,
}

impl Part {
    fn of(self, date: Date) -> Option<When> {
        let at = |date: Date, hour: i8| date.at(hour, 0, 0, 0);
        let tomorrow = calendar::plus_days(date, 1)?;
        let (start, end) = match self {
            Self::Morning => (at(date, 5), at(date, 12)),
            Self::Afternoon => (at(date, 12), at(date, 18)),
            Self::Evening => (at(date, 18), at(tomorrow, 0)),
            Self::Night => (at(date, 20), at(tomorrow, 5)),
        };
        Some(When::times(start, end, Grain::PartOfDay))
    }
}

/// A time of day as read, before it has a day.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeOfDay {
    pub(super) time: Time,
    pub(super) grain: Grain,
    /// Whether morning and afternoon are told apart.
    pub(super) certain: bool,
    pub(super) utc: bool,
    pub(super) midnight: bool,
    /// Whether another zone is named, which is not looked up.
    pub(super) foreign: bool,
}

impl TimeOfDay {
    fn new(time: Time, grain: Grain, certain: bool) -> Self {
        Self { time, grain, certain, utc: false, midnight: false, foreign: false }
    }

    /// A whole hour without am or pm.
    pub(super) fn hour(hour: i8) -> Option<Self> {
        Some(Self::new(Time::new(hour, 0, 0, 0).ok()?, Grain::Hour, hour > 12))
    }
}

const ZONES: &str = "cet cest est edt pst pdt mst mdt cst cdt bst ist jst aest eet eest msk";
const MERIDIEM: &str = "morning or afternoon is not written; taken as a 24-hour clock";
const MIDNIGHT: &str = "the start of the day; its end may be meant";

impl Reader<'_> {
    /// Reads a day with or without a time, a part of a day, or a time of the day of writing.
    pub(super) fn timed(&self, index: usize) -> Option<Found> {
        self.moment_literal(index)
            .or_else(|| self.part_first(index))
            .or_else(|| self.clock_first(index))
            .or_else(|| self.day_first(index))
    }

    /// `2025-03-01T10:00:00Z`
    fn moment_literal(&self, index: usize) -> Option<Found> {
        if self.kind(index) != Kind::Moment {
            return None;
        }
        let written = &self.text[self.tokens[index].span.clone()];
        let zone = self.now.time_zone();
        let instant = crate::time::Instant::parse(written, zone)?;
        let start = jiff::Timestamp::from_microsecond(instant.0).ok()?.to_zoned(zone.clone());
        let grain = if written.matches(':').count() > 1 { Grain::Second } else { Grain::Minute };
        let length = if grain == Grain::Second { 1 } else { 60 };
        let end = start.checked_add(jiff::SignedDuration::from_secs(length)).ok()?;
        Some((index + 1, calendar::between(&start, &end, grain).sure(Confidence::EXACT)))
    }

    /// "this morning", "tonight at 8", "last night", "the morning of May 3".
    fn part_first(&self, index: usize) -> Option<Found> {
        if let Some(found) = self.part_with_day(index) {
            return Some(found);
        }
        let start = self.skip(index, &["early", "late", "later"]);
        let (offset, part, next) = match (self.word(start), self.word(start + 1)) {
            ("tonight" | "tonite", _) => (0, Part::Night, start + 1),
            ("last", "night") => (-1, Part::Night, start + 2),
            ("last", "evening") => (-1, Part::Evening, start + 2),
            ("next", "morning") if self.previous.is_none() => (1, Part::Morning, start + 2),
            ("next", "night") => (1, Part::Night, start + 2),
            ("this", name) => (0, part(name)?, start + 2),
            _ => return None,
        };
        let day = calendar::day(calendar::plus_days(self.today, offset)?)?;
        match self.clock(next, true) {
            Some((next, time)) => Some((next, self.at_part(&day, part, time)?)),
            None => Some((next, part.of(day.start.date())?)),
        }
    }

    /// "the morning of May 3", "in the early-morning on Tuesday", "in the afternoon, this Friday".
    fn part_with_day(&self, index: usize) -> Option<Found> {
        let start = self.skip(self.skip(index, &["in"]), &["the"]);
        let name = self.skip_mark(self.skip(start, &["early", "late"]), '-');
        let part = part(self.word(name))?;
        let behind = self.skip(self.skip_mark(name + 1, ','), &["on", "of"]);
        let (next, day) = self.day(behind)?;
        Some((next, joined(&day, part.of(day.start.date())?)))
    }

    fn at_part(&self, day: &When, part: Part, mut time: TimeOfDay) -> Option<When> {
        if !time.certain {
            let hour = time.time.hour() % 12 + if part == Part::Morning { 0 } else { 12 };
            time.time = time.time.with().hour(hour).build().ok()?;
            time.certain = true;
        }
        self.at(day, time)
    }

    /// "5pm tomorrow", "at 17:30 on Friday", "8 tonight", "noon".
    fn clock_first(&self, index: usize) -> Option<Found> {
        let (next, time) = self.clock(index, true)?;
        let behind = self.skip(self.skip_mark(next, ','), &["on", "of"]);
        if let Some((next, part, day)) = self.day_with_part(behind) {
            return Some((
                next,
                match part {
                    Some(part) => self.at_part(&day, part, time)?,
                    None => self.at(&day, time)?,
                },
            ));
        }
        // Without a day only what is surely a time of day counts.
        let (next, time) = self.clock(index, false)?;
        if tokens::listed("daily nightly weekly every each everyday", self.word(next)) {
            return None;
        }
        let day = calendar::day(self.today)?;
        let (past, stated) = self.direction(index, next);
        let when = self.at(&day, time)?;
        let contrary = stated && past != (when.start <= self.now.datetime());
        let confidence = if contrary { Confidence::AMBIGUOUS } else { Confidence::LIKELY };
        Some((next, when.doubt(confidence, "no day is named; taken as the day of writing")))
    }

    /// A day or a part of one behind a clock time.
    fn day_with_part(&self, index: usize) -> Option<(usize, Option<Part>, When)> {
        match (self.word(index), self.word(index + 1)) {
            ("tonight", _) => Some((index + 1, Some(Part::Night), calendar::day(self.today)?)),
            ("last", "night") => {
                let yesterday = calendar::plus_days(self.today, -1)?;
                Some((index + 2, Some(Part::Night), calendar::day(yesterday)?))
            }
            ("this", name) if part(name).is_some() => {
                Some((index + 2, part(name), calendar::day(self.today)?))
            }
            _ => {
                let (next, day) = self.day(index)?;
                let name = self.skip(self.skip(next, &["in"]), &["the"]);
                match part(self.word(name)) {
                    Some(part) => Some((name + 1, Some(part), day)),
                    None => Some((next, None, day)),
                }
            }
        }
    }

    /// "Monday morning", "tomorrow at 5pm", "2025-03-01 10:00", "May 3 in the evening at 8".
    fn day_first(&self, index: usize) -> Option<Found> {
        let (next, part, day) = self.day_with_early_part(index)?;
        let clock = self.skip_mark(next, ',');
        let clock = if self.clock(clock, true).is_some() { clock } else { next };
        match (self.clock(clock, true), part) {
            (Some((next, time)), Some(part)) => Some((next, self.at_part(&day, part, time)?)),
            (Some((next, time)), None) => Some((next, self.at_named((index, next), &day, time)?)),
            (None, Some(part)) => Some((next, joined(&day, part.of(day.start.date())?))),
            (None, None) => Some((next, day)),
        }
    }

    pub(super) fn day_with_early_part(&self, index: usize) -> Option<(usize, Option<Part>, When)> {
        let (next, day) = self.day(index)?;
        let plain = Some((next, None, day.clone()));
        match self.word(next) {
            "am" if self.closed(next + 1) => return Some((next + 1, Some(Part::Morning), day)),
            "pm" if self.closed(next + 1) => return Some((next + 1, Some(Part::Afternoon), day)),
            _ => {}
        }
        let phrase = self.skip_mark(next, ',');
        let phrase = if self.word(phrase) == "in" { phrase } else { next };
        let name = self.skip(self.skip(phrase, &["in"]), &["the"]);
        let name = self.skip_mark(self.skip(name, &["early", "late"]), '-');
        let name = self.skip(name, &["in"]);
        let name = self.skip(name, &["the"]);
        match part(self.word(name)) {
            // "on Monday the night shift": an article alone does not tie them.
            Some(_) if self.word(next) == "the" => plain,
            Some(part) => Some((name + 1, Some(part), day)),
            None => plain,
        }
    }

    /// Reads a clock time: `17:30`, "5pm", "at noon"; bare hours only behind "at" and with a day.
    pub(super) fn clock(&self, index: usize, with_day: bool) -> Option<(usize, TimeOfDay)> {
        let lead = self.skip(index, &["at", "around", "about", "for"]);
        let start = self.skip_mark(self.skip(lead, &["around", "about"]), '@');
        let at = matches!(self.word(index), "at" | "around") || start > lead;
        let (next, mut time) = match (self.kind(start), self.word(start)) {
            (Kind::Clock(clock), _) => {
                let grain = match (clock.minutes, clock.time.second()) {
                    (false, _) => Grain::Hour,
                    (true, 0) => Grain::Minute,
                    (true, _) => Grain::Second,
                };
                (start + 1, TimeOfDay::new(clock.time, grain, clock.certain))
            }
            (_, "noon" | "midday") => {
                (start + 1, TimeOfDay::new(Time::new(12, 0, 0, 0).ok()?, Grain::Hour, true))
            }
            (_, "midnight") => {
                let midnight = TimeOfDay::new(Time::midnight(), Grain::Hour, true);
                (start + 1, TimeOfDay { midnight: true, ..midnight })
            }
            _ => self.hour(start, at, with_day)?,
        };
        let next = self.meridiem(next, &mut time)?;
        if matches!(self.word(next), "utc" | "gmt" | "z") {
            time.utc = true;
            return Some((next + 1, time));
        }
        if tokens::listed(ZONES, self.word(next)) && self.tokens[next].capital {
            time.foreign = true;
            return Some((next + 1, time));
        }
        Some((next, time))
    }

    /// "5 o'clock", "five pm", and "at 5" or "8 tonight" with a day.
    fn hour(&self, index: usize, at: bool, with_day: bool) -> Option<(usize, TimeOfDay)> {
        let hour = match self.kind(index) {
            Kind::Number(number) => number,
            _ => cardinal(self.word(index))?,
        };
        let hour = i8::try_from(hour).ok().filter(|hour| (0..=23).contains(hour))?;
        let oclock = matches!(self.word(index + 1), "o'clock" | "oclock");
        let meridiem = matches!(self.word(index + 1), "am" | "pm" | "a.m" | "p.m");
        let next = if oclock { index + 2 } else { index + 1 };
        let evening = match self.word(next) {
            "tonight" => true,
            // "9 tomorrow morning"; "9 tomorrow" may count anything.
            "this" | "tomorrow" | "yesterday" => part(self.word(next + 1)).is_some(),
            _ => false,
        };
        let bare = with_day && at && self.closed(next) && !self.mark(next, '-');
        let phrase = self.skip(next + 1, &["the"]);
        let in_part = self.word(next) == "in" && part(self.word(phrase)).is_some();
        if !(oclock || meridiem || (evening || in_part) && with_day || bare) {
            return None;
        }
        Some((next, TimeOfDay::hour(hour)?))
    }

    /// Takes "pm", "a.m." and "in the afternoon" into the time.
    fn meridiem(&self, index: usize, time: &mut TimeOfDay) -> Option<usize> {
        let phrase = self.skip(index, &["in"]);
        let (afternoon, next) = match self.word(index) {
            "am" | "a.m" => (false, index + 1),
            "pm" | "p.m" => (true, index + 1),
            "in" => match self.word(self.skip(phrase, &["the"])) {
                "morning" | "am" => (false, self.skip(phrase, &["the"]) + 1),
                "afternoon" | "evening" | "pm" => (true, self.skip(phrase, &["the"]) + 1),
                _ => return Some(index),
            },
            _ => return Some(index),
        };
        if !time.certain {
            let hour = time.time.hour() % 12 + if afternoon { 12 } else { 0 };
            time.time = time.time.with().hour(hour).build().ok()?;
            time.certain = true;
        }
        let dotted = self.word(next - 1).contains('.') && self.mark(next, '.');
        let continues = self.tokens.get(next + 1).is_some_and(|token| !token.capital);
        Some(if dotted && continues { next + 1 } else { next })
    }

    /// "Monday at noon", written on a Monday morning of what is to come, is that noon.
    fn at_named(&self, at: (usize, usize), day: &When, time: TimeOfDay) -> Option<When> {
        if day.note.as_deref() == Some(SAME_WEEKDAY) {
            let (past, _) = self.direction(at.0, at.1);
            let today = When { note: day.note.clone(), ..calendar::day(self.today)? };
            let today = self.at(&today.sure(day.confidence), time)?;
            if past == (today.start <= self.now.datetime()) {
                return Some(today);
            }
        }
        self.at(day, time)
    }

    /// Joins a day and a time of day.
    pub(super) fn at(&self, day: &When, time: TimeOfDay) -> Option<When> {
        let length = match time.grain {
            Grain::Second => 1,
            Grain::Minute => 60,
            _ => 3600,
        };
        let length = jiff::SignedDuration::from_secs(length);
        let start = day.start.date().to_datetime(time.time);
        let mut when = When::times(start, start.checked_add(length).ok()?, time.grain);
        if time.utc {
            let start =
                start.to_zoned(TimeZone::UTC).ok()?.with_time_zone(self.now.time_zone().clone());
            when = calendar::between(&start, &start.checked_add(length).ok()?, time.grain);
        }
        let mut when = joined(day, when);
        if !time.certain && time.grain == Grain::Hour {
            when = when.doubt(Confidence::AMBIGUOUS, MERIDIEM);
        } else if !time.certain {
            when = when.doubt(Confidence::LIKELY, MERIDIEM);
        } else if time.midnight {
            when = when.doubt(Confidence::AMBIGUOUS, MIDNIGHT);
        } else if time.foreign {
            when = when.doubt(Confidence::AMBIGUOUS, "the zone that is named is left out");
        }
        Some(when)
    }
}

/// A finer time keeps the doubts about its day.
fn joined(day: &When, finer: When) -> When {
    When { confidence: day.confidence, note: day.note.clone(), ..finer }
}

fn part(word: &str) -> Option<Part> {
    Some(match word {
        "morning" => Part::Morning,
        "afternoon" => Part::Afternoon,
        "evening" => Part::Evening,
        "night" => Part::Night,
        _ => return None,
    })
}

/// The end of a stretch that a time closes: times of day end it at once, days with their end.
pub(super) fn closing(when: &When) -> DateTime {
    if when.grain < Grain::PartOfDay { when.start } else { when.end }
}

/// Whether a word counts hours or less.
pub(super) fn counts_clock(word: &str) -> bool {
    matches!(tokens::unit(word), Some(Unit::Second | Unit::Minute | Unit::Hour))
}
