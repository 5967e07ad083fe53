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
//! `[distinct NAME]` is a class of members that differ without contradiction, `[modality NAME]` one
//! of modal words. `[forms]` and `[past-forms]` take `base = form, form`; the other sections list
//! words.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::PathBuf;

use super::tables::{
    Canonical, Few, Form, Lexicon, Lists, Marks, Membership, PHRASE_WORDS_MAX, Phrase, Relation,
    Roles, Table, Unit,
};
use crate::stem::{KeyHasher, phrase_key, word_key};

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
    if name == "mark" {
        let marks = Marks::NAMES.iter().find(|(known, _)| *known == rest);
        return marks.map(|(_, marks)| Section::Mark(*marks)).ok_or("a known mark");
    }
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
            Section::Class(kind) => self.member(kind),
            Section::Forms { past } => self.forms(past),
            Section::Units { currency } => self.units(currency),
            Section::Mark(marks) => self.marks(marks),
            Section::Canonical => self.canonical(),
            Section::Compound { joined } => self.compound(joined),
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

    fn marks(&mut self, marks: Marks) -> Result<(), &'static str> {
        for word in self.text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let key = word_key(word, self.buffer).surface;
            let known = self.lexicon.marks.entry(key).or_default();
            *known = known.with(marks);
        }
        Ok(())
    }

    fn canonical(&mut self) -> Result<(), &'static str> {
        let (word, full) = self.text.split_once('=').ok_or("`word = word`")?;
        let full = word_key(full.trim(), self.buffer);
        let key = word_key(word.trim(), self.buffer).surface;
        let canonical = Canonical { surface: full.surface, stem: full.stem, past: full.past };
        self.lexicon.canonical.insert(key, canonical);
        Ok(())
    }

    fn compound(&mut self, joined: bool) -> Result<(), &'static str> {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        if words.len() < 2 {
            return Err("two or more words");
        }
        let number = self.lexicon.new_relation();
        let keys: Vec<u64> = words.iter().map(|word| word_key(word, self.buffer).surface).collect();
        let whole = word_key(&words.concat(), self.buffer).surface;
        for first in [keys[0], whole].into_iter().take(1 + usize::from(joined)) {
            let marks = self.lexicon.marks.entry(first).or_default();
            *marks = marks.with(Marks::COMPOUND);
        }
        self.lexicon.compounds.insert(phrase_key(keys.into_iter()), number);
        if joined {
            self.lexicon.compounds.insert(whole, number);
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

/// How the lines of a section are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// Words of one role, apart by commas or white space lines.
    Role(Roles),
    /// Words that mean the same.
    Synonyms,
    /// `left, left | right, right`.
    Opposites,
    /// A class; each line one member with its names.
    Class(Relation),
    /// `base = form, form`.
    Forms {
        /// Whether the forms are of the past.
        past: bool,
    },
    /// One unit with its names a line.
    Units {
        /// Whether they are money.
        currency: bool,
    },
    /// Words with a mark.
    Mark(Marks),
    /// `spelling = word`.
    Canonical,
    /// Words that may be joined.
    Compound {
        /// Whether also without a hyphen.
        joined: bool,
    },
}

/// Names of all sections.
pub(super) const SECTIONS: [(&str, Section); 32] = [
    ("synonyms", Section::Synonyms),
    ("opposites", Section::Opposites),
    ("exclusive", Section::Class(Relation::Exclusive)),
    ("modality", Section::Class(Relation::Modality)),
    ("distinct", Section::Class(Relation::Distinct)),
    ("forms", Section::Forms { past: false }),
    ("past-forms", Section::Forms { past: true }),
    ("units", Section::Units { currency: false }),
    ("currencies", Section::Units { currency: true }),
    ("function", Section::Role(Roles::FUNCTION)),
    ("auxiliaries", Section::Role(Roles::FUNCTION.with(Roles::AUXILIARY))),
    ("prepositions", Section::Role(Roles::FUNCTION.with(Roles::PREPOSITION))),
    ("coordinators", Section::Role(Roles::FUNCTION.with(Roles::COORDINATOR))),
    ("clause", Section::Role(Roles::FUNCTION.with(Roles::CLAUSE))),
    ("subjects", Section::Role(Roles::FUNCTION.with(Roles::SUBJECT))),
    ("indefinite", Section::Role(Roles::FUNCTION.with(Roles::INDEFINITE))),
    ("exhaustive", Section::Role(Roles::EXHAUSTIVE)),
    ("future", Section::Role(Roles::FUNCTION.with(Roles::FUTURE))),
    ("past", Section::Role(Roles::FUNCTION.with(Roles::PAST))),
    ("negators", Section::Role(Roles::NEGATOR)),
    ("narrow-negators", Section::Role(Roles::NEGATOR.with(Roles::NARROW))),
    ("concord-negators", Section::Role(Roles::NEGATOR.with(Roles::CONCORD))),
    ("negative-verbs", Section::Role(Roles::NEGATIVE_VERB)),
    ("denials", Section::Role(Roles::DENIAL)),
    ("enumerators", Section::Role(Roles::ENUMERATOR)),
    ("versioned", Section::Role(Roles::VERSIONED)),
    ("intentions", Section::Role(Roles::FUTURE)),
    ("completions", Section::Role(Roles::PAST)),
    ("spelling", Section::Canonical),
    ("abbreviation", Section::Canonical),
    ("compound", Section::Compound { joined: true }),
    ("hyphen", Section::Compound { joined: false }),
];

impl Section {
    /// Tells whether the header carries a name: classes do.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Class(_))
    }
}

/// Why a lexicon cannot be read. It names the line but never quotes it: a path may lead to a file
/// that is not a lexicon and holds secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LexiconError {
    /// The file, where it is known.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: usize,
    /// The expected content of the line.
    pub expected: &'static str,
    /// The section that may be meant.
    pub suggestion: Option<&'static str>,
}

impl std::error::Error for LexiconError {}

impl fmt::Display for LexiconError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, expected, .. } = self;
        match &self.file {
            Some(file) => {
                write!(
                    f,
                    "{}, line {line}: expected {expected}",
                    file.to_string_lossy().escape_debug()
                )
            }
            None => write!(f, "line {line} of the lexicon: expected {expected}"),
        }
    }
}

impl LexiconError {
    /// Returns advice for the writer of the lexicon.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self.suggestion {
            Some(section) => format!("did you mean `[{section}]`?"),
            None => {
                let names: Vec<_> = SECTIONS.iter().map(|(section, _)| *section).collect();
                format!(
                    "a lexicon has sections [{}]; words are apart by commas, `#` starts a comment",
                    names.join("], [")
                )
            }
        })
    }
}

/// Returns the section with a name similar to that of a header.
pub(super) fn nearest_section(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix('[')?.trim_matches(['[', ']', ' ']).split(' ').next()?;
    SECTIONS.iter().map(|(section, _)| *section).find(|section| is_near(section, name))
}

/// Tells whether two names of one length differ in at most two letters, or start alike.
fn is_near(known: &str, found: &str) -> bool {
    let differing =
        known.bytes().zip(found.bytes()).filter(|(known, found)| known != found).count();
    let same_start = known.bytes().zip(found.bytes()).take_while(|(known, found)| known == found);
    (known.len() == found.len() && differing <= 2) || same_start.count() >= 4
}

/// Words and phrases with their relations, as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entries: Vec<DraftEntry>,
    words: KeyMap<u32>,
    phrases: KeyMap<Vec<Phrase>>,
    pub(super) forms: KeyMap<Form>,
    pub(super) units: KeyMap<Unit>,
    marks: KeyMap<Marks>,
    canonical: KeyMap<Canonical>,
    compounds: KeyMap<u32>,
    relation_count: u32,
    /// Set when the user's part begins.
    pub(super) user_meanings: Option<u32>,
}

/// Keys are hashes already.
pub(super) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyPassThrough>>;

/// The properties of a word or a phrase.
#[derive(Debug, Default)]
pub(super) struct DraftEntry {
    pub(super) roles: Roles,
    pub(super) meanings: Few<u32>,
    pub(super) memberships: Few<Membership>,
}

impl Draft {
    /// Makes room for more entries.
    pub(super) fn reserve(&mut self, entry_count: usize) {
        self.entries.reserve(entry_count);
        self.words.reserve(entry_count);
    }

    /// Builds the tables of the lexicon.
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
            words: Table::of(self.words),
            first_words: Table::of(first_words),
            phrases: Lists::of(phrases.iter().map(|(_, phrases)| phrases)),
            forms: Table::of(self.forms),
            units: Table::of(self.units),
            marks: Table::of(self.marks),
            canonical: Table::of(self.canonical),
            compounds: Table::of(self.compounds),
            user_meanings: self.user_meanings.unwrap_or(u32::MAX),
        }
    }

    /// Begins the user's part.
    pub(super) fn begin_user(&mut self) {
        self.user_meanings = Some(self.relation_count + 1);
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
