//! Indexes of all engines, in turn, on the same rows: how long they take to build, and how fast they find what.

use super::Bench;
use crate::figures::lookups;
use crate::{report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/peers-ann.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "engine"];

/// Measures and stores.
pub(super) fn run(bench: &Bench<'_>) -> Result<(), String> {
    for rows in bench.options.looked_up() {
        let data = rows.file(bench.root, bench.memfold)?;
        let mut command = bench.runner("lookups.py", &data, &rows.name);
        command.args(bench.options.engines.iter().flat_map(|engines| ["--engines", engines]));
        let seconds_max = bench.options.seconds_max.map(|seconds| seconds.to_string());
        command.args(seconds_max.iter().flat_map(|seconds| ["--seconds-max", seconds]));
        let mut lines = results::parse(&results::said(&mut command)?)?;
        for line in &mut lines {
            bench.sign(line);
            line["rows_from"] = rows.recipe().into();
        }
        results::renew(&bench.root.join(RESULTS), &lines, KEYS)?;
        report::line(&lookups::screen(&lines));
    }
    Ok(())
}
