//! Dot products: level × length × offset × kind of values.

use super::{Noise, tables};
use crate::FloatPanel;
use crate::canonical::LANES;
use crate::kernels::{DOT_I8_DIM_MAX, SQUARED_DISTANCE_DIM_MAX};

const LENGTH_MAX: usize = 515;
/// Beyond the widest register in f32, so that every misalignment occurs.
const OFFSETS: [usize; 4] = [0, 1, 3, 7];

/// One kind of values: its name, and the vectors.
type Kind = (&'static str, Vec<f32>, Vec<f32>);

fn kinds() -> Vec<Kind> {
    let mut noise = Noise(1);
    let length = LENGTH_MAX + 8;
    let mut make = |f: &dyn Fn(&mut Noise, usize) -> f32| -> Vec<f32> {
        (0..length).map(|i| f(&mut noise, i)).collect()
    };
    let random = make(&|noise, _| noise.unit());
    vec![
        ("zeros", make(&|_, _| 0.0), make(&|noise, _| noise.unit())),
        ("minus zeros", make(&|_, _| -0.0), make(&|_, i| if i % 2 == 0 { 0.0 } else { 1.0 })),
        (
            "subnormal",
            make(&|noise, _| f32::from_bits(noise.next() as u32 & 0x807f_ffff)),
            make(&|noise, _| noise.unit()),
        ),
        (
            "subnormal squared",
            make(&|_, i| f32::from_bits(i as u32)),
            make(&|_, i| f32::from_bits(1 + i as u32)),
        ),
        (
            "huge",
            make(&|noise, _| noise.unit() * f32::MAX),
            make(&|noise, _| noise.unit() * f32::MAX),
        ),
        (
            "mixed",
            make(&|noise, i| noise.unit() * 10_f32.powi(i as i32 % 60 - 30)),
            make(&|noise, _| noise.unit()),
        ),
        ("equal", random.clone(), random),
        ("random", make(&|noise, _| noise.unit()), make(&|noise, _| noise.unit())),
    ]
}

/// The definition once more, one element at a time.
fn canonical_reference(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0_f64; LANES];
    for i in 0..a.len() {
        sums[i % LANES] += f64::from(a[i]) * f64::from(b[i]);
    }
    for half in [8, 4, 2, 1] {
        for k in 0..half {
            sums[k] += sums[k + half];
        }
    }
    sums[0]
}

fn for_all_slices(mut check: impl FnMut(&str, &[f32], &[f32])) {
    for (name, a, b) in kinds() {
        for length in 0..=LENGTH_MAX {
            // Every length meets every offset over the kinds; all of them each time would be slow.
            let offset = OFFSETS[(length + name.len()) % OFFSETS.len()];
            let other = OFFSETS[length / 4 % OFFSETS.len()];
            check(name, &a[offset..offset + length], &b[other..other + length]);
        }
    }
}

#[test]
fn canonical_dot_has_the_same_bits_on_every_level() {
    for kernels in tables() {
        for_all_slices(|kind, a, b| {
            let (found, expected) = (kernels.dot(a, b), canonical_reference(a, b));
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "{}, {kind}, length {}: {found} is not {expected}",
                kernels.level(),
                a.len()
            );
        });
    }
}

#[test]
fn canonical_dot_is_near_the_plain_sum() {
    for_all_slices(|kind, a, b| {
        let terms = || a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
        let bound = terms().map(f64::abs).sum::<f64>() * a.len() as f64 * f64::EPSILON;
        let error = (canonical_reference(a, b) - terms().sum::<f64>()).abs();
        assert!(error <= bound, "{kind}, length {}: {error:e} > {bound:e}", a.len());
    });
}

#[test]
fn fast_dot_is_within_the_rounding_bound() {
    for kernels in tables() {
        for_all_slices(|kind, a, b| {
            let terms = || a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
            if terms().any(|term| term.abs() > 1e36) {
                return; // Beyond f32: no promise.
            }
            let sum = terms().map(f64::abs).sum::<f64>();
            let bound =
                a.len() as f64 * (sum * f64::from(f32::EPSILON) + f64::from(f32::from_bits(1)));
            let error = (f64::from(kernels.dot_f32(a, b)) - terms().sum::<f64>()).abs();
            assert!(
                error <= bound,
                "{}, {kind}, length {}: {error:e} > {bound:e}",
                kernels.level(),
                a.len()
            );
        });
    }
}

#[test]
fn fast_products_are_those_of_each_row_and_column() {
    let mut noise = Noise(7);
    let mut random = |count| (0..count).map(|_| noise.unit()).collect::<Vec<_>>();
    for (dim, row_count, column_count, count) in [
        (1, 1, 1, 1),
        (3, 2, 31, 31),
        (16, 3, 32, 5),
        (17, 4, 33, 33),
        (33, 13, 64, 33),
        (100, 24, 70, 64),
        (384, 25, 96, 96),
        (384, 0, 8, 8),
        (5, 7, 40, 0),
    ] {
        let (rows, columns) = (random(dim * row_count), random(dim * column_count));
        let panel = FloatPanel::pack(&columns, dim);
        assert_eq!((panel.len(), panel.dim(), panel.is_empty()), (column_count, dim, false));
        let rows: Vec<&[f32]> = rows.chunks_exact(dim).collect();
        let columns = || columns.chunks_exact(dim).take(count);
        for kernels in tables() {
            let mut found = vec![7.0];
            kernels.products_f32(&rows, &panel, count, &mut found);
            let expected = rows.iter().flat_map(|row| columns().map(|column| (*row, column)));
            assert_eq!((found.len(), found[0].to_bits()), (row_count * count + 1, 7_f32.to_bits()));
            for (found, (row, column)) in found[1..].iter().zip(expected) {
                let error = (f64::from(*found) - crate::canonical::dot(row, column)).abs();
                assert!(error < dim as f64 * 1e-7, "{}, {dim}: {error:e}", kernels.level());
            }
        }
    }
    for kernels in tables() {
        let refused = |row: &[f32], count: usize| {
            let panel = FloatPanel::pack(&[1.0, 2.0, 3.0, 4.0], 2);
            let products = || kernels.products_f32(&[row], &panel, count, &mut Vec::new());
            std::panic::catch_unwind(products).is_err()
        };
        assert!(refused(&[1.0], 2));
        assert!(refused(&[1.0, 2.0], 3));
        assert!(!refused(&[1.0, 2.0], 2));
    }
    assert!(std::panic::catch_unwind(|| FloatPanel::pack(&[1.0; 3], 2)).is_err());
    assert!(std::panic::catch_unwind(|| FloatPanel::pack(&[], 0)).is_err());
}

#[test]
fn int8_dot_is_exact() {
    let mut noise = Noise(2);
    let length = LENGTH_MAX + 8;
    let mut random = || (0..length).map(|_| noise.code()).collect::<Vec<_>>();
    let (a, b) = (random(), random());
    let (low, high, zero) = (vec![i8::MIN; length], vec![i8::MAX; length], vec![0; length]);
    let pairs = [
        (&a, &b),
        (&a, &a),
        (&low, &low),
        (&low, &high),
        (&high, &high),
        (&zero, &low),
        (&low, &a),
    ];
    for kernels in tables() {
        for (a, b) in pairs {
            for length in 0..=LENGTH_MAX {
                let (offset, other) = (OFFSETS[length % 4], OFFSETS[length / 4 % 4]);
                let (a, b) = (&a[offset..offset + length], &b[other..other + length]);
                let expected: i64 =
                    a.iter().zip(b).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum();
                let found = kernels.dot_i8(a, b);
                assert_eq!(i64::from(found), expected, "{}, length {length}", kernels.level());
            }
        }
    }
}

#[test]
fn int8_dots_are_those_of_each_row() {
    let mut noise = Noise(5);
    let mut random = |count| (0..count).map(|_| noise.code()).collect::<Vec<_>>();
    for length in [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 384] {
        let (vector, rows) = (random(length), random(length * 11));
        let expected: Vec<i64> = rows
            .chunks_exact(length)
            .map(|row| vector.iter().zip(row).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum())
            .collect();
        for kernels in tables() {
            let mut found = vec![7];
            kernels.dots_i8(&vector, &rows, &mut found);
            assert_eq!(found.remove(0), 7, "appended");
            let found: Vec<_> = found.into_iter().map(i64::from).collect();
            assert_eq!(found, expected, "{}, length {length}", kernels.level());
        }
    }
    for kernels in tables() {
        let dots = |vector: &[i8], rows: &[i8]| {
            let mut found = Vec::new();
            kernels.dots_i8(vector, rows, &mut found);
        };
        assert!(std::panic::catch_unwind(|| dots(&[], &[])).is_err());
        assert!(std::panic::catch_unwind(|| dots(&[1, 2], &[1, 2, 3])).is_err());
    }
}

#[test]
fn squared_distances_to_picked_rows_come_in_their_order() {
    let mut noise = Noise(6);
    for length in [1, 3, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 320, 384] {
        let vector: Vec<i8> = (0..length).map(|_| noise.code()).collect();
        let rows: Vec<i8> = (0..length * 40).map(|_| noise.code()).collect();
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 33] {
            let picked: Vec<u32> = (0..count).map(|_| (noise.next() % 40) as u32).collect();
            let distance = |&row: &u32| -> i32 {
                let row = &rows[row as usize * length..][..length];
                vector.iter().zip(row).map(|(&a, &b)| (i32::from(a) - i32::from(b)).pow(2)).sum()
            };
            for kernels in tables() {
                let mut found = vec![7];
                kernels.squared_distances(&vector, &rows, &picked, &mut found);
                assert_eq!(found.remove(0), 7, "appended");
                let expected = picked.iter().map(distance);
                assert!(expected.eq(found), "{}, length {length}", kernels.level());
            }
        }
    }
    for kernels in tables() {
        kernels.prefetch(&[0; 100]);
        kernels.prefetch(&[]);
        let beyond = || kernels.squared_distances(&[1, 2], &[1, 2, 3], &[1], &mut Vec::new());
        assert!(std::panic::catch_unwind(beyond).is_err());
        let empty = || kernels.squared_distances(&[], &[1], &[0], &mut Vec::new());
        assert!(std::panic::catch_unwind(empty).is_err());
    }
}

#[test]
fn squared_distances_are_exact_at_the_longest() {
    for kernels in tables() {
        let rows = vec![i8::MIN; 5 * SQUARED_DISTANCE_DIM_MAX];
        let mut found = Vec::new();
        let vector = vec![i8::MAX; SQUARED_DISTANCE_DIM_MAX];
        kernels.squared_distances(&vector, &rows, &[0, 1, 2, 3, 4], &mut found);
        assert_eq!(found, [255 * 255 * 32_768; 5], "{}", kernels.level());
        let longer = || kernels.squared_distances(&[0; 32_769], &[], &[], &mut Vec::new());
        assert!(std::panic::catch_unwind(longer).is_err());
    }
}

#[test]
fn int8_dot_is_exact_at_the_longest() {
    for kernels in tables() {
        for (a, b) in [(-128, -128), (-128, 127), (127, 127), (127, -128)] {
            let found = kernels.dot_i8(&vec![a; DOT_I8_DIM_MAX], &vec![b; DOT_I8_DIM_MAX]);
            let expected = i32::from(a) * i32::from(b) * (DOT_I8_DIM_MAX as i32);
            assert_eq!(found, expected, "{}", kernels.level());
        }
    }
}

#[test]
#[should_panic(expected = "may overflow an i32")]
fn int8_dot_refuses_what_may_overflow() {
    let codes = vec![0; DOT_I8_DIM_MAX + 1];
    let _ = crate::Kernels::active().dot_i8(&codes, &codes);
}

#[test]
fn different_lengths_are_refused_on_every_level() {
    for kernels in tables() {
        assert!(std::panic::catch_unwind(|| kernels.dot(&[1.0], &[1.0, 2.0])).is_err());
        assert!(std::panic::catch_unwind(|| kernels.dot_f32(&[1.0], &[1.0, 2.0])).is_err());
        assert!(std::panic::catch_unwind(|| kernels.dot_i8(&[1], &[1, 2])).is_err());
    }
}
