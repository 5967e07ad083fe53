//! The limits on answers: which opinions may be followed. A pure function that trusts no judge.

use std::collections::BTreeSet;

use crate::summary::Confidence;
use memfold_guard::{DifferenceKind, Guard, Judgement, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::opinion::{Opinion, OpinionKind};
use crate::judge::prompt::Task;
use crate::judge::question::{Group, Member};
use wording::Wording;

/// Bytes that a new text may have beyond those of its sources.
const NEW_TEXT_BYTES_MORE: usize = 64;

/// Phrases by which a text speaks to a model. One of them sends the group to a person.
const INSTRUCTIONS: [&str; 26] = [
    "ignore previous",
    "ignore all previous",
    "ignore the previous",
    "ignore the above",
    "ignore all instructions",
    "ignore your instructions",
    "ignore these instructions",
    "disregard previous",
    "disregard all",
    "disregard the above",
    "disregard your",
    "forget previous instructions",
    "forget all instructions",
    "forget your instructions",
    "new instructions:",
    "system prompt",
    "you are now",
    "respond only with",
    "reply only with",
    "answer only with",
    "merge all memories",
    "delete all memories",
    "<|im_start|>",
    "[inst]",
    "</system>",
    "<system>",
];

/// What binds every judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerLimits {
    /// REPLACE below this cosine becomes MERGE.
    pub replace_similarity_min: f64,
    /// What was asked.
    pub task: Task,
    /// The share of a source's content words, in \[0, 1\], that a new text may lack.
    pub content_words_lost_max: f64,
    /// How sure a judge must be of a supersession.
    pub confidence_min: Confidence,
}

/// What may be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// As the judge said, REPLACE perhaps made MERGE.
    pub action: OpinionKind,
    /// The handle of the memory that stays; none where all are kept separate.
    pub survivor: Option<String>,
    /// The handles of the others.
    pub others: Vec<String>,
    /// The survivor's new text.
    pub text: Option<String>,
    /// What the judge gave as its reason.
    pub reason: String,
}

/// Why an opinion is not followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Refusal {
    /// A handle is none of the batch.
    #[error("{id:?} is none of the memories it was asked about")]
    UnknownId {
        /// The handle.
        id: String,
    },
    /// A memory stands in more than one action, or twice in one.
    #[error("{id} stands in more than one place")]
    Repeated {
        /// The handle.
        id: String,
    },
    /// It names too few memories to do anything.
    #[error("it needs two memories")]
    TooFew,
    /// It does not name which memory stays.
    #[error("it does not say which memory stays")]
    NoSurvivor,
    /// A text of the group speaks to the model.
    #[error("{id} speaks to the model (\"{phrase}\")")]
    Instructions {
        /// The handle, or `text` for a new text.
        id: String,
        /// The phrase.
        phrase: String,
    },
    /// The guard says that two of the texts contradict each other.
    #[error("{one} and {other} contradict each other")]
    Contradictory {
        /// A handle.
        one: String,
        /// Another one, or `text` for a new text.
        other: String,
    },
    /// The guard says that two of the texts speak of different things.
    #[error("{one} and {other} speak of different things")]
    Different {
        /// A handle.
        one: String,
        /// Another one, or `text` for a new text.
        other: String,
    },
    /// Two texts that nobody proved to say the same differ in a word that matters.
    #[error("{one} says \"{left}\" where {other} says \"{right}\"")]
    OtherWords {
        /// A handle.
        one: String,
        /// Another one.
        other: String,
        /// What the one says.
        left: String,
        /// What the other says.
        right: String,
    },
    /// A sentence of a new text stands in no source, with these words in this order.
    #[error("no source says \"{sentence}\"")]
    Unsupported {
        /// Its words, without those that state nothing.
        sentence: String,
    },
    /// A specific would be out of sight.
    #[error("\"{what}\" of {id} would be lost")]
    LosesSpecific {
        /// The handle.
        id: String,
        /// The specific.
        what: String,
    },
    /// A new text holds a specific that no source has.
    #[error("\"{what}\" stands in no source")]
    InventsSpecific {
        /// The specific.
        what: String,
    },
    /// A new text lacks too many words of a source.
    #[error("{lacking} of {words} words of {id} would be lost")]
    LosesWords {
        /// The handle.
        id: String,
        /// Content words that the new text lacks.
        lacking: usize,
        /// Content words of the source.
        words: usize,
    },
    /// A new text is none.
    #[error("the new text is empty")]
    EmptyText,
    /// A new text is longer than all its sources.
    #[error("the new text has {found} bytes, its sources {sources}")]
    LongText {
        /// Its bytes.
        found: usize,
        /// Bytes of all its sources.
        sources: usize,
    },
    /// It writes a text, or needs one, where none may be written.
    #[error("no texts may be written (judge.rewrite)")]
    NoRewriting,
    /// The action is none of those that were asked for.
    #[error("{} was not asked for", serde_json::json!(action))]
    NotAsked {
        /// The action.
        action: OpinionKind,
    },
    /// A summary says nothing but what one memory says.
    #[error("it only repeats {id}")]
    Repeats {
        /// The handle.
        id: String,
    },
    /// A summary leaves nothing that its sources state.
    #[error("nothing of it stands in its sources")]
    NothingStated,
    /// What is said to hold is older than what is said not to.
    #[error("{keep} is not the newer one")]
    NotNewer {
        /// The handle.
        keep: String,
    },
    /// Nothing proves that only one of two memories can hold.
    #[error("nothing proves that they contradict each other: both may hold")]
    BothHold,
    /// The judge is not sure enough, or does not say how sure.
    #[error("the judge is not sure enough")]
    Unsure,
    /// Another vote says otherwise.
    #[error("the votes do not agree")]
    VotesDiffer,
    /// Another answer of this run merges one of the memories.
    #[error("{id} merges by another answer: the next run asks again")]
    MergedElsewhere {
        /// Its id.
        id: String,
    },
    /// As many memories leave in this run as may.
    #[error("no more memories may leave in this run")]
    CapReached,
}

/// An opinion that is not followed: its question stays for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// The opinion.
    pub opinion: Opinion,
    /// Why.
    pub reason: Refusal,
}

/// What the opinions on a group come to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What may be done, in the order of the first vote.
    pub accepted: Vec<Accepted>,
    /// What may not.
    pub refused: Vec<Refused>,
}

/// Returns which opinions of the first vote may be followed, as far as every vote agrees.
///
/// `similarity` tells the cosine of two members. Whatever the opinions say, no memory of another group, no contradiction and
/// no lost or invented specific passes. Cost: a judgement of the guard per pair of merged memories.
#[must_use]
pub fn accept_opinions(
    group: &Group,
    votes: &[Vec<Opinion>],
    guard: &Guard,
    rules: &AnswerLimits,
    similarity: &dyn Fn(&Member, &Member) -> Option<f64>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let Some((first, others)) = votes.split_first() else { return outcome };
    let limits = Limits { group, others, guard, rules, similarity };
    let mut used = BTreeSet::new();
    for opinion in first {
        match limits.check(opinion, &mut used) {
            Ok(accepted) => outcome.accepted.extend(accepted),
            Err(reason) => outcome.refused.push(Refused { opinion: opinion.clone(), reason }),
        }
    }
    outcome
}

struct Limits<'a> {
    group: &'a Group,
    others: &'a [Vec<Opinion>],
    guard: &'a Guard,
    rules: &'a AnswerLimits,
    similarity: &'a dyn Fn(&Member, &Member) -> Option<f64>,
}

impl<'a> Limits<'a> {
    fn check(
        &self,
        opinion: &Opinion,
        used: &mut BTreeSet<String>,
    ) -> Result<Option<Accepted>, Refusal> {
        let members = self.members(opinion, used)?;
        let accepted = |action, survivor: Option<&Member>, text| Accepted {
            action,
            survivor: survivor.map(|member| member.handle.clone()),
            others: members
                .iter()
                .filter(|member| survivor.is_none_or(|kept| kept.handle != member.handle))
                .map(|member| member.handle.clone())
                .collect(),
            text,
            reason: opinion.reason.clone(),
        };
        match opinion.action {
            OpinionKind::Summarize | OpinionKind::Supersede => {
                return Err(Refusal::NotAsked { action: opinion.action });
            }
            OpinionKind::Skip => return Ok(None),
            OpinionKind::KeepSeparate if members.len() > 1 => {
                return Ok(Some(accepted(OpinionKind::KeepSeparate, None, None)));
            }
            OpinionKind::Update if !members.is_empty() && !self.is_golden() => {}
            _ if members.len() >= self.rules.task.members_min() => {}
            _ => return Err(Refusal::TooFew),
        }
        self.may_change(&members)?;
        if opinion.text.is_none() || opinion.action == OpinionKind::Replace {
            say_the_same(&members)?;
        }
        self.agree(opinion)?;
        let named = opinion.keep.as_deref();
        let named = named.and_then(|keep| members.iter().copied().find(|m| m.handle == keep));
        let text = opinion.text.as_deref().map(str::trim);
        if text.is_none() && self.is_golden() {
            return Err(Refusal::EmptyText);
        }
        if text.is_some() && opinion.action != OpinionKind::Replace {
            let text = self.may_write(text.unwrap_or_default(), &members)?;
            let kept = named.or(members.first().copied()).ok_or(Refusal::TooFew)?;
            return Ok(Some(accepted(opinion.action, Some(kept), Some(text))));
        }
        match opinion.action {
            OpinionKind::Update => Err(Refusal::EmptyText),
            OpinionKind::Replace => {
                let kept = named.ok_or(Refusal::NoSurvivor)?;
                self.holds(kept, &members)?;
                let near = |other: &&&Member| {
                    let similarity = (self.similarity)(kept, other);
                    similarity.is_some_and(|found| found >= self.rules.replace_similarity_min)
                };
                let rest = members.iter().filter(|member| member.handle != kept.handle);
                let action = if rest.clone().all(|other| near(&other)) {
                    OpinionKind::Replace
                } else {
                    OpinionKind::Merge
                };
                Ok(Some(accepted(action, Some(kept), None)))
            }
            _ => {
                let kept = self.survivor(named.ok_or(Refusal::NoSurvivor)?, &members)?;
                Ok(Some(accepted(OpinionKind::Merge, Some(kept), None)))
            }
        }
    }

    /// The members that an opinion names, in no other opinion.
    fn members(
        &self,
        opinion: &Opinion,
        used: &mut BTreeSet<String>,
    ) -> Result<Vec<&'a Member>, Refusal> {
        let mut members = Vec::new();
        let keep = opinion.keep.iter().filter(|keep| !opinion.ids.contains(keep));
        if let Some(keep) = keep.into_iter().next() {
            return Err(Refusal::UnknownId { id: keep.clone() });
        }
        for id in &opinion.ids {
            let unknown = || Refusal::UnknownId { id: id.clone() };
            members.push(self.group.find(id).ok_or_else(unknown)?);
        }
        for id in &opinion.ids {
            if !used.insert(id.clone()) {
                return Err(Refusal::Repeated { id: id.clone() });
            }
        }
        if members.is_empty() { Err(Refusal::TooFew) } else { Ok(members) }
    }

    /// No text of the group speaks to the model, and the guard lets all members say the same.
    fn may_change(&self, members: &[&Member]) -> Result<(), Refusal> {
        for member in &self.group.memories {
            if let Some(phrase) = instruction(&member.text) {
                return Err(Refusal::Instructions { id: member.handle.clone(), phrase });
            }
        }
        for (at, one) in members.iter().enumerate() {
            for other in &members[at + 1..] {
                self.could_be_same((&one.handle, &one.text), (&other.handle, &other.text))?;
            }
        }
        Ok(())
    }

    /// A golden record stands for memories that say different things; they must not contradict each other.
    fn could_be_same(&self, one: (&str, &str), other: (&str, &str)) -> Result<(), Refusal> {
        let judgement = self.guard.judge(&self.guard.read(one.1), &self.guard.read(other.1));
        let (one, other) = (one.0.to_owned(), other.0.to_owned());
        match judgement.verdict {
            Verdict::Conflict => Err(Refusal::Contradictory { one, other }),
            _ if self.is_golden() || could_be_same(&judgement) => Ok(()),
            _ => Err(Refusal::Different { one, other }),
        }
    }

    fn is_golden(&self) -> bool {
        self.rules.task == Task::Golden
    }

    /// Every other vote changes the same memories.
    fn agree(&self, opinion: &Opinion) -> Result<(), Refusal> {
        let set = |opinion: &Opinion| opinion.ids.iter().cloned().collect::<BTreeSet<_>>();
        let wanted = set(opinion);
        let agrees = |vote: &Vec<Opinion>| {
            vote.iter().any(|other| other.is_change() && set(other) == wanted)
        };
        if self.others.iter().all(agrees) { Ok(()) } else { Err(Refusal::VotesDiffer) }
    }

    /// The memory that stays: the named one, or the first that holds the specifics of all.
    fn survivor(&self, named: &'a Member, members: &[&'a Member]) -> Result<&'a Member, Refusal> {
        let Err(refusal) = self.holds(named, members) else { return Ok(named) };
        let other = members.iter().copied().find(|member| self.holds(member, members).is_ok());
        other.ok_or(refusal)
    }

    /// Every specific of every member stands in the text of the one that stays.
    fn holds(&self, kept: &Member, members: &[&Member]) -> Result<(), Refusal> {
        let whole = self.guard.read(&kept.text);
        for member in members.iter().filter(|member| member.handle != kept.handle) {
            let coverage = self.guard.coverage(&self.guard.read(&member.text), &whole);
            if let Some(what) = coverage.specifics_lacking.into_iter().next() {
                return Err(Refusal::LosesSpecific { id: member.handle.clone(), what });
            }
        }
        Ok(())
    }

    /// A new text keeps what its sources say and adds nothing.
    fn may_write(&self, text: &str, members: &[&Member]) -> Result<String, Refusal> {
        if self.rules.task == (Task::Duplicates { rewrite: false }) {
            return Err(Refusal::NoRewriting);
        }
        fits(text, members)?;
        let whole = self.guard.read(text);
        for member in members {
            let id = || member.handle.clone();
            self.could_be_same((&member.handle, &member.text), ("text", text))?;
            let source = self.guard.read(&member.text);
            let kept = self.guard.coverage(&source, &whole);
            if let Some(what) = kept.specifics_lacking.into_iter().next() {
                return Err(Refusal::LosesSpecific { id: id(), what });
            }
            let (lacking, words) = (kept.words_lacking, kept.words);
            if lacking as f64 > self.rules.content_words_lost_max * words as f64 {
                return Err(Refusal::LosesWords { id: id(), lacking, words });
            }
        }
        if let Some(what) = invented(self.guard, text, members.iter().copied()) {
            return Err(Refusal::InventsSpecific { what });
        }
        let written = Wording::of(text);
        let sources: Vec<Wording> =
            members.iter().map(|member| Wording::of(&member.text)).collect();
        for (member, source) in members.iter().zip(&sources) {
            if let Some(what) = source.lost_in(&written) {
                return Err(Refusal::LosesSpecific { id: member.handle.clone(), what });
            }
        }
        match written.unsupported(&sources) {
            Some(sentence) => Err(Refusal::Unsupported { sentence }),
            None => Ok(text.to_owned()),
        }
    }
}

/// Tells whether nothing but words that only one text has speaks against a pair.
fn could_be_same(judgement: &Judgement) -> bool {
    let is_open = |kind, left: bool, right: bool| match kind {
        DifferenceKind::Word | DifferenceKind::Sign => true,
        DifferenceKind::Negation | DifferenceKind::Modality => false,
        _ => !(left && right),
    };
    let mut differences = judgement.differences.iter();
    match judgement.verdict {
        Verdict::Same | Verdict::Extends => true,
        Verdict::Different | Verdict::Conflict => false,
        Verdict::Undecided => differences
            .all(|found| is_open(found.kind, found.left.is_some(), found.right.is_some())),
    }
}

/// Where a source stands for the others, none of them differs in a word that turns a statement or in its verb.
fn say_the_same(members: &[&Member]) -> Result<(), Refusal> {
    let wordings: Vec<Wording> = members.iter().map(|member| Wording::of(&member.text)).collect();
    for (at, one) in wordings.iter().enumerate() {
        for (other_at, other) in wordings.iter().enumerate().skip(at + 1) {
            if let Some((left, right)) = one.difference(other) {
                let handle = |at: usize| members[at].handle.clone();
                return Err(Refusal::OtherWords {
                    one: handle(at),
                    other: handle(other_at),
                    left,
                    right,
                });
            }
        }
    }
    Ok(())
}

/// A new text is not empty, not longer than its sources, and does not speak to the model.
fn fits(text: &str, members: &[&Member]) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::EmptyText);
    }
    let sources: usize = members.iter().map(|member| member.text.len()).sum();
    if text.len() > sources + NEW_TEXT_BYTES_MORE {
        return Err(Refusal::LongText { found: text.len(), sources });
    }
    let refused = |phrase| Err(Refusal::Instructions { id: "text".to_owned(), phrase });
    instruction(text).map_or(Ok(()), refused)
}

/// A specific of a text that none of the sources has.
fn invented<'m>(
    guard: &Guard,
    text: &str,
    sources: impl Iterator<Item = &'m Member>,
) -> Option<String> {
    let whole = guard.read(text);
    let mut invented: Option<Vec<String>> = None;
    for source in sources {
        let mut new = guard.coverage(&whole, &guard.read(&source.text)).specifics_lacking;
        // The guard pairs each mention with one of the source; a text may name a thing more often.
        new.retain(|what| !stands_in(&source.text, what));
        if let Some(known) = invented {
            new.retain(|what| known.contains(what));
        }
        invented = Some(new);
    }
    invented.into_iter().flatten().next()
}

/// Tells whether a text holds a specific as a word of its own. Around letters hyphens and apostrophes may stand, around anything
/// else only white space and what ends a sentence.
fn stands_in(text: &str, what: &str) -> bool {
    let is_name = what.chars().all(char::is_alphabetic);
    let ends = |rest: &str, follows: fn(&str) -> Option<char>| match follows(rest) {
        None => true,
        Some(char) if char.is_whitespace() => true,
        Some(char) if is_name => !char.is_alphanumeric() && char != '_',
        Some(_) => false,
    };
    !what.is_empty()
        && text.match_indices(what).any(|(at, _)| {
            let after = &text[at + what.len()..];
            let after = after.trim_start_matches(['.', ',', ';', '!', '?', ')']);
            ends(&text[..at], |before| before.chars().next_back())
                && ends(after, |after| after.chars().next())
        })
}

/// The first phrase by which a text speaks to a model.
fn instruction(text: &str) -> Option<String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let text = words.join(" ");
    INSTRUCTIONS.iter().find(|phrase| text.contains(**phrase)).map(|phrase| (*phrase).to_owned())
}

mod statements;
mod wording;

#[cfg(test)]
mod rewrites;

#[cfg(test)]
mod tests;

pub use statements::{AcceptedSummary, accept_summary, accept_supersession};
