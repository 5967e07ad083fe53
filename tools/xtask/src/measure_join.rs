//! `measure-join`: times whole `memfold dedup` processes over growing rows, and the peak of the processor.
//!
//! The first line of `bench/results/join.jsonl` is the peak; every other is one set of rows at one threshold: all wall
//! times, what the last run said of itself, and how its join compares with the time that the peak would need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::rows::Rows;
use crate::{figures, measure, peak, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/join.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["what", "data", "threshold"];

const THRESHOLDS: [f64; 2] = [0.85, 0.95];

/// Rows, and how often they are joined.
const SIZES: [(u64, usize); 3] = [(10_000, 15), (30_000, 9), (100_000, 7)];
const SIZES_FULL: [(u64, usize); 2] = [(300_000, 3), (1_000_000, 1)];
const RUNS_REAL: usize = 9;

/// Where and how often to measure.
struct Session<'a> {
    root: &'a Path,
    memfold: PathBuf,
    run: String,
    command: String,
    threads: usize,
}

/// Measures, stores and shows.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    match try_run(root, arguments) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-join: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (full, runs) = parse(arguments)?;
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let command = std::iter::once("cargo xtask measure-join");
    let command: Vec<_> = command.chain(arguments.iter().map(String::as_str)).collect();
    let session = Session {
        root,
        memfold,
        run: results::run_name(),
        command: command.join(" "),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut peak = None;
    let sizes = SIZES.into_iter().chain(SIZES_FULL.into_iter().filter(|_| full));
    let synthetic = sizes.map(|(rows, runs)| (Rows::synthetic(rows), runs));
    let real = Rows::real().map(|rows| (rows, RUNS_REAL));
    for (rows, default_runs) in real.into_iter().chain(synthetic) {
        for threshold in THRESHOLDS {
            let line = session.join(&rows, threshold, runs.unwrap_or(default_runs))?;
            // The first run says which level is in use.
            if peak.is_none() {
                peak = Some(session.peak(&line)?);
            }
            session.keep(compared(line, peak.as_ref()))?;
        }
    }
    Ok(())
}

/// `--full` and `--runs N`.
fn parse(arguments: &[String]) -> Result<(bool, Option<usize>), String> {
    let (mut full, mut runs) = (false, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => full = true,
            "--runs" => {
                let number = words.next().and_then(|text| text.parse().ok()).filter(|&n| n > 0);
                runs = Some(number.ok_or("--runs needs a number from 1")?);
            }
            _ => return Err(format!("no such argument: {word}")),
        }
    }
    Ok((full, runs))
}

impl Session<'_> {
    fn keep(&self, mut line: Value) -> Result<(), String> {
        results::sign(&mut line, &self.run, &self.command);
        report::line(&figures::join::line(&line));
        results::renew(&self.root.join(RESULTS), &[line], KEYS)
    }

    fn peak(&self, line: &Value) -> Result<Value, String> {
        let level = line["last_run"]["isa"].as_str().unwrap_or("scalar");
        let mut peak = peak::measure(self.root, level)?;
        peak["what"] = "peak".into();
        self.keep(peak.clone())?;
        Ok(peak)
    }

    fn join(&self, rows: &Rows, threshold: f64, runs: usize) -> Result<Value, String> {
        let data = rows.file(self.root, &self.memfold)?;
        let mut wall = Vec::new();
        let mut last_run = Value::Null;
        for _ in 0..runs {
            let (seconds, said) = self.dedup(&data, threshold)?;
            wall.push(seconds);
            last_run = said;
        }
        wall.sort_by(f64::total_cmp);
        Ok(json!({
            "what": "join",
            "data": rows.name,
            "recipe": rows.recipe(),
            "rows": last_run["rows"],
            "dim": last_run["dim"],
            "threshold": threshold,
            "runs": runs,
            "wall_seconds_median": wall[wall.len() / 2],
            "wall_seconds_min": wall[0],
            "wall_seconds_max": wall[wall.len() - 1],
            "last_run": last_run,
        }))
    }

    #[expect(clippy::disallowed_methods, reason = "this is where whole processes are timed")]
    fn dedup(&self, data: &Path, threshold: f64) -> Result<(f64, Value), String> {
        let mut command = Command::new(&self.memfold);
        command.arg("dedup").arg(data).args(["--threshold", &threshold.to_string()]);
        command.args(["--threads", &self.threads.to_string(), "--json", "--quiet"]);
        let start = Instant::now();
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot run memfold: {error}"))?;
        let seconds = start.elapsed().as_secs_f64();
        if !output.status.success() {
            return Err(format!("dedup ended with {}", output.status));
        }
        let said = serde_json::from_slice(&output.stdout);
        Ok((seconds, said.map_err(|error| format!("what dedup said: {error}"))?))
    }
}

/// Adds what the join's first test would take at the peak of all threads, and how many times that it took.
fn compared(mut line: Value, peak: Option<&Value>) -> Value {
    let counters = &line["last_run"]["counters"];
    let operations = counters["pairs_total"].as_f64().zip(counters["first_width"].as_f64());
    let operations = operations.map(|(pairs, width)| pairs * width);
    let per_second = peak.and_then(|peak| peak["int8_all"].as_f64());
    if let Some((operations, per_second)) = operations.zip(per_second) {
        let seconds = operations / per_second;
        line["seconds_at_peak"] = seconds.into();
        let join = line["last_run"]["seconds"]["join"].as_f64();
        if let Some(join) = join.filter(|_| seconds > 0.0) {
            line["join_over_peak"] = (join / seconds).into();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_join_is_compared_with_the_peak() {
        let run = json!({
            "seconds": { "join": 3.0 }, "counters": { "pairs_total": 1_000_000, "first_width": 64 },
        });
        let line = compared(json!({ "last_run": run }), Some(&json!({ "int8_all": 32_000_000.0 })));
        assert_eq!((&line["seconds_at_peak"], &line["join_over_peak"]), (&2.0.into(), &1.5.into()));
        let without = compared(json!({ "last_run": { "seconds": { "join": 3.0 } } }), None);
        assert!(without["join_over_peak"].is_null());
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |words: &str| {
            super::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(parse("--full --runs 3"), Ok((true, Some(3))));
        assert_eq!(parse(""), Ok((false, None)));
        assert!(parse("--runs 0").is_err() && parse("--fast").is_err());
    }
}
