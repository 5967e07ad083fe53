//! The two commands: labelled pairs in; a table, JSON and verdicts out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops::{Settings, judge_chain};
use memfold_cli::{GlobalArgs, check_outputs};
use memfold_core::judge::ask::Asking;
use memfold_core::judge::{Task, Usage};
use memfold_core::report::{Commands, grouped};
use memfold_datasets::atomic_file::NewFile;
use memfold_guard::text::excerpt;
use memfold_index::Progress;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, is_terminal, table};
use memfold_terminal::progress::Bars;

use super::{
    ContradictionFigures, CurvePoint, GuardBench, GuardBenchError, GuardBenchReport, JudgeBench,
    JudgeBenchReport, JudgedPairs, LabelFigures, LabelledPairs, PairOutcome,
};

/// A longer label leaves no room for counts of a million.
const LABEL_CHARS_MAX: usize = 13;

memfold_terminal::documents! { "bench-guard" => GuardBenchReport }

/// `memfold-bench judge`
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The pairs, {"a": "older", "b": "newer", "label": "duplicate"} on each line; a label is
    /// any word, or a similarity from 0 to 5; - reads stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) pairs: PathBuf,
}

/// `memfold-bench guard`
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
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

pub(crate) fn run(
    global: &GlobalArgs,
    args: &GuardArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let inputs = if is_stdin(&args.pairs) { vec![] } else { vec![args.pairs.clone()] };
    check_outputs(&[("--verdicts", &args.verdicts)], &inputs, args.force)?;
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let (mut report, verdicts) = measure(global, args, &bars)?;
    (report.peak_rss_bytes, report.peak_anon_bytes) = watch.finish();
    if bars.cancelled() {
        return Err(Failure::interrupted());
    }
    if let Some(file) = verdicts {
        let path = file.publish()?;
        printer.note(&format!("wrote {}", path.display()));
    }
    if global.json {
        printer.document(&report)?;
    } else {
        printer.data(&screen(args, &report))?;
    }
    Ok(Exit::Done)
}

/// Counts the pairs a judge could merge and, where models are configured, queries them.
pub(crate) fn run_judge(
    global: &GlobalArgs,
    args: &JudgeArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources, None, &[])?;
    let (guard, judge) = (settings.guard()?, &settings.configuration.settings.judge);
    let bars = Bars::new(printer);
    let similarity_min = settings.configuration.policy.propose.min_similarity.get();
    let mut bench = JudgeBench::new(&guard, judge, similarity_min);
    for pair in LabelledPairs::new(open(&args.pairs)?) {
        bench.push(pair.map_err(|error| {
            Failure::new(
                &format!("read the pairs of {}", source(&args.pairs)),
                &error,
                error.hint(),
            )
        })?);
        if bars.cancelled() {
            return Err(Failure::interrupted());
        }
    }
    let report = if judge.chain.is_empty() {
        bench.report(None)
    } else {
        let mut chain = judge_chain(judge, 0.0)?;
        let progress = |done: usize, total: usize, usage: &Usage| {
            let (requests, tokens) = (grouped(usage.requests), grouped(usage.tokens()));
            printer.detail(&format!(
                "judged {done} of {total} pairs: {requests} requests, {tokens} tokens"
            ));
        };
        let asking = Asking {
            batch_size: judge.batch_size,
            votes: judge.votes,
            task: Task::Duplicates { rewrite: false },
            recorded_only: false,
            cancelled: &|| bars.cancelled(),
            progress: &progress,
        };
        bench.report(Some((&mut chain, &asking)))
    };
    if global.json {
        printer.document(&report)?;
    } else {
        printer.data(&judge_screen(&args.pairs, &report))?;
    }
    Ok(Exit::Done)
}

fn judge_screen(pairs: &Path, report: &JudgeBenchReport) -> String {
    let mut text =
        format!("{} pairs from {}\n\n", grouped(report.pairs), excerpt(&source(pairs), 56));
    let row = |one: &JudgedPairs| {
        let mut cells = vec![
            excerpt(&one.label, LABEL_CHARS_MAX),
            grouped(one.pairs),
            grouped(one.far),
            grouped(one.proven),
            grouped(one.refused_by_guard),
            grouped(one.merged_if_said),
            format!("{:.2} %", one.merged_if_said_share * 100.0),
        ];
        if let Some(models) = &one.models {
            cells.extend([models.merged, models.kept_separate, models.left].map(grouped));
        }
        cells
    };
    let mut header = vec!["label", "pairs", "far", "proven", "refused", "if said", "share"];
    if report.usage.is_some() {
        header.extend(["merged", "separate", "left"]);
    }
    text.push_str(&table(&header, report.labels.iter().map(row).collect()));
    text.push_str(
        "\nfar: further pairs too far apart to be proposed; refused: by the guard, nobody is asked; if said: merged if a judge says MERGE\n",
    );
    if let Some(usage) = &report.usage {
        let (requests, tokens) = (grouped(usage.requests), grouped(usage.tokens()));
        text.push_str(&format!("{requests} requests, {tokens} tokens, cost {:.4}\n", usage.cost));
    }
    for (failure, count) in &report.failures {
        text.push_str(&format!("not judged: {count}: {}\n", excerpt(failure, 60)));
    }
    text
}

/// Judges all pairs; the verdicts are written and not yet published.
fn measure(
    global: &GlobalArgs,
    args: &GuardArgs,
    bars: &Bars,
) -> Result<(GuardBenchReport, Option<Written>), Failure> {
    let guard = Settings::load(&global.sources, None, &[])?.guard()?;
    let input = open(&args.pairs)?;
    let mut verdicts = args.verdicts.as_deref().map(Written::create).transpose()?;
    let stopwatch = Stopwatch::start();
    let clock = || stopwatch.seconds();
    let mut bench = GuardBench::new(&guard, &clock);
    let unread = |error: GuardBenchError| {
        Failure::new(&format!("read the pairs of {}", source(&args.pairs)), &error, error.hint())
    };
    bars.begin("judge pairs", None);
    for pair in LabelledPairs::new(input) {
        let outcome = bench.judge(&pair.map_err(unread)?).map_err(unread)?;
        if let Some(file) = &mut verdicts {
            file.push_line(&outcome)?;
        }
        bars.advance(1);
        if bars.cancelled() {
            return Err(Failure::interrupted());
        }
    }
    bars.end();
    Ok((bench.report(), verdicts))
}

/// Tells whether the pairs come from stdin.
fn is_stdin(pairs: &Path) -> bool {
    pairs.as_os_str() == "-"
}

/// Returns the name of the pairs' source.
fn source(pairs: &Path) -> String {
    if is_stdin(pairs) { "stdin".to_owned() } else { pairs.display().to_string() }
}

fn open(pairs: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if is_stdin(pairs) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(pairs).map_err(|error| {
        let hint = "name a file of JSON Lines, or - for stdin".to_owned();
        Failure::new(&format!("open {}", source(pairs)), &error, Some(hint))
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// A file that appears at its place when it is whole.
struct Written {
    path: PathBuf,
    file: BufWriter<NewFile>,
}

impl Written {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = NewFile::create(path).map_err(|error| unwritten(path, &error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| unwritten(&self.path, &error))
    }

    fn push_line(&mut self, outcome: &PairOutcome) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.file, outcome)
            .map_err(|error| unwritten(&self.path, &error.into()))?;
        self.push(b"\n")
    }

    fn publish(self) -> Result<PathBuf, Failure> {
        let whole = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        match whole.and_then(NewFile::publish) {
            Ok(_) => Ok(self.path),
            Err(error) => Err(unwritten(&self.path, &error)),
        }
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::new(&format!("write {}", path.display()), error, None)
}

/// Returns the text for the screen, 80 columns wide.
fn screen(args: &GuardArgs, report: &GuardBenchReport) -> String {
    let mut text = measured(args, report);
    if report.pairs == 0 {
        return text;
    }
    text.push_str(&labels(&report.labels));
    if let Some(figures) = &report.contradiction {
        text.push('\n');
        text.push_str(&contradiction(figures));
    }
    for line in next(args) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn measured(args: &GuardArgs, report: &GuardBenchReport) -> String {
    let pairs = if report.pairs == 1 { "pair" } else { "pairs" };
    let mut line =
        format!("{} {pairs} from {}\n", grouped(report.pairs), excerpt(&source(&args.pairs), 56));
    if let Some(time) = report.microseconds_per_pair {
        let (median, mean) = (time.median, time.mean);
        line.push_str(&format!("{median:.1} µs per pair (median), {mean:.1} µs (mean)\n\n"));
    }
    line
}

fn labels(labels: &[LabelFigures]) -> String {
    let row = |one: &LabelFigures| {
        vec![
            excerpt(&one.label, LABEL_CHARS_MAX),
            grouped(one.pairs),
            grouped(one.verdicts.same),
            grouped(one.verdicts.extends),
            grouped(one.verdicts.undecided),
            grouped(one.verdicts.different),
            grouped(one.verdicts.conflict),
            format!("{:.2} %", one.mergeable_share * 100.0),
        ]
    };
    let header =
        ["label", "pairs", "same", "extends", "undecided", "different", "contrad.", "mergeable"];
    table(&header, labels.iter().map(row).collect())
}

fn contradiction(figures: &ContradictionFigures) -> String {
    let row = |name: &str, point: &CurvePoint| {
        let share =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
        vec![
            name.to_owned(),
            format!("{:.2}", point.threshold),
            share(point.precision),
            share(Some(point.recall)),
            share(point.f1),
            grouped(point.found),
            grouped(point.right),
        ]
    };
    let mut rows = vec![row("in use", &figures.in_use)];
    rows.extend(figures.best.as_ref().map(|best| row("best", best)));
    let header = ["contradiction", "threshold", "precision", "recall", "F1", "found", "right"];
    table(&header, rows)
}

/// Names the command that shows every verdict, where it was not given.
fn next(args: &GuardArgs) -> Vec<String> {
    if args.verdicts.is_some() || is_stdin(&args.pairs) {
        return Vec::new();
    }
    let pairs = args.pairs.display().to_string();
    let words = ["memfold-bench", "guard", "--pairs", &pairs, "--verdicts", "verdicts.jsonl"];
    let next = words.map(str::to_owned).to_vec();
    let lines = Commands { next, is_folded: is_terminal(), ..Commands::default() }.lines();
    std::iter::once(String::new()).chain(lines).collect()
}
