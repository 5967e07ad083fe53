//! The lexicon: what the guard knows of words.

mod entry;
mod error;
mod few;
mod parse;
mod section;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) use entry::{Entry, Relation, Roles};
pub use error::LexiconError;

use super::reading::Token;

/// Declares the files of the built-in lexicon, in the order in which they are read.
macro_rules! built_in {
    ($($file:literal,)*) => {
        /// The built-in lexicon, its files one after the other.
        pub(super) const BUILT_IN: &str =
            concat!($(include_str!(concat!("../../../lexicon/", $file)),)*);

        /// The names and texts of the built-in lexicon's files.
        #[cfg(test)]
        pub(super) const FILES: &[(&str, &str)] =
            &[$(($file, include_str!(concat!("../../../lexicon/", $file))),)*];
    };
}

built_in! {
    "forms.txt",
    "grammar.txt",
    "synonyms/everyday.txt",
    "synonyms/technical.txt",
    "opposites/everyday.txt",
    "opposites/technical.txt",
    "classes/time.txt",
    "classes/places.txt",
    "classes/people.txt",
    "classes/things.txt",
    "classes/nature.txt",
    "classes/technical.txt",
    "kinds.txt",
    "languages/german.txt",
    "languages/french.txt",
    "languages/spanish.txt",
    "languages/portuguese.txt",
    "languages/italian.txt",
    "languages/chinese.txt",
    "languages/japanese.txt",
    "languages/others.txt",
}

/// Phrases longer than this are refused.
pub(super) const PHRASE_WORDS_MAX: usize = 4;

/// Words and phrases with their relations; read-only once loaded.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    entries: Vec<Entry>,
    words: KeyMap<u32>,
    phrases: KeyMap<Vec<Phrase>>,
    forms: KeyMap<Form>,
    units: KeyMap<Unit>,
    relation_count: u32,
}

/// Keys are hashes already.
type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyPassThrough>>;

/// An irregular form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Stem key of the base form.
    pub(super) base: u64,
    /// Whether it is a form of the past.
    pub(super) past: bool,
}

/// What a number may be counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Equal for equal units, from 1.
    pub(super) id: u32,
    /// Whether it is money.
    pub(super) currency: bool,
}

/// A phrase, filed under its first word.
#[derive(Debug)]
struct Phrase {
    rest: Vec<u64>,
    entry: u32,
}

/// A phrase found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhraseMatch {
    /// Its words.
    pub(super) word_count: usize,
    /// Its entry.
    pub(super) entry: u32,
}

impl Lexicon {
    /// Reads the built-in lexicon and then the user's, whose errors name the user's lines.
    pub(super) fn load(user: Option<&str>) -> Result<Self, LexiconError> {
        Self::load_from(BUILT_IN, user)
    }

    /// Reads a lexicon's text and then the user's, whose errors name the user's lines.
    pub(super) fn load_from(built_in: &str, user: Option<&str>) -> Result<Self, LexiconError> {
        let mut lexicon = Self::default();
        parse::parse(built_in, &mut lexicon)?;
        if let Some(user) = user {
            parse::parse(user, &mut lexicon)?;
        }
        lexicon.seal();
        Ok(lexicon)
    }

    /// Returns the entry of a number that [`Lexicon::word`] or [`Lexicon::phrase`] gave; `None` for 0.
    pub(super) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get((number as usize).checked_sub(1)?)
    }

    /// Returns the entry of a token; `None` for numbers and for words without one.
    pub(super) fn entry_of(&self, token: &Token) -> Option<&Entry> {
        if token.is_word() { self.entry(token.entry) } else { None }
    }

    /// Returns what a token does in a sentence; nothing for numbers and for words without an entry.
    pub(super) fn roles_of(&self, token: &Token) -> Roles {
        self.entry_of(token).map(|entry| entry.roles).unwrap_or_default()
    }

    /// Returns the number of a word's entry; 0 where there is none.
    pub(super) fn word(&self, stem: u64) -> u32 {
        self.words.get(&stem).copied().unwrap_or(0)
    }

    /// Returns the base of an irregular form.
    pub(super) fn form(&self, key: u64) -> Option<Form> {
        self.forms.get(&key).copied()
    }

    /// Returns the unit that a lower-case word names behind a number.
    pub(super) fn unit(&self, surface: u64) -> Option<Unit> {
        self.units.get(&surface).copied()
    }

    /// Tells whether some phrase starts with this word.
    pub(super) fn starts_phrase(&self, stem: u64) -> bool {
        self.phrases.contains_key(&stem)
    }

    /// Returns the longest phrase that these words start with.
    pub(super) fn phrase(&self, stems: &[u64]) -> Option<PhraseMatch> {
        let (first, rest) = stems.split_first()?;
        let phrase =
            self.phrases.get(first)?.iter().find(|phrase| rest.starts_with(&phrase.rest))?;
        Some(PhraseMatch { word_count: phrase.rest.len() + 1, entry: phrase.entry })
    }

    /// Makes room for more entries.
    fn reserve(&mut self, entry_count: usize) {
        self.entries.reserve(entry_count);
        self.words.reserve(entry_count);
    }

    /// Puts longer phrases before shorter ones.
    fn seal(&mut self) {
        #[expect(clippy::iter_over_hash_type, reason = "each list is sorted on its own")]
        for phrases in self.phrases.values_mut() {
            phrases.sort_by(|left, right| {
                right.rest.len().cmp(&left.rest.len()).then(left.entry.cmp(&right.entry))
            });
        }
    }

    fn new_relation(&mut self) -> u32 {
        self.relation_count += 1;
        self.relation_count
    }

    fn entry_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.entries[number as usize - 1]
    }

    fn new_entry(&mut self) -> u32 {
        self.entries.push(Entry::default());
        self.entries.len() as u32
    }

    fn word_entry(&mut self, stem: u64) -> u32 {
        if let Some(number) = self.words.get(&stem) {
            return *number;
        }
        let number = self.new_entry();
        self.words.insert(stem, number);
        number
    }

    fn phrase_entry(&mut self, stems: &[u64]) -> u32 {
        let known = self.phrases.get(&stems[0]).and_then(|phrases| {
            phrases.iter().find(|phrase| phrase.rest == stems[1..]).map(|phrase| phrase.entry)
        });
        if let Some(number) = known {
            return number;
        }
        let entry = self.new_entry();
        let phrase = Phrase { rest: stems[1..].to_vec(), entry };
        self.phrases.entry(stems[0]).or_default().push(phrase);
        entry
    }
}

/// Passes a key on as its own hash.
#[derive(Debug, Default)]
struct KeyPassThrough(u64);

impl Hasher for KeyPassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = super::key::KeyHasher::new(0).bytes(bytes).finish();
    }

    fn write_u64(&mut self, key: u64) {
        // The table takes its buckets from the low and its tags from the high bits; FNV mixes the low ones best.
        self.0 = key ^ (key << 32);
    }
}

#[cfg(test)]
mod tests;
