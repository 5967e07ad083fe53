//! `memfold dedup --tiles-for`: the cost of a join by tiles of many rows, estimated from a sample
//! of a file.

use std::num::NonZeroUsize;
use std::path::Path;

use memfold::dedup::{JoinForecast, SampledJoin};
use memfold::ops;
use memfold_core::report::grouped;
use memfold_datasets::corpus::Corpus;
use memfold_index::{
    JoinOptions, Pool, Row, TILE_ROWS_MAX, TilePlan, TileRequest, VectorMatrix, join_pairs,
};
use memfold_simd::{Kernels, Similarity};
use serde::Serialize;

use super::join::{Stages, unjoined, untiled};
use super::results::byte_size;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::progress::Bars;

/// Rows of a sample: enough pairs to time, in seconds.
const SAMPLED_ROWS: usize = 65_536;

/// Rows of a tile of the sample, at least: fewer would not be representative.
const SAMPLED_TILE_ROWS_MIN: usize = 128;

/// Reads a number of rows, also as 100e6.
pub(super) fn rows(text: &str) -> Result<u64, String> {
    let number = text.trim().replace('_', "").parse::<f64>().ok();
    // Below 2⁵³, so every whole number is exact.
    let number = number.filter(|n| n.fract() == 0.0 && (1.0..f64::from(u32::MAX)).contains(n));
    number
        .map(|number| number as u64)
        .ok_or_else(|| "expected a whole number from 1 to 4294967294, such as 100e6".to_owned())
}

/// `memfold dedup --tiles-for N --json`
#[derive(Debug, Serialize)]
pub(super) struct ForecastDocument {
    schema_version: u32,
    /// Rows to join.
    rows: u64,
    /// Components of each vector.
    dim: u64,
    /// The threshold.
    threshold: f64,
    /// Rows of the sample.
    sampled_rows: u64,
    #[serde(flatten)]
    forecast: JoinForecast,
    /// The instruction set that the sample was compared with.
    isa: &'static str,
}

/// Estimates the join of `rows` rows that resemble a corpus's, and prints it.
pub(super) fn run(
    call: Call<'_>,
    corpus: &Corpus,
    rows: u64,
    threshold: Similarity,
) -> Result<Exit, Failure> {
    let bars = Bars::new(call.printer);
    let pool = ops::pool(call.global.threads)?;
    let matrix = corpus.matrix();
    if matrix.len() < 2 {
        return Err(Failure::plain(
            format!("the input has {} rows with a vector", matrix.len()),
            "name files of at least two rows; thousands say more",
        ));
    }
    // Rows at equal distances: neither the beginning nor one topic of a sorted file.
    let count = matrix.len().min(SAMPLED_ROWS).min(rows as usize);
    let picked = (0..count).map(|at| Row((at * matrix.len() / count) as u32));
    let vectors = picked.map(|row| matrix.vector(row)).collect();
    let sample = VectorMatrix::from_chunks(vectors, matrix.dim()).expect("chunks of one row each");
    let wanted = Wanted { rows, threshold, scratch_dir: &ops::scratch_dir() };
    let forecast = forecast(&wanted, &sample, &pool, &bars)?;
    let document = ForecastDocument {
        schema_version: 1,
        rows,
        dim: matrix.dim() as u64,
        threshold: threshold.get(),
        sampled_rows: sample.len() as u64,
        forecast,
        isa: Kernels::active().level().name(),
    };
    call.show(&document, || screen(&document))
}

/// The join to estimate.
struct Wanted<'a> {
    rows: u64,
    threshold: Similarity,
    scratch_dir: &'a Path,
}

/// Joins the sample in one piece for its time, and cuts it into tiles for their savings.
fn forecast(
    wanted: &Wanted<'_>,
    sample: &VectorMatrix<'_>,
    pool: &Pool,
    bars: &Bars,
) -> Result<JoinForecast, Failure> {
    let Wanted { rows, threshold, scratch_dir } = *wanted;
    let stages = Stages::start(bars);
    let options = JoinOptions {
        scratch_dir: Some(scratch_dir),
        progress: &stages,
        // A sample is small enough for all its pairs to be counted.
        pair_budget: Some(u64::MAX),
        ..JoinOptions::new(pool)
    };
    let pairs = join_pairs(sample, threshold, &options).map_err(|error| unjoined(&error))?;
    let [_, seconds, _] = stages.split();
    let folder = tempfile::tempdir_in(scratch_dir)
        .map_err(|error| Failure::new("make a folder for tiles", &error, None))?;
    // As many tiles as the rows to join would have, as far as there are rows for them.
    let tile_rows_max = TILE_ROWS_MAX as u64 * sample.len() as u64 / rows.max(1);
    let tile_rows_max = (tile_rows_max as usize).clamp(SAMPLED_TILE_ROWS_MIN, TILE_ROWS_MAX);
    let request = TileRequest { matrix: sample, threshold, dir: folder.path(), tile_rows_max };
    let failed = |error| untiled("cut the sample into tiles", &error);
    let plan = TilePlan::make(&request, &options).map_err(failed)?;
    let tiles = plan.summary().map_err(failed)?;
    let threads = NonZeroUsize::new(pool.threads()).map_or(1, NonZeroUsize::get);
    let sampled = SampledJoin {
        rows: pairs.distinct_rows(),
        tiles: &tiles,
        tile_rows_max: tile_rows_max as u64,
        counters: pairs.counters(),
        core_seconds: seconds * threads as f64,
    };
    Ok(JoinForecast::of(&sampled, rows, sample.dim() as u64))
}

fn screen(document: &ForecastDocument) -> String {
    let forecast = &document.forecast;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let lines = [
        format!(
            "{} rows of {} dimensions at or above {}, by a sample of {} rows ({})",
            grouped(document.rows),
            document.dim,
            document.threshold,
            grouped(document.sampled_rows),
            document.isa
        ),
        format!("tiles        {} ({})", grouped(forecast.tiles), byte_size(forecast.tile_bytes)),
        format!("disk         {} while tiles are written", byte_size(forecast.disk_bytes)),
        format!(
            "tasks        {} of {} pairs of tiles",
            grouped(forecast.tasks),
            grouped(forecast.tasks_total)
        ),
        format!("tasks read   {} if each fetches both tiles", byte_size(forecast.task_bytes)),
        format!(
            "pairs        {}: {} in tasks, {} tested",
            grouped(forecast.pairs_total),
            percent(forecast.share_in_tasks),
            percent(forecast.share_tested)
        ),
        format!(
            "core hours   {:.2} to compare, {:.2} without bounds",
            forecast.core_hours, forecast.core_hours_without_bounds
        ),
    ];
    lines.map(|line| line + "\n").concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_numbers_in_any_notation() {
        for (text, expected) in [("100e6", 100_000_000), ("7", 7), ("4_000_000", 4_000_000)] {
            assert_eq!(rows(text), Ok(expected));
        }
        for text in ["0", "-3", "1.5", "5e9", "many", "nan", "inf", ""] {
            assert!(rows(text).is_err(), "{text}");
        }
    }
}
