//! Checking: what would be done, without writing anything anywhere.

use memfold_simd::Similarity;

use super::answer::{Check, CheckMatch, Coverage, ElapsedUs};
use super::decide::{Decided, Fitness, decide};
use super::engine::{Looked, Shared};
use super::gather::Gathered;
use super::weigh::{MATCHES_MAX, Weighed, weigh};
use super::{Incoming, QuickCheck};
use crate::lookup::SearchError;
use memfold_model::time::Instant;
use memfold_store::brain_db::StoreReader;

impl QuickCheck {
    /// Decides what is to be done with a memory, and writes nothing. `now` is the time by which memories expire.
    ///
    /// What keeps the store or the index from being looked through, and a vector that is none, are told in the answer.
    #[must_use]
    pub fn check(&self, incoming: &Incoming, now: Instant) -> Check {
        let clock = self.shared.options.clock;
        let started = clock();
        let Looked { gathered, judged, in_time } = self.gather(incoming, now, true);
        let (weighed, decided) = judged.unwrap_or_default();
        let ended = clock();
        let times = Times { started, guard: ended - gathered.found_at.unwrap_or(ended), ended };
        answer(&gathered, (&weighed, &decided), incoming, (in_time, times))
    }
}

impl Shared {
    /// Reads what was found as it is now, and decides.
    pub(super) fn judge(
        &self,
        reader: &StoreReader<'_>,
        gathered: &Gathered,
        incoming: &Incoming,
        now: Instant,
    ) -> Result<(Weighed, Decided), SearchError> {
        let rules = self.rules();
        let weighed = weigh(reader, gathered, incoming, rules)?;
        let (text, vector) = (incoming.text.as_deref(), incoming.vector.as_deref());
        let reading = weighed.reading.as_ref();
        let fitness = Fitness { reader, gathered, rules, text, vector, reading, now };
        let decided = decide((&weighed, incoming), |found| fitness.unfit(found))?;
        Ok((weighed, decided))
    }
}

/// Seconds of the clock, and how many of them the judging took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) started: f64,
    pub(super) guard: f64,
    pub(super) ended: f64,
}

/// Puts together what a check says. `in_time`: whether it ended by itself.
pub(super) fn answer(
    gathered: &Gathered,
    (weighed, decided): (&Weighed, &Decided),
    incoming: &Incoming,
    (in_time, Times { started, guard, ended }): (bool, Times),
) -> Check {
    let has_texts = gathered.texts.is_some() || incoming.text.is_none();
    let has_near = gathered.near.is_some() && incoming.vector.is_some();
    let wants_near = incoming.vector.is_some();
    let coverage = match (gathered.texts.is_some() || has_near, has_near) {
        (false, _) => Coverage::None,
        (true, true) if has_texts => Coverage::Full,
        (true, _) => Coverage::ExactOnly,
    };
    let checked = in_time && has_texts && (has_near || !wants_near);
    let matches = weighed.matches.iter().take(MATCHES_MAX).map(|found| CheckMatch {
        id: found.memory.id.clone(),
        similarity: found.similarity.map(Similarity::get),
        verdict: found.judgement.as_ref().map(|judgement| judgement.verdict),
        differences: found.differences.clone(),
    });
    let us = |seconds: f64| (seconds.max(0.0) * 1e6) as u64;
    let opened = gathered.opened_at.unwrap_or(ended);
    let found = gathered.found_at.unwrap_or(ended);
    Check {
        decision: decided.choice.decision(),
        reason: if checked { decided.reason.clone() } else { unchecked(gathered, decided) },
        matches: matches.collect(),
        matches_total: weighed.total,
        checked,
        coverage,
        index: gathered.used.clone(),
        elapsed_us: ElapsedUs {
            open: us(opened - started),
            search: us(found - opened),
            guard: us(guard),
            total: us(ended - started),
        },
        notes: gathered.notes.clone(),
    }
}

/// The reason where not everything was looked through.
fn unchecked(gathered: &Gathered, decided: &Decided) -> String {
    let why = gathered.notes.first().map_or("it could not be checked", String::as_str);
    format!("{}; not checked in full: {why}", decided.reason)
}
