//! Kernels: time per pair, and multiplications per second of the sign test, for every level of
//! this processor, beside simsimd.
//!
//! Throughput counts multiply-and-adds as elements: `Gelem/s` reads as GMAC/s.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use memfold_simd::{ColumnPanel, Kernels, Level, RowBlock};
use simsimd::{SpatialSimilarity, bf16, f16};

/// Sentence embedders' dimensions, the prefix of the join, and the smallest and largest ones.
const DIMS: [usize; 6] = [8, 64, 384, 768, 1536, 4096];

/// The join's block × panel: 64 KiB of rows against 256 KiB of columns at 64 codes.
const HITS_ROWS: usize = 1024;
const HITS_COLUMNS: usize = 4096;
const HITS_DIMS: [usize; 3] = [32, 64, 128];

/// One pair in this many passes, about as often as in the join.
const PAIRS_PER_HIT: f32 = 2500.0;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    let mut group = criterion.benchmark_group("kernels");
    for kernels in Level::available().into_iter().filter_map(Kernels::at) {
        for dim in DIMS {
            bench_pairs(&mut group, kernels, dim);
        }
        for dim in HITS_DIMS {
            bench_hits(&mut group, kernels, "hits", HITS_ROWS, dim);
            bench_hits(&mut group, kernels, "scan", 1, dim);
        }
    }
    for dim in DIMS {
        bench_simsimd(&mut group, dim);
    }
    group.finish();
    criterion.final_summary();
}

fn bench_pairs(group: &mut BenchmarkGroup<'_, WallTime>, kernels: &'static Kernels, dim: usize) {
    let (a, b) = (vector(dim, 1), vector(dim, 2));
    let (a_codes, b_codes) = (codes(dim, 1), codes(dim, 2));
    let level = kernels.level();
    group.throughput(Throughput::Elements(dim as u64));
    group.bench_function(BenchmarkId::new(format!("dot_f64/{level}"), dim), |bencher| {
        bencher.iter(|| kernels.dot(black_box(&a), black_box(&b)));
    });
    group.bench_function(BenchmarkId::new(format!("dot_f32/{level}"), dim), |bencher| {
        bencher.iter(|| kernels.dot_f32(black_box(&a), black_box(&b)));
    });
    group.bench_function(BenchmarkId::new(format!("dot_i8/{level}"), dim), |bencher| {
        bencher.iter(|| kernels.dot_i8(black_box(&a_codes), black_box(&b_codes)));
    });
}

fn bench_hits(
    group: &mut BenchmarkGroup<'_, WallTime>,
    kernels: &'static Kernels,
    name: &str,
    row_count: usize,
    dim: usize,
) {
    let row_codes = codes(row_count * dim, 1);
    let shifted_codes: Vec<u8> = row_codes.iter().map(|code| code.cast_unsigned() ^ 0x80).collect();
    let column_codes = codes(HITS_COLUMNS * dim, 2);
    let bias = bias(&row_codes, &column_codes, dim);
    let row_biases = vec![bias; row_count];
    let rows =
        RowBlock { shifted_codes: &shifted_codes, biases: &row_biases, dim, group_counts: &[] };
    let mut panel = ColumnPanel::default();
    panel.pack(&column_codes, &[0; HITS_COLUMNS], dim);
    let mut hits = Vec::new();
    group.throughput(Throughput::Elements((row_count * HITS_COLUMNS * dim) as u64));
    let id = BenchmarkId::new(format!("{name}/{}", kernels.level()), dim);
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            hits.clear();
            kernels.hits(black_box(&rows), black_box(panel.columns()), &mut hits);
            hits.len()
        });
    });
}

fn bench_simsimd(group: &mut BenchmarkGroup<'_, WallTime>, dim: usize) {
    let (a, b) = (vector(dim, 1), vector(dim, 2));
    group.throughput(Throughput::Elements(dim as u64));
    bench_simsimd_type(group, "f32", &a, &b);
    let half = |x: &[f32]| x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
    bench_simsimd_type(group, "f16", &half(&a), &half(&b));
    let brain = |x: &[f32]| x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
    bench_simsimd_type(group, "bf16", &brain(&a), &brain(&b));
    bench_simsimd_type(group, "i8", &codes(dim, 1), &codes(dim, 2));
}

fn bench_simsimd_type<T: SpatialSimilarity>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    a: &[T],
    b: &[T],
) {
    group.bench_function(BenchmarkId::new(format!("dot_{name}/simsimd"), a.len()), |bencher| {
        bencher.iter(|| T::dot(black_box(a), black_box(b)));
    });
}

/// Returns the bias with which about one pair in [`PAIRS_PER_HIT`] passes.
fn bias(row_codes: &[i8], column_codes: &[i8], dim: usize) -> i32 {
    let scalar = Kernels::at(Level::Scalar).expect("every processor has it");
    let rows = row_codes.chunks_exact(dim).take(100);
    let mut scores: Vec<i32> = rows
        .flat_map(|row| column_codes.chunks_exact(dim).take(1000).map(move |column| (row, column)))
        .map(|(row, column)| scalar.dot_i8(row, column))
        .collect();
    scores.sort_unstable();
    -scores[scores.len() - 1 - (scores.len() as f32 / PAIRS_PER_HIT) as usize]
}

fn vector(dim: usize, seed: u32) -> Vec<f32> {
    codes(dim, seed).into_iter().map(|code| f32::from(code) / 128.0).collect()
}

/// Returns codes that look random and are the same everywhere.
fn codes(count: usize, seed: u32) -> Vec<i8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8
    };
    (0..count).map(|_| next().cast_signed()).collect()
}
