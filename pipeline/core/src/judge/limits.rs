//! The limits on answers: which opinions may be followed. A pure function that trusts no judge.

use std::collections::BTreeSet;

use crate::summary::Confidence;
use memfold_guard::{DifferenceKind, Guard, Judgement, Side, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::question::{
    Group, Member, Opinion, OpinionKind, SaidFact, SaidSummary, SaidSupersession, Task,
};
use wording::Wording;

/// Bytes that a new text may have beyond its sources.
const NEW_TEXT_BYTES_MORE: usize = 64;

/// Phrases by which a text speaks to a model. One of them sends the group to a person.
const INSTRUCTIONS: &str = "ignore previous; ignore all previous; ignore the previous; ignore the above; ignore all instructions; \
ignore your instructions; ignore these instructions; disregard previous; disregard all; disregard the above; \
disregard your; forget previous instructions; forget all instructions; forget your instructions; \
new instructions:; system prompt; you are now; respond only with; reply only with; answer only with; \
merge all memories; delete all memories; <|im_start|>; [inst]; </system>; <system>";

/// The limits of every judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerLimits {
    /// REPLACE below this cosine becomes MERGE.
    pub replace_similarity_min: f64,
    /// The question.
    pub task: Task,
    /// The share of a source's content words, in \[0, 1\], that a new text may lack.
    pub content_words_lost_max: f64,
    /// How sure a judge must be of a supersession.
    pub confidence_min: Confidence,
}

/// The accepted action.
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
        /// The text of the one.
        left: String,
        /// The text of the other.
        right: String,
    },
    /// A sentence of a new text stands in no source, with these words in this order.
    #[error("no source says \"{sentence}\"")]
    Unsupported {
        /// Its words, without the ones that state nothing.
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
    /// The action is none of the requested ones.
    #[error("{} was not asked for", serde_json::json!(action))]
    NotAsked {
        /// The action.
        action: OpinionKind,
    },
    /// A summary says no more than one memory.
    #[error("it only repeats {id}")]
    Repeats {
        /// The handle.
        id: String,
    },
    /// A summary leaves nothing that its sources state.
    #[error("nothing of it stands in its sources")]
    NothingStated,
    /// The memory said to hold is older than the one said not to.
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

/// The outcome of the opinions on a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The accepted actions, in the order of the first vote.
    pub accepted: Vec<Accepted>,
    /// The refused ones.
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
        no_instructions(self.group)?;
        for (at, one) in members.iter().enumerate() {
            for other in &members[at + 1..] {
                self.could_be_same([&one.handle, &other.handle], [&one.text, &other.text])?;
            }
        }
        Ok(())
    }

    /// A golden record stands for memories that say different things; they must not contradict each other.
    fn could_be_same(&self, names: [&str; 2], texts: [&str; 2]) -> Result<(), Refusal> {
        let [one, other] = texts.map(|text| self.guard.read(text));
        let judgement = self.guard.judge(&one, &other);
        let [one, other] = names.map(str::to_owned);
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

    /// A new text keeps the facts of its sources and adds nothing.
    fn may_write(&self, text: &str, members: &[&Member]) -> Result<String, Refusal> {
        if self.rules.task == (Task::Duplicates { rewrite: false }) {
            return Err(Refusal::NoRewriting);
        }
        fits(text, members)?;
        let whole = self.guard.read(text);
        for member in members {
            let id = || member.handle.clone();
            self.could_be_same([&member.handle, "text"], [&member.text, text])?;
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
/// else only white space and marks that end a sentence.
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
    INSTRUCTIONS.split("; ").find(|phrase| text.contains(phrase)).map(str::to_owned)
}

/// A summary of which every statement rests on its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedSummary {
    /// Handles of the memories that it summarises, in the group's order.
    pub ids: Vec<String>,
    /// Its text.
    pub text: String,
    /// Its further parts beside the text, without the dropped ones.
    pub said: SaidSummary,
    /// Facts, decisions and superseded facts that were dropped.
    pub dropped: usize,
    /// What the judge gave as its reason.
    pub reason: String,
}

/// Returns the summary of a group, if the judge gave one that may be kept; `None` where it gave none.
///
/// Every sentence of the text stands in a source, word by word, possibly split between several. A key fact is kept where the
/// guard proves it from a memory that it names, a decision where its sentences stand in the group.
///
/// # Errors
/// Why the summary is not kept.
pub fn accept_summary(
    group: &Group,
    vote: &[Opinion],
    guard: &Guard,
) -> Result<Option<AcceptedSummary>, Box<Refused>> {
    let Some(opinion) = vote.iter().find(|opinion| opinion.is_change()) else { return Ok(None) };
    let refused = |reason| Box::new(Refused { opinion: opinion.clone(), reason });
    summary(group, opinion, guard).map(Some).map_err(refused)
}

fn summary(group: &Group, opinion: &Opinion, guard: &Guard) -> Result<AcceptedSummary, Refusal> {
    if opinion.action != OpinionKind::Summarize {
        return Err(Refusal::NotAsked { action: opinion.action });
    }
    let members = named(group, &opinion.ids)?;
    if members.len() < Task::Summaries.members_min() {
        return Err(Refusal::TooFew);
    }
    no_instructions(group)?;
    let text = opinion.text.as_deref().map_or("", str::trim);
    fits(text, &members)?;
    if let Some(member) = members.iter().find(|member| member.text.trim() == text) {
        return Err(Refusal::Repeats { id: member.handle.clone() });
    }
    rests_on(guard, text, &members)?;
    let said = opinion.summary.as_deref().cloned().unwrap_or_default();
    let stated = |said: &SaidSummary| {
        said.key_facts.len() + said.decisions.len() + said.superseded_facts.len()
    };
    let before = stated(&said);
    let said = supported(guard, said, group, &members);
    let ids = members.iter().map(|member| member.handle.clone()).collect();
    let dropped = before - stated(&said);
    if before > 0 && dropped == before {
        return Err(Refusal::NothingStated);
    }
    let (text, reason) = (text.to_owned(), opinion.reason.clone());
    Ok(AcceptedSummary { ids, text, said, dropped, reason })
}

/// Keeps the statements of a summary that rest on the memories that it names.
fn supported(
    guard: &Guard,
    mut said: SaidSummary,
    group: &Group,
    members: &[&Member],
) -> SaidSummary {
    let rests = |text: &str| {
        !text.trim().is_empty()
            && fits(text, members).is_ok()
            && rests_on(guard, text, members).is_ok()
    };
    let is_member = |id: &String| members.iter().any(|member| member.handle == *id);
    said.key_facts
        .retain(|fact| fact.ids.iter().all(is_member) && is_proven_fact(guard, fact, group));
    said.decisions.retain(|decision| {
        let (stated, rationale) = (decision.decision.trim(), decision.rationale.trim());
        let because = rationale.trim_start_matches("because").trim_start();
        let whole = format!("{} because {because}", stated.trim_end_matches('.'));
        let (has_rationale, has_outcome) =
            (!because.is_empty(), !decision.outcome.trim().is_empty());
        rests(stated)
            && (!has_rationale || rests(rationale) || rests(&whole))
            && (!has_outcome || rests(&decision.outcome))
    });
    said.superseded_facts.retain(|fact| {
        let source = group.find(&fact.id).filter(|_| is_member(&fact.id));
        source.is_some_and(|source| proves(guard, source, &fact.original_fact))
            && rests(&fact.superseded_by)
    });
    said
}

/// Tells whether a memory that a fact names proves it.
fn is_proven_fact(guard: &Guard, fact: &SaidFact, group: &Group) -> bool {
    let sources = named(group, &fact.ids).unwrap_or_default();
    sources.iter().any(|source| proves(guard, source, &fact.fact))
}

/// Tells whether the guard proves that a memory says all that a text says.
fn proves(guard: &Guard, source: &Member, text: &str) -> bool {
    let judgement = guard.judge(&guard.read(&source.text), &guard.read(text));
    !text.trim().is_empty()
        && instruction(text).is_none()
        && judgement.says_all(Side::Left)
        && Wording::of(text).unsupported(&[Wording::of(&source.text)]).is_none()
}

/// Every sentence of a text stands in a source, and so does every specific.
fn rests_on(guard: &Guard, text: &str, sources: &[&Member]) -> Result<(), Refusal> {
    if let Some(what) = invented(guard, text, sources.iter().copied()) {
        return Err(Refusal::InventsSpecific { what });
    }
    let wordings: Vec<Wording> = sources.iter().map(|source| Wording::of(&source.text)).collect();
    let lacking = Wording::of(text).unsupported(&wordings);
    lacking.map_or(Ok(()), |sentence| Err(Refusal::Unsupported { sentence }))
}

/// Tells whether the first memory of a pair holds in the place of the second, as all votes say and the guard confirms: both cannot
/// hold.
///
/// # Errors
/// Why the first vote is not followed.
pub fn accept_supersession(
    pair: &Group,
    votes: &[Vec<Opinion>],
    guard: &Guard,
    rules: &AnswerLimits,
) -> Result<Option<(SaidSupersession, String)>, Box<Refused>> {
    let Some((first, others)) = votes.split_first() else { return Ok(None) };
    let Some(opinion) = first.iter().find(|opinion| opinion.is_change()) else { return Ok(None) };
    let refused = |reason| Box::new(Refused { opinion: opinion.clone(), reason });
    let said = supersession(pair, opinion, rules).map_err(refused)?;
    let agrees =
        |vote: &Vec<Opinion>| vote.iter().any(|other| supersession(pair, other, rules).is_ok());
    if !others.iter().all(agrees) {
        return Err(refused(Refusal::VotesDiffer));
    }
    if let [newer, older] = &pair.memories[..]
        && guard.judge(&guard.read(&older.text), &guard.read(&newer.text)).verdict
            != Verdict::Conflict
    {
        return Err(refused(Refusal::BothHold));
    }
    Ok(Some((said, opinion.reason.clone())))
}

fn supersession(
    pair: &Group,
    opinion: &Opinion,
    rules: &AnswerLimits,
) -> Result<SaidSupersession, Refusal> {
    if opinion.action != OpinionKind::Supersede {
        return Err(Refusal::NotAsked { action: opinion.action });
    }
    if named(pair, &opinion.ids)?.len() != 2 {
        return Err(Refusal::TooFew);
    }
    no_instructions(pair)?;
    let keep = opinion.keep.as_ref().ok_or(Refusal::NoSurvivor)?;
    let is_newer = |member: &Member| member.handle == *keep && member.handle == "m1";
    if !pair.memories.iter().any(is_newer) {
        return Err(Refusal::NotNewer { keep: keep.clone() });
    }
    let said = opinion.supersession.filter(|said| said.confidence >= rules.confidence_min);
    said.ok_or(Refusal::Unsure)
}

/// The members of some handles, each once, in the group's order.
fn named<'g>(group: &'g Group, ids: &[String]) -> Result<Vec<&'g Member>, Refusal> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if group.find(id).is_none() {
            return Err(Refusal::UnknownId { id: id.clone() });
        }
        if !seen.insert(id) {
            return Err(Refusal::Repeated { id: id.clone() });
        }
    }
    Ok(group.memories.iter().filter(|member| seen.contains(&member.handle)).collect())
}

fn no_instructions(group: &Group) -> Result<(), Refusal> {
    let found = group.memories.iter().find_map(|member| {
        let phrase = instruction(&member.text)?;
        Some(Refusal::Instructions { id: member.handle.clone(), phrase })
    });
    found.map_or(Ok(()), Err)
}

mod wording;

#[cfg(test)]
mod tests;
