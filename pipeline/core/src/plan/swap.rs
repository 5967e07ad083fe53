//! Another survivor for a planned merge, as a person wants it.

use std::collections::BTreeMap;

use super::action::risk;
use super::{Action, ActionType, Risk, conditions};
use crate::memory::{Memory, MemoryId};
use crate::policy::{Linkage, MergePolicy, Policy};
use memfold_guard::{Guard, Side, Verdict};

/// Said in the rationale of a merge with a survivor that a person chose.
const CHOSEN: &str = "survivor chosen by a person";

/// The inputs of a swap.
#[derive(Clone, Copy)]
pub struct SwapInput<'a> {
    /// The merge as it stands.
    pub action: &'a Action,
    /// Its memories as they are now with all that was once merged into them, among others.
    pub memories: &'a BTreeMap<MemoryId, Memory>,
    /// How merges are made.
    pub policy: &'a Policy,
    /// The guard.
    pub guard: &'a Guard,
}

/// Why no other memory of a merge may survive it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwapRefusal {
    /// Only a merge has a survivor.
    #[error("only a merge has a survivor")]
    NoMerge,
    /// The survivor is protected.
    #[error("the survivor is protected: it cannot merge into another")]
    Protected,
    /// A memory of the merge is gone.
    #[error("memory {id} is gone")]
    Gone {
        /// The memory.
        id: MemoryId,
    },
    /// The memory could not be found by its vector, while another can.
    #[error("memory {id} has no valid vector")]
    NoVector {
        /// The memory.
        id: MemoryId,
    },
    /// Not every two memories of the merge are known to be near each other.
    #[error("only the survivor is known to be near every other memory of this merge")]
    NotNear,
    /// The texts say different things.
    #[error("memory {id} and {other} say different things: {}", differences.join(", "))]
    Different {
        /// The memory that would survive.
        id: MemoryId,
        /// A memory of the merge, or one that was once merged into it.
        other: MemoryId,
        /// The difference, fit to be shown.
        differences: Vec<String>,
    },
    /// Nothing proves that the texts say the same.
    #[error("memory {id} is not proven to say what {other} says")]
    Unproven {
        /// The memory that would survive.
        id: MemoryId,
        /// A memory of the merge, or one that was once merged into it.
        other: MemoryId,
    },
    /// The memory's text does not hold all that another says.
    #[error("memory {id} lacks {} of {other}", lacks.join(", "))]
    Lacks {
        /// The memory that would survive.
        id: MemoryId,
        /// The missing part, fit to be shown.
        lacks: Vec<String>,
        /// The memory with these words.
        other: MemoryId,
    },
}

/// Makes the next merged memory that can carry the others the survivor. Repeated, it comes back to
/// the first. A memory survives only if it could have in the plan: the guard lets it merge each of the
/// others and all that was once merged into them, and it has a valid vector if any of them has.
///
/// # Errors
/// When none can: the reason of the first.
pub fn swap_survivor(input: &SwapInput<'_>) -> Result<Action, SwapRefusal> {
    let action = input.action;
    if !action.action.merges() || action.target_ids.len() < 2 {
        return Err(SwapRefusal::NoMerge);
    }
    if action.survivor_protected {
        return Err(SwapRefusal::Protected);
    }
    let find =
        |id: &MemoryId| input.memories.get(id).ok_or_else(|| SwapRefusal::Gone { id: id.clone() });
    let mut rows = action.target_ids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut refused = None;
    for _ in 1..rows.len() {
        rows.rotate_left(1);
        match rejection(input, &rows) {
            None => return Ok(amended(input, &rows)),
            Some(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    Err(refused.unwrap_or(SwapRefusal::NoMerge))
}

/// The rule of merges by which one side of a flag takes the place of the other.
pub(crate) const SETTLED: &str = "flag";

/// Turns a flag into the merge by which one side takes the place of the other, by a person's word.
#[must_use]
pub fn superseding(flag: &Action, stays: &Memory, goes: &Memory, policy: &MergePolicy) -> Action {
    let mut rationale = flag.rationale.clone();
    rationale.rule_id = SETTLED.to_owned();
    rationale.reasons = vec!["superseded, by a person's word".to_owned()];
    let merge = Action::merging(ActionType::Merge, stays, &[goes], policy, rationale);
    Action { risk: Risk::Reworded, ..merge }
}

/// The reason against the first row merging the others.
fn rejection(input: &SwapInput<'_>, rows: &[&Memory]) -> Option<SwapRefusal> {
    let [survivor, merged @ ..] = rows else { return None };
    let has_vector = |memory: &Memory| memory.embedding.vector().is_some();
    if !has_vector(survivor) && merged.iter().any(|row| has_vector(row)) {
        return Some(SwapRefusal::NoVector { id: survivor.id.clone() });
    }
    let key = survivor.text_key();
    let units = merged.iter().flat_map(|row| unit(input.memories, row));
    let others: Vec<&Memory> = units.filter(|other| other.text_key() != key).collect();
    if !is_near_to_all(input, rows.len(), &others) {
        return Some(SwapRefusal::NotNear);
    }
    if !input.policy.guard.enabled {
        return None;
    }
    // The open questions of a proposal were seen by a person.
    let open = input.action.action == ActionType::ProposeMerge;
    others.into_iter().find_map(|other| unsaid(input.guard, survivor, other, open))
}

/// A memory and all that was once merged into it.
fn unit<'a>(memories: &'a BTreeMap<MemoryId, Memory>, row: &'a Memory) -> Vec<&'a Memory> {
    let mut unit = vec![row];
    let mut seen = 0;
    while let Some(into) = unit.get(seen).copied() {
        let is_merged = |memory: &&Memory| memory.merged_into.as_ref() == Some(&into.id);
        let merged_rows = memories.values().filter(is_merged);
        let new: Vec<&Memory> = merged_rows
            .filter(|merged_row| unit.iter().all(|known| known.id != merged_row.id))
            .collect();
        unit.extend(new);
        seen += 1;
    }
    unit
}

/// Greedy complete linkage links all rows of a cluster and their merged rows to each other. Of the other
/// linkages only the survivor's similarities were looked at.
fn is_near_to_all(input: &SwapInput<'_>, row_count: usize, others: &[&Memory]) -> bool {
    let are_all_linked = input.policy.cluster.linkage == Linkage::GreedyComplete;
    are_all_linked || others.is_empty() || (row_count == 2 && others.len() == 1)
}

/// The parts of another text that the survivor's text is not proven to say.
fn unsaid(guard: &Guard, survivor: &Memory, other: &Memory, open: bool) -> Option<SwapRefusal> {
    let judgement = guard.judge(&guard.read(&other.content), &guard.read(&survivor.content));
    let (id, other_id) = (survivor.id.clone(), other.id.clone());
    match judgement.verdict {
        _ if judgement.says_all(Side::Right) || open && judgement.could_be_same => None,
        Verdict::Extends => {
            let lacks = conditions::lacks(&judgement, &other.content);
            Some(SwapRefusal::Lacks { id, lacks, other: other_id })
        }
        Verdict::Undecided => Some(SwapRefusal::Unproven { id, other: other_id }),
        _ => {
            let differences =
                conditions::differences(&judgement, &other.content, &survivor.content);
            Some(SwapRefusal::Different { id, other: other_id, differences })
        }
    }
}

/// The merge with the first row as its survivor.
fn amended(input: &SwapInput<'_>, rows: &[&Memory]) -> Action {
    let (survivor, merged) = (rows[0], &rows[1..]);
    let guarded = input.policy.guard.enabled;
    let risks = merged.iter().map(|row| risk(&survivor.content, &row.content, guarded));
    let mut rationale = input.action.rationale.clone();
    rationale.evidence.differences = proofs(input, survivor, merged);
    if !rationale.reasons.iter().any(|reason| reason == CHOSEN) {
        rationale.reasons.push(CHOSEN.to_owned());
    }
    let (kind, policy) = (input.action.action, &input.policy.merge);
    Action {
        risk: risks.max().unwrap_or(Risk::Identical),
        ..Action::merging(kind, survivor, merged, policy, rationale)
    }
}

/// The proofs that the survivor says all that the merged rows say.
fn proofs(input: &SwapInput<'_>, survivor: &Memory, merged: &[&Memory]) -> Vec<String> {
    if !input.policy.guard.enabled {
        return Vec::new();
    }
    let says = input.guard.read(&survivor.content);
    let proof = |row: &&Memory| {
        let judgement = input.guard.judge(&input.guard.read(&row.content), &says);
        let steps = conditions::proof_steps(&judgement, &row.content, &survivor.content);
        (!steps.is_empty()).then(|| format!("{}: {}", row.id, steps.join(", ")))
    };
    merged.iter().filter_map(proof).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Embedding;
    use crate::plan::fixture::{Fixture, row};

    const SHORTER: &str = "The port is 8080";
    const LONGER: &str = "The port is 8080 because the router forwards to the server";

    struct Table {
        fixture: Fixture,
        action: Action,
        guard: Guard,
    }

    /// A merge of memories, the newest first.
    fn table(memories: Vec<Memory>) -> Table {
        let texts: Vec<_> = memories.iter().map(|memory| memory.id.clone()).collect();
        let mut fixture = Fixture::new(memories).cluster(&["a", "b", "c"][..texts.len()]);
        fixture.policy.protection.enabled = false;
        let guard = Guard::new(&fixture.policy.guard).unwrap();
        let action = fixture.decide().plan.actions.remove(0);
        assert_eq!(action.target_ids, texts);
        Table { fixture, action, guard }
    }

    impl Table {
        fn swap(&self, action: &Action) -> Result<Action, SwapRefusal> {
            let memories = self.fixture.snapshot.memories.iter();
            let memories = memories.map(|memory| (memory.id.clone(), memory.clone())).collect();
            let (policy, guard) = (&self.fixture.policy, &self.guard);
            swap_survivor(&SwapInput { action, memories: &memories, policy, guard })
        }
    }

    fn ids(action: &Action) -> Vec<&str> {
        action.target_ids.iter().map(MemoryId::as_str).collect()
    }

    fn told(id: &str, age_days: i64, category: &str, importance: f64) -> Memory {
        let categories = vec![category.into()];
        Memory { categories, importance, ..row(id, "The port is 8080.", age_days) }
    }

    #[test]
    fn each_survives_in_turn_with_what_the_others_give() {
        let memories =
            vec![told("a", 2, "one", 1.0), told("b", 3, "two", 2.0), told("c", 4, "one", 1.5)];
        let table = table(memories);
        let second = table.swap(&table.action).unwrap();
        assert_eq!(ids(&second), ["b", "c", "a"]);
        assert_eq!(second.canonical_id, Some(MemoryId::new("b")));
        assert_eq!(second.new_categories, Some(vec!["two".to_owned(), "one".to_owned()]));
        assert_eq!(second.new_importance, None, "it had the most already");
        assert_eq!(second.rationale.reasons.last().unwrap(), CHOSEN);
        let third = table.swap(&second).unwrap();
        assert_eq!((ids(&third), third.new_importance), (vec!["c", "a", "b"], Some(2.0)));
        let first = table.swap(&third).unwrap();
        assert_eq!(first.target_ids, table.action.target_ids);
        assert_eq!(first.new_categories, table.action.new_categories);
        assert_eq!(first.new_importance, table.action.new_importance);
        let chosen = first.rationale.reasons.iter().filter(|reason| *reason == CHOSEN);
        assert_eq!(chosen.count(), 1);
    }

    #[test]
    fn values_follow_the_policy() {
        let mut table = table(vec![told("a", 2, "one", 2.9), told("b", 3, "two", 1.0)]);
        table.fixture.policy.merge.importance_cap = 2.5;
        let swapped = table.swap(&table.action).unwrap();
        assert_eq!(swapped.new_importance, Some(2.5));
    }

    #[test]
    fn a_row_without_a_vector_is_passed_over() {
        let mut table = table(vec![
            row("a", "The port is 8080.", 2),
            row("b", "The port is 8080.", 3),
            row("c", "The port is 8080.", 4),
        ]);
        let embedding = |at: usize, memories: &mut Vec<Memory>| {
            memories[at].embedding = Embedding::Stale;
        };
        embedding(1, &mut table.fixture.snapshot.memories);
        assert_eq!(ids(&table.swap(&table.action).unwrap()), ["c", "a", "b"]);
        embedding(2, &mut table.fixture.snapshot.memories);
        let id = MemoryId::new("b");
        assert_eq!(table.swap(&table.action), Err(SwapRefusal::NoVector { id }));
        embedding(0, &mut table.fixture.snapshot.memories);
        assert_eq!(ids(&table.swap(&table.action).unwrap()), ["b", "c", "a"]);
    }

    #[test]
    fn a_row_that_says_less_does_not_survive() {
        let table = table(vec![row("a", LONGER, 2), row("b", SHORTER, 3)]);
        let refused = table.swap(&table.action).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "memory b lacks \"because the router forwards to the server\" of a"
        );
        let mut unguarded = table;
        unguarded.fixture.policy.guard.enabled = false;
        assert_eq!(ids(&unguarded.swap(&unguarded.action).unwrap()), ["b", "a"]);
    }

    fn merged_row(id: &str, content: &str, survivor: &str) -> Memory {
        let mut merged_row = row(id, content, 9);
        merged_row.merge_into(survivor);
        merged_row
    }

    #[test]
    fn texts_merged_before_still_count() {
        let mut table = table(vec![row("a", SHORTER, 2), row("b", SHORTER, 3)]);
        let memories = &mut table.fixture.snapshot.memories;
        // g was merged into f, which was merged into a; each into the other would go on for ever.
        memories.extend([merged_row("f", "the port is 8080.", "a"), merged_row("g", LONGER, "f")]);
        let refused = table.swap(&table.action).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "memory b lacks \"because the router forwards to the server\" of g"
        );
        table.fixture.snapshot.memories[2].merge_into("g");
        assert_eq!(ids(&table.swap(&table.action).unwrap()), ["b", "a"]);
    }

    #[test]
    fn texts_that_differ_do_not_merge() {
        let mut table = table(vec![row("a", "x y", 2), row("b", "x", 3)]);
        let memories = &mut table.fixture.snapshot.memories;
        memories[0].content = "The port is 8080.".into();
        memories[1].content = "The port is 9090.".into();
        let refused = table.swap(&table.action).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "memory b and a say different things: number \"8080\" / \"9090\""
        );
    }

    #[test]
    fn other_linkages_know_the_survivors_similarities_only() {
        let mut loose = table(vec![row("a", "x", 2), row("b", "x", 3), row("c", "x", 4)]);
        for memory in &mut loose.fixture.snapshot.memories {
            memory.content = format!("x {}", memory.id).into();
        }
        loose.fixture.policy.guard.enabled = false;
        assert!(loose.swap(&loose.action).is_ok());
        loose.fixture.policy.cluster.linkage = Linkage::Single;
        assert_eq!(loose.swap(&loose.action), Err(SwapRefusal::NotNear));
        let pair =
            Action { target_ids: ["a", "b"].map(MemoryId::new).to_vec(), ..loose.action.clone() };
        assert!(loose.swap(&pair).is_ok());
    }

    #[test]
    fn what_has_no_other_survivor_is_refused() {
        let mut table = table(vec![row("a", "x", 2), row("b", "x", 3)]);
        let merge = table.action.clone();
        let noop = Action { action: ActionType::Noop, ..merge.clone() };
        assert_eq!(table.swap(&noop), Err(SwapRefusal::NoMerge));
        let protected = Action { survivor_protected: true, ..merge.clone() };
        assert_eq!(table.swap(&protected), Err(SwapRefusal::Protected));
        table.fixture.snapshot.memories.pop();
        let id = MemoryId::new("b");
        assert_eq!(table.swap(&merge), Err(SwapRefusal::Gone { id }));
    }
}
