//! Arguments of `memfold bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `memfold bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Judge labelled pairs of texts and tell how often the fact guard is right
    Guard(BenchGuardArgs),
}

/// `memfold bench guard`
#[derive(Debug, Args)]
pub(crate) struct BenchGuardArgs {
    /// The pairs, {"a": "older", "b": "newer", "label": "contradiction"} on each line; a label is
    /// any word, or a similarity from 0 to 5; - reads stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) pairs: PathBuf,
    /// Write the verdict on each pair here, and why (JSON Lines)
    #[arg(long, value_name = "FILE")]
    pub(crate) verdicts: Option<PathBuf>,
    /// Replace the file of verdicts if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

impl BenchGuardArgs {
    /// Tells whether the pairs come from stdin.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.pairs.as_os_str() == "-"
    }

    /// Returns what the pairs are called.
    pub(crate) fn source(&self) -> String {
        match self.reads_stdin() {
            true => "stdin".to_owned(),
            false => self.pairs.display().to_string(),
        }
    }
}
