//! Number words.

/// A number in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberWord {
    /// `five`.
    Cardinal(u64),
    /// `fifth`.
    Ordinal(u64),
    /// `million`: a power of ten.
    Scale(i32),
}

const CARDINALS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];
const TENS: [&str; 7] = ["thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const ORDINALS: [&str; 13] = [
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
    "tenth", "eleventh", "twelfth",
];
const SCALES: [(&str, i32); 10] = [
    ("hundred", 2),
    ("thousand", 3),
    ("million", 6),
    ("billion", 9),
    ("trillion", 12),
    ("k", 3),
    ("mn", 6),
    ("bn", 9),
    ("hundreds", 2),
    ("thousands", 3),
];

/// Reads a lower-case number word.
pub(super) fn number_word(word: &str) -> Option<NumberWord> {
    let position = |words: &[&str]| words.iter().position(|known| *known == word);
    if !(3..=9).contains(&word.len()) {
        return None;
    }
    if let Some(value) = position(&CARDINALS) {
        return Some(NumberWord::Cardinal(value as u64));
    }
    if let Some(tens) = position(&TENS) {
        return Some(NumberWord::Cardinal(30 + 10 * tens as u64));
    }
    match position(&ORDINALS) {
        Some(value) => Some(NumberWord::Ordinal(value as u64)),
        None => scale(word).map(NumberWord::Scale),
    }
}

/// Reads a lower-case English word of a number: up to `nineteen`, or whole tens.
#[must_use]
pub fn cardinal(word: &str) -> Option<u32> {
    match number_word(word)? {
        NumberWord::Cardinal(value) => u32::try_from(value).ok(),
        _ => None,
    }
}

/// Reads a lower-case English ordinal: `first` to `nineteenth`, `twentieth` or `thirtieth`.
#[must_use]
pub fn ordinal(word: &str) -> Option<u32> {
    match (number_word(word), word) {
        (Some(NumberWord::Ordinal(value @ 1..)), _) => u32::try_from(value).ok(),
        (_, "twentieth") => Some(20),
        (_, "thirtieth") => Some(30),
        _ => cardinal(word.strip_suffix("th")?),
    }
}

/// Reads `million` or the `k` of `5k`.
pub(super) fn scale(word: &str) -> Option<i32> {
    SCALES.iter().find(|(known, _)| *known == word).map(|(_, digits)| *digits)
}
