//! Days, weeks and other periods of the calendar as half-open local intervals.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::{Span, Timestamp, Zoned};

use super::reference::{Confidence, Grain};
use super::tokens::Unit;

/// A resolved time: half-open, local.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct When {
    pub(super) start: DateTime,
    pub(super) end: DateTime,
    pub(super) grain: Grain,
    pub(super) confidence: Confidence,
    pub(super) note: Option<String>,
    /// Instants, where they do not follow from the local times (hours counted across a change of
    /// clocks, times with an offset of their own).
    pub(super) exact: Option<(Timestamp, Timestamp)>,
}

impl When {
    /// An interval between two midnights.
    pub(super) fn dates(start: Date, end: Date, grain: Grain) -> Self {
        Self::times(start.to_datetime(jiff::civil::Time::midnight()), midnight(end), grain)
    }

    pub(super) fn times(start: DateTime, end: DateTime, grain: Grain) -> Self {
        Self { start, end, grain, confidence: Confidence::CLEAR, note: None, exact: None }
    }

    /// Lowers the confidence, with the reason; the first reason stays.
    pub(super) fn doubt(mut self, confidence: Confidence, note: &str) -> Self {
        self.confidence = self.confidence.min(confidence);
        self.note.get_or_insert_with(|| note.to_owned());
        self
    }

    pub(super) fn sure(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    pub(super) fn grain(mut self, grain: Grain) -> Self {
        self.grain = grain;
        self
    }
}

pub(super) fn midnight(date: Date) -> DateTime {
    date.to_datetime(jiff::civil::Time::midnight())
}

pub(super) fn plus_days(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}

pub(super) fn plus_months(date: Date, months: i64) -> Option<Date> {
    date.checked_add(Span::new().try_months(months).ok()?).ok()
}

pub(super) fn day(date: Date) -> Option<When> {
    Some(When::dates(date, plus_days(date, 1)?, Grain::Day))
}

pub(super) fn month(year: i16, month: i8) -> Option<When> {
    let start = Date::new(year, month, 1).ok()?;
    Some(When::dates(start, plus_months(start, 1)?, Grain::Month))
}

pub(super) fn quarter(year: i16, quarter: i8) -> Option<When> {
    let start = Date::new(year, quarter * 3 - 2, 1).ok()?;
    Some(When::dates(start, plus_months(start, 3)?, Grain::Quarter))
}

pub(super) fn years(first: i16, count: i16, grain: Grain) -> Option<When> {
    let end = first.checked_add(count)?;
    Some(When::dates(Date::new(first, 1, 1).ok()?, Date::new(end, 1, 1).ok()?, grain))
}

/// The Monday of a day's week.
pub(super) fn monday(date: Date) -> Option<Date> {
    plus_days(date, -i64::from(date.weekday().to_monday_zero_offset()))
}

/// A weekday (Monday is 1) of the week that lies `weeks` after a day's own.
pub(super) fn weekday_of_week(date: Date, weeks: i64, weekday: i8) -> Option<Date> {
    plus_days(monday(date)?, weeks * 7 + i64::from(weekday) - 1)
}

/// The nearest day of that weekday strictly before or after a day.
pub(super) fn nearest_weekday(date: Date, weekday: i8, past: bool) -> Option<Date> {
    let weekday = Weekday::from_monday_one_offset(weekday).ok()?;
    date.nth_weekday(if past { -1 } else { 1 }, weekday).ok()
}

/// The calendar period that lies `offset` after the one that holds a day.
pub(super) fn period(date: Date, unit: Unit, offset: i64) -> Option<When> {
    match unit {
        Unit::Day => day(plus_days(date, offset)?),
        Unit::Week => {
            let start = plus_days(monday(date)?, offset * 7)?;
            Some(When::dates(start, plus_days(start, 7)?, Grain::Week))
        }
        Unit::Weekend => {
            let start = plus_days(monday(date)?, offset * 7 + 5)?;
            Some(When::dates(start, plus_days(start, 2)?, Grain::Weekend))
        }
        Unit::Month => {
            let first = plus_months(date.first_of_month(), offset)?;
            month(first.year(), first.month())
        }
        Unit::Quarter => {
            let first = plus_months(date.first_of_month(), offset * 3)?;
            quarter(first.year(), (first.month() - 1) / 3 + 1)
        }
        Unit::Year => years(date.year().checked_add(i16::try_from(offset).ok()?)?, 1, Grain::Year),
        Unit::Decade => {
            let first = date.year() - date.year().rem_euclid(10);
            let offset = i16::try_from(offset).ok()?.checked_mul(10)?;
            years(first.checked_add(offset)?, 10, Grain::Decade)
        }
        Unit::Second | Unit::Minute | Unit::Hour | Unit::Fortnight => None,
    }
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
        Some(Self { count, unit, span: with_unit(Span::new(), count, unit)? })
    }

    /// Takes another unit along; a unit that comes twice counts once.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        let finer = if other.grain() < self.grain() { other } else { self };
        Some(Self { span: with_unit(self.span, other.count, other.unit)?, ..finer })
    }

    pub(super) fn times(self, sign: i64) -> Option<Self> {
        let span = self.span.checked_mul(sign).ok()?;
        Some(Self { count: self.count * sign, span, ..self })
    }

    /// Whether it is counted in hours or less, that is in elapsed time and not by the calendar.
    pub(super) fn is_clock(self) -> bool {
        matches!(self.unit, Unit::Second | Unit::Minute | Unit::Hour)
    }

    pub(super) fn grain(self) -> Grain {
        match self.unit {
            Unit::Second => Grain::Second,
            Unit::Minute => Grain::Minute,
            Unit::Hour => Grain::Hour,
            Unit::Day => Grain::Day,
            Unit::Weekend => Grain::Weekend,
            Unit::Week | Unit::Fortnight => Grain::Week,
            Unit::Month => Grain::Month,
            Unit::Quarter => Grain::Quarter,
            Unit::Year => Grain::Year,
            Unit::Decade => Grain::Decade,
        }
    }

    /// The day an amount away from a day.
    pub(super) fn after_date(self, date: Date) -> Option<When> {
        Some(day(date.checked_add(self.span).ok()?)?.grain(self.grain()))
    }

    /// The minute (for seconds: the second) an amount away from a moment.
    pub(super) fn after_moment(self, moment: &Zoned) -> Option<When> {
        if !self.is_clock() {
            return self.after_date(moment.date());
        }
        let start = moment.checked_add(self.span).ok()?;
        let unit = if self.unit == Unit::Second { Unit::Second } else { Unit::Minute };
        let end = start.checked_add(with_unit(Span::new(), 1, unit)?).ok()?;
        Some(between(&start, &end, self.grain()))
    }

    /// The whole stretch: up to a moment (or its day) for negative counts, from it (or the day
    /// after) for positive ones.
    pub(super) fn stretch(self, moment: &Zoned) -> Option<When> {
        let today = moment.date();
        if self.is_clock() {
            let other = moment.checked_add(self.span).ok()?;
            let (start, end) = if self.count < 0 { (&other, moment) } else { (moment, &other) };
            return Some(between(start, end, self.grain()));
        }
        let (start, end) = if self.count < 0 {
            (today.checked_add(self.span).ok()?, today)
        } else {
            let start = plus_days(today, 1)?;
            (start, start.checked_add(self.span).ok()?)
        };
        Some(When::dates(start, end, self.grain()))
    }
}

fn with_unit(span: Span, count: i64, unit: Unit) -> Option<Span> {
    let span = match unit {
        Unit::Second => span.try_seconds(count),
        Unit::Minute => span.try_minutes(count),
        Unit::Hour => span.try_hours(count),
        Unit::Day => span.try_days(count),
        Unit::Week | Unit::Weekend => span.try_weeks(count),
        Unit::Fortnight => span.try_weeks(count.checked_mul(2)?),
        Unit::Month => span.try_months(count),
        Unit::Quarter => span.try_months(count.checked_mul(3)?),
        Unit::Year => span.try_years(count),
        Unit::Decade => span.try_years(count.checked_mul(10)?),
    };
    span.ok()
}

/// The Monday of a year's first week: that of January 4th, as in ISO 8601.
pub(super) fn first_monday(year: i16) -> Option<Date> {
    monday(Date::new(year, 1, 4).ok()?)
}

pub(super) fn between(start: &Zoned, end: &Zoned, grain: Grain) -> When {
    let mut when = When::times(start.datetime(), end.datetime(), grain);
    when.exact = Some((start.timestamp(), end.timestamp()));
    when
}
