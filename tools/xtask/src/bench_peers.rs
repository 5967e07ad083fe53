//! `bench-peers`: other engines and memfold do the same work, in turn, on the same rows.
//!
//! The engines are Python (`bench/peers`), set up apart from the build. Every line of
//! `bench/results/peers-join.jsonl` is one engine at one setting on one set of rows, every line of
//! `bench/results/peers-ann.jsonl` one engine at one `ef_search`.

mod environment;
mod options;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::options::{Options, Part};
use crate::measure::binary;
use crate::measure::data::{FOLDER, Rows};
use crate::{figures, python, report, results};

const JOINS: &str = "bench/results/peers-join.jsonl";
const LOOKUPS: &str = "bench/results/peers-ann.jsonl";

/// Engines that finish a million rows without a limit; the others get one.
const ENGINES_AT_SCALE: &str = "memfold,memfold-wheel,faiss-ivf-flat";
const OTHER_ENGINES: &str = "numpy-blocked,scikit-learn,faiss-flat,scann,hnswlib,usearch,symphonyqg,semhash,\
                             sentence-transformers,sentence-communities";

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

/// What all work of one call shares.
struct Bench<'a> {
    root: &'a Path,
    python: PathBuf,
    memfold: PathBuf,
    options: Options,
    began: String,
    command: String,
}

/// Sets up, measures, stores and shows.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let bench = Bench {
        root,
        memfold: binary(root, "memfold")?,
        python: environment::ready(root).and_then(|env| match options.asks_for_wheel() {
            true => python::install_released(root, env),
            false => Ok(env),
        })?,
        options,
        began: results::run_name(),
        command: results::typed("bench-peers", arguments),
    };
    if bench.options.asks_for(Part::Joins) {
        bench.joins()?;
    }
    if bench.options.asks_for(Part::Lookups) {
        bench.lookups()?;
    }
    figures::write(root)
}

impl Bench<'_> {
    /// The join by all engines, in turn, on the same rows.
    fn joins(&self) -> Result<(), String> {
        for (rows, row_count) in self.options.joined() {
            let data = rows.file(self.root, &self.memfold)?;
            let mut lines = Vec::new();
            for call in calls(row_count >= SCALE_ROWS, &self.options) {
                lines.extend(self.ask(&rows, &data, &call)?);
            }
            for line in &mut lines {
                line["recipe"] = rows.recipe().into();
                if line["engine"] == "memfold" {
                    line["engine_version"] = env!("CARGO_PKG_VERSION").into();
                }
            }
            self.keep(JOINS, lines, &["machine", "data", "threshold", "engine"])?;
        }
        Ok(())
    }

    /// Indexes of all engines, in turn, on the same rows: how long they take to build, and how fast
    /// they find what.
    fn lookups(&self) -> Result<(), String> {
        for rows in self.options.looked_up() {
            let data = rows.file(self.root, &self.memfold)?;
            let mut command = self.runner("lookups.py", &data, &rows.name);
            command.args(self.options.engines.iter().flat_map(|engines| ["--engines", engines]));
            let seconds_max = self.options.seconds_max.map(|seconds| seconds.to_string());
            command.args(seconds_max.iter().flat_map(|seconds| ["--seconds-max", seconds]));
            let mut lines = results::parse(&results::said(&mut command)?)?;
            lines.iter_mut().for_each(|line| line["rows_from"] = rows.recipe().into());
            self.keep(LOOKUPS, lines, &["machine", "data", "engine"])?;
        }
        Ok(())
    }

    fn keep(&self, file: &str, mut lines: Vec<Value>, keys: &[&str]) -> Result<(), String> {
        for line in &mut lines {
            results::sign(line, &self.began, &self.command);
        }
        report::line(&figures::shown(file, &lines));
        results::renew(&self.root.join(file), &lines, keys)
    }

    /// Begins a call of a script of `bench/peers`, on rows that are shown as `name`.
    fn runner(&self, script: &str, data: &Path, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.root.join("bench/peers").join(script)).arg("--data").arg(data);
        command.args(["--name", name, "--threads", &self.options.threads.to_string()]);
        command.arg("--memfold").arg(&self.memfold);
        command
    }

    /// Runs the engines at the join and reads their lines.
    fn ask(&self, rows: &Rows, data: &Path, call: &Call) -> Result<Vec<Value>, String> {
        let mut command = self.runner("run.py", data, &rows.name);
        command.args(["--seconds-max", &call.seconds_max.to_string()]);
        command.arg("--truth").arg(self.truth(rows, data, call.at_scale)?).arg("--threshold");
        command.args(self.options.thresholds.iter().map(f64::to_string));
        command.args(call.engines.iter().flat_map(|engines| ["--engines", engines]));
        command.args(self.options.once.then_some("--once"));
        if call.at_scale {
            command.args(["--enough", ENOUGH_AT_SCALE]);
        }
        results::parse(&results::said(&mut command)?)
    }

    /// Where the right answer stands: the runner makes it by brute force or, at scale, memfold does.
    fn truth(&self, rows: &Rows, data: &Path, at_scale: bool) -> Result<PathBuf, String> {
        let folder = self.root.join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        if !at_scale {
            return Ok(folder.join(format!("{}.truth.npz", rows.name)));
        }
        let path = folder.join(format!("{}.truth.parquet", rows.name));
        let lowest = self.options.thresholds.iter().copied().fold(1.0, f64::min);
        let mut command = Command::new(&self.memfold);
        command.arg("dedup").arg(data).args(["--threshold", &lowest.to_string(), "--json"]);
        results::said(command.args(["--quiet", "--force", "--pairs"]).arg(&path))?;
        Ok(path)
    }
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
