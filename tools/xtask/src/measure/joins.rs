//! Whole `memfold dedup` processes over growing rows, exact, by tiles and by a graph, at every level
//! of the instruction set, and the processor's peak.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::data::{self, Rows};
use super::processes::wall;
use super::session::Session;
use crate::results;

const THRESHOLDS: [f64; 2] = [0.85, 0.95];

/// Rows whose vectors are more than a small machine's memory, and the threshold at which they are joined by tiles alone.
const OUT_OF_CORE: (u64, f64) = (4_000_000, 0.98);

/// Generated rows, and how often they are joined; those of 300,000 and more are for `--full`.
const SIZES: [(u64, usize); 5] =
    [(10_000, 15), (30_000, 9), (100_000, 7), (300_000, 3), (1_000_000, 1)];
const RUNS_REAL: usize = 9;
const GRAPH_SIZES: [(u64, usize); 2] = [(100_000, 3), (1_000_000, 1)];
const GRAPH_RUNS_REAL: usize = 3;
const TILE_SIZES: [(u64, usize); 2] = [(100_000, 3), (1_000_000, 1)];
const TILE_RUNS_REAL: usize = 3;
const LEVEL_SIZES: [(u64, usize); 2] = [(100_000, 5), (1_000_000, 1)];
const LEVEL_RUNS_REAL: usize = 5;

/// As `MEMFOLD_ISA` names them, the slowest first, without `scalar`, which is for tests.
const LEVELS: [&str; 6] = ["avx2", "avxvnni", "avx512", "amx", "neon", "neondot"];

/// How rows are joined.
#[derive(Debug, Clone, Copy)]
struct Way<'a> {
    threshold: f64,
    further: &'a [&'a str],
    /// As `MEMFOLD_ISA` names it; `None` for the best.
    level: Option<&'a str>,
    /// `None` for all cores.
    threads: Option<usize>,
}

impl<'a> Way<'a> {
    const fn at(threshold: f64, further: &'a [&'a str]) -> Self {
        Self { threshold, further, level: None, threads: None }
    }
}

/// Joins exactly; the first line is the peak, which the others are compared with.
pub(super) fn exact(session: &Session<'_>) -> Result<(), String> {
    let mut peak: Option<Value> = None;
    for (rows, runs) in workloads(session, RUNS_REAL, &SIZES) {
        for threshold in THRESHOLDS {
            let line = join(session, &rows, Way::at(threshold, &[]), runs)?;
            if peak.is_none() {
                // The first run says which level is in use.
                let level = line["last_run"]["isa"].as_str().unwrap_or("scalar");
                let found = measure_peak(session.root, level)?;
                session.keep(vec![found.clone()])?;
                peak = Some(found);
            }
            session.keep(vec![compared(line, peak.as_ref())])?;
        }
    }
    Ok(())
}

/// Joins by a graph, and exactly beside it, which tells how many pairs there are.
pub(super) fn by_graph(session: &Session<'_>) -> Result<(), String> {
    for (rows, runs) in workloads(session, GRAPH_RUNS_REAL, &GRAPH_SIZES) {
        for threshold in THRESHOLDS {
            let exact = join(session, &rows, Way::at(threshold, &[]), runs)?;
            let found = join(session, &rows, Way::at(threshold, &["--method", "graph"]), runs)?;
            session.keep(vec![beside_exact(found, &exact)])?;
        }
    }
    Ok(())
}

/// Joins by tiles, each time in a new folder, and in one piece beside it, which finds the same pairs.
pub(super) fn by_tiles(session: &Session<'_>) -> Result<(), String> {
    let folder = session.root.join(data::FOLDER).join("tiles");
    let tiles = folder.to_string_lossy().into_owned();
    let by_tiles = |rows: &Rows, threshold, runs| {
        let mut line = join(session, rows, Way::at(threshold, &["--tiles", &tiles]), runs)?;
        let _gone = std::fs::remove_dir_all(&folder);
        line["what"] = "tile join".into();
        let tiles = &line["last_run"]["tiles"];
        let total = line["last_run"]["counters"]["pairs_total"].as_f64();
        let share = |part: &Value| Some(part.as_f64()? / total.filter(|total| *total > 0.0)?);
        let in_tasks = share(&tiles["pairs_in_tasks"]);
        let tested = share(&line["last_run"]["counters"]["pairs_tested"]);
        line["share_in_tasks"] = in_tasks.into();
        line["share_tested"] = tested.into();
        Ok::<_, String>(line)
    };
    for (rows, runs) in workloads(session, TILE_RUNS_REAL, &TILE_SIZES) {
        let threshold = 0.95;
        let exact = join(session, &rows, Way::at(threshold, &[]), runs)?;
        let mut line = by_tiles(&rows, threshold, runs)?;
        if line["last_run"]["pairs_digest"] != exact["last_run"]["pairs_digest"] {
            return Err(format!("{}: tiles give other pairs than one piece", rows.name));
        }
        line["exact_wall_seconds_median"] = exact["wall_seconds_median"].clone();
        line["exact_peak_anon_bytes"] = exact["last_run"]["peak_anon_bytes"].clone();
        session.keep(vec![line])?;
    }
    if session.full {
        let (rows, threshold) = OUT_OF_CORE;
        session.keep(vec![by_tiles(&Rows::synthetic(rows), threshold, 1)?])?;
    }
    Ok(())
}

/// Joins exactly on two threads at every level that the processor has, and on all at its best.
///
/// All levels find the same pairs; anything else is an error.
pub(super) fn by_level(session: &Session<'_>) -> Result<(), String> {
    let workloads = workloads(session, LEVEL_RUNS_REAL, &LEVEL_SIZES);
    let levels = levels(session, &workloads[0].0)?;
    let Some((&best, slower)) = levels.split_last() else { return Ok(()) };
    let cores = cores();
    for (rows, runs) in workloads {
        for threshold in THRESHOLDS {
            let mut ways = vec![(best, 2)];
            ways.extend((cores > 2).then_some((best, cores)));
            ways.extend(slower.iter().rev().map(|level| (*level, 2)));
            let mut digest = Value::Null;
            for (level, threads) in ways {
                let way =
                    Way { level: Some(level), threads: Some(threads), ..Way::at(threshold, &[]) };
                let mut line = join(session, &rows, way, runs)?;
                let found = line["last_run"]["pairs_digest"].clone();
                if !digest.is_null() && found != digest {
                    return Err(format!("{}: {level} finds other pairs than {best}", rows.name));
                }
                digest = found;
                line["level"] = level.into();
                line["threads"] = threads.into();
                session.keep(vec![line])?;
            }
        }
    }
    Ok(())
}

/// The levels that this processor has, the slowest first.
fn levels(session: &Session<'_>, rows: &Rows) -> Result<Vec<&'static str>, String> {
    let data = rows.file(session.root, &session.memfold)?;
    let is_available = |level: &&str| {
        let mut dedup = session.memfold(&["dedup", "--threshold", "1", "--quiet"]);
        dedup.arg(&data).env("MEMFOLD_ISA", level).stdout(Stdio::null()).stderr(Stdio::null());
        dedup.status().is_ok_and(|status| status.success())
    };
    Ok(LEVELS.into_iter().filter(is_available).collect())
}

/// The real rows, where there are any, and generated ones, with how often each is joined.
fn workloads(
    session: &Session<'_>,
    real_runs: usize,
    sizes: &[(u64, usize)],
) -> Vec<(Rows, usize)> {
    let real = Rows::real().map(|rows| (rows, real_runs));
    let sizes = sizes.iter().filter(|(rows, _)| session.full || *rows <= 100_000);
    let all = real.into_iter().chain(sizes.map(|&(rows, runs)| (Rows::synthetic(rows), runs)));
    all.map(|(rows, runs)| (rows, session.runs.unwrap_or(runs))).collect()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn join(session: &Session<'_>, rows: &Rows, way: Way<'_>, runs: usize) -> Result<Value, String> {
    let data = rows.file(session.root, &session.memfold)?;
    let Way { threshold, further, level, threads } = way;
    let threads = threads.unwrap_or_else(cores).to_string();
    let mut line = wall(runs, || {
        let mut dedup = session.memfold(&["dedup", "--threads", &threads, "--json", "--quiet"]);
        dedup.arg(&data).args(["--threshold", &threshold.to_string()]).args(further);
        dedup.envs(level.map(|level| ("MEMFOLD_ISA", level)));
        if let ["--tiles", folder] = further {
            // Finished tasks would not run again.
            let _gone = std::fs::remove_dir_all(folder);
        }
        dedup
    })?;
    line["what"] = "join".into();
    line["data"] = rows.name.clone().into();
    line["recipe"] = rows.recipe().into();
    line["rows"] = line["last_run"]["rows"].clone();
    line["dim"] = line["last_run"]["dim"].clone();
    line["threshold"] = threshold.into();
    Ok(line)
}

/// Adds what the join's first test would take at the peak of all threads, and how many times that
/// it took.
fn compared(mut line: Value, peak: Option<&Value>) -> Value {
    let counters = &line["last_run"]["counters"];
    let operations = counters["pairs_total"].as_f64().zip(counters["first_width"].as_f64());
    let per_second = peak.and_then(|peak| peak["int8_all"].as_f64());
    if let Some(((pairs, width), per_second)) = operations.zip(per_second) {
        let seconds = pairs * width / per_second;
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

/// Runs the peaks and sign tests of the benchmark `kernels` and returns operations per second.
fn measure_peak(root: &Path, level: &str) -> Result<Value, String> {
    let kernels = root.join("target/criterion/kernels");
    let _gone = std::fs::remove_dir_all(&kernels);
    benchmark(root, "kernels", &format!("/(peak_int8|peak_f32|hits)/{level}/"))?;
    let mut rates = Vec::new();
    for name in ["peak_int8", "peak_f32", "hits"] {
        for (parameter, folder) in entries(&kernels.join(format!("{name}_{level}")))? {
            let elements = read(&folder.join("new/benchmark.json"))?;
            let elements = elements["throughput"]["Elements"].as_f64();
            let nanoseconds = median(&folder)?;
            rates.extend(elements.map(|n| (name, parameter, n / nanoseconds * 1e9)));
        }
    }
    peak(&rates, level).ok_or_else(|| format!("the benchmark kernels says nothing of {level}"))
}

/// Runs a criterion benchmark.
pub(super) fn benchmark(root: &Path, name: &str, filter: &str) -> Result<(), String> {
    let words = ["bench", "--locked", "--package", "memfold-bench", "--bench", name, "--", filter];
    let done = crate::cargo(root).args(words).stdout(Stdio::null()).status();
    let failed = || format!("the benchmark {name} failed");
    if done.is_ok_and(|status| status.success()) { Ok(()) } else { Err(failed()) }
}

/// The benchmarks in a folder of criterion, by name.
pub(super) fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join("new/estimates.json").is_file() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The median of a benchmark, in nanoseconds.
pub(super) fn median(folder: &Path) -> Result<f64, String> {
    let estimates = read(&folder.join("new/estimates.json"))?;
    estimates["median"]["point_estimate"].as_f64().ok_or_else(|| "no median".to_owned())
}

fn read(path: &Path) -> Result<Value, String> {
    let mut lines = results::read(path)?;
    lines.pop().ok_or_else(|| format!("{}: nothing in it", path.display()))
}

/// `{level, threads, int8_one, int8_all, f32_one, f32_all, hits{width}, hits_share_of_peak{width}}`
/// of benchmarks, parameters and rates; all with one thread but `…_all`, which keeps every core
/// busy at once.
fn peak(rates: &[(&str, String, f64)], level: &str) -> Option<Value> {
    let of = |name: &str, parameter: &str| {
        rates.iter().find(|rate| rate.0 == name && rate.1 == parameter).map(|rate| rate.2)
    };
    let threads = rates.iter().filter(|rate| rate.0 == "peak_int8");
    let threads = threads.filter_map(|rate| rate.1.parse::<u64>().ok()).max()?;
    let int8_one = of("peak_int8", "1")?;
    let mut hits: Vec<_> = rates.iter().filter(|rate| rate.0 == "hits").collect();
    hits.sort_by_key(|rate| rate.1.parse::<u64>().unwrap_or(0));
    let table = |scale: f64| -> Value {
        Value::Object(hits.iter().map(|rate| (rate.1.clone(), json!(rate.2 / scale))).collect())
    };
    Some(json!({
        "what": "peak",
        "level": level,
        "threads": threads,
        "int8_one": int8_one,
        "int8_all": of("peak_int8", &threads.to_string())?,
        "f32_one": of("peak_f32", "1")?,
        "f32_all": of("peak_f32", &threads.to_string())?,
        "hits": table(1.0),
        "hits_share_of_peak": table(int8_one),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_is_compared_with_the_peak() {
        let line = json!({
            "last_run": { "counters": { "pairs_total": 1_000_000, "first_width": 64 }, "seconds": { "join": 0.5 } }
        });
        let found = compared(line.clone(), Some(&json!({ "int8_all": 64_000_000.0 })));
        assert_eq!(
            (&found["seconds_at_peak"], &found["join_over_peak"]),
            (&json!(1.0), &json!(0.5))
        );
        assert_eq!(compared(line.clone(), None), line);
    }

    #[test]
    fn a_graph_is_measured_by_the_exact_join() {
        let line = |pairs: u64, seconds: f64| json!({ "wall_seconds_median": seconds, "last_run": { "distinct_pairs": pairs } });
        let found = beside_exact(line(99, 1.0), &line(100, 4.0));
        assert_eq!(found["pair_recall_true"], 0.99);
        assert_eq!(found["exact_wall_seconds_median"], 4.0);
        assert_eq!(beside_exact(line(0, 1.0), &line(0, 4.0))["pair_recall_true"], 1.0);
    }

    #[test]
    fn the_share_is_of_one_thread() {
        let rate = |name, parameter: &str, rate| (name, parameter.to_owned(), rate);
        let mut rates = vec![
            rate("peak_int8", "1", 200.0),
            rate("peak_int8", "2", 300.0),
            rate("peak_f32", "1", 50.0),
            rate("peak_f32", "2", 90.0),
            rate("hits", "64", 150.0),
        ];
        let found = peak(&rates, "avx2").unwrap();
        assert_eq!((&found["threads"], &found["int8_all"]), (&json!(2), &json!(300.0)));
        assert_eq!(found["hits_share_of_peak"], json!({ "64": 0.75 }));
        rates.remove(0);
        assert_eq!(peak(&rates, "avx2"), None);
    }
}
