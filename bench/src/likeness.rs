//! `memfold-bench likeness`: compares generated vectors with the vectors they are modelled on.

use std::path::Path;

use memfold::ops::pool;
use memfold_bench::synthetic::{Likeness, QUANTILE_SHARES, SimilarityQuantiles};
use memfold_cli::GlobalArgs;
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
    printer.show(global.json, &document, || document.screen())
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
}
