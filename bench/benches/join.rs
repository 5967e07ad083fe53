//! The exact join: rows × threshold, and dimensions, on synthetic clustered vectors.
//!
//! Vectors are synthetic: centres with a falling spectrum, and a third of the rows near another row, so that
//! some pairs lie above every threshold. Each measurement's throughput counts the pairs
//! compared. Recall is 1 by construction and is asserted by the tests of the index.

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use memfold_bench::is_test_run;
use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs};
use memfold_simd::Similarity;

/// Components of a vector, as of small embedding models.
const DIM: usize = 384;

/// Rows of each workload; a test run takes the first.
const ROW_COUNTS: [usize; 3] = [1_000, 10_000, 36_000];

/// Similarities from "related" to "the same".
const THRESHOLDS: [f64; 3] = [0.75, 0.85, 0.95];

/// Other dimensions, from the least to the most, at few rows.
const OTHER_DIMS: [usize; 4] = [8, 64, 1024, 4096];
const OTHER_DIMS_ROWS: usize = 4_000;
const OTHER_DIMS_THRESHOLD: f64 = 0.85;

/// Spreads positions over \[−1, 1) (splitmix64).
fn hashed(position: u64) -> f32 {
    let mut bits = position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// Makes rows with components that shrink with their position, around a common mean; every third
/// row is the one before it with some jitter.
fn synthetic_rows(row_count: usize, dim: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(row_count * dim);
    for row in 0..row_count {
        let base = if row % 3 == 2 { row - 1 } else { row };
        let jitter = if row == base { 0.0 } else { hashed(row as u64).abs() };
        for at in 0..dim {
            let spread = 1.0 / (1.0 + at as f32 / 40.0);
            let value = hashed((base * dim + at) as u64) + jitter * hashed((row * dim + at) as u64);
            values.push(spread * (value + 0.2));
        }
    }
    values
}

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
    row_count: usize,
    dim: usize,
    thresholds: &[f64],
) {
    let pool = Pool::new(None).expect("threads start on a machine that benchmarks");
    let options = JoinOptions::new(&pool);
    let values = synthetic_rows(row_count, dim);
    let matrix = VectorMatrix::from_slice(&values, dim).expect("rows are whole");
    group.throughput(Throughput::Elements((row_count * (row_count - 1) / 2) as u64));
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
