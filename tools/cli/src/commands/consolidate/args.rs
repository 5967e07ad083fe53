//! Arguments of `memfold consolidate`, as a request and as words to be typed again.

use std::path::PathBuf;

use clap::{self, Args, ValueHint};
use memfold::ops::{ConsolidateRequest, JudgeMode, RunFiles, Scope, StorePath};
use memfold_core::policy::{JoinMethod, name_of};
use memfold_core::report::{Commands, Mode, Report};

use super::table::TableArgs;
use crate::args::{GlobalArgs, TextFieldArgs, share, store_path, whole};
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
    /// Merge at or above this cosine similarity [default: 0.95]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = threshold)]
    pub(crate) threshold: Option<f64>,
    /// How to search for near pairs [default: auto]
    #[arg(long, value_enum, value_name = "M")]
    pub(crate) method: Option<JoinMethod>,
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
    /// Search only what changed since the last run with --execute
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Allow merges again that were undone
    #[arg(long)]
    pub(crate) again: bool,
    /// Let models decide about proposals, as judge.chain names them [default with --judge: ask]
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "ask")]
    pub(crate) judge: Option<JudgeMode>,
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

/// Reads a similarity at which memories merge.
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1, such as 0.95".to_owned())
}

impl ConsolidateArgs {
    /// Returns the configuration keys that were given as options.
    pub(super) fn scope(&self) -> Scope {
        Scope {
            threshold: self.threshold,
            method: self.method,
            categories: self.category.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            trigger: self.trigger.clone(),
        }
    }

    /// Returns the files that the run writes.
    pub(super) fn files(&self) -> RunFiles<'_> {
        RunFiles {
            plan: self.plan.as_deref(),
            report: self.report.as_deref(),
            report_dir: self.report_dir.as_deref(),
            metrics: self.metrics.as_deref(),
        }
    }

    /// Returns the library's request.
    pub(super) fn request<'a>(
        &'a self,
        scope: &'a Scope,
        global: &GlobalArgs,
    ) -> ConsolidateRequest<'a> {
        ConsolidateRequest {
            store: &self.db,
            scope,
            now: self.now.as_deref(),
            incremental: self.incremental,
            again: self.again,
            judge: self.judge,
            save_plan: self.save_plan,
            execute: self.execute,
            dry_run: self.dry_run,
            expect: self.expect.as_deref(),
            max_change_share: self.max_change_share,
            limit: self.limit,
            allow_unguarded: self.allow_unguarded,
            files: self.files(),
            threads: global.threads,
        }
    }

    /// Returns the options that change a plan or its execution, to be repeated in a command.
    pub(super) fn repeated(&self) -> Words {
        Words::default()
            .values("--threshold", self.threshold)
            .values("--method", self.method.map(name_of))
            .values("--category", &self.category)
            .values("--since", &self.since)
            .values("--until", &self.until)
            .values("--now", &self.now)
            .values("--trigger", &self.trigger)
            .values("--judge", self.judge.map(|_| "recorded"))
            .values("--limit", self.limit)
            .path("--report-dir", self.report_dir.as_deref())
            .path("--metrics", self.metrics.as_deref())
            .flag("--incremental", self.incremental)
            .flag("--again", self.again)
            .flag("--allow-unguarded", self.allow_unguarded)
    }

    /// Returns the options to apply the rest of a partly executed plan; the plan holds its
    /// configuration.
    pub(super) fn to_go_on(&self, global: &GlobalArgs) -> Words {
        Words::default()
            .values("--limit", self.limit)
            .flag("--allow-unguarded", self.allow_unguarded)
            .global(&without_set(global))
    }
}

/// The options of every command, without the ones that a plan holds.
pub(super) fn without_set(global: &GlobalArgs) -> GlobalArgs {
    GlobalArgs { set: Vec::new(), ..global.clone() }
}

/// The next thing to do: after a dry run, to execute exactly this plan.
pub(super) fn commands(global: &GlobalArgs, args: &ConsolidateArgs, report: &Report) -> Commands {
    let mut commands = Commands::of(&path_word(args.db.named()), report);
    if report.mode == Mode::DryRun {
        commands.next.extend(args.repeated().global(global).into_vec());
    }
    commands
}
