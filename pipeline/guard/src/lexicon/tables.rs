//! [`Lexicon`]: words and phrases with their relations, in plain arrays.

use std::borrow::Cow;

use super::entry::{Entry, Membership, Roles};
use super::lists::{Lists, Table};

/// Phrases longer than this are refused.
pub(crate) const PHRASE_WORDS_MAX: usize = 4;

/// Words and phrases with their relations; read-only.
#[derive(Debug)]
pub(crate) struct Lexicon {
    /// What each entry does; lists below have one list for each entry.
    pub(super) roles: Cow<'static, [Roles]>,
    pub(super) meanings: Lists<u32>,
    pub(super) memberships: Lists<Membership>,
    pub(super) covers: Lists<u32>,
    pub(super) kinds: Lists<u32>,
    /// Numbers of entries, from 1.
    pub(super) words: Table<u32>,
    /// Lists of `phrases`, by the first word.
    pub(super) first_words: Table<u32>,
    /// The longest first.
    pub(super) phrases: Lists<Phrase>,
    pub(super) forms: Table<Form>,
    pub(super) units: Table<Unit>,
}

/// An irregular form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Stem key of the base form.
    pub(crate) base: u64,
    /// Whether it is a form of the past.
    pub(crate) past: bool,
}

/// What a number may be counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Equal for equal units, from 1.
    pub(crate) id: u32,
    /// Whether it is money.
    pub(crate) currency: bool,
}

/// A phrase, filed under its first word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phrase {
    /// How many words follow the first.
    pub(super) rest_count: u8,
    /// These, then zeros.
    pub(super) rest: [u64; PHRASE_WORDS_MAX - 1],
    pub(super) entry: u32,
}

/// A phrase found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PhraseMatch {
    /// Its words.
    pub(crate) word_count: usize,
    /// Its entry.
    pub(crate) entry: u32,
}

impl Phrase {
    pub(super) fn rest(&self) -> &[u64] {
        &self.rest[..usize::from(self.rest_count)]
    }
}

impl Lexicon {
    /// Returns the entry of a number that [`Lexicon::word`] or [`Lexicon::phrase`] gave; `None` for 0.
    pub(crate) fn entry(&self, number: u32) -> Option<Entry<'_>> {
        let index = (number as usize).checked_sub(1)?;
        Some(Entry {
            roles: *self.roles.get(index)?,
            meanings: self.meanings.at(index),
            memberships: self.memberships.at(index),
            covers: self.covers.at(index),
            kinds: self.kinds.at(index),
        })
    }

    /// Returns what an entry does in a sentence; nothing for 0.
    pub(crate) fn roles(&self, number: u32) -> Roles {
        let index = (number as usize).checked_sub(1);
        index.and_then(|index| self.roles.get(index)).copied().unwrap_or_default()
    }

    /// Returns the number of a word's entry; 0 where there is none.
    pub(crate) fn word(&self, stem: u64) -> u32 {
        self.words.get(stem).copied().unwrap_or(0)
    }

    /// Returns the base of an irregular form.
    pub(crate) fn form(&self, key: u64) -> Option<Form> {
        self.forms.get(key).copied()
    }

    /// Returns the unit that a lower-case word names behind a number.
    pub(crate) fn unit(&self, surface: u64) -> Option<Unit> {
        self.units.get(surface).copied()
    }

    /// Tells whether some phrase starts with this word.
    pub(crate) fn starts_phrase(&self, stem: u64) -> bool {
        self.first_words.get(stem).is_some()
    }

    /// Returns the longest phrase that these words start with.
    pub(crate) fn phrase(&self, stems: &[u64]) -> Option<PhraseMatch> {
        let (first, rest) = stems.split_first()?;
        let phrases = self.phrases.at(*self.first_words.get(*first)? as usize);
        let phrase = phrases.iter().find(|phrase| rest.starts_with(phrase.rest()))?;
        Some(PhraseMatch { word_count: phrase.rest().len() + 1, entry: phrase.entry })
    }
}
