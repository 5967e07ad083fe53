//! Flags: which contradictory pairs a person should look at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::memory::{MemoryId, MemoryIndex};
use crate::value::sha256_hex;
use memfold_guard::{Difference, Verdict};

use super::conditions::{
    met, signal_kinds, unmet_kind, unmet_measure, unmet_sameness, unmet_shape,
};
use super::context::{Context, Member, Merge, Rejection};
use crate::detect::Contradiction;
use crate::policy::defaults::FLAGS_PER_MEMORY_MAX;
use crate::policy::{Rule, RuleAction};

/// A flag that will be planned.
pub(super) struct Flag<'a> {
    /// The live memories of the two units after the merges of the plan, older side first.
    pub(super) pair: (MemoryIndex, MemoryIndex),
    pub(super) contradiction: &'a Contradiction,
    pub(super) rule: &'a Rule,
    pub(super) reasons: Vec<String>,
}

/// Returns the name of a flagged pair: the first 16 hex digits of sha256 of the sorted ids joined by `|`.
#[must_use]
pub fn flag_key(one: &MemoryId, other: &MemoryId) -> String {
    let (first, second) = if one < other { (one, other) } else { (other, one) };
    sha256_hex(format!("{first}|{second}"))[..16].to_owned()
}

/// The flags of a plan, and the ones left out by the caps.
#[derive(Default)]
pub(super) struct Flags<'a> {
    pub(super) flags: Vec<Flag<'a>>,
    pub(super) deferred: u64,
    /// Deferred pairs by the kinds of their signs.
    pub(super) deferred_patterns: BTreeMap<String, u64>,
}

/// Flags one contradiction per pair of units and one per series, highest score first, within the caps of the policy.
/// Flags of earlier runs that wait for a person take room under the caps; a pair that was flagged before is passed over.
pub(super) fn flags<'a>(context: &Context<'a>, merges: &[Merge<'_>]) -> Flags<'a> {
    let survivor_of: BTreeMap<MemoryIndex, &Merge<'_>> =
        merges.iter().flat_map(|merge| merge.merged.iter().map(move |&row| (row, merge))).collect();
    let live = |row: MemoryIndex| {
        let live = context.live(row);
        survivor_of.get(&live).map_or(live, |merge| merge.survivor)
    };
    let survivors = merges.iter().map(|merge| (merge.survivor, merge)).collect();
    let detection = context.input.detection;
    let known = Known::new(context);
    let all: Vec<&Contradiction> = detection.all_contradictions().collect();
    let series = Series::of(&all, context);
    let pair_of =
        |contradiction: &Contradiction| (live(contradiction.older), live(contradiction.newer));
    let mut room = Room::new(context, live);
    let mut spoken_for: BTreeSet<_> = all
        .iter()
        .filter(|contradiction| {
            let (older, newer) = pair_of(contradiction);
            known.has(context, contradiction, older, newer)
        })
        .filter_map(|contradiction| series.around(contradiction))
        .collect();
    let mut seen = BTreeSet::new();
    let mut flags = Flags::default();
    for contradiction in ranked(all, live) {
        let pair @ (older, newer) = pair_of(contradiction);
        if older == newer || !is_of_today(context, contradiction) {
            continue;
        }
        let Some(rule) = matching_rule(context, contradiction, [older, newer], &survivors) else {
            continue;
        };
        if !seen.insert((older.min(newer), older.max(newer)))
            || known.has(context, contradiction, older, newer)
        {
            continue;
        }
        let member_of = series.around(contradiction);
        if !room.is_for(older, newer)
            || context
                .is_settled(context.live(contradiction.older), context.live(contradiction.newer))
            || member_of.is_some_and(|series| spoken_for.contains(&series))
        {
            flags.defer(contradiction, member_of.is_some());
            continue;
        }
        room.take(older, newer);
        spoken_for.extend(member_of);
        if !(context.input.looks_at(older) || context.input.looks_at(newer)) {
            continue;
        }
        let mut reasons = reasons(context, rule, contradiction, [older, newer]);
        if let Some((_, members)) = member_of {
            reasons.push(format!("speaks for {members} memories that differ in the same way"));
        }
        flags.flags.push(Flag { pair, contradiction, rule, reasons });
    }
    flags
}

impl Flags<'_> {
    fn defer(&mut self, contradiction: &Contradiction, is_serial: bool) {
        self.deferred += 1;
        let kinds = signal_kinds(&contradiction.judgement).join(" + ");
        let pattern = if is_serial { format!("{kinds} (series)") } else { kinds };
        *self.deferred_patterns.entry(pattern).or_default() += 1;
    }
}

/// Earlier flags: pairs of memories, and pairs of texts.
struct Known {
    texts: BTreeSet<(String, String)>,
}

impl Known {
    fn new(context: &Context<'_>) -> Self {
        let flagged = &context.input.snapshot.decisions.flagged;
        if flagged.is_empty() {
            return Self { texts: BTreeSet::new() };
        }
        let sides: BTreeSet<&MemoryId> = flagged.iter().flat_map(|(a, b)| [a, b]).collect();
        let memories = context.input.snapshot.memories.iter();
        let keys: BTreeMap<&MemoryId, String> = memories
            .filter(|memory| sides.contains(&memory.id))
            .map(|memory| (&memory.id, memory.text_key()))
            .collect();
        let texts = |(a, b)| Some(ordered(keys.get(a)?.clone(), keys.get(b)?.clone()));
        Self { texts: flagged.iter().filter_map(texts).collect() }
    }

    /// Tells whether a pair was flagged, as itself, as the pair of live memories that it stands for, or under a copy of
    /// either text.
    fn has(
        &self,
        context: &Context<'_>,
        contradiction: &Contradiction,
        a: MemoryIndex,
        b: MemoryIndex,
    ) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let flagged = &context.input.snapshot.decisions.flagged;
        let key = |row: MemoryIndex| context.memory(row).text_key();
        flagged.contains(&context.memory(a).id, &context.memory(b).id)
            || self.texts.contains(&ordered(key(contradiction.older), key(contradiction.newer)))
    }
}

fn ordered(a: String, b: String) -> (String, String) {
    if a < b { (a, b) } else { (b, a) }
}

/// How much room the caps leave.
struct Room {
    max: usize,
    taken: usize,
    per_memory: BTreeMap<MemoryIndex, usize>,
}

impl Room {
    fn new(context: &Context<'_>, live: impl Fn(MemoryIndex) -> MemoryIndex) -> Self {
        let caps = &context.input.policy.flags;
        let mut room = Self { max: caps.max_per_run, taken: 0, per_memory: BTreeMap::new() };
        let waiting = &context.input.snapshot.decisions.counted_flags;
        let units = context.input.detection.units.iter().map(|unit| unit.live);
        let rows: BTreeMap<&MemoryId, MemoryIndex> = if waiting.is_empty() {
            BTreeMap::new()
        } else {
            units.map(|row| (&context.memory(row).id, live(row))).collect()
        };
        for (a, b) in waiting.iter() {
            room.taken += 1;
            for row in [a, b].into_iter().filter_map(|id| rows.get(id)) {
                *room.per_memory.entry(*row).or_default() += 1;
            }
        }
        room
    }

    fn is_for(&self, a: MemoryIndex, b: MemoryIndex) -> bool {
        let is_free = |row| self.per_memory.get(&row).copied().unwrap_or(0) < FLAGS_PER_MEMORY_MAX;
        self.taken < self.max && is_free(a) && is_free(b)
    }

    fn take(&mut self, a: MemoryIndex, b: MemoryIndex) {
        self.taken += 1;
        for row in [a, b] {
            *self.per_memory.entry(row).or_default() += 1;
        }
    }
}

/// Tells whether both sides still stand for the texts of their units. A memory that a person superseded contradicts its survivor,
/// and nobody else needs to hear of it.
fn is_of_today(context: &Context<'_>, contradiction: &Contradiction) -> bool {
    [contradiction.older, contradiction.newer].into_iter().all(|row| {
        let live = context.live(row);
        let apart = [Verdict::Different, Verdict::Conflict];
        live == row || !apart.contains(&context.input.guard.judge(row, live).verdict)
    })
}

/// Highest score first; among equal ones, pairs that no merge moves come first, then the given order.
fn ranked(
    mut ranked: Vec<&Contradiction>,
    live: impl Fn(MemoryIndex) -> MemoryIndex,
) -> Vec<&Contradiction> {
    let is_moved = |c: &Contradiction| live(c.older) != c.older || live(c.newer) != c.newer;
    ranked.sort_by(|a, b| {
        let scores = b.judgement.contradiction_score.total_cmp(&a.judgement.contradiction_score);
        scores.then_with(|| is_moved(a).cmp(&is_moved(b)))
    });
    ranked
}

/// The first rule about contradictions that holds for both sides, as the merges leave them. A pair that a person
/// wants to keep needs no flag.
fn matching_rule<'a>(
    context: &Context<'a>,
    contradiction: &Contradiction,
    [left, right]: [MemoryIndex; 2],
    survivors: &BTreeMap<MemoryIndex, &Merge<'_>>,
) -> Option<&'a Rule> {
    let Contradiction { older, newer, similarity, ref judgement } = *contradiction;
    let apart = &context.input.snapshot.decisions.keep_both;
    let are_apart = |a, b| apart.are_apart(&context.memory(a).id, &context.memory(b).id);
    if judgement.verdict != Verdict::Conflict || are_apart(older, newer) || are_apart(left, right) {
        return None;
    }
    let holds = |rule: &Rule, row: MemoryIndex| {
        let after = context.after(row, survivors.get(&row).copied());
        let unmet = unmet_measure(&rule.when, &after, after.access_count, context.input.now);
        unmet_kind(&rule.when, &after.categories).is_none() && unmet.is_none()
    };
    context.rules.iter().copied().find(|rule| {
        let categories = |row| &*context.memory(row).categories;
        rule.then.action == RuleAction::FlagContradiction
            && unmet_shape(&rule.when, 2, Some(similarity)).is_none()
            && unmet_sameness(&rule.when, categories(left), categories(right)).is_none()
            && holds(rule, left)
            && holds(rule, right)
    })
}

fn reasons(
    context: &Context<'_>,
    rule: &Rule,
    contradiction: &Contradiction,
    [left, right]: [MemoryIndex; 2],
) -> Vec<String> {
    let reason = match contradiction.judgement.update {
        true => "another value in the same place",
        false => "both cannot hold",
    };
    let mut reasons = vec![reason.to_owned()];
    reasons.extend(met(&rule.when));
    for (seen, live) in [(contradiction.older, left), (contradiction.newer, right)] {
        if seen != live {
            let merges = if context.live(seen) == seen { "merges" } else { "was merged" };
            let (seen, live) = (&context.memory(seen).id, &context.memory(live).id);
            reasons.push(format!("seen in {seen}, which {merges} into {live}"));
        }
    }
    reasons
}

/// A series has at least so many members: three values may well be one thing, told three times.
const MEMBERS_MIN: usize = 4;

/// So many others must contradict both sides of a pair in the same way, as where four all contradict each other.
const COMMON_MIN: usize = MEMBERS_MIN - 2;

/// Which contradictory pairs belong to a series. Four texts that differ in a number only are rather four things than one
/// thing with three errors, so one flag speaks for all of them. They are found by the text around their values, and where
/// all of four contradict each other in the same way.
pub(super) struct Series {
    /// The first member of a pair's series and how many it has.
    of: BTreeMap<(MemoryIndex, MemoryIndex), (MemoryIndex, usize)>,
}

impl Series {
    /// Finds the series among contradictions with the same kinds of signs. Cost: near linear in the pairs times the
    /// partners of a memory.
    pub(super) fn of(contradictions: &[&Contradiction], context: &Context<'_>) -> Self {
        let mut by_frame: BTreeMap<String, Vec<(MemoryIndex, MemoryIndex)>> = BTreeMap::new();
        let mut by_pattern: BTreeMap<Vec<String>, Vec<(MemoryIndex, MemoryIndex)>> =
            BTreeMap::new();
        for contradiction in contradictions {
            let mut pattern = signal_kinds(&contradiction.judgement);
            pattern.sort_unstable();
            let pair = (contradiction.older, contradiction.newer);
            by_pattern.entry(pattern).or_default().push(pair);
            if let Some(frame) = frame(context, contradiction) {
                by_frame.entry(frame).or_default().push(pair);
            }
        }
        let mut of = BTreeMap::new();
        by_pattern.values().for_each(|pairs| find(pairs, &mut of));
        for pairs in by_frame.values() {
            let members: BTreeSet<MemoryIndex> =
                pairs.iter().flat_map(|&(older, newer)| [older, newer]).collect();
            if let Some(first) = members.first().filter(|_| members.len() >= MEMBERS_MIN) {
                of.extend(pairs.iter().map(|pair| (*pair, (*first, members.len()))));
            }
        }
        Self { of }
    }

    /// Returns the first member of a pair's series and how many memories it has; `None` where it is in none.
    pub(super) fn around(&self, contradiction: &Contradiction) -> Option<(MemoryIndex, usize)> {
        self.of.get(&(contradiction.older, contradiction.newer)).copied()
    }
}

/// Returns the common text of two texts around their values, where they differ in nothing else: `The # batch`.
fn frame(context: &Context<'_>, contradiction: &Contradiction) -> Option<String> {
    let differences = &contradiction.judgement.differences;
    if differences.is_empty() || !differences.iter().all(|found| found.kind.is_value()) {
        return None;
    }
    let around = |row: MemoryIndex, range: fn(&Difference) -> Option<Range<usize>>| {
        let content = context.memory(row).content.as_ref();
        let mut ranges = differences.iter().map(range).collect::<Option<Vec<_>>>()?;
        ranges.sort_by_key(|range| range.start);
        let mut text = String::new();
        let mut from = 0;
        for range in ranges {
            text += content.get(from..range.start)?;
            text.push('#');
            from = range.end;
        }
        text += content.get(from..)?;
        let has_digit = |word: &str| word.contains(|character: char| character.is_ascii_digit());
        let words = text.split_whitespace().map(|word| if has_digit(word) { "#" } else { word });
        Some(words.collect::<Vec<_>>().join(" ").to_lowercase())
    };
    let older = around(contradiction.older, |difference| difference.left.clone())?;
    let newer = around(contradiction.newer, |difference| difference.right.clone())?;
    (older == newer).then_some(older)
}

fn find(
    pairs: &[(MemoryIndex, MemoryIndex)],
    of: &mut BTreeMap<(MemoryIndex, MemoryIndex), (MemoryIndex, usize)>,
) {
    let mut partners: BTreeMap<MemoryIndex, BTreeSet<MemoryIndex>> = BTreeMap::new();
    for &(older, newer) in pairs {
        partners.entry(older).or_default().insert(newer);
        partners.entry(newer).or_default().insert(older);
    }
    let is_serial = |(older, newer): &&(MemoryIndex, MemoryIndex)| {
        partners[older].intersection(&partners[newer]).nth(COMMON_MIN - 1).is_some()
    };
    let serial: Vec<_> = pairs.iter().filter(is_serial).copied().collect();
    let mut first: BTreeMap<MemoryIndex, MemoryIndex> = BTreeMap::new();
    for &(older, newer) in &serial {
        let (older, newer) = (root(&mut first, older), root(&mut first, newer));
        first.insert(older.max(newer), older.min(newer));
    }
    let members: Vec<MemoryIndex> = first.keys().copied().collect();
    let mut sizes: BTreeMap<MemoryIndex, usize> = BTreeMap::new();
    for member in members {
        *sizes.entry(root(&mut first, member)).or_default() += 1;
    }
    for pair in serial {
        let root = root(&mut first, pair.0);
        if sizes[&root] >= MEMBERS_MIN {
            of.insert(pair, (root, sizes[&root]));
        }
    }
}

/// Returns the first member of a memory's series so far.
fn root(first: &mut BTreeMap<MemoryIndex, MemoryIndex>, member: MemoryIndex) -> MemoryIndex {
    let mut at = member;
    loop {
        let above = *first.entry(at).or_insert(at);
        if above == at {
            return at;
        }
        // Halving the way keeps it short.
        let beyond = first[&above];
        first.insert(at, beyond);
        at = beyond;
    }
}

/// The rows that are about to merge into a survivor, and the others they exclude.
pub(super) struct Merging<'c, 'a> {
    context: &'c Context<'a>,
    rows: Vec<MemoryIndex>,
    /// The first row of each keep-both group.
    kept_apart: BTreeMap<u32, usize>,
}

impl<'c, 'a> Merging<'c, 'a> {
    pub(super) fn new(context: &'c Context<'a>) -> Self {
        Self { context, rows: Vec::new(), kept_apart: BTreeMap::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &Member<'_>) {
        for &group in self.context.apart_groups(row.index) {
            self.kept_apart.entry(group).or_insert(self.rows.len());
        }
        self.rows.push(row.index);
    }

    /// Returns the reason against merging a row together with the added ones, if there is one.
    pub(super) fn rejection(&self, row: &Member<'_>) -> Option<Rejection> {
        let id = |other: MemoryIndex| &self.context.memory(other).id;
        let groups = self.context.apart_groups(row.index);
        if let Some(&first) = groups.iter().filter_map(|group| self.kept_apart.get(group)).min() {
            let reason = format!("a person keeps it apart from {}", id(self.rows[first]));
            return Some(Rejection::new("decision", reason));
        }
        if !self.context.is_contradicted(row.index) {
            return None;
        }
        let other = self.rows.iter().find(|&&other| self.context.contradict(row.index, other))?;
        Some(Rejection::new("guard", format!("contradicts {}", id(*other))))
    }
}
