//! What criterion left: the median of each benchmark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The medians of each benchmark in nanoseconds, one for each round.
pub(super) type Medians = BTreeMap<String, Vec<f64>>;

/// Adds a round.
pub(super) fn add(medians: &mut Medians, round: Vec<(String, f64)>) {
    for (name, median) in round {
        medians.entry(name).or_default().push(median);
    }
}

/// Reads every `new/benchmark.json` and the `estimates.json` beside it.
pub(super) fn read(home: &Path) -> Result<Vec<(String, f64)>, String> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("new/benchmark.json") {
                let name = json(&path)?["full_id"].as_str().map(str::to_owned);
                let estimates = path.with_file_name("estimates.json");
                let median = json(&estimates)?["median"]["point_estimate"].as_f64();
                let both = name.zip(median.filter(|median| *median > 0.0));
                found.push(both.ok_or_else(|| format!("{}: no median", estimates.display()))?);
            }
        }
    }
    Ok(found)
}

/// What a folder holds; nothing where there is none, as where no benchmark was run.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|e| e.path()).map_err(failed)).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let value =
        text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    value.map_err(|error| format!("{}: {error}", path.display()))
}
