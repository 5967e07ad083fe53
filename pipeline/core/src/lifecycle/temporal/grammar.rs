//! Reads days (relative ones, weekdays, dates, feasts), amounts counted from a day, and periods.
//!
//! Each rule reads from a position and returns the one behind the time it found. The order of the
//! rules decides where several fit.

use jiff::civil::{Date, Weekday};

use super::calendar::{self, Amount, When};
use super::reader::{At, Direction, Found, Tense, placed};
use super::resolve::{Confidence, Grain};
use super::tokens::{self, Kind, NumericDate, Token, Unit, listed};

pub(super) const SAME_WEEKDAY: &str = "written on that weekday: the day itself may be meant";
const COUNTED: &str = "counted from the time named before it, or from the writing";
const DURATION: &str = "may be how long something takes";
const OTHER_WEEK: &str = "the one of this week may be meant";

const RELATIVE_DAYS: [(&str, i64); 5] = [
    ("the? day before yesterday", -2),
    ("the? day after tomorrow", 2),
    ("yesterday", -1),
    ("today", 0),
    ("tomorrow|tomorrows", 1),
];
/// Month and day.
const FEASTS: [(&str, (i8, i8)); 6] = [
    ("christmas|xmas eve", (12, 24)),
    ("christmas|xmas day?", (12, 25)),
    ("halloween", (10, 31)),
    ("valentine|valentines day", (2, 14)),
    ("new year|years eve", (12, 31)),
    ("new year|years day", (1, 1)),
];
const PERIOD_ENDS: [(&str, Grain); 4] =
    [("eod", Grain::Day), ("eow", Grain::Week), ("eom", Grain::Month), ("eoy", Grain::Year)];
const SECOND_PERIODS: [(&str, i64); 3] =
    [("before last", -2), ("after next", 2), ("after the next", 2)];

impl<'a> At<'a> {
    fn first_of(self, rules: &[fn(Self) -> Found<'a>]) -> Found<'a> {
        rules.iter().find_map(|rule| rule(self))
    }

    /// Reads the time that starts here.
    pub(super) fn reference(self) -> Found<'a> {
        let recurs = |ahead| self.is(ahead, "every each per most");
        let counts = |ahead| {
            let is_numbered = |token: &Token| matches!(token.kind, Kind::Ordinal(_));
            self.names(ahead).ordinal.is_some() || self.token(ahead).is_some_and(is_numbered)
        };
        // "every other Tuesday", "each 2nd Tuesday", "every 1st and 3rd Tuesday".
        let counted = counts(-1) || self.is(-1, "other last");
        let pair = counts(-1) && self.is(-2, "and") && counts(-3);
        if recurs(-1) || recurs(-2) && counted || recurs(-4) && pair {
            return None;
        }
        self.range().or_else(|| self.moment())
    }

    /// Reads a single time: a date-time, a day, a part of it, or a period.
    pub(super) fn moment(self) -> Found<'a> {
        self.first_of(&[Self::timed, |at| at.shifted(true), Self::period])
    }

    /// Reads a day in any of its forms.
    pub(super) fn day(self) -> Found<'a> {
        self.first_of(&[
            Self::relative_day,
            Self::numeric_date,
            |at| at.shifted(false),
            Self::nth_weekday,
            Self::weekday_with_date,
            Self::date_with_weekday,
            Self::feast,
            Self::relative_weekday,
            Self::weekday_of_week,
            Self::day_of_month,
            Self::bare_weekday,
        ])
    }

    /// Reads a period in any of its forms.
    pub(super) fn period(self) -> Found<'a> {
        self.first_of(&[
            Self::stretch,
            Self::part_of_period,
            Self::week_of,
            Self::second_period,
            Self::quarter,
            Self::relative_period,
            Self::weekend,
            Self::month_period,
            Self::year,
        ])
    }

    fn relative_day(mut self) -> Found<'a> {
        let offset = self.phrase(&RELATIVE_DAYS)?;
        Some((self, self.calendar(Grain::Day, offset)?))
    }

    fn numeric_date(mut self) -> Found<'a> {
        const ORDER: &str = "day and month may be the other way round; the month is taken first";
        let Kind::Date(NumericDate { month, day, year, open }) = self.kind() else { return None };
        let start = self;
        self.index += 1;
        if year.is_none() && !start.tied("on") {
            return None;
        }
        let when = self.date(start, month, day, year)?;
        Some((self, when.doubt_if(open, Confidence::AMBIGUOUS, ORDER)))
    }

    /// "the first Monday of May", "the last day of October 2015", "the second last Friday of May".
    fn nth_weekday(mut self) -> Found<'a> {
        self.eat("the|on?");
        let number = if self.is(0, "last") { 1 } else { self.nth()? };
        let last = self.eat("last");
        let number = i8::try_from(number).ok()? * if last { -1 } else { 1 };
        let weekday = self.weekday();
        self.need(if weekday.is_some() { "of|in the?" } else { "day of|in the?" })?;
        let (end, month) = self.month_named()?;
        let first = month.start.date();
        let date = match weekday {
            Some(weekday) => first.nth_weekday_of_month(number, weekday).ok()?,
            None if last => calendar::plus(month.end.date(), number.into(), Grain::Day)?,
            None => month.on(number)?,
        };
        Some((end, calendar::day(date)?.with_doubts_of(&month)))
    }

    /// "Friday the 11th", "Monday, March 3rd 2025".
    fn weekday_with_date(mut self) -> Found<'a> {
        const NOTE: &str = "the date does not fall on the weekday that is named";
        let start = self;
        let weekday = self.weekday()?;
        self.eat(".? ,? the?");
        if let Some((end, when)) = self.month_day().or_else(|| self.day_month()) {
            let fitting = self.on_weekday(&when, weekday);
            return Some((end, fitting.unwrap_or_else(|| when.doubt(Confidence::AMBIGUOUS, NOTE))));
        }
        if !matches!(self.kind(), Kind::Ordinal(_)) && !self.is(-1, "the") {
            return None;
        }
        let day = self.day_number(true)?;
        let Direction { past, stated } = start.direction(self);
        let step = if past && stated { -1 } else { 1 };
        let fits = |when: &When| when.start.date().weekday() == weekday;
        let mut months = (0..48).map(|months| self.day_in_month(step * months, day));
        Some((self, placed(months.find_map(|when| when.filter(fits))?, true)))
    }

    /// A day of the month that lies some months from that of the writing.
    fn day_in_month(self, months: i64, day: i8) -> Option<When> {
        let first = calendar::plus(self.text.today.first_of_month(), months, Grain::Month)?;
        calendar::day(first.with().day(day).build().ok()?)
    }

    /// "March 3", also with a weekday behind it: "Jul 18, Fri".
    fn date_with_weekday(self) -> Found<'a> {
        let (end, when) = self.month_day().or_else(|| self.day_month())?;
        let mut name = end;
        name.eat(",?");
        let fitting = name.weekday().and_then(|weekday| self.on_weekday(&when, weekday));
        Some(fitting.map_or((end, when), |fitting| (name, fitting)))
    }

    /// The date if it falls on the weekday, or where no year is written, in the year in which it does.
    fn on_weekday(self, when: &When, weekday: Weekday) -> Option<When> {
        const YEAR: &str = "the year in which the date falls on that weekday";
        let date = when.start.date();
        let fits = |date: &Date| date.weekday() == weekday;
        if fits(&date) || when.confidence == Confidence::EXACT {
            return Some(when.clone()).filter(|_| fits(&date));
        }
        let in_year = |years: i16| date.with().year(self.text.today.year() + years).build().ok();
        let near = [0, 1, -1].into_iter().find_map(|years| in_year(years).filter(fits))?;
        Some(calendar::day(near)?.doubt(Confidence::LIKELY, YEAR))
    }

    /// Reads a year behind a date or month: "2025", ", 2025", "of 2025", "next year".
    pub(super) fn written_year(&mut self) -> Option<i16> {
        let mut at = *self;
        at.eat(",? of|in?");
        let year = if let Some(year) = at.number(1000..=2999) {
            i16::try_from(year).ok()?
        } else {
            let offset = at.offset("this last next")?;
            at.need("year")?;
            self.text.today.year() + i16::try_from(offset).ok()?
        };
        *self = at;
        Some(year)
    }

    /// Whether this is "may" or "march" without a capital, which are verbs.
    fn is_verb(self) -> bool {
        self.is(0, "may march") && !self.capital()
    }

    /// "March 3rd", "March 3, 2025", "Oct. 2", "May twenty-first".
    pub(super) fn month_day(mut self) -> Found<'a> {
        let start = self;
        let month = self.month()?;
        self.eat(".? -? the?");
        let day = self.day_number(true)?;
        if start.is_verb() && !self.closed() || self.names(0).unit.is_some() {
            return None;
        }
        self.dated(start, month, day)
    }

    /// "3 March 2025", "the 3rd of March".
    fn day_month(mut self) -> Found<'a> {
        let start = self;
        self.eat("the?");
        let spelled = self.kind() == Kind::Word;
        let day = self.day_number(true)?;
        let tied = self.eat("of -?") || self.eat("-");
        let doubtful = spelled || self.is_verb();
        let month = self.month()?;
        if doubtful && !tied { None } else { self.dated(start, month, day) }
    }

    fn dated(mut self, start: Self, month: i8, day: i8) -> Found<'a> {
        let year = self.written_year();
        Some((self, self.date(start, month, day, year)?))
    }

    /// The day of a written year, or else of one before or after the writing: by the tense around
    /// `start` to here, or the nearest.
    pub(super) fn date(self, start: Self, month: i8, day: i8, year: Option<i16>) -> Option<When> {
        const NEAREST: &str =
            "no year is written and the clause shows no tense; the nearest is taken";
        if let Some(year) = year {
            return Some(calendar::day(Date::new(year, month, day).ok()?)?.exact());
        }
        let today = self.text.today;
        let nth = |years: i16| calendar::day(Date::new(today.year() + years, month, day).ok()?);
        let Direction { past, stated } = start.direction(self);
        if stated {
            return Some(placed(self.toward(past, nth)?, true));
        }
        let (before, after) = (self.toward(true, nth)?, self.toward(false, nth)?);
        let past_distance = today.duration_since(before.start.date());
        let nearer_ahead = after.start.date().duration_since(today) < past_distance;
        let nearest = if nearer_ahead { after } else { before };
        Some(nearest.doubt(Confidence::AMBIGUOUS, NEAREST))
    }

    fn feast(mut self) -> Found<'a> {
        let start = self;
        let which = self.offset("this last next");
        let (month, day) = self.phrase(&FEASTS)?;
        let found = self.dated(start, month, day)?;
        let Some(offset) = which else { return Some(found) };
        let date = |years: i16| Date::new(self.text.today.year() + years, month, day).ok();
        let over = i16::from(date(0)? <= self.text.today);
        let years = [over - 1, 0, over][usize::try_from(offset + 1).ok()?];
        Some((self, calendar::day(date(years)?)?))
    }

    /// "last Friday", "this coming Monday", "next week Sunday", "last week's Sunday".
    fn relative_weekday(mut self) -> Found<'a> {
        const WEEK_BEFORE: &str = "the one of the week before may be meant";
        let start = self;
        let today = self.text.today;
        let led = self.is(0, "this") && self.is(1, "past coming last next");
        self.index += usize::from(led);
        let (plain, next) = (self.is(0, "last previous this next"), self.is(0, "next"));
        let offset = self.offset("last past previous this next coming upcoming following")?;
        let in_week = self.eat("week on?");
        let weekday = self.weekday()?;
        self.eat_dot(self.word(-1).len() < 6);
        let of_week = calendar::weekday_of_week(today, offset, weekday)?;
        if in_week {
            return Some((self, calendar::day(of_week).filter(|_| plain)?));
        }
        if offset == 0 {
            return Some((self, self.this_weekday(start, weekday, of_week)?));
        }
        let nearest = calendar::nearest_weekday(today, weekday, offset < 0)?;
        let same_week = calendar::monday(nearest) == calendar::monday(today);
        let when = if next && !led {
            let nearer = nearest < of_week;
            calendar::day(of_week)?.doubt_if(nearer, Confidence::ROUGH, OTHER_WEEK)
        } else {
            let doubtful = same_week && offset < 0;
            calendar::day(nearest)?.doubt_if(doubtful, Confidence::ROUGH, WEEK_BEFORE)
        };
        Some((self, when))
    }

    fn this_weekday(self, start: Self, weekday: Weekday, of_week: Date) -> Option<When> {
        const NOTE: &str = "the day of this week is over; the coming one may be meant";
        let today = self.text.today;
        let Direction { past, stated } = start.direction(self);
        if stated && (of_week < today || past && of_week > today) {
            let near = calendar::nearest_weekday(today, weekday, past)?;
            return Some(placed(calendar::day(near)?, true));
        }
        Some(calendar::day(of_week)?.doubt_if(of_week < today, Confidence::AMBIGUOUS, NOTE))
    }

    /// Takes the full stop behind an abbreviation that does not end the sentence.
    pub(super) fn eat_dot(&mut self, abbreviated: bool) {
        if abbreviated && self.token(1).is_some_and(|token| !token.capital) {
            self.eat(".");
        }
    }

    /// "Wednesday of next week", "Friday last week", "Friday after next".
    fn weekday_of_week(mut self) -> Found<'a> {
        const NOTE: &str = "the second one from the writing on";
        let today = self.text.today;
        let weekday = self.weekday()?;
        if self.eat("after next") {
            let nearest = calendar::nearest_weekday(today, weekday, false)?;
            let when = calendar::day(calendar::plus(nearest, 1, Grain::Week)?)?;
            return Some((self, when.doubt(Confidence::ROUGH, NOTE)));
        }
        self.eat("of|in|from?");
        let offset = self.offset("this the last next")?;
        self.need("week")?;
        Some((self, calendar::day(calendar::weekday_of_week(today, offset, weekday)?)?))
    }

    /// "on the 3rd", "the 5th of next month": only where nothing else is counted.
    fn day_of_month(mut self) -> Found<'a> {
        let start = self;
        self.eat("the?");
        let mut number = self;
        let ordinal = number.nth().is_some();
        let spelled = self.kind() == Kind::Word;
        let day = self.day_number(true)?;
        let mut of = self;
        if of.eat("day? of|in the?") {
            let (end, month) = of.relative_month()?;
            return Some((end, calendar::day(month.on(day)?)?));
        }
        let ends = matches!(self.token(0).map(|token| token.kind), None | Some(Kind::Mark(_)));
        if !start.tied("on through") || !ordinal || !self.closed() || spelled && !ends {
            return None;
        }
        Some((self, self.by_tense(start, |months| self.day_in_month(months.into(), day))?))
    }

    fn bare_weekday(mut self) -> Found<'a> {
        let start = self;
        let weekday = self.weekday()?;
        self.eat_dot(self.word(-1).len() < 6);
        if !start.means_weekday(self) {
            return None;
        }
        let Direction { past, stated } = start.direction(self);
        let today = self.text.today;
        let when = calendar::day(calendar::nearest_weekday(today, weekday, past)?)?;
        if today.weekday() == weekday {
            return Some((self, when.doubt(Confidence::AMBIGUOUS, SAME_WEEKDAY)));
        }
        Some((self, placed(when, stated)))
    }

    /// `sat`, `sun`, `wed` and `mon` are other words too, and some Fridays are feasts.
    fn means_weekday(self, end: Self) -> bool {
        if self.is(-1, "black good cyber easter ash palm") {
            return false;
        }
        let tied = self.tied("on this last next through between for");
        // "tue", "thu" and "fri" are no other words.
        let plain = self.word(0).starts_with(['t', 'f']);
        let name = tied || plain || self.capital() && !self.opens_sentence();
        self.word(0).len() >= 6 || end.closed() && name
    }

    /// Reads an amount counted from now or another day: hours and less if `clock`, else whole days
    /// and longer units.
    fn shifted(mut self, clock: bool) -> Found<'a> {
        if self.is(0, "in within") {
            return self.in_amount(clock);
        }
        if !clock && let Some(found) = self.counted_weekday() {
            return Some(found);
        }
        let (amount, vague) = self.amount()?;
        if amount.is_clock() != clock {
            return None;
        }
        let word = self.word(0);
        let back = listed("ago back earlier before", word);
        let signed = amount.times(if back { -1 } else { 1 })?;
        self.index += 1;
        let (end, when) = match word {
            "ago" | "back" if amount.unit.grain == Grain::Weekend => {
                let when = self.calendar(Grain::Weekend, signed.count)?;
                return Some((self, if vague { rough(when, amount, vague) } else { when }));
            }
            "ago" | "back" | "hence" => (self, signed.after_moment(&self.text.now)?),
            "later" | "afterwards" | "earlier" => (self, self.counted_from_previous(signed)?),
            "from" => self.counted_from(signed)?,
            "after" | "before" if !clock => self.counted_from(signed)?,
            _ => return None,
        };
        Some((end, rough(when, amount, vague)))
    }

    /// "2 Thursdays ago", "three Fridays from now".
    fn counted_weekday(mut self) -> Found<'a> {
        const WORDS: [(&str, bool); 3] =
            [("ago|back", true), ("from now|today", false), ("later", false)];
        let (count, vague) = self.count()?;
        let name = self.word(0);
        let weekday = tokens::weekday(name.strip_suffix('s').unwrap_or(name))?;
        self.index += 1;
        let past = self.phrase(&WORDS)?;
        let nearest = calendar::nearest_weekday(self.text.today, weekday, past)?;
        let weeks = (count - 1) * if past { -1 } else { 1 };
        let when = calendar::day(calendar::plus(nearest, weeks, Grain::Week)?)?;
        let amount = Amount::new(count, Unit { grain: Grain::Day, times: 1 })?;
        Some((self, rough(when, amount, vague)))
    }

    /// "3 weeks from now|today|Friday".
    fn counted_from(mut self, amount: Amount) -> Found<'a> {
        if self.eat("right? now") {
            return Some((self, amount.after_moment(&self.text.now)?));
        }
        let (end, base) = self.day()?;
        Some((end, amount.after_date(base.start.date())?.with_doubts_of(&base)))
    }

    /// "two days later" counts from the time named before, or from the writing.
    fn counted_from_previous(self, amount: Amount) -> Option<When> {
        let now = &self.text.now;
        let when = match self.text.previous {
            Some(previous) if amount.is_clock() => {
                amount.after_moment(&previous.to_zoned(now.time_zone().clone()).ok()?)?
            }
            Some(previous) => amount.after_date(previous.date())?,
            None => amount.after_moment(now)?,
        };
        Some(when.doubt(Confidence::ROUGH, COUNTED))
    }

    /// "in two weeks" is a time where the clause looks ahead, and a duration where it looks back.
    fn in_amount(mut self, clock: bool) -> Found<'a> {
        let start = self;
        self.need("in|within about|around? roughly?")?;
        let (amount, vague) = self.amount()?;
        let tense = start.tense(self);
        let other = self.is(0, "or and of ago flat") || amount.count > 500;
        if amount.is_clock() != clock || tense == Some(Tense::Past) || other {
            return None;
        }
        // Without a tense, hours and minutes are mostly durations ("responds in 5 minutes").
        if tense.is_none() && clock && self.text.tokens.len() > 8 {
            return None;
        }
        let now = &self.text.now;
        let maybe = |when: When| when.doubt_if(tense.is_none(), Confidence::AMBIGUOUS, DURATION);
        if start.is(0, "in") {
            return Some((self, rough(maybe(amount.after_moment(now)?), amount, vague)));
        }
        let stretch = amount.stretch(now)?;
        let end = if clock { stretch.end } else { stretch.last_day()?.start };
        Some((self, maybe(When { start: now.datetime(), end, exact: None, ..stretch })))
    }

    /// "the last 3 days", "the next few weeks", "the last fortnight".
    fn stretch(mut self) -> Found<'a> {
        self.eat("these|this?");
        let sign = self.offset("last past previous next coming following upcoming")?;
        let fortnight = self.name(|names| names.unit.filter(|unit| unit.times > 1));
        let (amount, vague) = match fortnight {
            Some(unit) => (Amount::new(1, unit)?, false),
            None => self.amount()?,
        };
        let when = amount.times(sign)?.stretch(&self.text.now)?;
        Some((self, if vague { rough(when, amount, vague) } else { when }))
    }

    /// "rest of the week", "end of the month", "EOM".
    fn part_of_period(mut self) -> Found<'a> {
        const NOTE: &str = "taken as the last day of the period";
        if let Some(grain) = self.phrase(&PERIOD_ENDS) {
            return Some((self, self.calendar(grain, 0)?.last_day()?));
        }
        self.eat("the?");
        let rest = self.phrase(&[("rest", true), ("end", false)])?;
        self.eat("of? the|my|our?");
        let mut owner = self;
        let (end, whole) = match owner.period_unit() {
            Some(grain) if grain != Grain::Weekend => (owner, self.calendar(grain, 0)?),
            _ => self.period()?,
        };
        let rest = rest.then(|| When::dates(self.text.today, whole.end.date(), whole.grain));
        let last = || Some(whole.last_day()?.doubt(Confidence::ROUGH, NOTE));
        Some((end, rest.or_else(last)?))
    }

    /// "the week of October 6th", "the first week of May", "the last week of July".
    fn week_of(mut self) -> Found<'a> {
        self.eat("the?");
        if self.eat("week of") {
            let (end, day) = self.day()?;
            let week = calendar::period(day.start.date(), Grain::Week, 0)?;
            return Some((end, week.with_doubts_of(&day)));
        }
        let last = self.eat("last");
        let number = if last { 1 } else { self.nth()? };
        let grain = self.period_unit()?;
        if !matches!(grain, Grain::Week | Grain::Weekend) {
            return None;
        }
        let (end, whole) = if let Some(year) = self.written_year() {
            (self, calendar::year(year)?)
        } else {
            self.need("of|in the?")?;
            self.month_named()?
        };
        let first = calendar::edge_monday(&whole, last)?;
        let week = calendar::period(first, grain, i64::from(number) - 1)?;
        Some((end, week.with_doubts_of(&whole)))
    }

    /// "the week before last", "the year after next".
    fn second_period(mut self) -> Found<'a> {
        let grain = self.period_unit()?;
        let offset = self.phrase(&SECOND_PERIODS)?;
        Some((self, self.calendar(grain, offset)?))
    }

    /// "this week", "last quarter", "the coming year", "next day".
    fn relative_period(mut self) -> Found<'a> {
        const ROLLING: &str =
            "taken as the whole calendar period; as many days from the writing may be meant";
        let led = self.is(0, "this") && self.names(1).unit.is_none();
        self.index += usize::from(led);
        let start = self;
        let which = self.word(0);
        let offset =
            self.offset("this current last past previous next coming following upcoming")?;
        let grain = self.period_unit()?;
        let when = match grain {
            Grain::Minute | Grain::Hour if offset != 0 => {
                Amount::new(offset, Unit { grain, times: 1 })?.stretch(&self.text.now)?
            }
            Grain::Day => self.day_beside(start, offset)?,
            Grain::Weekend if matches!(which, "coming" | "upcoming") => self.calendar(grain, 0)?,
            _ => self.calendar(grain, offset)?,
        };
        let next = which == "next" && grain == Grain::Weekend;
        let when = when.doubt_if(next, Confidence::LIKELY, OTHER_WEEK);
        let rolling = matches!(which, "past" | "coming") && grain != Grain::Weekend;
        Some((self, when.doubt_if(rolling, Confidence::LIKELY, ROLLING)))
    }

    /// "the next day" follows the time named before; "last day of the sprint" is no time at all.
    fn day_beside(self, start: Self, offset: i64) -> Option<When> {
        if self.is(0, "of") || !self.closed() {
            return None;
        }
        let follows = start.is(0, "next following previous");
        let base = self.text.previous.filter(|_| follows).map(|previous| previous.date());
        let when = calendar::period(base.unwrap_or(self.text.today), Grain::Day, offset)?;
        Some(when.doubt(Confidence::ROUGH, COUNTED))
    }

    /// "over the weekend", "at the weekend": before or after the writing by the tense.
    fn weekend(mut self) -> Found<'a> {
        let start = self;
        let tied = self.eat("the") || self.is(-1, "on");
        self.need("weekend")?;
        if !tied || !self.closed() {
            return None;
        }
        Some((self, self.by_tense(start, |weeks| self.calendar(Grain::Weekend, weeks.into()))?))
    }

    /// "Q3 2024", "the third quarter of last year", "Q3", "next year's first quarter".
    fn quarter(mut self) -> Found<'a> {
        let start = self;
        let owner = if self.is(1, "year") { self.written_year() } else { None };
        self.eat("the?");
        let quarter = if let Kind::Quarter(quarter) = self.kind() {
            self.index += 1;
            quarter
        } else {
            let number = self.nth()?;
            self.period_unit().filter(|grain| *grain == Grain::Quarter)?;
            i8::try_from(number).ok()?
        };
        let month = quarter.checked_mul(3)?.checked_sub(2)?;
        let of_year =
            |year: i16| calendar::period(Date::new(year, month, 1).ok()?, Grain::Quarter, 0);
        if let Some(year) = owner {
            return Some((self, of_year(year)?.exact()));
        }
        let mut behind = self;
        behind.eat("-?");
        if let Some(year) = behind.written_year() {
            return Some((behind, of_year(year)?.exact()));
        }
        let this = self.text.today.year();
        Some((self, self.by_tense(start, |years| of_year(this + years))?))
    }

    /// Reads the month in "the first Monday of …".
    fn month_named(mut self) -> Found<'a> {
        let start = self;
        self.relative_month().or_else(|| {
            let month = self.month()?;
            self.month_of_year(start, month)
        })
    }

    /// "this month", "next month".
    pub(super) fn relative_month(mut self) -> Found<'a> {
        let offset = self.offset("this current last previous next coming").unwrap_or(0);
        self.need("month")?;
        Some((self, self.calendar(Grain::Month, offset)?))
    }

    /// "March 2025", "last May", "mid-March", "in March", `2025-03`.
    fn month_period(mut self) -> Found<'a> {
        let start = self;
        if let Kind::YearMonth(first) = self.kind() {
            return Some((self.skip(1), calendar::period(first, Grain::Month, 0)?.exact()));
        }
        if self.is(0, "last next this past coming") {
            return self.relative_named_month();
        }
        let part = self.eat("early|mid|late in? -?");
        let month = self.month()?;
        let (end, when) = self.month_of_year(start, month)?;
        let named = part || end.index > self.index || start.means_month();
        let when = when.doubt_if(part, Confidence::ROUGH, "a part of the month");
        named.then_some((end, when))
    }

    fn relative_named_month(mut self) -> Found<'a> {
        let offset = self.offset("last past this next coming")?;
        let verb = self.is_verb();
        let month = self.month()?;
        if verb && !self.closed() {
            return None;
        }
        let this = self.text.today.month();
        let years = match offset {
            0 => 0,
            1 => i16::from(month <= this),
            _ => -i16::from(month >= this),
        };
        let when = self.month_in(month, years)?;
        let unsure = offset != 0 && years == 0;
        let note = "the one of another year may be meant";
        Some((self, when.doubt_if(unsure, Confidence::LIKELY, note)))
    }

    /// A month of the year that lies some years from that of the writing.
    fn month_in(self, month: i8, years: i16) -> Option<When> {
        let first = Date::new(self.text.today.year() + years, month, 1).ok()?;
        calendar::period(first, Grain::Month, 0)
    }

    fn month_of_year(self, start: Self, month: i8) -> Found<'a> {
        // "Oct. 2023"; "May" and "June" are no abbreviations.
        let mut behind = self;
        behind.eat_dot(self.word(-1).len() < 5 && !self.is(-1, "may june july"));
        if let Some(year) = behind.written_year() {
            return Some((behind, self.month_in(month, year - self.text.today.year())?.exact()));
        }
        Some((self, self.by_tense(start, |years| self.month_in(month, years))?))
    }

    /// Names of months are names of people, verbs and adjectives too.
    fn means_month(self) -> bool {
        let (word, capital, behind) = (self.word(0), self.capital(), self.skip(1));
        let tied = self.tied("in of during through between and throughout");
        if self.is(-1, "of") && !capital {
            return false;
        }
        let inner_name = capital && !self.opens_sentence();
        match word {
            "may" | "march" => {
                let ends = matches!(behind.kind(), Kind::Mark(_));
                tied && (capital || behind.closed()) || inner_name && ends
            }
            "april" | "june" | "august" | "jan" | "mar" | "jun" | "dec" | "sep" => tied,
            _ if word.len() < 4 => tied || inner_name && behind.closed(),
            _ => capital || tied,
        }
    }

    /// "in 2019", "the 1990s"; a number of four digits alone is no year.
    fn year(mut self) -> Found<'a> {
        if let Kind::Decade(first) = self.kind() {
            let decade = calendar::period(Date::new(first, 1, 1).ok()?, Grain::Decade, 0)?;
            let article = self.is(-1, "the") || first < 1970;
            let decade = decade.doubt(Confidence::LIKELY, "a whole decade");
            return article.then_some((self.skip(1), decade));
        }
        let tied = self.tied("in during between and throughout mid early late");
        let named = self.eat("year");
        let number = self.number(1900..=2099)?;
        // "in 2000 rows", "by 2048 bytes".
        let counts = self.names(0).unit.is_some() || self.word(0).ends_with('s');
        let when = calendar::year(i16::try_from(number).ok()?)?;
        ((named || tied) && (!counts || self.closed())).then_some((self, when))
    }
}

/// Lowers the confidence of amounts that are meant roughly.
fn rough(when: When, amount: Amount, vague: bool) -> When {
    const NOTE: &str = "the day at that distance; the words name a longer unit";
    if vague {
        when.doubt(Confidence::ROUGH, &format!("roughly: taken as {}", amount.count))
    } else {
        when.doubt_if(amount.unit.grain > Grain::Day, Confidence::LIKELY, NOTE)
    }
}
