//! Keys under which equal texts meet.

use std::ops::Range;

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::time_words::{TimeUnit, full_unit, is_span};

/// Tells whether a text holds no visible character: only white space, control characters and characters without a width.
///
/// # Examples
/// ```
/// use memfold_guard::text::is_blank;
/// assert!(is_blank(" \n\u{200b}"));
/// assert!(!is_blank("."));
/// ```
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|char| {
        char.is_whitespace()
            || char.is_control()
            || matches!(char,
                '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
    })
}

/// Returns the text in NFC, trimmed, with each run of white space as one space.
///
/// Where white space carries meaning (indented lines, fenced blocks) lines stay as they stand, but for blanks at their ends.
/// Equal strict keys mean the same text, if it does not speak of days ([`is_relative_to_day`]).
///
/// # Examples
/// ```
/// use memfold_guard::text::strict_key;
/// assert_eq!(strict_key("  port \n 8080 "), "port\n 8080");
/// assert_eq!(strict_key("  port \n8080 "), "port 8080");
/// assert_ne!(strict_key("C#"), strict_key("C"));
/// ```
#[must_use]
pub fn strict_key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let add = |part: &str, separator: char, key: &mut String| {
        if !key.is_empty() {
            key.push(separator);
        }
        if part.is_ascii() {
            key.push_str(part);
        } else {
            key.extend(part.nfc());
        }
    };
    if keeps_white_space(text) {
        text.trim().lines().for_each(|line| add(line.trim_end(), '\n', &mut key));
    } else {
        text.split_whitespace().for_each(|word| add(word, ' ', &mut key));
    }
    key
}

/// Tells whether white space carries meaning: a line behind the first begins with blanks, or there is a fenced block, as
/// in Python and YAML.
pub(crate) fn keeps_white_space(text: &str) -> bool {
    let text = text.trim();
    let indented = |line: &str| line.starts_with(char::is_whitespace) && !line.trim().is_empty();
    text.contains('\n') && (text.lines().skip(1).any(indented) || text.contains("```"))
}

/// Tells whether a text says `yesterday`, `next Friday`, `3 days ago`: its meaning depends on the
/// day it was written.
///
/// # Examples
/// ```
/// use memfold_guard::text::is_relative_to_day;
/// assert!(is_relative_to_day("Ana called yesterday"));
/// assert!(is_relative_to_day("The release is next Friday."));
/// assert!(!is_relative_to_day("Today's standard is HTTP/2, and the next release is 3.0"));
/// ```
#[must_use]
pub fn is_relative_to_day(text: &str) -> bool {
    use TimeUnit::{Day, Month, Week, Year};
    if !text.is_ascii() && DAYS_WITHOUT_SPACES.iter().any(|day| text.contains(day)) {
        return true;
    }
    let joins = |character: char| character.is_alphanumeric() || matches!(character, '\'' | '’');
    let words = text.split(|character: char| !joins(character)).filter(|word| !word.is_empty());
    let among = |word: &str, known: &[&str]| {
        let lower = (!word.is_ascii()).then(|| word.to_lowercase());
        known.iter().any(|known| match &lower {
            Some(lower) => lower == known,
            None => word.eq_ignore_ascii_case(known),
        })
    };
    let (mut last, mut before_last) = ("", "");
    for word in words {
        let number = || last.starts_with(|c: char| c.is_ascii_digit()) || among(last, &NUMBERS);
        // `in three days`, `in a week`.
        let counted = before_last.eq_ignore_ascii_case("in")
            && number()
            && matches!(full_unit(&word.to_lowercase()), Some(Day | Week | Month | Year));
        let named = || among(last, &WHICH) && is_span(&word.to_lowercase());
        if counted || among(word, &DAYS) || named() {
            return true;
        }
        (before_last, last) = (last, word);
    }
    false
}

const DAYS_WITHOUT_SPACES: [&str; 6] = ["昨天", "今天", "明天", "昨日", "今日", "明日"];
const DAYS: [&str; 13] = [
    "yesterday",
    "today",
    "tomorrow",
    "tonight",
    "ago",
    "gestern",
    "heute",
    "übermorgen",
    "ayer",
    "hoy",
    "mañana",
    "demain",
    "ieri",
];
const WHICH: [&str; 6] = ["last", "next", "this", "past", "coming", "previous"];
const NUMBERS: [&str; 16] = [
    "a", "an", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "twelve", "few", "couple", "several",
];
/// Returns the key under which texts of memories are the same: the strict key and, for a text that
/// says `yesterday`, the day on which it was written. A text of an unknown day equals no other:
/// `unknown` tells it apart.
#[must_use]
pub fn dated_key(text: &str, day: Option<i32>, unknown: &str) -> String {
    let mut key = strict_key(text);
    if is_relative_to_day(text) {
        key.push('\u{1f}');
        match day {
            Some(day) => key.push_str(&day.to_string()),
            None => key.push_str(unknown),
        }
    }
    key
}

/// Returns the text in NFKC, case-folded, with punctuation as space and white space collapsed;
/// `None` where nothing is left.
///
/// Equal loose keys propose a pair and never decide: `1.5 s` and `1 5 s` share one.
///
/// # Examples
/// ```
/// use memfold_guard::text::loose_key;
/// assert_eq!(loose_key("Straße, 5!").as_deref(), Some("strasse 5"));
/// assert_eq!(loose_key("?!"), None);
/// ```
#[must_use]
pub fn loose_key(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut gap = false;
    for character in text.nfkc().default_case_fold().nfkc() {
        if !is_word_character(character) {
            gap = true;
            continue;
        }
        if gap && !key.is_empty() {
            key.push(' ');
        }
        gap = false;
        key.push(character);
    }
    (!key.is_empty()).then_some(key)
}

/// The keys of a text with which others are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextKey {
    /// The text with white space and Unicode forms made equal.
    pub strict: String,
    /// Without one, the strict key stands for it.
    loose: Option<String>,
}

impl TextKey {
    /// Makes the keys of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self { strict: strict_key(text), loose: loose_key(text) }
    }

    /// Tells whether a text shares the loose key; mostly decided by its first word.
    pub fn proposes(&self, text: &str) -> bool {
        let Some(key) = &self.loose else { return self.strict == strict_key(text) };
        begins_like(key, text) && loose_key(text).as_ref() == Some(key)
    }
}

/// Tells whether the ASCII at the beginning of a text can be that of a loose key.
fn begins_like(key: &str, text: &str) -> bool {
    let (mut key, mut text) = (key.bytes().filter(|byte| *byte != b' '), text.bytes().peekable());
    while let Some(byte) = text.next() {
        // A mark behind a letter makes another letter of both.
        if !byte.is_ascii() || text.peek().is_some_and(|next| !next.is_ascii()) {
            return true;
        }
        if byte.is_ascii_alphanumeric() && key.next() != Some(byte.to_ascii_lowercase()) {
            return false;
        }
    }
    key.next().is_none()
}

/// Letters, digits and the marks that belong to them; symbols and punctuation are not.
fn is_word_character(character: char) -> bool {
    character.is_alphanumeric()
        || unicode_normalization::char::is_combining_mark(character)
        || !(character.is_ascii()
            || character.is_whitespace()
            || character.is_control()
            || is_punctuation(character))
}

/// The blocks of punctuation outside ASCII. Other symbols (emoji, arrows) keep their say.
const fn is_punctuation(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{BF}'
            | '×'
            | '÷'
            | '\u{2000}'..='\u{206F}'
            | '\u{3000}'..='\u{3004}'
            | '\u{3008}'..='\u{3020}'
            | '\u{3030}'
            | '\u{30FB}'
            | '\u{FE10}'..='\u{FE6F}'
            | '\u{FEFF}'
            | '\u{FF00}'..='\u{FF0F}'
            | '\u{060C}'
            | '\u{061B}'
            | '\u{061F}'
            | '\u{0964}'
            | '\u{0965}'
    )
}

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word as written.
    pub text: &'a str,
    /// Byte offset of its first byte.
    pub start: usize,
}

impl Token<'_> {
    /// Returns the bytes that the token takes up.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// Splits a text into words by the boundaries of UAX #29, without punctuation and white space.
///
/// Ideographs are words of their own. Linear in the length.
///
/// # Examples
/// ```
/// use memfold_guard::text::tokens;
/// let words: Vec<_> = tokens("Port 8080, please.").map(|token| token.text).collect();
/// assert_eq!(words, ["Port", "8080", "please"]);
/// ```
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    text.unicode_word_indices().map(|(start, text)| Token { text, start })
}

#[cfg(test)]
mod keys_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn proposals_are_those_of_the_loose_key() {
        let texts = [
            "Port 8080.",
            "port  8080",
            "PORT, 8080!",
            "port 80",
            "port 80801",
            "?!",
            " ? !",
            "?!?",
            "Caf\u{e9} au lait",
            "cafe\u{301} AU lait",
            "cafe au lait",
            "",
            "e\u{301}",
            "\u{e9}",
            "e",
            "stra\u{df}e 5",
            "STRASSE 5",
            "strasse 6",
            "a\u{2028}b",
            "a b",
            "ab",
            "\u{fb01}x",
            "fix",
        ];
        for a in texts {
            let key = TextKey::of(a);
            for b in texts {
                let expected = match loose_key(a) {
                    Some(loose) => loose_key(b) == Some(loose),
                    None => strict_key(a) == strict_key(b),
                };
                assert_eq!(key.proposes(b), expected, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn strict_keys_keep_every_sign() {
        assert_eq!(strict_key("e\u{301}t\u{e9} \u{3000} x"), "\u{e9}t\u{e9} x");
        for (left, right) in [("1.5 s", "15 s"), ("C#", "C"), ("-5", "5"), ("a/b", "a/_b")] {
            assert_ne!(strict_key(left), strict_key(right));
        }
        assert_eq!(strict_key(" \t\r\n"), "");
    }

    #[test]
    fn loose_keys_propose() {
        for (left, right) in [
            ("C#", "C"),
            ("numpy/core", "numpy/_core"),
            ("-5", "5"),
            ("ＡＢＣ", "abc"),
            ("It’s done.", "it's   DONE"),
            ("你好，世界。", "你好 世界"),
        ] {
            assert_eq!(loose_key(left), loose_key(right), "{left} {right}");
        }
        assert_eq!(loose_key("…"), None);
        assert_eq!(loose_key("日本語").as_deref(), Some("日本語"));
        assert_ne!(loose_key("🙂"), loose_key("🙁"));
    }

    proptest! {
        #[test]
        fn keys_are_their_own_keys(text in ".{0,60}") {
            let strict = strict_key(&text);
            prop_assert_eq!(strict_key(&strict), strict.clone());
            if let Some(loose) = loose_key(&text) {
                prop_assert_eq!(loose_key(&loose), Some(loose.clone()));
            }
            prop_assert_eq!(loose_key(&strict), loose_key(&text));
        }
    }
}

#[cfg(test)]
mod tokens_tests {
    use super::*;

    #[test]
    fn tokens_know_their_place() {
        let text = "Ünïcode 漢字 don't 1.5";
        for token in tokens(text) {
            assert_eq!(&text[token.range()], token.text);
        }
        let words: Vec<_> = tokens(text).map(|token| token.text).collect();
        assert_eq!(words, ["Ünïcode", "漢", "字", "don't", "1.5"]);
    }
}
