//! How fast, and how right?
//!
//! Each group of benchmarks is a file in `benches/`; code that several of them need is here.
//! Workloads are data: built before the clock starts, from a seed, and named by their content.
//! Generated data have `synthetic` in their names.
//!
//! | group | question |
//! |---|---|
//! | `kernels` | nanoseconds for each dot product, each level, beside simsimd; the peak |
//! | `join` | all near pairs of N vectors at a threshold, in D dimensions |
//! | `build` | a graph, a flat index, the codes of N vectors |
//! | `search` | one lookup by each index: the nearest, or all in a range, with recall |
//! | `guard` | microseconds for each pair of texts, read anew or read before |
//! | `check` | one check of a memory on a store with an index, alone and beside a writer |
//! | `pipeline` | from a `brain.db` to a plan and a report |
//! | `export` | writing and opening columns, Parquet both ways |
//!
//! `cargo bench -p memfold-bench` measures; `cargo test -p memfold-bench --benches` runs the smallest workloads once.
//! The program `memfold-bench` generates data and measures indexes, checks, exports, the guard and judges on data of
//! your own. Whole processes, up to a million memories or rows, are timed by `bench/measure.py`, other engines beside
//! memfold by `bench/peers/run.py`.

pub mod synthetic;
pub mod wild;
pub mod workload;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use memfold_index::{Neighbor, Row};

/// Tells whether the benchmarks run once as tests: only `cargo bench` passes `--bench`.
///
/// A test run should take the smallest workload of each group only.
#[must_use]
pub fn is_test_run() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

/// Returns the least value that a share of all values does not exceed; 0 where there are none.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// Returns the share of the `k` nearest rows that `found` holds; 1 without any true rows.
///
/// One of the first `k` found counts when it is at most `epsilon` less similar than the last of the true
/// ones, so of rows equally similar any will do; a row that is found again counts once. `truth` is exact,
/// best first; `found` carries canonical similarities.
#[must_use]
pub fn recall_at_k(truth: &[Neighbor], found: &[Neighbor], k: usize, epsilon: f64) -> f64 {
    let truth = &truth[..truth.len().min(k)];
    let Some(last) = truth.last() else { return 1.0 };
    let least = last.similarity.get() - epsilon;
    let near = found.iter().take(k).filter(|neighbor| neighbor.similarity.get() >= least);
    let distinct: BTreeSet<Row> = near.map(|neighbor| neighbor.row).collect();
    distinct.len().min(truth.len()) as f64 / truth.len() as f64
}

/// Returns the mean; 0 where there are no values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Drops files from the system's page cache; `false` where `dd` cannot do that.
pub fn put_out(files: &[PathBuf]) -> bool {
    files.iter().all(|file| {
        let mut input = OsString::from("if=");
        input.push(file);
        let mut dd = Command::new("dd");
        dd.arg(input).args(["iflag=nocache", "count=0", "status=none"]).stderr(Stdio::null());
        dd.status().is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
mod tests {
    use memfold_simd::Similarity;

    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "percentiles are values that were given")]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let ranks = [0.5, 0.99, 0.999, 1.0].map(|share| percentile(&values, share));
        assert_eq!(ranks, [50.0, 99.0, 100.0, 100.0]);
        assert_eq!([percentile(&[7.0], 0.5), percentile(&[], 0.5)], [7.0, 0.0]);
    }

    fn neighbor(row: u32, cosine: f64) -> Neighbor {
        Neighbor { row: Row(row), similarity: Similarity::new(cosine).unwrap() }
    }

    #[test]
    fn ties_count_and_repeats_do_not() {
        let truth = [neighbor(4, 0.9), neighbor(1, 0.8), neighbor(2, 0.8)];
        let recall = |found: &[Neighbor], k| {
            (recall_at_k(&truth, found, k, 0.0) * k as f64).round() as usize
        };
        assert_eq!(recall(&truth, 3), 3);
        assert_eq!(recall(&[neighbor(4, 0.9), neighbor(2, 0.8)], 2), 2);
        assert_eq!(recall(&[neighbor(4, 0.9); 10], 3), 1);
        assert_eq!(recall(&[neighbor(4, 0.9), neighbor(9, 0.7), neighbor(1, 0.8)], 2), 1);
        assert_eq!(recall(&[], 3), 0);
        assert!(recall_at_k(&truth, &truth, 10, 0.0) > 0.999, "no more than there are");
        assert!(recall_at_k(&[], &truth, 3, 0.0) > 0.999, "nothing was to be found");
        let beside = [neighbor(4, 0.9), neighbor(8, 0.7995), neighbor(9, 0.798)];
        assert!(recall_at_k(&truth, &beside, 3, 0.0) < 0.34);
        assert!((0.6..0.7).contains(&recall_at_k(&truth, &beside, 3, 1e-3)));
    }
}
