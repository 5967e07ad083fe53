//! Clusters of a corpus, on a stream of pairs, equal their definition on pairs in memory.

use std::collections::BTreeSet;

use memfold::dedup::{ClusterLinkage, Clustering, DedupRequest, Keep, KeepOrder, Member, dedup};
use memfold_index::{JoinOptions, Pool, Row, VectorMatrix, join_pairs};
use memfold_simd::Similarity;
use memfold_tests::{
    generated_rows, greedy_definition, linkage_cases, neighbor_lists, real_vectors, report_skipped,
};

const THRESHOLDS: [f64; 3] = [0.85, 0.90, 0.95];

fn clusterings(vectors: &[f32], dim: usize, keep: &Keep) -> Vec<Clustering> {
    let matrix = &VectorMatrix::from_slice(vectors, dim).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let pool = Pool::new(None).unwrap();
    let options = &JoinOptions { scratch_dir: Some(scratch.path()), ..JoinOptions::new(&pool) };
    let thresholds = &THRESHOLDS.map(|threshold| Similarity::new(threshold).unwrap());
    let pairs = join_pairs(matrix, thresholds[0], options).unwrap();
    let linkage = ClusterLinkage::GreedyComplete;
    let ordinal = &|row: Row| row.0.into();
    let request = DedupRequest { matrix, ordinal, keep, linkage, thresholds, options };
    dedup(&pairs, &request).unwrap()
}

/// Compares with the definition, which takes the highest row first.
fn assert_clusters(vectors: &[f32], dim: usize) {
    let keys: Vec<u32> = (0..(vectors.len() / dim) as u32).collect();
    let highest_first = Keep::Best(KeepOrder::largest_first(&keys));
    let lists = neighbor_lists(vectors, dim, THRESHOLDS[0]);
    for clustering in clusterings(vectors, dim, &highest_first) {
        let threshold = clustering.threshold.get();
        let expected = greedy_definition(&lists, threshold).into_iter().map(|mut cluster| {
            cluster.sort_unstable();
            cluster
        });
        let expected: BTreeSet<Vec<u32>> = expected.collect();
        let rows = |cluster: &[Member]| cluster.iter().map(|member| member.row.0).collect();
        let found: BTreeSet<Vec<u32>> = clustering.clusters().map(rows).collect();
        assert!(found == expected, "at {threshold}: {} and {}", found.len(), expected.len());
        assert!(!found.is_empty(), "at {threshold}");
        for cluster in clustering.clusters() {
            assert_eq!(cluster.last().map(|last| last.row), Some(cluster[0].survivor));
        }
        let pairs: usize = lists.iter().flatten().filter(|(_, s)| s.get() >= threshold).count();
        assert_eq!(clustering.logical_pairs, pairs as u64 / 2, "at {threshold}");
    }
}

#[test]
fn clusters_of_synthetic_rows_equal_the_definition() {
    for (rows, dim, seed) in [(2_000, 384, 31), (3_000, 24, 32)] {
        assert_clusters(&generated_rows(rows, dim, seed), dim);
    }
}

#[test]
fn clusters_of_touching_groups_equal_the_definition() {
    for case in linkage_cases().iter().filter(|case| case.name.ends_with("complete-85")) {
        assert_clusters(&case.vectors, case.dim);
    }
}

#[test]
fn clusters_of_real_rows_equal_the_definition() {
    let Some((vectors, dim)) = real_vectors(10_000) else { return report_skipped() };
    assert_clusters(&vectors, dim);
}

#[test]
fn every_member_is_near_the_one_that_stays_whoever_that_is() {
    let (vectors, dim) = (generated_rows(3_000, 48, 33), 48);
    for keep in [Keep::Best(KeepOrder::by_row(3_000)), Keep::MostCentral] {
        for clustering in clusterings(&vectors, dim, &keep) {
            assert!(clustering.members.iter().all(|m| m.similarity >= clustering.threshold));
        }
    }
}
