//! The two commands: labelled pairs in; a table, JSON and verdicts out.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops::{Settings, judge_chain};
use memfold_cli::{GlobalArgs, check_outputs, write_output};
use memfold_core::judge::ask::Asking;
use memfold_core::judge::{Task, Usage};
use memfold_core::report::{Commands, grouped};
use memfold_datasets::atomic_file::NewFile;
use memfold_guard::text::excerpt;
use memfold_index::Progress;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, is_terminal, table};
use memfold_terminal::progress::Bars;

use super::judged::{JudgeBench, JudgeBenchReport, JudgedPairs};
use super::pairs::{LabelledPairs, PairError};
use super::run::{ContradictionFigures, CurvePoint, GuardBench, GuardBenchReport, LabelFigures};
use crate::args::{GuardArgs, JudgeArgs};
use crate::common::{is_stdin, open_input, source};
use crate::plot::{Axis, Caption, Line, lines};

/// A longer label leaves no room for counts of a million.
const LABEL_CHARS_MAX: usize = 13;

memfold_terminal::documents! { "bench-guard" => GuardBenchReport }

pub(crate) fn run(
    global: &GlobalArgs,
    args: &GuardArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let inputs = if is_stdin(&args.pairs) { vec![] } else { vec![args.pairs.clone()] };
    let outputs = [("--verdicts", &args.verdicts), ("--curve", &args.curve)];
    check_outputs(&outputs, &inputs, args.force)?;
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let (mut report, verdicts) = measure(global, args, &bars)?;
    (report.peak_rss_bytes, report.peak_anon_bytes) = watch.finish();
    if bars.cancelled() {
        return Err(Failure::interrupted());
    }
    if let Some(path) = &args.curve {
        write_output(path, &curve(&report)?)?;
        printer.note(&format!("wrote {}", path.display()));
    }
    if let (Some(file), Some(path)) = (verdicts, &args.verdicts) {
        let whole = file.into_inner().map_err(io::IntoInnerError::into_error);
        whole.and_then(NewFile::publish).map_err(|error| unwritten(path, &error))?;
        printer.note(&format!("wrote {}", path.display()));
    }
    printer.show(global.json, &report, || screen(args, &report))
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
    for pair in LabelledPairs::new(open_input(&args.pairs, INPUT)?) {
        bench.push(pair.map_err(|error| unread(&args.pairs, &error))?);
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
    printer.show(global.json, &report, || judge_screen(&args.pairs, &report))
}

fn judge_screen(pairs: &Path, report: &JudgeBenchReport) -> String {
    let mut text =
        format!("{} pairs from {}\n\n", grouped(report.pairs), excerpt(&source(pairs), 56));
    let row = |one: &JudgedPairs| {
        let mut cells = vec![
            excerpt(&one.label, LABEL_CHARS_MAX),
            grouped(one.counts.pairs),
            grouped(one.counts.far),
            grouped(one.counts.proven),
            grouped(one.counts.refused_by_guard),
            grouped(one.counts.merged_if_said),
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

/// Advice where the pairs cannot be opened.
const INPUT: &str = "name a file of JSON Lines, or - for stdin";

fn unread(pairs: &Path, error: &PairError) -> Failure {
    let hint = error.hint.map(str::to_owned);
    Failure::new(&format!("read the pairs of {}", source(pairs)), error, hint)
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::new(&format!("write {}", path.display()), error, None)
}

/// Judges all pairs; the verdicts are written and not yet published.
fn measure(
    global: &GlobalArgs,
    args: &GuardArgs,
    bars: &Bars,
) -> Result<(GuardBenchReport, Option<BufWriter<NewFile>>), Failure> {
    let guard = Settings::load(&global.sources, None, &[])?.guard()?;
    let input = open_input(&args.pairs, INPUT)?;
    let create = |path| NewFile::create(path).map_err(|error| unwritten(path, &error));
    let mut verdicts = args.verdicts.as_deref().map(create).transpose()?.map(BufWriter::new);
    let stopwatch = Stopwatch::start();
    let clock = || stopwatch.seconds();
    let mut bench = GuardBench::new(&guard, &clock);
    bars.begin("judge pairs", None);
    for pair in LabelledPairs::new(input) {
        let outcome = pair.and_then(|pair| bench.judge(&pair));
        let outcome = outcome.map_err(|error| unread(&args.pairs, &error))?;
        if let (Some(file), Some(path)) = (&mut verdicts, &args.verdicts) {
            let line = serde_json::to_string(&outcome).map_err(io::Error::from);
            let written = line.and_then(|line| writeln!(file, "{line}"));
            written.map_err(|error| unwritten(path, &error))?;
        }
        bars.advance(1);
        if bars.cancelled() {
            return Err(Failure::interrupted());
        }
    }
    bars.end();
    Ok((bench.report(), verdicts))
}

/// Draws precision, recall and F1 of contradiction over the threshold, and a mark at the one in use.
fn curve(report: &GuardBenchReport) -> Result<String, Failure> {
    let Some(figures) = &report.contradiction else {
        return Err(Failure::plain(
            "no pair is labelled contradiction: there is no curve to draw",
            "give pairs with that label",
        ));
    };
    let line = |name: &str, color, share: fn(&CurvePoint) -> Option<f64>| {
        let points = figures.curve.iter();
        let points = points.filter_map(|point| Some((point.threshold, share(point)?))).collect();
        Line { name: name.to_owned(), points, color, ..Line::default() }
    };
    let in_use = report.contradiction_threshold;
    let drawn = [
        line("precision", 0, |point| point.precision),
        line("recall", 1, |point| Some(point.recall)),
        line("F1", 2, |point| point.f1),
        Line {
            name: format!("in use: {in_use}"),
            points: vec![(in_use, 0.0), (in_use, 1.0)],
            color: 8,
            dashed: true,
            dots: false,
        },
    ];
    let details =
        format!("{} pairs, {} of them labelled contradiction", report.pairs, figures.labelled);
    let caption = Caption { title: "Contradictions found, by threshold", details: &details };
    let axis = |name| Axis::linear(name, 0.0, 1.0);
    Ok(lines(&caption, &axis("threshold of the score"), &axis("share"), &drawn))
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
    let lines = Commands { next, is_wrapped: is_terminal(), ..Commands::default() }.lines();
    std::iter::once(String::new()).chain(lines).collect()
}
