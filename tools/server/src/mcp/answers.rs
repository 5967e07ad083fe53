//! Answers for agents: short documents with the texts that a decision is about.

use std::collections::BTreeMap;

use memfold_core::lifecycle::estimated_tokens;
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::plan::{ActionType, SavedAction, differences};
use memfold_guard::text::excerpt;
use memfold_store::brain_db::{FlagKind, OpenPair};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::service::{Problem, ProblemKind, ServedStore};

/// Tokens of an answer, by a count that overestimates.
pub(super) const TOKENS_MAX: usize = 2_000;
/// Tokens kept free for the document around a list.
const TOKENS_AROUND: usize = 100;
/// Length of a text in a list.
const TEXT_CHARS: usize = 400;
const TEXT_TOKENS: usize = 200;
/// Length of a requested text.
const WHOLE_CHARS: usize = 4_000;
const WHOLE_TOKENS: usize = 1_100;
/// Length of a remark.
const NOTE_CHARS: usize = 200;
const NOTE_TOKENS: usize = 60;
/// Memories of an action beside the first.
const MEMORIES_SHOWN: usize = 3;
/// Differences between two texts.
const DIFFERENCES_SHOWN: usize = 3;

fn cut(text: &str, mut chars: usize, tokens: usize) -> String {
    loop {
        let shown = excerpt(text, chars);
        if chars < 40 || estimated_tokens(&json!(shown).to_string()) <= tokens {
            return shown;
        }
        chars = chars * 3 / 4;
    }
}

/// A text in a list.
pub(super) fn shown(text: &str) -> String {
    cut(text, TEXT_CHARS, TEXT_TOKENS)
}

/// A name, or a remark.
pub(super) fn brief(text: &str) -> String {
    cut(text, NOTE_CHARS, NOTE_TOKENS)
}

/// A requested text.
pub(super) fn whole(text: &str) -> String {
    cut(text, WHOLE_CHARS, WHOLE_TOKENS)
}

/// Remarks as far as they help an agent: without advice about a command line or about HTTP.
pub(super) fn notes(notes: &[String]) -> Vec<String> {
    notes.iter().filter_map(|note| remark(note)).take(DIFFERENCES_SHOWN).collect()
}

fn remark(note: &str) -> Option<String> {
    let is_for_others =
        |part: &str| part.contains("--") || part.contains("memfold ") || part.contains("/v1/");
    let kept: Vec<&str> =
        note.split_inclusive(['.', ';', ':']).take_while(|part| !is_for_others(part)).collect();
    let kept = kept.concat();
    let kept = kept.trim_end_matches([';', ':', ' ']);
    (!kept.is_empty()).then(|| brief(kept))
}

/// Says why something was not done, as text: a document of another shape would not fit the tool's schema.
pub(super) fn refused(problem: &Problem) -> String {
    let hint = problem.hint.as_deref();
    let hint = match problem.kind {
        ProblemKind::Forbidden => hint.map(|hint| format!("ask who runs this server: {hint}")),
        _ => hint.and_then(remark),
    };
    let error = excerpt(&problem.detail, 800);
    json!({ "error": error, "hint": hint, "status": problem.kind.status().as_u16() }).to_string()
}

/// What a list was too long for.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Rest {
    /// How many more there are.
    pub(super) more: u64,
    /// Ask with this `after` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<String>,
}

/// Takes as many items as there is room for beside the rest of an answer; `total` of them are expected.
pub(super) fn fitted<T: Serialize>(
    answer: &impl Serialize,
    total: usize,
    items: impl Iterator<Item = (String, T)>,
) -> (Vec<T>, Rest) {
    let tokens = |json: Result<String, _>| json.map_or(TOKENS_MAX, |json| estimated_tokens(&json));
    let around = tokens(serde_json::to_string(answer)) + TOKENS_AROUND;
    let mut left = TOKENS_MAX.saturating_sub(around);
    let (mut list, mut last) = (Vec::new(), None);
    for (id, item) in items.take(total) {
        let cost = tokens(serde_json::to_string(&item)) + 1;
        if cost > left {
            break;
        }
        left -= cost;
        last = Some(id);
        list.push(item);
    }
    let more = (total - list.len()) as u64;
    (list, Rest { more, next_after: last.filter(|_| more > 0) })
}

/// A memory and its text.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Said {
    id: String,
    /// `null` where its text is not in the store.
    text: Option<String>,
}

impl Said {
    pub(super) fn of(id: &MemoryId, by_id: &BTreeMap<MemoryId, Memory>) -> Self {
        let text = by_id.get(id).map(|memory| &*memory.content).map(shown);
        Self { id: id.to_string(), text }
    }
}

/// A memory that is alike.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Similar {
    #[serde(flatten)]
    pub(super) memory: Said,
    pub(super) similarity: Option<f64>,
    /// Whether the two say the same, as far as rules can prove it.
    pub(super) verdict: Option<&'static str>,
    /// What differs.
    pub(super) differences: Vec<String>,
}

/// One of two memories that contradict each other.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ConflictSide {
    id: String,
    text: Option<String>,
    created_at: Option<String>,
    /// Whether it is the newer statement; `null` where that is not known.
    is_newer: Option<bool>,
}

/// Two memories that a decision is needed about.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Conflict {
    /// What memory_resolve calls it.
    pub(super) key: String,
    /// `contradiction`, `update` (another value in the same place), or `near` (alike, not proven to be the same).
    kind: &'static str,
    memories: Vec<ConflictSide>,
    /// What differs.
    differences: Vec<String>,
}

impl Conflict {
    pub(super) fn of(pair: &OpenPair, store: &ServedStore) -> Self {
        let newer = pair.newer(&store.time_zone);
        let side = |at: usize| ConflictSide {
            id: pair.ids[at].clone(),
            text: pair.texts[at].as_deref().map(shown),
            created_at: pair.created_at[at].clone(),
            is_newer: newer.map(|newer| newer == at),
        };
        let found = match &pair.texts {
            [Some(left), Some(right)] => {
                let judged = store.guard.judge(&store.guard.read(left), &store.guard.read(right));
                differences(&judged, left, right)
            }
            _ => Vec::new(),
        };
        Self {
            key: pair.key.clone(),
            kind: pair.kind.name(),
            memories: vec![side(0), side(1)],
            differences: few(&found),
        }
    }

    pub(super) fn is_contradiction(&self) -> bool {
        self.kind != FlagKind::Near.name()
    }
}

/// The first differences, shortened.
pub(super) fn few(differences: &[String]) -> Vec<String> {
    differences.iter().take(DIFFERENCES_SHOWN).map(|what| brief(what)).collect()
}

/// An action of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Planned {
    /// Its label, for example `a3`.
    action: String,
    r#type: &'static str,
    /// Of a merge: how the texts are proven to say the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'static str>,
    state: &'static str,
    /// Of a merge: the memory that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    stays: Option<Said>,
    /// The memories that merge into it; of another action the memories that it changes.
    memories: Vec<Said>,
    /// Memories that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    memories_more: u64,
    /// The text that is written in their place.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// Of a proposal: how probable it is that all say the same, in hundredths.
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    /// What differs.
    differences: Vec<String>,
    /// Why it was not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Planned {
    /// The displayed memories of an action.
    pub(super) fn targets(saved: &SavedAction) -> impl Iterator<Item = &MemoryId> {
        saved.effective().target_ids.iter().take(MEMORIES_SHOWN + 1)
    }

    pub(super) fn of(saved: &SavedAction, by_id: &BTreeMap<MemoryId, Memory>) -> Self {
        let action = saved.effective();
        let evidence = &action.rationale.evidence;
        let mut targets = Self::targets(saved).map(|id| Said::of(id, by_id));
        let is_merge = matches!(action.action, ActionType::Merge | ActionType::ProposeMerge);
        let stays = if is_merge { targets.next() } else { None };
        let memories: Vec<Said> = targets.collect();
        let listed = memories.len() + usize::from(is_merge);
        Self {
            action: saved.label(),
            r#type: action.action.name(),
            proof: (action.action == ActionType::Merge).then(|| action.risk.name()),
            state: saved.state.name(),
            stays,
            memories_more: (action.target_ids.len() - listed) as u64,
            memories,
            new_text: action.new_content.as_deref().map(shown),
            similarity: evidence.similarity,
            probability: evidence.probability,
            differences: few(&evidence.differences),
            note: None,
        }
    }

    pub(super) fn with_state(self, state: &'static str, note: Option<&str>) -> Self {
        Self { state, note: note.and_then(remark), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_is_longer_than_an_answer_may_be() {
        for text in ["word ", "数", "{}[]\"\\", "a-b_c.", "\u{1f9d1}"] {
            let text = text.repeat(600);
            let item = |at: usize| {
                let texts: Vec<String> = vec![shown(&text); MEMORIES_SHOWN + 1];
                (at.to_string(), json!({ "id": at, "texts": texts }))
            };
            let head = json!({ "a": 1, "text": shown(&text) });
            let (list, rest) = fitted(&head, 500, (0..500).map(item));
            let answer = json!({ "a": 1, "text": shown(&text), "matches": list, "rest": rest });
            let tokens = estimated_tokens(&answer.to_string());
            assert!(tokens <= TOKENS_MAX && !list.is_empty(), "{text:.20}: {tokens}");
            assert_eq!(list.len() as u64 + rest.more, 500);
            assert_eq!(rest.next_after, Some((list.len() - 1).to_string()));
        }
    }

    #[test]
    fn advice_about_a_command_line_is_left_out() {
        let told = |text: &str| remark(text).unwrap_or_default();
        assert_eq!(
            told("found by words alone: give --vector, or configure it"),
            "found by words alone"
        );
        assert_eq!(
            told("make the plan again: memfold consolidate DB --save-plan"),
            "make the plan again"
        );
        assert_eq!(told("GET /v1/plans lists them"), "");
        assert_eq!(told("use a new key for each memory"), "use a new key for each memory");
        let forbidden =
            Problem::new(ProblemKind::Forbidden, "no").with_hint("start it with --allow-writes");
        assert!(refused(&forbidden).contains("--allow-writes"));
    }
}
