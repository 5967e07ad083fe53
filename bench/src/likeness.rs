//! `memfold-bench likeness`: compares generated vectors with the vectors they are modelled on.

use std::path::{Path, PathBuf};

use memfold::ops::pool;
use memfold_bench::likeness_plots;
use memfold_bench::synthetic::{Likeness, NEIGHBOR_RANKS, QUANTILE_SHARES, SimilarityQuantiles};
use memfold_cli::{GlobalArgs, check_outputs, write_output};
use memfold_core::report::grouped;
use memfold_datasets::{Corpus, CorpusOptions};
use memfold_index::{JoinOptions, Progress as _};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, table};
use memfold_terminal::progress::Bars;
use serde::Serialize;

use crate::args::LikenessArgs;

/// Numbers of leading directions for which the share of the variance is shown.
const DIRECTIONS: [usize; 4] = [1, 4, 16, 64];

/// `memfold-bench likeness --json`
#[derive(Debug, Serialize)]
struct BenchLikenessDocument {
    schema_version: u32,
    /// Shares of rows, or pairs, with a similarity at or below a quantile.
    quantile_shares: Vec<f64>,
    /// Of the file that others should be like.
    real: Figures,
    /// Of the generated file.
    synthetic: Figures,
    /// The largest difference of a quantile of similarity, from 0.05 to 0.95.
    largest_differences: Vec<Difference>,
}

/// The statistics of a file's vectors.
#[derive(Debug, Serialize)]
struct Figures {
    rows: usize,
    dim: usize,
    /// Length of the mean of all directions, 0 to 1.
    mean_norm: f64,
    /// Shares of the variance along the leading directions, descending.
    spectrum: Vec<f64>,
    neighbors: Vec<Neighbors>,
    /// Quantiles of the similarity of random rows.
    strangers: Vec<f64>,
    duplicates: Vec<Duplicates>,
}

/// How near rows are to the neighbour of a rank.
#[derive(Debug, Serialize)]
struct Neighbors {
    /// 1 for the nearest.
    rank: usize,
    /// Of the similarity.
    quantiles: Vec<f64>,
}

/// Groups of rows around the first one that is near.
#[derive(Debug, Serialize)]
struct Duplicates {
    /// How near a copy is at least.
    threshold: f64,
    /// Rows in groups of two or more.
    share: f64,
    /// How many groups there are of each size, ascending.
    group_sizes: Vec<GroupSize>,
}

/// Groups of equal size.
#[derive(Debug, Serialize)]
struct GroupSize {
    /// Of each, two or more.
    rows: u32,
    groups: usize,
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
    let document = BenchLikenessDocument::of(&real, &synthetic);
    if !plots.is_empty() {
        let value = serde_json::to_value(&document)
            .map_err(|error| Failure::new("draw the plots", &error, None))?;
        for (path, (_, svg)) in plots.iter().zip(likeness_plots::draw(&value)) {
            write_output(path, &svg)?;
            printer.note(&format!("wrote {}", path.display()));
        }
    }
    if global.json {
        printer.document(&document)?;
    } else {
        printer.data(&screen(&real, &synthetic))?;
    }
    Ok(Exit::Done)
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

impl BenchLikenessDocument {
    fn of(real: &Likeness, synthetic: &Likeness) -> Self {
        let difference = |(of, real, synthetic): (String, &SimilarityQuantiles, _)| Difference {
            of,
            similarity: real.largest_difference(synthetic),
        };
        Self {
            schema_version: 1,
            quantile_shares: QUANTILE_SHARES.to_vec(),
            real: Figures::of(real),
            synthetic: Figures::of(synthetic),
            largest_differences: similarities(real, synthetic).map(difference).collect(),
        }
    }
}

impl Figures {
    fn of(likeness: &Likeness) -> Self {
        let neighbors = NEIGHBOR_RANKS.iter().zip(&likeness.neighbors);
        let duplicates = likeness.duplicates.iter().map(|counts| Duplicates {
            threshold: counts.threshold,
            share: counts.share,
            group_sizes: counts
                .group_sizes
                .iter()
                .map(|(&rows, &groups)| GroupSize { rows, groups })
                .collect(),
        });
        Self {
            rows: likeness.rows,
            dim: likeness.dim,
            mean_norm: likeness.mean_norm,
            spectrum: likeness.spectrum.clone(),
            neighbors: neighbors
                .map(|(&rank, of)| Neighbors { rank, quantiles: of.quantiles.clone() })
                .collect(),
            strangers: likeness.strangers.quantiles.clone(),
            duplicates: duplicates.collect(),
        }
    }
}

/// Returns names and distributions of similarity, real and synthetic.
fn similarities<'a>(
    real: &'a Likeness,
    synthetic: &'a Likeness,
) -> impl Iterator<Item = (String, &'a SimilarityQuantiles, &'a SimilarityQuantiles)> {
    let neighbors = NEIGHBOR_RANKS.iter().zip(real.neighbors.iter().zip(&synthetic.neighbors));
    neighbors
        .map(|(rank, (real, synthetic))| (format!("neighbor {rank}"), real, synthetic))
        .chain([("strangers".to_owned(), &real.strangers, &synthetic.strangers)])
}

fn screen(real: &Likeness, synthetic: &Likeness) -> String {
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
        rows.push(vec![format!("{name}, farthest quantiles"), String::new(), String::new(), off]);
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
