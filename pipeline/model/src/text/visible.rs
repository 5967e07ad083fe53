//! Texts fit to be shown: what steers a terminal or cannot be seen is escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

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
/// use memfold_model::text::printable;
/// assert_eq!(printable("a\u{1b}[2J\n"), "a\\u{1b}[2J\n");
/// assert_eq!(printable("plain\n"), "plain\n");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |shown, character| {
        write!(shown, "\\u{{{:x}}}", u32::from(character)).expect(ENDLESS);
    })
}

/// Returns a JSON document with the same values whose strings hold nothing that steers a terminal or
/// cannot be seen: such characters stand as `\u001b`.
///
/// # Examples
/// ```
/// use memfold_model::text::printable_json;
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
mod tests {
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
