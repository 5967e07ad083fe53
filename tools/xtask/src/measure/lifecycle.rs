//! How memories age and are recalled, and runs over what changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::data::{self, Store};
use super::session::Session;
use crate::results::{ask, said};

/// Memories that come in before a run over what changed.
const CHANGED: u64 = 500;
/// Runs of each kind, of which the median counts.
const RUNS: usize = 5;

/// Recalls: a line for each tier of the index.
pub(super) fn recall(session: &Session<'_>) -> Result<(), String> {
    for store in Store::looked_up(false).filter(|store| store.rows == 100_000) {
        // Recalls count accesses.
        let copy = copied(&store.file(session.root, &session.memfold)?, "recall")?;
        for tier in ["scan", "graph"] {
            let words = ["index", "build", "--json", "--quiet", "--tier", tier];
            said(session.memfold(&words).arg(&copy))?;
            let found = ask(session.bench(&["recall", "--quiet"]).arg(&copy))?;
            let mut lines = found["settings"].as_array().cloned().unwrap_or_default();
            for line in &mut lines {
                line["data"] = store.name.into();
                for field in ["rows", "tier", "recalls", "k"] {
                    line[field] = found[field].clone();
                }
            }
            session.keep(lines)?;
        }
        remove(&copy)?;
    }
    Ok(())
}

/// Ten years of nights over the committed sample.
pub(super) fn years(session: &Session<'_>) -> Result<(), String> {
    let folder = session.root.join(data::FOLDER);
    let store = folder.join("memfold-demo/brain.db");
    if !store.exists() {
        said(session.memfold(&["demo", "--quiet"]).current_dir(&folder))?;
    }
    let mut line = ask(session.bench(&["years", "--quiet"]).arg(&store))?;
    line["data"] = "sample".into();
    session.keep(vec![line])
}

/// Published expressions of time.
pub(super) fn temporal(session: &Session<'_>) -> Result<(), String> {
    let corpus = "pipeline/lifecycle/tests/data/temporal.jsonl";
    let mut cargo = crate::cargo(session.root);
    cargo.args(["run", "--quiet", "--locked", "-p", "memfold-lifecycle"]);
    cargo.args(["--example", "temporal_corpus", "--", corpus]);
    let mut line = ask(&mut cargo)?;
    line["data"] = "temporal".into();
    session.keep(vec![line])
}

/// Runs over 500 new memories of a store that was searched, beside runs over all of it.
pub(super) fn incremental(session: &Session<'_>) -> Result<(), String> {
    let hundred_thousand = Store::all(false).find(|store| store.rows == 100_000);
    // To merge the duplicates of a million first takes half an hour.
    let million = session.full.then(Store::distinct);
    for store in hundred_thousand.into_iter().chain(million) {
        let rows = store.rows;
        let copy = copied(&store.file(session.root, &session.memfold)?, "incremental")?;
        said(
            session.memfold(&["index", "build", "--json", "--quiet", "--tier", "scan"]).arg(&copy),
        )?;
        let rules = session.root.join("bench/incremental/rules.yaml");
        let consolidate = |words: &[&str]| {
            let mut command = session.memfold(&["consolidate", "--json", "--quiet"]);
            command.args(words).arg("--config").arg(&rules).arg(&copy);
            command
        };
        let execute = ["--execute", "--max-change-share", "1"];
        said(&mut consolidate(&execute))?;
        // What the run itself changed is looked at once more.
        said(consolidate(&execute).arg("--incremental"))?;
        add_memories(session, &copy)?;
        for (mode, runs, words) in
            [("incremental", RUNS, &["--incremental"][..]), ("whole", 1, &[])]
        {
            let mut found = Vec::new();
            for _ in 0..runs {
                found.push(ask(&mut consolidate(words))?);
            }
            let seconds =
                |document: &Value| document["seconds"]["total"].as_f64().unwrap_or(f64::NAN);
            found.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            let median = found[runs / 2].clone();
            let line = json!({
                "data": store.name, "mode": mode, "rows": rows, "runs": runs,
                "seconds": seconds(&median), "slowest_seconds": seconds(&found[runs - 1]),
                "incremental": median["incremental"], "planned": median["planned"],
                "stages": median["seconds"], "peak_anon_bytes": median["peak_anon_bytes"],
                "isa": median["isa"], "threads": median["threads"],
            });
            session.keep(vec![line])?;
        }
        remove(&copy)?;
    }
    Ok(())
}

/// Adds memories as the owner of a store would, by a script that knows nothing of memfold.
fn add_memories(session: &Session<'_>, store: &Path) -> Result<(), String> {
    let mut add = Command::new("python3");
    add.arg(session.root.join("bench/incremental/add_memories.py"));
    said(add.arg(store).arg(CHANGED.to_string())).map(drop)
}

fn copied(store: &Path, name: &str) -> Result<PathBuf, String> {
    let copy = store.with_extension(format!("{name}.db"));
    std::fs::copy(store, &copy).map_err(|error| format!("copy {}: {error}", store.display()))?;
    let mut index = copy.as_os_str().to_owned();
    index.push(".memfold");
    let _ = std::fs::remove_dir_all(&index);
    Ok(copy)
}

/// Removes a file, and the index beside a store.
fn remove(file: &Path) -> Result<(), String> {
    std::fs::remove_file(file).map_err(|error| format!("remove {}: {error}", file.display()))?;
    let mut index = file.as_os_str().to_owned();
    index.push(".memfold");
    let _ = std::fs::remove_dir_all(index);
    Ok(())
}
