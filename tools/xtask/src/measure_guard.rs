//! `measure-guard`: what `memfold bench guard` says of the development sets.
//!
//! Every line of `bench/results/guard.jsonl` is one set of labelled pairs, with all figures and the operating curve, or
//! a real store: what the guard says of its near pairs and how many are flagged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{figures, measure, report, results, rows};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/guard.jsonl";

/// The similarity from which on people call two texts the same.
const SAME: &str = "4.5";

/// The cosine from which on pairs of the store are judged.
const NEAR: &str = "0.85";

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
    let verdicts = root.join("target/measure/verdicts.jsonl");
    for set in sets {
        let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let judged = judge(&memfold, &set, &verdicts)?;
        if has_similarities(&judged) {
            match count_apart(root, &set, &verdicts) {
                Ok(counted) => {
                    let mut line =
                        json!({ "data": format!("{name} ≥ {SAME}"), "last_run": counted });
                    results::sign(&mut line, &run, "cargo xtask measure-guard");
                    results::renew(&root.join(RESULTS), &[line], KEYS)?;
                }
                Err(reason) => report::line(&format!("paraphrases not counted: {reason}")),
            }
        }
        let mut line = json!({ "data": name, "last_run": judged });
        results::sign(&mut line, &run, "cargo xtask measure-guard");
        report::line(&figures::guard::line(&line));
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
    }
    for mut line in bench(root)? {
        results::sign(&mut line, &run, "cargo xtask measure-guard");
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
    }
    if let Some(data) = rows::data_folder().filter(|data| data.join("embeddings").is_dir()) {
        let store = measure::real_store(root, &memfold, &data)?;
        let mut line = json!({ "data": "real-36k", "last_run": consolidate(&memfold, &store)? });
        results::sign(&mut line, &run, "cargo xtask measure-guard");
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
    }
    Ok(())
}

/// Runs the benchmark of single pairs; returns a line for each kind.
fn bench(root: &Path) -> Result<Vec<Value>, String> {
    let words = ["bench", "--locked", "--package", "memfold-bench", "--bench", "guard"];
    let done = Command::new("cargo").current_dir(root).args(words).stdout(Stdio::null()).status();
    if !done.is_ok_and(|status| status.success()) {
        return Err("the benchmark of the guard failed".to_owned());
    }
    let folder = root.join("target/criterion/guard/read-and-judge");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut lines = Vec::new();
    for kind in std::fs::read_dir(&folder).map_err(failed)? {
        let kind = kind.map_err(failed)?;
        let Ok(text) = std::fs::read_to_string(kind.path().join("new/estimates.json")) else {
            continue; // A report, not a kind.
        };
        let estimates: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let median = estimates["median"]["point_estimate"].as_f64().ok_or("no median")?;
        lines.push(json!({
            "data": format!("one pair: {}", kind.file_name().to_string_lossy()),
            "last_run": { "criterion_median_microseconds": median / 1_000.0 },
        }));
    }
    lines.sort_by_key(|line| line["data"].to_string());
    Ok(lines)
}

/// Judges all near pairs of a store.
fn consolidate(memfold: &Path, store: &Path) -> Result<Value, String> {
    let mut command = Command::new(memfold);
    command.arg("consolidate").arg(store).args(["--threshold", NEAR, "--json", "--quiet"]);
    let report = ask(&mut command)?;
    Ok(json!({
        "memories": report["loaded"]["live"],
        "threshold": NEAR,
        "pairs": report["detected"]["pairs"],
        "verdicts": report["stats"]["verdicts"],
        "flags": report["planned"]["flag_contradiction"],
        "flags_deferred": report["detected"]["flags_deferred"],
        "deferred_patterns": report["stats"]["deferred_patterns"],
    }))
}

/// Returns the files of pairs, by name.
fn sets() -> Result<Vec<PathBuf>, String> {
    let folder = rows::data_folder().ok_or("MEMFOLD_DATA names no folder")?.join("text");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        sets.push(entry.map_err(failed)?.path());
    }
    sets.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    sets.sort();
    if sets.is_empty() { Err(format!("{}: no *.jsonl", folder.display())) } else { Ok(sets) }
}

/// Tells whether the labels are similarities, which are counted in bands.
fn has_similarities(judged: &Value) -> bool {
    let mut labels = judged["labels"].as_array().into_iter().flatten();
    labels.any(|label| label["label"] == "4.5-5")
}

/// Counts linked paraphrases by a script that knows nothing of the guard.
fn count_apart(root: &Path, set: &Path, verdicts: &Path) -> Result<Value, String> {
    let mut command = Command::new("python3");
    command.arg(root.join("bench/guard/paraphrases.py")).args([set, verdicts]).arg(SAME);
    ask(&mut command)
}

fn judge(memfold: &Path, set: &Path, verdicts: &Path) -> Result<Value, String> {
    let mut command = Command::new(memfold);
    command.args(["bench", "guard", "--json", "--quiet", "--force", "--pairs"]).arg(set);
    command.arg("--verdicts").arg(verdicts);
    ask(&mut command)
}

/// Runs a command that prints one JSON document.
fn ask(command: &mut Command) -> Result<Value, String> {
    let said = serde_json::from_str(&results::said(command)?);
    said.map_err(|error| format!("what {} said: {error}", command.get_program().to_string_lossy()))
}
