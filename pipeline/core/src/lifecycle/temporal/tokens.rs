//! Splits a text into words, numbers, numeric dates and clock times, each with its bytes.
//!
//! Identifiers, paths, versions and code (`sat_solver`, `may/today.md`, `2.1`, anything in back
//! quotes) become [`Kind::Other`], so no rule of the grammar can take them for a time.

use std::ops::Range;

use jiff::civil::{Date, Time};
use memfold_guard::{cardinal, month_number};

/// What one piece of the text is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Letters, apostrophes included; compare [`Token::word`].
    Word,
    Number(u32),
    /// `3rd`, `21st`.
    Ordinal(u32),
    /// `2025-03-01`, `2025/3/1`.
    Date(Date),
    /// `2025-03-01T10:00:00Z` and what else [`crate::time::Instant::parse`] reads.
    Moment,
    /// `2025-03`.
    YearMonth(i16, i8),
    /// `03/04/2025`, `3/4`, `24.12.2025`: the order of day and month is open.
    Pair {
        first: i8,
        second: i8,
        year: Option<i16>,
        separator: char,
    },
    /// `17:30`, `5pm`.
    Clock(Clock),
    /// `Q3`.
    Quarter(i8),
    /// `1990s`, `90s`: the first year.
    Decade(i16),
    Mark(char),
    Other,
}

/// A time of day as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clock {
    pub(super) time: Time,
    /// Whether minutes are written.
    pub(super) minutes: bool,
    /// Whether morning and afternoon are told apart (am, pm, an hour above 12, a leading zero).
    pub(super) certain: bool,
}

/// One piece of a text.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
    /// Lower-case, a possessive `'s` cut off; empty for what is no word.
    pub(super) word: String,
    pub(super) capital: bool,
}

/// Whether a word is in a list of words between spaces.
pub(super) fn listed(words: &str, word: &str) -> bool {
    words.split(' ').any(|listed| listed == word)
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
        if found == '`' {
            lexer.in_code = !lexer.in_code;
        }
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
        self.tokens.push(Token { kind, span, word, capital });
    }

    /// Reads a run without white space: the marks around it, then what is between them.
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
        let pieces = dashed(written);
        if pieces.len() < 2 || !pieces.iter().all(|piece| names_time(&written[piece.clone()])) {
            return self.push(Kind::Other, span);
        }
        let mut last_end = None;
        for piece in pieces {
            let found = span.start + piece.start..span.start + piece.end;
            if let Some(end) = last_end {
                self.push(Kind::Mark('-'), end..found.start);
            }
            last_end = Some(found.end);
            self.core(found);
        }
    }
}

fn dashed(written: &str) -> Vec<Range<usize>> {
    let start = written.as_ptr() as usize;
    written
        .split(['-', '–'])
        .map(|piece| {
            let at = piece.as_ptr() as usize - start;
            at..at + piece.len()
        })
        .collect()
}

/// Whether a piece between hyphens belongs to a time: `sat-solver` and `march-release` do not.
fn names_time(piece: &str) -> bool {
    let word = plain(piece);
    let known = month_number(&word).is_some()
        || weekday(&word).is_some()
        || unit(&word).is_some()
        || cardinal(&word).is_some()
        || ordinal(&word).is_some()
        || matches!(
            word.as_str(),
            "mid" | "early" | "late" | "end" | "morning" | "afternoon" | "evening" | "night"
        );
    known || glued(piece).is_some() || !matches!(literal(piece), None | Some(Kind::Word))
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

fn digits(run: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<i16> {
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
        ["week", "-", "end" | "ends"] => Some(Kind::Word),
        ["a" | "p", ".", "m"] => Some(Kind::Word),
        [number] => number.parse().ok().map(Kind::Number),
        [year, "-" | "/", month, "-" | "/", day] if year.len() == 4 => {
            let date = Date::new(digits(year, 4..=4)?, small(month)?, small(day)?);
            date.ok().map(Kind::Date)
        }
        [year, "-", _, "-", day, "t", ..] if year.len() == 4 && day.len() == 2 => {
            Some(Kind::Moment)
        }
        [first, separator @ ("/" | "." | "-"), second, again, year] if separator == again => {
            let year = Some(full_year(digits(year, 2..=4)?, year.len())?);
            pair(first, second, year, separator)
        }
        [first, "/", second] if second.len() <= 2 => pair(first, second, None, "/"),
        [year, "-", month] if year.len() == 4 && month.len() == 2 => {
            let month = small(month).filter(|month| (1..=12).contains(month))?;
            Some(Kind::YearMonth(digits(year, 4..=4)?, month))
        }
        [hour, ":", ..] => clock(hour, &runs[1..]),
        [_, "am" | "pm"] => clock(runs[0], &runs[1..]),
        [number, "st" | "nd" | "rd" | "th"] => number.parse().ok().map(Kind::Ordinal),
        ["q", quarter] => {
            small(quarter).filter(|quarter| (1..=4).contains(quarter)).map(Kind::Quarter)
        }
        [year, "s"] if year.ends_with('0') => {
            Some(Kind::Decade(full_year(digits(year, 2..=4)?, year.len())?))
        }
        _ => None,
    }
}

fn pair(first: &str, second: &str, year: Option<i16>, separator: &str) -> Option<Kind> {
    let separator = separator.chars().next()?;
    Some(Kind::Pair { first: small(first)?, second: small(second)?, year, separator })
}

/// Two digits are 1970 to 2069.
fn full_year(year: i16, digit_count: usize) -> Option<i16> {
    match digit_count {
        2 if year < 70 => Some(year + 2000),
        2 => Some(year + 1900),
        4 => Some(year),
        _ => None,
    }
}

fn clock(hour: &str, rest: &[&str]) -> Option<Kind> {
    let (minutes, seconds, tail) = match rest {
        [":", minutes, ":", seconds, "." | ",", _fraction] => (*minutes, *seconds, None),
        [":", minutes, ":", seconds, tail @ ..] => (*minutes, *seconds, tail.first()),
        [":", minutes, tail @ ..] => (*minutes, "00", tail.first()),
        tail => ("00", "00", tail.first()),
    };
    let written_hour = small(hour)?;
    let meridiem = match tail.copied() {
        None => None,
        Some("am") => Some(false),
        Some("pm") => Some(true),
        Some(_) => return None,
    };
    if minutes.len() != 2 || seconds.len() != 2 {
        return None;
    }
    let hour_of_day = match meridiem {
        Some(_) if !(1..=12).contains(&written_hour) => return None,
        Some(afternoon) => written_hour % 12 + if afternoon { 12 } else { 0 },
        None => written_hour,
    };
    let certain = meridiem.is_some() || hour_of_day > 12 || hour.starts_with('0');
    let time = Time::new(hour_of_day, small(minutes)?, small(seconds)?, 0).ok()?;
    Some(Kind::Clock(Clock { time, minutes: rest.first() == Some(&":"), certain }))
}

/// The lengths of the halves of `3mins`, `14april`, `Feb13` and `Oct.2`.
fn glued(written: &str) -> Option<(usize, usize)> {
    let lower = written.to_ascii_lowercase();
    match runs(&lower).as_slice() {
        [number, word] if digits(number, 1..=3).is_some() => {
            let unit_or_month = unit(word).is_some() || month_number(word).is_some();
            unit_or_month.then_some((number.len(), word.len()))
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

/// A unit of time as people count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Fortnight,
    Weekend,
    Month,
    Quarter,
    Year,
    Decade,
}

pub(super) fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "second" | "seconds" | "sec" | "secs" => Unit::Second,
        "minute" | "minutes" | "min" | "mins" => Unit::Minute,
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Hour,
        "day" | "days" | "d" => Unit::Day,
        "week" | "weeks" | "wk" | "wks" | "w" => Unit::Week,
        "fortnight" | "fortnights" => Unit::Fortnight,
        "weekend" | "weekends" | "wkend" => Unit::Weekend,
        "month" | "months" => Unit::Month,
        "quarter" | "quarters" | "qtr" | "qtrs" => Unit::Quarter,
        "year" | "years" | "yr" | "yrs" => Unit::Year,
        "decade" | "decades" => Unit::Decade,
        _ => return None,
    })
}

/// Monday is 1; whole names and abbreviations.
pub(super) fn weekday(word: &str) -> Option<i8> {
    Some(match word {
        "monday" | "mon" => 1,
        "tuesday" | "tue" | "tues" => 2,
        "wednesday" | "wed" | "weds" => 3,
        "thursday" | "thu" | "thur" | "thurs" => 4,
        "friday" | "fri" => 5,
        "saturday" | "sat" => 6,
        "sunday" | "sun" => 7,
        _ => return None,
    })
}

/// Reads `first` to `thirtieth`, without the compounds.
pub(super) fn ordinal(word: &str) -> Option<u32> {
    Some(match word {
        "first" => 1,
        "second" => 2,
        "third" => 3,
        "fifth" => 5,
        "eighth" => 8,
        "ninth" => 9,
        "twelfth" => 12,
        "twentieth" => 20,
        "thirtieth" => 30,
        _ => cardinal(word.strip_suffix("th")?)?,
    })
}
