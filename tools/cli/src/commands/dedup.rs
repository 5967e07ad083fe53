//! `memfold dedup`: files of vectors in; near pairs and clusters out. No store involved.

mod inputs;
mod outputs;
mod screen;
mod spent;
mod stages;
mod written;

use std::path::{Path, PathBuf};

use memfold::dedup::{
    Clustering, DedupError, DedupFigures, DedupReport, DedupRequest, DedupSeconds, Keep, KeepOrder,
    dedup,
};
use memfold::lookup::corpus::CorpusColumns;
use memfold_datasets::annotate;
use memfold_datasets::corpus::{Corpus, CorpusError, CorpusOptions};
use memfold_index::{
    JoinError, JoinOptions, PairStream, Pool, Progress, Row, VectorMatrix, default_pair_budget,
    join_pairs, join_pairs_by_graph,
};
use memfold_plan::policy::GraphIndex;
use memfold_plan::policy::defaults::RECALL_TARGET;
use memfold_plan::report::Recall;
use memfold_simd::{Kernels, Similarity};

use self::stages::Stages;
use crate::args::{DedupArgs, GlobalArgs, JoinArg, KeepArg, PairsFormArg};
use crate::commands::consolidate::unused_index;
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings;

documents! { "dedup" => DedupReport }

pub(crate) fn run(
    global: &GlobalArgs,
    args: &DedupArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if args.index.is_some() && args.method != JoinArg::Graph {
        return Err(unused_index());
    }
    let inputs = inputs::expand(&args.inputs)?;
    outputs::check(args, &inputs)?;
    let watch = MemoryWatch::start();
    let (stopwatch, bars) = (Stopwatch::start(), Bars::new(printer));
    let pool = settings::pool(global)?;
    let corpus = load(args, &inputs, &bars)?;
    if let Some(path) = &args.annotate {
        annotate::check(&corpus, path).map_err(|error| written::unannotated(&error))?;
    }
    let mut seconds = DedupSeconds { load: stopwatch.seconds(), ..DedupSeconds::default() };
    let work = Work { args, pool, corpus: &corpus, matrix: &corpus.matrix(), bars: &bars };
    let pairs = work.join(&mut seconds)?;
    work.check_pairs_fit(&pairs)?;
    let clusterings = work.cluster(&pairs, &mut seconds)?;
    let written = work.write(&pairs, &clusterings, &mut seconds)?;
    seconds.total = stopwatch.seconds();
    if global.json {
        let mut report = work.report(&pairs, &clusterings, seconds);
        (report.peak_rss_bytes, report.peak_anon_bytes) = watch.finish();
        printer.document(&report)?;
    } else {
        printer.data(&screen::screen(&work, &inputs, &pairs, &clusterings)?)?;
    }
    if let Some(remark) = clusterings.iter().find_map(remark) {
        printer.note(&remark);
    }
    for path in written {
        printer.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

fn load(args: &DedupArgs, inputs: &[PathBuf], bars: &Bars) -> Result<Corpus, Failure> {
    let options = CorpusOptions {
        vector_column: args.vector_column.clone(),
        id_column: args.id_column.clone(),
        order_column: match &args.keep {
            KeepArg::First | KeepArg::MostCentral => None,
            KeepArg::Newest => Some("created_at".to_owned()),
            KeepArg::Column(name) => Some(name.clone()),
        },
        scratch_dir: settings::scratch_dir(),
        progress: bars,
    };
    let corpus = Corpus::open(inputs, &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// Reads a file of vectors, whose columns have their usual names.
pub fn open_vectors(path: &Path, bars: &Bars) -> Result<Corpus, Failure> {
    open_columns(path, &CorpusColumns::default(), bars)
}

/// Reads some columns of a file of vectors.
pub(super) fn open_columns(
    path: &Path,
    columns: &CorpusColumns,
    bars: &Bars,
) -> Result<Corpus, Failure> {
    let options = columns.options(&settings::scratch_dir(), bars);
    let corpus = Corpus::open(&[path.to_owned()], &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// Says why a corpus could not be read.
fn unreadable(error: &CorpusError) -> Failure {
    match error {
        CorpusError::Cancelled => Failure::interrupted(),
        error => Failure::new("read the vectors", error, error.hint()),
    }
}

/// Says so where pairs may be missing.
fn remark(clustering: &Clustering) -> Option<String> {
    Recall::from(clustering.recall).remark(clustering.threshold, RECALL_TARGET)
}

/// One call of the command, with its vectors at hand.
struct Work<'a> {
    args: &'a DedupArgs,
    pool: Pool,
    corpus: &'a Corpus,
    matrix: &'a VectorMatrix<'a>,
    bars: &'a Bars,
}

impl Work<'_> {
    fn options<'a>(
        &'a self,
        scratch_dir: &'a std::path::Path,
        progress: &'a dyn Progress,
    ) -> JoinOptions<'a> {
        JoinOptions {
            pair_budget: self.args.pair_budget,
            scratch_dir: Some(scratch_dir),
            progress,
            ..JoinOptions::new(&self.pool)
        }
    }

    /// Finds all pairs at the lowest threshold.
    fn join(&self, seconds: &mut DedupSeconds) -> Result<PairStream, Failure> {
        let stages = Stages::start(self.bars);
        let scratch_dir = settings::scratch_dir();
        // At least one threshold is typed or the default.
        let lowest = self.args.thresholds().first().copied().unwrap_or(Similarity::ONE);
        let options = self.options(&scratch_dir, &stages);
        let joined = match self.args.graph_index() {
            Some(index) => join_pairs_by_graph(self.matrix, lowest, &options, &index.join()),
            None => join_pairs(self.matrix, lowest, &options),
        };
        [seconds.prepare, seconds.join, seconds.audit] = stages.split();
        joined.map_err(|error| match error {
            JoinError::Cancelled => Failure::interrupted(),
            JoinError::PairBudget { budget, threshold, ref histogram } => {
                spent::failure(budget, threshold, histogram, error.hint())
            }
            error => Failure::new("compare the vectors", &error, error.hint()),
        })
    }

    /// Refuses to expand groups of equal vectors beyond the budget, before anything is clustered.
    fn check_pairs_fit(&self, pairs: &PairStream) -> Result<(), Failure> {
        let default = default_pair_budget(pairs.distinct_rows());
        let budget = self.args.pair_budget.unwrap_or(default);
        let found = pairs.logical_pairs();
        let is_expanded =
            self.args.pairs.is_some() && self.args.pairs_form == PairsFormArg::Logical;
        if !is_expanded || found <= budget {
            return Ok(());
        }
        let distinct = pairs.pair_count();
        Err(Failure::plain(
            format!("equal vectors make {found} pairs, more than the pair budget of {budget}"),
            format!(
                "write one row for all that are equal to it: --pairs-form distinct ({distinct} pairs; --clusters \
                 names the equal rows), or allow more: --pair-budget {found}"
            ),
        ))
    }

    fn cluster(
        &self,
        pairs: &PairStream,
        seconds: &mut DedupSeconds,
    ) -> Result<Vec<Clustering>, Failure> {
        let stopwatch = Stopwatch::start();
        let scratch_dir = settings::scratch_dir();
        let keep = match (&self.args.keep, self.corpus.order_keys()) {
            (KeepArg::MostCentral, _) => Keep::MostCentral,
            (_, Some(keys)) => Keep::Best(KeepOrder::largest_first(keys)),
            (_, None) => Keep::Best(KeepOrder::by_row(self.matrix.len())),
        };
        let request = DedupRequest {
            matrix: self.matrix,
            ordinal: &|row: Row| self.corpus.ordinal(row),
            keep: &keep,
            linkage: self.args.linkage.into(),
            thresholds: &self.args.thresholds(),
            options: &self.options(&scratch_dir, self.bars),
        };
        let clusterings = dedup(pairs, &request).map_err(|error| unclustered(&error))?;
        seconds.cluster = stopwatch.seconds();
        Ok(clusterings)
    }

    fn report(
        &self,
        pairs: &PairStream,
        clusterings: &[Clustering],
        seconds: DedupSeconds,
    ) -> DedupReport {
        let mut results: Vec<DedupFigures> = clusterings.iter().map(DedupFigures::of).collect();
        let is_one = results.len() == 1;
        let skipped = self.corpus.skipped().counts();
        let index = self.args.graph_index();
        DedupReport {
            schema_version: 1,
            rows: self.corpus.rows(),
            dim: self.corpus.dim() as u64,
            distinct_rows: pairs.distinct_rows(),
            skipped: skipped.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            method: if index.is_some() { "graph" } else { "exact" },
            index: index.map(GraphIndex::name),
            figures: if is_one { results.pop() } else { None },
            results: (!is_one).then_some(results),
            counters: pairs.counters().into(),
            seconds,
            peak_rss_bytes: None,
            peak_anon_bytes: None,
            threads: self.pool.threads(),
            isa: Kernels::active().level().name(),
        }
    }
}

fn unclustered(error: &DedupError) -> Failure {
    if error.is_cancelled() {
        return Failure::interrupted();
    }
    Failure::new("cluster the rows", error, error.hint())
}
