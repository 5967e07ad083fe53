//! Pairs from templates with slots filled from word lists: the same pairs in every run.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pair, Text};

/// Attempts to find a pair that is not there yet, per pair.
const ATTEMPTS: usize = 20;

/// Pairs of one kind.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) pairs: Vec<Pair>,
}

/// Generates `count` different pairs of each family of a file of templates; fewer where its slots allow no more.
pub(crate) fn families(templates: &'static str, count: usize) -> Vec<Family> {
    let words = Words::new(include_str!("../../tests_data/words.txt"));
    let mut draws = Draws(58);
    sections(templates)
        .into_iter()
        .map(|section| {
            let mut pairs = BTreeSet::new();
            for round in 0..count * ATTEMPTS {
                let template = section.lines[round % section.lines.len()];
                pairs.insert(words.fill(template, &mut draws));
                if pairs.len() == count {
                    break;
                }
            }
            Family { name: section.name, pairs: pairs.into_iter().collect() }
        })
        .collect()
}

/// Lines below a `[name]`.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<&'static str>,
}

/// Splits a file into its sections, without comments and empty lines.
pub(crate) fn sections(text: &'static str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let comment = |line: &str| line == "#" || line.starts_with("# ");
    for line in text.lines().filter(|line| !line.is_empty() && !comment(line)) {
        match line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) if !line.contains(" || ") => sections.push(Section { name, lines: vec![] }),
            _ => sections.last_mut().expect("a section before its lines").lines.push(line),
        }
    }
    sections
}

/// Reads a text as the files write it: `@date ` in front where it has one, escapes resolved.
pub(crate) fn text(written: &str) -> Text {
    let dated = written.strip_prefix('@').and_then(|rest| rest.split_once(' '));
    let dated = dated.filter(|(date, _)| date.len() == 10 && date.starts_with("20"));
    let (date, written) = match dated {
        Some((date, rest)) => (Some(date.to_owned()), rest),
        None => (None, written),
    };
    Text { text: unescaped(written), date }
}

/// Resolves `\n`, `\t`, `\{`, `\}` and `\\`.
pub(crate) fn unescaped(written: &str) -> String {
    let mut text = String::new();
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        text.push(match escaped {
            Some('n') => '\n',
            Some('t') => '\t',
            Some(other) => other,
            None => character,
        });
    }
    text
}

/// A generator of numbers, equal everywhere.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Lists of words, and of pairs of words, by name.
struct Words(BTreeMap<&'static str, Vec<&'static str>>);

/// The words drawn for one pair of texts, by slot.
struct Drawn<'a> {
    words: &'a Words,
    by_slot: BTreeMap<String, &'static str>,
}

impl Words {
    fn new(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lists = lines.filter_map(|line| line.split_once(": "));
        Self(lists.map(|(name, list)| (name, list.split("; ").collect())).collect())
    }

    fn fill(&self, template: &str, draws: &mut Draws) -> Pair {
        let (older, newer) = template.split_once(" || ").expect("two texts");
        let mut drawn = Drawn { words: self, by_slot: BTreeMap::new() };
        let mut filled = |template| text(&drawn.fill(template, draws));
        Pair { older: filled(older), newer: filled(newer) }
    }
}

impl Drawn<'_> {
    fn fill(&mut self, template: &str, draws: &mut Draws) -> String {
        let (mut filled, mut rest) = (String::new(), template);
        while let Some(start) = rest.find('{') {
            if rest[..start].ends_with('\\') {
                filled.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            }
            let end = start + rest[start..].find('}').expect("a closed slot");
            filled.push_str(&rest[..start]);
            filled.push_str(self.word(&rest[start + 1..end], draws));
            rest = &rest[end + 1..];
        }
        filled + rest
    }

    /// Returns the word of a slot (`name`, `name2`, `unit_pair<`); a slot keeps its word.
    fn word(&mut self, slot: &str, draws: &mut Draws) -> &'static str {
        let key = slot.trim_end_matches(['<', '>']);
        let word = match self.by_slot.get(key) {
            Some(word) => word,
            None => self.draw(key, draws),
        };
        match (word.split_once(" <>"), slot.ends_with('<')) {
            (Some((left, _)), true) => left,
            (Some((_, right)), false) => right.trim_start(),
            (None, _) => word,
        }
    }

    /// Draws a word that no other slot of the same list has.
    fn draw(&mut self, key: &str, draws: &mut Draws) -> &'static str {
        let list = key.trim_end_matches(|character: char| character.is_ascii_digit());
        let words = self.words.0.get(list).unwrap_or_else(|| panic!("no list {list}"));
        let taken: Vec<&str> = self.by_slot.values().copied().collect();
        let free: Vec<&'static str> =
            words.iter().copied().filter(|word| !taken.contains(word)).collect();
        let word = free[draws.below(free.len())];
        self.by_slot.insert(key.to_owned(), word);
        word
    }
}
