//! What the guard found, in words fit to be shown: cut, escaped, and without secrets.

use super::SHOWN_WORD_CHARS;
use crate::guard::{Absorption, Judgement};
use crate::text;

/// So many differences or lacking words are named; the rest is counted.
const NAMED_MAX: usize = 8;

/// Names the differences of a judgement of two texts: `number "8080" / "9090"`.
pub(crate) fn differences(judgement: &Judgement, left: &str, right: &str) -> Vec<String> {
    let side = |words: &str, content| {
        if words.is_empty() {
            "nothing".to_owned()
        } else {
            format!("\"{}\"", shown(words, content))
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

/// Names what a survivor lacks of a row's text: specifics first, then words.
pub(crate) fn lacks(absorption: &Absorption, row: &str) -> Vec<String> {
    let all: Vec<&String> =
        absorption.lacking_specifics.iter().chain(&absorption.lacking_words).collect();
    named(all.len(), |at| format!("\"{}\"", shown(all[at], row)))
}

/// Names the kinds of a judgement's signs, heaviest first, each once.
pub(crate) fn signal_kinds(judgement: &Judgement) -> Vec<String> {
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

/// Shows a word of a text, unless the text holds a secret that the word may be part of.
fn shown(word: &str, content: &str) -> String {
    const MASK: &str = "[masked]";
    let whole = text::excerpt(content, content.len().saturating_mul(8));
    let excerpt = text::excerpt(word, SHOWN_WORD_CHARS);
    let stands_open = || whole.to_lowercase().contains(&excerpt.to_lowercase());
    if !whole.contains(MASK) || stands_open() { excerpt } else { MASK.to_owned() }
}
