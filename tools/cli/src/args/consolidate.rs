//! Arguments of `memfold consolidate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use memfold_plan::policy::GraphIndex;

use super::numbers::{share, whole};

/// `memfold consolidate`
#[derive(Debug, Args)]
pub(crate) struct ConsolidateArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Merge at or above this cosine similarity [default: 0.95]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = threshold)]
    pub(crate) threshold: Option<f64>,
    /// How to search for near pairs [default: auto]
    #[arg(long, value_enum, value_name = "M")]
    pub(crate) method: Option<MethodArg>,
    /// The index that --method graph searches by [default: memfold]
    #[arg(long, value_enum, value_name = "I")]
    pub(crate) index: Option<IndexArg>,
    /// Only memories of this category (can be repeated)
    #[arg(long, value_name = "C")]
    pub(crate) category: Vec<String>,
    /// Only memories created at or after this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only memories created before this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Plan as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
    /// Run only the rules of this trigger, and those of on_* [default: all rules]
    #[arg(long, value_name = "T")]
    pub(crate) trigger: Option<String>,
    /// Write the plan here (JSON; replaces that of an earlier run)
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Write the report here (JSON), and its Markdown beside it; the folder is made
    #[arg(long, value_name = "FILE", conflicts_with = "report_dir")]
    pub(crate) report: Option<PathBuf>,
    /// Write <run_id>.json and <run_id>.md into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run)
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Save the plan in the store, for review and apply
    #[arg(long)]
    pub(crate) save_plan: bool,
    /// Apply the plan
    #[arg(long)]
    pub(crate) execute: bool,
    /// Apply only the plan with this digest: the one that was reviewed
    #[arg(long, value_name = "DIGEST", requires = "execute")]
    pub(crate) expect: Option<String>,
    /// Without --expect, refuse to change a larger share of the live memories, 0 to 1 [default: 0.1]
    #[arg(long, value_name = "X", requires = "execute", allow_negative_numbers = true, value_parser = share)]
    pub(crate) max_change_share: Option<f64>,
    /// Apply N units at most; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) limit: Option<u64>,
    /// Execute although the fact guard or protection is off
    #[arg(long)]
    pub(crate) allow_unguarded: bool,
    /// Write nothing to the store; this is the default and wins over --execute and --save-plan
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Exit with 3 if the plan holds changes that were not applied
    #[arg(long)]
    pub(crate) exit_code: bool,
}

impl ConsolidateArgs {
    /// Returns the arguments of `memfold consolidate DB`.
    pub(crate) const fn of(db: PathBuf) -> Self {
        Self {
            db,
            threshold: None,
            method: None,
            index: None,
            category: Vec::new(),
            since: None,
            until: None,
            now: None,
            trigger: None,
            plan: None,
            report: None,
            report_dir: None,
            save_plan: false,
            execute: false,
            expect: None,
            max_change_share: None,
            limit: None,
            allow_unguarded: false,
            metrics: None,
            dry_run: true,
            exit_code: false,
        }
    }
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArg {
    /// Exact as far as that is fastest
    Auto,
    /// The exact join
    Exact,
    /// A graph index; how many pairs it found is measured
    Graph,
}

impl MethodArg {
    /// Returns the configuration's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Graph => "graph",
        }
    }
}

/// The index that near pairs are searched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum IndexArg {
    /// The graph of memfold
    Memfold,
    /// The crate hnsw_rs, to compare with
    HnswRs,
}

impl From<IndexArg> for GraphIndex {
    fn from(index: IndexArg) -> Self {
        match index {
            IndexArg::Memfold => Self::Memfold,
            IndexArg::HnswRs => Self::HnswRs,
        }
    }
}

/// Reads a similarity at which memories merge.
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1, such as 0.95".to_owned())
}
