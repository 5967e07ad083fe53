//! A conservative stemmer for English inflection: plural, third person, `-ed` and `-ing`.
//!
//! Stems are keys, not words: `decide` and `deciding` share `decid`. Derivation (`-ly`, `-er`,
//! `-ness`) stays, because it changes the meaning of a word.

use unicode_normalization::UnicodeNormalization;

/// A stem and whether an ending of the past was taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stem {
    /// Bytes of the word that remain.
    pub(super) length: usize,
    /// The suffix to append to them.
    pub(super) suffix: &'static str,
    /// Whether the word ended in `-ed`.
    pub(super) past: bool,
}

/// Words that only look inflected.
fn is_uninflected(word: &str) -> bool {
    matches!(
        word,
        "always"
            | "news"
            | "perhaps"
            | "lens"
            | "series"
            | "species"
            | "evening"
            | "morning"
            | "ceiling"
            | "wedding"
            | "nothing"
            | "something"
            | "anything"
            | "everything"
            | "during"
            | "hundred"
            | "canvas"
            | "alias"
            | "atlas"
            | "does"
            | "windows"
            | "kubernetes"
            | "postgres"
            | "redis"
            | "sales"
            | "towards"
            | "https"
            | "sans"
            | "nats"
            | "rails"
            | "andes"
    )
}

/// Stems a lower-case word of ASCII letters.
pub(super) fn stem(word: &str) -> Stem {
    let whole = Stem { length: word.len(), suffix: "", past: false };
    if word.len() < 4 || is_uninflected(word) {
        return whole;
    }
    if let Some(stem) = verb_stem(word) {
        return stem;
    }
    let singular = singular(word);
    settle(&word[..singular.length], singular.suffix, false)
}

/// Takes off `-ed` and `-ing` where a vowel remains.
fn verb_stem(word: &str) -> Option<Stem> {
    if let Some(base) = word.strip_suffix("ied").filter(|base| base.len() > 1) {
        return Some(Stem { length: base.len(), suffix: "y", past: true });
    }
    let (base, past) = match (word.strip_suffix("ing"), word.strip_suffix("ed")) {
        (Some(base), _) => (base, false),
        (None, Some(base)) if !base.ends_with('e') => (base, true),
        _ => return None,
    };
    (base.len() >= 2 && has_vowel(base)).then(|| restore(base, past))
}

/// Gives a stripped verb the stem that its base form has.
fn restore(base: &str, past: bool) -> Stem {
    let bytes = base.as_bytes();
    let last = bytes[bytes.len() - 1];
    let doubled = bytes.len() >= 3 && bytes[bytes.len() - 2] == last && !is_vowel(last);
    if doubled {
        return Stem { length: base.len() - 1, suffix: "", past };
    }
    if is_short(base) && !matches!(last, b'w' | b'x' | b'y') {
        return Stem { length: base.len(), suffix: "e", past };
    }
    settle(base, "", past)
}

/// Takes off the plural.
fn singular(word: &str) -> Stem {
    let stem = |length, suffix| Stem { length, suffix, past: false };
    let length = word.len();
    if ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) || !word.ends_with('s') {
        stem(length, "")
    } else if word.ends_with("ies") && length > 4 {
        stem(length - 3, "y")
    } else if ["sses", "xes", "zes", "ches", "shes"].iter().any(|end| word.ends_with(end)) {
        stem(length - 2, "")
    } else {
        stem(length - 1, "")
    }
}

/// Drops a final `e` and a doubled final consonant, so that base and inflected forms meet.
fn settle(base: &str, suffix: &'static str, past: bool) -> Stem {
    let bytes = base.as_bytes();
    let whole = Stem { length: base.len(), suffix, past };
    if !suffix.is_empty() || bytes.len() < 4 {
        return whole;
    }
    let last = bytes[bytes.len() - 1];
    if base.ends_with("ie") {
        return Stem { length: base.len() - 2, suffix: "y", past };
    }
    if last == b'e' && !base.ends_with("ee") {
        let shorter = &base[..base.len() - 1];
        return if is_short(shorter) { whole } else { Stem { length: shorter.len(), ..whole } };
    }
    let doubled = last == bytes[bytes.len() - 2] && !is_vowel(last);
    if doubled { Stem { length: base.len() - 1, ..whole } } else { whole }
}

/// One vowel and then one consonant at the end, no vowel before: `hop`, `us`, `writ`.
fn is_short(base: &str) -> bool {
    let bytes = base.as_bytes();
    let vowels = bytes.iter().filter(|byte| is_vowel(**byte)).count();
    vowels == 1 && bytes.len() >= 2 && is_vowel(bytes[bytes.len() - 2])
}

fn has_vowel(base: &str) -> bool {
    base.bytes().any(|byte| is_vowel(byte) || byte == b'y')
}

const fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u')
}

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

/// A word's key and the grammar of its ending.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stemmed(word: &str) -> String {
        let stem = stem(word);
        format!("{}{}", &word[..stem.length], stem.suffix)
    }

    #[test]
    fn inflections_meet() {
        for (left, right) in [
            ("hope", "hoping"),
            ("hop", "hopping"),
            ("plan", "planned"),
            ("plane", "planes"),
            ("decide", "decided"),
            ("visit", "visiting"),
            ("play", "plays"),
            ("try", "tried"),
            ("cookie", "cookies"),
            ("fall", "falling"),
            ("control", "controlling"),
            ("class", "classes"),
            ("box", "boxes"),
            ("use", "using"),
            ("use", "used"),
            ("write", "writing"),
            ("cache", "caches"),
            ("cache", "caching"),
            ("merge", "merged"),
        ] {
            assert_eq!(stemmed(left), stemmed(right), "{left} {right}");
        }
    }

    #[test]
    fn different_words_stay_apart() {
        for (left, right) in [
            ("hope", "hop"),
            ("plan", "plane"),
            ("new", "news"),
            ("even", "evening"),
            ("fill", "file"),
            ("string", "str"),
            ("need", "ne"),
            ("window", "windows"),
            ("use", "us"),
            ("stable", "stably"),
        ] {
            assert_ne!(stemmed(left), stemmed(right), "{left} {right}");
        }
    }
}
