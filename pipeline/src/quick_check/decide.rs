//! [`decide`]: the decision about a memory, given the similar ones.

use memfold_core::decisions::content_hash;
use memfold_core::detect::newest_first;
use memfold_core::memory::Memory;
use memfold_core::plan::{is_written_better, protected_by};
use memfold_core::time::Instant;
use memfold_guard::Side;
use memfold_guard::text::strict_key;
use memfold_guard::{Guard, Reading, Verdict};
use memfold_store::brain_db::{FlagKind, MergedRow, SpaceShapes, StoreReader};

use super::Incoming;
use super::answer::Decision;
use super::gather::{Gathered, StoreVectors};
use super::weigh::{Equal, Match, Rules, Weighed};
use crate::lookup::SearchError;

/// Matches that are tried for replacement by the new memory.
const TRIED_MAX: usize = 8;
/// A memory that more were merged into is left to a whole run.
const MERGED_MAX: usize = 512;

/// The decision, with the position of the affected memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Choice {
    /// Nothing is alike, or not the same thing.
    Insert,
    /// The new memory equals this one of the memories with the same statement.
    Touch { at: usize },
    /// This match says the same and is written better.
    TouchMatch { at: usize },
    /// The new memory equals the first of the memories with the same statement, and contradicts
    /// this match, which is newer.
    TouchAndFlag { against: usize },
    /// The new memory takes the place of this match.
    Replace { at: usize },
    /// The new memory stands beside this match.
    Flag { at: usize, kind: FlagKind },
}

/// The decision and its reason.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decided {
    pub(super) choice: Choice,
    pub(super) reason: String,
}

impl Default for Decided {
    fn default() -> Self {
        Self { choice: Choice::Insert, reason: NOTHING.to_owned() }
    }
}

/// The reason if nothing was found.
const NOTHING: &str = "nothing alike";

impl Choice {
    pub(super) const fn decision(&self) -> Decision {
        match self {
            Self::Insert => Decision::Insert,
            Self::Touch { .. } | Self::TouchMatch { .. } => Decision::Touch,
            Self::TouchAndFlag { .. } => Decision::TouchAndFlag,
            Self::Replace { .. } => Decision::Replace,
            Self::Flag { .. } => Decision::InsertAndFlag,
        }
    }
}

/// Decides; `unfit` says why a match cannot be replaced.
pub(super) fn decide(
    weighed: &Weighed,
    incoming: &Incoming,
    mut unfit: impl FnMut(&Match) -> Result<Option<String>, SearchError>,
) -> Result<Decided, SearchError> {
    if let Some(equal) = weighed.equal.first() {
        return Ok(said_again(weighed, equal, incoming));
    }
    let matches = &weighed.matches;
    let conflicts = |update: bool| {
        let is_one = |found: &Match| {
            let judgement = found.judgement.as_ref();
            judgement.is_some_and(|it| it.verdict == Verdict::Conflict && it.update == update)
        };
        matches.iter().position(is_one)
    };
    if let Some(at) = conflicts(false) {
        let kind = FlagKind::Contradiction;
        let reason = format!("contradicts {}{}", matches[at].memory.id, differing(&matches[at]));
        return Ok(Decided { choice: Choice::Flag { at, kind }, reason });
    }
    if let Some(at) = conflicts(true) {
        let reason =
            format!("another value than in {}{}", matches[at].memory.id, differing(&matches[at]));
        return Ok(Decided { choice: Choice::Flag { at, kind: FlagKind::Update }, reason });
    }
    let alike = |found: &Match| found.judgement.as_ref().is_none_or(|it| it.could_be_same);
    let mut reason = None;
    if !weighed.is_shared_vector {
        let candidates = matches.iter().enumerate().filter(|(_, found)| alike(found));
        for (at, found) in candidates.take(TRIED_MAX) {
            let Some(obstacle) = unfit(found)? else {
                if is_better_kept(found, incoming) {
                    let reason =
                        format!("says the same as {}, which is written better", found.memory.id);
                    return Ok(Decided { choice: Choice::TouchMatch { at }, reason });
                }
                let similarity = found.similarity.map_or(0.0, memfold_simd::Similarity::get);
                let reason = format!("says all that {} says ({similarity:.4})", found.memory.id);
                return Ok(Decided { choice: Choice::Replace { at }, reason });
            };
            reason.get_or_insert(obstacle);
        }
    }
    let Some(at) = matches.iter().position(alike) else {
        let reason = match matches.first() {
            Some(found) => format!("kept apart from {}{}", found.memory.id, differing(found)),
            None => NOTHING.to_owned(),
        };
        return Ok(Decided { choice: Choice::Insert, reason });
    };
    if weighed.is_shared_vector {
        let reason = "too many texts stand under this very vector for it to say anything";
        return Ok(Decided { choice: Choice::Insert, reason: reason.to_owned() });
    }
    let reason = reason.unwrap_or_else(|| format!("like {}", matches[at].memory.id));
    Ok(Decided { choice: Choice::Flag { at, kind: FlagKind::Near }, reason })
}

/// Tells whether a match says the same as a new text and is written better.
fn is_better_kept(found: &Match, incoming: &Incoming) -> bool {
    let judgement = found.judgement.as_ref().filter(|it| it.verdict == Verdict::Same);
    let both = judgement.zip(incoming.text.as_deref());
    both.is_some_and(|(judgement, text)| is_written_better(judgement, &found.memory.content, text))
}

pub(super) fn same(equal: &Equal) -> String {
    match equal {
        Equal::Live(memory) => format!("the same text as {}", memory.id),
        Equal::Merged { merged_row, into, superseded: false } => {
            format!("the same text as {merged_row}, which was merged into {}", into.id)
        }
        Equal::Merged { merged_row, into, superseded: true } => {
            format!("the same text as {merged_row}, whose place {} was given", into.id)
        }
        Equal::Archived { memory } => {
            format!("the same text as {}, which was archived unused", memory.id)
        }
    }
}

/// The first thing that differs, for a reason.
pub(super) fn differing(found: &Match) -> String {
    found.differences.first().map_or_else(String::new, |first| format!(": {first}"))
}

/// Whether a match may be replaced, by everything but its rank.
pub(super) struct Fitness<'a> {
    pub(super) reader: &'a StoreReader<'a>,
    pub(super) gathered: &'a Gathered,
    pub(super) rules: Rules<'a>,
    pub(super) vector: Option<&'a [f32]>,
    pub(super) reading: Option<&'a Reading>,
    pub(super) now: Instant,
}

impl Fitness<'_> {
    /// Says why a match cannot be replaced, if so.
    pub(super) fn unfit(&self, found: &Match) -> Result<Option<String>, SearchError> {
        let id = &found.memory.id;
        let Some(reading) = self.reading else {
            return Ok(Some(format!("like {id}; without a text nothing is merged")));
        };
        if self.vector.is_none() && self.gathered.by_words == Some(StoreVectors::Some) {
            return Ok(Some(format!("like {id}, which a text without a vector does not replace")));
        }
        let threshold = self.rules.check.auto_dedup_threshold;
        let Some(similarity) = found.similarity else {
            return Ok(Some(format!("nearly the words of {id}, and no vectors to compare")));
        };
        if similarity < threshold {
            let similarity = similarity.get();
            return Ok(Some(format!("like {id} ({similarity:.4}), below {threshold}")));
        }
        if let Some(by) = protected_by(&found.memory, false, self.rules.policy, self.now) {
            return Ok(Some(format!("like {id}, which is protected: {by}")));
        }
        if let Some(lacking) = lacks(found) {
            return Ok(Some(format!("like {id}, but {lacking}")));
        }
        let space =
            self.gathered.space.as_ref().map(|(space, shapes)| SpaceShapes { space, shapes });
        let Some(merged_rows) = self.reader.merged_rows(&found.memory, space, MERGED_MAX)? else {
            return Ok(Some(format!("like {id}, into which more than {MERGED_MAX} were merged")));
        };
        let own = strict_key(&found.memory.content);
        let apart = |merged_row: &MergedRow| {
            self.kept_apart(self.rules.guard.get(), reading, merged_row)
                .filter(|_| strict_key(&merged_row.content) != own)
                .map(|reason| format!("like {id}, but {reason}"))
        };
        Ok(merged_rows.iter().find_map(apart))
    }

    /// Why the new memory cannot replace a memory that was once merged into its match.
    fn kept_apart(
        &self,
        guard: &Guard,
        reading: &Reading,
        merged_row: &MergedRow,
    ) -> Option<String> {
        let id = &merged_row.id;
        let both = merged_row.vector.as_deref().zip(self.vector);
        let similarity = both.and_then(|(vector, query)| self.rules.similarity(query, vector));
        let threshold = self.rules.check.auto_dedup_threshold;
        if let Some(similarity) = similarity.filter(|found| *found < threshold) {
            let similarity = similarity.get();
            return Some(format!("{id}, merged into it, is at {similarity:.4}"));
        }
        let old = guard.read(&merged_row.content);
        let judgement = guard.judge(&old, reading);
        if judgement.says_all(Side::Right) {
            return None;
        }
        let what = if judgement.verdict == Verdict::Extends { "more" } else { "something else" };
        Some(format!("{id}, merged into it, says {what}"))
    }
}

/// Returns why a new text is not proven to say all that a match says.
fn lacks(found: &Match) -> Option<String> {
    let lacking = match &found.judgement {
        Some(judgement) if judgement.says_all(Side::Right) => return None,
        Some(judgement) => memfold_core::plan::lacks(judgement, &found.memory.content),
        None => Vec::new(),
    };
    Some(match lacking.is_empty() {
        false => format!("the new text lacks {}", lacking.join(", ")),
        true => "the new text is not proven to say the same".to_owned(),
    })
}

/// At least this many texts that differ in values alone are a series of events: none of them
/// updates another.
const SERIES_MIN: usize = 4;

/// Decides on a text that is in the store already.
pub(super) fn said_again(weighed: &Weighed, equal: &Equal, incoming: &Incoming) -> Decided {
    let touch = || Decided { choice: Choice::Touch { at: 0 }, reason: same(equal) };
    if is_retry(equal, incoming) {
        return touch();
    }
    if let Equal::Merged { into, superseded, .. } = equal {
        let at = weighed.matches.iter().position(|found| found.memory.id == into.id);
        let speaks_against = |at: &usize| *superseded || contradicts(&weighed.matches[*at]);
        if let Some(at) = at.filter(speaks_against) {
            let reason = match superseded {
                true => format!("{}: said again, it stands against it", same(equal)),
                false => format!("{}, but which contradicts it", same(equal)),
            };
            return Decided { choice: Choice::Flag { at, kind: FlagKind::Contradiction }, reason };
        }
    }
    let Some(against) = newest_opponent(weighed, equal) else { return touch() };
    let found = &weighed.matches[against];
    let relation = if contradicts(found) { "contradicts" } else { "differs from" };
    let reason = format!(
        "{}, said again after {}, which is newer and {relation} it{}",
        same(equal),
        found.memory.id,
        differing(found)
    );
    let choice = match equal {
        Equal::Live(_) | Equal::Merged { .. } => Choice::TouchAndFlag { against },
        Equal::Archived { .. } => Choice::Flag { at: against, kind: FlagKind::Contradiction },
    };
    Decided { choice, reason }
}

/// Tells whether a save under an id is only repeated.
fn is_retry(equal: &Equal, incoming: &Incoming) -> bool {
    let Some(id) = incoming.id.as_deref() else { return false };
    equal.memory().id.as_str() == id
        || matches!(equal, Equal::Merged { merged_row, .. } if merged_row.as_str() == id)
}

/// Returns the newest match that contradicts a repeated memory and is newer than it.
fn newest_opponent(weighed: &Weighed, equal: &Equal) -> Option<usize> {
    let memory = equal.memory();
    let in_values = |found: &&Match| differs_in_values(found);
    // The new text is one of the series.
    let is_series = weighed.matches.iter().filter(in_values).count() + 1 >= SERIES_MIN;
    let says_otherwise = |found: &Match| {
        let is_event = is_series && differs_in_values(found);
        !is_event && contradicts(found)
    };
    let speaks_against = |found: &Match| {
        let is_flagged = weighed.flags.iter().any(|flag| flag.other == found.memory.id);
        let apart = weighed.kept_apart.get(&found.memory.id);
        let is_apart = apart.is_some_and(|hash| match hash {
            Some(hash) => *hash == content_hash(&found.memory.content),
            None => true,
        });
        found.memory.id != memory.id
            && (is_flagged || !is_apart && says_otherwise(found))
            && is_newer(weighed, &found.memory, memory)
    };
    let opponents = weighed.matches.iter().enumerate().filter(|(_, found)| speaks_against(found));
    let newest = opponents.min_by(|(_, a), (_, b)| newest_first(&a.memory, &b.memory));
    newest.map(|(at, _)| at)
}

/// Tells which one of a pair is the later statement: by an open flag, else by the rows' own times.
fn is_newer(weighed: &Weighed, other: &Memory, memory: &Memory) -> bool {
    let flag = weighed.flags.iter().find(|flag| flag.other == other.id);
    match flag.and_then(|flag| flag.asserted.as_ref()) {
        Some((asserted, _)) => *asserted == other.id,
        None => newest_first(other, memory).is_lt(),
    }
}

fn contradicts(found: &Match) -> bool {
    found.judgement.as_ref().is_some_and(|j| j.verdict == Verdict::Conflict)
}

/// Tells whether a match says something else in values alone, as the members of a series do.
fn differs_in_values(found: &Match) -> bool {
    let differences = found.judgement.as_ref().map_or(&[][..], |judgement| &judgement.differences);
    !differences.is_empty() && differences.iter().all(|difference| difference.kind.is_value())
}
