//! A run by a graph is the same run: it may miss pairs, says how many, and its plan depends on nothing else.

use memfold_core::report::RecallKind;
use memfold_simd::Level;
use memfold_tests::{InMemoryStore, PlainMemory};
use memfold_tests::{Run, clusters, generated_rows, merges, sample_rows, store_of_vectors};

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
    // Both models are below the audited rows: every vector of both was looked at.
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

#[test]
fn neither_threads_nor_level_nor_order_is_seen() {
    let rows = two_models();
    let expected = by_graph(0.9).threads(1).plan(&InMemoryStore::new(rows.clone()));
    let recall =
        |outcome: &memfold::consolidate::Outcome| outcome.report.detected.pair_recall.clone();
    let store = InMemoryStore::new(rows.clone());
    for (threads, level) in [(2, Level::best()), (8, Level::best()), (2, Level::Scalar)] {
        let found = by_graph(0.9).threads(threads).level(level).plan(&store);
        assert!(found.plan == expected.plan, "{threads} threads, {level}");
        assert_eq!(recall(&found), recall(&expected));
    }
    let reversed = InMemoryStore::new(rows.into_iter().rev().collect());
    let found = by_graph(0.9).plan(&reversed);
    assert!(found.plan.actions == expected.plan.actions);
    assert_eq!(recall(&found), recall(&expected));
}
