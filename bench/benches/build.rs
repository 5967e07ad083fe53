//! Building the index of lookups: the graph, the flat index, and the codes alone, on all threads
//! but for the codes.
//!
//! Vectors are synthetic. The recall of the built ones is measured by `search`, and by
//! `memfold-bench ann` on vectors of your own.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memfold_bench::is_test_run;
use memfold_bench::workload::{DIM, SyntheticVectors};
use memfold_index::graph::{Graph, GraphOptions};
use memfold_index::{FlatIndex, NoProgress, Pool, VectorMatrix};
use memfold_simd::Kernels;

/// Rows of each workload; a test run takes [`TEST_ROWS`].
const ROW_COUNTS: [u32; 2] = [10_000, 36_000];
const TEST_ROWS: [u32; 1] = [5_000];

fn build(criterion: &mut Criterion) {
    let pool = Pool::new(None).expect("threads start on a machine that benchmarks");
    let kernels = Kernels::active();
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    let row_counts = if is_test_run() { &TEST_ROWS[..] } else { &ROW_COUNTS };
    for &row_count in row_counts {
        let vectors = SyntheticVectors::new(row_count, 0, DIM);
        let rows = vectors.rows();
        group.throughput(Throughput::Elements(row_count.into()));
        let id = |what| BenchmarkId::new(what, format!("synthetic-{row_count}x{DIM}"));
        let graph = || {
            let options = GraphOptions::default();
            Graph::build(&rows, options, &pool, kernels, &NoProgress)
                .expect("rows have a direction")
        };
        group.bench_function(id("graph"), |bencher| bencher.iter(graph));
        group.bench_function(id("flat"), |bencher| {
            bencher
                .iter(|| FlatIndex::build(&rows, &pool, kernels).expect("rows have a direction"));
        });
        let built = graph();
        group.bench_function(id("codes"), |bencher| bencher.iter(|| encode(&built, &rows)));
    }
    group.finish();
}

/// Encodes all rows; returns the last one's codes.
fn encode(graph: &Graph, rows: &VectorMatrix<'_>) -> Vec<i8> {
    let mut codes = Vec::new();
    for row in rows.rows() {
        graph.encode(rows.vector(row), Kernels::active(), &mut codes);
    }
    codes
}

criterion_group!(benches, build);
criterion_main!(benches);
