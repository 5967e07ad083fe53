//! Arguments of `memfold consolidate`, as a request and as words to be typed again.

use std::path::PathBuf;

use clap::{self, Args, ValueHint};
use memfold::ops::{ConsolidateRequest, StorePath};
use memfold_core::policy::name_of;
use memfold_core::report::{Commands, Mode, Report};

use super::table::TableArgs;
use crate::args::{GlobalArgs, TextFieldArgs, store_path, whole};
use crate::writing::{Words, path_word};

/// `memfold consolidate`
#[derive(Debug, Default, Args)]
pub(crate) struct ConsolidateArgs {
    /// The store: a brain.db, one of another kind (Markdown, memory.jsonl, …), or a file of texts
    /// (JSON, CSV, text lines, Parquet; `-` reads text lines or JSON from stdin)
    #[arg(value_name = "STORE", value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// Write the file of texts here without what was merged; with --execute
    #[arg(long, short, value_name = "FILE", requires = "execute")]
    pub(crate) output: Option<PathBuf>,
    /// The fields of a file of texts.
    #[command(flatten)]
    pub(crate) fields: TextFieldArgs,
    /// What the run does.
    #[command(flatten)]
    pub(crate) request: ConsolidateRequest,
    /// Of a Markdown file: list the proposals that would bring it below N characters
    #[arg(long, value_name = "CHARS", value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) budget: Option<u64>,
    /// Exit with 3 if the plan holds changes that were not applied
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// The table of a SQLite file.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

impl ConsolidateArgs {
    /// Returns the options that change a plan or its execution, to be repeated in a command.
    pub(super) fn repeated(&self) -> Words {
        let ConsolidateRequest { scope, files, .. } = &self.request;
        Words::default()
            .values("--threshold", scope.threshold)
            .values("--method", scope.method.map(name_of))
            .values("--category", &scope.categories)
            .values("--since", &scope.since)
            .values("--until", &scope.until)
            .values("--now", &scope.now)
            .values("--trigger", &scope.trigger)
            .values("--judge", self.request.judge.map(|_| "recorded"))
            .values("--limit", self.request.limit)
            .path("--report-dir", files.report_dir.as_deref())
            .path("--metrics", files.metrics.as_deref())
            .flag("--incremental", self.request.incremental)
            .flag("--again", self.request.again)
            .flag("--allow-unguarded", self.request.allow_unguarded)
    }

    /// Returns the options to apply the rest of a partly executed plan; the plan holds its
    /// configuration.
    pub(super) fn to_go_on(&self, global: &GlobalArgs) -> Words {
        Words::default()
            .values("--limit", self.request.limit)
            .flag("--allow-unguarded", self.request.allow_unguarded)
            .path("--config", global.sources.config.as_deref())
    }
}

/// The next thing to do: after a dry run, to execute exactly this plan.
pub(super) fn commands(global: &GlobalArgs, args: &ConsolidateArgs, report: &Report) -> Commands {
    let mut commands = Commands::of(&path_word(args.db.named()), report);
    if report.mode == Mode::DryRun {
        commands.next.extend(args.repeated().global(global).into_vec());
    }
    commands
}
