//! The arguments of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use memfold_cli::{GlobalArgs, StorePlaceArgs, above_zero};
use memfold_terminal::whole;

/// Generates data, and measures memfold on your own.
#[derive(Debug, Parser)]
#[command(name = "memfold-bench", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look vectors up in an index and tell how many neighbours it finds, and how fast
    Ann(AnnArgs),
    /// Check memories like those of a store and tell how long that takes
    Check(CheckArgs),
    /// Measure the accuracy of the fact guard on labelled pairs of texts
    Guard(GuardArgs),
    /// Measure what judges may merge of labelled pairs, and what the models of judge.chain do
    Judge(JudgeArgs),
    /// Generate vectors, or a whole brain.db
    Generate(GenerateArgs),
    /// Export a store and tell how fast that is beside reading it
    Export(ExportArgs),
    /// Compare generated vectors with those they should be like
    Likeness(LikenessArgs),
    /// Recall memories of a store and tell how long that takes; accesses are counted, so give a copy
    Recall(RecallArgs),
    /// Let ten years go by over a store and tell how its memories move through the tiers
    Years(YearsArgs),
    /// Draw plots that a script describes
    Plot(PlotArgs),
}

/// `memfold-bench recall`
#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// The store: a brain.db with an index beside it
    #[arg(value_name = "DB")]
    pub(crate) db: PathBuf,
    /// The time of tiers (RFC 3339)
    #[arg(long, value_name = "TIME", default_value = "2026-03-13T00:00:00Z")]
    pub(crate) now: String,
}

/// `memfold-bench years`
#[derive(Debug, Args)]
pub(crate) struct YearsArgs {
    /// The store: a brain.db
    #[arg(value_name = "DB")]
    pub(crate) db: PathBuf,
    /// The first night (RFC 3339)
    #[arg(long, value_name = "TIME", default_value = "2026-03-13T00:00:00Z")]
    pub(crate) now: String,
}

/// `memfold-bench judge`
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The pairs, {"a": "older", "b": "newer", "label": "duplicate"} on each line; a label is
    /// any word, or a similarity from 0 to 5; - reads stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) pairs: PathBuf,
}

/// `memfold-bench guard`
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// The pairs, {"a": "older", "b": "newer", "label": "contradiction"} on each line; a label is
    /// any word, or a similarity from 0 to 5; - reads stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) pairs: PathBuf,
    /// Write the verdict on each pair here, and why (JSON Lines)
    #[arg(long, value_name = "FILE")]
    pub(crate) verdicts: Option<PathBuf>,
    /// Draw precision, recall and F1 of contradiction over the threshold here (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) curve: Option<PathBuf>,
    /// Replace the files if they exist
    #[arg(long)]
    pub(crate) force: bool,
}

/// `memfold-bench plot`
#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// The descriptions of the plots (JSON); - reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) plots: PathBuf,
    /// The folder to write the plots into (SVG); those of the same name are replaced
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
}

/// `memfold-bench check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// Checks of each kind
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize>(1, u64::MAX))]
    pub(crate) checks: usize,
    /// Also beside so many processes that save into a copy of the store
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) writers: usize,
    /// Memories that each of them saves in a second
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = above_zero)]
    pub(crate) rate: f64,
    /// Also with nothing of store and index in memory
    #[arg(long)]
    pub(crate) cold: bool,
    /// The memfold whose processes are measured [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) memfold: Option<PathBuf>,
    /// Also through this memfold-server: checks and saves over HTTP, and checks over MCP
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Draw how often a check took how long here (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram: Option<PathBuf>,
    /// Replace the histogram if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `memfold-bench export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The store: a brain.db
    #[arg(value_name = "DB")]
    pub(crate) db: PathBuf,
    /// Exports of each kind, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<usize>(1, u64::MAX))]
    pub(crate) runs: usize,
    /// Also with nothing of the store in memory
    #[arg(long)]
    pub(crate) cold: bool,
}

/// `memfold-bench generate`
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The file to write: .arrow, .parquet or .npy, or a store with --brain
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Vectors to generate [default: 10000, or all of --from]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) rows: Option<usize>,
    /// Components per vector [default: 384, or that of --like or --from]
    #[arg(long, value_name = "D", allow_negative_numbers = true, value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) dim: Option<usize>,
    /// The seed: equal seeds give equal bytes on every machine
    #[arg(long, value_name = "S", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Draw rows like those of a real file (Parquet, Arrow, npy, …): its mean and covariance,
    /// how near neighbours are, and its groups of duplicates
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) like: Option<PathBuf>,
    /// Write a whole brain.db
    #[arg(long)]
    pub(crate) brain: bool,
    /// With every habit of a real store: mixed times, broken rows, archived rows
    #[arg(long, requires = "brain")]
    pub(crate) wild: bool,
    /// Take the vectors from this file
    #[arg(long, value_name = "FILE", requires = "brain")]
    pub(crate) from: Option<PathBuf>,
    /// Take the texts from this file, one for each vector, and their times where it has them
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) texts: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `memfold-bench likeness`
#[derive(Debug, Args)]
pub(crate) struct LikenessArgs {
    /// The vectors that others should be like (Parquet, Arrow, npy, …)
    #[arg(value_name = "REAL")]
    pub(crate) real: PathBuf,
    /// The vectors that memfold-bench generate --like REAL made
    #[arg(value_name = "GENERATED")]
    pub(crate) generated: PathBuf,
}

/// `memfold-bench ann`
#[derive(Debug, Args)]
pub(crate) struct AnnArgs {
    /// The vectors to search (Parquet, Arrow, npy, …)
    #[arg(long, value_name = "FILE")]
    pub(crate) base: PathBuf,
    /// The vectors to look up, none of them in the base [default: the set `test` of an HDF5 base,
    /// else the last 1,000 of the base, held out of it, or a tenth of fewer than 10,000]
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Neighbours to find for each query
    #[arg(short = 'k', long = "neighbors", value_name = "K", default_value_t = 10)]
    #[arg(value_parser = whole::<u16>(1, 1_000))]
    pub(crate) neighbors: u16,
    /// What answers
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = AnnMethodArg::Graph)]
    pub(crate) method: AnnMethodArg,
    /// Values of ef_search, one setting each; a scan has none
    #[arg(long, value_name = "N,N…", value_delimiter = ',')]
    #[arg(default_value = "16,24,32,48,64,96,128,192,256")]
    #[arg(value_parser = whole::<u16>(1, u16::MAX.into()))]
    pub(crate) ef_search: Vec<u16>,
    /// Links of each node and layer are up to twice this (M); 20 for the graph
    /// and 16 for hnsw_rs if not given
    #[arg(long, value_name = "M")]
    #[arg(value_parser = whole::<u8>(2, 64))]
    pub(crate) degree: Option<u8>,
}

/// What answers a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnMethodArg {
    /// The graph over int8 codes
    Graph,
    /// The flat index of 64 codes a row, scanned; exact
    Scan,
    /// The crate hnsw_rs
    #[value(name = "hnsw_rs")]
    HnswRs,
    /// A comparison with every vector
    Exact,
}
