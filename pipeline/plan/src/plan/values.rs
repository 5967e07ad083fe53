//! What a memory's columns are after the merges of a plan.

use super::fold::Merge;
use super::group::Context;
use crate::policy::{CategoryMerge, MergePolicy};
use memfold_model::categories::CategoryList;
use memfold_model::memory::{Memory, MemoryIndex};

/// The columns that rules look at and merges change.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    pub(crate) categories: Vec<Box<str>>,
    pub(crate) importance: f64,
    /// The sum over a merge.
    pub(crate) access_count: i64,
}

impl Values {
    /// A memory as it is.
    pub(super) fn of(memory: &Memory) -> Self {
        Self {
            categories: memory.categories.clone(),
            importance: memory.importance,
            access_count: memory.access_count,
        }
    }

    /// A survivor after its merge; a protected one stays as it is.
    pub(super) fn after(context: &Context<'_>, merge: &Merge<'_>) -> Self {
        let survivor = context.memory(merge.survivor);
        if merge.survivor_protected {
            return Self::of(survivor);
        }
        let absorbed = merge.absorbed.iter().map(|&row| context.memory(row));
        Self::merged(survivor, absorbed, &context.input.policy.merge)
    }

    /// An unprotected survivor after it absorbed other memories, in their order.
    pub fn merged<'a>(
        survivor: &Memory,
        absorbed: impl IntoIterator<Item = &'a Memory>,
        policy: &MergePolicy,
    ) -> Self {
        let mut values = Self::of(survivor);
        let mut categories: CategoryList = survivor.categories.iter().collect();
        for row in absorbed {
            if policy.categories == CategoryMerge::Union {
                row.categories.iter().for_each(|category| categories.add(category));
            }
            values.importance = values.importance.max(row.importance.min(policy.importance_cap));
            values.access_count = values.access_count.saturating_add(row.access_count);
        }
        values.categories = categories.into_list();
        values
    }

    /// The categories, where they are not those of the memory.
    pub fn new_categories(&self, memory: &Memory) -> Option<Vec<String>> {
        (self.categories != memory.categories)
            .then(|| self.categories.iter().map(ToString::to_string).collect())
    }

    /// The importance, where it is not that of the memory.
    pub fn new_importance(&self, memory: &Memory) -> Option<f64> {
        self.importance.total_cmp(&memory.importance).is_ne().then_some(self.importance)
    }
}

/// Returns the access count of each memory of a unit without what it took over by merges, at most.
pub(super) fn largest_own_count(
    memories: &[Memory],
    live: MemoryIndex,
    ghosts: &[MemoryIndex],
) -> i64 {
    let unit = || std::iter::once(&live).chain(ghosts).map(|index| &memories[index.index()]);
    let taken_over = |survivor: &Memory| -> i64 {
        let folded = unit().filter(|ghost| {
            matches!(&ghost.standing, memfold_model::memory::Standing::Ghost { survivor: into } if *into == survivor.id)
        });
        folded.fold(0_i64, |sum, ghost| sum.saturating_add(ghost.access_count))
    };
    if ghosts.is_empty() {
        return memories[live.index()].access_count;
    }
    unit()
        .map(|memory| memory.access_count.saturating_sub(taken_over(memory)).max(0))
        .max()
        .unwrap_or(0)
}
