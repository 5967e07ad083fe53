//! Days, weeks and other periods of the calendar as half-open local intervals, and amounts of them.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use super::resolve::{Confidence, Grain};
use super::tokens::{Part, Unit};

/// A resolved time: half-open, local.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct When {
    pub(super) start: DateTime,
    pub(super) end: DateTime,
    pub(super) grain: Grain,
    pub(super) confidence: Confidence,
    pub(super) note: Option<String>,
    /// The part of the day that is named, as long as only the day is taken from it.
    pub(super) part: Option<Part>,
    /// Instants, where they do not follow from the local times (hours counted across a change of
    /// clocks, times with an offset of their own).
    pub(super) exact: Option<(Timestamp, Timestamp)>,
}

impl When {
    /// An interval between two midnights.
    pub(super) fn dates(start: Date, end: Date, grain: Grain) -> Self {
        Self::times(start.to_datetime(Time::midnight()), end.to_datetime(Time::midnight()), grain)
    }

    pub(super) fn times(start: DateTime, end: DateTime, grain: Grain) -> Self {
        Self {
            start,
            end,
            grain,
            confidence: Confidence::CLEAR,
            note: None,
            part: None,
            exact: None,
        }
    }

    /// From one instant to another.
    pub(super) fn between(start: &Zoned, end: &Zoned, grain: Grain) -> Self {
        let exact = Some((start.timestamp(), end.timestamp()));
        Self { exact, ..Self::times(start.datetime(), end.datetime(), grain) }
    }

    /// The second, minute or hour at an instant.
    pub(super) fn at(start: &Zoned, grain: Grain) -> Option<Self> {
        Some(Self::between(start, &start.checked_add(length(grain)).ok()?, grain))
    }

    /// The days from a first to a last one, both within.
    pub(super) fn days(first: Date, last: Date) -> Option<Self> {
        let end = plus(last, 1, Grain::Day)?;
        (first <= last).then(|| Self::dates(first, end, Grain::Day))
    }

    /// Lowers the confidence, with the reason; the first reason stays.
    pub(super) fn doubt(mut self, confidence: Confidence, note: &str) -> Self {
        self.confidence = self.confidence.min(confidence);
        self.note.get_or_insert_with(|| note.to_owned());
        self
    }

    pub(super) fn doubt_if(self, doubtful: bool, confidence: Confidence, note: &str) -> Self {
        if doubtful { self.doubt(confidence, note) } else { self }
    }

    pub(super) fn exact(self) -> Self {
        Self { confidence: Confidence::EXACT, ..self }
    }

    /// Takes over confidence and note of the time that this one was computed from.
    pub(super) fn with_doubts_of(self, other: &Self) -> Self {
        Self { confidence: other.confidence, note: other.note.clone(), ..self }
    }

    /// A day of the month that this starts in.
    pub(super) fn on(&self, day: i8) -> Option<Date> {
        self.start.date().with().day(day).build().ok()
    }

    /// The part of this day that is named, or the day.
    pub(super) fn named_part(self) -> Option<Self> {
        let Some(part) = self.part else { return Some(self) };
        let start = self.start.date().at(part.from, 0, 0, 0);
        let end = start.checked_add(Span::new().hours(part.hours)).ok()?;
        Some(Self::times(start, end, Grain::PartOfDay).with_doubts_of(&self))
    }

    /// The last day of a period.
    pub(super) fn last_day(&self) -> Option<Self> {
        period(self.end.date(), Grain::Day, -1)
    }

    /// The end of a stretch that this closes: times of day end it at once, days with their end.
    pub(super) fn closing(&self) -> DateTime {
        if self.grain < Grain::PartOfDay { self.start } else { self.end }
    }

    pub(super) fn moved(self, count: i64, grain: Grain) -> Option<Self> {
        let shift =
            |time: DateTime| Some(plus(time.date(), count, grain)?.to_datetime(time.time()));
        Some(Self { start: shift(self.start)?, end: shift(self.end)?, exact: None, ..self })
    }
}

/// The length of a second, minute or hour.
pub(super) fn length(grain: Grain) -> SignedDuration {
    SignedDuration::from_secs(match grain {
        Grain::Second => 1,
        Grain::Minute => 60,
        _ => 3600,
    })
}

/// The date that lies some units away.
pub(super) fn plus(date: Date, count: i64, grain: Grain) -> Option<Date> {
    date.checked_add(with_unit(Span::new(), count, grain)?).ok()
}

pub(super) fn day(date: Date) -> Option<When> {
    period(date, Grain::Day, 0)
}

pub(super) fn year(year: i16) -> Option<When> {
    period(Date::new(year, 1, 1).ok()?, Grain::Year, 0)
}

/// The weekday of the week that lies `weeks` after a day's own.
pub(super) fn weekday_of_week(date: Date, weeks: i64, weekday: Weekday) -> Option<Date> {
    let days = weekday.to_monday_zero_offset() - date.weekday().to_monday_zero_offset();
    plus(date, weeks * 7 + i64::from(days), Grain::Day)
}

pub(super) fn monday(date: Date) -> Option<Date> {
    weekday_of_week(date, 0, Weekday::Monday)
}

/// The nearest day of that weekday strictly before or after a day.
pub(super) fn nearest_weekday(date: Date, weekday: Weekday, past: bool) -> Option<Date> {
    date.nth_weekday(if past { -1 } else { 1 }, weekday).ok()
}

/// The calendar period that lies `offset` after the one that holds a day.
pub(super) fn period(date: Date, grain: Grain, offset: i64) -> Option<When> {
    let months = i64::from((date.month() - 1) % 3);
    let first = match grain {
        Grain::Day => date,
        Grain::Week | Grain::Weekend => monday(date)?,
        Grain::Month => date.first_of_month(),
        Grain::Quarter => plus(date.first_of_month(), -months, Grain::Month)?,
        Grain::Year => date.first_of_year(),
        Grain::Decade => Date::new(date.year() - date.year().rem_euclid(10), 1, 1).ok()?,
        Grain::Second | Grain::Minute | Grain::Hour | Grain::PartOfDay => return None,
    };
    let first = plus(first, offset, grain)?;
    let start = if grain == Grain::Weekend { plus(first, 5, Grain::Day)? } else { first };
    Some(When::dates(start, plus(first, 1, grain)?, grain))
}

/// The Monday of the first or last week of a month or year.
///
/// The first week of a month begins on its first Monday, that of a year as in ISO 8601 (it holds
/// January 4th); the last week of a month is the last that it holds as a whole.
pub(super) fn edge_monday(whole: &When, last: bool) -> Option<Date> {
    let edge = if last { whole.end.date() } else { whole.start.date() };
    let first_week_day = match (whole.grain, last) {
        (Grain::Year, _) => plus(edge, 3, Grain::Day)?,
        (_, false) => plus(edge, 6, Grain::Day)?,
        (_, true) => edge,
    };
    plus(monday(first_week_day)?, if last { -1 } else { 0 }, Grain::Week)
}

/// A count of units, or several ("1 month and 21 days"); negative ones lie in the past.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    /// How many of the finest unit.
    pub(super) count: i64,
    /// The finest unit.
    pub(super) unit: Unit,
    span: Span,
}

impl Amount {
    pub(super) fn new(count: i64, unit: Unit) -> Option<Self> {
        Self { count, unit, span: Span::new() }.with(count, unit)
    }

    fn with(self, count: i64, unit: Unit) -> Option<Self> {
        let span = with_unit(self.span, count.checked_mul(unit.times)?, unit.grain)?;
        Some(Self { span, ..self })
    }

    /// Takes another unit along; a unit that comes twice counts once.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        let finer = if other.unit.grain < self.unit.grain { other } else { self };
        Some(Self { span: self.with(other.count, other.unit)?.span, ..finer })
    }

    pub(super) fn times(self, sign: i64) -> Option<Self> {
        let span = self.span.checked_mul(sign).ok()?;
        Some(Self { count: self.count * sign, span, ..self })
    }

    /// Whether it is counted in hours or less, that is in elapsed time and not by the calendar.
    pub(super) fn is_clock(self) -> bool {
        self.unit.grain < Grain::PartOfDay
    }

    /// The day an amount away from a day.
    pub(super) fn after_date(self, date: Date) -> Option<When> {
        Some(When { grain: self.unit.grain, ..day(date.checked_add(self.span).ok()?)? })
    }

    /// The minute (for seconds: the second) an amount away from a moment.
    pub(super) fn after_moment(self, moment: &Zoned) -> Option<When> {
        if !self.is_clock() {
            return self.after_date(moment.date());
        }
        let when =
            When::at(&moment.checked_add(self.span).ok()?, self.unit.grain.min(Grain::Minute))?;
        Some(When { grain: self.unit.grain, ..when })
    }

    /// The whole stretch: up to a moment (or its day) for negative counts, from it (or the day
    /// after) for positive ones.
    pub(super) fn stretch(self, moment: &Zoned) -> Option<When> {
        let (past, grain) = (self.count < 0, self.unit.grain);
        if self.is_clock() {
            let other = moment.checked_add(self.span).ok()?;
            let (start, end) = if past { (&other, moment) } else { (moment, &other) };
            return Some(When::between(start, end, grain));
        }
        let base = plus(moment.date(), if past { 0 } else { 1 }, Grain::Day)?;
        let other = base.checked_add(self.span).ok()?;
        let (start, end) = if past { (other, base) } else { (base, other) };
        Some(When::dates(start, end, grain))
    }
}

fn with_unit(span: Span, count: i64, grain: Grain) -> Option<Span> {
    let span = match grain {
        Grain::Second => span.try_seconds(count),
        Grain::Minute => span.try_minutes(count),
        Grain::Hour => span.try_hours(count),
        Grain::PartOfDay | Grain::Day => span.try_days(count),
        Grain::Week | Grain::Weekend => span.try_weeks(count),
        Grain::Month => span.try_months(count),
        Grain::Quarter => span.try_months(count.checked_mul(3)?),
        Grain::Year => span.try_years(count),
        Grain::Decade => span.try_years(count.checked_mul(10)?),
    };
    span.ok()
}
