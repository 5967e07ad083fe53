//! Arguments of the commands that look memories up.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use memfold::lookup::TierChoice;
use memfold::lookup::corpus::CorpusColumns;
use memfold_simd::Similarity;

use super::numbers::whole;

/// `memfold index`
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

/// What to do with the index of a store or a file.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Build the index of a store's live memories or a file's rows; readers keep the old one until
    /// it is there
    Build(IndexBuildArgs),
    /// Tell what the index holds and how far its store or file has moved on
    Info(IndexPlaceArgs),
    /// Compare every byte of the index with what was written
    Verify(IndexVerifyArgs),
    /// Read the index into the system's memory, so that the first lookup is as fast as the next
    Warm(IndexPlaceArgs),
    /// Delete the index
    Remove(IndexPlaceArgs),
}

/// A store or a file of vectors, and its index.
#[derive(Debug, Clone, Args)]
pub(crate) struct IndexPlaceArgs {
    /// A store (a brain.db), or a file of vectors (Parquet, Arrow, npy, …)
    #[arg(value_name = "DB|INPUT")]
    pub(crate) db: PathBuf,
    /// The folder of the index [default: DB.memfold, or in the cache where that cannot be written]
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
}

/// Which columns of a file are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ColumnArgs {
    /// The column of the vectors of INPUT, or its array in an npz, HDF5 or safetensors file
    /// [default: vector, embedding, embeddings or emb]
    #[arg(long, value_name = "NAME")]
    pub(crate) vector_column: Option<String>,
    /// The column of the ids of INPUT [default: id, where there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) id_column: Option<String>,
}

impl ColumnArgs {
    /// Returns the columns asked for.
    pub(crate) fn columns(&self) -> CorpusColumns {
        CorpusColumns { vector: self.vector_column.clone(), id: self.id_column.clone() }
    }
}

/// `memfold index build`
#[derive(Debug, Args)]
pub(crate) struct IndexBuildArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Only vectors of this model of DB [default: the one with most vectors]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
    /// How lookups are answered
    #[arg(long, value_enum, value_name = "TIER", default_value = "auto")]
    pub(crate) tier: TierArg,
    /// Only add what came to DB since, in a moment; builds where that cannot be done
    #[arg(long, conflicts_with_all = ["model", "tier"])]
    pub(crate) append: bool,
    /// Wait so many seconds for another process that builds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = whole::<u32>(0, u32::MAX.into()))]
    pub(crate) wait: u32,
}

/// How lookups are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierArg {
    /// By a scan up to 250,000 rows, else by a graph
    Auto,
    /// By a scan of codes: exact
    Scan,
    /// By a graph: faster from some 100,000 rows on, and nearly exact
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
    /// Look up every row, and compare all of them with the store or file
    #[arg(long)]
    pub(crate) full: bool,
}

/// `memfold search`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("query").required(true),
    override_usage = "memfold search [OPTIONS] <DB|INPUT>\n                      --vector V|--text T|--id ID|--row N|--queries F"
)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Near this vector: a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)
    #[arg(long, value_name = "VECTOR", group = "query", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// Near this text: by the vector of the memory of DB that has it, else by one of the configured provider (embed.provider)
    #[arg(long, value_name = "TEXT", group = "query")]
    pub(crate) text: Option<String>,
    /// Near this memory, or the first row with this id
    #[arg(long, value_name = "ID", group = "query")]
    pub(crate) id: Option<String>,
    /// Near this row of INPUT, counted from 0
    #[arg(long, value_name = "N", group = "query", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) row: Option<u64>,
    /// Near each vector of this file (Parquet, Arrow, npy, …); writes to --output
    #[arg(long, value_name = "FILE", group = "query", requires = "output")]
    pub(crate) queries: Option<PathBuf>,
    /// At most so many [default: 10, or all with --threshold]
    #[arg(short = 'k', long = "neighbors", value_name = "K", allow_negative_numbers = true, value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub(crate) neighbors: Option<u32>,
    /// Only those at or above this cosine similarity, -1 to 1
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = super::dedup::threshold)]
    pub(crate) threshold: Option<Similarity>,
    /// Read every vector of the store or file instead of its index
    #[arg(long)]
    pub(crate) no_index: bool,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
    /// Write what --queries found here (Parquet)
    #[arg(long, short, value_name = "FILE", requires = "queries")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
