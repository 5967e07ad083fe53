//! `measure-export`: stores become files, and files become files of other formats.
//!
//! Every line of `bench/results/export.jsonl` is one way of reading or writing the vectors of one store.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/export.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "from", "to"];

/// Smaller stores than these are done before anything can be told.
const ROWS_MIN: u64 = 100_000;

/// Conversions of each kind.
const RUNS: usize = 3;

/// Formats, each made of the one before it, by their endings.
const CHAIN: [&str; 6] = ["parquet", "arrow", "npy", "fbin", "arrow", "parquet"];

/// Measures, stores and shows; `--full` adds a million rows.
pub(crate) fn run(root: &Path, full: bool) -> bool {
    match try_run(root, full) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-export: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, full: bool) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let run = results::run_name();
    let command =
        if full { "cargo xtask measure-export --full" } else { "cargo xtask measure-export" };
    for (name, rows, store) in measure::stores(root, &memfold, full)? {
        if rows < ROWS_MIN {
            continue;
        }
        let mut lines = exports(&memfold, &store, root)?;
        lines.extend(conversions(&memfold, &store)?);
        for line in &mut lines {
            line["data"] = name.into();
            results::sign(line, &run, command);
            report::line(&figures::export::line(line));
        }
        results::renew(&root.join(RESULTS), &lines, KEYS)?;
    }
    Ok(())
}

fn exports(memfold: &Path, store: &Path, root: &Path) -> Result<Vec<Value>, String> {
    let mut bench = Command::new(memfold);
    bench.args(["bench", "export", "--cold", "--json", "--quiet"]).arg(store);
    let said = results::said(bench.env("TMPDIR", root.join("target/measure")))?;
    let found: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let settings = found["settings"].as_array().cloned().unwrap_or_default();
    let line = |setting: &Value| {
        let mut line = setting.clone();
        let name = &setting["name"];
        line["from"] = match (name.as_str(), setting["cold"].as_bool()) {
            (Some("disk"), _) => "memory".into(),
            (_, Some(true)) => "brain.db, cold".into(),
            _ => "brain.db".into(),
        };
        line["to"] = if *name == "sqlite" { "nothing".into() } else { name.clone() };
        for field in ["rows", "vector_bytes", "runs"] {
            line[field] = found[field].clone();
        }
        line
    };
    Ok(settings.iter().map(line).collect())
}

/// Converts along the chain, so that every format is read and written.
fn conversions(memfold: &Path, store: &Path) -> Result<Vec<Value>, String> {
    let file = |at: usize| store.with_extension(format!("{at}.{}", CHAIN[at]));
    let mut export = Command::new(memfold);
    export.args(["export", "--quiet", "--force"]).arg(store).arg("--output").arg(file(0));
    results::said(&mut export)?;
    let mut lines = Vec::new();
    for at in 1..CHAIN.len() {
        lines.push(conversion(memfold, (&file(at - 1), &file(at)))?);
    }
    (0..CHAIN.len()).try_for_each(|at| remove(&file(at)))?;
    Ok(lines)
}

fn remove(file: &Path) -> Result<(), String> {
    std::fs::remove_file(file).map_err(|error| format!("remove {}: {error}", file.display()))
}

fn conversion(memfold: &Path, (from, to): (&Path, &Path)) -> Result<Value, String> {
    let mut documents: Vec<Value> = Vec::new();
    for _ in 0..RUNS {
        // Each finds as much room, and none waits for the room of a file that it replaces.
        if to.exists() {
            remove(to)?;
        }
        let mut convert = Command::new(memfold);
        convert.args(["convert", "--json", "--quiet"]).args([from, to]);
        let said = results::said(&mut convert)?;
        documents.push(serde_json::from_str(&said).map_err(|error| error.to_string())?);
    }
    let seconds = |document: &Value| document["seconds"].as_f64().unwrap_or(f64::NAN);
    documents.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let (median, last) = (&documents[(RUNS - 1) / 2], &documents[RUNS - 1]);
    let rows = median["rows"].as_u64().ok_or("convert does not say how many rows")?;
    let dim = median["dim"].as_u64().ok_or("convert does not say how many dimensions")?;
    let vector_bytes = rows * dim * 4;
    Ok(json!({
        "from": median["from"],
        "to": median["to"],
        "rows": rows,
        "vector_bytes": vector_bytes,
        "runs": RUNS,
        "seconds": seconds(median),
        "fastest_seconds": seconds(&documents[0]),
        "slowest_seconds": seconds(last),
        "bytes_per_second": vector_bytes as f64 / seconds(median),
        "file_bytes": median["bytes_written"],
        "peak_anon_bytes": median["peak_anon_bytes"],
    }))
}
