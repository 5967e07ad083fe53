//! One store gives one plan: whatever the threads, the ISA level, the order of rows and the adapter.

use memfold::consolidate::Outcome;
use memfold_core::plan::plan_digest;
use memfold_datasets::sample;
use memfold_simd::Level;
use memfold_store::brain_db::StoreStyle;
use memfold_store::{BrainDb, OpenOptions};
use memfold_tests::{InMemoryStore, PlainMemory};
use memfold_tests::{Run, brain_db, generated_rows, merges, sample_rows, store_of_vectors};

/// The plan's file and its digest.
fn bytes(outcome: &Outcome) -> (String, String) {
    (serde_json::to_string_pretty(&outcome.plan).unwrap(), plan_digest(&outcome.plan))
}

/// A fixed shuffle: rows by the digits of a multiple of their position.
fn shuffled(rows: &[PlainMemory]) -> Vec<PlainMemory> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    order.into_iter().map(|i| rows[i].clone()).collect()
}

fn mixed_rows() -> Vec<PlainMemory> {
    let mut rows = store_of_vectors(&generated_rows(600, 48, 7), 48).rows().to_vec();
    rows.extend(sample_rows());
    rows
}

#[test]
fn threads_and_isa_levels_do_not_matter() {
    let store = InMemoryStore::new(mixed_rows());
    let expected = bytes(&Run::builtin().threads(1).level(Level::Scalar).plan(&store));
    for level in Level::available() {
        for threads in [1, 2, 8] {
            let found = bytes(&Run::builtin().threads(threads).level(level).plan(&store));
            assert!(found == expected, "{threads} threads, {level}");
        }
    }
    assert!(!merges(&Run::builtin().plan(&store).plan).is_empty());
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let rows = mixed_rows();
    let expected = bytes(&Run::builtin().plan(&InMemoryStore::new(rows.clone())));
    let reversed: Vec<_> = rows.iter().rev().cloned().collect();
    for other in [reversed, shuffled(&rows)] {
        let found = bytes(&Run::builtin().plan(&InMemoryStore::new(other)));
        assert!(found == expected);
    }
}

#[test]
fn a_file_and_a_list_of_the_same_rows_give_the_same_actions() {
    let rows = sample_rows();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    brain_db(&path, &rows, StoreStyle::Plain);
    let file = BrainDb::open(&path, OpenOptions::default()).unwrap();
    let of_file = Run::builtin().plan(&file).plan;
    let of_list = Run::builtin().plan(&InMemoryStore::new(rows)).plan;
    assert_eq!(of_file.actions, of_list.actions);
    assert_eq!(plan_digest(&of_file), plan_digest(&of_list));
}

/// The digest covers every action of the sample's plan, noops included. It changes when the guard, its lexicon, a
/// default of the rules, the words of a reason or the sample change; never with the machine.
#[test]
fn the_plan_of_the_sample_is_pinned() {
    assert_eq!(sample::memories().memories.len(), 377);
    let plan = Run::builtin().plan(&InMemoryStore::new(sample_rows())).plan;
    assert_eq!(
        plan_digest(&plan),
        "6c1a9046ce8ddad5a1dc157127d7327af550a39e7466c7dd42cfe5e219367716"
    );
}
