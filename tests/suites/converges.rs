//! Running again on what a plan made plans nothing.

use memfold_pipeline::plan::ActionType;
use memfold_pipeline::store::{InMemoryStore, PlainMemory};
use memfold_tests::{Run, apply, generated_rows, merges, sample_rows, store_of_vectors};

/// Applies the plan and plans again; returns the merges of the second plan.
fn second_merges(run: &Run, mut rows: Vec<PlainMemory>) -> Vec<Vec<String>> {
    let first = run.plan(&InMemoryStore::new(rows.clone())).plan;
    assert!(!merges(&first).is_empty());
    apply(&first, &mut rows);
    let second = run.plan(&InMemoryStore::new(rows)).plan;
    merges(&second).iter().map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()).collect()
}

#[test]
fn the_sample_converges_in_one_run() {
    let again = second_merges(&Run::builtin(), sample_rows());
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn only_a_rise_that_is_due_changes_anything_twice() {
    let mut rows = sample_rows();
    let first = Run::builtin().plan(&InMemoryStore::new(rows.clone())).plan;
    apply(&first, &mut rows);
    let second = Run::builtin().plan(&InMemoryStore::new(rows)).plan;
    for action in [ActionType::Merge, ActionType::Archive] {
        assert_eq!(second.count(action), 0, "{action:?}");
    }
}

#[test]
fn vectors_alone_converge_in_one_run() {
    for (threshold, seed) in [(0.85, 11), (0.9, 12), (0.95, 13)] {
        let rows = store_of_vectors(&generated_rows(1_500, 48, seed), 48).rows().to_vec();
        let again = second_merges(&Run::on_vectors(threshold), rows);
        assert!(again.is_empty(), "{threshold}: {again:?}");
    }
}
