//! What the guard found, in words fit to be shown: cut, escaped, and without secrets.

use super::SHOWN_WORD_CHARS;
use memfold_guard::{Absorption, Judgement};
use memfold_model::text;

/// So many differences or lacking words are named; the rest is counted.
const NAMED_MAX: usize = 8;

/// Names the differences of a judgement of two texts: `number "8080" / "9090"`.
pub fn differences(judgement: &Judgement, left: &str, right: &str) -> Vec<String> {
    let (left, right) = (Content::of(left), Content::of(right));
    let side = |words: &str, content: &Content| {
        if words.is_empty() {
            "nothing".to_owned()
        } else {
            format!("\"{}\"", content.shown(words))
        }
    };
    named(judgement.differences.len(), |at| {
        let difference = &judgement.differences[at];
        let kind = kind_name(&difference.kind);
        format!(
            "{kind} {} / {}",
            side(&difference.left_text, &left),
            side(&difference.right_text, &right)
        )
    })
}

/// Names what a survivor lacks of a row's text: specifics first, then words.
pub fn lacks(absorption: &Absorption, row: &str) -> Vec<String> {
    let all: Vec<&String> =
        absorption.lacking_specifics.iter().chain(&absorption.lacking_words).collect();
    let row = Content::of(row);
    named(all.len(), |at| format!("\"{}\"", row.shown(all[at])))
}

/// Names the kinds of a judgement's signs, heaviest first, each once.
pub fn signal_kinds(judgement: &Judgement) -> Vec<String> {
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

const MASK: &str = "[masked]";

/// A text whose words are shown.
struct Content {
    /// As it would be shown as a whole, in lower case, where that masks anything.
    masked: Option<String>,
}

impl Content {
    /// Looks through a text once, for however many of its words.
    fn of(content: &str) -> Self {
        let whole = text::excerpt(content, content.len().saturating_mul(8));
        Self { masked: whole.contains(MASK).then(|| whole.to_lowercase()) }
    }

    /// Shows a word of it, unless the word may be part of a secret.
    fn shown(&self, word: &str) -> String {
        let excerpt = text::excerpt(word, SHOWN_WORD_CHARS);
        let is_open = |masked: &String| masked.contains(&excerpt.to_lowercase());
        if self.masked.as_ref().is_none_or(is_open) { excerpt } else { MASK.to_owned() }
    }
}
