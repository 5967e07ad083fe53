//! `measure`: times whole `memfold consolidate` processes and stores the result as data.
//!
//! Every line of `bench/results/consolidate.jsonl` is one store size: the command, the machine, the
//! wall times of all runs, and what the runs reported of themselves.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{figures, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/consolidate.jsonl";

/// A store to build and how often to consolidate it.
struct Workload {
    name: &'static str,
    rows: u64,
    runs: usize,
    /// Arguments of `memfold generate` beside rows and output.
    generate: Vec<String>,
}

/// Measures all sizes; `--full` adds a million rows. With `MEMFOLD_DATA`, real vectors and texts as well.
pub(crate) fn run(root: &Path, full: bool) -> bool {
    let Some(binary) = release_binary(root) else { return false };
    let mut lines = String::new();
    for workload in workloads(full) {
        match measure(root, &binary, &workload) {
            Ok(line) => {
                report::line(&line);
                lines.push_str(&line);
                lines.push('\n');
            }
            Err(reason) => {
                report::line(&format!("measure: {}: {reason}", workload.name));
                return false;
            }
        }
    }
    let path = root.join(RESULTS);
    let written = std::fs::create_dir_all(root.join("bench/results"))
        .and_then(|()| std::fs::write(&path, lines));
    if let Err(error) = &written {
        report::line(&format!("measure: cannot write {}: {error}", path.display()));
    }
    written.is_ok() && figures::write(root)
}

/// Builds memfold as it is released and returns the binary, or `None` where that fails.
pub(crate) fn release_binary(root: &Path) -> Option<PathBuf> {
    let words = ["build", "--release", "--locked", "--package", "memfold"];
    let built = Command::new("cargo").current_dir(root).args(words).status();
    built.is_ok_and(|status| status.success()).then(|| root.join("target/release/memfold"))
}

fn workloads(full: bool) -> Vec<Workload> {
    let mut list = Vec::new();
    if let Some(data) = std::env::var_os("MEMFOLD_DATA") {
        let sizes = [("real-1k", 1_000, 25), ("real-10k", 10_000, 15), ("real-36k", 36_000, 9)];
        list.extend(sizes.map(|size| real(Path::new(&data), size)));
    }
    let synthetic = |name, rows, runs| Workload { name, rows, runs, generate: Vec::new() };
    list.extend([
        synthetic("synthetic-1k", 1_000, 25),
        synthetic("synthetic-36k", 36_000, 9),
        synthetic("synthetic-100k", 100_000, 5),
    ]);
    if full {
        list.push(synthetic("synthetic-1m", 1_000_000, 1));
    }
    list
}

/// Returns a store of so many real memories, which it builds where there is none; `data` is the folder that
/// `MEMFOLD_DATA` names.
pub(crate) fn real_store(root: &Path, binary: &Path, data: &Path) -> Result<PathBuf, String> {
    store(root, binary, &real(data, ("real-36k", 36_000, 1)))
}

/// Returns stores to look memories up in, with their names and rows; builds those that are missing.
pub(crate) fn stores(
    root: &Path,
    binary: &Path,
    full: bool,
) -> Result<Vec<(&'static str, u64, PathBuf)>, String> {
    let wanted = ["synthetic-1k", "real-36k", "synthetic-100k", "synthetic-1m"];
    let workloads = workloads(full).into_iter().filter(|load| wanted.contains(&load.name));
    workloads.map(|load| Ok((load.name, load.rows, store(root, binary, &load)?))).collect()
}

fn real(data: &Path, (name, rows, runs): (&'static str, u64, usize)) -> Workload {
    let file = |name: &str| data.join("embeddings").join(name).display().to_string();
    let (vectors, texts) = (file("vectors_f16.npy"), file("texts.parquet"));
    let generate = vec!["--from".into(), vectors, "--texts".into(), texts];
    Workload { name, rows, runs, generate }
}

fn store(root: &Path, binary: &Path, workload: &Workload) -> Result<PathBuf, String> {
    let folder = root.join("target/measure");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let store = folder.join(format!("{}.db", workload.name));
    if !store.exists() {
        let rows = workload.rows.to_string();
        let mut generate = Command::new(binary);
        generate.args(["generate", "--brain", "--quiet", "--rows", &rows]).args(&workload.generate);
        let status = generate.arg("--output").arg(&store).status().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("generate ended with {status}"));
        }
    }
    Ok(store)
}

fn measure(root: &Path, binary: &Path, workload: &Workload) -> Result<String, String> {
    let store = store(root, binary, workload)?;
    let mut wall = Vec::new();
    let mut output = String::new();
    for _ in 0..workload.runs {
        let (seconds, text) = consolidate(binary, &store)?;
        wall.push(seconds);
        output = text;
    }
    wall.sort_by(f64::total_cmp);
    Ok(line(workload, &wall, &output))
}

fn consolidate(binary: &Path, store: &Path) -> Result<(f64, String), String> {
    let mut command = Command::new(binary);
    command.arg("consolidate").arg(store).args(["--json", "--quiet", "--threads", "2"]);
    results::timed(&mut command)
}

fn line(workload: &Workload, wall: &[f64], output: &str) -> String {
    let mut line = String::from("{");
    let mut field = |name: &str, value: &str| {
        let comma = if line.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _written = write!(line, "{comma}\"{name}\":{value}");
    };
    let extra: String = match workload.generate.is_empty() {
        true => String::new(),
        false => " --from vectors_f16.npy --texts texts.parquet".to_owned(),
    };
    let command = format!(
        "memfold generate --brain --rows {}{extra} --output S.db && memfold consolidate S.db --json --threads 2",
        workload.rows
    );
    field("data", &quoted(workload.name));
    field("rows", &workload.rows.to_string());
    field("command", &quoted(&command));
    field("machine", &quoted(&machine()));
    field("version", &quoted(env!("CARGO_PKG_VERSION")));
    field("runs", &wall.len().to_string());
    field("wall_seconds_median", &format!("{:.4}", wall[wall.len() / 2]));
    field("wall_seconds_min", &format!("{:.4}", wall[0]));
    field("wall_seconds_max", &format!("{:.4}", wall[wall.len() - 1]));
    let compact: String = output.lines().map(str::trim).collect();
    field("last_run", &compact);
    line.push('}');
    line
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Names the processor and the number of cores.
pub(crate) fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{} (family {}, model {}), {cores} cores",
        field("model name"),
        field("cpu family"),
        field("model\t")
    )
}
