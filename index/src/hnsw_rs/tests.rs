//! What the crate would do wrong, done right; what it finds, against a plain scan.

use memfold_simd::{Kernels, Similarity};

use super::{HnswRsIndex, HnswRsOptions};
use crate::graph::BuildGraphError;
use crate::join::tests::{SHAPES, Shape, rows};
use crate::pool::StopAfter;
use crate::{NoProgress, Pool, Row, Scan, VectorError, VectorMatrix};

fn build<'a>(
    vectors: &'a VectorMatrix<'a>,
    options: &HnswRsOptions,
) -> Result<HnswRsIndex<'a>, BuildGraphError> {
    let pool = Pool::new(None).unwrap();
    HnswRsIndex::build(vectors, options, &pool, Kernels::active(), &NoProgress)
}

#[test]
fn most_rows_are_found_and_all_similarities_are_true() {
    let pool = Pool::new(None).unwrap();
    for (seed, shape) in (1..).zip(SHAPES) {
        let values = rows(shape, 800, 24, seed);
        let vectors = VectorMatrix::from_slice(&values, 24).unwrap();
        let index = build(&vectors, &HnswRsOptions::default()).unwrap();
        let plain = Scan::new(&vectors, &pool, Kernels::active()).unwrap();
        let (mut found, mut expected) = (0, 0);
        for row in (0..800).step_by(20).map(Row) {
            let query = vectors.vector(row);
            let all = plain.k_nearest(query, 800).unwrap();
            let threshold = all[9].similarity;
            for (near, exact) in [
                (index.k_nearest(query, 10).unwrap(), plain.k_nearest(query, 10).unwrap()),
                (index.range(query, threshold).unwrap(), plain.range(query, threshold).unwrap()),
            ] {
                assert!(
                    near.is_sorted_by(|a, b| a < b) && near.iter().all(|one| all.contains(one))
                );
                found += exact.iter().filter(|one| near.contains(one)).count();
                expected += exact.len();
            }
        }
        assert!(found * 100 >= expected * 97, "{shape:?}: {found} of {expected}");
    }
}

#[test]
fn equal_directions_are_one_point_and_all_their_rows_are_found() {
    let mut values = rows(Shape::Random, 50, 8, 3);
    let first = values[..8].to_vec();
    // Powers of two keep a direction to the bit.
    for factor in [1.0, 4.0] {
        (0..200).for_each(|_| values.extend(first.iter().map(|x| x * factor)));
    }
    let vectors = VectorMatrix::from_slice(&values, 8).unwrap();
    let index = build(&vectors, &HnswRsOptions::default()).unwrap();
    assert_eq!(index.point_count, 50);
    let found = index.range(&values[..8], Similarity::ONE).unwrap();
    let equal = [Row(0)].into_iter().chain((50..450).map(Row));
    assert!(found.iter().map(|found| found.row).eq(equal.clone()));
    let found = index.k_nearest(&values[..8], 5).unwrap();
    assert!(found.iter().map(|found| found.row).eq(equal.take(5)));
}

#[test]
fn bytes_grow_with_links() {
    let values = rows(Shape::Random, 300, 12, 5);
    let vectors = VectorMatrix::from_slice(&values, 12).unwrap();
    let bytes = [4, 16].map(|max_neighbors| {
        let options = HnswRsOptions { max_neighbors, ..HnswRsOptions::default() };
        build(&vectors, &options).unwrap().byte_count() / 300
    });
    // A vector of 48 bytes and at least M links of 40.
    assert!(bytes[0] > 48 + 4 * 40 && bytes[0] < bytes[1], "{bytes:?}");
}

#[test]
fn two_builds_answer_alike() {
    let values = rows(Shape::Clustered, 500, 12, 8);
    let vectors = VectorMatrix::from_slice(&values, 12).unwrap();
    let indexes = [0, 1].map(|_| build(&vectors, &HnswRsOptions::default()).unwrap());
    for row in (0..500).step_by(25).map(Row) {
        let [a, b] = indexes.each_ref().map(|index| index.k_nearest(vectors.vector(row), 7));
        assert_eq!(a, b);
    }
}

#[test]
fn what_would_panic_or_exit_is_refused() {
    let options = HnswRsOptions::default();
    for bad in [[f32::NAN, 0.0], [f32::INFINITY, 1.0], [0.0, -0.0]] {
        let values = [[1.0, 0.0], bad].concat();
        let vectors = VectorMatrix::from_slice(&values, 2).unwrap();
        let error = build(&vectors, &options).unwrap_err();
        assert!(matches!(error, BuildGraphError::InvalidVector { row: 1, .. }), "{error}");
    }
    let vectors = VectorMatrix::from_slice(&[1.0, 0.0], 2).unwrap();
    for max_neighbors in [0, 1, 256, usize::MAX] {
        let error = build(&vectors, &HnswRsOptions { max_neighbors, ..options }).unwrap_err();
        assert!(matches!(error, BuildGraphError::Option { .. }), "{error}");
    }
    let none = HnswRsOptions { ef_construction: 0, ..options };
    assert!(build(&vectors, &none).is_err());
    let index = build(&vectors, &options).unwrap();
    let error = index.k_nearest(&[1.0], 1).unwrap_err();
    assert_eq!(error, VectorError::Dimension { expected: 2, found: 1 });
    let error = index.range(&[f32::NAN, 1.0], Similarity::ONE).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 0 });
}

#[test]
fn few_rows_and_large_ef_are_no_trouble() {
    let options = HnswRsOptions { ef_search: usize::MAX, ..HnswRsOptions::default() };
    let none = VectorMatrix::from_slice(&[], 3).unwrap();
    assert!(build(&none, &options).unwrap().k_nearest(&[1.0; 3], 4).unwrap().is_empty());
    let vectors = VectorMatrix::from_slice(&[1.0, 2.0, 3.0], 3).unwrap();
    let index = build(&vectors, &options).unwrap();
    assert!(index.k_nearest(&[1.0; 3], 0).unwrap().is_empty());
    assert_eq!(index.k_nearest(&[1.0; 3], usize::MAX).unwrap().len(), 1);
    assert_eq!(index.range(&[-1.0; 3], Similarity::new(-1.0).unwrap()).unwrap().len(), 1);
}

#[test]
fn a_build_can_be_stopped() {
    let vectors = VectorMatrix::from_slice(&[1.0, 2.0, 3.0], 3).unwrap();
    let (pool, options) = (Pool::new(None).unwrap(), HnswRsOptions::default());
    let error =
        HnswRsIndex::build(&vectors, &options, &pool, Kernels::active(), &StopAfter::default());
    assert_eq!(error.unwrap_err(), BuildGraphError::Cancelled);
}
