//! `memfold-bench plot`: draws plots that a script describes (for example
//! `bench/measure.py figures`, from the documents).

use memfold_cli::write_output;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use serde::Deserialize;

use crate::args::PlotArgs;
use crate::common::{open_input, source};
use crate::plot::{Axis, Bar, Caption, Line, Scale, bars, lines};

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
    Lines { x: AxisOf, y: AxisOf, lines: Vec<Line> },
    Bars { bars: Vec<Bar> },
}

/// An axis: in even steps over a range, or logarithmic around the points.
#[derive(Debug, Deserialize)]
struct AxisOf {
    name: String,
    range: Option<[f64; 2]>,
}

pub(crate) fn run(args: &PlotArgs, printer: Printer) -> Result<Exit, Failure> {
    let input = open_input(&args.plots, "name a file of plots, or - for stdin")?;
    let plots: Vec<Plot> = serde_json::from_reader(input).map_err(|error| {
        let hint = "bench/src/plots.rs says which fields a plot has".to_owned();
        Failure::new(&format!("read {}", source(&args.plots)), &error, Some(hint))
    })?;
    for plot in plots {
        let path = args.output.join(format!("{}.svg", plot.name));
        write_output(&path, &drawn(plot))?;
        printer.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

fn drawn(plot: Plot) -> String {
    let caption = Caption { title: &plot.title, details: &plot.details };
    match plot.drawing {
        Drawing::Lines { x, y, lines: mut all } => {
            for (color, line) in all.iter_mut().enumerate() {
                // Long lines are drawn without their points.
                (line.color, line.dots) = (color, line.points.len() <= 20);
            }
            let points = || all.iter().flat_map(|line| &line.points);
            let x = x.around(points().map(|point| point.0));
            let y = y.around(points().map(|point| point.1));
            lines(&caption, &x, &y, &all)
        }
        Drawing::Bars { bars: all } => bars(&caption, &all),
    }
}

impl AxisOf {
    fn around(&self, values: impl Iterator<Item = f64>) -> Axis<'_> {
        match self.range {
            Some([from, to]) => Axis::linear(&self.name, from, to),
            None => Axis::around(&self.name, Scale::Log, values),
        }
    }
}
