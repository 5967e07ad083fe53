//! The command line of `memfold-server`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{self, Args, Parser, Subcommand, ValueEnum};
use memfold::ops::Sources;
use memfold_terminal::{LogFormat, Shown, threads};

use crate::schedule::{SCHEDULE_DEFAULT, ScheduleSettings};
use crate::service::{ExecuteMode, Serving};

/// Keeps stores of memories open for agents, programs and schedules.
#[derive(Debug, Parser)]
#[command(name = "memfold-server", version, propagate_version = true, max_term_width = 100)]
#[command(args_override_self = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: ServerOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command of the server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct ServerOptions {
    /// Use N worker threads for runs [default: one for each core]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    threads: Option<NonZeroUsize>,
    /// Print nothing on stderr but errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print more on stderr, and a line for each stage of a run
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Write lines on stderr as text or json
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    #[command(flatten)]
    sources: Sources,
}

impl ServerOptions {
    /// Returns the options of its output.
    pub(crate) const fn shown(&self) -> Shown {
        let Self { quiet, verbose, log_format, .. } = *self;
        Shown { quiet, verbose, no_progress: true, log_format }
    }

    /// Returns the settings that apply to every store.
    pub(crate) fn serving(&self) -> Serving {
        Serving { sources: self.sources.clone(), threads: self.threads }
    }
}

/// What to serve.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve HTTP: JSON for programs, MCP at /mcp for agents
    Http(HttpArgs),
    /// Serve MCP on stdin and stdout, for one agent
    Mcp(McpArgs),
    /// Print the OpenAPI description of the HTTP paths
    Openapi,
}

/// The stores, and the actions allowed on them.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoresArgs {
    /// The stores, of any kind, called by their names without ending
    #[arg(value_name = "DB", required_unless_present = "store")]
    pub(crate) stores: Vec<PathBuf>,
    /// A store with a name (can be repeated)
    #[arg(long, value_name = "NAME=PATH", value_parser = named)]
    pub(crate) store: Vec<(String, PathBuf)>,
    /// Allow requests to write: saves, decisions, runs that execute
    #[arg(long)]
    pub(crate) allow_writes: bool,
}

/// `memfold-server http`
#[derive(Debug, Clone, Args)]
pub(crate) struct HttpArgs {
    #[command(flatten)]
    pub(crate) stores: StoresArgs,
    /// Listen here; an address that others reach needs --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8077")]
    pub(crate) listen: SocketAddr,
    /// Listen on a Unix socket instead, for this user alone
    #[arg(long, value_name = "PATH")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Requests must send the token in this file: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A name by which a proxy calls the server (can be repeated)
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// A site whose pages may call the server (can be repeated)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Requests at work at once; 16 for each may wait [default: four for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
}

/// When stores run by themselves.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScheduleArgs {
    /// Run by this cron expression, unless a store holds another one [default with --schedule: 0 2 * * *]
    #[arg(long, value_name = "CRON", num_args = 0..=1, default_missing_value = SCHEDULE_DEFAULT)]
    pub(crate) schedule: Option<String>,
    /// The zone of --schedule [default: the configuration's]
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    pub(crate) schedule_zone: Option<String>,
    /// What a scheduled run carries out
    #[arg(long, value_enum, value_name = "WHAT", requires = "schedule", default_value = "none")]
    pub(crate) schedule_execute: ExecuteMode,
    /// Also run when a run is due, as `memfold status` says
    #[arg(long, requires = "schedule")]
    pub(crate) schedule_triggers: bool,
}

/// `memfold-server mcp`
#[derive(Debug, Clone, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) stores: StoresArgs,
    /// Serve one memory.jsonl with the tools of another server, which write it
    #[arg(long = "as", value_enum, value_name = "SERVER", conflicts_with = "store")]
    pub(crate) serve_as: Option<ServerArg>,
}

/// Another server of which this one serves the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerArg {
    /// The MCP reference memory server, @modelcontextprotocol/server-memory
    ServerMemory,
}

impl ScheduleArgs {
    /// Returns the settings; nothing without `--schedule`.
    pub(crate) fn settings(&self) -> Option<ScheduleSettings> {
        let schedule = self.schedule.clone()?;
        Some(ScheduleSettings {
            schedule,
            timezone: self.schedule_zone.clone(),
            execute: self.schedule_execute,
            triggers: self.schedule_triggers,
            ..ScheduleSettings::default()
        })
    }
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    let expected = || "expected NAME=PATH, such as notes=/var/lib/notes/brain.db".to_owned();
    let (name, path) = text.split_once('=').ok_or_else(expected)?;
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_name || path.is_empty() {
        return Err(expected());
    }
    Ok((name.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(named("a=b=c").unwrap(), ("a".to_owned(), "b=c".into()));
        for wrong in ["a", "=b", "a=", "a/b=c"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
