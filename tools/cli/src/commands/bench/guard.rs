//! `memfold bench guard`: labelled pairs in; verdicts by label, precision and recall out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use memfold_datasets::publish::NewFile;
use memfold_index::Progress;
use memfold_pipeline::guard_bench::{
    ContradictionFigures, CurvePoint, GuardBench, GuardBenchError, GuardBenchReport, LabelledPairs,
    PairOutcome,
};
use memfold_pipeline::report::grouped;
use memfold_pipeline::text::excerpt;
use memfold_plot::{Caption, OperatingPoint, operating_curve};

use super::screen;
use crate::args::{BenchGuardArgs, GlobalArgs};
use crate::commands::outputs;
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings::Settings;

documents! { "bench-guard" => GuardBenchReport }

pub(crate) fn run(
    global: &GlobalArgs,
    args: &BenchGuardArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let inputs = if args.reads_stdin() { vec![] } else { vec![args.pairs.clone()] };
    let files = [("--verdicts", &args.verdicts), ("--curve", &args.curve)];
    outputs::check(&files, &inputs, args.force)?;
    let (watch, bars) = (MemoryWatch::start(), Bars::new(printer));
    let (mut report, verdicts) = measure(global, args, &bars)?;
    (report.peak_rss_bytes, report.peak_anon_bytes) = watch.finish();
    let curve = args.curve.as_deref().map(|path| draw(path, args, &report)).transpose()?;
    if bars.cancelled() {
        return Err(Failure::interrupted());
    }
    let written: Vec<Written> = [verdicts, curve].into_iter().flatten().collect();
    for file in written {
        let path = file.publish()?;
        printer.note(&format!("wrote {}", path.display()));
    }
    if global.json {
        printer.document(&report)?;
    } else {
        printer.data(&screen::screen(args, &report))?;
    }
    Ok(Exit::Done)
}

/// Judges all pairs; the verdicts are written and not yet published.
fn measure(
    global: &GlobalArgs,
    args: &BenchGuardArgs,
    bars: &Bars,
) -> Result<(GuardBenchReport, Option<Written>), Failure> {
    let guard = Settings::load(global, None, &[])?.guard()?;
    let input = open(args)?;
    let mut verdicts = args.verdicts.as_deref().map(Written::create).transpose()?;
    let stopwatch = Stopwatch::start();
    let clock = || stopwatch.seconds();
    let mut bench = GuardBench::new(&guard, &clock);
    let unread = |error: GuardBenchError| {
        Failure::new(&format!("read the pairs of {}", args.source()), &error, error.hint())
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

fn open(args: &BenchGuardArgs) -> Result<Box<dyn BufRead>, Failure> {
    if args.reads_stdin() {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(&args.pairs).map_err(|error| {
        let hint = "name a file of JSON Lines, or - for stdin".to_owned();
        Failure::new(&format!("open {}", args.source()), &error, Some(hint))
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// Draws the operating curve; it is not yet published.
fn draw(path: &Path, args: &BenchGuardArgs, report: &GuardBenchReport) -> Result<Written, Failure> {
    let Some(ContradictionFigures { labelled, curve, .. }) = &report.contradiction else {
        return Err(Failure::plain(
            "no pair is labelled contradiction: there is no curve to draw",
            "leave out --curve, or give pairs with that label",
        ));
    };
    let details = format!(
        "{}: {} pairs, {} of them labelled contradiction",
        excerpt(&args.source(), 60),
        grouped(report.pairs),
        grouped(*labelled)
    );
    let caption = Caption { title: "Contradictions found, by threshold", details: &details };
    let points: Vec<OperatingPoint> = curve.iter().map(point).collect();
    let mut file = Written::create(path)?;
    let svg = operating_curve(&caption, &points, report.contradiction_threshold);
    file.push(svg.as_bytes())?;
    Ok(file)
}

const fn point(point: &CurvePoint) -> OperatingPoint {
    let CurvePoint { threshold, precision, recall, f1, .. } = *point;
    OperatingPoint { threshold, precision, recall, f1 }
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
