//! `memfold-bench likeness`: compares generated vectors with the vectors they are modelled on.

use std::path::{Path, PathBuf};

use memfold::ops::pool;
use memfold_bench::synthetic::{Likeness, QUANTILE_SHARES, SimilarityQuantiles};
use memfold_cli::{GlobalArgs, check_outputs, write_output};
use memfold_core::report::grouped;
use memfold_datasets::{Corpus, CorpusOptions};
use memfold_index::{JoinOptions, Progress as _};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, table};
use memfold_terminal::progress::Bars;
use serde::Serialize;

use crate::args::LikenessArgs;
use crate::plot::{Axis, Caption, Line, Scale, lines};

/// Numbers of leading directions for which the share of the variance is shown.
const DIRECTIONS: [usize; 4] = [1, 4, 16, 64];

/// `memfold-bench likeness --json`
#[derive(Debug, Serialize)]
struct BenchLikenessDocument {
    schema_version: u32,
    /// Shares of rows, or pairs, with a similarity at or below a quantile.
    quantile_shares: [f64; QUANTILE_SHARES.len()],
    /// Of the file that others should be like.
    real: Likeness,
    /// Of the generated file.
    synthetic: Likeness,
    /// The largest difference of a quantile of similarity, from 0.05 to 0.95.
    largest_differences: Vec<Difference>,
}

/// How far apart real and generated similarities are.
#[derive(Debug, Serialize)]
struct Difference {
    /// `neighbor 1`, …, or `strangers`.
    of: String,
    similarity: f64,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &LikenessArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let inputs = [args.real.clone(), args.generated.clone()];
    let plots = args.plots.as_deref().map_or_else(Vec::new, plot_files);
    for path in &plots {
        check_outputs(&[("--plots", &Some(path.clone()))], &inputs, args.force)?;
    }
    let bars = Bars::new(printer);
    let real = measure(global, &args.real, &bars)?;
    let synthetic = measure(global, &args.generated, &bars)?;
    if real.dim != synthetic.dim {
        return Err(Failure::usage(
            format!("{} and {} dimensions cannot be compared", real.dim, synthetic.dim),
            "generate the second file with --like and the first one",
        ));
    }
    let document = BenchLikenessDocument::new(real, synthetic);
    for (path, svg) in plots.iter().zip(document.plots()) {
        write_output(path, &svg)?;
        printer.note(&format!("wrote {}", path.display()));
    }
    printer.show(global.json, &document, || document.screen())
}

fn plot_files(prefix: &Path) -> Vec<PathBuf> {
    let file = |what: &str| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("-{what}.svg"));
        name.into()
    };
    ["spectrum", "neighbors", "groups"].map(file).into()
}

fn measure(global: &GlobalArgs, path: &Path, bars: &Bars) -> Result<Likeness, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static), hint| {
        Failure::new(&format!("measure {}", path.display()), error, hint)
    };
    let corpus = Corpus::open(&[path.into()], &CorpusOptions::new(&std::env::temp_dir()))
        .map_err(|error| failed(&error, error.hint()))?;
    let matrix = corpus.matrix();
    let pool = pool(global.threads)?;
    let options = JoinOptions { progress: bars, ..JoinOptions::new(&pool) };
    Likeness::measure(&matrix, &options).map_err(|error| {
        if bars.cancelled() {
            return Failure::interrupted();
        }
        failed(&error, error.hint())
    })
}

/// Returns names and distributions of similarity, real and synthetic.
fn similarities<'a>(
    real: &'a Likeness,
    synthetic: &'a Likeness,
) -> impl Iterator<Item = (String, &'a SimilarityQuantiles, &'a SimilarityQuantiles)> {
    let neighbors = real.neighbors.iter().zip(&synthetic.neighbors);
    neighbors
        .map(|(real, synthetic)| {
            (format!("neighbor {}", real.rank), &real.quantiles, &synthetic.quantiles)
        })
        .chain([("strangers".to_owned(), &real.strangers, &synthetic.strangers)])
}

impl BenchLikenessDocument {
    fn new(real: Likeness, synthetic: Likeness) -> Self {
        let difference = |(of, real, synthetic): (String, &SimilarityQuantiles, _)| Difference {
            of,
            similarity: real.largest_difference(synthetic),
        };
        let largest_differences = similarities(&real, &synthetic).map(difference).collect();
        let quantile_shares = QUANTILE_SHARES;
        Self { schema_version: 1, quantile_shares, real, synthetic, largest_differences }
    }

    fn screen(&self) -> String {
        let Self { real, synthetic, .. } = self;
        let both = |name: String, real: f64, synthetic: f64| {
            vec![
                name,
                format!("{real:.3}"),
                format!("{synthetic:.3}"),
                format!("{:+.3}", synthetic - real),
            ]
        };
        let mut rows = vec![both("length of the mean".into(), real.mean_norm, synthetic.mean_norm)];
        rows.extend(DIRECTIONS.map(|count| {
            let name = format!("variance, {count} directions");
            both(name, real.explained(count), synthetic.explained(count))
        }));
        for (name, real, synthetic) in similarities(real, synthetic) {
            rows.push(both(format!("{name}, median"), real.median(), synthetic.median()));
            let off = format!("{:.3}", real.largest_difference(synthetic));
            rows.push(vec![
                format!("{name}, farthest quantiles"),
                String::new(),
                String::new(),
                off,
            ]);
        }
        for (real, synthetic) in real.duplicates.iter().zip(&synthetic.duplicates) {
            let name = format!("in groups at {}", real.threshold);
            rows.push(both(name, real.share, synthetic.share));
        }
        let mut text = table(&["", "real", "synthetic", "difference"], rows);
        text.push_str(&format!(
            "\n{} real rows, {} synthetic ones of {} dimensions\n",
            grouped(real.rows as u64),
            grouped(synthetic.rows as u64),
            real.dim
        ));
        text
    }

    /// Draws covariance, neighbors and groups.
    fn plots(&self) -> [String; 3] {
        let details = format!(
            "{} real rows and {} synthetic ones of {} dimensions",
            grouped(self.real.rows as u64),
            grouped(self.synthetic.rows as u64),
            self.real.dim
        );
        let caption = |title| Caption { title, details: &details };
        [
            self.spectrum(&caption("Covariance, kept by generate --like")),
            self.neighbors(&caption("Nearness, kept by generate --like")),
            self.groups(&caption("Groups of duplicates, kept by generate --like")),
        ]
    }

    /// Both files; synthetic lines are dashed.
    fn both(&self) -> [(&'static str, &Likeness, bool); 2] {
        [("real", &self.real, false), ("synthetic", &self.synthetic, true)]
    }

    /// The share of the variance along the leading directions.
    fn spectrum(&self, caption: &Caption<'_>) -> String {
        let drawn = self.both().into_iter().enumerate().map(|(color, (kind, likeness, dashed))| {
            let mut points = vec![(0.0, 0.0)];
            for share in &likeness.spectrum {
                let (direction, explained) = points[points.len() - 1];
                points.push((direction + 1.0, explained + share));
            }
            Line { name: kind.to_owned(), points, color, dashed, dots: false }
        });
        let drawn: Vec<Line> = drawn.collect();
        let last = drawn.iter().map(|line| line.points.len() - 1).max().unwrap_or(1);
        let x = Axis::linear("leading directions", 0.0, last as f64);
        lines(caption, &x, &Axis::linear("share of the variance along them", 0.0, 1.0), &drawn)
    }

    /// Quantiles of the similarity to neighbors of some ranks, and of random rows.
    fn neighbors(&self, caption: &Caption<'_>) -> String {
        let mut drawn = Vec::new();
        for (color, (of, real, synthetic)) in similarities(&self.real, &self.synthetic).enumerate()
        {
            for (kind, found, dashed) in [("real", real, false), ("synthetic", synthetic, true)] {
                let points = QUANTILE_SHARES.into_iter().zip(found.0.iter().copied()).collect();
                let name = format!("{of}, {kind}");
                drawn.push(Line { name, points, color, dashed, dots: false });
            }
        }
        let lowest = drawn.iter().flat_map(|line| &line.points).map(|point| point.1);
        let lowest = (lowest.fold(0.0, f64::min) * 10.0).floor() / 10.0;
        let x = Axis::linear("share of rows (of pairs) that are at most so near", 0.0, 1.0);
        lines(caption, &x, &Axis::linear("similarity", lowest, 1.0), &drawn)
    }

    /// How many groups of near rows are at least so large.
    fn groups(&self, caption: &Caption<'_>) -> String {
        let mut drawn = Vec::new();
        for color in 0..self.real.duplicates.len() {
            for (kind, likeness, dashed) in self.both() {
                let counts = &likeness.duplicates[color];
                let sizes = &counts.group_sizes;
                let mut left: usize = sizes.iter().map(|size| size.groups).sum();
                let points = sizes.iter().map(|size| {
                    let point = (f64::from(size.rows), left as f64);
                    left -= size.groups;
                    point
                });
                let (name, points) = (format!("{}, {kind}", counts.threshold), points.collect());
                drawn.push(Line { name, points, color, dashed, dots: true });
            }
        }
        let points = || drawn.iter().flat_map(|line: &Line| &line.points);
        let x = Axis::around("rows of a group at least", Scale::Log, points().map(|point| point.0));
        let y = Axis::around("groups", Scale::Log, points().map(|point| point.1));
        lines(caption, &x, &y, &drawn)
    }
}
