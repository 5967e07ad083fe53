//! The join and the clusters of `memfold dedup`, with the requested options.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use clap::{self, Args, ValueEnum};
use memfold::dedup::{
    ClusterLinkage, Clustering, DedupError, DedupFigures, DedupReport, DedupRequest, DedupSeconds,
    DedupTiles, Keep, KeepOrder, dedup,
};
use memfold::lookup::corpus::CorpusColumns;
use memfold::machine::Stopwatch;
use memfold::ops;
use memfold_core::policy::JoinMethod;
use memfold_datasets::corpus::Corpus;
use memfold_index::{
    JoinError, JoinOptions, PairStream, Pool, Progress, Row, TileError, TileSummary, VectorMatrix,
    default_pair_budget, join_pairs, join_pairs_by_graph, join_pairs_by_tiles,
};
use memfold_simd::{Kernels, Similarity};

use crate::args::{similarity, whole};
use crate::failure::Failure;
use crate::printer::table;
use crate::progress::Bars;

/// `memfold dedup`
#[derive(Debug, Args)]
pub(crate) struct DedupArgs {
    /// Files of vectors: Parquet, Arrow, npy, …; patterns such as 'part-*.parquet' are expanded
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Rows are near at or above this cosine similarity, -1 to 1; several take one pass
    #[arg(
        long,
        value_name = "T,…",
        value_delimiter = ',',
        default_value = "0.95",
        allow_negative_numbers = true,
        value_parser = similarity
    )]
    pub(crate) threshold: Vec<Similarity>,
    /// How to search for near pairs
    #[arg(long, value_enum, value_name = "M", default_value = "exact")]
    pub(crate) method: JoinArg,
    /// Join the rows by tiles in this folder: for inputs larger than memory; a run that was ended goes on
    /// where it was
    #[arg(long, value_name = "DIR")]
    pub(crate) tiles: Option<PathBuf>,
    /// Instead, estimate by a sample of INPUT what a join by tiles of N rows like these would take
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = super::forecast::rows,
        conflicts_with_all = ["tiles", "pairs", "clusters", "annotate"]
    )]
    pub(crate) tiles_for: Option<u64>,
    /// Which row of a cluster stays: first, newest (column created_at), most_central, or
    /// column:NAME (the largest value)
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub(crate) keep: KeepArg,
    /// What makes a cluster
    #[arg(long, value_enum, value_name = "L", default_value = "greedy_complete")]
    pub(crate) linkage: ClusterLinkage,
    /// Write the pairs here (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(crate) pairs: Option<PathBuf>,
    /// Which pairs --pairs writes
    #[arg(long, value_enum, value_name = "FORM", default_value = "logical", requires = "pairs")]
    pub(crate) pairs_form: PairsFormArg,
    /// Write the members of clusters here (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(crate) clusters: Option<PathBuf>,
    /// Write the input with columns about clusters here (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(crate) annotate: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) columns: CorpusColumns,
    /// Refuse to find, or to write, more pairs [default: 64 for each distinct row, at least 1000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) pair_budget: Option<u64>,
    /// Show N clusters and N pairs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) examples: usize,
    /// Replace output files that exist
    #[arg(long)]
    pub(crate) force: bool,
}

impl DedupArgs {
    /// Returns the thresholds, ascending, each once.
    pub(crate) fn thresholds(&self) -> Vec<Similarity> {
        let mut thresholds = self.threshold.clone();
        thresholds.sort_unstable();
        thresholds.dedup();
        thresholds
    }
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum JoinArg {
    /// All of them, proven
    Exact,
    /// Most of them, by a graph index; how many is measured
    Graph,
    /// As graph, by the crate hnsw_rs, to compare with
    HnswRs,
}

impl JoinArg {
    pub(super) const fn join(self) -> JoinMethod {
        match self {
            Self::Exact => JoinMethod::Exact,
            Self::Graph => JoinMethod::Graph,
            Self::HnswRs => JoinMethod::HnswRs,
        }
    }

    /// Returns the index that pairs are searched by.
    const fn index(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Graph => Some("memfold"),
            Self::HnswRs => Some("hnsw_rs"),
        }
    }
}

/// Which row of a cluster stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeepArg {
    /// The lowest ordinal.
    First,
    /// The largest created_at.
    Newest,
    /// The one that is nearest to the others.
    MostCentral,
    /// The largest value of a column.
    Column(String),
}

impl FromStr for KeepArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "first" => Ok(Self::First),
            None if text == "newest" => Ok(Self::Newest),
            None if text == "most_central" => Ok(Self::MostCentral),
            Some(("column", name)) if !name.is_empty() => Ok(Self::Column(name.to_owned())),
            _ => Err("expected first, newest, most_central or column:NAME".to_owned()),
        }
    }
}

/// Which pairs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PairsFormArg {
    /// Every pair of rows
    Logical,
    /// One row stands for all that are equal to it
    Distinct,
}

/// One call of the command, with its vectors at hand.
pub(super) struct Work<'a> {
    pub(super) args: &'a DedupArgs,
    pub(super) pool: Pool,
    pub(super) corpus: &'a Corpus,
    pub(super) matrix: &'a VectorMatrix<'a>,
    pub(super) bars: &'a Bars,
}

impl Work<'_> {
    pub(super) fn options<'a>(
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

    /// Finds all pairs at the lowest threshold, and returns the tiles' savings if there are tiles.
    pub(super) fn join(&self, seconds: &mut DedupSeconds) -> Result<Joined, Failure> {
        let stages = Stages::start(self.bars);
        let scratch_dir = ops::scratch_dir();
        // At least one threshold is typed or the default.
        let lowest = self.args.thresholds().first().copied().unwrap_or(Similarity::ONE);
        let options = self.options(&scratch_dir, &stages);
        let joined = match (self.args.method.join().graph_join(), &self.args.tiles) {
            (Some(by), _) => {
                let pairs = join_pairs_by_graph(self.matrix, lowest, &options, &by);
                pairs.map(|pairs| (pairs, None)).map_err(|error| unjoined(&error))
            }
            (None, None) => {
                let pairs = join_pairs(self.matrix, lowest, &options);
                pairs.map(|pairs| (pairs, None)).map_err(|error| unjoined(&error))
            }
            (None, Some(dir)) => {
                let joined = join_pairs_by_tiles(self.matrix, lowest, dir, &options);
                joined
                    .map(|(pairs, tiles)| (pairs, Some(tiles)))
                    .map_err(|error| untiled("compare the vectors", &error))
            }
        };
        [seconds.prepare, seconds.join, seconds.audit] = stages.split();
        joined
    }

    /// Refuses to expand groups of equal vectors beyond the budget, before anything is clustered.
    pub(super) fn check_pairs_fit(&self, pairs: &PairStream) -> Result<(), Failure> {
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

    pub(super) fn cluster(
        &self,
        pairs: &PairStream,
        seconds: &mut DedupSeconds,
    ) -> Result<Vec<Clustering>, Failure> {
        let stopwatch = Stopwatch::start();
        let scratch_dir = ops::scratch_dir();
        let keep = match (&self.args.keep, self.corpus.order_keys()) {
            (KeepArg::MostCentral, _) => Keep::MostCentral,
            (_, Some(keys)) => Keep::Best(KeepOrder::largest_first(keys)),
            (_, None) => Keep::Best(KeepOrder::by_row(self.matrix.len())),
        };
        let request = DedupRequest {
            matrix: self.matrix,
            ordinal: &|row: Row| self.corpus.ordinal(row),
            keep: &keep,
            linkage: self.args.linkage,
            thresholds: &self.args.thresholds(),
            options: &self.options(&scratch_dir, self.bars),
        };
        let clusterings = dedup(pairs, &request).map_err(|error| unclustered(&error))?;
        seconds.cluster = stopwatch.seconds();
        Ok(clusterings)
    }

    pub(super) fn report(
        &self,
        joined: &Joined,
        clusterings: &[Clustering],
        seconds: DedupSeconds,
    ) -> DedupReport {
        let (pairs, tiles) = joined;
        let mut results: Vec<DedupFigures> = clusterings.iter().map(DedupFigures::of).collect();
        let is_one = results.len() == 1;
        let skipped = self.corpus.skipped().counts();
        DedupReport {
            schema_version: 1,
            rows: self.corpus.rows(),
            dim: self.corpus.dim() as u64,
            distinct_rows: pairs.distinct_rows(),
            skipped: skipped.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            method: if self.args.method == JoinArg::Exact { "exact" } else { "graph" },
            index: self.args.method.index(),
            figures: if is_one { results.pop() } else { None },
            results: (!is_one).then_some(results),
            counters: pairs.counters().into(),
            tiles: tiles.as_ref().map(DedupTiles::from),
            seconds,
            peak_rss_bytes: None,
            peak_anon_bytes: None,
            threads: self.pool.threads(),
            isa: Kernels::active().level().name(),
        }
    }
}

/// The pairs of a join, and the tiles' savings if there are tiles.
pub(super) type Joined = (PairStream, Option<TileSummary>);

/// Vectors could not be joined.
pub(super) fn unjoined(error: &JoinError) -> Failure {
    match error {
        JoinError::PairBudget { budget, threshold, histogram } => {
            spent(*budget, *threshold, histogram, error.hint())
        }
        error => Failure::of("compare the vectors", error),
    }
}

/// Tiles could not be made or joined.
pub(super) fn untiled(what: &str, error: &TileError) -> Failure {
    match error {
        TileError::Join(error) => unjoined(error),
        error => Failure::of(what, error),
    }
}

pub(super) fn unclustered(error: &DedupError) -> Failure {
    Failure::of("cluster the rows", error)
}

/// Reports the similarities of a sample's pairs, and advice.
pub(super) fn spent(
    budget: u64,
    threshold: f64,
    histogram: &[(f64, f64)],
    advice: Option<String>,
) -> Failure {
    let mut message = format!(
        "the threshold {threshold} is met by more than {budget} pairs of different vectors"
    );
    if !histogram.is_empty() {
        let rows = histogram.iter().map(|(similarity, share)| {
            vec![format!("{similarity:.2}"), format!("{:.4} %", share * 100.0)]
        });
        let table = table(&["at or above", "of sampled pairs"], rows.collect());
        message = format!("{message}\n\n{}", table.trim_end_matches('\n'));
    }
    let more = "or allow more pairs: --pair-budget N";
    let hint = advice.map_or_else(|| more.to_owned(), |advice| format!("{advice}; {more}"));
    Failure::plain(message, hint)
}

/// The stages of a join that follow preparation: of the exact one, and of that by a graph, …
const COMPARISONS: [&str; 2] = ["compare pairs", "search near rows"];

/// … and the one after that.
const AUDIT: &str = "audit pairs";

/// Shows progress as `inner` does, and tells preparing, comparing and auditing apart.
pub(super) struct Stages<'a> {
    inner: &'a dyn Progress,
    stopwatch: Stopwatch,
    begun: Mutex<Begun>,
}

/// When stages began, in seconds.
#[derive(Clone, Copy, Default)]
struct Begun {
    comparison: Option<f64>,
    audit: Option<f64>,
}

impl<'a> Stages<'a> {
    pub(crate) fn start(inner: &'a dyn Progress) -> Self {
        Self { inner, stopwatch: Stopwatch::start(), begun: Mutex::default() }
    }

    /// Returns the seconds before the comparison, from there to the audit, and since that began.
    pub(crate) fn split(&self) -> [f64; 3] {
        let now = self.stopwatch.seconds();
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let audited = begun.audit.unwrap_or(now);
        let compared = begun.comparison.unwrap_or(audited);
        [compared, audited - compared, now - audited]
    }
}

impl Progress for Stages<'_> {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some(self.stopwatch.seconds());
        match stage {
            AUDIT => begun.audit = now,
            stage if COMPARISONS.contains(&stage) => begun.comparison = now,
            _ => {}
        }
        drop(begun);
        self.inner.begin(stage, total);
    }

    fn advance(&self, done: u64) {
        self.inner.advance(done);
    }

    fn end(&self) {
        self.inner.end();
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled()
    }
}
