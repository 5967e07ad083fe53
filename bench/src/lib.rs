//! How fast, and how right?
//!
//! Each group of benchmarks is a file in `benches/`; what several of them need stands here. Workloads are data: built before
//! the clock starts, from a seed, and named for what they are. Whatever is generated says `synthetic` in its name.
//!
//! | group | question |
//! |---|---|
//! | `kernels` | nanoseconds for each dot product, each level, beside simsimd; the peak |
//! | `join` | all near pairs of so many vectors at a threshold, in so many dimensions |
//! | `build` | a graph, a slab, the codes of so many vectors |
//! | `search` | one lookup by each index: the nearest, or all in a range, with recall |
//! | `guard` | microseconds for each pair of texts, read anew or read before |
//! | `check` | one check of a memory on a store with an index, alone and beside a writer |
//! | `pipeline` | from a `brain.db` to a plan and a report |
//! | `export` | writing and opening columns, Parquet both ways |
//!
//! `cargo bench -p memfold-bench` measures; `cargo test -p memfold-bench --benches` runs the smallest workloads once.
//! Whole processes, up to a million memories or rows, are timed by `cargo xtask measure` and `measure-join`; other engines
//! beside memfold by `cargo xtask bench-peers`, with what stands in `bench/peers`.

pub mod workload;

/// Tells whether the benchmarks run once as tests: only `cargo bench` passes `--bench`.
///
/// A test run should take the smallest workload of each group only.
#[must_use]
pub fn is_test_run() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}
