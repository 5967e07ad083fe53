//! `measure-ann`: what `memfold bench ann` says of real and generated rows.
//!
//! Every line of `bench/results/ann.jsonl` is one width of the beam over one set of rows; with `--peers`, every line of
//! `bench/results/peers-ann.jsonl` is one engine at one width, all of them in turn on the same rows.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::rows::{self, Rows};
use crate::{bench_peers, figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/ann.jsonl";
/// Where those of all engines are kept.
pub(crate) const PEERS: &str = "bench/results/peers-ann.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "beam"];
const PEERS_KEYS: &[&str] = &["data", "engine"];

/// Generated rows; `--full` adds the last size.
const SIZES: [u64; 2] = [100_000, 1_000_000];

/// Measures, stores and shows.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let done = match has("--peers") {
        true => beside_peers(root, has("--full")),
        false => alone(root, has("--full")),
    };
    match done {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-ann: {reason}"));
            false
        }
    }
}

/// All engines on one set of generated rows.
fn beside_peers(root: &Path, full: bool) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let python = bench_peers::environment::ready(root)?;
    let rows = Rows::synthetic(if full { SIZES[1] } else { SIZES[0] });
    let mut command = Command::new(python);
    command.arg(root.join("bench/peers/lookups.py")).arg("--data");
    command
        .arg(rows.file(root, &memfold)?)
        .args(["--name", &rows.name])
        .arg("--memfold")
        .arg(&memfold);
    let run = results::run_name();
    let full = if full { " --full" } else { "" };
    let mut lines = results::parse(&results::said(&mut command)?)?;
    for line in &mut lines {
        line["rows_from"] = rows.recipe().into();
        results::sign(line, &run, &format!("cargo xtask measure-ann --peers{full}"));
    }
    results::renew(&root.join(PEERS), &lines, PEERS_KEYS)
}

fn alone(root: &Path, full: bool) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let run = results::run_name();
    let command = if full { "cargo xtask measure-ann --full" } else { "cargo xtask measure-ann" };
    let sizes = if full { &SIZES[..] } else { &SIZES[..1] };
    let synthetic = sizes.iter().map(|&rows| (Rows::synthetic(rows), None));
    let real = Rows::real().map(|rows| (rows, queries()));
    for (rows, queries) in real.into_iter().chain(synthetic) {
        let base = rows.file(root, &memfold)?;
        for said in sweep(&memfold, &base, queries.as_deref())? {
            let mut line = json!({
                "data": rows.name, "beam": said["search_beam_width"], "rows_from": rows.recipe(), "last_run": said,
            });
            results::sign(&mut line, &run, command);
            report::line(&figures::ann::line(&line));
            results::renew(&root.join(RESULTS), &[line], KEYS)?;
        }
    }
    Ok(())
}

/// The real queries, where `MEMFOLD_DATA` has them; otherwise rows are held out.
fn queries() -> Option<PathBuf> {
    let path = rows::data_folder()?.join("embeddings/queries_f16.npy");
    path.is_file().then_some(path)
}

fn sweep(memfold: &Path, base: &Path, queries: Option<&Path>) -> Result<Vec<Value>, String> {
    let mut command = Command::new(memfold);
    command.args(["bench", "ann", "--json", "--quiet", "--base"]).arg(base);
    if let Some(queries) = queries {
        command.arg("--queries").arg(queries);
    }
    results::parse(&results::said(&mut command)?)
}
