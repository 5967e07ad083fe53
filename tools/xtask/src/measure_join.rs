//! `measure-join`: times whole `memfold dedup` processes over growing rows, and the peak of the processor.
//!
//! The first line of `bench/results/join.jsonl` is the peak; every other is one set of rows at one threshold: all wall
//! times, what the last run said of itself, and how its join compares with the time that the peak would need.
//!
//! With `--graph`: the same by `--method graph`, beside exact runs that tell how many pairs there are, in
//! `bench/results/graph-join.jsonl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::rows::Rows;
use crate::{figures, measure, peak, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/join.jsonl";

/// Where those of joins by a graph are kept.
pub(crate) const GRAPH_RESULTS: &str = "bench/results/graph-join.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["what", "data", "threshold"];

const THRESHOLDS: [f64; 2] = [0.85, 0.95];

/// Rows, and how often they are joined.
const SIZES: [(u64, usize); 3] = [(10_000, 15), (30_000, 9), (100_000, 7)];
const SIZES_FULL: [(u64, usize); 2] = [(300_000, 3), (1_000_000, 1)];
const RUNS_REAL: usize = 9;

/// Rows, and how often they are joined both ways.
const GRAPH_SIZES: [(u64, usize); 1] = [(100_000, 3)];
const GRAPH_SIZES_FULL: [(u64, usize); 1] = [(1_000_000, 1)];
const GRAPH_RUNS_REAL: usize = 3;

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asked {
    full: bool,
    graph: bool,
    runs: Option<usize>,
}

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
    let asked = parse(arguments)?;
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
    if asked.graph { session.graphs(asked) } else { session.joins(asked) }
}

/// `--full`, `--graph` and `--runs N`.
fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => asked.full = true,
            "--graph" => asked.graph = true,
            "--runs" => {
                let number = words.next().and_then(|text| text.parse().ok()).filter(|&n| n > 0);
                asked.runs = Some(number.ok_or("--runs needs a number from 1")?);
            }
            _ => return Err(format!("no such argument: {word}")),
        }
    }
    Ok(asked)
}

/// The real rows, where there are any, and generated ones; with how often each is joined.
fn workloads(
    real_runs: usize,
    sizes: impl Iterator<Item = (u64, usize)>,
) -> impl Iterator<Item = (Rows, usize)> {
    let real = Rows::real().map(|rows| (rows, real_runs));
    real.into_iter().chain(sizes.map(|(rows, runs)| (Rows::synthetic(rows), runs)))
}

impl Session<'_> {
    /// Joins exactly.
    fn joins(&self, asked: Asked) -> Result<(), String> {
        let mut peak = None;
        let sizes = SIZES.into_iter().chain(SIZES_FULL.into_iter().filter(|_| asked.full));
        for (rows, runs) in workloads(RUNS_REAL, sizes) {
            for threshold in THRESHOLDS {
                let line = self.join(&rows, (threshold, &[]), asked.runs.unwrap_or(runs))?;
                // The first run says which level is in use.
                if peak.is_none() {
                    peak = Some(self.peak(&line)?);
                }
                self.keep(compared(line, peak.as_ref()))?;
            }
        }
        Ok(())
    }

    /// Joins by a graph, and exactly beside it.
    fn graphs(&self, asked: Asked) -> Result<(), String> {
        let full = GRAPH_SIZES_FULL.into_iter().filter(|_| asked.full);
        for (rows, runs) in workloads(GRAPH_RUNS_REAL, GRAPH_SIZES.into_iter().chain(full)) {
            for threshold in THRESHOLDS {
                let runs = asked.runs.unwrap_or(runs);
                let exact = self.join(&rows, (threshold, &[]), runs)?;
                let found = self.join(&rows, (threshold, &["--method", "graph"]), runs)?;
                let mut line = beside_exact(found, &exact);
                results::sign(&mut line, &self.run, &self.command);
                report::line(&figures::join::graph_line(&line));
                results::renew(&self.root.join(GRAPH_RESULTS), &[line], KEYS)?;
            }
        }
        Ok(())
    }

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

    fn join(
        &self,
        rows: &Rows,
        (threshold, further): (f64, &[&str]),
        runs: usize,
    ) -> Result<Value, String> {
        let data = rows.file(self.root, &self.memfold)?;
        let mut wall = Vec::new();
        let mut last_run = Value::Null;
        for _ in 0..runs {
            let (seconds, said) = self.dedup(&data, threshold, further)?;
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

    fn dedup(&self, data: &Path, threshold: f64, further: &[&str]) -> Result<(f64, Value), String> {
        let mut command = Command::new(&self.memfold);
        command.arg("dedup").arg(data).args(["--threshold", &threshold.to_string()]);
        command.args(["--threads", &self.threads.to_string(), "--json", "--quiet"]).args(further);
        let (seconds, said) = results::timed(&mut command)?;
        let said = serde_json::from_str(&said);
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

/// Adds to a join by a graph what the exact one took, and the share of its pairs that were found.
fn beside_exact(mut line: Value, exact: &Value) -> Value {
    line["what"] = "graph join".into();
    line["exact_wall_seconds_median"] = exact["wall_seconds_median"].clone();
    line["exact_seconds"] = exact["last_run"]["seconds"].clone();
    let pairs = |line: &Value| line["last_run"]["distinct_pairs"].as_f64();
    if let Some((found, all)) = pairs(&line).zip(pairs(exact)) {
        line["distinct_pairs_true"] = exact["last_run"]["distinct_pairs"].clone();
        line["pair_recall_true"] = if all > 0.0 { found / all } else { 1.0 }.into();
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
    fn pairs_found_are_a_share_of_all() {
        let run =
            |pairs| json!({ "last_run": { "distinct_pairs": pairs }, "wall_seconds_median": 2.0 });
        let line = beside_exact(run(199), &run(200));
        assert_eq!(
            (&line["pair_recall_true"], &line["distinct_pairs_true"]),
            (&0.995.into(), &200.into())
        );
        assert_eq!(
            (&line["what"], &line["exact_wall_seconds_median"]),
            (&"graph join".into(), &2.0.into())
        );
        assert_eq!(beside_exact(run(0), &run(0))["pair_recall_true"], 1.0);
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |words: &str| {
            super::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let asked = Asked { full: true, graph: true, runs: Some(3) };
        assert_eq!(parse("--full --runs 3 --graph"), Ok(asked));
        assert_eq!(parse(""), Ok(Asked::default()));
        assert!(parse("--runs 0").is_err() && parse("--fast").is_err());
    }
}
