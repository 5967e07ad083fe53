//! Running again on what a plan made plans nothing.

use memfold_core::plan::{ActionType, Risk};
use memfold_tests::{
    Draws, Run, apply, generated_rows, memory, merges, sample_rows, store_of_vectors, unit_vector,
};
use memfold_tests::{InMemoryStore, PlainMemory};

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

/// Copies and rewordings of two facts: some without a vector, some protected, of all ages.
fn tangled_rows(draws: &mut Draws) -> Vec<PlainMemory> {
    const TEXTS: [[&str; 3]; 2] = [
        ["Use tabs for indentation", "For indentation, use tabs", "Use tabs for the indentation"],
        ["Backups run every night", "Every night, backups run", "The backups run every night"],
    ];
    let count = 4 + draws.below(9);
    (0..count as usize)
        .map(|number| {
            let fact = draws.below(2) as usize;
            let wording = draws.below(3) as usize;
            let mut vector = unit_vector(8, fact);
            vector[5 + wording] = 0.1;
            let mut row = memory(draws.below(40) as usize, TEXTS[fact][wording], &vector);
            row.id = format!("m{number:02}");
            if draws.below(4) == 0 {
                row.embedding = None;
            }
            match draws.below(5) {
                0 => row.categories = vec!["permanent".into()],
                1 => row.categories = vec!["general".into(), "ops".into()],
                2 => row.importance = 2.0,
                _ => {}
            }
            row
        })
        .collect()
}

#[test]
fn tangled_stores_converge_in_one_run() {
    let (mut merged, mut reworded) = (0, 0);
    for seed in 0..400 {
        let mut rows = tangled_rows(&mut Draws::new(seed));
        let run = Run::builtin();
        let first = run.plan(&InMemoryStore::new(rows.clone())).plan;
        merged += merges(&first).len();
        reworded += first.actions.iter().filter(|action| action.risk != Risk::Identical).count();
        let before = rows.clone();
        apply(&first, &mut rows);
        let second = run.plan(&InMemoryStore::new(rows)).plan;
        assert!(
            merges(&second).is_empty(),
            "seed {seed}: {:?}, then {:?}\n{before:#?}",
            merges(&first),
            merges(&second)
        );
    }
    assert!(merged > 300 && reworded > 20, "{merged}, {reworded}");
}
