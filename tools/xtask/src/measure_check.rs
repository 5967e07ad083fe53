//! `measure-check`: `memfold bench check` on generated stores, alone and beside four writers.
//!
//! Every line of `bench/results/check.jsonl` is one way of checking one store.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/check.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "mode", "writers", "cold"];

/// Smaller stores than these say nothing of the budgets.
const ROWS_MIN: u64 = 30_000;

/// Measures, stores and shows; `--full` adds a million rows.
pub(crate) fn run(root: &Path, full: bool) -> bool {
    match try_run(root, full) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-check: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, full: bool) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let run = results::run_name();
    let command =
        if full { "cargo xtask measure-check --full" } else { "cargo xtask measure-check" };
    for (name, rows, store) in measure::stores(root, &memfold, full)? {
        if rows < ROWS_MIN {
            continue;
        }
        let mut build = Command::new(&memfold);
        results::said(build.args(["index", "build", "--json", "--quiet"]).arg(&store))?;
        let plot = root.join("docs/plots").join(format!("check-{name}.svg"));
        let mut bench = Command::new(&memfold);
        bench.args(["bench", "check"]).arg(&store);
        bench.args(["--writers", "4", "--cold", "--json", "--quiet", "--force", "--histogram"]);
        let said = results::said(bench.arg(&plot).env("TMPDIR", root.join("target/measure")))?;
        let found: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        for setting in found["settings"].as_array().into_iter().flatten() {
            let mut line = setting.clone();
            for field in ["index", "rows", "peak_anon_bytes", "isa"] {
                line[field] = found[field].clone();
            }
            line["data"] = name.into();
            results::sign(&mut line, &run, command);
            report::line(&figures::check::line(&line));
            results::renew(&root.join(RESULTS), &[line], KEYS)?;
        }
    }
    Ok(())
}
