//! The exact join: rows × threshold, and dimensions, on synthetic clustered vectors.
//!
//! Vectors are synthetic, with groups of near and equal rows, so that some pairs lie above every threshold. Each measurement's throughput counts the pairs
//! compared. Recall is 1 by construction and is asserted by the tests of the index.

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use memfold_bench::is_test_run;
use memfold_bench::workload::{DIM, SyntheticVectors};
use memfold_index::{JoinOptions, Pool, join_pairs};
use memfold_simd::Similarity;

/// Rows of each workload; a test run takes the first.
const ROW_COUNTS: [u32; 3] = [1_000, 10_000, 36_000];

/// Similarities from "related" to "the same".
const THRESHOLDS: [f64; 3] = [0.75, 0.85, 0.95];

/// Other dimensions, from the least to the most, at few rows.
const OTHER_DIMS: [usize; 4] = [8, 64, 1024, 4096];
const OTHER_DIMS_ROWS: u32 = 4_000;
const OTHER_DIMS_THRESHOLD: f64 = 0.85;

fn join(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("join");
    group.sample_size(10);
    let sizes = if is_test_run() { &ROW_COUNTS[..1] } else { &ROW_COUNTS };
    for &row_count in sizes {
        bench_rows(&mut group, row_count, DIM, &THRESHOLDS);
    }
    let dims = if is_test_run() { &OTHER_DIMS[..1] } else { &OTHER_DIMS };
    for &dim in dims {
        bench_rows(&mut group, OTHER_DIMS_ROWS, dim, &[OTHER_DIMS_THRESHOLD]);
    }
    group.finish();
}

fn bench_rows(
    group: &mut BenchmarkGroup<'_, WallTime>,
    row_count: u32,
    dim: usize,
    thresholds: &[f64],
) {
    let pool = Pool::new(None).expect("threads start on a machine that benchmarks");
    let options = JoinOptions::new(&pool);
    let vectors = SyntheticVectors::new(row_count, 0, dim);
    let matrix = vectors.rows();
    let rows = u64::from(row_count);
    group.throughput(Throughput::Elements(rows * (rows - 1) / 2));
    for &threshold in thresholds {
        let at = Similarity::new(threshold).expect("thresholds are cosines");
        let id = BenchmarkId::new(format!("synthetic-{row_count}x{dim}"), threshold);
        group.bench_function(id, |bencher| {
            bencher.iter(|| join_pairs(&matrix, at, &options).expect("rows have a direction"));
        });
    }
}

criterion_group!(benches, join);
criterion_main!(benches);
