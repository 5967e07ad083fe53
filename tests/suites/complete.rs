//! Every pair at or above the threshold counts: clusters equal their definitions.

use std::collections::BTreeSet;

use memfold_core::cluster::agglomerate;
use memfold_core::policy::Linkage;
use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs};
use memfold_simd::{Similarity, canonical};
use memfold_tests::InMemoryStore;
use memfold_tests::{
    NeighborLists, Run, clusters, generated_rows, greedy_definition, linkage_cases, memory,
    neighbor_lists, real_vectors, report_skipped, store_of_vectors,
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

#[test]
fn greedy_clusters_of_touching_groups_equal_the_definition() {
    // Random walks: long chains, in which every order of joining would give other clusters.
    for case in linkage_cases().iter().filter(|case| case.name.ends_with("complete-85")) {
        let lists = neighbor_lists(&case.vectors, case.dim, THRESHOLDS[0]);
        assert_greedy(&store_of_vectors(&case.vectors, case.dim), &lists);
    }
}

#[test]
fn greedy_clusters_of_real_stores_equal_the_definition() {
    let Some((vectors, dim)) = real_vectors(36_000) else { return report_skipped() };
    let lists = neighbor_lists(&vectors, dim, THRESHOLDS[0]);
    for rows in [1_000_usize, 10_000, 36_000] {
        let below = |list: &Vec<(u32, Similarity)>| {
            list.iter().copied().filter(|&(row, _)| (row as usize) < rows).collect()
        };
        let lists: NeighborLists = lists[..rows].iter().map(below).collect();
        assert_greedy(&store_of_vectors(&vectors[..rows * dim], dim), &lists);
    }
}

#[test]
fn the_join_finds_the_same_pairs_as_comparing_all() {
    let (rows, dim) = (2_000, 96);
    let vectors = generated_rows(rows, dim, 4);
    let matrix = VectorMatrix::from_slice(&vectors, dim).unwrap();
    let pool = Pool::new(None).unwrap();
    let options = JoinOptions::new(&pool);
    for threshold in THRESHOLDS {
        let lists = neighbor_lists(&vectors, dim, threshold);
        let expected: usize = lists.iter().map(Vec::len).sum();
        let joined =
            join_pairs(&matrix, Similarity::new(threshold).unwrap(), &options).unwrap().collect();
        assert_eq!(joined.logical_pairs, expected as u64 / 2, "at {threshold}");
    }
}

/// Enough rows for cells, at the thresholds between which they leave out little and nearly all; also adversarial:
/// a clique of more rows than a cell, and pairs that lie at the threshold to the last bits.
#[test]
fn cells_leave_out_no_pair() {
    let (rows, dim) = (18_000_usize, 48);
    let mut vectors = generated_rows(rows as u32, dim, 6);
    let clique = vectors[..dim].to_vec();
    for (row, vector) in vectors.chunks_exact_mut(dim).take(1_500).enumerate() {
        vector.copy_from_slice(&clique);
        vector[row % dim] += row as f32 * 1e-7;
    }
    let matrix = VectorMatrix::from_slice(&vectors, dim).unwrap();
    let pool = Pool::new(None).unwrap();
    let options = JoinOptions { pair_budget: Some(10_000_000), ..JoinOptions::new(&pool) };
    let lists = neighbor_lists(&vectors, dim, 0.8);
    let at = lists.iter().flatten().map(|(_, similarity)| similarity.get());
    let exact = at.clone().filter(|&cosine| cosine < 0.999).nth(1_000).unwrap();
    for threshold in [0.8, 0.85, 0.9, 0.95, exact, exact + 1e-15, exact - 1e-15] {
        let joined = join_pairs(&matrix, Similarity::new(threshold).unwrap(), &options).unwrap();
        let expected = at.clone().filter(|&cosine| cosine >= threshold).count() as u64 / 2;
        assert_eq!(joined.logical_pairs(), expected, "at {threshold}");
        let counters = joined.counters();
        assert!(counters.pairs_tested < counters.pairs_total, "at {threshold}: {counters:?}");
        for pair in joined.pairs().step_by(7) {
            let list = &lists[pair.left.index()];
            assert!(list.contains(&(pair.right.0, pair.similarity)), "{pair:?}");
        }
    }
}

fn distances(vectors: &[f32], dim: usize) -> Vec<f64> {
    let rows: Vec<&[f32]> = vectors.chunks_exact(dim).collect();
    let pairs = (0..rows.len()).flat_map(|i| (i + 1..rows.len()).map(move |j| (i, j)));
    pairs.map(|(i, j)| 1.0 - canonical::similarity(rows[i], rows[j]).unwrap().get()).collect()
}

#[test]
fn hierarchical_linkages_equal_those_of_scikit_learn() {
    let cases = linkage_cases();
    assert_eq!(cases.len(), 27);
    for case in cases {
        let distances = distances(&case.vectors, case.dim);
        let rows = case.labels.len();
        let found = agglomerate(distances, rows, case.linkage, 1.0 - case.threshold);
        assert_eq!(found, case.clusters(), "{}", case.name);
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

#[test]
fn equal_vectors_join_the_clusters_of_the_definition() {
    let dim = 16;
    let mut vectors = generated_rows(300, dim, 5);
    for copy in 0..100 {
        vectors.extend_from_within(copy % 7 * dim..(copy % 7 + 1) * dim);
    }
    let rows = vectors.chunks_exact(dim).enumerate();
    // One text under each vector, so that no vector counts as an embedder's fault.
    let text = |vector: &[f32]| format!("Text of {:?}.", vector[0].to_bits());
    let store = InMemoryStore::new(rows.map(|(i, v)| memory(i, text(v), v)).collect());
    assert_greedy(&store, &neighbor_lists(&vectors, dim, THRESHOLDS[0]));
}
