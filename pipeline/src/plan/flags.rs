//! Flags: which contradictory pairs a person should look at.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{Subject, met, unmet_kind, unmet_measure, unmet_shape};
use super::fold::Merge;
use super::group::Context;
use super::series::Series;
use super::words::signal_kinds;
use crate::detect::Contradiction;
use crate::memory::MemoryIndex;
use crate::policy::{Rule, RuleAction};

/// A flag that will be planned.
pub(super) struct Flag<'a> {
    /// The live memories of the two units after the merges of the plan, older side first.
    pub(super) pair: (MemoryIndex, MemoryIndex),
    pub(super) contradiction: &'a Contradiction,
    pub(super) rule: &'a Rule,
    pub(super) reasons: Vec<String>,
}

/// The flags of a plan, and what the caps left out.
#[derive(Default)]
pub(super) struct Flags<'a> {
    pub(super) flags: Vec<Flag<'a>>,
    pub(super) deferred: u64,
    /// Deferred pairs by the kinds of their signs.
    pub(super) deferred_patterns: BTreeMap<String, u64>,
}

/// Flags one contradiction per pair of units and one per series, highest score first, within the caps of the policy. A
/// pair that was flagged before is passed over and takes no room.
pub(super) fn flags<'a>(context: &Context<'a>, merges: &[Merge<'_>]) -> Flags<'a> {
    let survivor_of: BTreeMap<MemoryIndex, MemoryIndex> = merges
        .iter()
        .flat_map(|merge| merge.absorbed.iter().map(|&row| (row, merge.survivor)))
        .collect();
    let live = |row: MemoryIndex| survivor_of.get(&row).copied().unwrap_or(row);
    let detection = context.input.detection;
    let flagged = &context.input.snapshot.decisions.flagged;
    let mut seen = BTreeSet::new();
    let mut per_memory: BTreeMap<MemoryIndex, usize> = BTreeMap::new();
    let mut flags = Flags::default();
    let series = Series::of(&detection.contradictions);
    let is_flagged = |(older, newer): (MemoryIndex, MemoryIndex)| {
        flagged.contains(&context.memory(older).id, &context.memory(newer).id)
    };
    let mut spoken_for: BTreeSet<_> = detection
        .contradictions
        .iter()
        .filter(|known| is_flagged((live(known.older), live(known.newer))))
        .filter_map(|known| series.around(known))
        .collect();
    for contradiction in ranked(&detection.contradictions, live) {
        let Some(rule) = matching_rule(context, contradiction) else { continue };
        let pair = (live(contradiction.older), live(contradiction.newer));
        if pair.0 == pair.1 || !seen.insert((pair.0.min(pair.1), pair.0.max(pair.1))) {
            continue;
        }
        if is_flagged(pair) {
            continue;
        }
        let member_of = series.around(contradiction);
        let caps = &context.input.policy.flags;
        let is_full = |row| per_memory.get(&row).is_some_and(|&n| n >= caps.max_per_memory);
        if flags.flags.len() >= caps.max_per_run
            || caps.max_per_memory == 0
            || is_full(pair.0)
            || is_full(pair.1)
            || member_of.is_some_and(|series| spoken_for.contains(&series))
        {
            flags.deferred += 1;
            let kinds = signal_kinds(&contradiction.judgement).join(" + ");
            let pattern = if member_of.is_some() { format!("{kinds} (series)") } else { kinds };
            *flags.deferred_patterns.entry(pattern).or_default() += 1;
            continue;
        }
        for row in [pair.0, pair.1] {
            *per_memory.entry(row).or_default() += 1;
        }
        spoken_for.extend(member_of);
        let mut reasons = reasons(context, rule, contradiction, pair);
        if let Some((_, members)) = member_of {
            reasons.push(format!("speaks for {members} memories that differ in the same way"));
        }
        flags.flags.push(Flag { pair, contradiction, rule, reasons });
    }
    flags
}

/// Highest score first; among equal ones, pairs that no merge moves come first, then the given order.
fn ranked(
    contradictions: &[Contradiction],
    live: impl Fn(MemoryIndex) -> MemoryIndex,
) -> Vec<&Contradiction> {
    let mut ranked: Vec<&Contradiction> = contradictions.iter().collect();
    let is_moved = |c: &Contradiction| live(c.older) != c.older || live(c.newer) != c.newer;
    ranked.sort_by(|a, b| {
        let scores = b.judgement.contradiction_score.total_cmp(&a.judgement.contradiction_score);
        scores.then_with(|| is_moved(a).cmp(&is_moved(b)))
    });
    ranked
}

/// The first rule about contradictions that holds for both sides. A pair that a person wants to keep
/// needs no flag.
fn matching_rule<'a>(context: &Context<'a>, contradiction: &Contradiction) -> Option<&'a Rule> {
    let Contradiction { older, newer, similarity, ref judgement } = *contradiction;
    let policy = context.input.policy;
    let decisions = &context.input.snapshot.decisions;
    if judgement.contradiction_score < policy.detect.contradiction_threshold
        || decisions.keep_both.are_apart(&context.memory(older).id, &context.memory(newer).id)
    {
        return None;
    }
    let holds = |rule: &Rule, row: MemoryIndex| {
        let memory = context.memory(row);
        let subject = Subject {
            age_days: context.age_days(row),
            access_count: memory.access_count,
            importance: memory.importance,
            categories: &memory.categories,
            root_source: &memory.root_source,
        };
        unmet_kind(&rule.when, &subject).is_none() && unmet_measure(&rule.when, &subject).is_none()
    };
    context.rules.iter().copied().find(|rule| {
        rule.then == RuleAction::FlagContradiction
            && unmet_shape(&rule.when, 2, Some(similarity)).is_none()
            && holds(rule, older)
            && holds(rule, newer)
    })
}

fn reasons(
    context: &Context<'_>,
    rule: &Rule,
    contradiction: &Contradiction,
    pair: (MemoryIndex, MemoryIndex),
) -> Vec<String> {
    let threshold = context.input.policy.detect.contradiction_threshold;
    let mut reasons = vec![format!("contradiction_score >= {threshold}")];
    reasons.extend(met(&rule.when));
    for (seen, live) in [(contradiction.older, pair.0), (contradiction.newer, pair.1)] {
        if seen != live {
            let (seen, live) = (&context.memory(seen).id, &context.memory(live).id);
            reasons.push(format!("seen in {seen}, which folds into {live}"));
        }
    }
    reasons
}
