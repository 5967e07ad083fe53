//! Every pair at or above the threshold counts: clusters equal their definitions.

use std::collections::BTreeSet;

use memfold_core::policy::Linkage;
use memfold_tests::InMemoryStore;
use memfold_tests::{
    NeighborLists, Run, clusters, generated_rows, greedy_definition, linkage_cases, neighbor_lists,
    store_of_vectors,
};

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

/// A linkage's cluster may hold rows below the threshold to the survivor; those are not absorbed.
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
