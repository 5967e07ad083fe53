//! `memfold-bench ann`: how right and how fast an index finds nearest neighbours among vectors.

use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops::pool;
use memfold_bench::{mean, percentile, recall_at_k};
use memfold_cli::{GlobalArgs, open_test_set, open_vectors};
use memfold_core::report::grouped;
use memfold_guard::text::excerpt;
use memfold_index::graph::{Graph, GraphOptions, Searcher};
use memfold_index::hnsw_rs::{HnswRsIndex, HnswRsOptions};
use memfold_index::{
    FlatIndex, FlatScan, GraphSearcher, Nearest, Neighbor, Pool, Progress, Row, Scan, VectorMatrix,
};
use memfold_simd::Kernels;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, table};
use memfold_terminal::progress::Bars;

use crate::args::{AnnArgs, AnnMethodArg};
use crate::common::timed;

/// The one method that keeps a copy of the vectors.
const HNSW_RS: &str = "hnsw_rs";

pub(crate) fn run(global: &GlobalArgs, args: &AnnArgs, printer: Printer) -> Result<Exit, Failure> {
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let pool = pool(global.threads)?;
    let base = open_vectors(&args.base, &bars)?;
    let mut queries = open_test_set(args.queries.as_ref().unwrap_or(&args.base), &bars)?;
    if let (Some(path), None) = (&args.queries, &queries) {
        queries = Some(open_vectors(path, &bars)?);
    }
    let all = base.matrix();
    let tail;
    let (rows, asked) = match &queries {
        Some(queries) => (all, queries.matrix()),
        None => {
            tail = held_out(&all);
            let asked = VectorMatrix::from_slice(&tail, all.dim())
                .map_err(|error| Failure::new("hold queries out", &error, None))?;
            (all.head(all.len() - asked.len()), asked)
        }
    };
    let work = Work { args, rows: &rows, queries: &asked, pool: &pool, bars: &bars };
    work.check()?;
    let mut figures = work.figures()?;
    let (rss, anon) = watch.finish();
    for line in &mut figures {
        (line.peak_rss_bytes, line.peak_anon_bytes) = (rss, anon);
    }
    if global.json {
        for line in &figures {
            printer.document_line(line)?;
        }
    } else {
        printer.data(&screen(args, &figures))?;
    }
    Ok(Exit::Done)
}

/// Queries that are held out of the base.
const HELD_OUT_MAX: usize = 1_000;

/// Copies the last rows, a tenth at most.
fn held_out(matrix: &VectorMatrix<'_>) -> Vec<f32> {
    let first = matrix.len() - HELD_OUT_MAX.min(matrix.len() / 10);
    // A matrix has fewer than 2³² rows.
    let rows = (first..matrix.len()).map(|row| Row(row as u32));
    rows.flat_map(|row| matrix.vector(row)).copied().collect()
}

/// One call of the command, with its vectors at hand.
struct Work<'a> {
    args: &'a AnnArgs,
    rows: &'a VectorMatrix<'a>,
    queries: &'a VectorMatrix<'a>,
    pool: &'a Pool,
    bars: &'a Bars,
}

impl Work<'_> {
    fn check(&self) -> Result<(), Failure> {
        let base = self.args.base.display();
        if self.rows.is_empty() {
            return Err(Failure::plain(format!("no vectors in {base}"), "name a file of vectors"));
        }
        if self.queries.is_empty() {
            let (message, hint) = match &self.args.queries {
                Some(path) => {
                    (format!("no vectors in {}", path.display()), "name a file of vectors")
                }
                None => (
                    format!("{base} has too few vectors to hold some out"),
                    "give --queries, or ten vectors and more",
                ),
            };
            return Err(Failure::plain(&message, hint));
        }
        let (base, asked) = (self.rows.dim(), self.queries.dim());
        if base != asked {
            let message =
                format!("queries of dimension {asked}, vectors of dimension {base} in the base");
            return Err(Failure::plain(&message, "embed both with the same model"));
        }
        Ok(())
    }

    fn figures(&self) -> Result<Vec<AnnFigures>, Failure> {
        match self.args.method {
            AnnMethodArg::Graph => self.graph(),
            AnnMethodArg::Scan => self.flat(),
            AnnMethodArg::HnswRs => self.hnsw_rs(),
            AnnMethodArg::Exact => self.exact(),
        }
    }

    fn graph(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let mut options = GraphOptions::default();
        options.degree = self.args.degree.map_or(options.degree, usize::from);
        let graph = Graph::build(self.rows, options, self.pool, Kernels::active(), self.bars)
            .map_err(|error| self.failed("build the graph", &error))?;
        let bytes = graph.byte_count();
        let built = self.built("graph", stopwatch, bytes);
        let view = graph.view();
        let searcher = Searcher::new(&view, self.rows, Kernels::active())
            .map_err(|error| self.failed("search the graph", &error))?;
        let mut index = GraphSearcher { searcher, ef_search: 0 };
        self.sweep_each(built, &mut index, |index, width| index.ef_search = width)
    }

    fn flat(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let flat = FlatIndex::build(self.rows, self.pool, Kernels::active())
            .map_err(|error| self.failed("build the flat index", &error))?;
        let bytes = flat.byte_count();
        let built = self.built("scan", stopwatch, bytes);
        let mut scan = FlatScan::new(flat.view(), self.rows, Kernels::active())
            .map_err(|error| self.failed("scan the flat index", &error))?;
        let truth = self.truth(&self.plain_scan()?)?;
        Ok(vec![self.sweep(&truth, built, &mut scan, None)?])
    }

    fn hnsw_rs(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let mut options = HnswRsOptions::default();
        options.max_neighbors = self.args.degree.map_or(options.max_neighbors, usize::from);
        let built =
            HnswRsIndex::build(self.rows, &options, self.pool, Kernels::active(), self.bars);
        let mut index = built.map_err(|error| self.failed("build the index", &error))?;
        let seconds = stopwatch.seconds();
        // Points go in one after another.
        let built = Built { method: HNSW_RS, seconds, bytes: index.byte_count(), threads: 1 };
        self.sweep_each(built, &mut index, HnswRsIndex::set_ef_search)
    }

    fn exact(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let scan = self.plain_scan()?;
        let norms = 8 * self.rows.len() as u64;
        let built = self.built("exact", stopwatch, norms);
        let truth = self.truth(&scan)?;
        Ok(vec![self.sweep(&truth, built, &mut &scan, None)?])
    }

    fn built(&self, method: &'static str, stopwatch: Stopwatch, bytes: u64) -> Built {
        Built { method, seconds: stopwatch.seconds(), bytes, threads: self.pool.threads() }
    }

    /// Answers every query exactly, on all threads.
    fn truth(&self, scan: &Scan<'_>) -> Result<Truth, Failure> {
        self.bars.begin("compare queries with all vectors", Some(self.queries.len() as u64));
        let answers = self.pool.map(self.queries.len(), |at| {
            if self.bars.cancelled() {
                return Err(Failure::interrupted());
            }
            let found = scan.k_nearest(self.query(at), self.k());
            self.bars.advance(1);
            found.map_err(|error| self.failed("compare the queries", &error))
        });
        self.bars.end();
        answers.into_iter().collect()
    }

    fn plain_scan(&self) -> Result<Scan<'_>, Failure> {
        Scan::new(self.rows, self.pool, Kernels::active())
            .map_err(|error| self.failed("read the vectors", &error))
    }

    /// Asks all queries at every `ef_search`.
    fn sweep_each<I: Nearest>(
        &self,
        built: Built,
        index: &mut I,
        widen: impl Fn(&mut I, usize),
    ) -> Result<Vec<AnnFigures>, Failure> {
        let truth = self.truth(&self.plain_scan()?)?;
        let widths = self.args.ef_search.iter().map(|&width| usize::from(width));
        let lines = widths.map(|width| {
            widen(index, width);
            self.sweep(&truth, built, index, Some(width))
        });
        lines.collect()
    }

    /// Asks all queries one after the other, on one thread.
    fn sweep(
        &self,
        truth: &Truth,
        built: Built,
        index: &mut impl Nearest,
        ef_search: Option<usize>,
    ) -> Result<AnnFigures, Failure> {
        let mut find = |at: usize| {
            let found = index.k_nearest(self.query(at), self.k());
            found.map_err(|error| self.failed("search", &error))
        };
        let mut recalls = Vec::with_capacity(truth.len());
        let mut recalls_near = Vec::with_capacity(truth.len());
        for (at, right) in truth.iter().enumerate() {
            let found = find(at)?;
            recalls.push(recall_at_k(right, &found, self.k(), 0.0));
            recalls_near.push(recall_at_k(right, &found, self.k(), EPSILON));
        }
        let latencies = lookups(self.queries.len(), |at| {
            if self.bars.cancelled() {
                return Err(Failure::interrupted());
            }
            find(at).map(drop)
        })?;
        let (rows, Built { method, seconds, bytes, threads }) = (self.rows, built);
        Ok(AnnFigures {
            schema_version: 1,
            method,
            rows: rows.len() as u64,
            dim: rows.dim() as u64,
            queries: recalls.len() as u64,
            k: self.k() as u64,
            ef_search: ef_search.map(|width| width as u64),
            recall_at_k: mean(&recalls),
            recall_min: recalls.iter().copied().fold(1.0, f64::min),
            recall_within_epsilon: mean(&recalls_near),
            qps_one_thread: latencies.per_second,
            latency_us: latencies,
            build_seconds: seconds,
            index_bytes: bytes,
            bytes_per_vector: bytes as f64 / rows.len().max(1) as f64,
            peak_rss_bytes: None,
            peak_anon_bytes: None,
            threads: threads as u64,
            isa: Kernels::active().level().name(),
        })
    }

    fn query(&self, at: usize) -> &[f32] {
        // A matrix has fewer than 2³² rows.
        self.queries.vector(Row(at as u32))
    }

    fn k(&self) -> usize {
        usize::from(self.args.neighbors)
    }

    fn failed(&self, what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
        match self.bars.cancelled() {
            true => Failure::interrupted(),
            false => Failure::new(what, error, None),
        }
    }
}

memfold_terminal::documents! { "bench-ann" => AnnFigures }

/// One line of `memfold-bench ann --json`.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AnnFigures {
    schema_version: u32,
    /// What answered: `graph`, `scan`, `hnsw_rs` or `exact`.
    method: &'static str,
    rows: u64,
    dim: u64,
    queries: u64,
    /// Neighbours asked for.
    k: u64,
    /// `null` where the method has none.
    ef_search: Option<u64>,
    /// The share of right neighbours, mean over the queries; ties count, the same row twice does not.
    recall_at_k: f64,
    /// The share of right neighbours for the query that fares worst.
    recall_min: f64,
    /// As ann-benchmarks.com counts: right is also what is up to 0.001 farther (1 − cosine) than the `k`-th.
    recall_within_epsilon: f64,
    qps_one_thread: f64,
    latency_us: Latencies,
    build_seconds: f64,
    /// All that answers but the vectors; of `hnsw_rs` an estimate that holds its copy of them.
    index_bytes: u64,
    bytes_per_vector: f64,
    /// Peak resident memory of the process; `null` where the system does not tell.
    peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process; `null` where the system does not tell.
    peak_anon_bytes: Option<u64>,
    /// Threads that built.
    threads: u64,
    isa: &'static str,
}

/// The method of an index, and the cost of its build.
#[derive(Debug, Clone, Copy)]
struct Built {
    method: &'static str,
    seconds: f64,
    bytes: u64,
    threads: usize,
}

/// The right answers, one for each query.
type Truth = Vec<Vec<Neighbor>>;

/// Lookups are repeated until there are this many …
const LOOKUPS_MIN: usize = 1_000;
/// … or, if they are slow, until they have taken this long.
const SECONDS_MAX: f64 = 10.0;

/// How long lookups take, in microseconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Latencies {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    #[serde(skip)]
    per_second: f64,
}

/// Looks everything up, over and over.
fn lookups(
    count: usize,
    mut look_up: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Latencies, Failure> {
    let mut microseconds = Vec::new();
    let all = Stopwatch::start();
    loop {
        for at in 0..count {
            let (found, took) = timed(|| look_up(at));
            found?;
            microseconds.push(took);
        }
        if microseconds.len() >= LOOKUPS_MIN || all.seconds() >= SECONDS_MAX || count == 0 {
            break;
        }
    }
    let per_second = microseconds.len() as f64 / all.seconds().max(f64::MIN_POSITIVE);
    microseconds.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| percentile(&microseconds, share);
    Ok(Latencies { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0), per_second })
}

/// Returns the text for the screen, 80 columns wide.
fn screen(args: &AnnArgs, figures: &[AnnFigures]) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let mut text = format!(
        "{} queries, {} vectors × {} from {}\n{}: built in {:.2} s on {}, {:.0} bytes per vector {}\n\n",
        grouped(first.queries),
        grouped(first.rows),
        first.dim,
        excerpt(&args.base.display().to_string(), 30),
        first.method,
        first.build_seconds,
        threads(first.threads),
        first.bytes_per_vector,
        if first.method == HNSW_RS { "with the vector" } else { "beside the vectors" },
    );
    let recall = format!("recall@{}", first.k);
    let header =
        ["ef_search", recall.as_str(), "worst", "queries/s", "p50 µs", "p99 µs", "p99.9 µs"];
    text.push_str(&table(&header, figures.iter().map(screen_row).collect()));
    text.push_str("queries/s and latencies on one thread; vectors in memory\n");
    text
}

fn threads(count: u64) -> String {
    if count == 1 { "one thread".to_owned() } else { format!("{count} threads") }
}

fn screen_row(line: &AnnFigures) -> Vec<String> {
    let time = line.latency_us;
    vec![
        line.ef_search.map_or_else(|| "–".to_owned(), |width| width.to_string()),
        format!("{:.4}", line.recall_at_k),
        format!("{:.2}", line.recall_min),
        grouped(line.qps_one_thread.round() as u64),
        format!("{:.0}", time.p50),
        format!("{:.0}", time.p99),
        format!("{:.0}", time.p999),
    ]
}

/// By how much ann-benchmarks.com lets a neighbour be farther than the true ones.
const EPSILON: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_queries_are_asked_often() {
        let mut asked = 0;
        let latencies = lookups(3, |_| {
            asked += 1;
            Ok(())
        });
        assert!(asked >= LOOKUPS_MIN && latencies.is_ok_and(|l| l.p50 <= l.p999), "{asked}");
    }
}
