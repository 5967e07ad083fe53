//! Reads days: relative ones, weekdays, dates, and amounts of time counted from now.
//!
//! Each rule looks at the tokens from one index and returns the index behind what it took. Periods
//! are in [`periods`], clock times in [`super::clock`], ranges in [`super::ranges`].

mod periods;

use jiff::Zoned;
use jiff::civil::{Date, DateTime};

use super::calendar::{self, Amount, When};
use super::tense::{self, Tense};
use super::tokens::{self, Kind, Token, Unit};
use super::{Confidence, Grain, Relation};

/// The index behind a match, and what it comes to.
pub(super) type Found = (usize, When);

/// A text being read.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) now: Zoned,
    pub(super) today: Date,
    /// The time named before, which "two days later" and "the next day" count from.
    pub(super) previous: Option<DateTime>,
}

/// Words that nothing before them belongs to.
const FUNCTION_WORDS: &str = "we i he she they it you and or but at to for in on with of the a an is was were are \
    will this that because when since until till through thru from by before after as if \
    so while due has had have did last next morning afternoon evening night noon our my \
    their there both everyone nobody then now around about between already instead again \
    today tomorrow yesterday not no all only also";

const NO_TENSE: &str = "the clause shows no tense; the one before the writing is taken";
const BY_TENSE: &str = "before or after the writing by the tense of the clause";

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, tokens: &'a [Token], now: Zoned) -> Self {
        let today = now.date();
        Self { text, tokens, now, today, previous: None }
    }

    /// Reads the time that starts at a token: its first token, the one behind, and what it is.
    pub(super) fn reference(&self, index: usize) -> Option<(usize, usize, When)> {
        if matches!(self.before(index, 1), "every" | "each" | "per" | "most") {
            return None;
        }
        let (next, when) = self.range(index).or_else(|| self.moment(index))?;
        Some((index, next, when))
    }

    /// Reads a single time: a date-time, a day, a part of it, or a period.
    pub(super) fn moment(&self, index: usize) -> Option<Found> {
        self.timed(index).or_else(|| self.elapsed(index)).or_else(|| self.period(index))
    }

    /// How the words before a reference tie it to the clause.
    pub(super) fn relation(&self, start: usize) -> Relation {
        let back = if matches!(self.before(start, 1), "the" | "at" | "on") { 2 } else { 1 };
        match self.before(start, back) {
            "since" => Relation::Since,
            "until" | "till" => Relation::Until,
            "by" => Relation::By,
            "before" => Relation::Before,
            "after" => Relation::After,
            _ => Relation::Within,
        }
    }

    pub(super) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.word.as_str())
    }

    pub(super) fn before(&self, index: usize, back: usize) -> &str {
        index.checked_sub(back).map_or("", |before| self.word(before))
    }

    pub(super) fn kind(&self, index: usize) -> Kind {
        self.tokens.get(index).map_or(Kind::Other, |token| token.kind)
    }

    pub(super) fn mark(&self, index: usize, mark: char) -> bool {
        self.kind(index) == Kind::Mark(mark)
    }

    /// The index behind a token if it is one of some words.
    pub(super) fn skip(&self, index: usize, words: &[&str]) -> usize {
        if words.contains(&self.word(index)) { index + 1 } else { index }
    }

    pub(super) fn skip_mark(&self, index: usize, mark: char) -> usize {
        if self.mark(index, mark) { index + 1 } else { index }
    }

    /// Whether nothing follows that a number or a short word could belong to ("on the 3rd attempt").
    pub(super) fn closed(&self, index: usize) -> bool {
        match self.tokens.get(index) {
            None => true,
            Some(token) => match token.kind {
                Kind::Word => {
                    token.word.is_empty()
                        || tokens::listed(FUNCTION_WORDS, &token.word)
                        || tokens::month(&token.word).is_some()
                        || tokens::weekday(&token.word).is_some()
                }
                Kind::Mark(_) | Kind::Clock(_) | Kind::Number(_) => true,
                _ => false,
            },
        }
    }

    /// Whether a time lies in the past, and whether the clause says so.
    pub(super) fn direction(&self, start: usize, next: usize) -> (bool, bool) {
        if self.relation(start) == Relation::Since {
            return (true, true);
        }
        match tense::around(self.tokens, start, next) {
            Some(Tense::Past) => (true, true),
            Some(Tense::Future) => (false, true),
            None if matches!(self.relation(start), Relation::By | Relation::Until) => (false, true),
            None => (true, false),
        }
    }

    /// Marks a time that only the tense places.
    pub(super) fn placed(when: When, stated: bool) -> When {
        if stated {
            when.doubt(Confidence::LIKELY, BY_TENSE)
        } else {
            when.doubt(Confidence::AMBIGUOUS, NO_TENSE)
        }
    }

    /// Reads a cardinal: digits, words up to ninety-nine, `a`, "a few" (3), "a couple of" (2). The
    /// flag says that it is meant roughly.
    pub(super) fn count(&self, index: usize) -> Option<(i64, usize, bool)> {
        if let Kind::Number(number) = self.kind(index) {
            return Some((i64::from(number), index + 1, false));
        }
        let vague = self.skip(index, &["a"]);
        match self.word(vague) {
            "few" | "several" => return Some((3, vague + 1, true)),
            "couple" | "pair" => return Some((2, self.skip(vague + 1, &["of"]), true)),
            "dozen" => return Some((12, vague + 1, true)),
            _ => {}
        }
        if matches!(self.word(index), "a" | "an") {
            return Some((1, index + 1, false));
        }
        let (number, next) = self.cardinal(index)?;
        Some((i64::from(number), next, false))
    }

    fn cardinal(&self, index: usize) -> Option<(u32, usize)> {
        let number = tokens::cardinal(self.word(index))?;
        let ones = self.skip_mark(index + 1, '-');
        match tokens::cardinal(self.word(ones)) {
            Some(one @ 1..=9) if number >= 20 => Some((number + one, ones + 1)),
            _ => Some((number, index + 1)),
        }
    }

    /// Reads an ordinal: `3rd`, `third`, `twenty-first`.
    pub(super) fn nth(&self, index: usize) -> Option<(u32, usize)> {
        if let Kind::Ordinal(number) = self.kind(index) {
            return Some((number, index + 1));
        }
        if let Some(number) = tokens::ordinal(self.word(index)) {
            return Some((number, index + 1));
        }
        let tens = tokens::cardinal(self.word(index)).filter(|tens| *tens >= 20)?;
        let ones = self.skip_mark(index + 1, '-');
        let one = tokens::ordinal(self.word(ones)).filter(|one| *one < 10)?;
        Some((tens + one, ones + 1))
    }

    /// Reads a count and its unit: "two weeks", "a couple of days", "half an hour".
    fn amount(&self, index: usize) -> Option<(Amount, usize, bool)> {
        if self.word(index) == "half" && tokens::unit(self.word(index + 2)) == Some(Unit::Hour) {
            return Some((Amount::new(30, Unit::Minute)?, index + 3, false));
        }
        let (mut amount, mut next, vague) = self.one_amount(index)?;
        // "1 month and 21 days", "2 years, 1 month".
        for _ in 0..5 {
            let other = self.skip(self.skip_mark(next, ','), &["and"]);
            match self.one_amount(other) {
                Some((more, behind, false)) => (amount, next) = (amount.and(more)?, behind),
                _ => break,
            }
        }
        let rough = matches!(self.before(index, 1), "about" | "around" | "roughly" | "almost");
        Some((amount, next, vague || rough))
    }

    fn one_amount(&self, index: usize) -> Option<(Amount, usize, bool)> {
        let (count, next, vague) = self.count(index)?;
        let next = self.skip(next, &["more", "full", "whole", "short", "long", "calendar"]);
        let unit = tokens::unit(self.word(next))?;
        Some((Amount::new(count, unit)?, next + 1, vague))
    }

    /// Reads an amount counted from now or another day, in whole days or longer units.
    fn shifted_day(&self, index: usize) -> Option<Found> {
        self.shifted(index, false)
    }

    /// Reads hours, minutes and seconds counted from now.
    fn elapsed(&self, index: usize) -> Option<Found> {
        self.shifted(index, true)
    }

    fn shifted(&self, index: usize, clock: bool) -> Option<Found> {
        if matches!(self.word(index), "in" | "within") {
            return self.in_amount(index, clock);
        }
        if !clock && let Some(found) = self.counted_weekday(index) {
            return Some(found);
        }
        let (amount, next, vague) = self.amount(index)?;
        if amount.is_clock() != clock {
            return None;
        }
        let back = amount.times(-1)?;
        let (next, when) = match self.word(next) {
            "ago" | "back" => (next + 1, back.after_moment(&self.now)?),
            "hence" => (next + 1, amount.after_moment(&self.now)?),
            "later" | "afterwards" => (next + 1, self.counted_from_previous(amount)?),
            "earlier" => (next + 1, self.counted_from_previous(back)?),
            "from" => self.counted_from(amount, next + 1)?,
            "after" if !clock => self.counted_from(amount, next + 1)?,
            "before" if !clock => self.counted_from(back, next + 1)?,
            _ => return None,
        };
        Some((next, rough(when, amount, vague)))
    }

    /// "2 Thursdays ago", "three Fridays from now".
    fn counted_weekday(&self, index: usize) -> Option<Found> {
        let (count, name, vague) = self.count(index)?;
        let weekday = self.word(name);
        let weekday = tokens::weekday(weekday.strip_suffix('s').unwrap_or(weekday))?;
        let (past, next) = match (self.word(name + 1), self.word(name + 2)) {
            ("ago" | "back", _) => (true, name + 2),
            ("from", "now" | "today") => (false, name + 3),
            _ => return None,
        };
        let nearest = calendar::nearest_weekday(self.today, weekday, past)?;
        let weeks = (count - 1).checked_mul(if past { -7 } else { 7 })?;
        let when = calendar::day(calendar::plus_days(nearest, weeks)?)?;
        Some((next, rough(when, Amount::new(count, Unit::Day)?, vague)))
    }

    /// "3 weeks from now|today|Friday".
    fn counted_from(&self, amount: Amount, index: usize) -> Option<Found> {
        let next = self.skip(index, &["right"]);
        if self.word(next) == "now" {
            return Some((next + 1, amount.after_moment(&self.now)?));
        }
        let (next, base) = self.day(index)?;
        let confidence = base.confidence;
        let when = amount.after_date(base.start.date())?.sure(confidence);
        Some((next, When { note: base.note, ..when }))
    }

    /// "two days later" counts from the time named before, or from the writing.
    fn counted_from_previous(&self, amount: Amount) -> Option<When> {
        const NOTE: &str = "counted from the time named before it, or from the writing";
        let when = match self.previous {
            Some(previous) if !amount.is_clock() => amount.after_date(previous.date())?,
            Some(previous) => {
                amount.after_moment(&previous.to_zoned(self.now.time_zone().clone()).ok()?)?
            }
            None => amount.after_moment(&self.now)?,
        };
        Some(when.doubt(Confidence::ROUGH, NOTE))
    }

    /// "in two weeks" is a time where the clause looks ahead, and a duration where it looks back.
    fn in_amount(&self, index: usize, clock: bool) -> Option<Found> {
        let within = self.word(index) == "within";
        let start = self.skip(self.skip(index + 1, &["about", "around"]), &["roughly"]);
        let (amount, next, vague) = self.amount(start)?;
        let tense = tense::around(self.tokens, index, next);
        let other = matches!(self.word(next), "or" | "and" | "of" | "ago" | "flat");
        let far = amount.count > 500;
        if amount.is_clock() != clock || tense == Some(Tense::Past) || other || far {
            return None;
        }
        if within {
            let stretch = amount.stretch(&self.now)?;
            let end = if clock {
                stretch.end
            } else {
                calendar::plus_days(stretch.end.date(), -1)?.into()
            };
            let when = When { start: self.now.datetime(), end, exact: None, ..stretch };
            return Some((next, self.maybe_duration(when, tense, clock)?));
        }
        let when = amount.after_moment(&self.now)?;
        Some((next, rough(self.maybe_duration(when, tense, clock)?, amount, vague)))
    }

    /// Without a tense, hours and minutes are mostly durations ("responds in 5 minutes").
    fn maybe_duration(&self, when: When, tense: Option<Tense>, clock: bool) -> Option<When> {
        match tense {
            Some(_) => Some(when),
            None if clock && self.tokens.len() > 8 => None,
            None => Some(when.doubt(Confidence::AMBIGUOUS, "may be how long something takes")),
        }
    }

    /// Reads a day in any of its forms.
    pub(super) fn day(&self, index: usize) -> Option<Found> {
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
    pub(super) fn year_after(&self, index: usize) -> Option<(i16, usize)> {
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
    fn day_number(&self, index: usize) -> Option<(i8, usize)> {
        let (number, next) = match self.kind(index) {
            Kind::Number(number) => (number, index + 1),
            _ => self.nth(index).or_else(|| self.cardinal(index))?,
        };
        let day = i8::try_from(number).ok().filter(|day| (1..=31).contains(day))?;
        Some((day, next))
    }

    /// "March 3rd", "March 3, 2025", "Oct. 2", "May twenty-first".
    pub(super) fn month_day(&self, index: usize) -> Option<Found> {
        let month = tokens::month(self.word(index))?;
        let start = self.skip_mark(self.skip_mark(index + 1, '.'), '-');
        let (day, next) = self.day_number(self.skip(start, &["the"]))?;
        let verb = matches!(self.word(index), "may" | "march") && !self.tokens[index].capital;
        if verb && !self.closed(next) || tokens::unit(self.word(next)).is_some() {
            return None;
        }
        self.dated(month, day, (index, next))
    }

    /// "3 March 2025", "the 3rd of March".
    pub(super) fn day_month(&self, index: usize) -> Option<Found> {
        let start = self.skip(index, &["the"]);
        let (day, next) = self.day_number(start)?;
        let name = self.skip_mark(self.skip(next, &["of"]), '-');
        let month = tokens::month(self.word(name))?;
        let of = name > next;
        let spelled = self.kind(start) == Kind::Word;
        let verb = matches!(self.word(name), "may" | "march") && !self.tokens[name].capital;
        if !of && (spelled || verb) {
            return None;
        }
        self.dated(month, day, (index, name + 1))
    }

    fn dated(&self, month: i8, day: i8, (start, next): (usize, usize)) -> Option<Found> {
        match self.year_after(next) {
            Some((year, behind)) => {
                let date = Date::new(year, month, day).ok()?;
                Some((behind, calendar::day(date)?.sure(Confidence::EXACT)))
            }
            None => Some((next, self.month_day_near(month, day, start, next)?)),
        }
    }

    pub(super) fn month_day_near(
        &self,
        month: i8,
        day: i8,
        start: usize,
        next: usize,
    ) -> Option<When> {
        let (past, stated) = self.direction(start, next);
        let step = if past { -1 } else { 1 };
        let date = (0..9).find_map(|years| {
            let date = Date::new(self.today.year() + step * years, month, day).ok()?;
            let beyond = if past { date > self.today } else { date < self.today };
            (!beyond).then_some(date)
        })?;
        Some(Self::placed(calendar::day(date)?, stated))
    }

    fn holiday(&self, index: usize) -> Option<Found> {
        let which = self.word(index);
        let prefixed = matches!(which, "this" | "last" | "next");
        let start = if prefixed { index + 1 } else { index };
        let (month, day, next) = self.feast(start)?;
        let found = self.dated(month, day, (index, next))?;
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
            ("this", false) => self.this_weekday(weekday, (index, next))?,
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

    fn this_weekday(&self, weekday: i8, (start, next): (usize, usize)) -> Option<When> {
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
        const SAME: &str = "written on that weekday: the day itself may be meant";
        let weekday = tokens::weekday(self.word(index))?;
        let next = self.skip_abbreviation_dot(index);
        if !self.means_weekday(index, next) {
            return None;
        }
        let (past, stated) = self.direction(index, next);
        let date = calendar::nearest_weekday(self.today, weekday, past)?;
        let when = calendar::day(date)?;
        if self.today.weekday().to_monday_one_offset() == weekday {
            return Some((next, when.doubt(Confidence::AMBIGUOUS, SAME)));
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

/// Lowers the confidence of amounts that are meant roughly.
fn rough(when: When, amount: Amount, vague: bool) -> When {
    if vague {
        let note = format!("roughly: taken as {}", amount.count);
        when.doubt(Confidence::ROUGH, &note)
    } else if amount.grain() > Grain::Day {
        when.doubt(Confidence::LIKELY, "the day at that distance; the words name a longer unit")
    } else {
        when
    }
}
