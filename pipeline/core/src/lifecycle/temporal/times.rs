//! Reads clock times and parts of the day, joins them with days, and reads ranges of days and times:
//! "from May 3 to May 5", "May 3-5", "between 9:30 and 11:00 on Thursday".

use jiff::SignedDuration;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::calendar::{self, When, length};
use super::grammar::SAME_WEEKDAY;
use super::reader::{At, Direction, Found};
use super::resolve::{Confidence, Grain};
use super::tokens::{AFTERNOON, Kind, MORNING, NIGHT, TimeOfDay};

const ZONES: &str = "cet cest est edt pst pdt mst mdt cst cdt bst ist jst aest eet eest msk";
const OTHER_ZONE: &str = "the zone that is named is left out";
const MERIDIEM: &str = "morning or afternoon is not written; taken as a 24-hour clock";
const MIDNIGHT: &str = "the start of the day; its end may be meant";
const NO_DAY: &str = "no day is named; taken as the day of writing";
/// Whether a time is of the afternoon.
const HALVES: [(&str, bool); 4] = [
    ("am|a.m", false),
    ("pm|p.m", true),
    ("in the? morning|am", false),
    ("in the? afternoon|evening|pm", true),
];
/// When a night ends.
const NIGHT_END: i8 = 5;
const MOVES: &str = "moved move moves changed change shifted postponed delayed rescheduled pushed \
    slipped switched migrated";

impl<'a> At<'a> {
    /// Reads a day with or without a time, a part of a day, or a time of the day of writing.
    pub(super) fn timed(self) -> Found<'a> {
        self.moment_literal()
            .or_else(|| self.part_with_day())
            .or_else(|| self.part_first())
            .or_else(|| self.clock_first())
            .or_else(|| self.day_first())
    }

    /// `2025-03-01T10:00:00Z`
    fn moment_literal(self) -> Found<'a> {
        let token = self.token(0).filter(|token| token.kind == Kind::Moment)?;
        let written = &self.text.written[token.span.clone()];
        let zone = self.text.now.time_zone();
        let instant = crate::time::Instant::parse(written, zone)?;
        let start = jiff::Timestamp::from_microsecond(instant.0).ok()?.to_zoned(zone.clone());
        let seconds = written.matches(':').count() > 1;
        let grain = if seconds { Grain::Second } else { Grain::Minute };
        Some((self.skip(1), When::at(&start, grain)?.exact()))
    }

    /// "the morning of May 3", "in the early-morning on Tuesday", "in the afternoon, this Friday".
    fn part_with_day(mut self) -> Found<'a> {
        self.eat("in? the? early|late? -?");
        let part = self.part()?;
        self.eat(",? on|of?");
        let (end, day) = self.day()?;
        Some((end, When { part: Some(part), ..day }.named_part()?))
    }

    /// "this morning", "tonight at 8", "last night".
    fn part_first(mut self) -> Found<'a> {
        self.eat("early|late|later?");
        let (offset, part) = if self.eat("tonight|tonite") {
            (0, NIGHT)
        } else {
            let which = self.word(0);
            self.index += 1;
            let name = self.word(0);
            let part = self.part()?;
            match (which, name) {
                ("this", _) => (0, part),
                ("last", "night" | "evening") => (-1, part),
                ("next", "night") => (1, part),
                ("next", "morning") if self.text.previous.is_none() => (1, part),
                _ => return None,
            }
        };
        let day = When { part: Some(part), ..self.calendar(Grain::Day, offset)? };
        let when = match self.clock(true) {
            Some(time) => self.at_time(&day, time)?,
            None => day.named_part()?,
        };
        Some((self, when))
    }

    /// "5pm tomorrow", "at 17:30 on Friday", "8 tonight", "noon".
    fn clock_first(self) -> Found<'a> {
        let mut behind = self;
        let time = behind.clock(true)?;
        behind.eat(",? on|of?");
        if let Some((end, day)) = behind.day_with_part() {
            return Some((end, self.at_time(&day, time)?));
        }
        // Without a day only a certain time of day counts.
        let mut end = self;
        let time = end.clock(false)?;
        if end.is(0, "daily nightly weekly every each everyday") {
            return None;
        }
        let Direction { past, stated } = self.direction(end);
        let when = self.at_time(&self.calendar(Grain::Day, 0)?, time)?;
        let contrary = stated && past != (when.start <= self.text.now.datetime());
        let confidence = if contrary { Confidence::AMBIGUOUS } else { Confidence::LIKELY };
        Some((end, when.doubt(confidence, NO_DAY)))
    }

    /// Reads a day or a part of one behind a clock time.
    fn day_with_part(mut self) -> Found<'a> {
        if let Some(offset) = self.phrase(&[("tonight", 0), ("last night", -1)]) {
            let day = self.calendar(Grain::Day, offset)?;
            return Some((self, When { part: Some(NIGHT), ..day }));
        }
        let (end, day) = match self.names(1).part {
            Some(_) if self.eat("this") => (self, self.calendar(Grain::Day, 0)?),
            _ => self.day()?,
        };
        let mut name = end;
        name.eat("in? the?");
        let part = name.part();
        Some((if part.is_some() { name } else { end }, When { part, ..day }))
    }

    /// "Monday morning", "tomorrow at 5pm", "2025-03-01 10:00", "May 3 in the evening at 8".
    fn day_first(self) -> Found<'a> {
        let (end, day) = self.day_with_early_part()?;
        let mut behind = end;
        behind.eat(",?");
        match behind.clock(true) {
            Some(time) => Some((behind, self.at_named(behind, &day, time)?)),
            None => Some((end, day.named_part()?)),
        }
    }

    fn day_with_early_part(self) -> Found<'a> {
        let (end, day) = self.day()?;
        let mut name = end;
        let half = name.phrase(&[("am", MORNING), ("pm", AFTERNOON)]);
        if half.is_some() && name.closed() {
            return Some((name, When { part: half, ..day }));
        }
        name = end;
        if !name.eat(",? in the?") {
            name.eat("the?");
        }
        name.eat("early|late? -? in? the?");
        // "on Monday the night shift": an article alone does not tie them.
        let part = name.part().filter(|_| !end.is(0, "the"));
        Some((if part.is_some() { name } else { end }, When { part, ..day }))
    }

    /// Reads a clock time: `17:30`, "5pm", "at noon"; bare hours only behind "at" and with a day.
    fn clock(&mut self, with_day: bool) -> Option<TimeOfDay> {
        let mut at = *self;
        let led = at.is(0, "at around");
        at.eat("at|around|about|for?");
        let lead = at.index;
        at.eat("around|about? @?");
        let noon = TimeOfDay::new(Time::constant(12, 0, 0, 0), Grain::Hour, true);
        let mut time = if let Kind::Clock(time) = at.kind() {
            at.index += 1;
            time
        } else if at.eat("noon|midday") {
            noon
        } else if at.eat("midnight") {
            TimeOfDay { time: Time::midnight(), doubt: Some(MIDNIGHT), ..noon }
        } else {
            at.hour(led || at.index > lead, with_day)?
        };
        if let Some(afternoon) = at.phrase(&HALVES) {
            time = time.in_half(afternoon)?;
            at.eat_dot(at.word(-1).contains('.'));
        }
        if at.eat("utc|gmt|z") {
            time.utc = true;
        } else if at.is(0, ZONES) && at.capital() {
            time.doubt = time.doubt.or(Some(OTHER_ZONE));
            at.index += 1;
        }
        *self = at;
        Some(time)
    }

    /// "5 o'clock", "five pm", and "at 5" or "8 tonight" with a day.
    fn hour(&mut self, led: bool, with_day: bool) -> Option<TimeOfDay> {
        let hour = self.number(..24).or_else(|| self.name(|names| names.cardinal))?;
        let hour = i8::try_from(hour).ok().filter(|hour| *hour < 24)?;
        let meridiem = self.is(0, "am pm a.m p.m");
        let oclock = self.eat("o'clock|oclock");
        let mut part = *self;
        // "9 tomorrow morning"; "9 tomorrow" may count anything.
        let named = self.is(0, "tonight")
            || part.eat("in the?") && part.part().is_some()
            || self.is(0, "this tomorrow yesterday") && self.names(1).part.is_some();
        let bare = led && self.closed() && !self.mark('-');
        let fits = oclock || meridiem || with_day && (named || bare);
        TimeOfDay::hour(hour).filter(|_| fits)
    }

    /// "Monday at noon", written on a Monday morning of coming events, is that noon.
    fn at_named(self, end: Self, day: &When, time: TimeOfDay) -> Option<When> {
        if day.part.is_none() && day.note.as_deref() == Some(SAME_WEEKDAY) {
            let today = self.calendar(Grain::Day, 0)?.with_doubts_of(day);
            let when = self.at_time(&today, time)?;
            if self.direction(end).past == (when.start <= self.text.now.datetime()) {
                return Some(when);
            }
        }
        self.at_time(day, time)
    }

    /// Joins a day and a time of day; a named part of the day tells morning from afternoon.
    fn at_time(self, day: &When, time: TimeOfDay) -> Option<When> {
        let half = day.part.map(|part| part != MORNING);
        let small = match time.time.hour() {
            // "last night at 2", "tonight at 12": the hours behind its midnight.
            hour if !time.certain => matches!(hour, 12 | 1..=3),
            hour => hour < NIGHT_END,
        };
        let (date, half) = match day.part {
            Some(NIGHT) if small => (day.start.date().tomorrow().ok()?, Some(false)),
            _ => (day.start.date(), half),
        };
        let time = half.map_or(Some(time), |afternoon| time.in_half(afternoon))?;
        let start = date.to_datetime(time.time);
        let when = if time.utc {
            let zone = self.text.now.time_zone().clone();
            When::at(&start.to_zoned(TimeZone::UTC).ok()?.with_time_zone(zone), time.grain)?
        } else {
            When::times(start, start.checked_add(length(time.grain)).ok()?, time.grain)
        };
        let when = when.with_doubts_of(day);
        let finer = !time.certain && time.grain < Grain::Hour;
        let confidence = if finer { Confidence::LIKELY } else { Confidence::AMBIGUOUS };
        let note = if time.certain { time.doubt } else { Some(MERIDIEM) };
        Some(note.map_or(when.clone(), |note| when.doubt(confidence, note)))
    }

    /// Reads a range of days or times that starts here, "from" and "between" included.
    pub(super) fn range(self) -> Found<'a> {
        let from = self.is(0, "from") || self.is(-1, "from");
        // "moved from Friday to Monday" names two days and no stretch.
        let first_back = if self.is(-1, "from") { 2 } else { 1 };
        if from && (first_back..first_back + 5).any(|back| self.is(-back, MOVES)) {
            return None;
        }
        let between = self.is(0, "between");
        let mut start = self;
        let led = start.eat("from|between");
        start
            .days_of_month(between)
            .or_else(|| start.days_before_month(between))
            .or_else(|| start.day_to_date(between).filter(|_| led))
            .or_else(|| start.hours_of_date().filter(|_| led))
            .or_else(|| start.clock_range(between))
            .or_else(|| self.day_with_clock_range())
            .or_else(|| self.weekdays_of_week())
            .or_else(|| start.months_around_now(between))
            .or_else(|| start.two_moments(between))
    }

    /// Reads "to", "until", "-" or, after "between", "and".
    fn connector(&mut self, between: bool) -> Option<()> {
        let and = between && self.eat("and");
        (and || self.eat("to|until|till|untill|through|thru|-|—")).then_some(())
    }

    /// Reads "from" or "between"; whether this or the word before is "between".
    fn lead(&mut self) -> bool {
        self.eat("from|between?");
        self.is(-1, "between")
    }

    /// Reads two numbers of days: "3-5", "13 to the 15th".
    fn two_days(&mut self, between: bool) -> Option<(i8, i8)> {
        let first = self.day_number(false)?;
        self.connector(between)?;
        self.eat("the?");
        Some((first, self.day_number(false)?))
    }

    /// "May 3-5", "July 13 to 15, 2024".
    fn days_of_month(mut self, between: bool) -> Found<'a> {
        let start = self;
        let month = self.month()?;
        self.eat(".?");
        let between = self.lead() || between;
        let (first, last) = self.two_days(between)?;
        if self.mark(':') || self.names(0).month.is_some() {
            return None;
        }
        self.between_days(start, month, first, last)
    }

    /// "13 to 15 July", "from 4 to 22 January, 1995", "4-23 next month".
    fn days_before_month(mut self, between: bool) -> Found<'a> {
        let start = self;
        self.eat("the?");
        let (first, last) = self.two_days(between)?;
        self.eat("of|in?");
        if let Some(month) = self.month() {
            // "from 5 to 6 of April 22" counts hours.
            let mut day = self;
            let hours = day.day_number(false).is_some();
            return self.between_days(start, month, first, last).filter(|_| !hours);
        }
        if self.is(0, "month") {
            return None;
        }
        let (end, month) = self.relative_month()?;
        Some((end, When::days(month.on(first)?, month.on(last)?)?))
    }

    /// "from 2 to April 7".
    fn day_to_date(mut self, between: bool) -> Found<'a> {
        self.eat("the?");
        let first = self.day_number(false)?;
        self.connector(between)?;
        let (end, last) = self.month_day()?;
        let days = When::days(last.on(first)?, last.start.date())?;
        Some((end, days.with_doubts_of(&last)))
    }

    fn between_days(mut self, start: Self, month: i8, first: i8, last: i8) -> Found<'a> {
        let year = self.written_year();
        let near = self.date(start, month, first, year)?;
        let days = When::days(near.start.date(), near.on(last)?)?;
        (first < last).then(|| (self, days.with_doubts_of(&near)))
    }

    /// "9:30 - 11:00 on Thursday", "3-4pm tomorrow".
    fn clock_range(mut self, between: bool) -> Found<'a> {
        let (first, last) = self.two_clocks(between)?;
        let mut behind = self;
        behind.eat(",? on|of?");
        if let Some((end, day)) = behind.day() {
            return Some((end, self.hours(&day, first, last)?));
        }
        let when = self.hours(&self.calendar(Grain::Day, 0)?, first, last)?;
        Some((self, when.doubt(Confidence::LIKELY, NO_DAY)))
    }

    /// "from 5 to 6 of April 22"; "grew from 5 to 6 on April 22" counts something else.
    fn hours_of_date(mut self) -> Found<'a> {
        let first = self.day_number(false)?;
        self.connector(false)?;
        let last = self.day_number(false)?;
        self.need("of")?;
        if first > 12 || last > 12 {
            return None;
        }
        let (end, day) = self.day()?;
        Some((end, self.hours(&day, TimeOfDay::hour(first)?, TimeOfDay::hour(last)?)?))
    }

    /// "Thursday from 9:30 to 11:00", "tomorrow between 1pm and 2pm".
    fn day_with_clock_range(self) -> Found<'a> {
        let (mut end, day) = self.day_with_early_part()?;
        let day = When { part: None, ..day };
        end.eat(",? in?");
        let between = end.lead();
        let (first, last) = end.two_clocks(between)?;
        Some((end, self.hours(&day, first, last)?))
    }

    /// "next week between Wednesday and Friday".
    fn weekdays_of_week(self) -> Found<'a> {
        let (mut end, week) = self.period().filter(|_| self.is(1, "week"))?;
        let between = end.is(0, "between");
        end.need("from|between")?;
        let first = end.weekday()?;
        end.connector(between)?;
        let last = end.weekday()?;
        let on = |weekday| calendar::weekday_of_week(week.start.date(), 0, weekday);
        Some((end, When::days(on(first)?, on(last)?)?))
    }

    /// "between August and October", written in September, is that of the same year.
    fn months_around_now(mut self, between: bool) -> Found<'a> {
        const NOTE: &str = "the one that holds the day of writing";
        let first = self.month()?;
        self.connector(between)?;
        let name = self;
        let last = self.month()?;
        let inner = (self.text.today.month() - first).rem_euclid(12);
        let months = (last - first).rem_euclid(12);
        let around = 0 < inner && inner < months;
        if !around || name.month_day().is_some() || self.written_year().is_some() {
            return None;
        }
        let start = self.calendar(Grain::Month, -i64::from(inner))?.start.date();
        let end = calendar::plus(start, i64::from(months) + 1, Grain::Month)?;
        let when = When::dates(start, end, Grain::Month);
        Some((self, when.doubt(Confidence::LIKELY, NOTE)))
    }

    fn two_clocks(&mut self, between: bool) -> Option<(TimeOfDay, TimeOfDay)> {
        let first = self.clock(true);
        // "9-11am", "from 3 to 4pm": the hour before takes its half of the day from the other.
        let hour = if first.is_none() { Some(self.number(..24)?) } else { None };
        self.connector(between)?;
        let last = self.clock(true)?;
        let hours = first.is_none() && !last.certain && last.grain == Grain::Hour;
        let counts = self.names(0).unit.is_some_and(|unit| unit.grain < Grain::PartOfDay);
        if hours || counts {
            return None;
        }
        let mut first = match first {
            Some(first) => first,
            None => TimeOfDay { utc: last.utc, ..TimeOfDay::hour(i8::try_from(hour?).ok()?)? },
        };
        if !first.certain && last.certain && last.time.hour() >= 12 && first.time.hour() < 12 {
            let afternoon = first.in_half(true)?;
            first = if afternoon.time < last.time { afternoon } else { first };
        }
        first.certain |= last.certain;
        Some((first, last))
    }

    fn hours(self, day: &When, first: TimeOfDay, last: TimeOfDay) -> Option<When> {
        let (first, last_start) = (self.at_time(day, first)?, self.at_time(day, last)?.start);
        let hours = if last.certain { 24 } else { 12 };
        let later = if last_start <= first.start { hours } else { 0 };
        let end = last_start.checked_add(SignedDuration::from_hours(later)).ok()?;
        Some(When { end, grain: first.grain.min(last.grain), exact: None, ..first })
    }

    /// "from Oct. 2 to October 22", "between 4pm on Jan 1, 2016 and 5pm today".
    fn two_moments(self, between: bool) -> Found<'a> {
        let (mut end, mut first) = self.moment()?;
        end.connector(between)?;
        let (end, mut last) = end.moment()?;
        let exact = [&first, &last].map(|when| when.confidence == Confidence::EXACT);
        if exact == [false, true] && first.note.is_some() {
            let years = i64::from(last.start.year()) - i64::from(first.start.year());
            first = first.moved(years, Grain::Year)?;
        }
        if last.closing() <= first.start {
            let mut tokens = self.text.tokens[self.index..end.index].iter();
            let of_week = first.grain <= Grain::Week;
            let month = tokens.any(|token| token.names.month.is_some());
            let unit = if of_week && !month { Grain::Week } else { Grain::Year };
            if self.direction(end).past {
                first = first.moved(-1, unit)?;
            } else {
                last = last.moved(1, unit)?;
            }
        }
        let closing = last.closing();
        if closing <= first.start {
            return None;
        }
        let exact = first.exact.zip(last.exact).map(|(first, last)| (first.0, last.0));
        let confidence = first.confidence.min(last.confidence);
        let grain = first.grain.max(last.grain);
        let note = first.note.take().or(last.note);
        Some((end, When { end: closing, grain, confidence, note, exact, ..first }))
    }
}
