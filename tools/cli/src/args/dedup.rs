//! Arguments of `memfold dedup`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use memfold::dedup::ClusterLinkage;
use memfold_plan::policy::GraphIndex;
use memfold_simd::Similarity;

use super::IndexArg;
use super::numbers::whole;

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
        value_parser = threshold
    )]
    pub(crate) threshold: Vec<Similarity>,
    /// How to search for near pairs
    #[arg(long, value_enum, value_name = "M", default_value = "exact")]
    pub(crate) method: JoinArg,
    /// The index that --method graph searches by [default: memfold]
    #[arg(long, value_enum, value_name = "I")]
    pub(crate) index: Option<IndexArg>,
    /// Which row of a cluster stays: first, newest (column created_at), most_central, or
    /// column:NAME (the largest value)
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub(crate) keep: KeepArg,
    /// What makes a cluster
    #[arg(long, value_enum, value_name = "L", default_value = "greedy_complete")]
    pub(crate) linkage: LinkageArg,
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
    /// The column of the vectors, or the array of an npz, HDF5 or safetensors file [default: vector,
    /// embedding, embeddings or emb]
    #[arg(long, value_name = "NAME")]
    pub(crate) vector_column: Option<String>,
    /// The column of the ids [default: id, where there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) id_column: Option<String>,
    /// Refuse to find, or to write, more pairs [default: 64 for each distinct row, at least 1000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) pair_budget: Option<u64>,
    /// Show so many clusters and pairs
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

    /// Returns the index that pairs are searched by; `None`: they are compared exactly.
    pub(crate) fn graph_index(&self) -> Option<GraphIndex> {
        let index = self.index.map_or_else(GraphIndex::default, GraphIndex::from);
        (self.method == JoinArg::Graph).then_some(index)
    }
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JoinArg {
    /// All of them, proven
    Exact,
    /// Most of them, by a graph index; how many is measured
    Graph,
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

/// What makes a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum LinkageArg {
    /// Every two rows of it are near
    GreedyComplete,
    /// A chain of near rows joins them
    Single,
}

impl From<LinkageArg> for ClusterLinkage {
    fn from(linkage: LinkageArg) -> Self {
        match linkage {
            LinkageArg::GreedyComplete => Self::GreedyComplete,
            LinkageArg::Single => Self::Single,
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

pub(super) fn threshold(text: &str) -> Result<Similarity, String> {
    let number = text.trim().parse().ok();
    number.and_then(Similarity::new).ok_or_else(|| "expected a number from -1 to 1".to_owned())
}
