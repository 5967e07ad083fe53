//! Reads weeks, weekends, months, quarters, years and stretches of several of them.

use memfold_guard::month_number;

use crate::lifecycle::temporal::calendar::{self, Amount, When};
use crate::lifecycle::temporal::tokens::{self, Kind, Unit};
use crate::lifecycle::temporal::{Confidence, Grain};

use super::{Found, Reader};

impl Reader<'_> {
    /// Reads a period in any of its forms.
    pub(in crate::lifecycle::temporal) fn period(&self, index: usize) -> Option<Found> {
        self.stretch(index)
            .or_else(|| self.part_of_period(index))
            .or_else(|| self.week_of(index))
            .or_else(|| self.before_last(index))
            .or_else(|| self.quarter(index))
            .or_else(|| self.relative_period(index))
            .or_else(|| self.weekend(index))
            .or_else(|| self.month_period(index))
            .or_else(|| self.year(index))
    }

    /// "the last 3 days", "the next few weeks".
    fn stretch(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["these", "this"]);
        let sign = match self.word(start) {
            "last" | "past" | "previous" => -1,
            "next" | "coming" | "following" | "upcoming" => 1,
            _ => return None,
        };
        let (amount, next, vague) = self.amount(start + 1)?;
        let when = amount.times(sign)?.stretch(&self.now)?;
        let note = format!("roughly: taken as {}", amount.count);
        Some((next, if vague { when.doubt(Confidence::ROUGH, &note) } else { when }))
    }

    /// "rest of the week", "end of the month", "EOM".
    fn part_of_period(&self, index: usize) -> Option<Found> {
        let short = match self.word(index) {
            "eod" => Some(Unit::Day),
            "eow" => Some(Unit::Week),
            "eom" => Some(Unit::Month),
            "eoy" => Some(Unit::Year),
            _ => None,
        };
        if let Some(unit) = short {
            let end = calendar::period(self.today, unit, 0)?.end.date();
            return Some((index + 1, calendar::day(calendar::plus_days(end, -1)?)?));
        }
        let start = self.skip(index, &["the"]);
        let rest = match self.word(start) {
            "rest" => true,
            "end" => false,
            _ => return None,
        };
        let owner = self.skip(self.skip(start + 1, &["of"]), &["the", "my", "our"]);
        let unit = tokens::unit(self.word(owner)).filter(|unit| *unit != Unit::Weekend);
        let (next, whole) = match unit {
            Some(unit) => (owner + 1, calendar::period(self.today, unit, 0)?),
            None => self.period(owner)?,
        };
        if rest {
            return Some((next, When::dates(self.today, whole.end.date(), whole.grain)));
        }
        let last = calendar::day(calendar::plus_days(whole.end.date(), -1)?)?;
        Some((next, last.doubt(Confidence::ROUGH, "taken as the last day of the period")))
    }

    /// "the week of October 6th", "the first week of May", "the last week of July".
    fn week_of(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        if (self.word(start), self.word(start + 1)) == ("week", "of") {
            let (next, day) = self.day(start + 2)?;
            let week = calendar::period(day.start.date(), Unit::Week, 0)?.sure(day.confidence);
            return Some((next, When { note: day.note, ..week }));
        }
        let last = self.word(start) == "last";
        let (number, next) = if last { (0, start + 1) } else { self.nth(start)? };
        let unit = tokens::unit(self.word(next));
        let unit = unit.filter(|unit| matches!(unit, Unit::Week | Unit::Weekend))?;
        let of = self.skip(next + 1, &["of", "in"]);
        let (next, whole) = match self.year_after(next + 1) {
            Some((year, behind)) => (behind, calendar::years(year, 1, Grain::Year)?),
            None if of == next + 1 => return None,
            None => self.month_named(self.skip(of, &["the"]))?,
        };
        let first = first_monday(&whole, last)?;
        let weeks = if last { 0 } else { i64::from(number) - 1 };
        let monday = calendar::plus_days(first, 7 * weeks)?;
        let week = calendar::period(monday, unit, 0)?.sure(whole.confidence);
        Some((next, When { note: whole.note, ..week }))
    }

    /// "the week before last", "the year after next".
    fn before_last(&self, index: usize) -> Option<Found> {
        let unit = tokens::unit(self.word(index))?;
        let offset = match (self.word(index + 1), self.word(index + 2)) {
            ("before", "last") => -2,
            ("after", "next") => 2,
            ("after", "the") if self.word(index + 3) == "next" => {
                return Some((index + 4, calendar::period(self.today, unit, 2)?));
            }
            _ => return None,
        };
        Some((index + 3, calendar::period(self.today, unit, offset)?))
    }

    /// "this week", "last quarter", "the coming year", "next day".
    fn relative_period(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["this"]);
        let start =
            if start > index && tokens::unit(self.word(start)).is_some() { index } else { start };
        let which = self.word(start);
        let unit = tokens::unit(self.word(start + 1))?;
        let next = start + 2;
        let offset = match which {
            "this" | "current" => 0,
            "last" | "past" | "previous" => -1,
            "next" | "coming" | "following" | "upcoming" => 1,
            _ => return None,
        };
        let amount = Amount::new(offset, unit)?;
        let when = match unit {
            Unit::Second => return None,
            Unit::Minute | Unit::Hour if offset != 0 => amount.stretch(&self.now)?,
            Unit::Day => self.day_beside(start, offset)?,
            Unit::Weekend => self.relative_weekend(which, start > index, offset)?,
            _ => calendar::period(self.today, unit, offset)?,
        };
        let rolling = matches!(which, "past" | "coming") && unit != Unit::Weekend;
        let note = "taken as the whole calendar period; as many days from the writing may be meant";
        Some((next, if rolling { when.doubt(Confidence::LIKELY, note) } else { when }))
    }

    /// "the next day" follows the time named before; "last day of the sprint" is no time at all.
    fn day_beside(&self, index: usize, offset: i64) -> Option<When> {
        let after = self.word(index + 2);
        if after == "of" || !self.closed(index + 2) {
            return None;
        }
        let base = if matches!(self.word(index), "next" | "following" | "previous") {
            self.previous.map(|previous| previous.date())
        } else {
            None
        };
        let date = calendar::plus_days(base.unwrap_or(self.today), offset)?;
        let note = "counted from the time named before it, or from the writing";
        Some(calendar::day(date)?.doubt(Confidence::ROUGH, note))
    }

    fn relative_weekend(&self, which: &str, this_past: bool, offset: i64) -> Option<When> {
        let offset = match which {
            "coming" | "upcoming" => 0,
            // The weekend before a weekday is that of the week before.
            "past" if this_past => -1,
            _ => offset,
        };
        let when = calendar::period(self.today, Unit::Weekend, offset)?;
        let unsure = which == "next";
        let note = "the one of this week may be meant";
        Some(if unsure { when.doubt(Confidence::LIKELY, note) } else { when })
    }

    /// "over the weekend", "at the weekend": before or after the writing by the tense.
    fn weekend(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let tied = start > index || self.before(index, 1) == "on";
        if self.word(start) != "weekend" || !tied || !self.closed(start + 1) {
            return None;
        }
        let (past, stated) = self.direction(index, start + 1);
        let weekend = calendar::period(self.today, Unit::Weekend, 0)?;
        let over = weekend.start.date() <= self.today;
        let offset = if past && !over { -1 } else { 0 };
        let when = calendar::period(self.today, Unit::Weekend, offset)?;
        Some((start + 1, Self::placed(when, stated)))
    }

    /// "Q3 2024", "the third quarter of last year", "Q3".
    fn quarter(&self, index: usize) -> Option<Found> {
        // "next year's first quarter"
        let owner = self.year_after(index).filter(|_| self.word(index + 1) == "year");
        let start = self.skip(owner.map_or(index, |(_, behind)| behind), &["the"]);
        let (quarter, next) = match self.kind(start) {
            Kind::Quarter(quarter) => (quarter, start + 1),
            _ => {
                let (number, next) = self.nth(start)?;
                let is_quarter = tokens::unit(self.word(next)) == Some(Unit::Quarter);
                (i8::try_from(number).ok().filter(|_| is_quarter)?, next + 1)
            }
        };
        let quarter = (1..=4).contains(&quarter).then_some(quarter)?;
        let separated = self.skip_mark(next, '-');
        let year = owner.map(|(year, _)| (year, next)).or_else(|| self.year_after(separated));
        if let Some((year, next)) = year {
            return Some((next, calendar::quarter(year, quarter)?.sure(Confidence::EXACT)));
        }
        let (past, stated) = self.direction(index, next);
        let this = calendar::quarter(self.today.year(), quarter)?;
        let year = match (past, this.start.date() > self.today, this.end.date() <= self.today) {
            (true, true, _) => self.today.year() - 1,
            (false, _, true) => self.today.year() + 1,
            _ => self.today.year(),
        };
        Some((next, Self::placed(calendar::quarter(year, quarter)?, stated)))
    }

    /// Reads the month in "the first Monday of …".
    pub(super) fn month_named(&self, index: usize) -> Option<Found> {
        if let Some(found) = self.relative_month(index) {
            return Some(found);
        }
        let month = month_number(self.word(index))?;
        self.month_with_year(month, index, index + 1)
    }

    /// "this month", "next month".
    pub(in crate::lifecycle::temporal) fn relative_month(&self, index: usize) -> Option<Found> {
        let offset = match self.word(index) {
            "this" | "current" => 0,
            "last" | "previous" => -1,
            "next" | "coming" => 1,
            "month" => return Some((index + 1, calendar::period(self.today, Unit::Month, 0)?)),
            _ => return None,
        };
        let is_month = self.word(index + 1) == "month";
        Some((index + 2, calendar::period(self.today, Unit::Month, offset).filter(|_| is_month)?))
    }

    /// "March 2025", "last May", "mid-March", "in March", `2025-03`.
    fn month_period(&self, index: usize) -> Option<Found> {
        if let Kind::YearMonth(year, month) = self.kind(index) {
            return Some((index + 1, calendar::month(year, month)?.sure(Confidence::EXACT)));
        }
        let which = self.word(index);
        if matches!(which, "last" | "next" | "this" | "past" | "coming") {
            return self.relative_named_month(index);
        }
        if matches!(which, "early" | "mid" | "late") {
            let name = self.skip_mark(self.skip(index + 1, &["in"]), '-');
            let month = month_number(self.word(name))?;
            let (next, when) = self.month_with_year(month, index, name + 1)?;
            return Some((next, when.doubt(Confidence::ROUGH, "a part of the month")));
        }
        let month = month_number(which)?;
        if self.month_with_year(month, index, index + 1)?.0 == index + 1 && !self.means_month(index)
        {
            return None;
        }
        self.month_with_year(month, index, index + 1)
    }

    fn relative_named_month(&self, index: usize) -> Option<Found> {
        let month = month_number(self.word(index + 1))?;
        let verb = matches!(self.word(index + 1), "may" | "march");
        if verb && !self.tokens[index + 1].capital && !self.closed(index + 2) {
            return None;
        }
        let (year, this) = (self.today.year(), self.today.month());
        let year = match self.word(index) {
            "last" | "past" if month >= this => year - 1,
            "next" | "coming" if month <= this => year + 1,
            _ => year,
        };
        let when = calendar::month(year, month)?;
        let unsure = self.word(index) != "this" && year == self.today.year();
        let note = "the one of another year may be meant";
        Some((index + 2, if unsure { when.doubt(Confidence::LIKELY, note) } else { when }))
    }

    fn month_with_year(&self, month: i8, start: usize, next: usize) -> Option<Found> {
        if let Some((year, next)) = self.year_after(next) {
            return Some((next, calendar::month(year, month)?.sure(Confidence::EXACT)));
        }
        let (past, stated) = self.direction(start, next);
        let (year, this) = (self.today.year(), self.today.month());
        let year = match past {
            true if month > this => year - 1,
            false if month < this => year + 1,
            _ => year,
        };
        Some((next, Self::placed(calendar::month(year, month)?, stated)))
    }

    /// Names of months are names of people, verbs and adjectives too.
    fn means_month(&self, index: usize) -> bool {
        let word = self.word(index);
        let capital = self.tokens[index].capital;
        let tied = matches!(
            self.before(index, 1),
            "in" | "of"
                | "since"
                | "until"
                | "till"
                | "by"
                | "during"
                | "through"
                | "before"
                | "after"
                | "from"
                | "to"
                | "between"
                | "and"
                | "throughout"
        );
        if self.before(index, 1) == "of" && !capital {
            return false;
        }
        let first = index == 0 || matches!(self.kind(index - 1), Kind::Mark('.' | '\n'));
        match word {
            "may" | "march" => {
                let ends = matches!(self.kind(index + 1), Kind::Mark(_));
                tied && (capital || self.closed(index + 1)) || capital && !first && ends
            }
            "april" | "june" | "august" | "jan" | "mar" | "jun" | "dec" | "sep" => tied,
            _ if word.len() < 4 => tied || capital && !first && self.closed(index + 1),
            _ => capital || tied,
        }
    }

    /// "in 2019", "the 1990s"; a number of four digits alone is no year.
    fn year(&self, index: usize) -> Option<Found> {
        if let Kind::Decade(first) = self.kind(index) {
            let article = self.before(index, 1) == "the" || first < 1970;
            let decade = calendar::years(first, 10, Grain::Decade).filter(|_| article)?;
            return Some((index + 1, decade.doubt(Confidence::LIKELY, "a whole decade")));
        }
        let start = self.skip(index, &["year"]);
        let Kind::Number(number @ 1900..=2099) = self.kind(start) else { return None };
        let tied = matches!(
            self.before(index, 1),
            "in" | "since"
                | "until"
                | "till"
                | "by"
                | "during"
                | "before"
                | "after"
                | "from"
                | "to"
                | "between"
                | "and"
                | "throughout"
                | "mid"
                | "early"
                | "late"
        );
        // "in 2000 rows", "by 2048 bytes".
        let counted = !self.closed(start + 1) && tokens::unit(self.word(start + 1)).is_some()
            || self.word(start + 1).ends_with('s') && !self.closed(start + 1);
        if counted || start == index && !tied {
            return None;
        }
        let when = calendar::years(i16::try_from(number).ok()?, 1, Grain::Year)?;
        Some((start + 1, when.sure(Confidence::CLEAR)))
    }
}

/// The first week of a month begins on its first Monday, that of a year as in ISO 8601; the last
/// week of a month is the last that it holds as a whole.
fn first_monday(whole: &When, last: bool) -> Option<jiff::civil::Date> {
    let (first, end) = (whole.start.date(), whole.end.date());
    match (whole.grain, last) {
        (Grain::Year, false) => calendar::first_monday(first.year()),
        (Grain::Year, true) => calendar::plus_days(calendar::first_monday(end.year())?, -7),
        (_, false) => calendar::monday(calendar::plus_days(first, 6)?),
        (_, true) => calendar::plus_days(calendar::monday(end)?, -7),
    }
}
