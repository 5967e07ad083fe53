//! The knowledge of the planner about each memory before it decides, and why one may not merge into another.

use memfold_guard::Side;
use memfold_guard::Verdict;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::Snapshot;
use crate::decisions::{FlaggedPairs, share};
use crate::memory::{CategoryList, Embedding, Memory, MemoryIndex, attribute_of};
use crate::time::Instant;
use memfold_datasets::embedding;
use memfold_simd::Similarity;

use super::conditions::{is_written_better, protected_by};
use super::{FactGuard, ProtectedBy, SimilarityOf, conditions};
use crate::detect::{Contradiction, Detection};
use crate::policy::{MergePolicy, Policy, Rule, RuleAction};

/// Everything that a plan is a function of.
pub struct PlanInput<'a> {
    /// The store, with the decisions of earlier runs and of people.
    pub snapshot: &'a Snapshot,
    /// The detections.
    pub detection: &'a Detection,
    /// The policy.
    pub policy: &'a Policy,
    /// The memories that single rules look at, and the flags and the list of protected memories cover; `None`: all.
    pub only: Option<&'a BTreeSet<MemoryIndex>>,
    /// The guard over the snapshot's texts.
    pub guard: &'a dyn FactGuard,
    /// Canonical similarity.
    pub similarity: &'a SimilarityOf<'a>,
    /// The run's time.
    pub now: Instant,
    /// `sha256:<hex>` of the semantic configuration.
    pub config_hash: &'a str,
}

impl PlanInput<'_> {
    /// Tells whether single rules look at a memory.
    pub(super) fn looks_at(&self, memory: MemoryIndex) -> bool {
        self.only.is_none_or(|only| only.contains(&memory))
    }
}

/// A merge that will be planned.
pub(super) struct Merge<'a> {
    pub(super) cluster: usize,
    pub(super) survivor: MemoryIndex,
    pub(super) merged: Vec<MemoryIndex>,
    pub(super) rule: &'a Rule,
    /// The smallest canonical similarity among the rows, or that of the whole cluster where the rows
    /// are many.
    pub(super) similarity: Option<Similarity>,
    pub(super) equal_text: bool,
    pub(super) survivor_protected: bool,
}

impl Merge<'_> {
    /// Returns the survivor as the merge leaves it; `None`: as it is.
    fn survivor_after<'m>(
        &self,
        memory: impl Fn(MemoryIndex) -> &'m Memory,
        policy: &Policy,
    ) -> Option<Memory> {
        let merged = self.merged.iter().map(|&row| memory(row));
        let after = || merged_values(memory(self.survivor), merged, &policy.merge);
        (!self.survivor_protected).then(after)
    }
}

/// A plan's inputs, looked up often.
pub(super) struct Context<'a> {
    pub(super) input: &'a PlanInput<'a>,
    merged: &'a Merged,
    /// The rules that run, in order.
    pub(super) rules: Vec<&'a Rule>,
    /// The lowest similarity that a merge rule asks for.
    pub(super) threshold: Option<Similarity>,
    pub(super) merged_rows: BTreeMap<MemoryIndex, &'a [MemoryIndex]>,
    pub(super) protected: BTreeMap<MemoryIndex, ProtectedBy>,
    /// The live row of the unit of each merged row.
    live_of: BTreeMap<MemoryIndex, MemoryIndex>,
    /// Live rows of units that contradict each other, by their own texts or by texts merged into them.
    contradictory: BTreeMap<MemoryIndex, BTreeSet<MemoryIndex>>,
    /// The sides of open flags.
    flagged: BTreeSet<MemoryIndex>,
    /// Also the pairs of flags that a person took back.
    ever_flagged: BTreeSet<MemoryIndex>,
    /// Units of which a person took something back: since when.
    undone: BTreeMap<MemoryIndex, Instant>,
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
    pub(super) merged_rows: &'a [MemoryIndex],
}

/// Why a row does not merge into a survivor.
#[derive(Debug, Clone)]
pub(super) struct Rejection {
    /// The reason against it: a rule's id, `protection`, `guard`, `embedding`, `similarity`, `decision`.
    pub(super) cause: String,
    pub(super) reason: String,
}

impl Rejection {
    pub(super) fn new(cause: &str, reason: impl Into<String>) -> Self {
        Self { cause: cause.to_owned(), reason: reason.into() }
    }
}

impl<'a> Context<'a> {
    /// Looks at the memories as `merged` leaves them.
    pub(super) fn new(input: &'a PlanInput<'a>, merged: &'a Merged) -> Self {
        let units = || {
            let units = input.detection.units.iter();
            units.filter(|unit| !merged.is_merged(unit.live)).map(|unit| {
                let merged_rows = merged.merged_rows(unit.live);
                (unit.live, merged_rows.unwrap_or(&unit.merged_rows))
            })
        };
        let decisions = &input.snapshot.decisions;
        let id = |row: MemoryIndex| &input.snapshot.memories[row.index()].id;
        let protection = |(live, merged_rows): (MemoryIndex, &[MemoryIndex])| {
            let mut rows = std::iter::once(live).chain(merged_rows.iter().copied());
            let promoted = rows.any(|row| decisions.promoted_at_access.contains_key(id(row)));
            let memory = merged.memory(input, live);
            protected_by(memory, promoted, input.policy, input.now).map(|by| (live, by))
        };
        let undone = |(live, merged_rows): (MemoryIndex, &[MemoryIndex])| {
            let rows = std::iter::once(live).chain(merged_rows.iter().copied());
            let last = rows.filter_map(|row| decisions.undone.get(id(row))).max()?;
            Some((live, *last))
        };
        let live_of: BTreeMap<MemoryIndex, MemoryIndex> = units()
            .flat_map(|(live, merged_rows)| {
                merged_rows.iter().map(move |&merged_row| (merged_row, live))
            })
            .collect();
        Self {
            input,
            merged,
            rules: input.policy.active_rules().collect(),
            threshold: input.policy.merge_threshold(),
            protected: units().filter_map(protection).collect(),
            contradictory: partners(input, &live_of),
            apart_groups: apart_groups(input, units()),
            shared_vectors: input.detection.shared_vector_rows.iter().copied().collect(),
            flagged: sides(input, &decisions.open_flags),
            ever_flagged: sides(input, &decisions.counted_flags),
            undone: if decisions.undone.is_empty() {
                BTreeMap::new()
            } else {
                units().filter_map(undone).collect()
            },
            merged_rows: units().collect(),
            live_of,
        }
    }

    pub(super) fn memory(&self, index: MemoryIndex) -> &'a Memory {
        self.merged.memory(self.input, index)
    }

    /// Returns a memory as a merge into it leaves it.
    pub(super) fn after(&self, row: MemoryIndex, merge: Option<&Merge<'_>>) -> Cow<'a, Memory> {
        let policy = self.input.policy;
        let after = merge.and_then(|merge| merge.survivor_after(|row| self.memory(row), policy));
        after.map_or(Cow::Borrowed(self.memory(row)), Cow::Owned)
    }

    /// Says in words how the texts of a row and a survivor differ: by the steps of the proof, where there is one.
    pub(super) fn said(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<String> {
        if survivor.key == row.key {
            return None;
        }
        let judgement = self.input.guard.judge(row.index, survivor.index);
        let (own, other) = (&row.memory.content, &survivor.memory.content);
        let differences = if judgement.verdict.is_proven() {
            conditions::proof_steps(&judgement, own, other)
        } else {
            conditions::differences(&judgement, own, other)
        };
        (!differences.is_empty()).then(|| format!("{}: {}", row.memory.id, differences.join(", ")))
    }

    /// Returns the live row of a row's unit.
    pub(super) fn live(&self, row: MemoryIndex) -> MemoryIndex {
        self.live_of.get(&row).copied().unwrap_or(row)
    }

    /// Tells whether a memory is a side of an open flag.
    pub(super) fn is_flagged(&self, row: MemoryIndex) -> bool {
        self.flagged.contains(&row)
    }

    /// Tells whether a memory is a side of an open flag, or of one that a person took back.
    pub(super) fn was_flagged(&self, row: MemoryIndex) -> bool {
        self.ever_flagged.contains(&row)
    }

    /// Tells whether a person took back a run's changes of a unit.
    pub(super) fn is_taken_back(&self, live: MemoryIndex) -> bool {
        self.undone.contains_key(&live)
    }

    /// Tells whether a person took back a run's changes of one of two units when the other was there already.
    pub(super) fn is_settled(&self, left: MemoryIndex, right: MemoryIndex) -> bool {
        let before = |unit: MemoryIndex, at: Instant| {
            let merged_rows = self.merged_rows.get(&unit).copied().unwrap_or_default();
            let rows = std::iter::once(unit).chain(merged_rows.iter().copied());
            let reworded = &self.input.snapshot.decisions.reworded;
            rows.map(|row| self.memory(row)).any(|memory| {
                let made = memory.created_at.instant();
                !reworded.contains(&memory.id) && made.is_none_or(|made| made <= at)
            })
        };
        let undone = |unit: MemoryIndex, other: MemoryIndex| {
            self.undone.get(&unit).is_some_and(|&at| before(other, at))
        };
        !self.undone.is_empty() && (undone(left, right) || undone(right, left))
    }

    pub(super) fn member(&self, index: MemoryIndex) -> Member<'a> {
        let memory = self.memory(index);
        let merged_rows = self.merged_rows.get(&index).copied().unwrap_or_default();
        Member { index, memory, key: memory.text_key(), merged_rows }
    }

    /// The canonical similarity, unless a vector is one that says nothing.
    pub(super) fn similarity(&self, left: MemoryIndex, right: MemoryIndex) -> Option<Similarity> {
        let speaks = |index| !self.shared_vectors.contains(&index);
        (speaks(left) && speaks(right)).then(|| (self.input.similarity)(left, right)).flatten()
    }

    /// Returns the built-in embedding where a similarity of memories rests on it: one of them has no vector of its own.
    pub(super) fn built_in(
        &self,
        similarity: Option<Similarity>,
        memories: impl IntoIterator<Item = MemoryIndex>,
    ) -> Option<String> {
        let mut memories = memories.into_iter();
        let rests_on_it = similarity.is_some() && memories.any(|m| !has_vector(self.memory(m)));
        rests_on_it.then(|| embedding::MODEL.to_owned())
    }

    /// The similarity that rules see: equal strict keys count as 1 where the exact tier is on.
    pub(super) fn effective(&self, left: &Member<'_>, right: &Member<'_>) -> Option<Similarity> {
        if self.input.policy.detect.exact_text && left.key == right.key {
            return Some(Similarity::ONE);
        }
        self.similarity(left.index, right.index)
    }

    /// Tells whether too many texts stand under a memory's vector.
    pub(super) fn shares_vector(&self, row: MemoryIndex) -> bool {
        self.shared_vectors.contains(&row)
    }

    pub(super) fn contradict(&self, left: MemoryIndex, right: MemoryIndex) -> bool {
        self.contradictory.get(&left).is_some_and(|partners| partners.contains(&right))
    }

    /// Tells whether a memory contradicts any other.
    pub(super) fn is_contradicted(&self, index: MemoryIndex) -> bool {
        self.contradictory.contains_key(&index)
    }

    /// Tells whether a rule merges, and the survivor it wants.
    pub(super) fn merge_rules(&self) -> impl Iterator<Item = &'a Rule> + '_ {
        self.rules.iter().copied().filter(|rule| rule.then.action == RuleAction::Merge)
    }

    /// Returns why a row may not merge into a survivor whatever the rules say, if so.
    pub(super) fn rejection(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Rejection> {
        if !has_vector(survivor.memory) && has_vector(row.memory) {
            let reason = format!("survivor {} has no embedding", survivor.memory.id);
            return Some(Rejection::new("embedding", reason));
        }
        if share(self.apart_groups(survivor.index), self.apart_groups(row.index)) {
            let reason = format!("a person keeps it apart from {}", survivor.memory.id);
            return Some(Rejection::new("decision", reason));
        }
        if self.is_settled(survivor.index, row.index) {
            let reason =
                format!("a person took back what a run did to it or {}", survivor.memory.id);
            return Some(Rejection::new("decision", reason));
        }
        if self.is_flagged(row.index) {
            let reason = "it is in an open conflict: settle that first (memfold review --flags)";
            return Some(Rejection::new("flag", reason));
        }
        if self.contradict(survivor.index, row.index) {
            return Some(Rejection::new("guard", format!("contradicts {}", survivor.memory.id)));
        }
        self.too_far(survivor, row).or_else(|| self.lacking(survivor, row))
    }

    /// Returns the keep-both groups that a unit's live row or a merged row is in, ascending. Units of one group
    /// are kept apart.
    pub(super) fn apart_groups(&self, live: MemoryIndex) -> &[u32] {
        self.apart_groups.get(&live).map_or(&[], Vec::as_slice)
    }

    /// The row, or anything once merged into it, is below the threshold to the survivor.
    fn too_far(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Rejection> {
        let threshold = self.threshold?;
        let found = self.effective(survivor, row);
        let id = &survivor.memory.id;
        let Some(found) = found.or_else(|| self.equal_text(survivor, row)) else {
            let reason = format!("no similarity to {id} is known and the texts differ");
            return Some(Rejection::new("similarity", reason));
        };
        let of_merged = row
            .merged_rows
            .iter()
            .filter_map(|&merged_row| self.similarity(survivor.index, merged_row));
        let smallest = of_merged.min().map_or(found, |merged_row| merged_row.min(found));
        let whose = if smallest < found { "a row merged into it is at " } else { "" };
        let equal = self.equal_text(survivor, row).is_some();
        let far = if equal { false } else { smallest < threshold };
        far.then(|| {
            let value = smallest.get();
            let reason = format!("{whose}similarity {value:.4} to {id}, below {threshold}");
            Rejection::new("similarity", reason)
        })
    }

    fn equal_text(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Similarity> {
        (survivor.key == row.key && self.links_equal_text()).then_some(Similarity::ONE)
    }

    /// Tells whether equal texts merge whatever their vectors are.
    pub(super) const fn links_equal_text(&self) -> bool {
        self.input.policy.detect.exact_text
    }

    /// The survivor's text lacks facts of the row or of a text merged into it. Of equal texts
    /// each says as much as the other, also of the texts merged in.
    fn lacking(&self, survivor: &Member<'_>, row: &Member<'_>) -> Option<Rejection> {
        if !self.input.policy.guard.enabled || survivor.key == row.key {
            return None;
        }
        let merged_rows = row
            .merged_rows
            .iter()
            .copied()
            .filter(|&merged_row| self.memory(merged_row).text_key() != survivor.key);
        std::iter::once(row.index).chain(merged_rows).find_map(|index| self.unsaid(survivor, index))
    }

    fn unsaid(&self, survivor: &Member<'_>, row: MemoryIndex) -> Option<Rejection> {
        let judgement = self.input.guard.judge(row, survivor.index);
        if judgement.says_all(Side::Right) {
            return None;
        }
        let (id, content) = (&survivor.memory.id, &self.memory(row).content);
        let reason = match judgement.verdict {
            Verdict::Extends => {
                let lacks = conditions::lacks(&judgement, content);
                format!("survivor {id} lacks {}", lacks.join(", "))
            }
            Verdict::Undecided => format!("not proven to say the same as {id}"),
            _ => {
                let shown = conditions::differences(&judgement, content, &survivor.memory.content);
                let colon = if shown.is_empty() { "" } else { ": " };
                format!("kept apart from {id}{colon}{}", shown.join(", "))
            }
        };
        Some(Rejection::new("guard", reason))
    }

    /// Tells whether one text is proven to say all that another says, and more.
    pub(super) fn says_more(&self, one: &Member<'_>, other: &Member<'_>) -> bool {
        one.key != other.key && self.input.policy.guard.enabled && {
            let judgement = self.input.guard.judge(one.index, other.index);
            judgement.verdict == Verdict::Extends && judgement.says_all(Side::Left)
        }
    }

    /// Tells whether one text is proven to say all that another says, and is written better.
    pub(super) fn is_written_better(&self, one: &Member<'_>, other: &Member<'_>) -> bool {
        one.key != other.key && self.input.policy.guard.enabled && {
            let judgement = self.input.guard.judge(one.index, other.index);
            judgement.verdict == Verdict::Same
                && is_written_better(&judgement, &one.memory.content, &other.memory.content)
        }
    }

    /// Tells whether a row is proven to say the same as a survivor, neither more nor less.
    pub(super) fn is_same(&self, survivor: &Member<'_>, row: &Member<'_>) -> bool {
        survivor.key == row.key
            || self.input.policy.guard.enabled
                && self.input.guard.judge(row.index, survivor.index).verdict == Verdict::Same
    }
}

/// Tells whether a memory has a valid, fresh vector.
pub(super) fn has_vector(memory: &Memory) -> bool {
    matches!(memory.embedding, Embedding::Vector { .. })
}

fn apart_groups<'a>(
    input: &PlanInput<'_>,
    units: impl Iterator<Item = (MemoryIndex, &'a [MemoryIndex])>,
) -> BTreeMap<MemoryIndex, Vec<u32>> {
    let (memories, apart) = (&input.snapshot.memories, &input.snapshot.decisions.keep_both);
    if apart.is_empty() {
        return BTreeMap::new();
    }
    let groups = |(live, merged_rows): (MemoryIndex, &[MemoryIndex])| {
        let rows = std::iter::once(&live).chain(merged_rows);
        let groups = rows.flat_map(|row| apart.groups_of(&memories[row.index()].id));
        let groups: BTreeSet<u32> = groups.copied().collect();
        (!groups.is_empty()).then(|| (live, groups.into_iter().collect()))
    };
    units.filter_map(groups).collect()
}

fn partners(
    input: &PlanInput<'_>,
    live_of: &BTreeMap<MemoryIndex, MemoryIndex>,
) -> BTreeMap<MemoryIndex, BTreeSet<MemoryIndex>> {
    let live = |row: MemoryIndex| live_of.get(&row).copied().unwrap_or(row);
    let mut partners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for &Contradiction { older, newer, .. } in input.detection.all_contradictions() {
        let (older, newer) = (live(older), live(newer));
        if older != newer {
            partners.entry(older).or_default().insert(newer);
            partners.entry(newer).or_default().insert(older);
        }
    }
    partners
}

/// The live memories that flags name.
fn sides(input: &PlanInput<'_>, flags: &FlaggedPairs) -> BTreeSet<MemoryIndex> {
    if flags.is_empty() {
        return BTreeSet::new();
    }
    let sides: BTreeSet<_> = flags.iter().flat_map(|(left, right)| [left, right]).collect();
    let units = input.detection.units.iter().map(|unit| unit.live);
    units.filter(|row| sides.contains(&input.snapshot.memories[row.index()].id)).collect()
}

/// Returns an unprotected survivor with the values it takes over from other memories, in their order.
pub fn merged_values<'a>(
    survivor: &Memory,
    merged: impl IntoIterator<Item = &'a Memory>,
    policy: &MergePolicy,
) -> Memory {
    let mut after = survivor.clone();
    let mut categories: CategoryList = survivor.categories.iter().collect();
    let own = survivor.categories.iter().filter_map(|category| attribute_of(category));
    let mut attributes: BTreeSet<&str> = own.map(|(name, _)| name).collect();
    for row in merged {
        for category in &row.categories {
            // An attribute has one value: the survivor's, else the first that comes along.
            if attribute_of(category).is_none_or(|(name, _)| attributes.insert(name)) {
                categories.add(category);
            }
        }
        after.importance = after.importance.max(row.importance.min(policy.importance_cap));
        after.access_count = after.access_count.saturating_add(row.access_count);
        after.expires_at = after.expires_at.zip(row.expires_at).map(|(a, b)| a.max(b));
    }
    after.categories = categories.into_list();
    after
}

/// Returns the categories where they changed.
pub(super) fn new_categories(after: &Memory, before: &Memory) -> Option<Vec<String>> {
    let categories = || after.categories.iter().map(ToString::to_string).collect();
    (after.categories != before.categories).then(categories)
}

/// Returns the importance, where it is not that before.
pub(super) fn new_importance(after: &Memory, before: &Memory) -> Option<f64> {
    after.importance.total_cmp(&before.importance).is_ne().then_some(after.importance)
}

/// Returns the access count of each memory of a unit without the reads it took over by merges, at most.
pub(super) fn largest_own_count(
    memories: &[Memory],
    live: MemoryIndex,
    merged_rows: &[MemoryIndex],
) -> i64 {
    let unit = || std::iter::once(&live).chain(merged_rows).map(|index| &memories[index.index()]);
    let taken_over = |survivor: &Memory| -> i64 {
        let into = unit().filter(|row| row.merged_into.as_ref() == Some(&survivor.id));
        into.fold(0_i64, |sum, row| sum.saturating_add(row.access_count))
    };
    if merged_rows.is_empty() {
        return memories[live.index()].access_count;
    }
    unit()
        .map(|memory| memory.access_count.saturating_sub(taken_over(memory)).max(0))
        .max()
        .unwrap_or(0)
}

/// The changes by the merges planned so far.
#[derive(Default)]
pub(super) struct Merged {
    /// Survivors with their new values.
    survivors: BTreeMap<MemoryIndex, Memory>,
    /// Everything that was ever merged into a survivor.
    merged_rows: BTreeMap<MemoryIndex, Vec<MemoryIndex>>,
    merged: BTreeSet<MemoryIndex>,
}

impl Merged {
    /// Takes over merges of one round.
    pub(super) fn add(&mut self, context: &Context<'_>, merges: &[Merge<'_>]) {
        let base = |live: MemoryIndex| {
            context.merged_rows.get(&live).map_or_else(Vec::new, |g| g.to_vec())
        };
        for merge in merges {
            let mut own =
                self.merged_rows.remove(&merge.survivor).unwrap_or_else(|| base(merge.survivor));
            for &row in &merge.merged {
                own.push(row);
                own.extend(self.merged_rows.remove(&row).unwrap_or_else(|| base(row)));
                self.merged.insert(row);
            }
            self.merged_rows.insert(merge.survivor, own);
            let memory = |row: MemoryIndex| self.memory(context.input, row);
            if let Some(after) = merge.survivor_after(memory, context.input.policy) {
                self.survivors.insert(merge.survivor, after);
            }
        }
    }

    /// Returns a memory as the merges leave it.
    pub(super) fn memory<'m>(&'m self, input: &PlanInput<'m>, row: MemoryIndex) -> &'m Memory {
        self.survivors.get(&row).unwrap_or_else(|| &input.snapshot.memories[row.index()])
    }

    /// Returns the rows merged into a survivor of these merges.
    pub(super) fn merged_rows(&self, survivor: MemoryIndex) -> Option<&[MemoryIndex]> {
        self.merged_rows.get(&survivor).map(Vec::as_slice)
    }

    /// Tells whether a memory was merged.
    pub(super) fn is_merged(&self, row: MemoryIndex) -> bool {
        self.merged.contains(&row)
    }
}

/// Adds merges of a further round to the earlier ones: a row that merges into an earlier survivor joins its merge, and
/// an earlier survivor that merges itself brings its own rows along.
pub(super) fn combine<'a>(merges: &mut Vec<Merge<'a>>, round: Vec<Merge<'a>>) {
    let mut places: BTreeMap<MemoryIndex, usize> =
        merges.iter().enumerate().map(|(at, merge)| (merge.survivor, at)).collect();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for mut next in round {
        let mut merged = Vec::new();
        for &row in &next.merged {
            merged.push(row);
            if let Some(at) = places.remove(&row) {
                let before = &mut merges[at];
                merged.append(&mut before.merged);
                next.similarity = smaller(next.similarity, before.similarity);
                next.equal_text &= before.equal_text;
                taken.insert(at);
            }
        }
        next.merged = merged;
        if let Some(&at) = places.get(&next.survivor) {
            let merge = &mut merges[at];
            merge.merged.extend(next.merged);
            merge.similarity = smaller(merge.similarity, next.similarity);
            merge.equal_text &= next.equal_text;
        } else {
            places.insert(next.survivor, merges.len());
            merges.push(next);
        }
    }
    let mut at = 0..;
    merges.retain(|_| !at.next().is_some_and(|at| taken.contains(&at)));
}

fn smaller<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).min()
}
