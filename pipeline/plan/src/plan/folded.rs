//! [`Folded`]: the memories as the merges planned so far leave them.

use std::collections::{BTreeMap, BTreeSet};

use super::PlanInput;
use super::fold::Merge;
use super::group::Context;
use super::values::Values;
use memfold_model::memory::{Memory, MemoryIndex};

/// What the merges planned so far change.
#[derive(Default)]
pub(super) struct Folded {
    /// Survivors with their new values.
    survivors: BTreeMap<MemoryIndex, Memory>,
    /// Everything that was ever folded into a survivor.
    ghosts: BTreeMap<MemoryIndex, Vec<MemoryIndex>>,
    absorbed: BTreeSet<MemoryIndex>,
}

impl Folded {
    /// Takes over merges of one round.
    pub(super) fn add(&mut self, context: &Context<'_>, merges: &[Merge<'_>]) {
        let base =
            |live: MemoryIndex| context.ghosts.get(&live).map_or_else(Vec::new, |g| g.to_vec());
        for merge in merges {
            let mut own =
                self.ghosts.remove(&merge.survivor).unwrap_or_else(|| base(merge.survivor));
            for &row in &merge.absorbed {
                own.push(row);
                own.extend(self.ghosts.remove(&row).unwrap_or_else(|| base(row)));
                self.absorbed.insert(row);
            }
            self.ghosts.insert(merge.survivor, own);
            if !merge.survivor_protected {
                let survivor = self.after(context.input, merge);
                self.survivors.insert(merge.survivor, survivor);
            }
        }
    }

    fn after(&self, input: &PlanInput<'_>, merge: &Merge<'_>) -> Memory {
        let memory = |row: MemoryIndex| self.memory(input, row);
        let survivor = memory(merge.survivor);
        let absorbed = || merge.absorbed.iter().map(|&row| memory(row));
        let values = Values::merged(survivor, absorbed(), &input.policy.merge);
        let ends = std::iter::once(survivor).chain(absorbed()).map(|memory| memory.expires_at);
        let latest = ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)));
        Memory {
            categories: values.categories,
            importance: values.importance,
            access_count: values.access_count,
            expires_at: latest.flatten(),
            ..survivor.clone()
        }
    }

    /// Returns a memory as the merges leave it.
    pub(super) fn memory<'m>(&'m self, input: &PlanInput<'m>, row: MemoryIndex) -> &'m Memory {
        self.survivors.get(&row).unwrap_or_else(|| &input.snapshot.memories[row.index()])
    }

    /// Returns what was folded into a survivor of these merges.
    pub(super) fn ghosts(&self, survivor: MemoryIndex) -> Option<&[MemoryIndex]> {
        self.ghosts.get(&survivor).map(Vec::as_slice)
    }

    /// Tells whether a memory was absorbed.
    pub(super) fn is_absorbed(&self, row: MemoryIndex) -> bool {
        self.absorbed.contains(&row)
    }
}

/// Adds merges of a further round to those before: what folds into a survivor of theirs joins it, and a survivor
/// of theirs that is absorbed brings along what it absorbed.
pub(super) fn combine<'a>(merges: &mut Vec<Merge<'a>>, round: Vec<Merge<'a>>) {
    let mut places: BTreeMap<MemoryIndex, usize> =
        merges.iter().enumerate().map(|(at, merge)| (merge.survivor, at)).collect();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for mut next in round {
        let mut absorbed = Vec::new();
        for &row in &next.absorbed {
            absorbed.push(row);
            if let Some(at) = places.remove(&row) {
                let before = &mut merges[at];
                absorbed.append(&mut before.absorbed);
                next.similarity = smaller(next.similarity, before.similarity);
                next.equal_text &= before.equal_text;
                taken.insert(at);
            }
        }
        next.absorbed = absorbed;
        if let Some(&at) = places.get(&next.survivor) {
            let merge = &mut merges[at];
            merge.absorbed.extend(next.absorbed);
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
