//! The flat index against a plain scan.

use memfold_simd::{Kernels, Level, Similarity};
use twox_hash::XxHash3_64;

use super::{FlatIndex, FlatScan, FlatView};
use crate::testing::{SHAPES, Shape, Values, matrix, near, pool, rows};
use crate::{Damaged, Row, Scan, VectorError};

/// Compares every kind of query with a plain scan: queries are given rows, moved rows and noise; thresholds are
/// common ones and exact similarities of rows.
fn check(values: &[f32], dim: usize, level: Level, seed: u64) {
    let Some(kernels) = Kernels::at(level) else { return };
    let pool = pool(3);
    let vectors = matrix(values, dim);
    let plain = Scan::new(&vectors, &pool, kernels).unwrap();
    let flat = FlatIndex::build(&vectors, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &vectors, kernels).unwrap();
    let mut noise = Values(seed);
    let mut queries: Vec<f32> = Vec::new();
    for moved in [0.0, 1e-4, 0.1, 1.0, 50.0] {
        let start = noise.below(vectors.len()) * dim;
        queries
            .extend(values[start..start + dim].iter().map(|x| x + moved * (noise.next() + 1e-3)));
    }
    let queries = matrix(&queries, dim);
    for query in queries.rows().map(|row| queries.vector(row)) {
        let all = plain.k_nearest(query, vectors.len()).unwrap();
        let similarities = [0, all.len() / 100, all.len() / 2].map(|at| all[at].similarity);
        let common = [-1.0, 0.5, 0.95, 1.0].map(near);
        for threshold in similarities.into_iter().chain(common) {
            let expected = all.iter().take_while(|found| found.similarity >= threshold).count();
            assert_eq!(scan.range(query, threshold).unwrap(), &all[..expected], "{threshold}");
        }
        for k in [0, 1, 10, all.len() / 2, all.len() + 1] {
            let expected = &all[..k.min(all.len())];
            assert_eq!(scan.k_nearest(query, k).unwrap(), expected, "{k} nearest");
        }
    }
    let threshold = near(0.8);
    let ranges = scan.range_batch(&queries, threshold, &pool).unwrap();
    let expected = queries.rows().map(|row| plain.range(queries.vector(row), threshold).unwrap());
    assert!(ranges.into_iter().eq(expected));
}

#[test]
fn answers_are_those_of_a_plain_scan() {
    for (seed, shape) in (1..).zip(SHAPES) {
        for (row_count, dim) in [(1, 3), (33, 1), (700, 2), (1_500, 64), (900, 77), (600, 384)] {
            check(&rows(shape, row_count, dim, seed), dim, Kernels::active().level(), seed);
        }
    }
}

#[test]
fn answers_are_the_same_at_every_level() {
    for level in Level::ALL {
        for (seed, shape) in (11..).zip([Shape::Clustered, Shape::Norms]) {
            check(&rows(shape, 400, 100, seed), 100, level, seed);
        }
    }
}

#[test]
fn long_vectors_are_compared_whole() {
    check(&rows(Shape::Clustered, 60, 4_096, 5), 4_096, Kernels::active().level(), 5);
}

#[test]
fn vectors_that_all_point_one_way_are_told_apart() {
    // A mean cosine of about 0.95, as some embedding models have it.
    let mut noise = Values(9);
    let values: Vec<f32> = (0..1_200 * 96).map(|_| 1.0 + 0.4 * noise.next()).collect();
    check(&values, 96, Kernels::active().level(), 9);
}

#[test]
fn ten_thousand_equal_rows_are_all_found_in_order() {
    let mut values = rows(Shape::Random, 500, 20, 3);
    for _ in 0..10_000 {
        values.extend_from_within(..20);
    }
    let (pool, kernels) = (pool(2), Kernels::active());
    let matrix = matrix(&values, 20);
    let flat = FlatIndex::build(&matrix, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &matrix, kernels).unwrap();
    let equal = [Row(0)].into_iter().chain((500..10_500).map(Row));
    let found = scan.range(&values[..20], Similarity::ONE).unwrap();
    assert!(found.iter().map(|found| found.row).eq(equal.clone()));
    let found = scan.k_nearest(&values[..20], 40).unwrap();
    assert!(found.iter().map(|found| found.row).eq(equal.take(40)));
}

#[test]
fn no_rows_and_equal_rows_are_indexes_too() {
    let (pool, kernels) = (pool(1), Kernels::active());
    let none = matrix(&[], 5);
    let flat = FlatIndex::build(&none, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &none, kernels).unwrap();
    assert!(flat.view().len() == 0 && scan.k_nearest(&[1.0; 5], 3).unwrap().is_empty());
    let queries = matrix(&[1.0; 10], 5);
    assert_eq!(scan.range_batch(&queries, Similarity::ONE, &pool).unwrap(), [vec![], vec![]]);
    check(&[0.25; 5 * 100], 5, kernels.level(), 1);
}

#[test]
fn the_same_bytes_for_every_thread_count_and_level() {
    let values = rows(Shape::Clustered, 5_000, 96, 2);
    let matrix = matrix(&values, 96);
    let kernels = Level::ALL.iter().filter_map(|&level| Kernels::at(level));
    for (kernels, threads) in
        kernels.flat_map(|kernels| [1, 2, 8].map(|threads| (kernels, threads)))
    {
        let flat = FlatIndex::build(&matrix, &pool(threads), kernels).unwrap();
        let mut bytes: Vec<u8> = bytemuck::cast_slice(flat.transform()).to_vec();
        bytes.extend(flat.codes().concat().into_iter().map(i8::cast_unsigned));
        bytes.extend_from_slice(bytemuck::cast_slice(&flat.norms().concat()));
        let digest = XxHash3_64::oneshot(&bytes);
        let made = (bytes.len(), format!("{digest:016x}"));
        assert_eq!(
            made,
            (1_058_600, "4c88228c901d2444".into()),
            "{} on {threads}",
            kernels.level()
        );
    }
}

/// −0.0 hashed otherwise than 0.0, so that the same vectors gave another sample and other bytes.
#[test]
fn negative_zeros_give_the_same_bytes() {
    let kernels = Kernels::active();
    let values: Vec<f32> = rows(Shape::OneHot, 5_000, 24, 17)
        .into_iter()
        .zip(rows(Shape::Random, 5_000, 24, 18))
        .map(|(hot, random)| if hot > 0.0 || random > 0.4 { hot + random.abs() } else { 0.0 })
        .collect();
    let negative: Vec<f32> = values.iter().map(|&x| if x == 0.0 { -0.0 } else { x }).collect();
    let [plain, negative] = [values, negative].map(|values| {
        let matrix = matrix(&values, 24);
        FlatIndex::build(&matrix, &pool(2), kernels).unwrap()
    });
    assert_eq!(plain.transform(), negative.transform());
    assert_eq!((plain.codes(), plain.norms()), (negative.codes(), negative.norms()));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (pool, kernels) = (pool(1), Kernels::active());
    let values = [1.0, 2.0, 0.0, 0.0];
    let error = FlatIndex::build(&matrix(&values, 2), &pool, kernels).unwrap_err();
    assert_eq!(error, VectorError::InvalidRow { row: 1 });
    let vectors = matrix(&values[..2], 2);
    let flat = FlatIndex::build(&vectors, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &vectors, kernels).unwrap();
    let error = scan.k_nearest(&[1.0], 1).unwrap_err();
    assert_eq!(error, VectorError::Dimension { expected: 2, found: 1 });
    let error = scan.range(&[f32::NAN, 0.0], Similarity::ONE).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 0 });
    let queries = matrix(&values, 2);
    let error = scan.range_batch(&queries, Similarity::ONE, &pool).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 1 });
    let error = FlatScan::new(flat.view(), &queries, kernels).unwrap_err();
    let expected = Damaged::Vectors { index: [1, 2], found: [2, 2] };
    assert_eq!(error, expected);
}

#[test]
fn rows_encoded_by_the_transform_of_others_are_found_all_the_same() {
    let kernels = Kernels::active();
    let learned_from = rows(Shape::Clustered, 300, 80, 4);
    let learned_from = matrix(&learned_from, 80);
    let learned = FlatIndex::build(&learned_from, &pool(1), kernels).unwrap();
    for shape in [Shape::Clustered, Shape::Random] {
        let values = rows(shape, 200, 80, 5);
        let matrix = matrix(&values, 80);
        let flat = FlatIndex::encode(&matrix, learned.transform(), kernels).unwrap();
        let mut scan = FlatScan::new(flat.view(), &matrix, kernels).unwrap();
        let plain = Scan::new(&matrix, &pool(1), kernels).unwrap();
        let query = &values[160..240];
        assert_eq!(scan.k_nearest(query, 20).unwrap(), plain.k_nearest(query, 20).unwrap());
        let threshold = near(0.3);
        assert_eq!(scan.range(query, threshold).unwrap(), plain.range(query, threshold).unwrap());
    }
    let other = matrix(&[1.0; 79], 79);
    assert!(FlatIndex::encode(&other, learned.transform(), kernels).is_err());
}

/// Copies numbers to where a line of the cache begins, as in a mapped file, or behind that.
fn placed<'m, T: bytemuck::Pod>(values: &[T], shift: usize, memory: &'m mut Vec<T>) -> &'m [T] {
    *memory = vec![T::zeroed(); values.len() + 65];
    let start = memory.as_ptr().align_offset(64) + shift;
    memory[start..start + values.len()].copy_from_slice(values);
    &memory[start..start + values.len()]
}

#[test]
fn slices_of_other_lengths_are_refused() {
    let values = rows(Shape::Random, 40, 8, 4);
    let flat = FlatIndex::build(&matrix(&values, 8), &pool(1), Kernels::active()).unwrap();
    let (transform, packed) = (flat.transform(), flat.codes().concat());
    let (mut memory, mut moved, mut norms) = (vec![], vec![], vec![]);
    let codes = placed(&packed, 0, &mut memory);
    let norms = placed(&flat.norms().concat(), 0, &mut norms);
    assert!(FlatView::new(transform, codes, norms, 40, 8).is_ok());
    for (rows, dim) in
        [(41, 8), (39, 8), (64, 8), (usize::MAX, 8), (40, 7), (40, 0), (40, usize::MAX)]
    {
        assert!(FlatView::new(transform, codes, norms, rows, dim).is_err(), "{rows} {dim}");
    }
    let refused = |transform, codes, norms| {
        FlatView::new(transform, codes, norms, 40, 8).map(|_| ()).unwrap_err()
    };
    let error = refused(&transform[1..], codes, norms);
    assert!(matches!(error, Damaged::Range { .. }), "{error}");
    let error = refused(transform, &codes[1..], norms);
    assert!(matches!(error, Damaged::Length { part: "codes", .. }), "{error}");
    let error = refused(transform, codes, &norms[1..]);
    assert!(matches!(error, Damaged::Length { part: "norms", .. }), "{error}");
    let error = refused(transform, placed(&packed, 1, &mut moved), norms);
    assert_eq!(error, Damaged::Alignment);
}
