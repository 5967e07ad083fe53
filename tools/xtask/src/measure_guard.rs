//! `measure-guard`: what `memfold bench guard` says of the development sets.
//!
//! Every line of `bench/results/guard.jsonl` is one set of labelled pairs, with all figures and the operating curve.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/guard.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data"];

/// Measures, stores and shows.
pub(crate) fn run(root: &Path) -> bool {
    match try_run(root) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-guard: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path) -> Result<(), String> {
    let sets = sets()?;
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let run = results::run_name();
    for set in sets {
        let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut line = json!({ "data": name, "last_run": judge(&memfold, &set)? });
        results::sign(&mut line, &run, "cargo xtask measure-guard");
        report::line(&figures::guard::line(&line));
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
    }
    Ok(())
}

/// Returns the files of pairs, by name.
fn sets() -> Result<Vec<PathBuf>, String> {
    let data = std::env::var_os("MEMFOLD_DATA").filter(|data| !data.is_empty());
    let folder = PathBuf::from(data.ok_or("MEMFOLD_DATA names no folder")?).join("text");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        sets.push(entry.map_err(failed)?.path());
    }
    sets.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    sets.sort();
    if sets.is_empty() { Err(format!("{}: no *.jsonl", folder.display())) } else { Ok(sets) }
}

fn judge(memfold: &Path, set: &Path) -> Result<Value, String> {
    let mut command = Command::new(memfold);
    command.args(["bench", "guard", "--json", "--quiet", "--pairs"]).arg(set);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run memfold: {error}"))?;
    if !output.status.success() {
        return Err(format!("bench guard ended with {}", output.status));
    }
    let said = serde_json::from_slice(&output.stdout);
    said.map_err(|error| format!("what bench guard said: {error}"))
}
