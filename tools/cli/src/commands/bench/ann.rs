//! `memfold bench ann`: how right and how fast an index finds nearest neighbours among the user's own vectors.

mod figures;
mod measure;
mod screen;

use memfold_datasets::ground_truth::recall_at_k;
use memfold_index::graph::{Graph, GraphOptions, Searcher};
#[cfg(feature = "hnsw_rs")]
use memfold_index::hnsw_rs::{HnswRsIndex, HnswRsOptions};
use memfold_index::{
    BeamSearcher, Nearest, Pool, PrefixSlab, Progress, Row, Scan, SlabScan, VectorMatrix,
};
use memfold_simd::Kernels;

use self::figures::{AnnFigures, Built, Swept, Truth};
use self::measure::lookups;
use crate::args::{AnnMethodArg, BenchAnnArgs, GlobalArgs};
use crate::commands::dedup::open_vectors;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings;

/// The one method that keeps a copy of the vectors.
const HNSW_RS: &str = "hnsw_rs";

pub(super) fn run(
    global: &GlobalArgs,
    args: &BenchAnnArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let pool = settings::pool(global)?;
    let base = open_vectors(&args.base, &bars)?;
    let queries = args.queries.as_deref().map(|path| open_vectors(path, &bars)).transpose()?;
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

    fn figures(&self) -> Result<Vec<AnnFigures>, Failure> {
        match self.args.method {
            AnnMethodArg::Graph => self.graph(),
            AnnMethodArg::Scan => self.slab(),
            #[cfg(feature = "hnsw_rs")]
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
        let bytes = graph.sections().byte_count();
        let built = self.built("graph", stopwatch, bytes);
        let view = graph.view();
        let searcher = Searcher::new(&view, self.rows, Kernels::active())
            .map_err(|error| self.failed("search the graph", &error))?;
        let mut index = BeamSearcher { searcher, search_beam_width: 0 };
        self.sweep_beams(built, &mut index, |index, width| index.search_beam_width = width)
    }

    fn slab(&self) -> Result<Vec<AnnFigures>, Failure> {
        let stopwatch = Stopwatch::start();
        let slab = PrefixSlab::build(self.rows, self.pool, Kernels::active())
            .map_err(|error| self.failed("build the slab", &error))?;
        let bytes = slab.byte_count();
        let built = self.built("scan", stopwatch, bytes);
        let mut scan = SlabScan::new(slab.view(), self.rows, Kernels::active())
            .map_err(|error| self.failed("scan the slab", &error))?;
        let truth = self.truth(&self.plain_scan()?)?;
        Ok(vec![self.sweep(&truth, built, &mut scan, None)?])
    }

    #[cfg(feature = "hnsw_rs")]
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
        self.sweep_beams(built, &mut index, HnswRsIndex::set_search_beam_width)
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

    /// Asks all queries at every width of the beam.
    fn sweep_beams<I: Nearest>(
        &self,
        built: Built,
        index: &mut I,
        widen: impl Fn(&mut I, usize),
    ) -> Result<Vec<AnnFigures>, Failure> {
        let truth = self.truth(&self.plain_scan()?)?;
        let widths = self.args.beams.iter().map(|&width| usize::from(width));
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
        search_beam_width: Option<usize>,
    ) -> Result<AnnFigures, Failure> {
        let mut find = |at: usize| {
            let found = index.k_nearest(self.query(at), self.k());
            found.map_err(|error| self.failed("search", &error))
        };
        let mut recalls = Vec::with_capacity(truth.len());
        for (at, right) in truth.iter().enumerate() {
            recalls.push(recall_at_k(right, &find(at)?, self.k()));
        }
        let latencies = lookups(self.queries.len(), |at| {
            if self.bars.cancelled() {
                return Err(Failure::interrupted());
            }
            find(at).map(drop)
        })?;
        let swept = Swept { search_beam_width, recalls, latencies };
        Ok(AnnFigures::new(self.rows, self.k(), built, &swept))
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
