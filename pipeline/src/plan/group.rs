//! What the planner knows of each memory before it decides, and why one may not fold into another.

use std::collections::{BTreeMap, BTreeSet};

use memfold_simd::Similarity;

use super::protection::{age_days, protected_by};
use super::words;
use super::{PlanInput, ProtectedBy};
use crate::decisions::share;
use crate::detect::{Contradiction, Unit};
use crate::memory::{Embedding, Memory, MemoryIndex};
use crate::policy::{Rule, RuleAction};
use crate::text;

/// A plan's inputs, looked up often.
pub(super) struct Context<'a> {
    pub(super) input: &'a PlanInput<'a>,
    /// The rules that run, in order.
    pub(super) rules: Vec<&'a Rule>,
    /// The lowest similarity that a merge rule asks for.
    pub(super) threshold: Option<Similarity>,
    pub(super) ghosts: BTreeMap<MemoryIndex, &'a [MemoryIndex]>,
    pub(super) protected: BTreeMap<MemoryIndex, ProtectedBy>,
    contradictory: BTreeMap<MemoryIndex, BTreeSet<MemoryIndex>>,
    /// Keep-both groups of the units that are in any, ascending.
    apart_groups: BTreeMap<MemoryIndex, Vec<u32>>,
    shared_vectors: BTreeSet<MemoryIndex>,
}

/// A member of a cluster.
pub(super) struct Member<'a> {
    pub(super) index: MemoryIndex,
    pub(super) memory: &'a Memory,
    /// The strict key.
    pub(super) key: String,
    pub(super) ghosts: &'a [MemoryIndex],
}

/// Why a row does not fold into a survivor.
#[derive(Debug, Clone)]
pub(super) struct Obstacle {
    /// What forbids it: a rule's id, `protection`, `guard`, `embedding`, `similarity`, `decision`.
    pub(super) cause: String,
    pub(super) reason: String,
}

impl Obstacle {
    pub(super) fn new(cause: &str, reason: impl Into<String>) -> Self {
        Self { cause: cause.to_owned(), reason: reason.into() }
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(input: &'a PlanInput<'a>) -> Self {
        let units = &input.detection.units;
        let ghosts: BTreeMap<_, _> =
            units.iter().map(|unit| (unit.live, unit.ghosts.as_slice())).collect();
        let promoted_at = &input.snapshot.decisions.promoted_at_access;
        let memories = &input.snapshot.memories;
        let was_promoted =
            |index: &MemoryIndex| promoted_at.contains_key(&memories[index.index()].id);
        let protection = |unit: &'a Unit| {
            let promoted = std::iter::once(&unit.live).chain(&unit.ghosts).any(was_promoted);
            let memory = &memories[unit.live.index()];
            protected_by(memory, promoted, input.policy, input.now).map(|by| (unit.live, by))
        };
        let contradictions = &input.detection.contradictions;
        Self {
            input,
            rules: input.policy.active_rules().collect(),
            threshold: input.policy.merge_threshold(),
            protected: units.iter().filter_map(protection).collect(),
            contradictory: partners(contradictions),
            apart_groups: apart_groups(input),
            shared_vectors: input.detection.shared_vector_rows.iter().copied().collect(),
            ghosts,
        }
    }

    pub(super) fn memory(&self, index: MemoryIndex) -> &'a Memory {
        &self.input.snapshot.memories[index.index()]
    }

    pub(super) fn age_days(&self, index: MemoryIndex) -> Option<f64> {
        age_days(self.memory(index), self.input.now)
    }

    pub(super) fn member(&self, index: MemoryIndex) -> Member<'a> {
        let memory = self.memory(index);
        let ghosts = self.ghosts.get(&index).copied().unwrap_or_default();
        Member { index, memory, key: text::strict_key(&memory.content), ghosts }
    }

    /// The canonical similarity, unless a vector is one that says nothing.
    pub(super) fn similarity(&self, left: MemoryIndex, right: MemoryIndex) -> Option<Similarity> {
        let speaks = |index| !self.shared_vectors.contains(&index);
        (speaks(left) && speaks(right)).then(|| (self.input.similarity)(left, right)).flatten()
    }

    /// The similarity that rules see: equal strict keys count as 1 where the exact tier is on.
    pub(super) fn effective(&self, left: &Member<'_>, right: &Member<'_>) -> Option<Similarity> {
        if self.input.policy.detect.exact_text && left.key == right.key {
            return Some(Similarity::ONE);
        }
        self.similarity(left.index, right.index)
    }

    pub(super) fn contradict(&self, left: MemoryIndex, right: MemoryIndex) -> bool {
        self.contradictory.get(&left).is_some_and(|partners| partners.contains(&right))
    }

    /// Tells whether a memory contradicts any other.
    pub(super) fn is_contradicted(&self, index: MemoryIndex) -> bool {
        self.contradictory.contains_key(&index)
    }

    /// Tells whether a rule merges, and whose survivor it wants.
    pub(super) fn merge_rules(&self) -> impl Iterator<Item = &'a Rule> + '_ {
        self.rules.iter().copied().filter(|rule| matches!(rule.then, RuleAction::Merge { .. }))
    }

    /// Returns why a row may not fold into a survivor whatever the rules say, if so.
    pub(super) fn obstacle(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Obstacle> {
        if !has_vector(survivor.memory) && has_vector(row.memory) {
            let reason = format!("survivor {} has no embedding", survivor.memory.id);
            return Some(Obstacle::new("embedding", reason));
        }
        if share(self.apart_groups(survivor.index), self.apart_groups(row.index)) {
            let reason = format!("a person keeps it apart from {}", survivor.memory.id);
            return Some(Obstacle::new("decision", reason));
        }
        if self.contradict(survivor.index, row.index) {
            return Some(Obstacle::new("guard", format!("contradicts {}", survivor.memory.id)));
        }
        self.too_far(survivor, row).or_else(|| self.lacking(survivor, row))
    }

    /// Returns the keep-both groups that a unit's live row or a ghost is in, ascending. Units of one group
    /// are kept apart.
    pub(super) fn apart_groups(&self, live: MemoryIndex) -> &[u32] {
        self.apart_groups.get(&live).map_or(&[], Vec::as_slice)
    }

    /// The row, or anything once folded into it, is below the threshold to the survivor.
    fn too_far(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Obstacle> {
        let threshold = self.threshold?;
        let found = self.effective(survivor, row);
        let id = &survivor.memory.id;
        let Some(found) = found.or_else(|| self.equal_text(survivor, row)) else {
            let reason = format!("no similarity to {id} is known and the texts differ");
            return Some(Obstacle::new("similarity", reason));
        };
        let of_ghosts =
            row.ghosts.iter().filter_map(|&ghost| self.similarity(survivor.index, ghost));
        let smallest = of_ghosts.min().map_or(found, |ghost| ghost.min(found));
        let whose = if smallest < found { "a row folded into it is at " } else { "" };
        let equal = self.equal_text(survivor, row).is_some();
        let far = if equal { false } else { smallest < threshold };
        far.then(|| {
            let value = smallest.get();
            let reason = format!("{whose}similarity {value:.4} to {id}, below {threshold}");
            Obstacle::new("similarity", reason)
        })
    }

    fn equal_text(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Similarity> {
        let rule_allows = || self.merge_rules().any(|rule| rule.when.or_equal_text);
        (survivor.key == row.key && rule_allows()).then_some(Similarity::ONE)
    }

    /// The survivor's text does not say what the row, or anything folded into it, says. Of equal texts
    /// each says as much as the other, also of what was folded in.
    fn lacking(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Obstacle> {
        if !self.input.policy.guard.enabled || survivor.key == row.key {
            return None;
        }
        let ghosts = row.ghosts.iter().copied().filter(|&ghost| {
            let content = &self.memory(ghost).content;
            text::strict_key(content) != survivor.key
        });
        std::iter::once(row.index).chain(ghosts).find_map(|index| self.unsaid(survivor, index))
    }

    fn unsaid(&self, survivor: &Member<'_>, row: MemoryIndex) -> Option<Obstacle> {
        let judgement = self.input.guard.judge(row, survivor.index);
        let id = &survivor.memory.id;
        if !judgement.verdict.links() {
            let shown =
                words::differences(&judgement, &self.memory(row).content, &survivor.memory.content);
            let shown =
                if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
            return Some(Obstacle::new("guard", format!("kept apart from {id}{shown}")));
        }
        let absorption = self.input.guard.absorbs(survivor.index, row);
        if absorption.absorbable {
            return None;
        }
        let lacks = words::lacks(&absorption, &self.memory(row).content);
        let reason = match (lacks.is_empty(), absorption.containment) {
            (false, _) => format!("survivor {id} lacks {}", lacks.join(", ")),
            (true, Some(share)) => format!("survivor {id} contains {share:.2} of its long text"),
            (true, None) => format!("survivor {id} does not say all it says"),
        };
        Some(Obstacle::new("guard", reason))
    }
}

/// Tells whether a memory has a valid, fresh vector.
pub(super) fn has_vector(memory: &Memory) -> bool {
    matches!(memory.embedding, Embedding::Vector { .. })
}

fn apart_groups(input: &PlanInput<'_>) -> BTreeMap<MemoryIndex, Vec<u32>> {
    let (memories, apart) = (&input.snapshot.memories, &input.snapshot.decisions.keep_both);
    if apart.is_empty() {
        return BTreeMap::new();
    }
    let groups = |unit: &Unit| {
        let rows = std::iter::once(&unit.live).chain(&unit.ghosts);
        let groups = rows.flat_map(|row| apart.groups_of(&memories[row.index()].id));
        let groups: BTreeSet<u32> = groups.copied().collect();
        (!groups.is_empty()).then(|| (unit.live, groups.into_iter().collect()))
    };
    input.detection.units.iter().filter_map(groups).collect()
}

fn partners(contradictions: &[Contradiction]) -> BTreeMap<MemoryIndex, BTreeSet<MemoryIndex>> {
    let mut partners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for &Contradiction { older, newer, .. } in contradictions {
        partners.entry(older).or_default().insert(newer);
        partners.entry(newer).or_default().insert(older);
    }
    partners
}
