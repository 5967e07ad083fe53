//! How much a person should look at a merge.

use super::Risk;
use memfold_model::text;

/// Judges by the texts alone. `loose`: whether an equal loose key suffices, because a guard has seen
/// that no fact differs.
pub fn risk(survivor: &str, row: &str, loose: bool) -> Risk {
    if survivor == row || text::strict_key(survivor) == text::strict_key(row) {
        return Risk::Identical;
    }
    let loosely_equal =
        || text::loose_key(survivor).is_some_and(|key| text::loose_key(row) == Some(key));
    if (loose && loosely_equal()) || plain_words(survivor) == plain_words(row) {
        Risk::Trivial
    } else {
        Risk::Reworded
    }
}

/// Words that carry no fact of their own. None that negates, bounds or directs.
const SMALL_WORDS: [&str; 36] = [
    "a", "an", "the", "this", "that", "these", "those", "is", "are", "was", "were", "be", "been",
    "being", "am", "do", "does", "did", "has", "have", "had", "and", "also", "then", "so", "very",
    "really", "please", "of", "to", "in", "on", "at", "for", "it", "its",
];

/// The words of a text without edge punctuation, small words and inflection.
fn plain_words(content: &str) -> Vec<String> {
    content
        .split_whitespace()
        .map(|word| word.trim_matches(is_sentence_punctuation))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !SMALL_WORDS.contains(&word.as_str()))
        .map(|word| stem(&word))
        .collect()
}

/// Punctuation that says nothing at the edge of a word. A leading `-` may be a sign, `#` a language.
fn is_sentence_punctuation(character: char) -> bool {
    matches!(
        character,
        '.' | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '"'
            | '\''
            | '('
            | ')'
            | '“'
            | '”'
            | '‘'
            | '’'
            | '…'
            | '。'
            | '，'
            | '、'
            | '！'
            | '？'
            | '「'
            | '」'
    )
}

/// Cuts regular English endings off words of plain letters.
fn stem(word: &str) -> String {
    const STEM_LETTERS_MIN: usize = 4;
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        for ending in ["ing", "ed", "es", "s"] {
            if let Some(stem) = word.strip_suffix(ending)
                && stem.len() >= STEM_LETTERS_MIN
            {
                return stem.trim_end_matches('e').to_owned();
            }
        }
    }
    word.trim_end_matches('e').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risk_follows_the_words() {
        for (survivor, row, loose, expected) in [
            ("Port 8080", " Port\n8080 ", true, Risk::Identical),
            ("Port 8080.", "port 8080", true, Risk::Trivial),
            ("The port is 8080", "port 8080", false, Risk::Trivial),
            ("tests passed", "test passes", false, Risk::Trivial),
            ("re-run it", "re run it", true, Risk::Trivial),
            ("timeout 1.5 s", "timeout 15 s", false, Risk::Reworded),
            ("offset -5", "offset 5", false, Risk::Reworded),
            ("written in C#", "written in C", false, Risk::Reworded),
            ("turn the light on", "turn the light off", false, Risk::Reworded),
            ("do not deploy", "do deploy", false, Risk::Reworded),
            ("fast search", "quick search", true, Risk::Reworded),
        ] {
            assert_eq!(risk(survivor, row, loose), expected, "{survivor:?} {row:?}");
        }
    }
}
