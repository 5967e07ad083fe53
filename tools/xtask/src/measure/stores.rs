//! Stores of other systems: how long a pull and a plan take.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::data;
use super::session::Session;
use crate::results::{said, timed};

/// Pulls and plans of a store that is mirrored already, of which the median counts.
const RUNS: usize = 5;
/// The time of the plans: every memory is old enough to be touched.
const NOW: &str = "2026-06-30T12:00:00Z";

/// A store to be made.
struct Store {
    kind: &'static str,
    records: u64,
    /// Its name within the folder of generated data.
    name: &'static str,
}

const STORES: [Store; 3] = [
    Store { kind: "json_folder", records: 10_000, name: "json-folder-10k" },
    Store { kind: "git_notes", records: 20_000, name: "git-notes-20k" },
    Store { kind: "mcp_memory", records: 10_000, name: "memory-10k.jsonl" },
];

/// A line for each kind of store: the first pull into a new mirror, and with vectors there a pull that finds nothing new
/// together with a plan.
pub(super) fn run(session: &Session<'_>) -> Result<(), String> {
    for Store { kind, records, name } in STORES {
        let folder = session.root.join(data::FOLDER);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let store = folder.join(name);
        if !store.exists() {
            said(script(session, &[kind, &records.to_string()]).arg(&store))?;
        }
        let mirror = folder.join(format!("{name}.mirror.db"));
        remove(&mirror);
        let sync = ["sync", "--json", "--quiet", "--mirror"];
        let (first_seconds, pulled) = timed(session.memfold(&sync).arg(&mirror).arg(&store))?;
        let pulled: Value = serde_json::from_str(&pulled).map_err(|error| error.to_string())?;
        said(script(session, &["vectors", "0"]).arg(&mirror))?;
        let words = ["consolidate", "--json", "--quiet", "--now", NOW, "--mirror"];
        let mut found = Vec::new();
        for _ in 0..session.runs.unwrap_or(RUNS) {
            let (seconds, document) = timed(session.memfold(&words).arg(&mirror).arg(&store))?;
            let document: Value =
                serde_json::from_str(&document).map_err(|error| error.to_string())?;
            found.push((seconds, document));
        }
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let (seconds, document) = &found[found.len() / 2];
        session.keep(vec![json!({
            "data": format!("synthetic-{name}"), "kind": kind,
            "records": pulled["pulled"]["records"], "left_out": pulled["pulled"]["skipped"].as_array().map(Vec::len),
            "live": document["loaded"]["live"], "with_vector": document["loaded"]["with_embedding"],
            "planned": document["planned"], "runs": found.len(),
            "first_pull_seconds": first_seconds, "seconds": seconds,
            "slowest_seconds": found[found.len() - 1].0, "total_seconds": first_seconds + seconds,
            "plan_seconds": document["seconds"]["total"], "peak_anon_bytes": document["peak_anon_bytes"],
            "isa": document["isa"], "threads": document["threads"],
            "load_average": load_average(),
        })])?;
        remove(&mirror);
    }
    Ok(())
}

/// A call of the script that makes stores, which knows nothing of memfold.
fn script(session: &Session<'_>, words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(session.root.join("bench/stores/make_store.py")).args(words);
    command
}

/// What else the machine did: the load of the last minute.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Removes a mirror with what stands beside it.
fn remove(mirror: &Path) {
    for ending in ["", "-wal", "-shm", ".memfold-sync-lock", ".memfold-lock"] {
        let mut path = mirror.as_os_str().to_owned();
        path.push(ending);
        // What is not there needs no removal; what cannot be removed fails the next step.
        let _ = std::fs::remove_file(PathBuf::from(path));
    }
}
