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

pub mod plot;
pub mod likeness_plots;
pub mod synthetic;
pub mod workload;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
    use super::percentile;

    #[test]
    #[expect(clippy::float_cmp, reason = "percentiles are values that were given")]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let ranks = [0.5, 0.99, 0.999, 1.0].map(|share| percentile(&values, share));
        assert_eq!(ranks, [50.0, 99.0, 100.0, 100.0]);
        assert_eq!([percentile(&[7.0], 0.5), percentile(&[], 0.5)], [7.0, 0.0]);
    }
}
