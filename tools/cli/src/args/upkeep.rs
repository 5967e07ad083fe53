//! Arguments of the commands that deal with single memories and with what runs left behind.

use std::path::PathBuf;

use clap::Args;

use crate::age::{self, Age};

/// `memfold restore`
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// The archived memory's id; without it, those worth a look are listed
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold forget`
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// The memory's id
    pub(crate) id: String,
    /// Forget the memories that were folded into it as well
    #[arg(long)]
    pub(crate) with_absorbed: bool,
    /// An index of the store in another folder than DB.memfold, to be removed too where it holds the memory
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold prune`
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Remove what is older: hours, days or weeks (24h, 90d, 12w)
    #[arg(long, value_name = "AGE", value_parser = age::parse)]
    pub(crate) journal_older_than: Age,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// What commands share that write only when told to.
#[derive(Debug, Args)]
pub(crate) struct WritingArgs {
    /// Write to the store
    #[arg(long)]
    pub(crate) execute: bool,
    /// Write nothing; this is the default and wins over --execute
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write times as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}
