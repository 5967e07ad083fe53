//! What earlier runs and people recorded, as far as it still holds.

use std::collections::{BTreeMap, HashMap, HashSet};

use memfold_model::decisions::{Decisions, FlaggedPairs, SingleAction, content_hash};
use memfold_model::memory::{Memory, MemoryId, Standing};
use memfold_model::time::Instant;

/// Records in the order in which they were made.
#[derive(Debug, Default)]
pub struct Recorded {
    pub(crate) decisions: Vec<RecordedDecision>,
    pub(crate) flags: Vec<RecordedFlag>,
}

/// A row of `memfold_decisions`.
#[derive(Debug)]
pub struct RecordedDecision {
    pub(crate) kind: Box<str>,
    pub(crate) group_id: Option<Box<str>>,
    pub(crate) memory_id: Box<str>,
    /// The decision is void once the text has another hash.
    pub(crate) content_hash: Option<Box<str>>,
    pub(crate) action: Option<Box<str>>,
    pub(crate) access_count: i64,
    pub(crate) at: Option<Instant>,
}

/// A row of `memfold_flags`: two ids, each with the hash of its text.
#[derive(Debug)]
pub struct RecordedFlag {
    pub(crate) sides: [(Box<str>, Option<Box<str>>); 2],
    /// `open`, `closed`, or how a person settled it.
    pub(crate) state: Option<Box<str>>,
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
                "taken_back" => {
                    if let (Some(at), true) = (decision.at, holds()) {
                        decisions.reworded.remove(&memory());
                        decisions.taken_back.insert(memory(), at);
                    } else {
                        decisions.reworded.insert(memory());
                    }
                }
                _ => {}
            }
        }
        for members in groups.into_values() {
            if members.iter().all(|member| decisions.taken_back.contains_key(member)) {
                decisions.keep_both.insert_undone_group(members);
            } else {
                decisions.keep_both.insert_group(members);
            }
        }
        let live = self.live_sides(memories);
        for RecordedFlag { sides: [left, right], state } in &self.flags {
            if ![left, right].iter().all(|(id, hash)| holds(id, hash.as_deref())) {
                continue;
            }
            let pair = || (MemoryId::new(left.0.clone()), MemoryId::new(right.0.clone()));
            let insert = |into: &mut FlaggedPairs| into.insert(pair().0, pair().1);
            insert(&mut decisions.flagged);
            if !live.contains(&*left.0) || !live.contains(&*right.0) {
                continue;
            }
            match state.as_deref().unwrap_or("open") {
                "open" => {
                    insert(&mut decisions.open_flags);
                    insert(&mut decisions.counted_flags);
                }
                // Of a flag that closed by itself a side is another by now; this one was taken back.
                "closed" => insert(&mut decisions.counted_flags),
                _ => {}
            }
        }
    }

    /// The live memories that flags name.
    fn live_sides<'m>(&self, memories: &'m [Memory]) -> HashSet<&'m str> {
        let named: HashSet<&str> =
            self.flags.iter().flat_map(|flag| flag.sides.iter().map(|side| &*side.0)).collect();
        let live = memories.iter().filter(|memory| memory.standing == Standing::Live);
        live.map(|memory| memory.id.as_str()).filter(|id| named.contains(id)).collect()
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
