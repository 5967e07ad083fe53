//! Stores of 200 memories as agents write them, labelled before anything ran on them. The vectors
//! are made: both texts of a line have a cosine of 0.90, texts of different lines nearly none.

use std::collections::BTreeSet;

use memfold_core::plan::{ActionType, Plan};
use memfold_tests::{InMemoryStore, LabelledLine, PlainMemory, Run, labelled_lines};

/// In sight when rules were written.
const AGENT: &str = include_str!("../data/agent_store.txt");
/// Nothing was fitted on it.
const TEAM: &str = include_str!("../data/team_store.txt");
/// Of both texts of a line.
const COSINE: f32 = 0.9;

fn ids(line: &LabelledLine) -> BTreeSet<String> {
    line.rows.iter().map(|row| row.id.clone()).collect()
}

fn texts(line: &LabelledLine) -> Vec<&str> {
    line.rows.iter().map(|row| &*row.content).collect()
}

/// The sets of memories that actions of a type speak of.
fn sets(plan: &Plan, wanted: ActionType) -> Vec<BTreeSet<String>> {
    let actions = plan.actions.iter().filter(|action| action.action == wanted);
    let ids =
        |ids: &[memfold_core::memory::MemoryId]| ids.iter().map(ToString::to_string).collect();
    actions.map(|action| ids(&action.target_ids)).collect()
}

#[test]
fn duplicates_are_found_updates_are_flagged_and_nothing_is_merged_wrongly() {
    holds(AGENT, 10);
}

#[test]
fn a_store_that_nothing_was_fitted_on_is_cleaned_as_well() {
    holds(TEAM, 20);
}

/// Of updates as many in a hundred may stay without a flag.
fn holds(store: &'static str, silent_max: usize) {
    let lines = labelled_lines(store, COSINE);
    let rows: Vec<PlainMemory> = lines.iter().flat_map(|line| line.rows.clone()).collect();
    assert_eq!(rows.len(), 200);
    let plan = Run::builtin().plan(&InMemoryStore::new(rows)).plan;
    let merges = sets(&plan, ActionType::Merge);
    let proposals = sets(&plan, ActionType::ProposeMerge);
    let flags = sets(&plan, ActionType::FlagContradiction);
    let of = |label: &str| lines.iter().filter(|line| line.label == label).collect::<Vec<_>>();
    let is = |set: &BTreeSet<String>, label: &str| {
        lines.iter().any(|line| line.label == label && set.is_subset(&ids(line)))
    };
    let (same, updates) = (of("same"), of("update"));
    let found = |sets: &[BTreeSet<String>], line: &LabelledLine| sets.contains(&ids(line));
    let unseen: Vec<_> = same
        .iter()
        .filter(|line| !found(&merges, line) && !found(&proposals, line))
        .map(|line| texts(line))
        .collect();
    let silent: Vec<_> =
        updates.iter().filter(|line| !found(&flags, line)).map(|line| texts(line)).collect();
    let named = |set: &BTreeSet<String>| {
        lines.iter().find(|line| set.is_subset(&ids(line))).map(|line| (line.label, texts(line)))
    };
    let wrong = |sets: &[BTreeSet<String>], label: &str| -> Vec<_> {
        sets.iter().filter(|set| !is(set, label)).map(named).collect()
    };
    let (merged, flagged, proposed) =
        (wrong(&merges, "same"), wrong(&flags, "update"), wrong(&proposals, "same"));
    let summary = format!(
        "{} merges, {} flags, {} proposals\nunseen {unseen:#?}\nsilent {silent:#?}\nwrongly merged \
         {merged:#?}\nwrongly flagged {flagged:#?}\nwrongly proposed {proposed:#?}",
        merges.len(),
        flags.len(),
        proposals.len()
    );
    assert!(merged.is_empty(), "{summary}");
    assert!(unseen.len() * 20 <= same.len(), "{summary}");
    assert!(silent.len() * 100 <= updates.len() * silent_max, "{summary}");
    assert!(flagged.len() * 100 <= flags.len() * 15, "{summary}");
    assert!(proposed.len() * 10 <= proposals.len() * 4, "{summary}");
}
