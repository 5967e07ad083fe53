//! Reads days: relative ones, weekdays, dates, feasts.

use jiff::civil::Date;
use memfold_guard::month_number;

use crate::lifecycle::temporal::Confidence;
use crate::lifecycle::temporal::calendar::{self, When};
use crate::lifecycle::temporal::tokens::{self, Kind};

use super::{Found, NEAREST, Reader, SAME_WEEKDAY};

impl Reader<'_> {
    /// Reads a day in any of its forms.
    pub(in crate::lifecycle::temporal) fn day(&self, index: usize) -> Option<Found> {
        self.relative_day(index)
            .or_else(|| self.numeric_date(index))
            .or_else(|| self.shifted_day(index))
            .or_else(|| self.nth_weekday(index))
            .or_else(|| self.weekday_with_date(index))
            .or_else(|| self.date_with_weekday(index))
            .or_else(|| self.holiday(index))
            .or_else(|| self.relative_weekday(index))
            .or_else(|| self.weekday_of_week(index))
            .or_else(|| self.day_of_month(index))
            .or_else(|| self.bare_weekday(index))
    }

    fn relative_day(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let three = (self.word(start), self.word(start + 1), self.word(start + 2));
        let (offset, next) = match three {
            ("day", "before", "yesterday") => (-2, start + 3),
            ("day", "after", "tomorrow") => (2, start + 3),
            ("yesterday", ..) if start == index => (-1, index + 1),
            ("today", ..) if start == index => (0, index + 1),
            ("tomorrow" | "tomorrows", ..) if start == index => (1, index + 1),
            _ => return None,
        };
        Some((next, calendar::day(calendar::plus_days(self.today, offset)?)?))
    }

    fn numeric_date(&self, index: usize) -> Option<Found> {
        const ORDER: &str = "day and month may be the other way round; the month is taken first";
        match self.kind(index) {
            Kind::Date(date) => Some((index + 1, calendar::day(date)?.sure(Confidence::EXACT))),
            Kind::Pair { first, second, year, separator } => {
                let tied = matches!(
                    self.before(index, 1),
                    "on" | "by" | "until" | "till" | "since" | "before" | "after" | "from" | "to"
                );
                if year.is_none() && !tied {
                    return None;
                }
                let day_first = first > 12 || separator == '.' && second <= 12;
                let (month, day) = if day_first { (second, first) } else { (first, second) };
                let open = first <= 12 && second <= 12 && first != second && separator != '.';
                let when = match year {
                    Some(year) => {
                        calendar::day(Date::new(year, month, day).ok()?)?.sure(Confidence::EXACT)
                    }
                    None => self.month_day_near(month, day, index, index + 1)?,
                };
                let when = if open { when.doubt(Confidence::AMBIGUOUS, ORDER) } else { when };
                Some((index + 1, when))
            }
            _ => None,
        }
    }

    /// "the first Monday of May", "the last day of October 2015", "the second last Friday of May".
    fn nth_weekday(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the", "on"]);
        let (number, next) = if self.word(start) == "last" { (1, start) } else { self.nth(start)? };
        let last = self.word(next) == "last";
        let next = self.skip(next, &["last"]);
        let number = i8::try_from(number).ok()?;
        let number = if last { -number } else { number };
        let weekday = tokens::weekday(self.word(next));
        let of = next + 1;
        if weekday.is_none() && self.word(next) != "day" || !matches!(self.word(of), "of" | "in") {
            return None;
        }
        let (next, month) = self.month_named(self.skip(of + 1, &["the"]))?;
        let first = month.start.date();
        let date = match weekday {
            Some(weekday) => {
                let weekday = jiff::civil::Weekday::from_monday_one_offset(weekday).ok()?;
                first.nth_weekday_of_month(number, weekday).ok()?
            }
            None if last => calendar::plus_days(first.last_of_month(), i64::from(number) + 1)?,
            None => first.with().day(number).build().ok()?,
        };
        let when = calendar::day(date)?.sure(month.confidence);
        Some((next, When { note: month.note, ..when }))
    }

    /// "Friday the 11th", "Monday, March 3rd 2025".
    fn weekday_with_date(&self, index: usize) -> Option<Found> {
        let weekday = tokens::weekday(self.word(index))?;
        let dotted = self.skip_mark(index + 1, '.');
        let start = self.skip(self.skip_mark(dotted, ','), &["the"]);
        if let Some((next, when)) = self.month_day(start).or_else(|| self.day_month(start)) {
            return Some((next, self.with_weekday(when, weekday)?));
        }
        let article = self.word(start.checked_sub(1)?) == "the";
        let (day, next) = match self.kind(start) {
            Kind::Ordinal(_) => self.day_number(start)?,
            _ if article => self.day_number(start)?,
            _ => return None,
        };
        let (past, stated) = self.direction(index, next);
        let step = if past && stated { -1 } else { 1 };
        let date = (0..48).find_map(|months| {
            let month = calendar::plus_months(self.today.first_of_month(), step * months)?;
            let date = Date::new(month.year(), month.month(), day).ok()?;
            (date.weekday().to_monday_one_offset() == weekday).then_some(date)
        })?;
        Some((next, Self::placed(calendar::day(date)?, true)))
    }

    /// "March 3", also with a weekday behind it: "Jul 18, Fri".
    fn date_with_weekday(&self, index: usize) -> Option<Found> {
        let (next, when) = self.month_day(index).or_else(|| self.day_month(index))?;
        let name = self.skip_mark(next, ',');
        let Some(weekday) = tokens::weekday(self.word(name)) else { return Some((next, when)) };
        let fitting = self.with_weekday(when.clone(), weekday)?;
        let fits = fitting.start.date().weekday().to_monday_one_offset() == weekday;
        Some(if fits { (name + 1, fitting) } else { (next, when) })
    }

    /// Takes the year in which the date falls on the weekday, where no year is written.
    fn with_weekday(&self, when: When, weekday: i8) -> Option<When> {
        const NOTE: &str = "the date does not fall on the weekday that is named";
        let date = when.start.date();
        let fits = |date: Date| date.weekday().to_monday_one_offset() == weekday;
        if fits(date) {
            return Some(when);
        }
        if when.confidence < Confidence::EXACT {
            let near = [0, 1, -1].into_iter().find_map(|years| {
                let date = date.with().year(self.today.year() + years).build().ok()?;
                fits(date).then_some(date)
            });
            if let Some(near) = near {
                let note = "the year in which the date falls on that weekday";
                return Some(calendar::day(near)?.doubt(Confidence::LIKELY, note));
            }
        }
        Some(when.doubt(Confidence::AMBIGUOUS, NOTE))
    }

    /// Reads a year behind a date or month: "2025", ", 2025", "of 2025", "next year".
    pub(in crate::lifecycle::temporal) fn year_after(&self, index: usize) -> Option<(i16, usize)> {
        let start = self.skip(self.skip_mark(index, ','), &["of", "in"]);
        if let Kind::Number(year @ 1000..=2999) = self.kind(start) {
            return Some((i16::try_from(year).ok()?, start + 1));
        }
        if self.word(start + 1) != "year" {
            return None;
        }
        let offset = match self.word(start) {
            "this" => 0,
            "last" => -1,
            "next" => 1,
            _ => return None,
        };
        Some((self.today.year() + offset, start + 2))
    }

    /// Reads the number of a day behind a month's name.
    pub(super) fn day_number(&self, index: usize) -> Option<(i8, usize)> {
        let (number, next) = match self.kind(index) {
            Kind::Number(number) => (number, index + 1),
            _ => self.nth(index).or_else(|| self.cardinal(index))?,
        };
        let day = i8::try_from(number).ok().filter(|day| (1..=31).contains(day))?;
        Some((day, next))
    }

    /// "March 3rd", "March 3, 2025", "Oct. 2", "May twenty-first".
    pub(in crate::lifecycle::temporal) fn month_day(&self, index: usize) -> Option<Found> {
        let month = month_number(self.word(index))?;
        let start = self.skip_mark(self.skip_mark(index + 1, '.'), '-');
        let (day, next) = self.day_number(self.skip(start, &["the"]))?;
        let verb = matches!(self.word(index), "may" | "march") && !self.tokens[index].capital;
        if verb && !self.closed(next) || tokens::unit(self.word(next)).is_some() {
            return None;
        }
        self.dated(month, day, index, next)
    }

    /// "3 March 2025", "the 3rd of March".
    pub(in crate::lifecycle::temporal) fn day_month(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let (day, next) = self.day_number(start)?;
        let name = self.skip_mark(self.skip(next, &["of"]), '-');
        let month = month_number(self.word(name))?;
        let of = name > next;
        let spelled = self.kind(start) == Kind::Word;
        let verb = matches!(self.word(name), "may" | "march") && !self.tokens[name].capital;
        if !of && (spelled || verb) {
            return None;
        }
        self.dated(month, day, index, name + 1)
    }

    fn dated(&self, month: i8, day: i8, start: usize, next: usize) -> Option<Found> {
        match self.year_after(next) {
            Some((year, behind)) => {
                let date = Date::new(year, month, day).ok()?;
                Some((behind, calendar::day(date)?.sure(Confidence::EXACT)))
            }
            None => Some((next, self.month_day_near(month, day, start, next)?)),
        }
    }

    pub(in crate::lifecycle::temporal) fn month_day_near(
        &self,
        month: i8,
        day: i8,
        start: usize,
        next: usize,
    ) -> Option<When> {
        let (past, stated) = self.direction(start, next);
        let toward = |step: i16| {
            (0..9).find_map(|years| {
                let date = Date::new(self.today.year() + step * years, month, day).ok()?;
                let beyond = if step < 0 { date > self.today } else { date < self.today };
                (!beyond).then_some(date)
            })
        };
        if stated {
            return Some(Self::placed(calendar::day(toward(if past { -1 } else { 1 })?)?, true));
        }
        let (before, after) = (toward(-1)?, toward(1)?);
        let nearer_ahead = after.duration_since(self.today) < self.today.duration_since(before);
        let when = calendar::day(if nearer_ahead { after } else { before })?;
        Some(when.doubt(Confidence::AMBIGUOUS, NEAREST))
    }

    fn holiday(&self, index: usize) -> Option<Found> {
        let which = self.word(index);
        let prefixed = matches!(which, "this" | "last" | "next");
        let start = if prefixed { index + 1 } else { index };
        let (month, day, next) = self.feast(start)?;
        let found = self.dated(month, day, index, next)?;
        let year = self.today.year();
        let over = Date::new(year, month, day).ok()? <= self.today;
        let year = match which {
            "last" if !over => year - 1,
            "next" if over => year + 1,
            _ if prefixed => year,
            _ => return Some(found),
        };
        Some((next, calendar::day(Date::new(year, month, day).ok()?)?))
    }

    fn feast(&self, index: usize) -> Option<(i8, i8, usize)> {
        let two = (self.word(index), self.word(index + 1));
        Some(match two {
            ("christmas" | "xmas", "eve") => (12, 24, index + 2),
            ("christmas" | "xmas", "day") => (12, 25, index + 2),
            ("christmas" | "xmas", _) => (12, 25, index + 1),
            ("halloween", _) => (10, 31, index + 1),
            ("valentine" | "valentines", "day") => (2, 14, index + 2),
            ("new", "year" | "years") => match self.word(index + 2) {
                "eve" => (12, 31, index + 3),
                "day" => (1, 1, index + 3),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// "last Friday", "this coming Monday", "next week Sunday", "last week's Sunday".
    fn relative_weekday(&self, index: usize) -> Option<Found> {
        let mut start = index;
        let mut which = self.word(index);
        let inner = self.word(index + 1);
        if which == "this" && matches!(inner, "past" | "coming" | "last" | "next") {
            start += 1;
            which = inner;
        }
        let in_week = self.word(start + 1) == "week";
        let name = if in_week { self.skip(start + 2, &["on"]) } else { start + 1 };
        let weekday = tokens::weekday(self.word(name))?;
        let week = |offset| calendar::weekday_of_week(self.today, offset, weekday);
        let next = self.skip_abbreviation_dot(name);
        let when = match (which, in_week) {
            ("last" | "previous", true) => calendar::day(week(-1)?)?,
            ("this", true) => calendar::day(week(0)?)?,
            ("next", true) => calendar::day(week(1)?)?,
            ("last" | "past" | "previous", false) => self.last_weekday(weekday)?,
            ("coming" | "upcoming" | "following", false) => {
                calendar::day(calendar::nearest_weekday(self.today, weekday, false)?)?
            }
            ("next", false) if start > index => {
                calendar::day(calendar::nearest_weekday(self.today, weekday, false)?)?
            }
            ("next", false) => self.next_weekday(weekday)?,
            ("this", false) => self.this_weekday(weekday, index, next)?,
            _ => return None,
        };
        Some((next, when))
    }

    fn skip_abbreviation_dot(&self, name: usize) -> usize {
        let short = self.word(name).len() < 6;
        if short && self.mark(name + 1, '.') && !self.closed_sentence(name + 2) {
            name + 2
        } else {
            name + 1
        }
    }

    fn closed_sentence(&self, index: usize) -> bool {
        self.tokens.get(index).is_none_or(|token| token.capital)
    }

    fn last_weekday(&self, weekday: i8) -> Option<When> {
        const NOTE: &str = "the one of the week before may be meant";
        let date = calendar::nearest_weekday(self.today, weekday, true)?;
        let when = calendar::day(date)?;
        let same_week = calendar::monday(date) == calendar::monday(self.today);
        Some(if same_week { when.doubt(Confidence::ROUGH, NOTE) } else { when })
    }

    fn next_weekday(&self, weekday: i8) -> Option<When> {
        const NOTE: &str = "the one of this week may be meant";
        let date = calendar::weekday_of_week(self.today, 1, weekday)?;
        let when = calendar::day(date)?;
        let nearer = calendar::nearest_weekday(self.today, weekday, false)? < date;
        Some(if nearer { when.doubt(Confidence::ROUGH, NOTE) } else { when })
    }

    fn this_weekday(&self, weekday: i8, start: usize, next: usize) -> Option<When> {
        const NOTE: &str = "the day of this week is over; the coming one may be meant";
        let date = calendar::weekday_of_week(self.today, 0, weekday)?;
        let (past, stated) = self.direction(start, next);
        if date >= self.today && !(past && stated && date > self.today) {
            return calendar::day(date);
        }
        if stated {
            let near = calendar::nearest_weekday(self.today, weekday, past)?;
            return Some(Self::placed(calendar::day(near)?, true));
        }
        Some(calendar::day(date)?.doubt(Confidence::AMBIGUOUS, NOTE))
    }

    /// "Wednesday of next week", "Friday last week", "Friday after next".
    fn weekday_of_week(&self, index: usize) -> Option<Found> {
        let weekday = tokens::weekday(self.word(index))?;
        if (self.word(index + 1), self.word(index + 2)) == ("after", "next") {
            let nearest = calendar::nearest_weekday(self.today, weekday, false)?;
            let date = calendar::plus_days(nearest, 7)?;
            let note = "the second one from the writing on";
            return Some((index + 3, calendar::day(date)?.doubt(Confidence::ROUGH, note)));
        }
        let which = self.skip(index + 1, &["of", "in", "from"]);
        let offset = match self.word(which) {
            "this" | "the" => 0,
            "last" => -1,
            "next" => 1,
            _ => return None,
        };
        if self.word(which + 1) != "week" {
            return None;
        }
        let date = calendar::weekday_of_week(self.today, offset, weekday)?;
        Some((which + 2, calendar::day(date)?))
    }

    /// "on the 3rd", "the 5th of next month": only where nothing else is counted.
    fn day_of_month(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let (day, next) = self.day_number(start)?;
        let of = self.skip(next, &["day"]);
        if matches!(self.word(of), "of" | "in") {
            let (next, month) = self.relative_month(self.skip(of + 1, &["the"]))?;
            let date = month.start.date().with().day(day).build().ok()?;
            return Some((next, calendar::day(date)?));
        }
        let tied = matches!(
            self.before(index, 1),
            "on" | "by"
                | "until"
                | "till"
                | "since"
                | "before"
                | "after"
                | "from"
                | "to"
                | "through"
        );
        let spelled = self.kind(start) == Kind::Word;
        let ends = matches!(self.kind(next), Kind::Mark(_)) || next >= self.tokens.len();
        let ordinal = self.nth(start).is_some();
        if !tied || !ordinal || !self.closed(next) || spelled && !ends {
            return None;
        }
        let (past, stated) = self.direction(index, next);
        let step = if past { -1 } else { 1 };
        let date = (0..4).find_map(|months| {
            let month = calendar::plus_months(self.today.first_of_month(), step * months)?;
            let date = Date::new(month.year(), month.month(), day).ok()?;
            let beyond = if past { date > self.today } else { date < self.today };
            (!beyond).then_some(date)
        })?;
        Some((next, Self::placed(calendar::day(date)?, stated)))
    }

    fn bare_weekday(&self, index: usize) -> Option<Found> {
        let weekday = tokens::weekday(self.word(index))?;
        let next = self.skip_abbreviation_dot(index);
        if !self.means_weekday(index, next) {
            return None;
        }
        let (past, stated) = self.direction(index, next);
        let date = calendar::nearest_weekday(self.today, weekday, past)?;
        let when = calendar::day(date)?;
        if self.today.weekday().to_monday_one_offset() == weekday {
            return Some((next, when.doubt(Confidence::AMBIGUOUS, SAME_WEEKDAY)));
        }
        Some((next, Self::placed(when, stated)))
    }

    /// `sat`, `sun`, `wed` and `mon` are other words too, and some Fridays are feasts.
    fn means_weekday(&self, index: usize, next: usize) -> bool {
        let previous = self.before(index, 1);
        if matches!(previous, "black" | "good" | "cyber" | "easter" | "ash" | "palm") {
            return false;
        }
        if self.word(index).len() >= 6 {
            return true;
        }
        let tied = matches!(
            previous,
            "on" | "by"
                | "until"
                | "till"
                | "since"
                | "before"
                | "after"
                | "from"
                | "to"
                | "this"
                | "last"
                | "next"
                | "through"
                | "between"
                | "for"
        );
        let first = index == 0 || matches!(self.kind(index - 1), Kind::Mark('.' | '\n'));
        // "tue", "thu" and "fri" are no other words.
        let plain = self.word(index).starts_with(['t', 'f']);
        self.closed(next) && (tied || plain || self.tokens[index].capital && !first)
    }
}
