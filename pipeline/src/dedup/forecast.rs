//! [`JoinForecast`]: the cost of a join by tiles, estimated from a join of a sample.

use memfold_index::{JoinCounters, TILE_ROWS_MAX, TileSummary};
use schemars::JsonSchema;
use serde::Serialize;

/// The join of a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampledJoin<'a> {
    /// Distinct rows of the sample.
    pub rows: u64,
    /// The tiles of the sample, about as many as the rows to join would have, or as many as the sample allows.
    pub tiles: &'a TileSummary,
    /// Most rows of one of these tiles.
    pub tile_rows_max: u64,
    /// The counters of the join of the sample in one piece.
    pub counters: &'a JoinCounters,
    /// Time in which all cores compared its pairs, times the cores.
    pub core_seconds: f64,
}

/// What a join by tiles would take.
///
/// Where the sample has fewer tiles and cells than the rows to join, the bounds save more than this says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct JoinForecast {
    /// Tiles.
    pub tiles: u64,
    /// Pairs of tiles that are compared.
    pub tasks: u64,
    /// Pairs of tiles.
    pub tasks_total: u64,
    /// Bytes of all tiles.
    pub tile_bytes: u64,
    /// Most bytes on disk, while tiles are written.
    pub disk_bytes: u64,
    /// Bytes that tasks read if each fetches both its tiles.
    pub task_bytes: u64,
    /// Pairs of rows.
    pub pairs_total: u64,
    /// Share of the pairs that are in tasks.
    pub share_in_tasks: f64,
    /// Share of the pairs that the first test looks at: within tasks too, bounds leave pairs out.
    pub share_tested: f64,
    /// Hours in which one core compares the pairs.
    pub core_hours: f64,
    /// Hours without any bound before the first test.
    pub core_hours_without_bounds: f64,
}

impl JoinForecast {
    /// Scales the join of a sample to `rows` rows of `dim` components.
    #[must_use]
    pub fn of(sample: &SampledJoin<'_>, rows: u64, dim: u64) -> Self {
        let pairs = |rows: u64| rows * rows.saturating_sub(1) / 2;
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        let summary = sample.tiles;
        let mean_rows = share(sample.rows, summary.tiles.max(1));
        let fill = (mean_rows / sample.tile_rows_max as f64).clamp(0.1, 1.0);
        let tiles = (rows as f64 / (fill * TILE_ROWS_MAX as f64)).ceil() as u64;
        let tasks_total = tiles * (tiles + 1) / 2;
        let tasks = share(summary.tasks, summary.tasks_total) * tasks_total as f64;
        let (pairs_total, sampled) = (pairs(rows), pairs(sample.rows));
        let counters = sample.counters;
        let tested = if counters.first_width == 0 { sampled } else { counters.pairs_tested };
        // The cost of a pair is unknown where the sample compares none, but it is not zero.
        let seconds_per_test = sample.core_seconds / tested.max(1) as f64;
        let tile_bytes = rows * summary.row_bytes;
        let hours = |tests: f64| tests * seconds_per_test / 3_600.0;
        // The first test sees each pair of a block with itself twice.
        let share_tested = share(tested, sampled).min(1.0);
        Self {
            tiles,
            tasks: (tasks.ceil() as u64).clamp(tiles, tasks_total),
            tasks_total,
            tile_bytes,
            disk_bytes: tile_bytes + rows * dim * 4,
            task_bytes: (tasks * 2.0 * share(tile_bytes, tiles.max(1))) as u64,
            pairs_total,
            share_in_tasks: share(summary.pairs_in_tasks, summary.pairs_total),
            share_tested,
            core_hours: hours(pairs_total as f64 * share_tested),
            core_hours_without_bounds: hours(pairs_total as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_grow_with_the_square_of_the_rows_and_bytes_with_the_rows() {
        let tiles = TileSummary {
            tiles: 100,
            tasks: 1_010,
            tasks_total: 5_050,
            pairs_in_tasks: 1_000_000,
            pairs_total: 4_999_950_000,
            row_bytes: 1_700,
            ..TileSummary::default()
        };
        let counters =
            JoinCounters { first_width: 64, pairs_tested: 499_995_000, ..JoinCounters::default() };
        let sample = SampledJoin {
            rows: 100_000,
            tiles: &tiles,
            tile_rows_max: 2_000,
            counters: &counters,
            core_seconds: 0.5,
        };
        let one = JoinForecast::of(&sample, 1_000_000, 384);
        assert_eq!((one.tiles, one.tasks_total, one.tasks), (123, 7_626, 1_526));
        assert_eq!(one.tile_bytes, 1_700_000_000);
        assert_eq!(one.disk_bytes, 1_700_000_000 + 1_536_000_000);
        assert!((one.share_tested - 0.1).abs() < 1e-9, "{one:?}");
        assert!((one.core_hours * 10.0 - one.core_hours_without_bounds).abs() < 1e-9, "{one:?}");
        let ten = JoinForecast::of(&sample, 10_000_000, 384);
        assert!((ten.core_hours / one.core_hours - 100.0).abs() < 0.01, "{ten:?}");
        let none = JoinForecast::of(&sample, 0, 384);
        assert_eq!((none.tiles, none.tasks, none.pairs_total), (0, 0, 0));
    }
}
