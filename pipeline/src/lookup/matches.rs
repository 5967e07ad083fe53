//! [`Best`]: the matches found so far, best first.

use std::collections::BTreeSet;

use memfold_simd::Similarity;

use super::{Match, Wanted};

/// Matches by similarity, then by id.
#[derive(Debug)]
pub(super) struct Best {
    wanted: Wanted,
    matches: Vec<Match>,
    ids: BTreeSet<Box<str>>,
}

impl Best {
    pub(super) const fn new(wanted: Wanted) -> Self {
        Self { wanted, matches: Vec::new(), ids: BTreeSet::new() }
    }

    /// Tells whether a memory of this similarity would be among the matches.
    pub(super) fn wants(&self, similarity: Similarity, id: &str) -> bool {
        if !self.wanted.allows(similarity) || self.ids.contains(id) {
            return false;
        }
        !self.is_full()
            || self
                .matches
                .last()
                .is_some_and(|last| (similarity, last.memory.id.as_str()) > (last.similarity, id))
    }

    /// Tells whether there are as many as were asked for.
    pub(super) fn is_full(&self) -> bool {
        self.wanted.neighbors.is_some_and(|count| self.matches.len() >= count)
    }

    /// Returns the least similarity among the matches.
    pub(super) fn worst(&self) -> Option<Similarity> {
        self.matches.last().map(|last| last.similarity)
    }

    /// Puts a match that is wanted in its place.
    pub(super) fn take(&mut self, found: Match) {
        let place = self.matches.partition_point(|other| {
            (other.similarity, found.memory.id.as_str())
                > (found.similarity, other.memory.id.as_str())
        });
        self.ids.insert(found.memory.id.as_str().into());
        self.matches.insert(place, found);
        if let Some(count) = self.wanted.neighbors
            && self.matches.len() > count
            && let Some(last) = self.matches.pop()
        {
            self.ids.remove(last.memory.id.as_str());
        }
    }

    pub(super) fn into_matches(self) -> Vec<Match> {
        self.matches
    }
}
