//! What was typed.

mod bench;
mod consolidate;
mod convert;
mod import;
mod dedup;
mod embed;
mod parse;
mod lookups;
pub(crate) mod numbers;
mod saving;
mod upkeep;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::bench::{BenchArgs, BenchCommand, BenchGuardArgs};
pub(crate) use self::consolidate::{ConsolidateArgs, IndexArg};
pub(crate) use self::convert::ConvertArgs;
pub(crate) use self::dedup::{DedupArgs, JoinArg, KeepArg, PairsFormArg};
pub(crate) use self::embed::EmbedArgs;
pub(crate) use self::import::ImportArgs;
pub(crate) use self::lookups::{
    ColumnArgs, IndexArgs, IndexBuildArgs, IndexCommand, IndexPlaceArgs, IndexVerifyArgs,
    SearchArgs,
};
use self::numbers::{threads, whole};
pub use self::saving::StorePlaceArgs;
pub(crate) use self::saving::{CheckArgs, MemoryArgs, SaveArgs};
pub(crate) use self::upkeep::{ForgetArgs, PruneArgs, RestoreArgs, WritingArgs};

/// Finds the memories that say the same thing and folds them together without losing a fact.
#[derive(Debug, Parser)]
#[command(name = "memfold", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failure, 2 usage, 3 changes pending (with --exit-code), \
                        4 partial (some units were skipped or rolled back, or a file about a run \
                        that stands could not be written), 5 locked by another run, \
                        130 interrupted.\nData goes to stdout, progress and remarks to stderr."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Use N worker threads [default: one for each core]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
    /// Print nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print more on stderr
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Read this configuration file as well (YAML or JSON)
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set a configuration key, such as guard.enabled=false (can be repeated)
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Show no progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a sample brain.db in ./memfold-demo and consolidate it (dry run)
    Demo(DemoArgs),
    /// Find what a store says twice and fold it (dry run unless --execute)
    Consolidate(ConsolidateArgs),
    /// List the saved plans of a store, or the actions of one
    Plans(PlansArgs),
    /// Decide on the changes of a saved plan, one after the other
    #[command(after_help = REVIEW_KEYS)]
    Review(ReviewArgs),
    /// Apply a saved plan, or a part of it (dry run unless --execute)
    Apply(ApplyArgs),
    /// Take back what a run did, or a part of it (dry run unless --execute)
    Undo(UndoArgs),
    /// Tell whether a memory is known already, and write nothing
    Check(CheckArgs),
    /// Save a memory, unless it is known already
    Save(SaveArgs),
    /// Find the memories, or rows of a file, nearest to a vector or to one of them
    Search(SearchArgs),
    /// Build the index that makes lookups fast, look at it, verify, warm or remove it
    Index(IndexArgs),
    /// Find near-duplicate rows in files of vectors, all of them
    Dedup(DedupArgs),
    /// Give memories without an embedding one (dry run unless --execute)
    Embed(EmbedArgs),
    /// Write a store's vectors and columns to an Arrow or Parquet file
    Export(ExportArgs),
    /// Make a brain.db of a JSONL file of texts, or add them to one
    Import(ImportArgs),
    /// Write a file of vectors in another format, or with another type of components
    Convert(ConvertArgs),
    /// Generate vectors, or a whole brain.db
    Generate(GenerateArgs),
    /// List the runs on a store, or what one of them did
    Runs(RunsArgs),
    /// Tell what a memory is made of, or what the fact guard says of two texts
    Explain(ExplainArgs),
    /// Measure memfold on your own data
    Bench(BenchArgs),
    /// List the pairs that wait for a look, or settle one (dry run unless --execute)
    Flags(FlagsArgs),
    /// Print the id under which a memory lives on
    Resolve(ResolveArgs),
    /// Bring archived memories back to life (dry run unless --execute)
    Restore(RestoreArgs),
    /// Erase a memory everywhere, for good (dry run unless --execute)
    Forget(ForgetArgs),
    /// Remove old entries of the journal (dry run unless --execute)
    Prune(PruneArgs),
    /// Tell what is in a store, what is wrong with it, and what mends it
    Doctor(DoctorArgs),
    /// Show the configuration
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
}

/// `memfold demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Build the sample here; rebuilt only if it is ours
    #[arg(long, value_name = "DIR", default_value = "memfold-demo")]
    pub(crate) dir: PathBuf,
    /// Rebuild the sample although it was reviewed or executed, without asking
    #[arg(long)]
    pub(crate) force: bool,
}

/// `memfold apply`
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// A saved plan (its id, the beginning of it, or latest) or a plan file
    pub(crate) plan: String,
    /// Only these actions: labels (a17), risks (identical, trivial, reworded) or types
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Not these actions
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    pub(crate) except: Vec<String>,
    /// Apply N units at most; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) limit: Option<u64>,
    /// Write the report here (JSON), and its Markdown beside it
    #[arg(long, value_name = "FILE", conflicts_with = "report_dir", requires = "execute")]
    pub(crate) report: Option<PathBuf>,
    /// Write <run_id>.json and <run_id>.md into this folder
    /// [default: reports/consolidation beside the store]
    #[arg(long, value_name = "DIR", requires = "execute")]
    pub(crate) report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run)
    #[arg(long, value_name = "FILE", requires = "execute")]
    pub(crate) metrics: Option<PathBuf>,
    /// Write to the store
    #[arg(long)]
    pub(crate) execute: bool,
    /// Write nothing; this is the default and wins over --execute
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Execute although the fact guard or protection is off
    #[arg(long)]
    pub(crate) allow_unguarded: bool,
    /// Write times as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold undo`
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("target").args(["run", "action", "memory"]).required(true).multiple(true))]
pub(crate) struct UndoArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// The run to take back, as `memfold runs` lists it; latest is the last one that is no save and
    /// no undo, and still has something to take back
    #[arg(conflicts_with = "memory")]
    pub(crate) run: Option<String>,
    /// Only the unit with this action (a17): of RUN, or of the last run that applied one
    #[arg(long, value_name = "A", conflicts_with = "memory")]
    pub(crate) action: Option<String>,
    /// Only the last unit that changed this memory
    #[arg(long, value_name = "ID")]
    pub(crate) memory: Option<String>,
    /// Restore also what somebody changed since
    #[arg(long)]
    pub(crate) force: bool,
    /// Bring back also what somebody deleted since
    #[arg(long)]
    pub(crate) recreate: bool,
    /// Let the next run do the same again
    #[arg(long)]
    pub(crate) remerge_ok: bool,
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

/// `memfold plans`
#[derive(Debug, Args)]
pub(crate) struct PlansArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// A plan: its name, the beginning of its name, or latest
    pub(crate) plan: Option<String>,
}

/// Said at the end of the help of `memfold review`.
const REVIEW_KEYS: &str = "\
Answers are single keys, or lines where stdin or stdout is no terminal: y yes,
n no, k keep both, s swap the survivor, v whole text, u back, q quit, ? help.
Each answer is written to the store at once, and nothing else is: what was
answered with yes, `memfold apply` does.";

/// `memfold review`
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// A plan: its name, the beginning of its name, or latest
    pub(crate) plan: String,
    /// Decide as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The store: a brain.db
    pub db: PathBuf,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// The format [default: by the file's ending]
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
    /// Further columns
    #[arg(long, value_enum, value_delimiter = ',', value_name = "COLUMN,…")]
    pub with: Vec<ExtraColumn>,
    /// Only vectors of this model [default: the one with most vectors]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// File formats of vectors with columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Arrow IPC, to be mapped
    Arrow,
    /// Parquet, to be exchanged
    Parquet,
}

/// Columns that an export leaves out unless asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExtraColumn {
    /// The memories' texts
    Text,
    /// What each memory was folded into
    Lineage,
}

/// `memfold generate`
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
    /// Take the texts from this Parquet file (column text, and created_at where there is one)
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) texts: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `memfold runs`
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Show what this run did: its id, how that begins, or `latest`
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}

/// `memfold explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The store: a brain.db
    #[arg(required_unless_present = "texts", conflicts_with = "texts")]
    pub(crate) db: Option<PathBuf>,
    /// The memory's id
    #[arg(required_unless_present = "texts", conflicts_with = "texts")]
    pub(crate) id: Option<String>,
    /// Judge two texts instead: the older one first
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub(crate) texts: Vec<String>,
}

/// `memfold flags`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("settlement").args(["keep_both", "merge", "supersede", "older_holds"]))]
pub(crate) struct FlagsArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Both of this pair stay: no run folds them while their texts stay
    #[arg(long, value_name = "KEY")]
    pub(crate) keep_both: Option<String>,
    /// Both say the same, by your word: fold the older one into the newer one
    #[arg(long, value_name = "KEY")]
    pub(crate) merge: Option<String>,
    /// The newer one holds: fold the older one into it
    #[arg(long, value_name = "KEY", visible_alias = "newer-holds")]
    pub(crate) supersede: Option<String>,
    /// The older one holds: fold the newer one into it
    #[arg(long, value_name = "KEY")]
    pub(crate) older_holds: Option<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold resolve`
#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// The memory's id
    pub(crate) id: String,
}

/// `memfold doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "With --health the exit codes are those that monitors expect: 0 ok, 1 warning, 2 critical."
)]
pub(crate) struct DoctorArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Print one line, such as `OK | STM:377 | live:366`, and exit with 0 ok, 1 warning or 2 critical
    #[arg(long)]
    pub(crate) health: bool,
    /// Judge as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the merged configuration and where each value came from
    Show {
        /// Include the memfold.yaml beside this store
        #[arg(value_name = "DB")]
        db: Option<PathBuf>,
    },
    /// Print the JSON Schema of configuration files
    Schema,
    /// List the files that are looked for, and which of them exist
    Path {
        /// Include the memfold.yaml beside this store
        #[arg(value_name = "DB")]
        db: Option<PathBuf>,
    },
}

/// `memfold completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `memfold man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder to write memfold.1 and one page for each command into
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
