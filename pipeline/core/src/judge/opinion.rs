//! Opinions: what a judge answers, and how answers are read.

use crate::judge::question::{Group, Member};
use crate::summary::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of an answer that are read; a longer one is no answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Opinions in one answer.
const OPINIONS_MAX: usize = 1_000;
/// Bytes of an answer that an error shows.
const SHOWN_BYTES_MAX: usize = 120;

/// What should become of memories, in the terms of the prompt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OpinionKind {
    /// They say the same; one of them stays, or a new text.
    Merge,
    /// A newer one takes the place of older ones.
    Replace,
    /// One of them stays with an amended text.
    Update,
    /// They come to a summary.
    Summarize,
    /// A newer one holds in the place of an older one, which is kept.
    Supersede,
    /// They say different things.
    KeepSeparate,
    /// It cannot be told.
    Skip,
}

/// One answer about some memories of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opinion {
    /// What should happen.
    pub action: OpinionKind,
    /// Handles of the memories it speaks of.
    pub ids: Vec<String>,
    /// The handle of the memory that stays; needed for MERGE without a text, REPLACE and UPDATE.
    #[serde(default)]
    pub keep: Option<String>,
    /// The new text of MERGE or UPDATE.
    #[serde(default)]
    pub text: Option<String>,
    /// Why, in a sentence.
    #[serde(default)]
    pub reason: String,
    /// How probable it is that the memories say the same, from a judge that scores instead of arguing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub probability: Option<f64>,
    /// What SUMMARIZE says beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub summary: Option<Box<SaidSummary>>,
    /// In which way SUPERSEDE speaks of the older memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub supersession: Option<SaidSupersession>,
}

/// A summary as a model states it; ids are handles.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidSummary {
    /// Facts, each with the memories that state it.
    pub key_facts: Vec<SaidFact>,
    /// Decisions.
    pub decisions: Vec<SaidDecision>,
    /// Facts that no longer hold.
    pub superseded_facts: Vec<SaidSuperseded>,
    /// How good it is, each from 0 to 1.
    pub confidence: SaidConfidence,
}

/// A fact with the memories that state it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidFact {
    /// The fact.
    pub fact: String,
    /// Handles of the memories that state it.
    pub ids: Vec<String>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidDecision {
    /// What was decided.
    pub decision: String,
    /// Why.
    pub rationale: String,
    /// What came of it.
    pub outcome: String,
    /// How sure.
    pub confidence: Option<Confidence>,
}

/// A fact that no longer holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidSuperseded {
    /// What held.
    pub original_fact: String,
    /// What holds now.
    pub superseded_by: String,
    /// The handle of the memory that states what held.
    pub id: String,
}

/// How good a summary is, in its model's opinion.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidConfidence {
    /// Relevance.
    pub relevance: f64,
    /// Actionability.
    pub actionability: f64,
    /// Novelty.
    pub novelty: f64,
    /// Specificity.
    pub specificity: f64,
    /// Coherence.
    pub coherence: f64,
}

/// How a newer memory relates to an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaidSupersession {
    /// In which way.
    pub kind: SupersessionKind,
    /// How sure.
    pub confidence: Confidence,
}

/// In which way an older memory no longer holds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SupersessionKind {
    /// The newer one says the opposite.
    Contradiction,
    /// The newer one states another value.
    Replacement,
    /// What the older one speaks of is over.
    Obsolescence,
}

impl SupersessionKind {
    /// Returns the name that JSON uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contradiction => "contradiction",
            Self::Replacement => "replacement",
            Self::Obsolescence => "obsolescence",
        }
    }
}

/// From which probabilities on a judge that scores groups has an opinion, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreThresholds {
    /// Memories merge where they say the same with this probability.
    pub same_min: f64,
    /// Memories stay separate where two of them conflict with this probability.
    pub conflict_min: f64,
}

/// How probable two things are of a group, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupScores {
    /// That any two of its memories say the same.
    pub same: f64,
    /// That some two of them conflict.
    pub conflict: f64,
}

impl std::fmt::Display for ScoreThresholds {
    /// As names of judges have it: other thresholds make another judge.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "(same {}, conflict {})", self.same_min, self.conflict_min)
    }
}

impl ScoreThresholds {
    /// Returns what the scores of a group come to; of a merge the memory that says most stays.
    #[must_use]
    pub fn opinion(&self, group: &Group, scores: GroupScores, reason: String) -> Opinion {
        let action = if scores.conflict >= self.conflict_min {
            OpinionKind::KeepSeparate
        } else if scores.same >= self.same_min {
            OpinionKind::Merge
        } else {
            OpinionKind::Skip
        };
        let says_most = |a: &&Member, b: &&Member| {
            let said = |member: &Member| member.text.chars().count();
            said(a).cmp(&said(b)).then_with(|| a.text.cmp(&b.text))
        };
        let keep = group.memories.iter().max_by(says_most).map(|member| member.handle.clone());
        Opinion {
            keep: keep.filter(|_| action == OpinionKind::Merge),
            reason,
            // In hundredths that no later bit of arithmetic changes.
            probability: Some((scores.same * 100.0).round() / 100.0),
            ..Opinion::of(action, group.memories.iter().map(|m| m.handle.clone()).collect())
        }
    }
}

impl Opinion {
    /// Makes one about some memories that says nothing more.
    #[must_use]
    pub const fn of(action: OpinionKind, ids: Vec<String>) -> Self {
        let reason = String::new();
        Self {
            action,
            ids,
            keep: None,
            text: None,
            reason,
            probability: None,
            summary: None,
            supersession: None,
        }
    }

    /// Tells whether it would change something.
    #[must_use]
    pub const fn is_change(&self) -> bool {
        !matches!(self.action, OpinionKind::KeepSeparate | OpinionKind::Skip)
    }

    /// Returns it with other handles throughout.
    pub(crate) fn with_handles(&self, rename: impl Fn(&String) -> String) -> Self {
        let mut renamed = self.clone();
        let summary = renamed.summary.iter_mut().flat_map(|said| {
            let facts = said.key_facts.iter_mut().flat_map(|fact| &mut fact.ids);
            facts.chain(said.superseded_facts.iter_mut().map(|fact| &mut fact.id))
        });
        let handles = renamed.ids.iter_mut().chain(&mut renamed.keep).chain(summary);
        handles.for_each(|handle| *handle = rename(handle));
        renamed
    }
}

/// Why an answer says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpinionsError {
    /// It is empty.
    #[error("the answer is empty")]
    Empty,
    /// It is longer than any answer can be.
    #[error("the answer has {found} bytes, at most {max} are read")]
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// What is read at most.
        max: usize,
    },
    /// It holds no JSON of the expected form.
    #[error("the answer is not the expected JSON ({problem}): {shown:?}")]
    Json {
        /// What is wrong.
        problem: String,
        /// Where, shortened.
        shown: String,
    },
    /// It has more opinions than a batch has memories.
    #[error("the answer has {found} opinions, at most {max} are read")]
    TooMany {
        /// How many.
        found: usize,
        /// What is read at most.
        max: usize,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Whole { actions: Vec<Opinion> },
    Bare(Vec<Opinion>),
}

/// Reads an answer: an object with `actions`, or an array, alone or within text or a code fence.
///
/// # Errors
/// When it is empty, too long, or holds no such JSON.
pub fn read_opinions(answer: &str) -> Result<Vec<Opinion>, OpinionsError> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(OpinionsError::Empty);
    }
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(OpinionsError::TooLong { found: answer.len(), max: ANSWER_BYTES_MAX });
    }
    let (opinions, problem) = match parse(answer) {
        Ok(opinions) => (Some(opinions), String::new()),
        Err(problem) => (embedded(answer), problem),
    };
    let Some(mut opinions) = opinions else {
        let shown = answer[..answer.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned();
        return Err(OpinionsError::Json { problem, shown });
    };
    if opinions.len() > OPINIONS_MAX {
        return Err(OpinionsError::TooMany { found: opinions.len(), max: OPINIONS_MAX });
    }
    // A model that argues has no measured probability, whatever it says.
    opinions.iter_mut().for_each(|opinion| opinion.probability = None);
    Ok(opinions)
}

fn parse(json: &str) -> Result<Vec<Opinion>, String> {
    match serde_json::from_str(json) {
        Ok(Answer::Whole { actions } | Answer::Bare(actions)) => Ok(actions),
        Err(error) => Err(error.to_string()),
    }
}

/// Finds the JSON in a text around it: from the first opening bracket to the last closing one of its kind.
fn embedded(answer: &str) -> Option<Vec<Opinion>> {
    [('{', '}'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (from, to) = (answer.find(open)?, answer.rfind(close)?);
        parse(answer.get(from..=to)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_alone_and_within_text() {
        let json = r#"{"actions":[{"action":"MERGE","ids":["m1","m2"],"keep":"m1"}]}"#;
        let bare = r#"[{"action":"MERGE","ids":["m1","m2"],"keep":"m1"}]"#;
        let fenced = format!("Here it is:\n```json\n{json}\n```\nDone.");
        let expected = read_opinions(json).unwrap();
        assert_eq!(expected[0].action, OpinionKind::Merge);
        assert_eq!(expected[0].keep.as_deref(), Some("m1"));
        for same in [bare, &fenced, &format!("Sure. {bare}")] {
            assert_eq!(read_opinions(same).unwrap(), expected, "{same}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let long = "x".repeat(ANSWER_BYTES_MAX + 1);
        let many = format!("[{}]", vec![r#"{"action":"SKIP","ids":[]}"#; 1_001].join(","));
        for wrong in [
            "",
            "  \n",
            "no",
            "[",
            "{",
            "}{",
            "][",
            "<html></html>",
            "[1]",
            "{\"actions\":3}",
            "[{\"action\":\"DELETE\",\"ids\":[]}]",
            "[{\"action\":\"MERGE\"}]",
            "[[[[[[[[",
            "{\"actions\":[{\"action\":\"MERGE\",\"ids\":[\"m1\"",
            &long,
            &many,
        ] {
            assert!(read_opinions(wrong).is_err(), "{}", &wrong[..wrong.len().min(80)]);
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read_opinions(&deep).is_err());
    }
}
