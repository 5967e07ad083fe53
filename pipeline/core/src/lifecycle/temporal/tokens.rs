//! Splits a text into words, numbers, numeric dates and clock times, each with its bytes. The words of weekdays, months,
//! units and numbers are in the guard, those of parts of the day and of next and last here.
//!
//! Identifiers, paths, versions and code (`sat_solver`, `may/today.md`, `2.1`, anything in back
//! quotes) become [`Kind::Other`], so no rule of the grammar can take them for a time.

use std::ops::{Range, RangeInclusive};

use jiff::civil::{Date, Time, Weekday};
use memfold_guard::{TimeUnit, cardinal, month_number, ordinal, time_unit, weekday_number};

use super::resolve::Grain;

/// The kind of one piece of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Letters, apostrophes included; compare [`Token::word`].
    Word,
    Number(u32),
    /// `3rd`, `21st`.
    Ordinal(u32),
    /// `2025-03-01`, `03/04/2025`, `3/4`, `24.12.2025`.
    Date(NumericDate),
    /// `2025-03-01T10:00:00Z` and the other forms of [`crate::time::Instant::parse`].
    Moment,
    /// `2025-03`: its first day.
    YearMonth(Date),
    /// `17:30`, `5pm`.
    Clock(TimeOfDay),
    /// `Q3`.
    Quarter(i8),
    /// `1990s`, `90s`: the first year.
    Decade(i16),
    Mark(char),
    Other,
}

/// One piece of a text.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
    /// Lower-case, a possessive `'s` cut off; empty for other kinds than words.
    pub(super) word: String,
    pub(super) names: Names,
    pub(super) capital: bool,
}

/// A date in digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NumericDate {
    pub(super) month: i8,
    pub(super) day: i8,
    pub(super) year: Option<i16>,
    /// Whether day and month may be the other way round.
    pub(super) open: bool,
}

/// A time of day as read, before it has a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeOfDay {
    pub(super) time: Time,
    pub(super) grain: Grain,
    /// Whether morning and afternoon are told apart (am, pm, an hour above 12, a leading zero).
    pub(super) certain: bool,
    pub(super) utc: bool,
    /// Why another time may be meant although morning and afternoon are told apart.
    pub(super) doubt: Option<&'static str>,
}

impl TimeOfDay {
    pub(super) fn new(time: Time, grain: Grain, certain: bool) -> Self {
        Self { time, grain, certain, utc: false, doubt: None }
    }

    /// A whole hour without am or pm.
    pub(super) fn hour(hour: i8) -> Option<Self> {
        Some(Self::new(Time::new(hour, 0, 0, 0).ok()?, Grain::Hour, hour > 12))
    }

    /// Moves a time that may be of the morning or the afternoon into one of them.
    pub(super) fn in_half(self, afternoon: bool) -> Option<Self> {
        if self.certain {
            return Some(self);
        }
        let hour = self.time.hour() % 12 + if afternoon { 12 } else { 0 };
        let time = self.time.with().hour(hour).build().ok()?;
        Some(Self { time, certain: true, ..self })
    }
}

/// A part of the day: its first hour and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: i8,
    pub(super) hours: i64,
}

/// A unit that people count, as calendar units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) grain: Grain,
    /// 2 for a fortnight.
    pub(super) times: i64,
}

/// Everything that a word names by itself; `second` is a unit and an ordinal.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Names {
    pub(super) weekday: Option<Weekday>,
    pub(super) month: Option<i8>,
    pub(super) unit: Option<Unit>,
    pub(super) part: Option<Part>,
    /// `zero` to `nineteen` and whole tens.
    pub(super) cardinal: Option<u32>,
    /// `first` to `nineteenth` and whole tens.
    pub(super) ordinal: Option<u32>,
}

pub(super) const MORNING: Part = Part { from: 5, hours: 7 };
pub(super) const AFTERNOON: Part = Part { from: 12, hours: 6 };
const EVENING: Part = Part { from: 18, hours: 6 };
pub(super) const NIGHT: Part = Part { from: 20, hours: 9 };
const PARTS: [(&str, Part); 4] =
    [("morning", MORNING), ("afternoon", AFTERNOON), ("evening", EVENING), ("night", NIGHT)];
const OFFSETS: [(&str, i64); 3] =
    [("last past previous", -1), ("this current the", 0), ("next coming following upcoming", 1)];

/// Whether a word is in a list of words between spaces.
pub(super) fn listed(words: &str, word: &str) -> bool {
    words.as_bytes().split(|byte| *byte == b' ').any(|listed| listed == word.as_bytes())
}

pub(super) fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(words, _)| listed(words, word)).map(|(_, value)| *value)
}

/// Full names and abbreviations.
pub(super) fn weekday(word: &str) -> Option<Weekday> {
    Weekday::from_monday_zero_offset(weekday_number(word)?).ok()
}

fn unit(word: &str) -> Option<Unit> {
    let unit = match word {
        "h" => TimeUnit::Hour,
        "d" => TimeUnit::Day,
        "w" => TimeUnit::Week,
        word => time_unit(word)?,
    };
    let grain = match unit {
        TimeUnit::Second => Grain::Second,
        TimeUnit::Minute => Grain::Minute,
        TimeUnit::Hour => Grain::Hour,
        TimeUnit::Day => Grain::Day,
        TimeUnit::Week | TimeUnit::Fortnight => Grain::Week,
        TimeUnit::Weekend => Grain::Weekend,
        TimeUnit::Month => Grain::Month,
        TimeUnit::Quarter => Grain::Quarter,
        TimeUnit::Year => Grain::Year,
        TimeUnit::Decade => Grain::Decade,
    };
    Some(Unit { grain, times: if unit == TimeUnit::Fortnight { 2 } else { 1 } })
}

/// How many periods "last", "this" or "next" lies from the current one.
pub(super) fn offset(word: &str) -> Option<i64> {
    find(&OFFSETS, word)
}

impl Names {
    fn of(word: &str) -> Self {
        Self {
            weekday: weekday(word),
            month: month_number(word),
            unit: unit(word),
            part: find(&PARTS, word),
            cardinal: cardinal(word),
            ordinal: ordinal(word),
        }
    }
}

/// Splits a text into its tokens, in order; a line break is a [`Kind::Mark`] of its own.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, tokens: Vec::new(), in_code: false };
    let mut start = 0;
    let mut previous = None;
    for (at, found) in text.char_indices() {
        let next = text[at + found.len_utf8()..].chars().next();
        if !found.is_whitespace() && !separates(found, previous, next) {
            previous = Some(found);
            continue;
        }
        lexer.chunk(start..at);
        start = at + found.len_utf8();
        lexer.in_code ^= found == '`';
        if found == '\n' || !found.is_whitespace() {
            lexer.push(Kind::Mark(found), at..start);
        }
        previous = Some(found);
    }
    lexer.chunk(start..text.len());
    lexer.tokens
}

fn separates(found: char, previous: Option<char>, next: Option<char>) -> bool {
    let digit = |other: Option<char>| other.is_some_and(|other| other.is_ascii_digit());
    match found {
        ',' => !(digit(previous) && digit(next)),
        _ => ";()[]{}\"“”…—!?<>*`|".contains(found),
    }
}

struct Lexer<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    in_code: bool,
}

impl Lexer<'_> {
    fn push(&mut self, kind: Kind, span: Range<usize>) {
        let written = &self.text[span.clone()];
        let capital = written.starts_with(char::is_uppercase);
        let word = if kind == Kind::Word { plain(written) } else { String::new() };
        let names = if word.is_empty() { Names::default() } else { Names::of(&word) };
        self.tokens.push(Token { kind, span, word, names, capital });
    }

    /// Reads a run without white space: the marks around it, then the text between them.
    fn chunk(&mut self, span: Range<usize>) {
        let written = &self.text[span.clone()];
        let head = written.trim_start_matches(['\'', '‘', '@', '~', '-', '–']);
        let start = span.end - head.len();
        if start > span.start && written.starts_with(['@', '-', '–']) {
            let mark = if written.starts_with('@') { '@' } else { '-' };
            self.push(Kind::Mark(mark), span.start..start);
        }
        let core = head.trim_end_matches(['.', ':', ',', '\'', '’', '-', '–']);
        let end = start + core.len();
        if !core.is_empty() {
            self.core(start..end);
        }
        for (at, mark) in self.text[end..span.end].char_indices() {
            if matches!(mark, '.' | ':' | ',') {
                self.push(Kind::Mark(mark), end + at..end + at + 1);
            }
        }
    }

    fn core(&mut self, span: Range<usize>) {
        let written = &self.text[span.clone()];
        if self.in_code {
            return self.push(Kind::Other, span);
        }
        if let Some(kind) = literal(written) {
            return self.push(kind, span);
        }
        if let Some((head, tail)) = glued(written) {
            self.core(span.start..span.start + head);
            return self.core(span.end - tail..span.end);
        }
        let pieces: Vec<&str> = written.split(['-', '–']).collect();
        if pieces.len() < 2 || !pieces.iter().all(|piece| names_time(piece)) {
            return self.push(Kind::Other, span);
        }
        let mut end = span.start;
        for piece in pieces {
            let dash = self.text[end..].chars().next().map_or(0, char::len_utf8);
            let start = if end > span.start { end + dash } else { end };
            if start > end {
                self.push(Kind::Mark('-'), end..start);
            }
            end = start + piece.len();
            self.core(start..end);
        }
    }
}

/// Whether a piece between hyphens belongs to a time: `sat-solver` and `march-release` do not.
fn names_time(piece: &str) -> bool {
    let word = plain(piece);
    Names::of(&word) != Names::default()
        || listed("mid early late end", &word)
        || glued(piece).is_some()
        || !matches!(literal(piece), None | Some(Kind::Word))
}

fn plain(written: &str) -> String {
    let lower = written.to_lowercase().replace('’', "'");
    if lower.starts_with("week-end") {
        return lower.replace('-', "");
    }
    match lower.strip_suffix("'s") {
        // "let's" is a verb that points ahead.
        Some(owner) if owner != "let" => owner.to_owned(),
        _ => lower,
    }
}

/// Digits, letters and single symbols in turn.
fn runs(written: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut rest = written;
    while let Some(first) = rest.chars().next() {
        let class = |c: char| (c.is_ascii_digit(), c.is_alphabetic());
        let mut length = first.len_utf8();
        if class(first) != (false, false) {
            length = rest.find(|c| class(c) != class(first)).unwrap_or(rest.len());
        }
        runs.push(&rest[..length]);
        rest = &rest[length..];
    }
    runs
}

fn digits(run: &str, lengths: RangeInclusive<usize>) -> Option<i16> {
    let numeric = run.bytes().all(|byte| byte.is_ascii_digit()) && lengths.contains(&run.len());
    numeric.then(|| run.parse().ok()).flatten()
}

fn small(run: &str) -> Option<i8> {
    i8::try_from(digits(run, 1..=2)?).ok()
}

fn literal(written: &str) -> Option<Kind> {
    if written.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '’')) {
        return Some(Kind::Word);
    }
    let lower = written.to_ascii_lowercase();
    let runs = runs(&lower);
    match runs.as_slice() {
        ["week", "-", "end" | "ends"] | ["a" | "p", ".", "m"] => Some(Kind::Word),
        [number] => number.parse().ok().map(Kind::Number),
        [year, "-" | "/", month, "-" | "/", day] if year.len() == 4 => {
            let date = Date::new(digits(year, 4..=4)?, small(month)?, small(day)?).ok()?;
            let (month, day, year) = (date.month(), date.day(), Some(date.year()));
            Some(Kind::Date(NumericDate { month, day, year, open: false }))
        }
        [year, "-", _, "-", day, "t", ..] if year.len() == 4 && day.len() == 2 => {
            Some(Kind::Moment)
        }
        [first, separator @ ("/" | "." | "-"), second, again, year] if separator == again => {
            pair(first, second, Some(full_year(year)?), separator)
        }
        [first, "/", second] if second.len() <= 2 => pair(first, second, None, "/"),
        [year, "-", month] if year.len() == 4 && month.len() == 2 => {
            Date::new(digits(year, 4..=4)?, small(month)?, 1).ok().map(Kind::YearMonth)
        }
        [hour, ":", ..] => clock(hour, &runs[1..]),
        [_, "am" | "pm"] => clock(runs[0], &runs[1..]),
        [number, "st" | "nd" | "rd" | "th"] => number.parse().ok().map(Kind::Ordinal),
        ["q", quarter] => small(quarter).map(Kind::Quarter),
        [year, "s"] if year.ends_with('0') => full_year(year).map(Kind::Decade),
        _ => None,
    }
}

fn pair(first: &str, second: &str, year: Option<i16>, separator: &str) -> Option<Kind> {
    let (first, second, dotted) = (small(first)?, small(second)?, separator == ".");
    let day_first = first > 12 || dotted && second <= 12;
    let (month, day) = if day_first { (second, first) } else { (first, second) };
    let open = first <= 12 && second <= 12 && first != second && !dotted;
    Some(Kind::Date(NumericDate { month, day, year, open }))
}

/// Two digits are 1970 to 2069.
fn full_year(written: &str) -> Option<i16> {
    let year = digits(written, 2..=4)?;
    match written.len() {
        2 if year < 70 => Some(year + 2000),
        2 => Some(year + 1900),
        4 => Some(year),
        _ => None,
    }
}

fn clock(written_hour: &str, rest: &[&str]) -> Option<Kind> {
    let (minutes, seconds, tail) = match rest {
        [":", minutes, ":", seconds, "." | ",", _fraction] => (*minutes, *seconds, None),
        [":", minutes, ":", seconds, tail @ ..] => (*minutes, *seconds, tail.first()),
        [":", minutes, tail @ ..] => (*minutes, "00", tail.first()),
        tail => ("00", "00", tail.first()),
    };
    if minutes.len() != 2 || seconds.len() != 2 {
        return None;
    }
    let hour = small(written_hour)?;
    let afternoon = tail.map(|tail| *tail == "pm");
    if !matches!(tail, None | Some(&("am" | "pm"))) || tail.is_some() && !(1..=12).contains(&hour) {
        return None;
    }
    let time = Time::new(hour, small(minutes)?, small(seconds)?, 0).ok()?;
    let grain = match (rest.first(), time.second()) {
        (Some(&":"), 0) => Grain::Minute,
        (Some(&":"), _) => Grain::Second,
        _ => Grain::Hour,
    };
    let certain = afternoon.is_none() && (hour > 12 || written_hour.starts_with('0'));
    let time = TimeOfDay::new(time, grain, certain);
    afternoon.map_or(Some(time), |afternoon| time.in_half(afternoon)).map(Kind::Clock)
}

/// The lengths of the halves of `3mins`, `14april`, `Feb13` and `Oct.2`.
fn glued(written: &str) -> Option<(usize, usize)> {
    let lower = written.to_ascii_lowercase();
    match runs(&lower).as_slice() {
        [number, word] if digits(number, 1..=3).is_some() => {
            let Names { unit, month, .. } = Names::of(word);
            (unit.is_some() || month.is_some()).then_some((number.len(), word.len()))
        }
        [word, "." | "/", number, ordinal @ ..] | [word, number, ordinal @ ..]
            if digits(number, 1..=2).is_some() && month_number(word).is_some() =>
        {
            let suffix = match ordinal {
                [] => 0,
                ["st" | "nd" | "rd" | "th"] => 2,
                _ => return None,
            };
            Some((word.len(), number.len() + suffix))
        }
        _ => None,
    }
}
