//! The command line: the commands, their parsing, and the way to the exit code.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::{self, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::{GlobalArgs, IndexArgs, LogFormat, SearchArgs};
use crate::commands::apply::ApplyArgs;
use crate::commands::check::CheckArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::consolidate::ConsolidateArgs;
use crate::commands::convert::ConvertArgs;
use crate::commands::dedup::DedupArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::due::DueArgs;
use crate::commands::edges::EdgesArgs;
use crate::commands::embed::EmbedArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::export::ExportArgs;
use crate::commands::flags::FlagsArgs;
use crate::commands::forget::ForgetArgs;
use crate::commands::hook::HookArgs;
use crate::commands::import::ImportArgs;
use crate::commands::man::{CompletionsArgs, ManArgs};
use crate::commands::plan_join::PlanJoinArgs;
use crate::commands::plans::PlansArgs;
use crate::commands::prune::PruneArgs;
use crate::commands::recall::RecallArgs;
use crate::commands::resolve::ResolveArgs;
use crate::commands::restore::RestoreArgs;
use crate::commands::review::ReviewArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::save::SaveArgs;
use crate::commands::status::StatusArgs;
use crate::commands::sync::SyncArgs;
use crate::commands::tiers::TiersArgs;
use crate::commands::undo::UndoArgs;
use crate::commands::*;
use crate::failure::{Exit, Failure};
use crate::mirrored;
use crate::printer::{self, Printer};
use crate::settings;
use crate::stages::{Stages, watch_stages};

/// Finds duplicate memories and merges them without losing a fact.
#[derive(Debug, Parser)]
#[command(name = "memfold", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failure, or the answer no (due, resolve), 2 usage, \
                        3 changes pending (with --exit-code), \
                        4 partial (some units were skipped or rolled back, or a file about a run \
                        that stands could not be written), 5 locked by another run, \
                        130 interrupted.\nData goes to stdout, progress and remarks to stderr.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a sample brain.db in ./memfold-demo and consolidate it (dry run)
    Demo(DemoArgs),
    /// Find duplicate memories of a store and merge them (dry run unless --execute)
    Consolidate(ConsolidateArgs),
    /// List the saved plans of a store, or the actions of one
    Plans(PlansArgs),
    /// Approve or reject the changes of a saved plan one by one
    #[command(after_help = review::REVIEW_KEYS)]
    Review(ReviewArgs),
    /// Apply a saved plan, or a part of it (dry run unless --execute)
    Apply(ApplyArgs),
    /// Undo a run, or a part of it (dry run unless --execute)
    Undo(UndoArgs),
    /// Report whether a memory is a duplicate, without writing
    Check(CheckArgs),
    /// Save a memory unless it is a duplicate
    Save(SaveArgs),
    /// Find the memories, or rows of a file, nearest to a vector, text or id
    Search(SearchArgs),
    /// Find the memories that answer a question, and count them as read
    Recall(RecallArgs),
    /// Give the sessions of an agent a context of memories
    Hook(HookArgs),
    /// Build, inspect, verify, warm or remove the search index
    Index(IndexArgs),
    /// Find all near-duplicate rows in files of vectors
    Dedup(DedupArgs),
    /// Estimate what a join of many rows by tiles would take, from a sample
    PlanJoin(PlanJoinArgs),
    /// Take in what others changed in a store that is no brain.db, and publish what was applied (dry
    /// run unless --execute)
    Sync(SyncArgs),
    /// Embed the memories that have no embedding (dry run unless --execute)
    Embed(EmbedArgs),
    /// Write a store's vectors and columns to an Arrow or Parquet file
    Export(ExportArgs),
    /// Import memories from a JSONL file into a new or existing brain.db
    Import(ImportArgs),
    /// Convert a file of vectors to another format or component type
    Convert(ConvertArgs),
    /// List the runs on a store, or the changes of one
    Runs(RunsArgs),
    /// Show the lineage of a memory, or the fact guard's verdict on two texts
    Explain(ExplainArgs),
    /// Show where a store stands
    Status(StatusArgs),
    /// Show how alive memories are, and store their tiers (dry run unless --execute)
    Tiers(TiersArgs),
    /// Show what supersedes, consolidates and references a memory
    Edges(EdgesArgs),
    /// Report whether a consolidation is due
    Due(DueArgs),
    /// List flagged pairs, or settle one (dry run unless --execute)
    Flags(FlagsArgs),
    /// Print the id a memory was merged into
    Resolve(ResolveArgs),
    /// Restore archived memories (dry run unless --execute)
    Restore(RestoreArgs),
    /// Erase a memory permanently, with its traces (dry run unless --execute)
    Forget(ForgetArgs),
    /// Remove old entries of the journal (dry run unless --execute)
    Prune(PruneArgs),
    /// Check a store and suggest fixes
    Doctor(DoctorArgs),
    /// Show the configuration
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
}

/// Describes the arguments of one command.
type Describe = fn(clap::Command) -> clap::Command;

/// The commands, and what describes their arguments.
const COMMANDS: [(&str, Describe); 34] = [
    ("demo", DemoArgs::augment_args),
    ("consolidate", ConsolidateArgs::augment_args),
    ("plans", PlansArgs::augment_args),
    ("review", ReviewArgs::augment_args),
    ("apply", ApplyArgs::augment_args),
    ("undo", UndoArgs::augment_args),
    ("check", CheckArgs::augment_args),
    ("save", SaveArgs::augment_args),
    ("search", SearchArgs::augment_args),
    ("recall", RecallArgs::augment_args),
    ("hook", HookArgs::augment_args),
    ("index", IndexArgs::augment_args),
    ("dedup", DedupArgs::augment_args),
    ("plan-join", PlanJoinArgs::augment_args),
    ("sync", SyncArgs::augment_args),
    ("embed", EmbedArgs::augment_args),
    ("export", ExportArgs::augment_args),
    ("import", ImportArgs::augment_args),
    ("convert", ConvertArgs::augment_args),
    ("runs", RunsArgs::augment_args),
    ("explain", ExplainArgs::augment_args),
    ("status", StatusArgs::augment_args),
    ("tiers", TiersArgs::augment_args),
    ("edges", EdgesArgs::augment_args),
    ("due", DueArgs::augment_args),
    ("flags", FlagsArgs::augment_args),
    ("resolve", ResolveArgs::augment_args),
    ("restore", RestoreArgs::augment_args),
    ("forget", ForgetArgs::augment_args),
    ("prune", PruneArgs::augment_args),
    ("doctor", DoctorArgs::augment_args),
    ("config", ConfigArgs::augment_args),
    ("completions", CompletionsArgs::augment_args),
    ("man", ManArgs::augment_args),
];

impl Cli {
    /// Parses the words of a command line.
    ///
    /// Describing all commands to clap takes longer than most lookups. When the first word is
    /// a command, only that one is described; errors and help come from the complete description.
    pub(crate) fn parse_typed(typed: &[OsString]) -> Result<Self, clap::Error> {
        if let [_, word] = typed
            && (word == "--version" || word == "-V")
        {
            let program = clap::Command::new("memfold").version(env!("CARGO_PKG_VERSION"));
            program.try_get_matches_from(typed)?;
        }
        Self::parse_one(typed).map_or_else(|| Self::try_parse_from(typed), Ok)
    }

    /// Parses a correct command line that begins with a command.
    fn parse_one(typed: &[OsString]) -> Option<Self> {
        let first = typed.get(1)?.to_str()?;
        let (name, describe) = COMMANDS.iter().find(|(name, _)| *name == first)?;
        let program = GlobalArgs::augment_args(clap::Command::new("memfold"))
            .subcommand(describe(clap::Command::new(*name)));
        let matches = program.try_get_matches_from(typed).ok()?;
        let global = GlobalArgs::from_arg_matches(&matches).ok()?;
        Some(Self { global, command: Command::from_arg_matches(&matches).ok()? })
    }
}

/// Runs `memfold` with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    match Cli::parse_typed(&typed) {
        Ok(cli) => finish(&cli.global, |printer| run_command(&cli.global, cli.command, printer)),
        Err(error) => Exit::of_usage(&error, &typed),
    }
}

/// Runs a command with a printer as the options want it, and shows why it failed.
pub fn finish(
    global: &GlobalArgs,
    command: impl FnOnce(Printer) -> Result<Exit, Failure>,
) -> ExitCode {
    std::panic::set_hook(Box::new(printer::panicked));
    refuse_large_writes();
    let is_json = global.log_format == LogFormat::Json;
    let printer = Printer::new(global.quiet, global.verbose > 0, global.no_progress || is_json);
    let printer = printer.logging_json(is_json);
    let run = || settings::check_isa().and_then(|()| command(printer));
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            printer.failure(&failure);
            failure.exit.into()
        }
        // What went wrong is told already.
        Err(_) => Exit::Failure.into(),
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with an error that can be told; the signal
/// that comes with it would end the process in the middle of its work. Threads made from now on inherit this.
fn refuse_large_writes() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGXFSZ);
        // Where it cannot be blocked, it ends the process as before.
        let _ = blocked.thread_block();
    }
}

fn run_command(global: &GlobalArgs, command: Command, printer: Printer) -> Result<Exit, Failure> {
    watch_stages(Stages::wanted(global, printer));
    mirrored::run(global, command, printer, dispatch)
}

fn dispatch(global: &GlobalArgs, command: Command, printer: Printer) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(global, &args, printer),
        Command::Consolidate(args) => consolidate::run(global, &args, printer),
        Command::Plans(args) => plans::run(global, &args, printer),
        Command::Review(args) => review::run(global, &args, printer),
        Command::Apply(args) => apply::run(global, &args, printer),
        Command::Undo(args) => undo::run(global, &args, printer),
        Command::Check(args) => check::run(global, &args, printer),
        Command::Save(args) => save::run(global, &args, printer),
        Command::Search(args) => search::run(global, &args, printer),
        Command::Recall(args) => recall::run(global, &args, printer),
        Command::Hook(args) => hook::run(global, &args, printer),
        Command::Index(args) => index::run(global, &args, printer),
        Command::Dedup(args) => dedup::run(global, &args, printer),
        Command::PlanJoin(args) => plan_join::run(global, &args, printer),
        Command::Sync(args) => sync::run(global, &args, printer),
        Command::Embed(args) => embed::run(global, &args, printer),
        Command::Export(args) => export::run(global, &args, printer),
        Command::Import(args) => import::run(global, &args, printer),
        Command::Convert(args) => convert::run(global, &args, printer),
        Command::Explain(args) => explain::run(global, &args, printer),
        Command::Runs(args) => runs::run(global, &args, printer),
        Command::Status(args) => status::run(global, &args, printer),
        Command::Tiers(args) => tiers::run(global, &args, printer),
        Command::Edges(args) => edges::run(global, &args, printer),
        Command::Due(args) => due::run(global, &args, printer),
        Command::Flags(args) => flags::run(global, &args, printer),
        Command::Resolve(args) => resolve::run(global, &args, printer),
        Command::Restore(args) => restore::run(global, &args, printer),
        Command::Forget(args) => forget::run(global, &args, printer),
        Command::Prune(args) => prune::run(global, &args, printer),
        Command::Doctor(args) => doctor::run(global, &args, printer),
        Command::Config(args) => config::run(global, &args, printer),
        Command::Completions(args) => man::completions(Cli::command(), &args, printer),
        Command::Man(args) => man::run(Cli::command(), &args, printer),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn typed(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn every_command_can_be_described_alone() {
        let whole = Cli::command();
        let names = whole.get_subcommands().map(clap::Command::get_name);
        assert!(names.eq(COMMANDS.map(|(name, _)| name)));
        for (subcommand, (name, describe)) in whole.get_subcommands().zip(COMMANDS) {
            let alone = describe(clap::Command::new(name));
            let ids = |command: &clap::Command| -> Vec<String> {
                command.get_arguments().map(|argument| format!("{argument:?}")).collect()
            };
            assert_eq!(ids(&alone), ids(subcommand), "{name}");
        }
    }

    #[test]
    fn one_command_is_parsed_as_by_the_whole_command_line() {
        for line in [
            "memfold search brain.db --vector [1,2] --json -k 3",
            "memfold search brain.db --id stm_1 --quiet --threads 2 --set a=b --set c=d",
            "memfold search --threshold 0.9 brain.db --text words --no-index",
            "memfold resolve brain.db stm_1 --config file.yaml",
            "memfold check brain.db --text a --vector [1] --model m -c x -c y --json",
            "memfold save brain.db --text a --importance 2 --id b --source c --index-dir d",
            "memfold save brain.db --jsonl - --set quick_check.scope=source",
            "memfold --json search brain.db --id stm_1",
            "memfold consolidate brain.db --execute --threshold 0.9 --json",
            "memfold undo brain.db latest --action a1",
            "memfold index build brain.db --tier graph --quiet",
            "memfold recall brain.db words --mode deep -k 3 --no-count --json",
            "memfold hook session-start --db brain.db --quiet",
            "memfold config show --set a=b",
            "memfold completions bash",
        ] {
            let whole = Cli::try_parse_from(typed(line)).unwrap();
            let parsed = Cli::parse_typed(&typed(line)).unwrap();
            assert_eq!(format!("{parsed:?}"), format!("{whole:?}"), "{line}");
        }
        for (line, is_one) in [
            ("search d --id a", true),
            ("runs d", true),
            ("search d", false),
            ("--json runs d", false),
        ] {
            let typed = typed(&format!("memfold {line}"));
            assert_eq!(Cli::parse_one(&typed).is_some(), is_one, "{line}");
        }
    }

    #[test]
    fn mistakes_and_help_are_those_of_the_whole_command_line() {
        for line in [
            "memfold search",
            "memfold search --help",
            "memfold search brain.db --nonsense",
            "memfold search brain.db --threads 0 --id a",
            "memfold search brain.db --version",
            "memfold resolve brain.db",
            "memfold save brain.db",
            "memfold save brain.db --text a --jsonl -",
            "memfold check brain.db --help",
            "memfold index",
            "memfold index build --help",
            "memfold config --version",
            "memfold help undo",
            "memfold serch brain.db",
            "memfold --version",
            "memfold -V",
            "memfold",
        ] {
            let whole = Cli::try_parse_from(typed(line)).unwrap_err().to_string();
            let parsed = Cli::parse_typed(&typed(line)).unwrap_err().to_string();
            assert_eq!(parsed, whole, "{line}");
        }
    }
}
