//! One store gives one plan; its clusters equal their definition; the counts of loaded rows add up.

use std::collections::BTreeSet;

use memfold::consolidate::Outcome;
use memfold_core::plan::plan_digest;
use memfold_core::policy::Linkage;
use memfold_core::report::RecallKind;
use memfold_datasets::sample;
use memfold_simd::Level;
use memfold_tests::{
    InMemoryStore, NeighborLists, PlainMemory, Run, StoreStyle, TestStore, clusters,
    generated_rows, greedy_definition, linkage_cases, memory, merges, neighbor_lists, noops,
    sample_rows, store_of_vectors, unit_vector,
};

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

/// The digest covers every action of the sample's plan, noops included. It changes when the guard, its lexicon, a
/// default of the rules, the words of a reason or the sample change; never with the machine.
#[test]
fn the_plan_of_the_sample_is_pinned() {
    assert_eq!(sample::memories().memories.len(), 377);
    let plan = Run::builtin().plan(&InMemoryStore::new(sample_rows())).plan;
    assert_eq!(
        plan_digest(&plan),
        "8de8036680263d7cb368a0a5e68a5473d40e37448179609a72388b06ba2a4a92"
    );
}

const DIM: usize = 32;

/// Memories of two models: one large enough for a graph that is searched, one that is scanned.
fn two_models() -> Vec<PlainMemory> {
    let mut rows = store_of_vectors(&generated_rows(9_000, DIM, 21), DIM).rows().to_vec();
    for row in rows.iter_mut().step_by(5) {
        row.embedding.as_mut().unwrap().model = Some("n".to_owned());
    }
    rows
}

fn by_graph(threshold: f64) -> Run {
    Run::on_vectors(threshold).set("detect.method=graph")
}

#[test]
fn clusters_by_a_graph_are_those_of_the_exact_join() {
    let store = InMemoryStore::new(two_models());
    let exact = Run::on_vectors(0.9).plan(&store);
    let found = by_graph(0.9).plan(&store);
    assert!(clusters(&exact.plan).len() > 100);
    assert!(clusters(&found.plan) == clusters(&exact.plan));
    let (detected, expected) = (&found.report.detected, &exact.report.detected);
    assert_eq!(detected.pairs, expected.pairs);
    let recall = &detected.pair_recall;
    assert_eq!(recall.kind, RecallKind::Sampled);
    assert!(recall.low > 0.99 && recall.value <= recall.high, "{recall:?}");
    // Both models are below the audited rows: every vector of both was read.
    let distinct = recall.sampled_rows.unwrap();
    assert!((7_000..9_000).contains(&distinct), "{distinct}");
    assert_eq!(expected.pair_recall.kind, RecallKind::Exact);
}

#[test]
fn the_sample_is_planned_alike_by_every_index() {
    let store = InMemoryStore::new(sample_rows());
    let exact = Run::builtin().plan(&store).plan;
    assert!(!merges(&exact).is_empty());
    for method in ["graph", "hnsw_rs"] {
        let run = Run::builtin().set(format!("detect.method={method}"));
        assert_eq!(run.plan(&store).plan.actions, exact.actions, "{method}");
    }
}

const THRESHOLDS: [f64; 3] = [0.85, 0.90, 0.95];

fn names(clusters: &[Vec<u32>]) -> BTreeSet<BTreeSet<String>> {
    let name = |row: &u32| format!("m{row:06}");
    let many = clusters.iter().filter(|cluster| cluster.len() > 1);
    many.map(|cluster| cluster.iter().map(name).collect()).collect()
}

fn assert_greedy(store: &InMemoryStore, lists: &NeighborLists) {
    for threshold in THRESHOLDS {
        let expected = names(&greedy_definition(lists, threshold));
        let found = clusters(&Run::on_vectors(threshold).plan(store).plan);
        let missing: Vec<_> = expected.difference(&found).take(3).collect();
        let surplus: Vec<_> = found.difference(&expected).take(3).collect();
        assert!(found == expected, "at {threshold}: missing {missing:?}, surplus {surplus:?}");
        assert!(!found.is_empty(), "at {threshold}");
    }
}

#[test]
fn greedy_clusters_of_synthetic_stores_equal_the_definition() {
    for (rows, dim, seed) in [(1_000, 384, 1), (1_000, 24, 2), (3_000, 64, 3)] {
        let vectors = generated_rows(rows, dim, seed);
        let lists = neighbor_lists(&vectors, dim, THRESHOLDS[0]);
        assert_greedy(&store_of_vectors(&vectors, dim), &lists);
    }
}

/// A linkage's cluster may hold rows below the threshold to the survivor; these are not merged.
#[test]
fn hierarchical_linkages_hold_through_the_whole_run() {
    for case in linkage_cases() {
        let store = store_of_vectors(&case.vectors, case.dim);
        let linkage = serde_json::to_value(case.linkage).unwrap();
        let run = Run::on_vectors(case.threshold)
            .set(format!("cluster.linkage={}", linkage.as_str().unwrap()));
        let found = clusters(&run.plan(&store).plan);
        let expected = names(&case.clusters());
        if case.linkage == Linkage::Complete {
            assert_eq!(found, expected, "{}", case.name);
        } else {
            for merge in &found {
                assert!(expected.iter().any(|c| merge.is_subset(c)), "{}: {merge:?}", case.name);
            }
        }
    }
}

#[test]
fn null_and_blob_ids_are_skipped_with_a_reason() {
    let db = TestStore::of(&[], StoreStyle::Plain);
    db.sql(
        "INSERT INTO stm (id, content, created_at) VALUES
         (NULL, 'one text', '2026-01-01'), (NULL, 'one text', '2026-01-02'),
         (x'00ff', 'one text', '2026-01-03'), ('a', 'one text', '2026-01-04'),
         (7, 'one text', '2026-01-05')",
    );
    let outcome = db.plan();
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
        assert_eq!(TestStore::of(&rows, StoreStyle::Plain).plan().plan.changes(), 0);
    }
}

#[test]
fn a_report_counts_what_the_plan_holds() {
    let outcome = Run::builtin().plan(&InMemoryStore::new(sample_rows()));
    let (report, plan) = (&outcome.report, &outcome.plan);
    assert_eq!(report.actions, plan.actions);
    let merged: usize = merges(plan).iter().map(|merge| merge.len() - 1).sum();
    let by_risk = report.stats.merged;
    assert_eq!(by_risk.identical + by_risk.trivial + by_risk.reworded, merged as u64);
    assert_eq!(report.planned.merge, merges(plan).len() as u64);
    let left = report.loaded.live - merged as u64 - report.planned.archive;
    assert_eq!(report.stats.live_after, left);
    assert_eq!(report.detected.pair_recall.value.to_bits(), 1.0_f64.to_bits());
}
