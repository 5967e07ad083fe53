//! Reads the lexicon's text.
//!
//! ```text
//! # comment
//! [synonyms]
//! car, automobile            words and phrases (≤ 4 words) that mean the same
//! [opposites]
//! on, enabled | off          each on the left is the opposite of each on the right
//! [exclusive colour]         a class: one member with all its names a line
//! grey, gray
//! red
//! ```
//! `[kinds]` takes `general | special, special`: what is denied of a person is denied of a woman.
//! `[distinct NAME]` is a class whose members differ without contradiction, `[modality NAME]` one of modal words.
//! `[forms]` and `[past-forms]` take `base = form, form`; the other sections list words.

use super::LexiconError;
use super::draft::Draft;
use super::entry::{Membership, Relation};
use super::error::nearest_section;
use super::section::{SECTIONS, Section};
use super::tables::{Form, PHRASE_WORDS_MAX, Unit};
use crate::key::word_key;

/// Bytes of text that one entry takes, roughly.
const BYTES_PER_ENTRY: usize = 14;

/// Adds a lexicon's text.
pub(super) fn parse(source: &str, lexicon: &mut Draft) -> Result<(), LexiconError> {
    let mut section = None;
    let mut relation = 0;
    let mut buffer = String::new();
    lexicon.reserve(source.len() / BYTES_PER_ENTRY);
    for (index, line) in source.lines().enumerate() {
        let end = line.bytes().position(|byte| byte == b'#').unwrap_or(line.len());
        let line = line[..end].trim();
        let fail = |expected| LexiconError {
            file: None,
            line: index + 1,
            expected,
            suggestion: nearest_section(line),
        };
        if line.is_empty() {
            continue;
        }
        if line.starts_with('[') {
            section = Some(header(line).map_err(fail)?);
            relation = lexicon.new_relation();
            continue;
        }
        let section = section.ok_or_else(|| fail("a section before the first entry"))?;
        Line { lexicon, text: line, relation, buffer: &mut buffer }.add(section).map_err(fail)?;
    }
    Ok(())
}

fn header(line: &str) -> Result<Section, &'static str> {
    let inner = line.trim_start_matches('[').strip_suffix(']').ok_or("a section in brackets")?;
    let (name, rest) = inner.split_once(' ').unwrap_or((inner, ""));
    let (_, section) =
        SECTIONS.iter().find(|(known, _)| *known == name).ok_or("a known section")?;
    if section.is_named() && rest.trim().is_empty() {
        return Err("a name behind the section");
    }
    Ok(*section)
}

/// One line of a section.
struct Line<'a> {
    lexicon: &'a mut Draft,
    text: &'a str,
    relation: u32,
    buffer: &'a mut String,
}

impl Line<'_> {
    fn add(mut self, section: Section) -> Result<(), &'static str> {
        match section {
            Section::Role(roles) => self.each(self.text, |lexicon, entry| {
                let entry = lexicon.entry_mut(entry);
                entry.roles = entry.roles.with(roles);
            }),
            Section::Synonyms => self.synonyms(),
            Section::Opposites => self.opposites(),
            Section::Kinds => self.kinds(),
            Section::Class(kind) => self.member(kind),
            Section::Forms { past } => self.forms(past),
            Section::Units { currency } => self.units(currency),
        }
    }

    fn synonyms(&mut self) -> Result<(), &'static str> {
        if !self.has_several() {
            return Err("two or more words apart by commas");
        }
        let meaning = self.lexicon.new_relation();
        self.each(self.text, |lexicon, entry| lexicon.entry_mut(entry).meanings.push(meaning))
    }

    fn has_several(&self) -> bool {
        self.text.bytes().any(|byte| byte == b',')
    }

    fn opposites(&mut self) -> Result<(), &'static str> {
        let (left, right) = self.text.split_once('|').ok_or("two sides apart by `|`")?;
        let relation = self.lexicon.new_relation();
        for (side, words) in [(0, left), (1, right)] {
            let membership = Membership { relation, side, kind: Relation::Opposite };
            self.each(words, |lexicon, entry| {
                lexicon.entry_mut(entry).memberships.push(membership);
            })?;
        }
        Ok(())
    }

    fn kinds(&mut self) -> Result<(), &'static str> {
        let (general, special) = self.text.split_once('|').ok_or("two sides apart by `|`")?;
        let kind = self.lexicon.new_relation();
        self.each(general, |lexicon, entry| lexicon.entry_mut(entry).covers.push(kind))?;
        self.each(special, |lexicon, entry| lexicon.entry_mut(entry).kinds.push(kind))
    }

    fn member(&mut self, kind: Relation) -> Result<(), &'static str> {
        let side = self.lexicon.new_relation();
        let membership = Membership { relation: self.relation, side, kind };
        let has_several = self.has_several();
        self.each(self.text, |lexicon, entry| {
            let entry = lexicon.entry_mut(entry);
            entry.memberships.push(membership);
            if has_several {
                entry.meanings.push(side);
            }
        })
    }

    fn forms(&mut self, past: bool) -> Result<(), &'static str> {
        let (base, forms) = self.text.split_once('=').ok_or("`base = forms`")?;
        let mut buffer = String::new();
        let base = word_key(base.trim(), &mut buffer).stem;
        for form in forms.split(',') {
            let key = word_key(form.trim(), &mut buffer);
            self.lexicon.forms.insert(key.surface, Form { base, past });
        }
        Ok(())
    }

    fn units(&mut self, currency: bool) -> Result<(), &'static str> {
        let id = self.lexicon.new_relation();
        let mut buffer = String::new();
        for name in self.text.split(',') {
            let key = word_key(name.trim(), &mut buffer);
            self.lexicon.units.insert(key.surface, Unit { id, currency });
        }
        Ok(())
    }

    /// Calls `add` with the entry of each word or phrase.
    fn each(
        &mut self,
        words: &str,
        mut add: impl FnMut(&mut Draft, u32),
    ) -> Result<(), &'static str> {
        for name in words.split([',']) {
            let mut stems = [0; PHRASE_WORDS_MAX];
            let mut count = 0;
            for word in name.split([' ', '-', '\t']).filter(|word| !word.is_empty()) {
                *stems.get_mut(count).ok_or("at most 4 words in a phrase")? = self.stem(word);
                count += 1;
            }
            let entry = match &stems[..count] {
                [] => return Err("a word"),
                [stem] => self.lexicon.word_entry(*stem),
                stems => self.lexicon.phrase_entry(stems),
            };
            add(self.lexicon, entry);
        }
        Ok(())
    }
    fn stem(&mut self, word: &str) -> u64 {
        let key = word_key(word, self.buffer);
        let forms = &self.lexicon.forms;
        let form = forms.get(&key.surface).or_else(|| forms.get(&key.stem));
        form.map_or(key.stem, |form| form.base)
    }
}
