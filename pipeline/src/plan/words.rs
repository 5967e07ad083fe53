//! What the guard found, in words fit to be shown: cut, escaped, and without secrets.

use super::SHOWN_WORD_CHARS;
use crate::guard::{Absorption, Judgement};
use crate::memory::Memory;
use crate::text;

/// So many differences or lacking words are named; the rest is counted.
const NAMED_MAX: usize = 8;

/// Names the differences of a judgement: `number "8080" / "9090"`.
pub(super) fn differences(judgement: &Judgement, left: &Memory, right: &Memory) -> Vec<String> {
    let side = |words: &str, memory| {
        if words.is_empty() {
            "nothing".to_owned()
        } else {
            format!("\"{}\"", shown(words, memory))
        }
    };
    named(judgement.differences.len(), |at| {
        let difference = &judgement.differences[at];
        let kind = kind_name(&difference.kind);
        format!(
            "{kind} {} / {}",
            side(&difference.left_text, left),
            side(&difference.right_text, right)
        )
    })
}

/// Names what a survivor lacks of a row: specifics first, then words.
pub(super) fn lacks(absorption: &Absorption, row: &Memory) -> Vec<String> {
    let all: Vec<&String> =
        absorption.lacking_specifics.iter().chain(&absorption.lacking_words).collect();
    named(all.len(), |at| format!("\"{}\"", shown(all[at], row)))
}

/// Names the kinds of a judgement's signs, heaviest first, each once.
pub(super) fn signal_kinds(judgement: &Judgement) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for signal in &judgement.signals {
        let kind = kind_name(&signal.kind);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn named(count: usize, name: impl Fn(usize) -> String) -> Vec<String> {
    let mut names: Vec<String> = (0..count.min(NAMED_MAX)).map(name).collect();
    if count > NAMED_MAX {
        names.push(format!("{} more", count - NAMED_MAX));
    }
    names
}

fn kind_name(kind: &impl serde::Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "other".to_owned(),
    }
}

/// Shows a word of a memory, unless the memory holds a secret that the word may be part of.
fn shown(word: &str, memory: &Memory) -> String {
    const MASK: &str = "[masked]";
    let whole = text::excerpt(&memory.content, memory.content.len().saturating_mul(8));
    let excerpt = text::excerpt(word, SHOWN_WORD_CHARS);
    let stands_open = || whole.to_lowercase().contains(&excerpt.to_lowercase());
    if !whole.contains(MASK) || stands_open() { excerpt } else { MASK.to_owned() }
}
