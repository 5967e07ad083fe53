//! `bench-peers`: other engines and memfold do the same join, in turn, on the same rows.
//!
//! The engines are Python (`bench/peers`), set up apart from the build. Every line of
//! `bench/results/peers-join.jsonl` is one engine at one setting on one set of rows.

pub(crate) mod environment;
mod options;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::figures::peers;
use crate::{figures, measure, report, results};
use options::Options;

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/peers-join.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "threshold", "engine"];

/// Engines that finish a million rows without a limit; the others get one.
const ENGINES_AT_SCALE: &str = "memfold,faiss-ivf-flat";
const OTHER_ENGINES: &str = "numpy-blocked,faiss-flat,scann,hnswlib,usearch,semhash";

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

/// Sets up, measures, stores and shows.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    match try_run(root, arguments) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("bench-peers: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let python = environment::ready(root)?;
    let run = results::run_name();
    let command = std::iter::once("cargo xtask bench-peers");
    let command: Vec<_> = command.chain(arguments.iter().map(String::as_str)).collect();
    for (rows, row_count) in options.workloads() {
        let data = rows.file(root, &memfold)?;
        let runner =
            Runner { root, python: &python, memfold: &memfold, data: &data, name: &rows.name };
        let mut lines = Vec::new();
        for call in calls(row_count >= SCALE_ROWS, &options) {
            lines.extend(runner.ask(&call, &options)?);
        }
        for line in &mut lines {
            results::sign(line, &run, &command.join(" "));
            line["recipe"] = rows.recipe().into();
            if line["engine"] == "memfold" {
                line["engine_version"] = env!("CARGO_PKG_VERSION").into();
            }
        }
        results::renew(&root.join(RESULTS), &lines, KEYS)?;
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

/// What all calls for one set of rows share.
struct Runner<'a> {
    root: &'a Path,
    python: &'a Path,
    memfold: &'a Path,
    data: &'a Path,
    name: &'a str,
}

impl Runner<'_> {
    /// Runs the engines and reads their lines.
    fn ask(&self, call: &Call, options: &Options) -> Result<Vec<Value>, String> {
        let truth = self.truth(call.at_scale, options)?;
        let mut command = Command::new(self.python);
        command.arg(self.root.join("bench/peers/run.py")).arg("--data").arg(self.data);
        command.args(["--name", self.name, "--threads", &options.threads.to_string()]);
        command.args(["--seconds-max", &call.seconds_max.to_string()]);
        command.arg("--memfold").arg(self.memfold).arg("--truth").arg(truth).arg("--threshold");
        command.args(options.thresholds.iter().map(f64::to_string));
        command.args(call.engines.iter().flat_map(|engines| ["--engines", engines]));
        command.args(options.once.then_some("--once"));
        if call.at_scale {
            command.args(["--enough", ENOUGH_AT_SCALE]);
        }
        let output =
            command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("the runner ended with {}", output.status));
        }
        results::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Where the right answer stands: the runner makes it by brute force or, at scale, memfold does.
    fn truth(&self, at_scale: bool, options: &Options) -> Result<PathBuf, String> {
        let folder = self.root.join("target/measure");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        if !at_scale {
            return Ok(folder.join(format!("{}.truth.npz", self.name)));
        }
        let path = folder.join(format!("{}.truth.parquet", self.name));
        let lowest = options.thresholds.iter().copied().fold(1.0, f64::min);
        let mut command = Command::new(self.memfold);
        command.arg("dedup").arg(self.data).args(["--threshold", &lowest.to_string(), "--json"]);
        command.args(["--quiet", "--force", "--pairs"]).arg(&path);
        let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
        if status.success() { Ok(path) } else { Err(format!("dedup ended with {status}")) }
    }
}
