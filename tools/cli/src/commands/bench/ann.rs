//! `memfold bench ann`: how right and how fast the graph finds nearest neighbours of the user's own vectors.

mod measure;
mod screen;

use std::path::Path;

use memfold_datasets::corpus::{Corpus, CorpusOptions};
use memfold_datasets::ground_truth::recall_at_k;
use memfold_index::graph::{Graph, GraphOptions, Searcher};
use memfold_index::{Neighbor, Pool, Progress, Row, Scan, VectorMatrix};
use memfold_simd::Kernels;

use self::measure::{Latencies, lookups};
use crate::args::{AnnMethodArg, BenchAnnArgs, GlobalArgs};
use crate::commands::dedup::unreadable;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings;

/// What one setting reaches, as `--json` prints it on a line.
#[derive(Debug, serde::Serialize)]
pub(super) struct AnnFigures {
    schema_version: u32,
    method: &'static str,
    rows: u64,
    dim: u64,
    queries: u64,
    k: u64,
    /// `None`: the method has no beam.
    search_beam_width: Option<u64>,
    /// Mean over the queries; ties count, the same row twice does not.
    recall_at_k: f64,
    /// The share of right rows for the query that fares worst.
    recall_min: f64,
    qps_one_thread: f64,
    latency_us: Latencies,
    build_seconds: f64,
    index_bytes: u64,
    bytes_per_vector: f64,
    peak_rss_bytes: Option<u64>,
    peak_anon_bytes: Option<u64>,
    threads: u64,
    isa: &'static str,
}

pub(super) fn run(
    global: &GlobalArgs,
    args: &BenchAnnArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let pool = settings::pool(global)?;
    let base = open(&args.base, &bars)?;
    let queries = args.queries.as_deref().map(|path| open(path, &bars)).transpose()?;
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
    let mut figures = match args.method {
        AnnMethodArg::Graph => work.graph()?,
        AnnMethodArg::Exact => work.exact()?,
    };
    let (rss, anon) = watch.finish();
    for line in &mut figures {
        (line.peak_rss_bytes, line.peak_anon_bytes) = (rss, anon);
    }
    if global.json {
        for line in &figures {
            let line = serde_json::to_string(line)
                .map_err(|error| Failure::new("print the figures", &error, None))?;
            printer.data(&(line + "\n"))?;
        }
    } else {
        printer.data(&screen::screen(args, &figures))?;
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

fn open(path: &Path, bars: &Bars) -> Result<Corpus, Failure> {
    let scratch_dir = settings::scratch_dir();
    let options = CorpusOptions { progress: bars, ..CorpusOptions::new(&scratch_dir) };
    let corpus = Corpus::open(&[path.to_owned()], &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// One call of the command, with its vectors at hand.
struct Work<'a> {
    args: &'a BenchAnnArgs,
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

    fn graph(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let options = GraphOptions { degree: self.args.degree.into(), ..GraphOptions::default() };
        let kernels = Kernels::active();
        let built = Graph::build(self.rows, options, self.pool, kernels, self.bars);
        let graph = built.map_err(|error| self.failed("build the graph", &error))?;
        let build_seconds = stopwatch.seconds();
        let truth = self.truth(&self.scan()?)?;
        let view = graph.view();
        let mut searcher = Searcher::new(&view, self.rows, kernels)
            .map_err(|error| self.failed("search the graph", &error))?;
        let bytes = graph.sections().byte_count();
        let mut figures = Vec::new();
        for &width in &self.args.beams {
            let width = usize::from(width);
            let found = |query: &[f32]| {
                let found = searcher.k_nearest(query, self.k(), width);
                found.map(<[Neighbor]>::to_vec).map_err(|error| self.failed("search", &error))
            };
            let mut line = self.sweep(&truth, found)?;
            line.search_beam_width = Some(width as u64);
            figures.push(AnnFigures { build_seconds, ..line.indexed("graph", bytes) });
        }
        Ok(figures)
    }

    fn exact(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let scan = self.scan()?;
        let build_seconds = stopwatch.seconds();
        let truth = self.truth(&scan)?;
        let found = |query: &[f32]| {
            scan.k_nearest(query, self.k()).map_err(|error| self.failed("search", &error))
        };
        let line = self.sweep(&truth, found)?;
        let norms = 8 * self.rows.len() as u64;
        Ok(vec![AnnFigures { build_seconds, ..line.indexed("exact", norms) }])
    }

    /// Answers every query exactly, on all threads.
    fn truth(&self, scan: &Scan<'_>) -> Result<Vec<Vec<Neighbor>>, Failure> {
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

    fn scan(&self) -> Result<Scan<'_>, Failure> {
        Scan::new(self.rows, self.pool, Kernels::active())
            .map_err(|error| self.failed("read the vectors", &error))
    }

    /// Asks all queries one after the other, on one thread.
    fn sweep(
        &self,
        truth: &[Vec<Neighbor>],
        mut find: impl FnMut(&[f32]) -> Result<Vec<Neighbor>, Failure>,
    ) -> Result<AnnFigures, Failure> {
        let mut recalls = Vec::with_capacity(truth.len());
        for (at, right) in truth.iter().enumerate() {
            recalls.push(recall_at_k(right, &find(self.query(at))?, self.k()));
        }
        let latencies = lookups(self.queries.len(), |at| {
            if self.bars.cancelled() {
                return Err(Failure::interrupted());
            }
            find(self.query(at)).map(drop)
        })?;
        Ok(AnnFigures {
            schema_version: 1,
            method: "",
            rows: self.rows.len() as u64,
            dim: self.rows.dim() as u64,
            queries: self.queries.len() as u64,
            k: self.k() as u64,
            search_beam_width: None,
            recall_at_k: recalls.iter().sum::<f64>() / recalls.len().max(1) as f64,
            recall_min: recalls.iter().copied().fold(1.0, f64::min),
            qps_one_thread: latencies.per_second,
            latency_us: latencies,
            build_seconds: 0.0,
            index_bytes: 0,
            bytes_per_vector: 0.0,
            peak_rss_bytes: None,
            peak_anon_bytes: None,
            threads: self.pool.threads() as u64,
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

    fn failed(&self, what: &str, error: &dyn std::error::Error) -> Failure {
        match self.bars.cancelled() {
            true => Failure::interrupted(),
            false => Failure::new(what, error, None),
        }
    }
}

impl AnnFigures {
    fn indexed(self, method: &'static str, index_bytes: u64) -> Self {
        let bytes_per_vector = index_bytes as f64 / self.rows.max(1) as f64;
        Self { method, index_bytes, bytes_per_vector, ..self }
    }
}
