//! What earlier runs and people recorded, as far as it still holds.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::decisions::{Decisions, SingleAction, content_hash};
use crate::memory::{Memory, MemoryId};

/// Records in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) decisions: Vec<RecordedDecision>,
    pub(crate) flags: Vec<RecordedFlag>,
}

/// A row of `memfold_decisions`.
#[derive(Debug)]
pub(crate) struct RecordedDecision {
    pub(crate) kind: Box<str>,
    pub(crate) group_id: Option<Box<str>>,
    pub(crate) memory_id: Box<str>,
    /// The decision is void once the text has another hash.
    pub(crate) content_hash: Option<Box<str>>,
    pub(crate) action: Option<Box<str>>,
    pub(crate) access_count: i64,
}

/// A row of `memfold_flags`: two ids, each with the hash of its text.
#[derive(Debug)]
pub(crate) struct RecordedFlag {
    pub(crate) sides: [(Box<str>, Option<Box<str>>); 2],
}

impl Recorded {
    /// Adds what holds for the memories as they are now.
    pub(crate) fn add_to(self, decisions: &mut Decisions, memories: &[Memory]) {
        if self.decisions.is_empty() && self.flags.is_empty() {
            return;
        }
        let texts = self.texts(memories);
        let holds = |id: &str, hash: Option<&str>| {
            let is_that = |text: &&str| hash.is_none_or(|hash| hash == content_hash(text));
            texts.get(id).is_some_and(is_that)
        };
        let mut groups: BTreeMap<&str, Vec<MemoryId>> = BTreeMap::new();
        for decision in &self.decisions {
            let holds = || holds(&decision.memory_id, decision.content_hash.as_deref());
            let memory = || MemoryId::new(decision.memory_id.clone());
            match &*decision.kind {
                "keep_both" => {
                    if let Some(group) = decision.group_id.as_deref().filter(|_| holds()) {
                        groups.entry(group).or_default().push(memory());
                    }
                }
                "declined" => {
                    let action = decision.action.as_deref().and_then(SingleAction::of_name);
                    decisions
                        .declined
                        .extend(action.filter(|_| holds()).map(|action| (memory(), action)));
                }
                "promoted" => {
                    decisions.promoted_at_access.insert(memory(), decision.access_count);
                }
                _ => {}
            }
        }
        groups.into_values().for_each(|members| decisions.keep_both.insert_group(members));
        for RecordedFlag { sides: [left, right] } in &self.flags {
            if [left, right].iter().all(|(id, hash)| holds(id, hash.as_deref())) {
                let id = |side: &(Box<str>, _)| MemoryId::new(side.0.clone());
                decisions.flagged.insert(id(left), id(right));
            }
        }
    }

    /// The texts of the memories that records name.
    fn texts<'m>(&self, memories: &'m [Memory]) -> HashMap<&'m str, &'m str> {
        let of_decisions = self.decisions.iter().map(|decision| &*decision.memory_id);
        let of_flags = self.flags.iter().flat_map(|flag| flag.sides.iter().map(|side| &*side.0));
        let wanted: HashSet<&str> = of_decisions.chain(of_flags).collect();
        let named = memories.iter().filter(|memory| wanted.contains(memory.id.as_str()));
        named.map(|memory| (memory.id.as_str(), &*memory.content)).collect()
    }
}
