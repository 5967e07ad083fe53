//! Commands that other programs call again and again, parsed without describing all others to clap first.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use super::{CheckArgs, Cli, Command, GlobalArgs, ResolveArgs, SaveArgs, SearchArgs};

/// Names of the commands below.
const NAMES: [&str; 4] = ["check", "save", "search", "resolve"];

/// `memfold` as if it had no other commands.
#[derive(Debug, Parser)]
#[command(name = "memfold")]
struct FrequentCli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: FrequentCommand,
}

#[derive(Debug, Subcommand)]
enum FrequentCommand {
    Check(Box<CheckArgs>),
    Save(Box<SaveArgs>),
    Search(Box<SearchArgs>),
    Resolve(ResolveArgs),
}

impl Cli {
    /// Parses what was typed; what is wrong with it, and help, always comes from the whole of the command line.
    pub(crate) fn parse_typed(typed: &[OsString]) -> Result<Self, clap::Error> {
        let is_frequent = typed.get(1).is_some_and(|name| NAMES.iter().any(|known| name == known));
        let frequent = is_frequent.then(|| FrequentCli::try_parse_from(typed).ok()).flatten();
        let Some(FrequentCli { global, command }) = frequent else {
            return Self::try_parse_from(typed);
        };
        let command = match command {
            FrequentCommand::Check(args) => Command::Check(*args),
            FrequentCommand::Save(args) => Command::Save(*args),
            FrequentCommand::Search(args) => Command::Search(*args),
            FrequentCommand::Resolve(args) => Command::Resolve(args),
        };
        Ok(Self { global, command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn frequent_commands_are_parsed_as_by_the_whole_command_line() {
        for line in [
            "memfold search brain.db --vector [1,2] --json -k 3",
            "memfold search brain.db --id stm_1 --quiet --threads 2 --set a=b --set c=d",
            "memfold search --threshold 0.9 brain.db --text words --no-index",
            "memfold resolve brain.db stm_1 --config file.yaml",
            "memfold check brain.db --text a --vector [1] --model m -c x -c y --json",
            "memfold save brain.db --text a --importance 2 --id b --source c --index-dir d",
            "memfold save brain.db --jsonl - --set quick_check.scope=source",
            "memfold --json search brain.db --id stm_1",
        ] {
            let whole = Cli::try_parse_from(typed(line)).unwrap();
            let parsed = Cli::parse_typed(&typed(line)).unwrap();
            assert_eq!(format!("{parsed:?}"), format!("{whole:?}"), "{line}");
        }
        for (line, is_frequent) in
            [("search d --id a", true), ("resolve d a", true), ("runs d", false)]
        {
            let typed = typed(&format!("memfold {line}"));
            assert_eq!(FrequentCli::try_parse_from(&typed).is_ok(), is_frequent, "{line}");
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
            "memfold serch brain.db",
        ] {
            let whole = Cli::try_parse_from(typed(line)).unwrap_err().to_string();
            let parsed = Cli::parse_typed(&typed(line)).unwrap_err().to_string();
            assert_eq!(parsed, whole, "{line}");
        }
    }
}
