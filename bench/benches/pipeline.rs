//! End to end: from a `brain.db` on disk to a plan and a report, as `memfold consolidate` runs it.
//!
//! The stores are synthetic ([`SyntheticStore`]). The start of a process is not measured here; `python3 bench/measure.py consolidate`
//! times whole processes. Recall is 1: the exact join finds every pair.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memfold_bench::is_test_run;
use memfold_bench::workload::{DIM, SyntheticStore, Workbench};

/// Memories of each store; a test run takes the first.
const ROW_COUNTS: [u32; 3] = [1_000, 10_000, 100_000];

fn pipeline(criterion: &mut Criterion) {
    let workbench = Workbench::start();
    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(10);
    for row_count in ROW_COUNTS.into_iter().take(if is_test_run() { 1 } else { ROW_COUNTS.len() }) {
        let store = SyntheticStore::build(row_count);
        group.throughput(Throughput::Elements(row_count.into()));
        let id = BenchmarkId::new("consolidate", format!("synthetic-{row_count}x{DIM}"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| workbench.consolidate(&store));
        });
    }
    group.finish();
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
