//! One lookup, on one thread: the ten nearest, or all rows of a cosine of at least 0.85.
//!
//! Vectors and queries are synthetic. The name of each measurement says which share of the right rows was found, mean over the
//! queries: it is the same in every run. `hnsw_rs` is filled on one thread, so that it has fewer rows.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use memfold_bench::workload::{DIM, SyntheticVectors};
use memfold_bench::{is_test_run, mean, recall_at_k};
use memfold_index::graph::{Graph, GraphOptions, Searcher};
use memfold_index::hnsw_rs::{HnswRsIndex, HnswRsOptions};
use memfold_index::{
    FlatIndex, FlatScan, GraphSearcher, Nearest, Neighbor, NoProgress, Pool, Row, Scan,
    VectorMatrix,
};
use memfold_simd::{Kernels, Similarity};

/// Rows to search, and rows of `hnsw_rs`; the smaller numbers are a test run's.
const ROWS: [u32; 2] = [5_000, 36_000];
const HNSW_RS_ROWS: [u32; 2] = [400, 10_000];
const QUERIES: [u32; 2] = [20, 500];

const K: usize = 10;
const EF_SEARCH: [usize; 2] = [64, 128];
const THRESHOLD: f64 = 0.85;

/// Indexes and queries, with the right answers.
struct Lookups<'a, 'c> {
    group: BenchmarkGroup<'c, WallTime>,
    vectors: &'a SyntheticVectors,
    threshold: Similarity,
    nearest: Vec<Vec<Neighbor>>,
    within: Vec<Vec<Neighbor>>,
}

fn search(criterion: &mut Criterion) {
    let size = usize::from(!is_test_run());
    let pool = Pool::new(None).expect("threads start on a machine that benchmarks");
    let kernels = Kernels::active();
    let threshold = Similarity::new(THRESHOLD).expect("a cosine");
    for (row_count, small) in [(ROWS[size], false), (HNSW_RS_ROWS[size], true)] {
        let vectors = SyntheticVectors::new(row_count, QUERIES[size], DIM);
        let rows = vectors.rows();
        let scan = Scan::new(&rows, &pool, kernels).expect("rows have a direction");
        let group = criterion.benchmark_group(format!("search/synthetic-{row_count}x{DIM}"));
        let mut lookups =
            Lookups { group, vectors: &vectors, threshold, nearest: vec![], within: vec![] };
        (lookups.nearest, lookups.within) = lookups.answers(&mut &scan);
        if small {
            let mut index = hnsw_rs(&rows, &pool);
            for ef_search in EF_SEARCH {
                index.set_ef_search(ef_search);
                lookups.measure(&format!("hnsw_rs ef_search {ef_search}"), &mut index);
            }
            continue;
        }
        lookups.measure("scan", &mut &scan);
        let flat = FlatIndex::build(&rows, &pool, kernels).expect("rows have a direction");
        let mut scan = FlatScan::new(flat.view(), &rows, kernels).expect("they fit");
        lookups.measure("flat", &mut scan);
        let graph = Graph::build(&rows, GraphOptions::default(), &pool, kernels, &NoProgress)
            .expect("rows have a direction");
        let view = graph.view();
        let searcher = Searcher::new(&view, &rows, kernels).expect("they fit");
        let mut index = GraphSearcher { searcher, ef_search: 0 };
        for ef_search in EF_SEARCH {
            index.ef_search = ef_search;
            lookups.measure(&format!("graph ef_search {ef_search}"), &mut index);
        }
    }
}

fn hnsw_rs<'a>(rows: &'a VectorMatrix<'a>, pool: &Pool) -> HnswRsIndex<'a> {
    let options = HnswRsOptions::default();
    HnswRsIndex::build(rows, &options, pool, Kernels::active(), &NoProgress)
        .expect("rows have a direction")
}

impl Lookups<'_, '_> {
    /// Measures both kinds of lookup.
    fn measure(&mut self, name: &str, index: &mut impl Nearest) {
        let (nearest, within) = self.answers(index);
        let nearest =
            format!("{name}, {K} nearest, recall {:.4}", recall(&self.nearest, &nearest, K));
        let within =
            format!("{name}, range, recall {:.4}", recall(&self.within, &within, usize::MAX));
        let (queries, threshold) = (self.vectors.queries(), self.threshold);
        let mut next = (0..queries.len() as u32).map(Row).cycle();
        let mut query = || queries.vector(next.next().expect("there are queries"));
        self.group.bench_function(nearest, |bencher| {
            bencher.iter(|| index.k_nearest(query(), K).expect("queries have a direction"));
        });
        self.group.bench_function(within, |bencher| {
            bencher.iter(|| index.range(query(), threshold).expect("queries have a direction"));
        });
    }

    fn answers(&self, index: &mut impl Nearest) -> (Vec<Vec<Neighbor>>, Vec<Vec<Neighbor>>) {
        let queries = self.vectors.queries();
        let answers = queries.rows().map(|row| {
            let query = queries.vector(row);
            let nearest = index.k_nearest(query, K).expect("queries have a direction");
            (nearest, index.range(query, self.threshold).expect("queries have a direction"))
        });
        answers.unzip()
    }
}

/// Returns the mean share of right rows that were found, of the first `k` of each query.
fn recall(right: &[Vec<Neighbor>], found: &[Vec<Neighbor>], k: usize) -> f64 {
    let of = |(right, found): (&Vec<_>, &Vec<_>)| recall_at_k(right, found, k, 0.0);
    mean(&right.iter().zip(found).map(of).collect::<Vec<f64>>())
}

criterion_group!(benches, search);
criterion_main!(benches);
