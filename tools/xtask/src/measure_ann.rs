//! `measure-ann`: what `memfold bench ann` says of real and generated rows.
//!
//! Every line of `bench/results/ann.jsonl` is one width of the beam over one set of rows.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::rows::{self, Rows};
use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/ann.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "beam"];

/// Generated rows; `--full` adds the last size.
const SIZES: [u64; 2] = [100_000, 1_000_000];

/// Measures, stores and shows.
pub(crate) fn run(root: &Path, full: bool) -> bool {
    match try_run(root, full) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-ann: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, full: bool) -> Result<(), String> {
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
