//! Reads ranges: "from May 3 to May 5", "May 3-5", "between 9:30 and 11:00 on Thursday".

use std::ops::Range;

use jiff::civil::Date;
use memfold_guard::month_number;

use super::calendar::{self, Amount, When};
use super::clock::{TimeOfDay, closing, counts_clock};
use super::grammar::{Found, Reader};
use super::reference::{Confidence, Grain};
use super::tokens::{self, Kind, Unit};

impl Reader<'_> {
    /// Reads a range of days or times that starts at a token, "from" and "between" included.
    pub(super) fn range(&self, index: usize) -> Option<Found> {
        let lead = self.word(index);
        let start = if matches!(lead, "from" | "between") { index + 1 } else { index };
        let from = if self.before(index, 1) == "from" { index - 1 } else { index };
        if self.word(from) == "from" && self.tells_of_a_move(from) {
            return None;
        }
        let between = lead == "between";
        let led = start > index;
        self.days_of_month(start, between)
            .or_else(|| self.days_before_month(start, between, led))
            .or_else(|| self.day_to_date(start, between).filter(|_| led))
            .or_else(|| self.hours_of_date(start).filter(|_| led))
            .or_else(|| self.clock_range(start, between))
            .or_else(|| self.day_with_clock_range(index))
            .or_else(|| self.weekdays_of_week(index))
            .or_else(|| self.months_around_now(start, between))
            .or_else(|| self.two_moments(start, between))
    }

    /// "moved from Friday to Monday" names two days and no stretch.
    fn tells_of_a_move(&self, index: usize) -> bool {
        (1..=5).any(|back| {
            matches!(
                self.before(index, back),
                "moved"
                    | "move"
                    | "moves"
                    | "changed"
                    | "change"
                    | "shifted"
                    | "postponed"
                    | "delayed"
                    | "rescheduled"
                    | "pushed"
                    | "slipped"
                    | "switched"
                    | "migrated"
            )
        })
    }

    /// The index behind "to", "until", "-" or, after "between", "and".
    fn connector(&self, index: usize, between: bool) -> Option<usize> {
        let joins = match self.word(index) {
            "to" | "until" | "till" | "untill" | "through" | "thru" => true,
            "and" => between,
            _ => self.mark(index, '-') || self.mark(index, '—'),
        };
        joins.then_some(index + 1)
    }

    fn short_day(&self, index: usize) -> Option<(i8, usize)> {
        let (number, next) = match self.kind(index) {
            Kind::Number(number) | Kind::Ordinal(number) => (number, index + 1),
            _ => self.nth(index)?,
        };
        Some((i8::try_from(number).ok().filter(|day| (1..=31).contains(day))?, next))
    }

    /// "May 3-5", "July 13 to 15, 2024".
    fn days_of_month(&self, index: usize, between: bool) -> Option<Found> {
        let month = month_number(self.word(index))?;
        let name = self.skip(self.skip_mark(index + 1, '.'), &["from", "between"]);
        let between = between || self.before(name, 1) == "between";
        let (first, next) = self.short_day(name)?;
        let (last, next) = self.short_day(self.skip(self.connector(next, between)?, &["the"]))?;
        if matches!(self.kind(next), Kind::Mark(':')) || month_number(self.word(next)).is_some() {
            return None;
        }
        self.between_days(month, first..last, index, next)
    }

    /// "13 to 15 July", "from 4 to 22 January, 1995", "4-23 next month".
    fn days_before_month(&self, index: usize, between: bool, led: bool) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let (first, next) = self.short_day(start)?;
        let (last, next) = self.short_day(self.skip(self.connector(next, between)?, &["the"]))?;
        let name = self.skip(next, &["of", "in"]);
        if let Some(month) = month_number(self.word(name)) {
            // "from 5 to 6 of April 22" counts hours.
            if self.short_day(name + 1).is_some() {
                return None;
            }
            return self.between_days(month, first..last, index, name + 1);
        }
        let (next, month) = self.relative_month(name).filter(|_| led || name >= next)?;
        if self.word(name) == "month" {
            return None;
        }
        let on = |day| month.start.date().with().day(day).build().ok();
        Some((next, days(on(first)?, on(last)?)?))
    }

    /// "from 2 to April 7".
    fn day_to_date(&self, index: usize, between: bool) -> Option<Found> {
        let (first, next) = self.short_day(self.skip(index, &["the"]))?;
        let (next, last) = self.month_day(self.connector(next, between)?)?;
        let date = last.start.date();
        let when = days(date.with().day(first).build().ok()?, date)?.sure(last.confidence);
        Some((next, When { note: last.note, ..when }))
    }

    fn between_days(
        &self,
        month: i8,
        days_of_month: Range<i8>,
        start: usize,
        next: usize,
    ) -> Option<Found> {
        let Range { start: first, end: last } = days_of_month;
        if first >= last {
            return None;
        }
        let (next, year, base) = match self.year_after(next) {
            Some((year, next)) => (next, year, None),
            None => {
                let near = self.month_day_near(month, first, start, next)?;
                (next, near.start.year(), Some(near))
            }
        };
        let date = |day| Date::new(year, month, day).ok();
        let when = days(date(first)?, date(last)?)?;
        Some((
            next,
            match base {
                Some(near) => When { confidence: near.confidence, note: near.note, ..when },
                None => when.sure(Confidence::EXACT),
            },
        ))
    }

    /// "9:30 - 11:00 on Thursday", "3-4pm tomorrow".
    fn clock_range(&self, index: usize, between: bool) -> Option<Found> {
        let (next, first, last) = self.two_clocks(index, between)?;
        let behind = self.skip(self.skip_mark(next, ','), &["on", "of"]);
        if let Some((next, day)) = self.day(behind) {
            return Some((next, self.hours(&day, first, last)?));
        }
        let when = self.hours(&calendar::day(self.today)?, first, last)?;
        let note = "no day is named; taken as the day of writing";
        Some((next, when.doubt(Confidence::LIKELY, note)))
    }

    /// "from 5 to 6 of April 22"; "grew from 5 to 6 on April 22" counts something else.
    fn hours_of_date(&self, index: usize) -> Option<Found> {
        let (first, next) = self.short_day(index)?;
        let (last, next) = self.short_day(self.connector(next, false)?)?;
        if self.word(next) != "of" || first > 12 || last > 12 {
            return None;
        }
        let (next, day) = self.day(next + 1)?;
        Some((next, self.hours(&day, TimeOfDay::hour(first)?, TimeOfDay::hour(last)?)?))
    }

    /// "Thursday from 9:30 to 11:00", "tomorrow between 1pm and 2pm".
    fn day_with_clock_range(&self, index: usize) -> Option<Found> {
        let (next, _, day) = self.day_with_early_part(index)?;
        let lead = self.skip_mark(next, ',');
        let start = self.skip(self.skip(lead, &["in"]), &["from", "between"]);
        let between = start > 0 && self.word(start - 1) == "between";
        let (next, first, last) = self.two_clocks(start, between)?;
        Some((next, self.hours(&day, first, last)?))
    }

    /// "next week between Wednesday and Friday".
    fn weekdays_of_week(&self, index: usize) -> Option<Found> {
        if self.word(index + 1) != "week" {
            return None;
        }
        let (next, week) = self.period(index)?;
        let start = self.skip(next, &["from", "between"]);
        let between = self.word(start.checked_sub(1)?) == "between";
        let first = tokens::weekday(self.word(start)).filter(|_| start > next)?;
        let name = self.connector(start + 1, between)?;
        let last = tokens::weekday(self.word(name))?;
        let on = |weekday| calendar::weekday_of_week(week.start.date(), 0, weekday);
        Some((name + 1, days(on(first)?, on(last)?)?))
    }

    /// "between August and October", written in September, is that of the same year.
    fn months_around_now(&self, index: usize, between: bool) -> Option<Found> {
        let first = month_number(self.word(index))?;
        let name = self.connector(index + 1, between)?;
        let last = month_number(self.word(name))?;
        let inner = (self.today.month() - first).rem_euclid(12);
        let around = 0 < inner && inner < (last - first).rem_euclid(12);
        if !around || self.month_day(name).is_some() || self.year_after(name + 1).is_some() {
            return None;
        }
        let this = self.today.first_of_month();
        let start = calendar::plus_months(this, -i64::from(inner))?;
        let end = calendar::plus_months(start, i64::from((last - first).rem_euclid(12)) + 1)?;
        let when = When::dates(start, end, Grain::Month);
        Some((name + 1, when.doubt(Confidence::LIKELY, "the one that holds the day of writing")))
    }

    fn two_clocks(&self, index: usize, between: bool) -> Option<(usize, TimeOfDay, TimeOfDay)> {
        let (last_index, first) = match self.clock(index, true) {
            Some((next, first)) => (self.connector(next, between)?, Some(first)),
            // "9-11am", "from 3 to 4pm": the hour before takes its half of the day from the other.
            None => (self.connector(index + 1, between)?, None),
        };
        let (next, last) = self.clock(last_index, true)?;
        if first.is_none() && !last.certain && last.grain == Grain::Hour
            || counts_clock(self.word(next))
        {
            return None;
        }
        let mut first = match first {
            Some(first) => first,
            None => {
                let Kind::Number(hour @ 0..=23) = self.kind(index) else { return None };
                TimeOfDay { utc: last.utc, ..TimeOfDay::hour(i8::try_from(hour).ok()?)? }
            }
        };
        if !first.certain && last.certain && last.time.hour() >= 12 && first.time.hour() < 12 {
            let afternoon = first.time.with().hour(first.time.hour() + 12).build().ok()?;
            if afternoon < last.time {
                first.time = afternoon;
            }
        }
        first.certain |= last.certain;
        Some((next, first, last))
    }

    fn hours(&self, day: &When, first: TimeOfDay, last: TimeOfDay) -> Option<When> {
        let start = self.at(day, first)?;
        let end = self.at(day, last)?;
        let mut end_time = end.start;
        if end_time <= start.start {
            let hours = if last.certain { 24 } else { 12 };
            end_time = end_time.checked_add(jiff::SignedDuration::from_hours(hours)).ok()?;
        }
        let grain = start.grain.min(end.grain);
        Some(When { end: end_time, grain, exact: None, ..start })
    }

    /// "from Oct. 2 to October 22", "between 4pm on Jan 1, 2016 and 5pm today".
    fn two_moments(&self, index: usize, between: bool) -> Option<Found> {
        let (next, mut first) = self.moment(index)?;
        let (next, mut last) = self.moment(self.connector(next, between)?)?;
        if last.confidence == Confidence::EXACT && first.confidence < Confidence::EXACT {
            let years = i64::from(last.start.year()) - i64::from(first.start.year());
            if first.note.is_some() {
                first = moved(first, Amount::new(years, Unit::Year)?)?;
            }
        }
        if closing(&last) <= first.start {
            let step = if first.grain <= Grain::Week { Unit::Week } else { Unit::Year };
            let named_month =
                self.tokens[index..next].iter().any(|token| month_number(&token.word).is_some());
            let unit = if named_month { Unit::Year } else { step };
            let (past, _) = self.direction(index, next);
            if past {
                first = moved(first, Amount::new(-1, unit)?)?;
            } else {
                last = moved(last, Amount::new(1, unit)?)?;
            }
        }
        let end = closing(&last);
        if end <= first.start {
            return None;
        }
        let exact = first.exact.zip(last.exact).map(|(first, last)| (first.0, last.0));
        let confidence = first.confidence.min(last.confidence);
        let grain = first.grain.max(last.grain);
        let note = first.note.or(last.note);
        Some((next, When { start: first.start, end, grain, confidence, note, exact }))
    }
}

fn moved(when: When, amount: Amount) -> Option<When> {
    let shift = |date: Date| Some(amount.after_date(date)?.start.date());
    let start = shift(when.start.date())?.to_datetime(when.start.time());
    let end = shift(when.end.date())?.to_datetime(when.end.time());
    Some(When { start, end, exact: None, ..when })
}

fn days(first: Date, last: Date) -> Option<When> {
    (first <= last).then_some(())?;
    Some(When::dates(first, calendar::plus_days(last, 1)?, Grain::Day))
}
