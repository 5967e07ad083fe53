//! Keys: what a token is compared by.

use unicode_normalization::UnicodeNormalization;

use super::stem::{Stem, stem};

/// 64-bit FNV-1a: equal on every machine, and fast on words.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHasher(u64);

impl KeyHasher {
    pub(super) const fn new(domain: u8) -> Self {
        Self(0xcbf2_9ce4_8422_2325).byte(domain)
    }

    pub(super) const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |hasher, byte| hasher.byte(*byte))
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) const fn finish(self) -> u64 {
        self.0
    }
}

/// Domain of word keys, so that a word never equals a number.
const WORD: u8 = 0;
/// Domain of phrases.
const PHRASE: u8 = 1;

/// A word's key and what its ending tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordKey {
    /// Key of the lower-case word as written.
    pub(super) surface: u64,
    /// Key of its stem.
    pub(super) stem: u64,
    /// Whether it ended in `-ed`.
    pub(super) past: bool,
}

/// Returns the keys of a word of letters.
pub(super) fn word_key(word: &str, buffer: &mut String) -> WordKey {
    lower_into(word, buffer);
    let surface = KeyHasher::new(WORD).bytes(buffer.as_bytes()).finish();
    if !buffer.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return WordKey { surface, stem: surface, past: false };
    }
    let Stem { length, suffix, past } = stem(buffer);
    let hasher = KeyHasher::new(WORD).bytes(&buffer.as_bytes()[..length]);
    WordKey { surface, stem: hasher.bytes(suffix.as_bytes()).finish(), past }
}

/// Returns the key of a token whose case does not matter, in its own domain.
pub(super) fn folded_key(domain: u8, text: &str, buffer: &mut String) -> u64 {
    lower_into(text, buffer);
    KeyHasher::new(domain).bytes(buffer.as_bytes()).finish()
}

/// Returns the key of a token that is compared byte by byte, in its own domain.
pub(super) fn exact_key(domain: u8, text: &str) -> u64 {
    KeyHasher::new(domain).bytes(text.as_bytes()).finish()
}

/// Returns the key of several words as one.
pub(super) fn phrase_key(stems: impl Iterator<Item = u64>) -> u64 {
    stems.fold(KeyHasher::new(PHRASE), KeyHasher::number).finish()
}

fn lower_into(text: &str, buffer: &mut String) {
    buffer.clear();
    if text.is_ascii() {
        buffer.push_str(text);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(text.nfkc().flat_map(char::to_lowercase));
    }
}
