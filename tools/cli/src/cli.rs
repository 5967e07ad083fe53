//! The command line: the commands, their parsing, and the way to the exit code.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{self, Args, FromArgMatches, Parser, Subcommand};
use memfold_terminal::finish;

use crate::args::GlobalArgs;
use crate::call::Call;
use crate::commands::*;
use crate::failure::{Exit, Failure};
use crate::mirrored::{self, Named};
use crate::printer::Printer;
use crate::stages::{Stages, watch_stages};

/// Finds duplicate memories and merges them without losing a fact.
#[derive(Debug, Parser)]
#[command(name = "memfold", version, propagate_version = true, max_term_width = 100)]
#[command(args_override_self = true)]
#[command(after_help = "Exit codes: 0 done, 1 failure, or no run is due (status --exit-code), \
                        2 usage, 3 changes pending (consolidate --exit-code), \
                        4 partial (some units were skipped or rolled back, or a file about a run \
                        that stands could not be written), 5 locked by another run, \
                        130 interrupted.\nData goes to stdout, progress and remarks to stderr.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Describes the arguments of one command.
type Describe = fn(clap::Command) -> clap::Command;

/// Makes the enum of commands, their descriptions, their functions and stores from one table.
macro_rules! commands {
    ($($(#[$about:meta])* $variant:ident($args:ty) $name:literal, $run:path, $store:expr;)+) => {
        /// The commands.
        #[derive(Debug, Subcommand)]
        #[expect(clippy::large_enum_variant, reason = "there is one command in a process")]
        pub(crate) enum Command {
            $($(#[$about])* #[command(name = $name)] $variant($args),)+
        }

        /// The commands, and the functions that describe their arguments.
        const COMMANDS: &[(&str, Describe)] = &[$(($name, <$args>::augment_args),)+];

        fn dispatch(call: Call<'_>, command: Command) -> Result<Exit, Failure> {
            match command {
                $(Command::$variant(args) => $run(call, &args),)+
            }
        }

        impl Command {
            /// Returns the store that the command names; `None` where it names none.
            pub(crate) fn store(&mut self) -> Option<Named<'_>> {
                match self {
                    $(Self::$variant(args) => {
                        let find: fn(&mut $args) -> Option<Named<'_>> = $store;
                        find(args)
                    })+
                }
            }
        }
    };
}

// One line each: the help, its arguments, its name, its function, and the store it names.
commands! {
    /// Build a sample brain.db in ./memfold-demo and consolidate it (dry run)
    Demo(demo::DemoArgs) "demo", demo::run, |_| None;
    /// Find duplicate memories of a store and merge them (dry run unless --execute)
    Consolidate(consolidate::ConsolidateArgs) "consolidate", consolidate::run,
        |args| Named::written(&mut args.db, args.request.execute && !args.request.dry_run);
    /// Decide about a saved plan, its proposals, and flagged pairs
    #[command(after_help = review::REVIEW_KEYS)]
    Review(review::ReviewArgs) "review", review::run,
        |args| { let publishes = args.writes(); Named::written(&mut args.db, publishes) };
    /// Apply a saved plan, or a part of it (dry run unless --execute)
    Apply(apply::ApplyArgs) "apply", apply::run,
        |args| { let publishes = args.writing.writes(); Named::written(&mut args.db, publishes) };
    /// Undo a run or a part of it, or restore an archived memory (dry run unless --execute)
    Undo(undo::UndoArgs) "undo", undo::run,
        |args| { let publishes = args.writing.writes(); Named::written(&mut args.db, publishes) };
    /// List the runs on a store, the changes of one, or the saved plans
    Runs(runs::RunsArgs) "runs", runs::run, |args| Named::read(&mut args.db);
    /// Look at a random sample of a run's merges and keep how many were wrong
    Audit(audit::AuditArgs) "audit", audit::run, |args| Named::read(&mut args.db);
    /// Show where a memory is, its lineage, edges and tier; or compare two texts
    Explain(explain::ExplainArgs) "explain", explain::run,
        |args| args.db.as_mut().and_then(Named::read);
    /// Report whether a memory is a duplicate, without writing
    Check(check::CheckArgs) "check", check::run, |args| Named::read(&mut args.place.db);
    /// Save a memory unless it is a duplicate
    Save(save::SaveArgs) "save", save::run, |args| Named::written(&mut args.place.db, true);
    /// Find the memories, or rows of a file, nearest to a vector, text or id
    Search(crate::args::SearchArgs) "search", search::run, |args| Named::read(&mut args.place.db);
    /// Find the memories that answer a question, and count them as read
    Recall(recall::RecallArgs) "recall", recall::run, |args| Named::read(&mut args.place.db);
    /// Show tiers, flags, plans and runs of a store, and whether a run is due
    Status(status::StatusArgs) "status", status::run, |args| Named::read(&mut args.db);
    /// Give the sessions of an agent a context of memories
    Hook(hook::HookArgs) "hook", hook::run, hook::HookArgs::store;
    /// Erase a memory permanently, with its traces (dry run unless --execute)
    Forget(forget::ForgetArgs) "forget", forget::run, |args| Named::read(&mut args.db);
    /// Check a store and suggest fixes
    Doctor(doctor::DoctorArgs) "doctor", doctor::run, |args| Named::read(&mut args.db);
    /// Embed the memories that have no embedding (dry run unless --execute)
    Embed(embed::EmbedArgs) "embed", embed::run, |args| Named::read(&mut args.db);
    /// Import a file of texts into a new or existing brain.db
    Import(import::ImportArgs) "import", import::run, |_| None;
    /// Write a store's memories to Arrow, Parquet, JSON Lines or CSV
    Export(export::ExportArgs) "export", export::run, |args| Named::read(&mut args.db);
    /// Find all near-duplicate rows in files of vectors
    Dedup(dedup::DedupArgs) "dedup", dedup::run, |_| None;
    /// Build or inspect the search index
    Index(crate::args::IndexArgs) "index", index::run, crate::args::IndexArgs::store;
    /// Convert a file of vectors to another format or component type
    Convert(convert::ConvertArgs) "convert", convert::run, |_| None;
    /// Show the configuration
    Config(config::ConfigArgs) "config", config::run, |_| None;
    /// Print a completion script for a shell, or write the man pages
    Completions(man::CompletionsArgs) "completions", man::run, |_| None;
}

/// Words of earlier versions, after the command they belong to, and their replacement.
const REMOVED: &[(&str, &str, &str)] = &[
    ("", "plans", "use memfold runs STORE --plans [PLAN]"),
    (
        "",
        "flags",
        "use memfold review STORE --flags, and memfold review STORE KEY --newer (or --older, --both, --merge)",
    ),
    ("", "resolve", "use memfold explain STORE ID (live_id with --json)"),
    ("", "restore", "use memfold undo STORE --memory ID, and memfold undo STORE --archived"),
    ("", "prune", "use memfold runs STORE --prune-older-than AGE"),
    ("", "tiers", "use memfold status STORE [--list TIER] [--now TIME] [--store-tiers]"),
    ("", "due", "use memfold status STORE --exit-code"),
    ("", "edges", "use memfold explain STORE ID [--depth N]"),
    ("", "sync", "every command takes in what others changed, and those with --execute publish"),
    ("", "plan-join", "use memfold dedup FILE --tiles-for ROWS"),
    ("", "man", "use memfold completions --man DIR"),
    ("", "generate", "use memfold-bench generate"),
    ("", "bench", "use memfold-bench guard, or memfold-bench judge"),
    ("index", "verify", "use memfold index info STORE --verify"),
    ("index", "warm", "nothing takes its place: the first lookups read what they need"),
    ("index", "remove", "delete its folder, STORE.memfold (memfold index info STORE names it)"),
    ("hook", "install", "use memfold hook print"),
    ("hook", "replace", "use memfold hook session-start, whose JSON holds the block"),
    ("consolidate", "--index", "use --method hnsw_rs"),
    ("dedup", "--index", "use --method hnsw_rs"),
    ("config", "path", "use memfold config show, which lists the files"),
];

/// Answers words of earlier versions with their replacement.
fn removed(error: &clap::Error, typed: &[OsString]) -> Option<Failure> {
    let word = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg]
        .into_iter()
        .find_map(|kind| error.get(kind))?;
    let ContextValue::String(word) = word else { return None };
    let word = word.split([' ', '=']).next()?;
    let is_typed = |command: &str| typed.iter().any(|word| word == command);
    let (command, _, successor) = REMOVED.iter().find(|(command, removed, _)| {
        *removed == word && (command.is_empty() || is_typed(command))
    })?;
    let words = [*command, word].join(" ");
    let message = format!("there is no `memfold {}` any more", words.trim_start());
    Some(Failure::usage(message, *successor))
}

impl Cli {
    /// Parses the words of a command line.
    ///
    /// Describing all commands to clap takes longer than most lookups. When the first word is a
    /// command, only that one is described; errors and help come from the complete description.
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
            .args_override_self(true)
            .subcommand(describe(clap::Command::new(*name)));
        let matches = program.try_get_matches_from(typed).ok()?;
        let global = GlobalArgs::from_arg_matches(&matches).ok()?;
        Some(Self { global, command: Command::from_arg_matches(&matches).ok()? })
    }
}

/// Runs `memfold` with the words of a command line, the first of which is the program's name.
#[must_use]
pub fn run(typed: &[OsString]) -> Exit {
    match Cli::parse_typed(typed) {
        Ok(cli) => {
            finish(cli.global.shown(), |printer| run_command(&cli.global, cli.command, printer))
        }
        Err(error) => match removed(&error, typed) {
            Some(failure) => {
                Printer::new(false, false, true).failure(&failure);
                failure.kind.into()
            }
            None => Exit::of_usage(&error, typed),
        },
    }
}

fn run_command(global: &GlobalArgs, command: Command, printer: Printer) -> Result<Exit, Failure> {
    watch_stages(Stages::wanted(global.shown(), printer));
    mirrored::run(Call { global, printer }, command, dispatch)
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
        assert!(names.eq(COMMANDS.iter().map(|(name, _)| *name)));
        for (subcommand, (name, describe)) in whole.get_subcommands().zip(COMMANDS) {
            let alone = describe(clap::Command::new(*name));
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
            "memfold explain brain.db stm_1 --config file.yaml",
            "memfold apply brain.db p --allow-unguarded --allow-unguarded --only a1 --only a2",
            "memfold review brain.db 0123 --newer --execute",
            "memfold check brain.db --text a --vector [1] --model m -c x -c y --json",
            "memfold save brain.db --text a --importance 2 --id b --source c --index-dir d",
            "memfold save brain.db --jsonl - --set quick_check.flag_threshold=0.8",
            "memfold --json search brain.db --id stm_1",
            "memfold consolidate brain.db --execute --threshold 0.9 --json",
            "memfold undo brain.db latest --action a1",
            "memfold index build brain.db --tier graph --quiet",
            "memfold index info brain.db --verify",
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
            "memfold explain brain.db",
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

    /// A script that repeats a flag failed at the second one.
    #[test]
    fn repeating_a_flag_changes_nothing() {
        let line = "memfold consolidate brain.db --json --json --execute --execute \
                    --threshold 0.8 --threshold 0.9 --set a=b --set c=d";
        for parsed in [Cli::parse_typed(&typed(line)), Cli::try_parse_from(typed(line))] {
            let Cli { global, command } = parsed.unwrap();
            assert!(global.json);
            assert_eq!(global.sources.set, ["a=b", "c=d"], "lists still add up");
            let Command::Consolidate(args) = command else { panic!("another command") };
            assert!(args.request.execute);
        }
    }

    #[test]
    fn a_share_is_from_0_to_1() {
        let line = "memfold consolidate brain.db --execute --max-change-share 1.5";
        let error = Cli::parse_typed(&typed(line)).unwrap_err().to_string();
        assert!(error.contains("expected a number from 0 to 1"), "{error}");
    }

    /// Yesterday's cron line must not stop in silence.
    #[test]
    fn removed_words_name_their_successors() {
        for (command, word, successor) in REMOVED {
            let line = format!("memfold {command} {word} brain.db").replace("  ", " ");
            let error = Cli::parse_typed(&typed(&line)).unwrap_err();
            let failure =
                removed(&error, &typed(&line)).unwrap_or_else(|| panic!("{line}: {error}"));
            assert!(failure.message.contains(word), "{line}");
            assert_eq!(failure.hint.as_deref(), Some(*successor));
        }
        let serch = typed("memfold serch brain.db");
        assert!(removed(&Cli::parse_typed(&serch).unwrap_err(), &serch).is_none());
    }
}
