//! What a person reads of `memfold bench guard`.

use memfold_pipeline::guard_bench::{
    ContradictionFigures, CurvePoint, GuardBenchReport, LabelFigures,
};
use memfold_pipeline::report::{Commands, grouped};
use memfold_pipeline::text::excerpt;

use crate::args::BenchGuardArgs;
use crate::printer::{self, table};

/// A longer label leaves no room for counts of a million.
const LABEL_CHARS_MAX: usize = 13;

/// Returns the screen, 80 columns wide.
pub(super) fn screen(args: &BenchGuardArgs, report: &GuardBenchReport) -> String {
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

fn measured(args: &BenchGuardArgs, report: &GuardBenchReport) -> String {
    let pairs = if report.pairs == 1 { "pair" } else { "pairs" };
    let mut line =
        format!("{} {pairs} from {}\n", grouped(report.pairs), excerpt(&args.source(), 56));
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
            grouped(one.verdicts.compatible),
            grouped(one.verdicts.complementary),
            grouped(one.verdicts.different),
            grouped(one.verdicts.contradictory),
            format!("{:.2} %", one.mergeable_share * 100.0),
        ]
    };
    let header = ["label", "pairs", "compatible", "complem.", "different", "contrad.", "mergeable"];
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
fn next(args: &BenchGuardArgs) -> Vec<String> {
    if args.verdicts.is_some() || args.reads_stdin() {
        return Vec::new();
    }
    let pairs = args.pairs.display().to_string();
    let words = ["memfold", "bench", "guard", "--pairs", &pairs, "--verdicts", "verdicts.jsonl"];
    let next = words.map(str::to_owned).to_vec();
    let lines = Commands { next, is_folded: printer::is_terminal(), ..Commands::default() }.lines();
    std::iter::once(String::new()).chain(lines).collect()
}
