//! Arguments of `memfold consolidate`, as configuration and as words to be typed again.

use std::path::PathBuf;

use clap::{self, Args, ValueEnum};
use memfold_core::report::{Commands, Mode, Report};
use serde_json::{Map, Value};

use super::judge::JudgeArg;
use super::table::TableArgs;
use crate::args::{GlobalArgs, TextFieldArgs, share, whole};
use crate::run_files::RunFiles;
use crate::settings::{AGAIN, FlagValue};
use crate::writing;

/// `memfold consolidate`
#[derive(Debug, Args)]
pub struct ConsolidateArgs {
    /// The store: a brain.db, one of another kind (Markdown, memory.jsonl, …), or a file of texts
    /// (JSON, CSV, text lines, Parquet; `-` reads text lines or JSON from stdin)
    #[arg(value_name = "STORE")]
    pub db: PathBuf,
    /// Write the file of texts here without what was merged; with --execute
    #[arg(long, short, value_name = "FILE", requires = "execute")]
    pub output: Option<PathBuf>,
    /// The fields of a file of texts.
    #[command(flatten)]
    pub fields: TextFieldArgs,
    /// Merge at or above this cosine similarity [default: 0.95]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = threshold)]
    pub threshold: Option<f64>,
    /// How to search for near pairs [default: auto]
    #[arg(long, value_enum, value_name = "M")]
    pub method: Option<MethodArg>,
    /// Only memories of this category (can be repeated)
    #[arg(long, value_name = "C")]
    pub category: Vec<String>,
    /// Only memories created at or after this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only memories created before this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Plan as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
    /// Run only the rules of this trigger, and those of on_* [default: all rules]
    #[arg(long, value_name = "T")]
    pub trigger: Option<String>,
    /// Write the plan here (JSON; replaces that of an earlier run)
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Write the report here (JSON), and its Markdown beside it; the folder is made
    #[arg(long, value_name = "FILE", conflicts_with = "report_dir")]
    pub report: Option<PathBuf>,
    /// Write <run_id>.json and <run_id>.md into this folder
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Search only what changed since the last run with --execute
    #[arg(long)]
    pub incremental: bool,
    /// Allow merges again that were undone
    #[arg(long)]
    pub again: bool,
    /// Let models decide about proposals, as judge.chain names them [default with --judge: ask]
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "ask")]
    pub judge: Option<JudgeArg>,
    /// Save the plan in the store, for review and apply
    #[arg(long)]
    pub save_plan: bool,
    /// Apply the plan
    #[arg(long)]
    pub execute: bool,
    /// Apply only the plan with this digest: the one that was reviewed
    #[arg(long, value_name = "DIGEST", requires = "execute")]
    pub expect: Option<String>,
    /// Without --expect, refuse to change a larger share of the live memories, 0 to 1 [default: 0.1]
    #[arg(long, value_name = "X", requires = "execute", allow_negative_numbers = true, value_parser = share)]
    pub max_change_share: Option<f64>,
    /// Apply N units at most; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(1, u64::MAX))]
    pub limit: Option<u64>,
    /// Execute although the fact guard or protection is off
    #[arg(long)]
    pub allow_unguarded: bool,
    /// Write nothing to the store; this is the default and wins over --execute and --save-plan
    #[arg(long)]
    pub dry_run: bool,
    /// Of a Markdown file: list the proposals that would bring it below N characters
    #[arg(long, value_name = "CHARS", value_parser = whole::<u64>(1, u64::MAX))]
    pub budget: Option<u64>,
    /// Exit with 3 if the plan holds changes that were not applied
    #[arg(long)]
    pub exit_code: bool,
    /// The table of a SQLite file.
    #[command(flatten)]
    pub table: TableArgs,
}

impl ConsolidateArgs {
    /// Returns the arguments of `memfold consolidate DB`.
    pub const fn of(db: PathBuf) -> Self {
        Self {
            db,
            output: None,
            fields: TextFieldArgs::NONE,
            threshold: None,
            method: None,
            category: Vec::new(),
            since: None,
            until: None,
            now: None,
            trigger: None,
            plan: None,
            report: None,
            report_dir: None,
            incremental: false,
            again: false,
            judge: None,
            save_plan: false,
            execute: false,
            expect: None,
            max_change_share: None,
            limit: None,
            allow_unguarded: false,
            metrics: None,
            dry_run: true,
            budget: None,
            exit_code: false,
            table: TableArgs::NONE,
        }
    }
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum MethodArg {
    /// Exact as far as that is fastest
    Auto,
    /// The exact join
    Exact,
    /// A graph index; how many pairs it found is measured
    Graph,
    /// The crate hnsw_rs, to compare with
    HnswRs,
}

impl MethodArg {
    /// Returns the configuration's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Graph => "graph",
            Self::HnswRs => "hnsw_rs",
        }
    }
}

/// Reads a similarity at which memories merge.
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1, such as 0.95".to_owned())
}

pub(super) fn flags(args: &ConsolidateArgs) -> Vec<FlagValue> {
    let mut flags = Vec::new();
    let mut flag = |flag, key, value: Option<Value>| {
        flags.extend(value.map(|value| FlagValue { flag, key, value }));
    };
    flag("--threshold", "threshold", args.threshold.map(Value::from));
    flag("--method", "detect.method", args.method.map(|method| method.name().into()));
    let categories = (!args.category.is_empty()).then(|| args.category.clone().into());
    flag("--category", "scope.categories", categories);
    flag("--since", "scope.since", args.since.clone().map(Value::from));
    flag("--until", "scope.until", args.until.clone().map(Value::from));
    flag("--trigger", "trigger", args.trigger.clone().map(Value::from));
    flags
}

/// What of the configuration was typed, so that applying the plan later needs no typing again.
pub(super) fn overrides(flags: &[FlagValue], set: &[String], is_again: bool) -> Map<String, Value> {
    let mut overrides: Map<String, Value> =
        flags.iter().map(|flag| (flag.key.to_owned(), flag.value.clone())).collect();
    if is_again {
        // It is another plan than the one that was undone, whose actions stay so.
        overrides.insert(AGAIN.to_owned(), true.into());
    }
    if !set.is_empty() {
        overrides.insert("set".to_owned(), set.into());
    }
    overrides
}

/// Where a run was told to write.
pub(super) fn files(args: &ConsolidateArgs) -> RunFiles<'_> {
    RunFiles {
        plan: args.plan.as_deref(),
        report: args.report.as_deref(),
        report_dir: args.report_dir.as_deref(),
        metrics: args.metrics.as_deref(),
    }
}

/// What was typed that changes a plan or how it is carried out, to be typed again.
pub(super) fn repeated(args: &ConsolidateArgs) -> Vec<String> {
    let mut words = Vec::new();
    let mut repeat = |flag: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    };
    repeat("--threshold", args.threshold.map(|threshold| threshold.to_string()));
    repeat("--method", args.method.map(|method| method.name().to_owned()));
    for category in &args.category {
        repeat("--category", Some(category.clone()));
    }
    repeat("--since", args.since.clone());
    repeat("--until", args.until.clone());
    repeat("--now", args.now.clone());
    repeat("--trigger", args.trigger.clone());
    repeat("--judge", args.judge.map(|_| "recorded".to_owned()));
    repeat("--limit", args.limit.map(|limit| limit.to_string()));
    repeat("--report-dir", args.report_dir.as_deref().map(writing::path_word));
    repeat("--metrics", args.metrics.as_deref().map(writing::path_word));
    words.extend(args.incremental.then(|| "--incremental".to_owned()));
    words.extend(args.again.then(|| "--again".to_owned()));
    words.extend(args.allow_unguarded.then(|| "--allow-unguarded".to_owned()));
    words
}

/// What is typed again to apply the rest of a plan that was executed in part; the plan holds what was set.
pub(super) fn to_go_on(global: &GlobalArgs, args: &ConsolidateArgs) -> Vec<String> {
    let mut words: Vec<String> =
        args.limit.iter().flat_map(|limit| ["--limit".to_owned(), limit.to_string()]).collect();
    words.extend(args.allow_unguarded.then(|| "--allow-unguarded".to_owned()));
    words.extend(writing::global_words(&GlobalArgs { set: Vec::new(), ..global.clone() }));
    words
}

/// The next thing to do: after a dry run, to execute exactly this plan.
pub(super) fn commands(global: &GlobalArgs, args: &ConsolidateArgs, report: &Report) -> Commands {
    let mut commands = Commands::of(&writing::path_word(&args.db), report);
    if report.mode == Mode::DryRun {
        commands.next.extend(repeated(args));
        commands.next.extend(writing::global_words(global));
    }
    commands
}
