//! Units: live rows in scope with everything ever folded into them, by their newest row.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use super::Unit;
use crate::policy::Scope;
use memfold_model::Snapshot;
use memfold_model::memory::{CreatedAt, Exclusion, Memory, MemoryId, MemoryIndex, Standing};
use memfold_model::time::Instant;

/// Orders newest first: by instant descending (unreadable last), then id bytes descending.
#[must_use]
pub fn newest_first(a: &Memory, b: &Memory) -> Ordering {
    let key = |memory: &Memory| memory.created_at.instant();
    key(b).cmp(&key(a)).then_with(|| b.id.as_str().as_bytes().cmp(a.id.as_str().as_bytes()))
}

/// The key of [`newest_first`].
fn age_key(memory: &Memory) -> (Reverse<Option<Instant>>, Reverse<MemoryId>) {
    (Reverse(memory.created_at.instant()), Reverse(memory.id.clone()))
}

/// Units in scope and how many live rows the scope leaves out.
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    pub(super) out_of_scope: u64,
    /// Ghosts whose survivor is gone or not live.
    pub(super) stray_ghosts: u64,
}

/// Gathers the units of a snapshot.
pub(super) fn gather(snapshot: &Snapshot, scope: &Scope) -> Units {
    let memories = &snapshot.memories;
    let (live, out_of_scope) = live_in_scope(memories, scope);
    let mut units: Vec<Unit> =
        live.into_iter().map(|live| Unit { live, ghosts: Vec::new() }).collect();
    let by_live: HashMap<MemoryIndex, usize> =
        units.iter().enumerate().map(|(i, unit)| (unit.live, i)).collect();
    let ghosts: Vec<MemoryIndex> = all(memories)
        .filter(|&i| matches!(memories[i.index()].standing, Standing::Ghost { .. }))
        .collect();
    let mut stray_ghosts = 0;
    if !ghosts.is_empty() {
        let survivors = Survivors::new(snapshot);
        for ghost in ghosts {
            match survivors.of(ghost) {
                // A survivor outside the scope keeps its ghosts out, too.
                Some(survivor) => {
                    if let Some(&unit) = by_live.get(&survivor) {
                        units[unit].ghosts.push(ghost);
                    }
                }
                None => stray_ghosts += 1,
            }
        }
    }
    for unit in &mut units {
        unit.ghosts.sort_by(|a, b| memories[a.index()].id.cmp(&memories[b.index()].id));
    }
    // A row that folded into an older one keeps its place: else the next run would cluster anew.
    if units.iter().any(|unit| !unit.ghosts.is_empty()) {
        units.sort_by_cached_key(|unit| {
            let members = std::iter::once(&unit.live).chain(&unit.ghosts);
            members.map(|member| age_key(&memories[member.index()])).min()
        });
    }
    Units { units, out_of_scope, stray_ghosts }
}

fn all(memories: &[Memory]) -> impl Iterator<Item = MemoryIndex> {
    (0..memories.len() as u32).map(MemoryIndex)
}

/// The live rows in scope, newest first. Archived rows keep their place among the newest: else each run would let in
/// as many older ones as it folds.
fn live_in_scope(memories: &[Memory], scope: &Scope) -> (Vec<MemoryIndex>, u64) {
    let is_live = |i: &MemoryIndex| memories[i.index()].standing == Standing::Live;
    let takes_place = |i: &MemoryIndex| match memories[i.index()].standing {
        Standing::Live => true,
        Standing::Ghost { .. } | Standing::Excluded(Exclusion::Archived) => scope.newest.is_some(),
        Standing::Excluded(_) => false,
    };
    let mut kept: Vec<MemoryIndex> = all(memories)
        .filter(takes_place)
        .filter(|i| in_scope(&memories[i.index()], scope))
        .collect();
    kept.sort_by(|&a, &b| newest_first(&memories[a.index()], &memories[b.index()]));
    if let Some(newest) = scope.newest {
        kept.truncate(newest.get());
        kept.retain(is_live);
    }
    let total = all(memories).filter(is_live).count();
    let out_of_scope = (total - kept.len()) as u64;
    (kept, out_of_scope)
}

/// The categories of a memory; those of an archived one as they were before.
pub(super) fn own_categories(memory: &Memory) -> impl Iterator<Item = &str> {
    let is_live = memory.standing == Standing::Live;
    memory.categories.iter().map(move |category| match category.strip_prefix("archive/") {
        Some(original) if !is_live => original,
        _ => category,
    })
}

fn in_scope(memory: &Memory, scope: &Scope) -> bool {
    let category = scope.categories.is_empty()
        || scope.categories.iter().any(|c| own_categories(memory).any(|m| *m == **c));
    let source = scope.sources.is_empty()
        || scope.sources.iter().any(|prefix| memory.root_source.starts_with(prefix.as_str()));
    let window = match &memory.created_at {
        CreatedAt::At(at) => {
            scope.since.is_none_or(|since| *at >= since)
                && scope.until.is_none_or(|until| *at < until)
        }
        // An unreadable time counts as oldest.
        CreatedAt::Unreadable(_) => scope.since.is_none(),
    };
    category && source && window
}

/// Finds the live end of a chain of survivors.
struct Survivors<'a> {
    snapshot: &'a Snapshot,
    by_id: HashMap<&'a MemoryId, MemoryIndex>,
}

impl<'a> Survivors<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let memories = &snapshot.memories;
        Self { snapshot, by_id: all(memories).map(|i| (&memories[i.index()].id, i)).collect() }
    }

    fn of(&self, ghost: MemoryIndex) -> Option<MemoryIndex> {
        let mut at = ghost;
        // A chain longer than the store is a cycle.
        for _ in 0..=self.snapshot.memories.len() {
            let memory = &self.snapshot.memories[at.index()];
            let next = match &memory.standing {
                Standing::Live => return Some(at),
                Standing::Excluded(_) => return None,
                Standing::Ghost { survivor } => survivor,
            };
            at = *self.by_id.get(next)?;
            if at == ghost {
                return None;
            }
        }
        None
    }
}
