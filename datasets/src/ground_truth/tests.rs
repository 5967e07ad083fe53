//! Truths that can be counted by hand, then saved, loaded and damaged.
#![expect(clippy::float_cmp, reason = "recalls here are quotients of small counts")]

use std::fs;

use memfold_index::{JoinOptions, JoinedPairs, Neighbor, Pair, Pool, Row, VectorMatrix};
use memfold_simd::{Similarity, canonical};
use proptest::prelude::*;

use super::*;

/// Rows 0 and 3 are bit-equal, 2 is near both, 1 and 4 stand alone.
const VALUES: [f32; 10] = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0, -1.0, -1.0];

fn neighbor(row: u32, cosine: f64) -> Neighbor {
    Neighbor { row: Row(row), similarity: Similarity::new(cosine).unwrap() }
}

fn truth_of(values: &[f32], dim: usize, k: u32, threshold: f64) -> GroundTruth {
    let pool = Pool::new(None).unwrap();
    let vectors = VectorMatrix::from_slice(values, dim).unwrap();
    let options = JoinOptions::new(&pool);
    let threshold = Similarity::new(threshold).unwrap();
    GroundTruth {
        nearest: Some(NearestTruth::find(&vectors, &vectors, k, &pool).unwrap()),
        pairs: Some(PairTruth::find(&vectors, threshold, &options).unwrap()),
        ..GroundTruth::of(&vectors)
    }
}

#[test]
fn known_answers_are_found() {
    let truth = truth_of(&VALUES, 2, 3, 0.9);
    let rows = |found: &[Neighbor]| found.iter().map(|one| one.row.0).collect::<Vec<_>>();
    let nearest = truth.nearest.unwrap();
    assert_eq!(rows(&nearest.neighbors[0]), [0, 3, 2]);
    assert_eq!(rows(&nearest.neighbors[2]), [2, 0, 3]);
    let joined = truth.pairs.unwrap().joined;
    assert_eq!((joined.pairs.len(), joined.logical_pairs), (1, 3));
    assert_eq!(joined.groups, [[Row(0), Row(3)]]);
}

#[test]
fn ties_count_and_repeats_do_not() {
    let truth = [neighbor(4, 0.9), neighbor(1, 0.8), neighbor(2, 0.8)];
    let recall = |found: &[Neighbor], k| recall_at_k(&truth, found, k);
    assert_eq!(recall(&truth, 3), 1.0);
    assert_eq!(recall(&[neighbor(4, 0.9), neighbor(2, 0.8)], 2), 1.0);
    assert_eq!(recall(&[neighbor(4, 0.9); 10], 3), 1.0 / 3.0);
    assert_eq!(recall(&[neighbor(4, 0.9), neighbor(9, 0.7), neighbor(1, 0.8)], 2), 0.5);
    assert_eq!(recall(&[], 3), 0.0);
    assert_eq!(recall(&truth, 10), 1.0);
    assert_eq!(recall_at_k(&[], &truth, 3), 1.0);
}

#[test]
fn pairs_of_equal_rows_are_expected() {
    let joined = truth_of(&VALUES, 2, 1, 0.9).pairs.unwrap().joined;
    let recall = |found: &[(u32, u32)]| {
        pair_recall(&joined, &found.iter().map(|&(a, b)| (Row(a), Row(b))).collect::<Vec<_>>())
    };
    assert_eq!(recall(&[(0, 3), (2, 0), (2, 3)]), 1.0);
    assert_eq!(recall(&[(3, 0), (0, 3)]), 1.0 / 3.0);
    assert_eq!(recall(&[(0, 1), (1, 1), (4, 9)]), 0.0);
    assert_eq!(pair_recall(&JoinedPairs::default(), &[]), 1.0);
}

#[test]
fn rows_are_given_their_similarity() {
    let vectors = VectorMatrix::from_slice(&VALUES, 2).unwrap();
    let found = with_similarities(&vectors, &[0.0, 2.0], &[Row(1), Row(0), Row(77)]);
    assert_eq!(found, [neighbor(1, 1.0), neighbor(0, 0.0)]);
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = GroundTruth::path_beside(&folder.path().join("v.npy"));
    assert!(path.ends_with("v.npy.truth"));
    let vectors = VectorMatrix::from_slice(&VALUES, 2).unwrap();
    for truth in [truth_of(&VALUES, 2, 3, 0.9), GroundTruth::of(&vectors)] {
        truth.save(&path).unwrap();
        assert_eq!(GroundTruth::load(&path, &vectors, Some(&vectors)).unwrap(), truth);
    }
}

#[test]
fn truth_of_other_vectors_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    truth_of(&VALUES, 2, 1, 0.9).save(&path).unwrap();
    let vectors = VectorMatrix::from_slice(&VALUES, 2).unwrap();
    let other = VectorMatrix::from_slice(&VALUES[..8], 2).unwrap();
    let error = GroundTruth::load(&path, &other, None).unwrap_err();
    assert!(error.to_string().contains("stale: made for vectors "), "{error}");
    assert_eq!(error.hint().unwrap(), "delete it and compute the ground truth again");
    let error = GroundTruth::load(&path, &vectors, Some(&other)).unwrap_err();
    assert!(error.to_string().contains("stale: made for queries "), "{error}");
}

#[test]
fn every_lost_or_changed_byte_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    truth_of(&VALUES, 2, 1, 0.9).save(&path).unwrap();
    let vectors = VectorMatrix::from_slice(&VALUES, 2).unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        fs::write(&path, &bytes[..at]).unwrap();
        assert!(GroundTruth::load(&path, &vectors, None).is_err(), "cut at {at}");
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        assert!(GroundTruth::load(&path, &vectors, None).is_err(), "changed at {at}");
    }
    fs::write(&path, b"PAR1").unwrap();
    let error = GroundTruth::load(&path, &vectors, None).unwrap_err();
    assert!(error.to_string().ends_with("no ground truth (it does not begin with MFTRUTH1)"));
}

/// A sound checksum does not make counts true.
#[test]
fn counts_beyond_the_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    let vectors = VectorMatrix::from_slice(&VALUES, 2).unwrap();
    let mut bytes = b"MFTRUTH1".to_vec();
    bytes.extend(VectorsDigest::of(&vectors).0);
    bytes.push(1);
    bytes.extend([0; 36]);
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(blake3::hash(&bytes).as_bytes());
    fs::write(&path, bytes).unwrap();
    let error = GroundTruth::load(&path, &vectors, None).unwrap_err();
    assert!(error.to_string().ends_with("damaged: the file ends early at byte 81"), "{error}");
}

fn small_vectors() -> impl Strategy<Value = Vec<f32>> {
    let component = (-3_i8..=3).prop_map(f32::from);
    let vector = prop::collection::vec(component, 3)
        .prop_filter("has a direction", |vector| vector.iter().any(|value| *value != 0.0));
    prop::collection::vec(vector, 2..30).prop_map(|rows| rows.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn truth_equals_brute_force(values in small_vectors(), k in 1_u32..6) {
        let truth = truth_of(&values, 3, k, 0.8);
        let vectors = VectorMatrix::from_slice(&values, 3).unwrap();
        let similarity = |a: Row, b: Row| {
            canonical::similarity(vectors.vector(a), vectors.vector(b)).unwrap()
        };
        let threshold = Similarity::new(0.8).unwrap();
        let mut pairs = Vec::new();
        for left in vectors.rows() {
            let mut all: Vec<_> = vectors
                .rows()
                .map(|row| Neighbor { row, similarity: similarity(left, row) })
                .collect();
            let near = all.iter().filter(|one| one.row > left && one.similarity >= threshold);
            pairs.extend(near.map(|one| (left, one.row)));
            all.sort();
            all.truncate(k as usize);
            prop_assert_eq!(&truth.nearest.as_ref().unwrap().neighbors[left.index()], &all);
        }
        let joined = &truth.pairs.as_ref().unwrap().joined;
        prop_assert_eq!(joined.logical_pairs, pairs.len() as u64);
        prop_assert_eq!(pair_recall(joined, &pairs), 1.0);
        let half = &pairs[..pairs.len() / 2];
        if !pairs.is_empty() {
            prop_assert_eq!(pair_recall(joined, half), half.len() as f64 / pairs.len() as f64);
        }
        let listed: Vec<(Row, Row)> =
            joined.pairs.iter().map(|pair: &Pair| (pair.left, pair.right)).collect();
        prop_assert!(listed.iter().all(|pair| pairs.contains(pair)));
    }
}
