//! [`Draft`]: a lexicon while it is read.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::PHRASE_WORDS_MAX;
use super::entry::{Membership, Roles};
use super::few::Few;
use super::lists::{Lists, Table};
use super::tables::{Form, Lexicon, Phrase, Unit};
use crate::key::KeyHasher;

/// Words and phrases with their relations, as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entries: Vec<DraftEntry>,
    words: KeyMap<u32>,
    phrases: KeyMap<Vec<Phrase>>,
    pub(super) forms: KeyMap<Form>,
    pub(super) units: KeyMap<Unit>,
    relation_count: u32,
}

/// Keys are hashes already.
pub(super) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyPassThrough>>;

/// What an [`Entry`](super::Entry) will show.
#[derive(Debug, Default)]
pub(super) struct DraftEntry {
    pub(super) roles: Roles,
    pub(super) meanings: Few<u32>,
    pub(super) memberships: Few<Membership>,
    pub(super) covers: Few<u32>,
    pub(super) kinds: Few<u32>,
}

impl Draft {
    /// Makes room for more entries.
    pub(super) fn reserve(&mut self, entry_count: usize) {
        self.entries.reserve(entry_count);
        self.words.reserve(entry_count);
    }

    /// Lays out what was read.
    pub(super) fn lay_out(self) -> Lexicon {
        let mut phrases: Vec<(u64, Vec<Phrase>)> = self.phrases.into_iter().collect();
        phrases.sort_unstable_by_key(|(first, _)| *first);
        for (_, phrases) in &mut phrases {
            phrases.sort_by_key(|phrase| (std::cmp::Reverse(phrase.rest_count), phrase.entry));
        }
        let first_words = (0..).zip(&phrases).map(|(list, (first, _))| (*first, list));
        Lexicon {
            roles: self.entries.iter().map(|entry| entry.roles).collect(),
            meanings: Lists::of(self.entries.iter().map(|entry| &*entry.meanings)),
            memberships: Lists::of(self.entries.iter().map(|entry| &*entry.memberships)),
            covers: Lists::of(self.entries.iter().map(|entry| &*entry.covers)),
            kinds: Lists::of(self.entries.iter().map(|entry| &*entry.kinds)),
            words: Table::of(self.words),
            first_words: Table::of(first_words),
            phrases: Lists::of(phrases.iter().map(|(_, phrases)| phrases)),
            forms: Table::of(self.forms),
            units: Table::of(self.units),
        }
    }

    pub(super) fn new_relation(&mut self) -> u32 {
        self.relation_count += 1;
        self.relation_count
    }

    pub(super) fn entry_mut(&mut self, number: u32) -> &mut DraftEntry {
        &mut self.entries[number as usize - 1]
    }

    fn new_entry(&mut self) -> u32 {
        self.entries.push(DraftEntry::default());
        self.entries.len() as u32
    }

    pub(super) fn word_entry(&mut self, stem: u64) -> u32 {
        if let Some(number) = self.words.get(&stem) {
            return *number;
        }
        let number = self.new_entry();
        self.words.insert(stem, number);
        number
    }

    /// Returns the entry of a phrase of at least two and at most [`PHRASE_WORDS_MAX`] words.
    pub(super) fn phrase_entry(&mut self, stems: &[u64]) -> u32 {
        let known = self.phrases.get(&stems[0]).and_then(|phrases| {
            phrases.iter().find(|phrase| *phrase.rest() == stems[1..]).map(|phrase| phrase.entry)
        });
        if let Some(number) = known {
            return number;
        }
        let entry = self.new_entry();
        let mut rest = [0; PHRASE_WORDS_MAX - 1];
        rest[..stems.len() - 1].copy_from_slice(&stems[1..]);
        let phrase = Phrase { rest_count: stems.len() as u8 - 1, rest, entry };
        self.phrases.entry(stems[0]).or_default().push(phrase);
        entry
    }
}

/// Passes a key on as its own hash.
#[derive(Debug, Default)]
pub(super) struct KeyPassThrough(u64);

impl Hasher for KeyPassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = KeyHasher::new(0).bytes(bytes).finish();
    }

    fn write_u64(&mut self, key: u64) {
        // The table takes its buckets from the low and its tags from the high bits; FNV mixes the low ones best.
        self.0 = key ^ (key << 32);
    }
}
