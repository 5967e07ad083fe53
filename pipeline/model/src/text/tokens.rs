//! Word tokens with their place in the text.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

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
/// use memfold_model::text::tokens;
/// let words: Vec<_> = tokens("Port 8080, please.").map(|token| token.text).collect();
/// assert_eq!(words, ["Port", "8080", "please"]);
/// ```
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    text.unicode_word_indices().map(|(start, text)| Token { text, start })
}

#[cfg(test)]
mod tests {
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
