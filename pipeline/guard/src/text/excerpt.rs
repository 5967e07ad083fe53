//! Excerpts of texts, safe to display: cut, escaped, without secrets.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

/// The replacement of a secret.
const MASK: &str = "[masked]";

/// Starts of well-known credentials and the shortest whole length that is taken for one.
const SECRET_PREFIXES: [(&str, usize); 22] = [
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("pk_live_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghs_", 16),
    ("ghu_", 16),
    ("ghr_", 16),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxa-", 16),
    ("xapp-", 16),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 30),
    ("hf_", 16),
    ("npm_", 16),
    ("eyJ", 24),
];

/// Words after which a value is a secret.
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "bearer",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "credential",
    "private-key",
    "key",
];

/// A value this long, of letters and digits mixed, is a secret where a secret word came shortly before.
const OPAQUE_CHARS_MIN: usize = 16;

/// How many words a secret word reaches.
const REACH_WORDS: u8 = 3;

/// Texts are searched this far beyond the cut, so that a cut secret is still recognised.
const LOOKAHEAD_BYTES: usize = 4096;

/// Returns the first `chars_max` characters of a text on one line, for people: secrets masked, control characters,
/// terminal escapes and invisible direction marks escaped, white space collapsed, `…` where something was cut.
///
/// The cost is linear in `chars_max`, not in the text.
///
/// # Examples
/// ```
/// use memfold_guard::text::excerpt;
/// assert_eq!(excerpt("a\u{1b}[31mred", 40), "a\\u{1b}[31mred");
/// assert_eq!(excerpt("password: hunter2", 40), "password: [masked]");
/// assert_eq!(excerpt("one two three", 7), "one two…");
/// ```
#[must_use]
pub fn excerpt(text: &str, chars_max: usize) -> String {
    let window_bytes = chars_max.saturating_mul(4).saturating_add(LOOKAHEAD_BYTES);
    let window = &text[..text.floor_char_boundary(window_bytes)];
    let shown = escape(&mask_secrets(window));
    let is_whole = window.len() == text.len();
    match shown.char_indices().nth(chars_max) {
        None if is_whole => shown,
        None => shown + "…",
        Some((end, next)) => format!("{}…", whole_words(&shown[..end], next).trim_end()),
    }
}

/// Leaves out the word that a cut before `next` would halve, unless a quarter of the text would go with it.
fn whole_words(cut: &str, next: char) -> &str {
    if next.is_whitespace() {
        return cut;
    }
    match cut.rfind(' ') {
        Some(space) if space * 4 >= cut.len() * 3 => &cut[..space],
        _ => cut,
    }
}

/// Collapses white space and escapes characters that could deceive a terminal or a reader.
fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (character, must_be_escaped) in characters(text.trim()) {
        if character.is_whitespace() {
            if !shown.ends_with(' ') {
                shown.push(' ');
            }
        } else if must_be_escaped {
            write!(shown, "\\u{{{:x}}}", u32::from(character))
                .expect("a String takes every character");
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Masks words that look like credentials.
fn mask_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut written = 0;
    for range in secret_ranges(text) {
        if range.start < written {
            continue;
        }
        shown.push_str(&text[written..range.start]);
        shown.push_str(MASK);
        written = range.end;
    }
    shown.push_str(&text[written..]);
    shown
}

/// Finds credentials, by their start.
fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut reach = 0_u8;
    let mut resume = 0;
    for piece in pieces(text) {
        if piece.start < resume {
            continue;
        }
        let word = &text[piece.clone()];
        if let Some(end) = private_key_end(text, piece.start) {
            ranges.push(piece.start..end);
            resume = end;
        } else if let Some(user) = user_info(text, &piece) {
            ranges.push(user);
        } else if is_secret_word(word) {
            reach = REACH_WORDS;
        } else if has_secret_prefix(word) || (reach > 0 && is_value(text, &piece)) {
            ranges.push(piece);
            reach = 0;
        } else {
            reach = reach.saturating_sub(1);
        }
    }
    ranges
}

/// Splits at white space, quotes, brackets and the signs between a key and its value.
fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = 0;
    text.split_inclusive(is_separator)
        .flat_map(move |part| {
            let start = end;
            end += part.len();
            split_key(start, part.trim_end_matches(is_separator))
        })
        .filter(|range| !range.is_empty())
}

fn is_separator(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '"' | '\'' | '`' | '=' | ',' | ';' | '(' | ')' | '{' | '}' | '<' | '>'
        )
}

/// Splits `key:value` where the key is a secret word; leaves URLs and times whole.
fn split_key(start: usize, word: &str) -> [Range<usize>; 2] {
    match word.split_once(':') {
        Some((key, _)) if is_secret_word(key) => {
            let value = start + key.len() + 1;
            [start..start + key.len(), value..start + word.len()]
        }
        _ => [start..start + word.len(), start..start],
    }
}

/// Tells whether a word announces a secret value: `password`, `DB_PASSWORD:`, `api-key`.
fn is_secret_word(word: &str) -> bool {
    let word = word.trim_matches(|character: char| !character.is_alphanumeric());
    if word.len() > 40 {
        return false;
    }
    let word = word.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|secret| word.ends_with(secret))
}

fn has_secret_prefix(word: &str) -> bool {
    SECRET_PREFIXES
        .iter()
        .any(|(prefix, chars_min)| word.len() >= *chars_min && word.starts_with(prefix))
}

/// Tells whether a word within reach of a secret word is its value: anything right behind `:` or `=`, or an opaque string.
fn is_value(text: &str, piece: &Range<usize>) -> bool {
    let word = &text[piece.clone()];
    if !word.chars().any(char::is_alphanumeric) {
        return false;
    }
    let before = text[..piece.start].trim_end_matches(|character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | '`')
    });
    let assigned = before.ends_with([':', '=']);
    let opaque = word.len() >= OPAQUE_CHARS_MIN
        && word.bytes().all(|byte| byte.is_ascii_graphic())
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    assigned || opaque
}

/// Returns the end of a PEM private key that starts at `start`.
fn private_key_end(text: &str, start: usize) -> Option<usize> {
    let rest = text[start..].strip_prefix("-----BEGIN")?;
    let head = &rest[..rest.floor_char_boundary(64)];
    head.contains("PRIVATE").then(|| {
        rest.find("-----END").map_or(text.len(), |end| {
            let tail = start + "-----BEGIN".len() + end + "-----END".len();
            text[tail..].find("-----").map_or(text.len(), |dashes| tail + dashes + 5)
        })
    })
}

/// Returns the password of `scheme://user:password@host`.
fn user_info(text: &str, piece: &Range<usize>) -> Option<Range<usize>> {
    let word = &text[piece.clone()];
    let authority = word.find("://")? + 3;
    let at = authority + word[authority..].find('@')?;
    let colon = authority + word[authority..at].find(':')?;
    Some(piece.start + colon + 1..piece.start + at)
}

/// Zero width non-joiner and joiner: invisible by themselves, letters and emoji need them in between.
const JOINERS: [char; 2] = ['\u{200C}', '\u{200D}'];

/// Tells whether a character steers a terminal, changes the direction of text, or cannot be seen.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Returns each character and whether it must be escaped. A joiner between two visible characters beyond
/// ASCII stays: it belongs to an emoji, or to the spelling of a word.
pub fn characters(text: &str) -> impl Iterator<Item = (char, bool)> + '_ {
    let joins = |character: char| !character.is_ascii() && !is_deceptive(character);
    let mut before = None;
    let mut rest = text.chars().peekable();
    std::iter::from_fn(move || {
        let character = rest.next()?;
        let is_joiner = JOINERS.contains(&character)
            && before.is_some_and(joins)
            && rest.peek().copied().is_some_and(joins);
        before = Some(character);
        Some((character, is_deceptive(character) && !is_joiner))
    })
}

/// Returns a text of several lines as a terminal can show it: line ends and tabs stay, all else that
/// steers a terminal or cannot be seen is escaped as `\u{1b}`.
///
/// # Examples
/// ```
/// use memfold_guard::text::printable;
/// assert_eq!(printable("a\u{1b}[2J\n"), "a\\u{1b}[2J\n");
/// assert_eq!(printable("plain\n"), "plain\n");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |shown, character| {
        write!(shown, "\\u{{{:x}}}", u32::from(character)).expect(ENDLESS);
    })
}

/// Returns a JSON document with the same values; control characters and invisible characters in its
/// strings are escaped, as in `\u001b`.
///
/// # Examples
/// ```
/// use memfold_guard::text::printable_json;
/// assert_eq!(printable_json("[\"a\u{202e}b\"]\n"), "[\"a\\u202eb\"]\n");
/// ```
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    escaped(json, |shown, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(shown, "\\u{unit:04x}").expect(ENDLESS);
        }
    })
}

const ENDLESS: &str = "a String takes every character";

fn escaped(text: &str, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let stays = |character: char| matches!(character, '\n' | '\t');
    if !text.chars().any(|character| is_deceptive(character) && !stays(character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for (character, must_be_escaped) in characters(text) {
        if must_be_escaped && !stays(character) {
            escape(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod excerpt_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_masked() {
        for (text, shown) in [
            ("use ghp_abcdefghijklmnop1234 now", "use [masked] now"),
            ("Authorization: Bearer abc123def456ghi789", "Authorization: Bearer [masked]"),
            ("DB_PASSWORD=hunter2 x", "DB_PASSWORD=[masked] x"),
            ("password:hunter2", "password:[masked]"),
            ("the API key is 0123456789abcdef0123", "the API key is [masked]"),
            ("\"token\": \"s3cr3t\"", "\"token\": \"[masked]\""),
            ("postgres://me:pa55@host/db", "postgres://me:[masked]@host/db"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- ok",
                "[masked] ok",
            ),
            ("AKIAABCDEFGHIJKLMNOP", "[masked]"),
        ] {
            assert_eq!(excerpt(text, 200), shown);
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "the token bucket refills every minute",
            "the password policy asks for length",
            "the key of C minor",
            "commit 0123456789abcdef0123 fixed it",
        ] {
            assert_eq!(excerpt(text, 200), text);
        }
    }

    #[test]
    fn excerpts_are_cut_between_characters() {
        assert_eq!(excerpt("äöüß", 2), "äö…");
        assert_eq!(excerpt("äö", 2), "äö");
        assert_eq!(excerpt("a\u{202e}b\tc\nd", 40), "a\\u{202e}b c d");
        assert_eq!(
            excerpt("seven words stand in this one line", 29),
            "seven words stand in this one…"
        );
        assert_eq!(excerpt("seven words stand in this one line", 28), "seven words stand in this…");
        let long = "x".repeat(1 << 20);
        assert_eq!(excerpt(&long, 3), "xxx…");
    }

    #[test]
    fn a_cut_does_not_show_half_a_secret() {
        assert_eq!(excerpt("use ghp_abcdefghijklmnop1234", 9), "use [mask…");
    }

    proptest! {
        #[test]
        fn excerpts_never_panic(text in any::<String>(), chars_max in 0_usize..50) {
            let shown = excerpt(&text, chars_max);
            prop_assert!(shown.chars().count() <= chars_max + 1);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}

#[cfg(test)]
mod visible_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        for (text, shown) in [
            ("a\r\u{7}\u{9b}31m\u{7f}", "a\\u{d}\\u{7}\\u{9b}31m\\u{7f}"),
            ("\u{202e}x\u{2069}\u{61c}\u{200e}", "\\u{202e}x\\u{2069}\\u{61c}\\u{200e}"),
            ("a\u{200b}b\u{feff}\u{2060}\u{2028}", "a\\u{200b}b\\u{feff}\\u{2060}\\u{2028}"),
            ("x\u{e0041}\u{e0100}\u{ad}", "x\\u{e0041}\\u{e0100}\\u{ad}"),
            ("line\n\tline\n", "line\n\tline\n"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn joiners_stay_where_letters_and_emoji_need_them() {
        for text in
            ["👩\u{200d}💻 works", "می\u{200c}خواهم", "क\u{94d}\u{200d}ष", "❤\u{fe0f}\u{200d}🔥"]
        {
            assert_eq!(printable(text), text);
        }
        assert_eq!(printable("ad\u{200d}min"), "ad\\u{200d}min");
        assert_eq!(printable("é\u{200d}"), "é\\u{200d}");
        assert_eq!(printable("é\u{200d}\u{200d}é"), "é\\u{200d}\\u{200d}é");
    }

    proptest! {
        #[test]
        fn json_keeps_its_values(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let shown = printable_json(&json);
            prop_assert!(characters(&shown).all(|(_, must_be_escaped)| !must_be_escaped));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
