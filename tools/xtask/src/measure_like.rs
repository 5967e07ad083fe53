//! `measure-like`: `memfold bench likeness` over real vectors and others generated like them.
//!
//! Every line of `bench/results/like.jsonl` is one number of generated rows. Nothing is timed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{figures, report, results, rows};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/like.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "rows"];

/// Rows to generate, about as many as there are and four times as many, and how their plots begin.
const WORKLOADS: [(u64, &str); 2] = [(36_000, "like"), (144_000, "like-4x")];

/// Measures, stores and shows.
pub(crate) fn run(root: &Path) -> bool {
    match try_run(root) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-like: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path) -> Result<(), String> {
    let real = rows::real_file().ok_or("MEMFOLD_DATA names no folder of real vectors")?;
    let memfold = binary(root)?;
    let folder = root.join("target/measure");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let run = results::run_name();
    for (rows, name) in WORKLOADS {
        let generated = folder.join(format!("{name}.npy"));
        let mut generate = Command::new(&memfold);
        generate.args(["generate", "--quiet", "--force", "--rows", &rows.to_string(), "--like"]);
        results::said(generate.arg(&real).arg("--output").arg(&generated))?;
        let plots = root.join("docs/plots").join(name);
        let mut bench = Command::new(&memfold);
        bench.args(["bench", "likeness", "--json", "--quiet", "--force", "--plots"]).arg(&plots);
        let said = results::said(bench.args([&real, &generated]))?;
        let mut line: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        line["data"] = "real-36k".into();
        line["rows"] = rows.into();
        results::sign(&mut line, &run, "cargo xtask measure-like");
        report::line(&figures::like::line(&line));
        results::renew(&root.join(RESULTS), &[line], KEYS)?;
        std::fs::remove_file(&generated).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Builds memfold as the chores are built: nothing is timed.
fn binary(root: &Path) -> Result<PathBuf, String> {
    let words = ["build", "--quiet", "--locked", "--workspace", "--bin", "memfold"];
    let built = Command::new("cargo").current_dir(root).args(words).status();
    match built.is_ok_and(|status| status.success()) {
        true => Ok(root.join("target/debug/memfold")),
        false => Err("memfold cannot be built".to_owned()),
    }
}
