//! [`Lexicon`]: words and phrases with their relations, in plain arrays.

use std::borrow::Cow;
use std::ops::Deref;

/// Phrases longer than this are refused.
pub(crate) const PHRASE_WORDS_MAX: usize = 4;

/// Words and phrases with their relations; read-only.
#[derive(Debug)]
pub(crate) struct Lexicon {
    /// The roles of each entry; lists below have one list for each entry.
    pub(super) roles: Cow<'static, [Roles]>,
    pub(super) meanings: Lists<u32>,
    pub(super) memberships: Lists<Membership>,
    /// Numbers of entries, from 1.
    pub(super) words: Table<u32>,
    /// Lists of `phrases`, by the first word.
    pub(super) first_words: Table<u32>,
    /// The longest first.
    pub(super) phrases: Lists<Phrase>,
    pub(super) forms: Table<Form>,
    pub(super) units: Table<Unit>,
    /// By the key of a word as written in lower case, as the two below.
    pub(super) marks: Table<Marks>,
    pub(super) canonical: Table<Canonical>,
    /// Numbers of compounds, by the key of their words and of the joined word.
    pub(super) compounds: Table<u32>,
    /// Sets of equal meaning from this number on are the user's.
    pub(super) user_meanings: u32,
}

/// The word that a spelling or an abbreviation stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canonical {
    pub(crate) surface: u64,
    pub(crate) stem: u64,
    pub(crate) past: bool,
}

/// An irregular form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Stem key of the base form.
    pub(crate) base: u64,
    /// Whether it is a form of the past.
    pub(crate) past: bool,
}

/// A unit of a number.
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
    /// Returns the roles of an entry in a sentence; none for 0.
    pub(crate) fn roles(&self, number: u32) -> Roles {
        let index = (number as usize).checked_sub(1);
        index.and_then(|index| self.roles.get(index)).copied().unwrap_or_default()
    }

    /// Returns how the entries of two words exclude each other; strongest relation first; `None` where they do not.
    pub(crate) fn conflict(&self, left: u32, right: u32) -> Option<Relation> {
        let memberships = |number: u32| {
            let index = (number as usize).checked_sub(1)?;
            Some(self.memberships.at(index)).filter(|list| !list.is_empty())
        };
        conflict(memberships(left)?, memberships(right)?)
    }

    /// Returns the opposites and the user's meanings that an entry has a part in, as bits: entries without a common bit
    /// neither exclude each other nor are the same by the user's lexicon.
    pub(crate) fn relations(&self, number: u32) -> u64 {
        let Some(index) = (number as usize).checked_sub(1) else { return 0 };
        let opposites = self.memberships.at(index).iter().map(|own| own.relation);
        let meanings =
            self.meanings_of(number).iter().filter(|meaning| **meaning >= self.user_meanings);
        opposites.chain(meanings.copied()).fold(0, |bits, number| bits | 1 << (number % 64))
    }

    /// Returns the number of a word's entry; 0 where there is none.
    pub(crate) fn word(&self, stem: u64) -> u32 {
        self.words.get(stem).copied().unwrap_or(0)
    }

    /// Returns the base of an irregular form.
    pub(crate) fn form(&self, key: u64) -> Option<Form> {
        self.forms.get(key).copied()
    }

    /// Returns the alignment marks of a word, by its lower-case key.
    pub(crate) fn marks(&self, surface: u64) -> Marks {
        self.marks.get(surface).copied().unwrap_or_default()
    }

    /// Returns the word that a spelling or an abbreviation stands for.
    pub(crate) fn canonical(&self, surface: u64) -> Option<Canonical> {
        self.canonical.get(surface).copied()
    }

    /// Returns the number of a compound, by the key of its words or of the joined word; 0 where there is none.
    pub(crate) fn compound(&self, key: u64) -> u32 {
        self.compounds.get(key).copied().unwrap_or(0)
    }

    /// Tells whether the user's own lexicon says that two entries mean the same.
    pub(crate) fn user_says_same(&self, left: u32, right: u32) -> bool {
        let right = self.meanings_of(right);
        let mut left = self.meanings_of(left).iter();
        left.any(|meaning| *meaning >= self.user_meanings && right.contains(meaning))
    }

    /// Returns the meanings of an entry as bits: entries without a common bit never mean the same.
    pub(crate) fn meaning_bits(&self, number: u32) -> u64 {
        self.meanings_of(number).iter().fold(0, |bits, meaning| bits | 1 << (meaning % 64))
    }

    /// Tells whether two entries mean the same in some sense.
    pub(crate) fn may_mean_same(&self, left: u32, right: u32) -> bool {
        let right = self.meanings_of(right);
        self.meanings_of(left).iter().any(|meaning| right.contains(meaning))
    }

    fn meanings_of(&self, number: u32) -> &[u32] {
        (number as usize).checked_sub(1).map_or(&[], |index| self.meanings.at(index))
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

/// The roles of a word in a sentence, beside its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Roles(pub(super) u32);

impl Roles {
    pub(crate) const FUNCTION: Self = Self(1);
    pub(crate) const NEGATOR: Self = Self(1 << 1);
    pub(crate) const NEGATIVE_VERB: Self = Self(1 << 2);
    pub(crate) const CONCORD: Self = Self(1 << 3);
    pub(crate) const NARROW: Self = Self(1 << 4);
    pub(crate) const DENIAL: Self = Self(1 << 5);
    pub(crate) const ENUMERATOR: Self = Self(1 << 6);
    pub(crate) const COORDINATOR: Self = Self(1 << 7);
    pub(crate) const CLAUSE: Self = Self(1 << 8);
    pub(crate) const SUBJECT: Self = Self(1 << 9);
    pub(crate) const FUTURE: Self = Self(1 << 10);
    pub(crate) const PAST: Self = Self(1 << 11);
    pub(crate) const PREPOSITION: Self = Self(1 << 12);
    pub(crate) const AUXILIARY: Self = Self(1 << 13);
    pub(crate) const INDEFINITE: Self = Self(1 << 14);
    pub(crate) const EXHAUSTIVE: Self = Self(1 << 15);
    pub(crate) const VERSIONED: Self = Self(1 << 16);

    /// Tells whether it has any of these roles.
    pub(crate) const fn has(self, roles: Self) -> bool {
        self.0 & roles.0 != 0
    }

    /// Adds roles.
    pub(crate) const fn with(self, roles: Self) -> Self {
        Self(self.0 | roles.0)
    }
}

/// Properties of a word that the alignment uses, beside its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(pub(super) u32);

impl Marks {
    pub(crate) const ENGLISH: Self = Self(1 << 0);
    pub(crate) const FOREIGN: Self = Self(1 << 1);
    pub(crate) const ARTICLE: Self = Self(1 << 2);
    pub(crate) const HAZARD: Self = Self(1 << 3);
    pub(crate) const CAPITAL: Self = Self(1 << 4);
    pub(crate) const FIXING: Self = Self(1 << 5);
    pub(crate) const SAYING: Self = Self(1 << 6);
    pub(crate) const LIST_HEAD: Self = Self(1 << 7);
    pub(crate) const ORDERED: Self = Self(1 << 8);
    pub(crate) const REASON: Self = Self(1 << 9);
    pub(crate) const STATE: Self = Self(1 << 10);
    pub(crate) const NUMBERED: Self = Self(1 << 11);
    pub(crate) const MANY: Self = Self(1 << 12);
    pub(crate) const HOLDS: Self = Self(1 << 13);
    pub(crate) const TAKES_ONE: Self = Self(1 << 14);
    pub(crate) const ATTRIBUTE: Self = Self(1 << 15);
    pub(crate) const CHANGE: Self = Self(1 << 16);
    pub(crate) const ADJUNCT: Self = Self(1 << 17);
    pub(crate) const PURPOSE: Self = Self(1 << 18);
    pub(crate) const INFLECTING: Self = Self(1 << 19);
    pub(crate) const IMPERATIVE: Self = Self(1 << 20);
    pub(crate) const SETTING: Self = Self(1 << 21);
    pub(crate) const COMPOUND: Self = Self(1 << 22);
    pub(crate) const PRESENT: Self = Self(1 << 23);
    pub(crate) const LABEL: Self = Self(1 << 24);

    /// Names of the sections that give them.
    pub(super) const NAMES: [(&'static str, Self); 24] = [
        ("english", Self::ENGLISH),
        ("foreign", Self::FOREIGN),
        ("article", Self::ARTICLE),
        ("hazard", Self::HAZARD),
        ("capital", Self::CAPITAL),
        ("fixing", Self::FIXING),
        ("saying", Self::SAYING),
        ("list head", Self::LIST_HEAD),
        ("ordered", Self::ORDERED),
        ("reason", Self::REASON),
        ("state", Self::STATE),
        ("numbered", Self::NUMBERED),
        ("many", Self::MANY),
        ("holds", Self::HOLDS),
        ("takes one", Self::TAKES_ONE),
        ("attribute", Self::ATTRIBUTE),
        ("change", Self::CHANGE),
        ("adjunct", Self::ADJUNCT),
        ("purpose", Self::PURPOSE),
        ("inflecting", Self::INFLECTING),
        ("imperative", Self::IMPERATIVE),
        ("setting", Self::SETTING),
        ("present", Self::PRESENT),
        ("label", Self::LABEL),
    ];

    pub(crate) const fn has(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    pub(crate) const fn with(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }
}

/// How two entries stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Relation {
    /// They mean opposite things.
    #[default]
    Opposite,
    /// They are members of one class that exclude each other.
    Exclusive,
    /// They are different modal strengths.
    Modality,
    /// They are members of one class that name different things.
    Distinct,
}

/// One membership in a relation: entries on different sides of a relation exclude each other,
/// entries on one side mean the same (except for opposites: their sides are loose).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Membership {
    /// The class or pair.
    pub(crate) relation: u32,
    /// The member or side.
    pub(crate) side: u32,
    /// The relation between different sides.
    pub(crate) kind: Relation,
}

fn conflict(own: &[Membership], other: &[Membership]) -> Option<Relation> {
    let conflicts = own.iter().flat_map(|own| {
        let excluded =
            |theirs: &&Membership| own.relation == theirs.relation && own.side != theirs.side;
        other.iter().filter(excluded).map(|_| own.kind)
    });
    conflicts.min()
}

/// Lists of elements, one behind the other.
#[derive(Debug)]
pub(crate) struct Lists<T: Clone + 'static> {
    /// Where each list starts, and where the last one ends.
    pub(super) starts: Cow<'static, [u32]>,
    pub(super) elements: Cow<'static, [T]>,
}

impl<T: Clone> Lists<T> {
    pub(super) fn of<L: AsRef<[T]>>(lists: impl IntoIterator<Item = L>) -> Self {
        let (mut starts, mut elements) = (vec![0], Vec::new());
        for list in lists {
            elements.extend_from_slice(list.as_ref());
            starts.push(elements.len() as u32);
        }
        Self { starts: starts.into(), elements: elements.into() }
    }

    /// Returns a list, which must be there.
    pub(super) fn at(&self, index: usize) -> &[T] {
        &self.elements[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Values by keys that are hashes already.
#[derive(Debug)]
pub(crate) struct Table<V: Clone + 'static> {
    /// In lists by the lowest bits of keys, which FNV mixes best; as many lists as a power of two.
    pub(super) keys: Lists<u64>,
    /// One for each key.
    pub(super) values: Cow<'static, [V]>,
}

impl<V: Clone> Table<V> {
    pub(super) fn of(pairs: impl IntoIterator<Item = (u64, V)>) -> Self {
        let mut pairs: Vec<(u64, V)> = pairs.into_iter().collect();
        let list_count = pairs.len().next_power_of_two();
        let list_of = |key: u64| key as usize & (list_count - 1);
        pairs.sort_by_key(|(key, _)| (list_of(*key), *key));
        let mut starts = vec![0; list_count + 1];
        pairs.iter().for_each(|(key, _)| starts[list_of(*key) + 1] += 1);
        for at in 0..list_count {
            starts[at + 1] += starts[at];
        }
        let (elements, values): (Vec<u64>, Vec<V>) = pairs.into_iter().unzip();
        Self {
            keys: Lists { starts: starts.into(), elements: elements.into() },
            values: values.into(),
        }
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        // A power of two, and the end of the last.
        let list = key as usize & (self.keys.starts.len() - 2);
        let place = self.keys.at(list).iter().position(|other| *other == key)?;
        self.values.get(self.keys.starts[list] as usize + place)
    }
}

/// Elements kept in place.
const IN_PLACE_MAX: usize = 2;

/// A list that needs no memory of its own while it is short.
#[derive(Debug, Clone)]
pub(crate) enum Few<T> {
    /// The number of elements, and the elements.
    InPlace(u8, [T; IN_PLACE_MAX]),
    /// More.
    Many(Vec<T>),
}

impl<T: Copy + Default> Few<T> {
    pub(super) fn push(&mut self, element: T) {
        match self {
            Self::InPlace(length, elements) => match elements.get_mut(usize::from(*length)) {
                Some(free) => {
                    *free = element;
                    *length += 1;
                }
                None => {
                    let mut many = elements.to_vec();
                    many.push(element);
                    *self = Self::Many(many);
                }
            },
            Self::Many(elements) => elements.push(element),
        }
    }
}

impl<T: Copy + Default> Default for Few<T> {
    fn default() -> Self {
        Self::InPlace(0, [T::default(); IN_PLACE_MAX])
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::InPlace(length, elements) => &elements[..usize::from(*length)],
            Self::Many(elements) => elements,
        }
    }
}

#[cfg(test)]
mod lists_tests {
    use super::*;

    #[test]
    fn tables_find_their_keys_and_no_others() {
        for count in [0, 1, 2, 5, 300] {
            let key = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) << 3;
            let table = Table::of((0..count).map(|at| (key(at), at)));
            for at in 0..count {
                assert_eq!(table.get(key(at)), Some(&at));
                assert_eq!(table.get(key(at) + 1), None);
            }
            assert_eq!(table.get(key(count)), None);
        }
    }

    #[test]
    fn lists_stay_apart() {
        let lists = Lists::of([vec![1, 2], vec![], vec![3]]);
        assert_eq!([lists.at(0), lists.at(1), lists.at(2)], [&[1, 2][..], &[], &[3]]);
    }
}

#[cfg(test)]
mod few_tests {
    use super::*;

    #[test]
    fn a_list_grows_beyond_its_place() {
        let mut few = Few::default();
        for length in 0..5 {
            assert_eq!(few.len(), length);
            few.push(length);
        }
        assert_eq!(*few, [0, 1, 2, 3, 4]);
    }
}
