//! An action on a screen of 80 × 24, with the memories it names as they are now.

use std::collections::BTreeMap;

use memfold::consolidate::RefusedPair;
use memfold_core::memory::{CreatedAt, Memory, MemoryId};
use memfold_core::plan::{Action, ActionType, SavedAction, SavedPlan, probability_in_words};
use memfold_core::policy::Policy;
use memfold_core::report::{Piece, PieceKind, word_diff};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_guard::text::excerpt;

use crate::printer::{COLUMNS, cut, line, wrap};

/// Lines of a card; the rest of 24 is for the keys and a message.
const CARD_LINES: usize = 19;

/// Lines other than heading and texts.
const FACT_LINES_MAX: usize = 8;

/// Columns before a text.
const INDENT: usize = 2;

/// Characters of ids, sources, rules and categories that are displayed.
const NAME_CHARS: usize = 40;

/// Characters of a fragment (a difference, for example) that are displayed.
const FRAGMENT_CHARS: usize = 200;

/// An action, its texts and its effects on the memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// The heading.
    head: String,
    /// The texts it speaks of.
    passages: Vec<Passage>,
    /// Further facts for a person, most important first.
    facts: Vec<String>,
}

/// A text with a line about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Passage {
    about: String,
    text: String,
}

impl Card {
    /// Makes the card of an action, the `number`th of `total`.
    pub(super) fn of(
        material: &Material<'_>,
        plan: &SavedPlan,
        saved: &SavedAction,
        number: usize,
        total: usize,
    ) -> Self {
        let action = saved.effective();
        Self {
            head: head(saved, number, total),
            passages: passages(material, action),
            facts: facts(material, plan, action),
        }
    }

    /// Makes the card of a merge that a run applied, with its proof.
    pub(crate) fn of_applied(
        material: &Material<'_>,
        saved: &SavedAction,
        number: usize,
        total: usize,
    ) -> Self {
        let action = saved.effective();
        Self {
            head: head(saved, number, total),
            passages: passages(material, action),
            facts: reasons(action),
        }
    }

    /// Makes the card of a near pair that is refused, with the differences that keep it apart.
    pub(crate) fn of_refused(
        material: &Material<'_>,
        pair: &RefusedPair,
        number: usize,
        total: usize,
    ) -> Self {
        let differences = pair.differences.iter();
        Self {
            head: format!("{number} of {total} · refused pair · similarity {:.4}", pair.similarity),
            passages: vec![
                passage(material, "older", &pair.older, None),
                passage(material, "newer", &pair.newer, Some(&pair.older)),
            ],
            facts: differences
                .map(|what| format!("differs: {}", excerpt(what, FRAGMENT_CHARS)))
                .collect(),
        }
    }

    /// As it fits a screen: long texts and lists are cut, and say so.
    pub(crate) fn screen(&self) -> String {
        let facts = cut(self.fact_lines(), FACT_LINES_MAX, COLUMNS);
        let room = CARD_LINES - 1 - facts.len();
        let shown =
            if 2 * self.passages.len() <= room { self.passages.len() } else { (room - 1) / 2 };
        let hidden = self.passages.len() - shown;
        let passages = &self.passages[..shown];
        let wrapped: Vec<Vec<String>> =
            passages.iter().map(|passage| wrap(&passage.text, COLUMNS - INDENT)).collect();
        let heights = heights(&wrapped, room - shown - usize::from(hidden > 0));
        let mut lines = vec![line(&self.head)];
        for ((passage, text), height) in passages.iter().zip(wrapped).zip(heights) {
            lines.push(line(&passage.about));
            lines.extend(indented(cut(text, height, COLUMNS - INDENT)));
        }
        if hidden > 0 {
            lines.push(format!("and {hidden} more (v)"));
        }
        lines.extend(facts);
        lines.join("\n")
    }

    /// With all texts as a whole.
    pub(crate) fn whole(&self) -> String {
        let mut lines = wrap(&self.head, COLUMNS);
        for passage in &self.passages {
            lines.extend(wrap(&passage.about, COLUMNS));
            lines.extend(indented(wrap(&passage.text, COLUMNS - INDENT)));
        }
        lines.extend(self.fact_lines());
        lines.join("\n")
    }

    fn fact_lines(&self) -> Vec<String> {
        self.facts.iter().flat_map(|fact| wrap(fact, COLUMNS)).collect()
    }
}

/// How many lines of each text are displayed: one more for each in turn while there is room.
fn heights(texts: &[Vec<String>], mut room: usize) -> Vec<usize> {
    let mut heights = vec![0; texts.len()];
    while room > 0 {
        let before = room;
        for (height, text) in heights.iter_mut().zip(texts) {
            if room > 0 && *height < text.len() {
                *height += 1;
                room -= 1;
            }
        }
        if room == before {
            break;
        }
    }
    heights
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| format!("{}{line}", " ".repeat(INDENT)))
}

/// `3 of 41 · a17 merge · reworded · similarity 0.9612 · R2-near-duplicate-merge`.
fn head(saved: &SavedAction, number: usize, total: usize) -> String {
    let action = saved.effective();
    let rationale = &action.rationale;
    let mut parts = vec![format!("{number} of {total}"), title(saved)];
    if action.action == ActionType::Merge {
        parts.push(action.risk.name().to_owned());
    }
    if saved.amended.is_some() {
        parts.push("amended".to_owned());
    }
    let probability = rationale.evidence.probability;
    parts.extend(probability.map(|probability| probability_in_words(probability).to_owned()));
    parts.extend(rationale.evidence.similarity.map(|value| format!("similarity {value:.4}")));
    parts.extend(rationale.score.map(|score| format!("score {score:.2}")));
    parts.push(excerpt(&rationale.rule_id, NAME_CHARS));
    parts.join(" · ")
}

fn title(saved: &SavedAction) -> String {
    format!("{} {}", saved.label(), saved.effective().action.name())
}

fn passages(material: &Material<'_>, action: &Action) -> Vec<Passage> {
    let [first, rest @ ..] = action.target_ids.as_slice() else { return Vec::new() };
    match (action.action, rest) {
        (ActionType::Merge | ActionType::ProposeMerge, _) => {
            let mut passages = vec![passage(material, "stays", first, None)];
            let merged = rest.iter().map(|id| passage(material, "merges in", id, Some(first)));
            passages.extend(merged);
            passages
        }
        (ActionType::Rewrite | ActionType::Summarize, _) => {
            let new = action.canonical_id.as_ref().map_or("", MemoryId::as_str);
            let text = action.new_content.as_deref().unwrap_or_default();
            let text = excerpt(text, text.len().saturating_mul(8));
            let about = format!("new {}", excerpt(new, NAME_CHARS));
            let role = match action.action {
                ActionType::Rewrite => "leaves",
                _ => "is summarised",
            };
            let sources = action.rests_on().map(|id| passage(material, role, id, None));
            std::iter::once(Passage { about, text }).chain(sources).collect()
        }
        (ActionType::Supersede, [second]) => vec![
            passage(material, "no longer holds", second, None),
            passage(material, "newer", first, Some(second)),
        ],
        (ActionType::FlagContradiction, [second]) => vec![
            passage(material, "older", first, None),
            passage(material, "newer", second, Some(first)),
        ],
        _ => vec![passage(material, action.action.name(), first, None)],
    }
}

/// A memory with its text, or how its text differs from that of another.
fn passage(
    material: &Material<'_>,
    role: &str,
    id: &MemoryId,
    beside: Option<&MemoryId>,
) -> Passage {
    let name = excerpt(id.as_str(), NAME_CHARS);
    let Some(memory) = material.memories.get(id) else {
        return Passage { about: format!("{role} {name}"), text: "(gone)".to_owned() };
    };
    let about = format!(
        "{role} {name} · {} · from {} · importance {} · read {}×",
        age(material, memory),
        excerpt(&memory.root_source, NAME_CHARS),
        memory.importance,
        memory.access_count
    );
    let other = beside.and_then(|other| material.memories.get(other));
    let text = other.map_or_else(|| shown(memory), |other| differing(memory, other, role));
    Passage { about, text }
}

fn age(material: &Material<'_>, memory: &Memory) -> String {
    match &memory.created_at {
        CreatedAt::At(at) => {
            let age_us = material.now.0.saturating_sub(at.0).max(0);
            format!("{:.1} days old", age_us as f64 / 86_400e6)
        }
        CreatedAt::Unreadable(_) => "age unknown".to_owned(),
    }
}

/// The whole text, safe to display.
fn shown(memory: &Memory) -> String {
    // An escaped character takes up to eight.
    excerpt(&memory.content, memory.content.len().saturating_mul(8))
}

/// Words that only this text has in `[-…-]`, words that only the other has in `{+…+}`. For a newer
/// one it is the other way round: its own words are new.
fn differing(memory: &Memory, other: &Memory, role: &str) -> String {
    let (own, other) = (shown(memory), shown(other));
    if own == other {
        return "(the same text)".to_owned();
    }
    let pieces = if role == "newer" { word_diff(&other, &own) } else { word_diff(&own, &other) };
    let shown = pieces.iter().map(|Piece { kind, text }| match kind {
        PieceKind::Same => text.clone(),
        PieceKind::Gone => format!("[-{text}-]"),
        PieceKind::New => format!("{{+{text}+}}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn facts(material: &Material<'_>, plan: &SavedPlan, action: &Action) -> Vec<String> {
    let mut facts: Vec<String> = material
        .changed(plan, action)
        .iter()
        .map(|(id, what)| {
            let id = excerpt(id.as_str(), NAME_CHARS);
            format!("careful: {id} {what}; applying would skip this action")
        })
        .collect();
    let mut reasons = reasons(action);
    let because = reasons.pop();
    facts.extend(reasons);
    facts.extend(values(material, action));
    facts.extend(because);
    facts
}

/// The differences, or the steps of the proof, and at last why the action was planned.
fn reasons(action: &Action) -> Vec<String> {
    let role = if action.action == ActionType::Merge { "survivor" } else { "differs:" };
    let differences = action.rationale.evidence.differences.iter();
    let because = action.rationale.reasons.join(", ");
    differences
        .map(|what| format!("{role} {}", excerpt(what, FRAGMENT_CHARS)))
        .chain([format!("because {}", excerpt(&because, FRAGMENT_CHARS))])
        .collect()
}

/// Categories, importance and accesses before and after.
fn values(material: &Material<'_>, action: &Action) -> Vec<String> {
    let first = action.target_ids.first().and_then(|id| material.memories.get(id));
    let Some(memory) = first else { return Vec::new() };
    if action.survivor_protected {
        return vec!["the survivor is protected and stays as it is".to_owned()];
    }
    let mut values = Vec::new();
    if action.action.merges() {
        let merged = action.merged_ids().iter().filter_map(|id| material.memories.get(id));
        let after =
            merged.fold(memory.access_count, |sum, row| sum.saturating_add(row.access_count));
        if after != memory.access_count {
            values.push(format!("accesses {} → {after}", memory.access_count));
        }
    }
    if let Some(importance) = action.new_importance {
        values.push(format!("importance {} → {importance}", memory.importance));
    }
    let names = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<String> = names.map(|name| excerpt(name, NAME_CHARS)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    if let Some(categories) = &action.new_categories {
        let before = names(&mut memory.categories.iter().map(AsRef::as_ref));
        let after = names(&mut categories.iter().map(String::as_str));
        values.push(format!("categories {before} → {after}"));
    }
    if values.is_empty() { values } else { vec![values.join(" · ")] }
}

/// The memories of a plan as they are now, and the facts beside them.
#[derive(Debug)]
pub(crate) struct Material<'a> {
    /// The memories with all that were once merged into them; missing ones are gone.
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    /// How merges are made.
    pub(crate) policy: &'a Policy,
    /// The guard.
    pub(crate) guard: &'a Guard,
    /// The time that ages count to.
    pub(crate) now: Instant,
}

impl Material<'_> {
    /// Returns the reasons why an action cannot be applied as planned: memories that are gone or
    /// have changed since the plan.
    pub(crate) fn changed(
        &self,
        plan: &SavedPlan,
        action: &Action,
    ) -> Vec<(MemoryId, &'static str)> {
        let look = |id: &MemoryId| match self.memories.get(id) {
            None => Some((id.clone(), "is gone")),
            Some(memory) => {
                let planned = plan.plan.base_digests.get(id)?;
                (memory.base_digest.to_string() != *planned)
                    .then(|| (id.clone(), "was changed since"))
            }
        };
        action.target_ids.iter().filter_map(look).collect()
    }
}
