//! Arguments of the commands that look memories up.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use memfold_pipeline::lookup::TierChoice;
use memfold_simd::Similarity;

/// `memfold index`
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

/// What to do with the index of a store.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Build the index of a store's live memories; readers keep the old one until it is there
    Build(IndexBuildArgs),
    /// Tell what the index holds and how far the store has moved on
    Info(IndexPlaceArgs),
    /// Compare every byte of the index with what was written
    Verify(IndexVerifyArgs),
    /// Read the index into the system's memory, so that the first lookup is as fast as the next
    Warm(IndexPlaceArgs),
    /// Delete the index
    Remove(IndexPlaceArgs),
}

/// A store and its index.
#[derive(Debug, Clone, Args)]
pub(crate) struct IndexPlaceArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// The folder of the index [default: DB.memfold, or in the cache where that cannot be written]
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
}

/// `memfold index build`
#[derive(Debug, Args)]
pub(crate) struct IndexBuildArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Only vectors of this model [default: the one with most vectors]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// How lookups are answered
    #[arg(long, value_enum, value_name = "TIER", default_value = "auto")]
    pub(crate) tier: TierArg,
    /// Only add what came since, in a moment; builds where that cannot be done
    #[arg(long, conflicts_with_all = ["model", "tier"])]
    pub(crate) append: bool,
    /// Wait so many seconds for another process that builds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) wait: u32,
}

/// How lookups are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierArg {
    /// By a scan up to 250,000 memories, else by a graph
    Auto,
    /// By a scan of codes: exact
    Scan,
    /// By a graph: faster from some 100,000 memories on, and nearly exact
    Graph,
}

impl From<TierArg> for TierChoice {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Auto => Self::Auto,
            TierArg::Scan => Self::Scan,
            TierArg::Graph => Self::Graph,
        }
    }
}

/// `memfold index verify`
#[derive(Debug, Args)]
pub(crate) struct IndexVerifyArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Look up every row, and compare all of them with the store
    #[arg(long)]
    pub(crate) full: bool,
}

/// `memfold search`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("query").required(true),
    override_usage = "memfold search [OPTIONS] <DB> --vector V|--text T|--id ID|--queries F"
)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Near this vector: a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)
    #[arg(long, value_name = "VECTOR", group = "query", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// Near the memory with this text
    #[arg(long, value_name = "TEXT", group = "query")]
    pub(crate) text: Option<String>,
    /// Near this memory
    #[arg(long, value_name = "ID", group = "query")]
    pub(crate) id: Option<String>,
    /// Near each vector of this file (Parquet, Arrow or npy); writes to --output
    #[arg(long, value_name = "FILE", group = "query", requires = "output")]
    pub(crate) queries: Option<PathBuf>,
    /// At most so many [default: 10, or all with --threshold]
    #[arg(short = 'k', long = "neighbors", value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) neighbors: Option<u32>,
    /// Only those at or above this cosine similarity, -1 to 1
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = super::dedup::threshold)]
    pub(crate) threshold: Option<Similarity>,
    /// Read every vector of the store instead of its index
    #[arg(long)]
    pub(crate) no_index: bool,
    /// Write what --queries found here (Parquet)
    #[arg(long, short, value_name = "FILE", requires = "queries")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
