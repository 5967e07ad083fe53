//! `memfold-bench plot`: draws plots that a script describes (for example
//! `bench/measure.py figures`, from the documents).

use std::io::Read as _;

use memfold_bench::likeness_plots;
use memfold_bench::plot::{
    Axis, Bar, Caption, Line, OperatingPoint, Scale, bars, lines, operating_curve,
};
use memfold_cli::write_output;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use serde::Deserialize;
use serde_json::Value;

use crate::args::PlotArgs;

/// One plot.
#[derive(Debug, Deserialize)]
struct Plot {
    /// The name of its file, without the ending.
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    details: String,
    #[serde(flatten)]
    drawing: Drawing,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Drawing {
    Lines {
        x: AxisOf,
        y: AxisOf,
        lines: Vec<LineOf>,
    },
    Bars {
        bars: Vec<BarOf>,
    },
    /// `contradiction.curve` of the output of `guard --json`, and its threshold.
    OperatingCurve {
        curve: Vec<Value>,
        in_use: f64,
    },
    /// The output of `likeness --json`: three plots, with names that end in `-spectrum`,
    /// `-neighbors` and `-groups`.
    Likeness {
        document: Value,
    },
}

/// An axis: in even steps over a range, or logarithmic around the points.
#[derive(Debug, Deserialize)]
struct AxisOf {
    name: String,
    range: Option<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
struct LineOf {
    name: String,
    points: Vec<(f64, f64)>,
}

#[derive(Debug, Deserialize)]
struct BarOf {
    label: String,
    value: f64,
    note: String,
    marked: bool,
}

pub(crate) fn run(args: &PlotArgs, printer: Printer) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for plot in read(args)? {
        files.extend(drawn(&plot));
    }
    for (name, svg) in &files {
        let path = args.output.join(format!("{name}.svg"));
        write_output(&path, svg)?;
        printer.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

fn read(args: &PlotArgs) -> Result<Vec<Plot>, Failure> {
    let name = args.plots.display();
    let mut text = String::new();
    let read = match args.plots.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(&args.plots).map(|read| text = read),
    };
    read.map_err(|error| Failure::new(&format!("read {name}"), &error, None))?;
    serde_json::from_str(&text).map_err(|error| {
        let hint = "bench/src/plots.rs says which fields a plot has".to_owned();
        Failure::new(&format!("read {name}"), &error, Some(hint))
    })
}

/// Returns the names and the texts of a plot's files.
fn drawn(plot: &Plot) -> Vec<(String, String)> {
    let caption = Caption { title: &plot.title, details: &plot.details };
    let svg = match &plot.drawing {
        Drawing::Lines { x, y, lines: of } => {
            let all: Vec<Line> =
                of.iter().enumerate().map(|(color, one)| line(one, color)).collect();
            let points = || all.iter().flat_map(|line| &line.points);
            let x = axis(x, points().map(|point| point.0));
            let y = axis(y, points().map(|point| point.1));
            lines(&caption, &x, &y, &all)
        }
        Drawing::Bars { bars: of } => bars(&caption, &of.iter().map(bar).collect::<Vec<_>>()),
        Drawing::OperatingCurve { curve, in_use } => {
            let points: Vec<_> = curve.iter().filter_map(OperatingPoint::from_json).collect();
            operating_curve(&caption, &points, *in_use)
        }
        Drawing::Likeness { document } => {
            let all = likeness_plots::draw(document).into_iter();
            return all.map(|(end, svg)| (format!("{}-{end}", plot.name), svg)).collect();
        }
    };
    vec![(plot.name.clone(), svg)]
}

fn axis(axis: &AxisOf, values: impl Iterator<Item = f64>) -> Axis<'_> {
    match axis.range {
        Some([from, to]) => Axis::linear(&axis.name, from, to),
        None => Axis::around(&axis.name, Scale::Log, values),
    }
}

fn line(line: &LineOf, color: usize) -> Line {
    let LineOf { name, points } = line;
    // Long lines are drawn without their points.
    let dots = points.len() <= 20;
    Line { name: name.clone(), points: points.clone(), color, dots, ..Line::default() }
}

fn bar(bar: &BarOf) -> Bar {
    let BarOf { label, value, note, marked } = bar;
    Bar { label: label.clone(), value: *value, note: note.clone(), marked: *marked }
}
