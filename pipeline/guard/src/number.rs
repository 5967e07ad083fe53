//! Numbers: digits, words, dates and times as values.

use super::stem::KeyHasher;

/// A decimal number in normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Not divisible by ten, but for 0 and kept zeros.
    mantissa: u128,
    exponent: i32,
}

impl Decimal {
    /// Reads digits with points and commas. `keep_zeros`: `3.10` is not `3.1`.
    pub(super) fn parse(digits: &str, negative: bool, keep_zeros: bool) -> Self {
        let fraction = digits.split_once('.').map_or("", |(_, fraction)| fraction);
        let mut mantissa = 0_u128;
        for byte in digits.bytes().filter(u8::is_ascii_digit) {
            // Longer numbers wrap: still equal for equal digits, and never worse than a hash.
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u128::from(byte - b'0'));
        }
        let fraction_digits = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let number = Self { negative, mantissa, exponent: -fraction_digits };
        let is_exact = keep_zeros && !fraction.is_empty() && !digits.starts_with("0.");
        if is_exact || digits.len() > 38 { number } else { number.normal() }
    }

    pub(super) const fn whole(value: u64) -> Self {
        Self { negative: false, mantissa: value as u128, exponent: 0 }.normal()
    }

    /// Multiplies by a power of ten.
    pub(super) const fn shifted(self, digits: i32) -> Self {
        Self { exponent: self.exponent.saturating_add(digits), ..self }.normal()
    }

    /// Adds another number of ones to a number of tens: `twenty` `five`.
    pub(super) fn plus_ones(self, ones: Self) -> Option<Self> {
        let (tens, ones) = (self.small()?, ones.small()?);
        (tens % 10 == 0 && (20..100).contains(&tens) && (1..10).contains(&ones))
            .then(|| Self::whole(tens + ones))
    }

    /// Returns it as a small whole number.
    pub(super) fn small(self) -> Option<u64> {
        if self.negative || !(0..9).contains(&self.exponent) {
            return None;
        }
        let factor = 10_u128.pow(self.exponent as u32);
        u64::try_from(self.mantissa.checked_mul(factor)?).ok()
    }

    /// Returns its key in a domain, counted in a unit (0: none).
    pub(super) fn key(self, domain: u8, unit: u32) -> u64 {
        KeyHasher::new(domain)
            .byte(u8::from(self.negative && self.mantissa != 0))
            .bytes(&self.mantissa.to_le_bytes())
            .bytes(&self.exponent.to_le_bytes())
            .number(u64::from(unit))
            .finish()
    }

    const fn normal(mut self) -> Self {
        if self.mantissa == 0 {
            return Self { exponent: 0, ..self };
        }
        while self.mantissa.is_multiple_of(10) {
            self.mantissa /= 10;
            self.exponent = self.exponent.saturating_add(1);
        }
        self
    }
}

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

/// Reads `million` or the `k` of `5k`.
pub(super) fn scale(word: &str) -> Option<i32> {
    SCALES.iter().find(|(known, _)| *known == word).map(|(_, digits)| *digits)
}

/// Reads a month's name or abbreviation in lower case.
pub(super) fn month(word: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let found = MONTHS.iter().position(|month| {
        *month == word
            || (word.len() == 3 && month.starts_with(word))
            || (word == "sept" && *month == "september")
    })?;
    Some(found as u64 + 1)
}

/// Returns the second of the day that `10:30`, `5pm` or `17:00:05` names; `None` for anything with more to it, such as an
/// offset or a fraction.
pub(super) fn second_of_day(text: &str, afternoon: Option<bool>) -> Option<u64> {
    let body = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let afternoon = match text[body.len()..].replace('.', "").to_ascii_lowercase().as_str() {
        "pm" => Some(true),
        "am" => Some(false),
        "" | "z" => afternoon,
        _ => return None,
    };
    let parts: Vec<u64> = body.split(':').map(two_digits).collect::<Option<_>>()?;
    let (hour, minute, second) = match parts[..] {
        [hour] => (hour, 0, 0),
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let hour = match afternoon {
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    Some(hour * 3600 + minute * 60 + second)
}

/// Reads one or two digits.
fn two_digits(part: &str) -> Option<u64> {
    let digits = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if digits { part.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digits: &str) -> u64 {
        Decimal::parse(digits, false, false).key(0, 0)
    }

    #[test]
    fn equal_values_have_equal_keys() {
        assert_eq!(key("1,000"), key("1000"));
        assert_eq!(key("1.50"), key("1.5"));
        assert_eq!(
            Decimal::parse("5", false, true).shifted(3),
            Decimal::parse("5,000", false, true)
        );
        assert_eq!(Decimal::whole(20).plus_ones(Decimal::whole(5)), Some(Decimal::whole(25)));
        assert_ne!(key("1.5"), key("15"));
        assert_ne!(Decimal::parse("3.10", false, true), Decimal::parse("3.1", false, true));
        assert_ne!(Decimal::parse("5", true, true).key(0, 0), key("5"));
        assert_eq!(Decimal::parse("0", true, true).key(0, 0), key("0"));
    }

    #[test]
    fn words_are_numbers() {
        assert_eq!(number_word("seven"), Some(NumberWord::Cardinal(7)));
        assert_eq!(number_word("ninety"), Some(NumberWord::Cardinal(90)));
        assert_eq!(number_word("third"), Some(NumberWord::Ordinal(3)));
        assert_eq!(number_word("million"), Some(NumberWord::Scale(6)));
        assert_eq!(month("sept"), Some(9));
        assert_eq!(month("oct"), Some(10));
        assert_eq!(month("ma"), None);
        assert_eq!(second_of_day("5pm", None), second_of_day("17:00", None));
        assert_eq!(second_of_day("12:05am", None), Some(300));
    }
}
