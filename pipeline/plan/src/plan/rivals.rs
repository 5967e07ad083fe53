//! [`Rivals`]: rows that may fold into one survivor, but not together.

use std::collections::BTreeMap;

use super::group::{Context, Member, Obstacle};
use memfold_model::memory::MemoryIndex;

/// The rows that are about to fold into a survivor, and what they forbid others.
pub(super) struct Rivals<'c, 'a> {
    context: &'c Context<'a>,
    rows: Vec<MemoryIndex>,
    /// The first row of each keep-both group.
    kept_apart: BTreeMap<u32, usize>,
}

impl<'c, 'a> Rivals<'c, 'a> {
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

    /// Returns what keeps a row from folding together with those that were added, if anything.
    pub(super) fn obstacle(&self, row: &Member<'_>) -> Option<Obstacle> {
        let id = |rival: MemoryIndex| &self.context.memory(rival).id;
        let groups = self.context.apart_groups(row.index);
        if let Some(&first) = groups.iter().filter_map(|group| self.kept_apart.get(group)).min() {
            let reason = format!("a person keeps it apart from {}", id(self.rows[first]));
            return Some(Obstacle::new("decision", reason));
        }
        if !self.context.is_contradicted(row.index) {
            return None;
        }
        let rival = self.rows.iter().find(|&&other| self.context.contradict(row.index, other))?;
        Some(Obstacle::new("guard", format!("contradicts {}", id(*rival))))
    }
}
