//! Parsing with no more of the command line described to clap than the command that was typed.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser};

use super::*;

/// Describes the arguments of one command.
type Describe = fn(clap::Command) -> clap::Command;

/// The commands, and what describes their arguments.
const COMMANDS: [(&str, Describe); 28] = [
    ("demo", DemoArgs::augment_args),
    ("consolidate", ConsolidateArgs::augment_args),
    ("plans", PlansArgs::augment_args),
    ("review", ReviewArgs::augment_args),
    ("apply", ApplyArgs::augment_args),
    ("undo", UndoArgs::augment_args),
    ("check", CheckArgs::augment_args),
    ("save", SaveArgs::augment_args),
    ("search", SearchArgs::augment_args),
    ("index", IndexArgs::augment_args),
    ("dedup", DedupArgs::augment_args),
    ("embed", EmbedArgs::augment_args),
    ("export", ExportArgs::augment_args),
    ("import", ImportArgs::augment_args),
    ("convert", ConvertArgs::augment_args),
    ("generate", GenerateArgs::augment_args),
    ("runs", RunsArgs::augment_args),
    ("explain", ExplainArgs::augment_args),
    ("bench", BenchArgs::augment_args),
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
    /// Describing all 28 commands to clap takes longer than most lookups. When the first word is
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
