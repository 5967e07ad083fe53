//! What is loaded adds up, and what is left out has a reason.

use memfold_store::brain_db::StoreStyle;
use memfold_store::{BrainDb, OpenOptions};
use memfold_tests::InMemoryStore;
use memfold_tests::{Run, brain_db, memory, merges, noops, unit_vector};

#[test]
fn null_and_blob_ids_are_skipped_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    brain_db(&path, &[], StoreStyle::Plain);
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "INSERT INTO stm (id, content, created_at) VALUES
             (NULL, 'one text', '2026-01-01'), (NULL, 'one text', '2026-01-02'),
             (x'00ff', 'one text', '2026-01-03'), ('a', 'one text', '2026-01-04'),
             (7, 'one text', '2026-01-05')",
        )
        .unwrap();
    let store = BrainDb::open(&path, OpenOptions::default()).unwrap();
    let outcome = Run::builtin().plan(&store);
    let skipped = &outcome.report.loaded.skipped;
    assert_eq!((skipped["id_null"], skipped["id_blob"]), (2, 1));
    assert_eq!(merges(&outcome.plan), [["7", "a"]]);
}

#[test]
fn an_empty_store_and_a_store_of_one_row_plan_nothing() {
    let one = memory(0, "The only memory.", &unit_vector(8, 0));
    for rows in [vec![], vec![one]] {
        let count = rows.len() as u64;
        let outcome = Run::builtin().plan(&InMemoryStore::new(rows.clone()));
        assert_eq!(outcome.report.loaded.live, count);
        assert_eq!(outcome.plan.changes(), 0);
        assert!(noops(&outcome.plan).is_empty());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        brain_db(&path, &rows, StoreStyle::Plain);
        let store = BrainDb::open(&path, OpenOptions::default()).unwrap();
        assert_eq!(Run::builtin().plan(&store).plan.changes(), 0);
    }
}

#[test]
fn a_report_counts_what_the_plan_holds() {
    let outcome = Run::builtin().plan(&InMemoryStore::new(memfold_tests::sample_rows()));
    let (report, plan) = (&outcome.report, &outcome.plan);
    assert_eq!(report.actions, plan.actions);
    let absorbed: usize = merges(plan).iter().map(|merge| merge.len() - 1).sum();
    let by_risk = report.stats.absorbed;
    assert_eq!(by_risk.identical + by_risk.trivial + by_risk.reworded, absorbed as u64);
    assert_eq!(report.planned.merge, merges(plan).len() as u64);
    assert_eq!(
        report.stats.live_after,
        report.loaded.live - absorbed as u64 - report.planned.archive
    );
    assert_eq!(report.detected.pair_recall.value.to_bits(), 1.0_f64.to_bits());
}
