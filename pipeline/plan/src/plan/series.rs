//! Series: memories that say one thing of many values, `the second batch`, `the third batch`.

use std::collections::{BTreeMap, BTreeSet};

use super::words::signal_kinds;
use crate::detect::Contradiction;
use memfold_model::memory::MemoryIndex;

/// A series has at least so many members: three values may well be one thing, told three times.
const MEMBERS_MIN: usize = 4;

/// So many others must contradict both sides of a pair in the same way, as where four all contradict each other.
const COMMON_MIN: usize = MEMBERS_MIN - 2;

/// Which contradictory pairs belong to a series. Four texts that differ in a number only are rather four things than one
/// thing with three errors, so one flag speaks for all of them.
pub(super) struct Series {
    /// The first member of a pair's series and how many it has.
    of: BTreeMap<(MemoryIndex, MemoryIndex), (MemoryIndex, usize)>,
}

impl Series {
    /// Finds the series among contradictions with the same kinds of signs. Cost: near linear in the pairs times the
    /// partners of a memory.
    pub(super) fn of(contradictions: &[&Contradiction]) -> Self {
        let mut by_pattern: BTreeMap<Vec<String>, Vec<(MemoryIndex, MemoryIndex)>> =
            BTreeMap::new();
        for contradiction in contradictions {
            let mut pattern = signal_kinds(&contradiction.judgement);
            pattern.sort_unstable();
            let pair = (contradiction.older, contradiction.newer);
            by_pattern.entry(pattern).or_default().push(pair);
        }
        let mut of = BTreeMap::new();
        by_pattern.values().for_each(|pairs| find(pairs, &mut of));
        Self { of }
    }

    /// Returns the first member of a pair's series and how many memories it has; `None` where it is in none.
    pub(super) fn around(&self, contradiction: &Contradiction) -> Option<(MemoryIndex, usize)> {
        self.of.get(&(contradiction.older, contradiction.newer)).copied()
    }
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
