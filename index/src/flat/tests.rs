//! The flat index against a plain scan, whole and damaged.

use std::num::NonZeroUsize;

use memfold_simd::{Kernels, Level, Similarity};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

use super::{FlatIndex, FlatScan, FlatView};
use crate::join::tests::{SHAPES, Shape, Values, rows};
use crate::{Damaged, Pool, Row, Scan, VectorError, VectorMatrix};

fn pool(threads: usize) -> Pool {
    Pool::new(NonZeroUsize::new(threads)).unwrap()
}

/// Compares every kind of query with a plain scan: queries are given rows, moved rows and noise; thresholds are
/// common ones and exact similarities of rows.
fn check(values: &[f32], dim: usize, level: Level, seed: u64) {
    let Some(kernels) = Kernels::at(level) else { return };
    let pool = pool(3);
    let matrix = VectorMatrix::from_slice(values, dim).unwrap();
    let plain = Scan::new(&matrix, &pool, kernels).unwrap();
    let flat = FlatIndex::build(&matrix, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &matrix, kernels).unwrap();
    let mut noise = Values(seed);
    let mut queries: Vec<f32> = Vec::new();
    for moved in [0.0, 1e-4, 0.1, 1.0, 50.0] {
        let start = noise.below(matrix.len()) * dim;
        queries
            .extend(values[start..start + dim].iter().map(|x| x + moved * (noise.next() + 1e-3)));
    }
    let queries = VectorMatrix::from_slice(&queries, dim).unwrap();
    for query in queries.rows().map(|row| queries.vector(row)) {
        let all = plain.k_nearest(query, matrix.len()).unwrap();
        let similarities = [0, all.len() / 100, all.len() / 2].map(|at| all[at].similarity);
        let common = [-1.0, 0.5, 0.95, 1.0].map(|common| Similarity::new(common).unwrap());
        for threshold in similarities.into_iter().chain(common) {
            let expected = all.iter().take_while(|found| found.similarity >= threshold).count();
            assert_eq!(scan.range(query, threshold).unwrap(), &all[..expected], "{threshold}");
        }
        for k in [0, 1, 10, all.len() / 2, all.len() + 1] {
            let expected = &all[..k.min(all.len())];
            assert_eq!(scan.k_nearest(query, k).unwrap(), expected, "{k} nearest");
        }
    }
    let threshold = Similarity::new(0.8).unwrap();
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
    let matrix = VectorMatrix::from_slice(&values, 20).unwrap();
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
    let none = VectorMatrix::from_slice(&[], 5).unwrap();
    let flat = FlatIndex::build(&none, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &none, kernels).unwrap();
    assert!(flat.is_empty() && scan.k_nearest(&[1.0; 5], 3).unwrap().is_empty());
    let queries = VectorMatrix::from_slice(&[1.0; 10], 5).unwrap();
    assert_eq!(scan.range_batch(&queries, Similarity::ONE, &pool).unwrap(), [vec![], vec![]]);
    check(&[0.25; 5 * 100], 5, kernels.level(), 1);
}

#[test]
fn the_same_bytes_for_every_thread_count_and_level() {
    let values = rows(Shape::Clustered, 5_000, 96, 2);
    let matrix = VectorMatrix::from_slice(&values, 96).unwrap();
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
        let matrix = VectorMatrix::from_slice(&values, 24).unwrap();
        FlatIndex::build(&matrix, &pool(2), kernels).unwrap()
    });
    assert_eq!(plain.transform(), negative.transform());
    assert_eq!((plain.codes(), plain.norms()), (negative.codes(), negative.norms()));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (pool, kernels) = (pool(1), Kernels::active());
    let values = [1.0, 2.0, 0.0, 0.0];
    let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
    let error = FlatIndex::build(&matrix, &pool, kernels).unwrap_err();
    assert_eq!(error, VectorError::InvalidRow { row: 1 });
    let matrix = VectorMatrix::from_slice(&values[..2], 2).unwrap();
    let flat = FlatIndex::build(&matrix, &pool, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &matrix, kernels).unwrap();
    let error = scan.k_nearest(&[1.0], 1).unwrap_err();
    assert_eq!(error, VectorError::Dimension { expected: 2, found: 1 });
    let error = scan.range(&[f32::NAN, 0.0], Similarity::ONE).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 0 });
    let queries = VectorMatrix::from_slice(&values, 2).unwrap();
    let error = scan.range_batch(&queries, Similarity::ONE, &pool).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 1 });
    let error = FlatScan::new(flat.view(), &queries, kernels).unwrap_err();
    let expected = Damaged::Vectors { index: [1, 2], found: [2, 2] };
    assert_eq!(error, expected);
}

/// Stored numbers, at the alignment of a mapped file.
struct Stored {
    transform: Vec<f32>,
    codes: Vec<Line>,
    norms: Vec<Line>,
    code_count: usize,
    norm_count: usize,
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Stored {
    fn of(flat: &FlatIndex) -> Self {
        let lines = |bytes: &[u8]| {
            let mut lines = vec![Line([0; 64]); bytes.len().div_ceil(64)];
            bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(bytes);
            lines
        };
        let (codes, norms) = (flat.codes().concat(), flat.norms().concat());
        Self {
            transform: flat.transform().to_vec(),
            codes: lines(bytemuck::cast_slice(&codes)),
            norms: lines(bytemuck::cast_slice(&norms)),
            code_count: codes.len(),
            norm_count: norms.len(),
        }
    }

    fn codes(&self) -> &[i8] {
        &bytemuck::cast_slice(&self.codes)[..self.code_count]
    }

    fn norms(&self) -> &[i32] {
        &bytemuck::cast_slice(&self.norms)[..self.norm_count]
    }

    fn view(&self, shape: (usize, usize)) -> Result<FlatView<'_>, Damaged> {
        FlatView::new(&self.transform, self.codes(), self.norms(), shape.0, shape.1)
    }
}

#[test]
fn rows_encoded_by_the_transform_of_others_are_found_all_the_same() {
    let kernels = Kernels::active();
    let learned_from = rows(Shape::Clustered, 300, 80, 4);
    let learned_from = VectorMatrix::from_slice(&learned_from, 80).unwrap();
    let learned = FlatIndex::build(&learned_from, &pool(1), kernels).unwrap();
    for shape in [Shape::Clustered, Shape::Random] {
        let values = rows(shape, 200, 80, 5);
        let matrix = VectorMatrix::from_slice(&values, 80).unwrap();
        let flat = FlatIndex::encode(&matrix, learned.transform(), kernels).unwrap();
        let mut scan = FlatScan::new(flat.view(), &matrix, kernels).unwrap();
        let plain = Scan::new(&matrix, &pool(1), kernels).unwrap();
        let query = &values[160..240];
        assert_eq!(scan.k_nearest(query, 20).unwrap(), plain.k_nearest(query, 20).unwrap());
        let threshold = Similarity::new(0.3).unwrap();
        assert_eq!(scan.range(query, threshold).unwrap(), plain.range(query, threshold).unwrap());
    }
    let other = VectorMatrix::from_slice(&[1.0; 79], 79).unwrap();
    assert!(FlatIndex::encode(&other, learned.transform(), kernels).is_err());
}

#[test]
fn slices_of_other_lengths_are_refused() {
    let values = rows(Shape::Random, 40, 8, 4);
    let matrix = VectorMatrix::from_slice(&values, 8).unwrap();
    let stored = Stored::of(&FlatIndex::build(&matrix, &pool(1), Kernels::active()).unwrap());
    assert!(stored.view((40, 8)).is_ok());
    for shape in [(41, 8), (39, 8), (64, 8), (usize::MAX, 8), (40, 7), (40, 0), (40, usize::MAX)] {
        assert!(stored.view(shape).is_err(), "{shape:?}");
    }
    let (codes, norms) = (stored.codes(), stored.norms());
    let view = |transform, codes, norms| FlatView::new(transform, codes, norms, 40, 8);
    let short = &stored.transform[..stored.transform.len() - 1];
    let error = view(short, codes, norms).unwrap_err();
    assert!(matches!(error, Damaged::Range { .. }), "{error}");
    let error = view(&stored.transform, &codes[1..], norms).unwrap_err();
    assert!(matches!(error, Damaged::Length { part: "codes", .. }), "{error}");
    let error = view(&stored.transform, codes, &norms[1..]).unwrap_err();
    assert!(matches!(error, Damaged::Length { part: "norms", .. }), "{error}");
    let mut moved = vec![0; codes.len() + 64];
    let start = moved.as_ptr().align_offset(64) + 1;
    moved[start..start + codes.len()].copy_from_slice(codes);
    let error = view(&stored.transform, &moved[start..start + codes.len()], norms).unwrap_err();
    assert_eq!(error, Damaged::Alignment);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is stored, there is no panic, and what is returned is true.
    #[test]
    fn damaged_numbers_never_make_wrong_answers(
        level in prop::sample::select(Level::available()),
        seed in 0_u64..1_000,
        changes in prop::collection::vec((0_u8..3, any::<prop::sample::Index>(), any::<u32>()), 1..40),
    ) {
        let (row_count, dim) = (90, 70);
        let values = rows(Shape::Clustered, row_count, dim, seed);
        let matrix = VectorMatrix::from_slice(&values, dim).unwrap();
        let kernels = Kernels::at(level).unwrap();
        let pool = pool(1);
        let mut stored = Stored::of(&FlatIndex::build(&matrix, &pool, kernels).unwrap());
        for (part, at, bits) in changes {
            let words: &mut [u32] = match part {
                0 => bytemuck::cast_slice_mut(&mut stored.transform),
                1 => bytemuck::cast_slice_mut(&mut stored.codes),
                _ => bytemuck::cast_slice_mut(&mut stored.norms),
            };
            // Often among the first few, where the steps are.
            let at = at.index(words.len()) % if bits % 2 == 0 { 4 } else { usize::MAX };
            words[at] = bits;
        }
        let Ok(view) = stored.view((row_count, dim)) else { return Ok(()) };
        let mut scan = FlatScan::new(view, &matrix, kernels).unwrap();
        let plain = Scan::new(&matrix, &pool, kernels).unwrap();
        let query = &values[..dim];
        let all = plain.k_nearest(query, row_count).unwrap();
        let threshold = all[row_count / 2].similarity;
        let ranged = scan.range(query, threshold).unwrap().to_vec();
        prop_assert!(ranged.iter().all(|found| found.similarity >= threshold));
        let nearest = scan.k_nearest(query, 12).unwrap().to_vec();
        for found in [ranged, nearest] {
            prop_assert!(found.is_sorted_by(|a, b| a < b));
            prop_assert!(found.iter().all(|found| all.contains(found)));
        }
    }
}
