//! The sign test: level × shape × kind of codes and biases, as sorted sets.

use std::collections::BTreeSet;

use super::{Noise, tables};
use crate::panel::{
    BIAS_MAX, DIM_MAX, I7_CODE_MAX, I7_SQUARED_LENGTH_MAX, PACKED_COLUMNS, RUN_ROWS,
};
use crate::{ColumnPanel, Hit, RowBlock, ScoredHit};

/// Rows and columns of one test, as signed codes.
struct Case {
    dim: usize,
    row_codes: Vec<i8>,
    row_biases: Vec<i32>,
    column_codes: Vec<i8>,
    column_biases: Vec<i32>,
    is_i7: bool,
}

impl Case {
    /// Makes a case with scores spread around zero, so that the test decides something.
    fn random(noise: &mut Noise, row_count: usize, column_count: usize, dim: usize) -> Self {
        let spread = 8_000.0 * (dim as f32).sqrt();
        let mut biases = |count| (0..count).map(|_| (noise.unit() * spread) as i32).collect();
        let (row_biases, column_biases) = (biases(row_count), biases(column_count));
        let mut codes = |count| (0..count * dim).map(|_| noise.code()).collect();
        let (row_codes, column_codes) = (codes(row_count), codes(column_count));
        Self { dim, row_codes, row_biases, column_codes, column_biases, is_i7: false }
    }

    /// Makes a case of 7-bit codes, some as long as they may be; some biases let everything pass.
    fn random_i7(noise: &mut Noise, row_count: usize, column_count: usize, dim: usize) -> Self {
        let mut codes = |count: usize| {
            let mut codes: Vec<i8> =
                (0..count * dim).map(|_| (noise.code() / 2).max(-I7_CODE_MAX)).collect();
            for (at, codes) in codes.chunks_exact_mut(dim).enumerate() {
                if at % 3 == 0 {
                    codes.fill(I7_CODE_MAX * if at % 2 == 0 { 1 } else { -1 });
                }
                let mut squares = 0;
                for code in codes {
                    squares += i32::from(*code).pow(2);
                    *code = if squares > I7_SQUARED_LENGTH_MAX { 0 } else { *code };
                }
            }
            codes
        };
        let (row_codes, column_codes) = (codes(row_count), codes(column_count));
        let mut biases = |count| -> Vec<i32> {
            let bias = |_| match noise.unit() {
                unit if unit > 0.95 => BIAS_MAX,
                unit => ((unit * 8_191.0) as i32).max(-I7_SQUARED_LENGTH_MAX / 2),
            };
            (0..count).map(bias).collect()
        };
        let (row_biases, column_biases) = (biases(row_count), biases(column_count));
        Self { dim, row_codes, row_biases, column_codes, column_biases, is_i7: true }
    }

    fn constant(shape: [usize; 3], codes: [i8; 2], biases: [i32; 2]) -> Self {
        let [row_count, column_count, dim] = shape;
        Self {
            dim,
            row_codes: vec![codes[0]; row_count * dim],
            row_biases: vec![biases[0]; row_count],
            column_codes: vec![codes[1]; column_count * dim],
            column_biases: vec![biases[1]; column_count],
            is_i7: false,
        }
    }

    fn reference(&self) -> Vec<ScoredHit> {
        let mut hits = Vec::new();
        for (row, row_bias) in self.row_biases.iter().enumerate() {
            for (column, column_bias) in self.column_biases.iter().enumerate() {
                let mut score = i64::from(*row_bias) + i64::from(*column_bias);
                for k in 0..self.dim {
                    let row_code = self.row_codes[row * self.dim + k];
                    score +=
                        i64::from(row_code) * i64::from(self.column_codes[column * self.dim + k]);
                }
                if score >= 0 {
                    let hit = Hit { row: row as u32, column: column as u32 };
                    hits.push(ScoredHit { hit, score: i32::try_from(score).unwrap() });
                }
            }
        }
        hits
    }

    /// Checks every level; the panel's memory is used again, as the join does.
    fn check(&self, panel: &mut ColumnPanel) -> usize {
        panel.pack(&self.column_codes, &self.column_biases, self.dim);
        assert_eq!(panel.len(), self.column_biases.len());
        let shifted_codes: Vec<u8> =
            self.row_codes.iter().map(|&code| code.cast_unsigned() ^ 0x80).collect();
        let rows = RowBlock {
            shifted_codes: &shifted_codes,
            biases: &self.row_biases,
            dim: self.dim,
            group_counts: &[],
        };
        let scored = self.reference();
        let expected: Vec<Hit> = scored.iter().map(|scored| scored.hit).collect();
        for kernels in tables() {
            let mut found = Vec::new();
            kernels.scored_hits(&rows, panel.columns(), &mut found);
            found.sort_unstable();
            assert!(
                found == scored,
                "{}: scores of {} rows",
                kernels.level(),
                self.row_biases.len()
            );
            let mut found = Vec::new();
            kernels.hits(&rows, panel.columns(), &mut found);
            found.sort_unstable();
            assert!(
                found == expected,
                "{}: {} rows × {} columns × {}: {} hits, {} expected",
                kernels.level(),
                self.row_biases.len(),
                self.column_biases.len(),
                self.dim,
                found.len(),
                expected.len()
            );
            if self.is_i7 {
                let mut found = Vec::new();
                kernels.hits_i7(&rows, panel.columns(), &mut found);
                found.sort_unstable();
                assert!(found == expected, "{}: codes of 7 bits", kernels.level());
            }
        }
        expected.len()
    }
}

#[test]
fn random_codes_in_every_shape() {
    let mut noise = Noise(3);
    let mut panel = ColumnPanel::default();
    let (mut hit_count, mut pair_count) = (0, 0);
    for row_count in [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 24, 25, 32, 37, 65] {
        for column_count in [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100] {
            for dim in [4, 8, 12, 32, 60, 64, 68, 128, 132] {
                hit_count +=
                    Case::random(&mut noise, row_count, column_count, dim).check(&mut panel);
                pair_count += row_count * column_count;
            }
        }
    }
    assert!(
        hit_count > pair_count / 5 && hit_count < pair_count * 4 / 5,
        "{hit_count}/{pair_count}"
    );
}

#[test]
fn rows_meet_at_least_the_groups_that_are_counted() {
    let mut noise = Noise(9);
    let mut panel = ColumnPanel::default();
    for (row_count, column_count, dim) in [(70, 200, 48), (9, 33, 128), (33, 40, 1_028), (1, 64, 8)]
    {
        let case = Case::random(&mut noise, row_count, column_count, dim);
        panel.pack(&case.column_codes, &case.column_biases, dim);
        let shifted_codes: Vec<u8> =
            case.row_codes.iter().map(|&code| code.cast_unsigned() ^ 0x80).collect();
        let group_counts: Vec<u32> =
            (0..row_count.div_ceil(RUN_ROWS)).map(|_| (noise.next() % 5) as u32).collect();
        let rows = RowBlock {
            shifted_codes: &shifted_codes,
            biases: &case.row_biases,
            dim,
            group_counts: &group_counts,
        };
        let all: BTreeSet<Hit> = case.reference().iter().map(|scored| scored.hit).collect();
        let is_counted = |hit: &&Hit| {
            let count = group_counts[hit.row as usize / RUN_ROWS] as usize;
            (hit.column as usize) < count * PACKED_COLUMNS
        };
        for kernels in tables() {
            let mut found = Vec::new();
            kernels.hits(&rows, panel.columns(), &mut found);
            let distinct: BTreeSet<Hit> = found.iter().copied().collect();
            assert_eq!(distinct.len(), found.len(), "{}: hits twice", kernels.level());
            assert!(distinct.is_subset(&all), "{}", kernels.level());
            assert!(all.iter().filter(is_counted).all(|hit| distinct.contains(hit)));
        }
    }
}

#[test]
fn codes_of_seven_bits_in_every_shape() {
    let mut noise = Noise(5);
    let mut panel = ColumnPanel::default();
    let (mut hit_count, mut pair_count) = (0, 0);
    for row_count in [1, 2, 5, 6, 7, 12, 13, 24, 25] {
        for column_count in [1, 8, 15, 16, 17, 31, 32, 33, 64, 100] {
            for dim in [4, 8, 16, 20, 64, 96, 132] {
                let case = Case::random_i7(&mut noise, row_count, column_count, dim);
                hit_count += case.check(&mut panel);
                pair_count += row_count * column_count;
            }
        }
    }
    let share = hit_count as f64 / pair_count as f64;
    assert!((0.2..0.8).contains(&share), "{share}");
}

#[test]
fn extreme_codes_at_the_edge_of_the_test() {
    let mut panel = ColumnPanel::default();
    let shape = [13, 33, 64];
    for codes in [[-128, -128], [-128, 127], [127, -128], [127, 127], [0, -128], [-128, 0], [1, -1]]
    {
        let sum = i32::from(codes[0]) * i32::from(codes[1]) * 64;
        // Score 0 passes, −1 does not; and the bias may stand on either side.
        for biases in [[-sum, 0], [0, -sum], [BIAS_MAX / 2 - sum, -BIAS_MAX / 2]] {
            assert_eq!(Case::constant(shape, codes, biases).check(&mut panel), 13 * 33);
            let below = [biases[0], biases[1] - 1];
            assert_eq!(Case::constant(shape, codes, below).check(&mut panel), 0);
        }
    }
}

#[test]
fn the_largest_sums_do_not_wrap() {
    let mut panel = ColumnPanel::default();
    for (codes, bias, expected) in
        [([-128, -128], BIAS_MAX, 6), ([-128, 127], -BIAS_MAX, 0), ([127, -128], -BIAS_MAX, 0)]
    {
        let case = Case::constant([2, 3, DIM_MAX], codes, [bias, bias]);
        assert_eq!(case.check(&mut panel), expected);
    }
}

#[test]
fn extreme_biases_never_make_padding_pass() {
    let mut panel = ColumnPanel::default();
    for (row_bias, column_bias) in
        [(BIAS_MAX, BIAS_MAX), (BIAS_MAX, -BIAS_MAX), (-BIAS_MAX, BIAS_MAX), (-BIAS_MAX, -BIAS_MAX)]
    {
        let expected = if row_bias + column_bias >= 0 { 35 } else { 0 };
        let case = Case::constant([5, 7, 8], [0, 0], [row_bias, column_bias]);
        assert_eq!(case.check(&mut panel), expected);
        // The shift's correction must not lift it either.
        let case = Case::constant([1, 1, 64], [-128, -128], [row_bias, column_bias]);
        case.check(&mut panel);
    }
}

#[test]
fn out_of_range_input_is_refused() {
    let refused = |f: &(dyn Fn() + std::panic::RefUnwindSafe)| std::panic::catch_unwind(f).is_err();
    let pack = |codes: &[i8], bias, dim| ColumnPanel::default().pack(codes, &[bias], dim);
    assert!(refused(&|| pack(&[0; 4], BIAS_MAX + 1, 4)));
    assert!(refused(&|| pack(&[0; 4], i32::MIN, 4)));
    assert!(refused(&|| pack(&[0; 6], 0, 6)));
    assert!(refused(&|| pack(&[], 0, 0)));
    assert!(refused(&|| pack(&[0; 8], 0, 4)));
    for kernels in tables() {
        let mut panel = ColumnPanel::default();
        panel.pack(&[0; 4], &[0], 4);
        let hits = |shifted_codes: &[u8], bias: i32, dim| {
            kernels.hits(
                &RowBlock { shifted_codes, biases: &[bias], dim, group_counts: &[] },
                panel.columns(),
                &mut Vec::new(),
            );
        };
        hits(&[128; 4], 0, 4);
        assert!(refused(&|| hits(&[128; 4], BIAS_MAX + 1, 4)));
        assert!(refused(&|| hits(&[128; 3], 0, 4)));
        assert!(refused(&|| hits(&[128; 8], 0, 8)));
        let counted = |group_counts: &[u32]| {
            let rows = RowBlock { shifted_codes: &[128; 4], biases: &[0], dim: 4, group_counts };
            kernels.hits(&rows, panel.columns(), &mut Vec::new());
        };
        counted(&[7]);
        assert!(refused(&|| counted(&[1, 1])));
    }
}
