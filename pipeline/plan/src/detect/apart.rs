//! Units that a person keeps apart.

use std::collections::{BTreeMap, HashMap};

use super::Unit;
use memfold_model::decisions::Decisions;
use memfold_model::memory::Memory;

/// Which keep-both groups each unit is in, by its live row or a ghost. Units of one group never fold together.
pub(super) struct ApartUnits {
    groups: BTreeMap<u32, Vec<u32>>,
}

impl ApartUnits {
    /// Lifts decisions about memories to units. A group within one unit says nothing.
    pub(super) fn new(memories: &[Memory], units: &[Unit], decisions: &Decisions) -> Self {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if decisions.keep_both.is_empty() {
            return Self { groups };
        }
        for (unit, Unit { live, ghosts }) in (0_u32..).zip(units) {
            for memory in std::iter::once(live).chain(ghosts) {
                let id = &memories[memory.index()].id;
                for group in decisions.keep_both.separating_groups_of(id) {
                    groups.entry(unit).or_default().push(group);
                }
            }
        }
        let mut units_in: HashMap<u32, u32> = HashMap::new();
        for numbers in groups.values_mut() {
            numbers.sort_unstable();
            numbers.dedup();
            for &number in &*numbers {
                *units_in.entry(number).or_default() += 1;
            }
        }
        groups.retain(|_, numbers| {
            numbers.retain(|number| units_in[number] > 1);
            !numbers.is_empty()
        });
        Self { groups }
    }

    /// Tells whether a unit is kept apart from any other.
    pub(super) fn has(&self, unit: u32) -> bool {
        self.groups.contains_key(&unit)
    }

    /// Returns the groups of a unit, ascending.
    pub(super) fn groups_of(&self, unit: u32) -> &[u32] {
        self.groups.get(&unit).map_or(&[], Vec::as_slice)
    }
}
