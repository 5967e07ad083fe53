//! Decisions of earlier runs and of people, as recorded in the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::{MemoryId, named};
use crate::time::Instant;

/// Decisions that a plan must honour.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Merged id → the id it was merged into, from lineage and provenance.
    pub merged_into: BTreeMap<MemoryId, MemoryId>,
    /// Memories that a person keeps apart.
    pub keep_both: KeepApart,
    /// Access count at the last promotion of a memory.
    pub promoted_at_access: BTreeMap<MemoryId, i64>,
    /// Actions on a memory that a person took back.
    pub declined: BTreeSet<(MemoryId, SingleAction)>,
    /// A run's changes of a memory that a person took back, and when last. Nothing is done to such a memory on
    /// its own, and nothing to it together with memories that were there then.
    pub undone: BTreeMap<MemoryId, Instant>,
    /// Memories whose text changed after one of their merges was undone: they count as new.
    pub reworded: BTreeSet<MemoryId>,
    /// Pairs that were flagged before.
    pub flagged: FlaggedPairs,
    /// Flagged pairs that wait for a person.
    pub open_flags: FlaggedPairs,
    /// Flagged pairs that take room under the caps: pairs that wait, and pairs with a flag that was undone.
    pub counted_flags: FlaggedPairs,
}

impl Decisions {
    /// Forgets which merges a person undid, so that the same memories may merge again.
    pub fn allow_undone_merges(&mut self) {
        for member in self.keep_both.undone_members() {
            self.undone.remove(member);
        }
        self.keep_both.remove_undone_groups();
    }
}

named! {
    /// An action on one memory.
    pub enum SingleAction {
        /// Raise importance.
        Promote = "promote",
        /// Archive.
        Archive = "archive",
        /// Summarise together with others.
        Summarize = "summarize",
        /// Mark as superseded, or as valid.
        Supersede = "supersede",
    }
}

/// Groups whose members stay apart from each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeepApart {
    /// The numbers of each member's groups, ascending.
    groups: BTreeMap<MemoryId, Vec<u32>>,
    count: u32,
    /// Groups that an undo made.
    undone: BTreeSet<u32>,
}

impl KeepApart {
    /// Keeps the members apart from each other; a group of fewer than two says nothing.
    pub fn insert_group(&mut self, members: impl IntoIterator<Item = MemoryId>) {
        let members: BTreeSet<MemoryId> = members.into_iter().collect();
        if members.len() < 2 {
            return;
        }
        for member in members {
            self.groups.entry(member).or_default().push(self.count);
        }
        self.count += 1;
    }

    /// As [`Self::insert_group`], for the memories of a merge that was undone. They do not merge into each other, but
    /// are clustered as before the merge: else an undo would set others free to merge.
    pub fn insert_undone_group(&mut self, members: impl IntoIterator<Item = MemoryId>) {
        let number = self.count;
        self.insert_group(members);
        if self.count > number {
            self.undone.insert(number);
        }
    }

    /// Returns the memories with a merge that an undo took back.
    pub(crate) fn undone_members(&self) -> impl Iterator<Item = &MemoryId> {
        let is_undone = |groups: &&Vec<u32>| groups.iter().any(|group| self.undone.contains(group));
        self.groups.iter().filter(move |(_, groups)| is_undone(groups)).map(|(member, _)| member)
    }

    fn remove_undone_groups(&mut self) {
        let undone = std::mem::take(&mut self.undone);
        self.groups.retain(|_, groups| {
            groups.retain(|group| !undone.contains(group));
            !groups.is_empty()
        });
    }

    /// Returns the groups of a memory that keep clusters apart, ascending.
    pub fn separating_groups_of(&self, memory: &MemoryId) -> impl Iterator<Item = u32> {
        self.groups_of(memory).iter().copied().filter(|group| !self.undone.contains(group))
    }

    /// Tells whether two memories are kept apart.
    #[must_use]
    pub fn are_apart(&self, a: &MemoryId, b: &MemoryId) -> bool {
        a != b && share(self.groups_of(a), self.groups_of(b))
    }

    /// Tells whether nothing is kept apart.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the numbers of the groups that a memory is in, ascending.
    #[must_use]
    pub(crate) fn groups_of(&self, memory: &MemoryId) -> &[u32] {
        self.groups.get(memory).map_or(&[], Vec::as_slice)
    }
}

/// Tells whether two ascending lists have a number in common.
pub fn share(a: &[u32], b: &[u32]) -> bool {
    let (shorter, longer) = if a.len() < b.len() { (a, b) } else { (b, a) };
    shorter.iter().any(|number| longer.binary_search(number).is_ok())
}

/// Pairs of memories, whichever of the two is named first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlaggedPairs(BTreeSet<(MemoryId, MemoryId)>);

impl FlaggedPairs {
    /// Adds a pair.
    pub fn insert(&mut self, a: MemoryId, b: MemoryId) {
        self.0.insert(if a < b { (a, b) } else { (b, a) });
    }

    /// Tells whether a pair is there.
    #[must_use]
    pub fn contains(&self, a: &MemoryId, b: &MemoryId) -> bool {
        let (smaller, larger) = if a < b { (a, b) } else { (b, a) };
        !self.0.is_empty() && self.0.contains(&(smaller.clone(), larger.clone()))
    }

    /// Returns the pairs, the smaller id of each first.
    pub fn iter(&self) -> impl Iterator<Item = (&MemoryId, &MemoryId)> {
        self.0.iter().map(|(smaller, larger)| (smaller, larger))
    }

    /// Returns how many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the hash by which a decision about a text is void once the text changes: 32 hex digits.
#[must_use]
pub fn content_hash(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> MemoryId {
        MemoryId::new(format!("m{number:05}"))
    }

    #[test]
    fn merges_that_were_undone_can_be_allowed_again() {
        let mut decisions = Decisions::default();
        decisions.keep_both.insert_undone_group([id(1), id(2)]);
        decisions.keep_both.insert_group([id(2), id(3)]);
        for member in [1, 2, 4] {
            decisions.undone.insert(id(member), Instant(0));
        }
        decisions.allow_undone_merges();
        assert!(!decisions.keep_both.are_apart(&id(1), &id(2)));
        assert!(
            decisions.keep_both.are_apart(&id(2), &id(3)),
            "what a person keeps apart stays apart"
        );
        assert_eq!(decisions.undone.keys().collect::<Vec<_>>(), [&id(4)]);
        assert_eq!(decisions.keep_both.undone_members().count(), 0);
    }

    #[test]
    fn members_of_a_common_group_are_apart() {
        let mut apart = KeepApart::default();
        apart.insert_group([id(1)]);
        apart.insert_group([id(2), id(2)]);
        assert!(apart.is_empty());
        apart.insert_group([id(1), id(2), id(3)]);
        apart.insert_group([id(4), id(3)]);
        for (a, b, expected) in [(1, 2, true), (3, 1, true), (3, 4, true), (1, 4, false)] {
            assert_eq!(apart.are_apart(&id(a), &id(b)), expected, "{a} {b}");
            assert_eq!(apart.are_apart(&id(b), &id(a)), expected, "{b} {a}");
        }
        assert!(!apart.are_apart(&id(1), &id(1)) && !apart.are_apart(&id(1), &id(9)));
    }

    #[test]
    fn a_group_holds_each_member_once() {
        let mut apart = KeepApart::default();
        apart.insert_group((0..10_000).map(id));
        assert_eq!(apart.groups.len(), 10_000);
        assert!(apart.groups.values().all(|groups| groups == &[0]));
        assert!(apart.are_apart(&id(0), &id(9_999)));
    }

    #[test]
    fn flagged_pairs_have_no_order() {
        let mut flagged = FlaggedPairs::default();
        flagged.insert(id(2), id(1));
        flagged.insert(id(1), id(2));
        assert_eq!(flagged.len(), 1);
        assert!(flagged.contains(&id(1), &id(2)) && flagged.contains(&id(2), &id(1)));
        assert!(!flagged.contains(&id(1), &id(3)));
    }
}
