//! The join by all engines, in turn, on the same rows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Bench, Options};
use crate::figures::peers;
use crate::rows::Rows;
use crate::{report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/peers-join.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "threshold", "engine"];

/// Engines that finish a million rows without a limit; the others get one.
const ENGINES_AT_SCALE: &str = "memfold,faiss-ivf-flat";
const OTHER_ENGINES: &str = "numpy-blocked,scikit-learn,faiss-flat,scann,hnswlib,usearch,semhash";

/// At scale, an engine that reaches this pair recall is not asked for more.
const ENOUGH_AT_SCALE: &str = "0.99";

/// From this many rows on, engines are told apart by whether they scale.
const SCALE_ROWS: u64 = 500_000;

const SECONDS_MAX: u32 = 600;
const SECONDS_MAX_AT_SCALE: u32 = 3_600;

/// One call of the runner.
#[derive(Debug, PartialEq)]
struct Call {
    engines: Option<String>,
    seconds_max: u32,
    at_scale: bool,
}

/// Measures and stores.
pub(super) fn run(bench: &Bench<'_>) -> Result<(), String> {
    for (rows, row_count) in bench.options.joined() {
        let data = rows.file(bench.root, bench.memfold)?;
        let mut lines = Vec::new();
        for call in calls(row_count >= SCALE_ROWS, bench.options) {
            lines.extend(ask(bench, &rows, &data, &call)?);
        }
        for line in &mut lines {
            bench.sign(line);
            line["recipe"] = rows.recipe().into();
            if line["engine"] == "memfold" {
                line["engine_version"] = env!("CARGO_PKG_VERSION").into();
            }
        }
        results::renew(&bench.root.join(RESULTS), &lines, KEYS)?;
        report::line(&peers::screen(&lines));
    }
    Ok(())
}

/// The calls for one set of rows: one where all engines finish; at scale, one for those that do, and one with a limit.
fn calls(at_scale: bool, options: &Options) -> Vec<Call> {
    let call = |engines: Option<&str>, seconds_max: u32| Call {
        engines: engines.map(str::to_owned),
        seconds_max: options.seconds_max.unwrap_or(seconds_max),
        at_scale,
    };
    match (&options.engines, at_scale) {
        (None, true) => vec![
            call(Some(ENGINES_AT_SCALE), SECONDS_MAX_AT_SCALE),
            call(Some(OTHER_ENGINES), SECONDS_MAX),
        ],
        (engines, true) => vec![call(engines.as_deref(), SECONDS_MAX_AT_SCALE)],
        (engines, false) => vec![call(engines.as_deref(), SECONDS_MAX)],
    }
}

/// Runs the engines and reads their lines.
fn ask(bench: &Bench<'_>, rows: &Rows, data: &Path, call: &Call) -> Result<Vec<Value>, String> {
    let options = bench.options;
    let truth = truth(bench, rows, data, call.at_scale)?;
    let mut command = bench.runner("run.py", data, &rows.name);
    command.args(["--seconds-max", &call.seconds_max.to_string()]);
    command.arg("--truth").arg(truth).arg("--threshold");
    command.args(options.thresholds.iter().map(f64::to_string));
    command.args(call.engines.iter().flat_map(|engines| ["--engines", engines]));
    command.args(options.once.then_some("--once"));
    if call.at_scale {
        command.args(["--enough", ENOUGH_AT_SCALE]);
    }
    results::parse(&results::said(&mut command)?)
}

/// Where the right answer stands: the runner makes it by brute force or, at scale, memfold does.
fn truth(bench: &Bench<'_>, rows: &Rows, data: &Path, at_scale: bool) -> Result<PathBuf, String> {
    let folder = bench.root.join("target/measure");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    if !at_scale {
        return Ok(folder.join(format!("{}.truth.npz", rows.name)));
    }
    let path = folder.join(format!("{}.truth.parquet", rows.name));
    let lowest = bench.options.thresholds.iter().copied().fold(1.0, f64::min);
    let mut command = Command::new(bench.memfold);
    command.arg("dedup").arg(data).args(["--threshold", &lowest.to_string(), "--json"]);
    command.args(["--quiet", "--force", "--pairs"]).arg(&path);
    let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(path) } else { Err(format!("dedup ended with {status}")) }
}
