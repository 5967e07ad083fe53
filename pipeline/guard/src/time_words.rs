//! English words of the calendar: the one list of them, for the guard and for the reader of times in `memfold-core`.

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "units of the calendar")]
pub enum TimeUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Fortnight,
    Weekend,
    Quarter,
    Decade,
}

/// The names of each unit: one of it, several, and its abbreviations.
const UNITS: [(TimeUnit, &[&str]); 11] = [
    (TimeUnit::Second, &["second", "seconds", "sec", "secs"]),
    (TimeUnit::Minute, &["minute", "minutes", "min", "mins"]),
    (TimeUnit::Hour, &["hour", "hours", "hr", "hrs"]),
    (TimeUnit::Day, &["day", "days"]),
    (TimeUnit::Week, &["week", "weeks", "wk", "wks"]),
    (TimeUnit::Month, &["month", "months"]),
    (TimeUnit::Year, &["year", "years", "yr", "yrs"]),
    (TimeUnit::Fortnight, &["fortnight", "fortnights"]),
    (TimeUnit::Weekend, &["weekend", "weekends", "wkend"]),
    (TimeUnit::Quarter, &["quarter", "quarters", "qtr", "qtrs"]),
    (TimeUnit::Decade, &["decade", "decades"]),
];
const WEEKDAYS: [&[&str]; 7] = [
    &["monday", "mon"],
    &["tuesday", "tue", "tues"],
    &["wednesday", "wed", "weds"],
    &["thursday", "thu", "thur", "thurs"],
    &["friday", "fri"],
    &["saturday", "sat"],
    &["sunday", "sun"],
];
const MONTHS: [&[&str]; 12] = [
    &["january", "jan"],
    &["february", "feb"],
    &["march", "mar"],
    &["april", "apr"],
    &["may"],
    &["june", "jun"],
    &["july", "jul"],
    &["august", "aug"],
    &["september", "sep", "sept"],
    &["october", "oct"],
    &["november", "nov"],
    &["december", "dec"],
];
/// Further words behind `last` and `next` that name days.
const SEASONS_AND_PARTS: [&str; 9] =
    ["night", "morning", "afternoon", "evening", "spring", "summer", "autumn", "fall", "winter"];

/// Reads a unit of time in lower case: in full or abbreviated, but not by one letter.
#[must_use]
pub fn time_unit(word: &str) -> Option<TimeUnit> {
    UNITS.iter().find(|(_, names)| names.contains(&word)).map(|(unit, _)| *unit)
}

/// Reads an English weekday in lower case, in full or abbreviated; Monday is 0.
#[must_use]
pub fn weekday_number(word: &str) -> Option<i8> {
    position(&WEEKDAYS, word)
}

/// Reads an English month in lower case, in full, its first three letters or `sept`; January is 1.
#[must_use]
pub fn month_number(word: &str) -> Option<i8> {
    Some(position(&MONTHS, word)? + 1)
}

fn position(rows: &[&[&str]], word: &str) -> Option<i8> {
    i8::try_from(rows.iter().position(|names| names.contains(&word))?).ok()
}

/// Reads a unit that is written in full.
pub(crate) fn full_unit(word: &str) -> Option<TimeUnit> {
    UNITS.iter().find(|(_, names)| names[..2].contains(&word)).map(|(unit, _)| *unit)
}

/// Tells whether a word in lower case names days by `last` or `next` before it: `week`, `friday`, `summer`.
pub(crate) fn is_span(word: &str) -> bool {
    use TimeUnit::{Day, Month, Quarter, Week, Weekend, Year};
    let is_one = matches!(full_unit(word), Some(Day | Week | Weekend | Month | Quarter | Year))
        && !word.ends_with('s');
    let is_weekday = || WEEKDAYS.iter().any(|names| names[0] == word);
    is_one || is_weekday() || SEASONS_AND_PARTS.contains(&word)
}
