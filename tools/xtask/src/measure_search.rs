//! `measure-search`: whole `memfold search` processes, each beside a `memfold --version`.
//!
//! Every line of `bench/results/search.jsonl` is one store: how long a lookup takes from the start of its process to its end with
//! everything in the system's memory, how long a process takes that does nothing, and how long the first lookup takes
//! when nothing is in memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/search.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data"];

/// Pairs of processes.
const PAIRS: usize = 1_000;

/// Lookups with nothing in memory.
const COLD: usize = 15;

/// Measures, stores and shows; `--full` adds a million rows.
pub(crate) fn run(root: &Path, full: bool) -> bool {
    match try_run(root, full) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-search: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, full: bool) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let run = results::run_name();
    let command =
        if full { "cargo xtask measure-search --full" } else { "cargo xtask measure-search" };
    for (name, rows, store) in measure::stores(root, &memfold, full)? {
        let mut line = lookups(&memfold, &store, rows)?;
        line["data"] = name.into();
        results::sign(&mut line, &run, command);
        report::line(&figures::search::line(&line));
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
    }
    Ok(())
}

fn lookups(memfold: &Path, store: &Path, rows: u64) -> Result<Value, String> {
    let mut build = Command::new(memfold);
    build.args(["index", "build", "--json", "--quiet"]).arg(store);
    let built: Value =
        serde_json::from_str(&results::said(&mut build)?).map_err(|error| error.to_string())?;
    let (mut idle, mut found, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS as u64 {
        idle.push(microseconds(Command::new(memfold).arg("--version"))?.0);
        let (whole, said) = microseconds(&mut search(memfold, store, rows, pair))?;
        found.push(whole);
        let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        open.push(
            said["elapsed_us"]["open"].as_f64().ok_or("search does not say how long it took")?,
        );
    }
    let mut unindexed = search(memfold, store, rows, 8_000);
    let unindexed = microseconds(unindexed.arg("--no-index"))?.0;
    let mut beyond: Vec<f64> = found.iter().zip(&idle).map(|(found, idle)| found - idle).collect();
    Ok(json!({
        "rows": rows,
        "pairs": PAIRS,
        "tier": built["tier"],
        "build_seconds": built["seconds"],
        "build_peak_anon_bytes": built["peak_anon_bytes"],
        "index_bytes": built["index_bytes"],
        "version_us": percentiles(&mut idle),
        "search_us": percentiles(&mut found),
        "beyond_us": percentiles(&mut beyond),
        "open_us": percentiles(&mut open),
        "unindexed_us": unindexed.round(),
        "cold": cold(memfold, store, rows)?,
    }))
}

fn search(memfold: &Path, store: &Path, rows: u64, number: u64) -> Command {
    // Ids are numbered; the golden ratio spreads them.
    let row = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % rows;
    let mut command = Command::new(memfold);
    command.arg("search").arg(store).args(["--json", "--id", &format!("stm_{row:012x}")]);
    command
}

fn microseconds(command: &mut Command) -> Result<(f64, String), String> {
    results::timed(command).map(|(seconds, said)| (seconds * 1e6, said))
}

fn percentiles(values: &mut [f64]) -> Value {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).map_or(0.0, |value| value.round())
    };
    json!({ "p50": at(0.5), "p99": at(0.99), "max": at(1.0) })
}

/// Lookups after everything was put out of memory, and one after `index warm`; null where `dd` cannot do that.
fn cold(memfold: &Path, store: &Path, rows: u64) -> Result<Value, String> {
    let mut took = Vec::new();
    for number in 0..COLD as u64 {
        if !put_out(store)? {
            return Ok(Value::Null);
        }
        took.push(microseconds(&mut search(memfold, store, rows, 7_000 + number))?.0);
    }
    put_out(store)?;
    let warm = microseconds(Command::new(memfold).args(["index", "warm", "--quiet"]).arg(store))?.0;
    let after = microseconds(&mut search(memfold, store, rows, 9_000))?.0;
    Ok(
        json!({ "search_us": percentiles(&mut took), "warm_us": warm.round(), "after_warm_us": after.round() }),
    )
}

/// Asks the system to forget what it keeps of the store and its index.
fn put_out(store: &Path) -> Result<bool, String> {
    let mut files = vec![store.to_path_buf()];
    let mut folders = vec![PathBuf::from(format!("{}.memfold", store.display()))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for file in files {
        let mut input = std::ffi::OsString::from("if=");
        input.push(&file);
        let mut dd = Command::new("dd");
        dd.arg(input).args(["iflag=nocache", "count=0", "status=none"]).stderr(Stdio::null());
        if !dd.status().is_ok_and(|status| status.success()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::percentiles;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<f64> = (1..=1_000).rev().map(f64::from).collect();
        let found = percentiles(&mut values);
        assert_eq!(
            [&found["p50"], &found["p99"], &found["max"]].map(|n| n.as_f64()),
            [Some(500.0), Some(990.0), Some(1000.0)]
        );
    }
}
