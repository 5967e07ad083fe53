//! Whole processes: how long they take from start to end, and where they spend their time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use memfold_bench::{percentile, put_out};
use serde_json::{Value, json};

use super::data::Store;
use super::session::Session;
use crate::results::{ask, said, timed};

/// Pairs of processes that look up and that do nothing.
const PAIRS: usize = 1_000;
/// Lookups with nothing in memory.
const COLD: u64 = 15;

/// What is profiled: `STORE` stands for the store, `OUT` for a file that is removed; `bench` is
/// `memfold-bench`.
const PROFILED: [&[&str]; 4] = [
    &["consolidate", "STORE", "--json"],
    &["dedup", "OUT", "--json"],
    &["bench", "check", "STORE", "--checks", "500", "--json"],
    &["export", "STORE", "--output", "OUT", "--force", "--json"],
];
/// Samples in a second.
const FREQUENCY: &str = "1999";
/// Places that are stored, the longest first.
const PLACES: usize = 12;

/// Times processes that print a document; returns their wall times and what the last one said.
pub(super) fn wall(runs: usize, command: impl Fn() -> Command) -> Result<Value, String> {
    let mut seconds = Vec::new();
    let mut last = String::new();
    for _ in 0..runs {
        let (took, said) = timed(&mut command())?;
        seconds.push(took);
        last = said;
    }
    seconds.sort_by(f64::total_cmp);
    let last: Value = serde_json::from_str(&last).map_err(|error| error.to_string())?;
    Ok(json!({
        "runs": runs,
        "wall_seconds_median": seconds[runs / 2],
        "wall_seconds_min": seconds[0],
        "wall_seconds_max": seconds[runs - 1],
        "last_run": last,
    }))
}

/// Times `memfold consolidate` on stores of growing size.
pub(super) fn consolidate(session: &Session<'_>) -> Result<(), String> {
    for store in Store::all(session.full) {
        let path = store.file(session.root, &session.memfold)?;
        let mut line = wall(session.runs.unwrap_or(store.runs), || {
            let words = ["consolidate", "--json", "--quiet", "--threads", "2"];
            let mut consolidate = session.memfold(&words);
            consolidate.arg(&path);
            consolidate
        })?;
        line["data"] = store.name.into();
        line["rows"] = store.rows.into();
        line["recipe"] = store.recipe().into();
        session.keep(vec![line])?;
    }
    Ok(())
}

/// Times `memfold search`, each time beside a `memfold --version`.
pub(super) fn search(session: &Session<'_>) -> Result<(), String> {
    for store in Store::looked_up(session.full) {
        let path = store.file(session.root, &session.memfold)?;
        let mut line = lookups(session, &path, store.rows)?;
        line["data"] = store.name.into();
        line["rows"] = store.rows.into();
        session.keep(vec![line])?;
    }
    Ok(())
}

fn lookups(session: &Session<'_>, store: &Path, rows: u64) -> Result<Value, String> {
    let built = ask(session.memfold(&["index", "build", "--json", "--quiet"]).arg(store))?;
    let look_up = |number: u64| {
        // Ids are numbered; the golden ratio spreads them.
        let row = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % rows;
        let mut search = session.memfold(&["search", "--json", "--id", &format!("stm_{row:012x}")]);
        search.arg(store);
        search
    };
    let (mut idle, mut found, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..session.runs.unwrap_or(PAIRS) as u64 {
        idle.push(microseconds(&mut session.memfold(&["--version"]))?.0);
        let (whole, said) = microseconds(&mut look_up(pair))?;
        found.push(whole);
        let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        let opened = said["elapsed_us"]["open"].as_f64();
        open.push(opened.ok_or("search does not say how long it took")?);
    }
    let unindexed = microseconds(look_up(8_000).arg("--no-index"))?.0;
    let beyond: Vec<f64> = found.iter().zip(&idle).map(|(found, idle)| found - idle).collect();
    Ok(json!({
        "pairs": found.len(),
        "tier": built["tier"],
        "build_seconds": built["seconds"],
        "build_peak_anon_bytes": built["peak_anon_bytes"],
        "index_bytes": built["index_bytes"],
        "version_us": percentiles(&idle),
        "search_us": percentiles(&found),
        "beyond_us": percentiles(&beyond),
        "open_us": percentiles(&open),
        "unindexed_us": unindexed.round(),
        "cold": cold(session, store, look_up)?,
    }))
}

fn microseconds(command: &mut Command) -> Result<(f64, String), String> {
    timed(command).map(|(seconds, said)| (seconds * 1e6, said))
}

fn percentiles(values: &[f64]) -> Value {
    let at = |share| percentile(values, share).round();
    json!({ "p50": at(0.5), "p99": at(0.99), "max": at(1.0) })
}

/// Lookups after everything was put out of memory, and one after `index warm`; null where the
/// system cannot do that.
fn cold(
    session: &Session<'_>,
    store: &Path,
    look_up: impl Fn(u64) -> Command,
) -> Result<Value, String> {
    let files = files(store)?;
    let mut took = Vec::new();
    for number in 0..COLD {
        if !put_out(&files) {
            return Ok(Value::Null);
        }
        took.push(microseconds(&mut look_up(7_000 + number))?.0);
    }
    put_out(&files);
    let warm = microseconds(session.memfold(&["index", "warm", "--quiet"]).arg(store))?.0;
    let after = microseconds(&mut look_up(9_000))?.0;
    let search = percentiles(&took);
    Ok(json!({ "search_us": search, "warm_us": warm.round(), "after_warm_us": after.round() }))
}

/// The store and the files of its index.
fn files(store: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = vec![store.to_path_buf()];
    let mut folders = vec![PathBuf::from(format!("{}.memfold", store.display()))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

/// Samples the main commands by `perf`.
pub(super) fn profile(session: &Session<'_>) -> Result<(), String> {
    let store = Store::all(false).find(|store| store.name == "synthetic-100k");
    let store = store.ok_or("there is no store")?;
    let path = store.file(session.root, &session.memfold)?;
    let (out, samples) = (path.with_extension("profiled.arrow"), path.with_extension("perf"));
    // What `dedup` reads.
    let mut export = session.memfold(&["export", "--quiet", "--force"]);
    said(export.arg(&path).arg("--output").arg(&out))?;
    let mut lines = Vec::new();
    for words in PROFILED {
        let mut record = Command::new("perf");
        record.args(["record", "--quiet", "--freq", FREQUENCY, "--output"]).arg(&samples).arg("--");
        let words_given = match words.split_first() {
            Some((&"bench", rest)) => (record.arg(&session.bench), rest).1,
            _ => (record.arg(&session.memfold), words).1,
        };
        record.arg("--quiet");
        for word in words_given {
            match *word {
                "STORE" => record.arg(&path),
                "OUT" => record.arg(&out),
                other => record.arg(other),
            };
        }
        said(&mut record)?;
        let mut perf = Command::new("perf");
        perf.args(["report", "--stdio", "--no-children", "--sort", "symbol", "--input"]);
        let mut line = profiled(&said(perf.arg(&samples))?)?;
        line["profiled"] = words.join(" ").into();
        line["data"] = store.name.into();
        line["rows"] = store.rows.into();
        lines.push(line);
    }
    for file in [&samples, &out] {
        std::fs::remove_file(file).map_err(|error| error.to_string())?;
    }
    session.keep(lines)
}

/// Reads what `perf report` prints: lines of `12.34%  [.] symbol`.
fn profiled(said: &str) -> Result<Value, String> {
    let mut places: Vec<(f64, &str)> = Vec::new();
    let mut parts: BTreeMap<String, f64> = BTreeMap::new();
    for line in said.lines() {
        let Some((share, rest)) = line.trim().split_once("%  [") else { continue };
        let Ok(percent) = share.parse::<f64>() else { continue };
        let Some((kind, symbol)) = rest.split_once("] ") else { continue };
        let symbol = symbol.trim().trim_end_matches(['-', ' ']);
        places.push((percent / 100.0, symbol));
        *parts.entry(part(kind, symbol)).or_default() += percent / 100.0;
    }
    if places.is_empty() {
        return Err("perf took no samples".to_owned());
    }
    places.truncate(PLACES);
    let mut parts: Vec<(String, f64)> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rounded = |share: f64| (share * 10_000.0).round() / 10_000.0;
    let named = |(share, name): (f64, &str)| json!({ "name": name, "share": rounded(share) });
    Ok(json!({
        "parts": parts.iter().map(|(name, share)| named((*share, name))).collect::<Vec<_>>(),
        "places": places.into_iter().map(named).collect::<Vec<_>>(),
    }))
}

/// Names what a symbol belongs to: the kernel, a module of ours, another crate, or C.
fn part(kind: &str, symbol: &str) -> String {
    if kind == "k" {
        return "kernel".to_owned();
    }
    let Some(at) = symbol.find("::") else {
        let is_compiled_c = symbol.contains("blake3");
        return if is_compiled_c { "blake3" } else { "SQLite and the C library" }.to_owned();
    };
    let begin = symbol[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
    let mut steps = symbol[begin..].split("::").map(|step| step.trim_end_matches(['>', '<', ' ']));
    let (crate_name, module) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
    match crate_name {
        "core" | "alloc" | "std" | "hashbrown" => "Rust's library".to_owned(),
        ours if ours.starts_with("memfold") => format!("{ours}::{module}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_parts() {
        let said = "# header\n\
                    \n    31.42%  [.] memfold_simd::arch::x86_64::avx2::hits        -      -\n\
                    \x20    7.41%  [k] copy_folio_from_iter_atomic\n\
                    \x20    3.32%  [.] _blake3_compress_in_place_sse41\n\
                    \x20    2.00%  [.] sqlite3VdbeExec\n\
                    \x20    1.50%  [.] __memmove_avx_unaligned_erms\n\
                    \x20    1.00%  [.] <core::iter::Map<I,F> as core::iter::Iterator>::fold\n\
                    \x20    0.50%  [.] memfold_simd::panel::RowTile<T,_>::fill\n";
        let found = profiled(said).unwrap();
        let shares: Vec<(&str, f64)> = found["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| (part["name"].as_str().unwrap(), part["share"].as_f64().unwrap()))
            .collect();
        assert_eq!(
            shares,
            [
                ("memfold_simd::arch", 0.3142),
                ("kernel", 0.0741),
                ("SQLite and the C library", 0.035),
                ("blake3", 0.0332),
                ("Rust's library", 0.01),
                ("memfold_simd::panel", 0.005),
            ]
        );
        assert_eq!(found["places"][0]["name"], "memfold_simd::arch::x86_64::avx2::hits");
        assert!(profiled("nothing").is_err());
    }
}
