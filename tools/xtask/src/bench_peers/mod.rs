//! `bench-peers`: other engines and memfold do the same work, in turn, on the same rows.
//!
//! The engines are Python (`bench/peers`), set up apart from the build. Every line of
//! `bench/results/peers-join.jsonl` is one engine at one setting on one set of rows, every line of
//! `bench/results/peers-ann.jsonl` one engine at one width of its beam.

mod environment;
pub(crate) mod joins;
pub(crate) mod lookups;
mod options;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{figures, measure, report, results};
use options::{Options, Part};

/// Sets up, measures, stores and shows.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    match try_run(root, arguments) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("bench-peers: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = &Options::parse(arguments)?;
    let memfold = &measure::release_binary(root).ok_or("memfold cannot be built")?;
    let python = &environment::ready(root)?;
    let command = std::iter::once("cargo xtask bench-peers");
    let command: Vec<_> = command.chain(arguments.iter().map(String::as_str)).collect();
    let (run, command) = (&results::run_name(), &command.join(" "));
    let bench = Bench { root, python, memfold, options, run, command };
    if options.asks_for(Part::Joins) {
        joins::run(&bench)?;
    }
    if options.asks_for(Part::Lookups) {
        lookups::run(&bench)?;
    }
    Ok(())
}

/// What all work of one call shares.
struct Bench<'a> {
    root: &'a Path,
    python: &'a Path,
    memfold: &'a Path,
    options: &'a Options,
    run: &'a str,
    command: &'a str,
}

impl Bench<'_> {
    /// Begins a call of a script of `bench/peers`, on rows that are shown as `name`.
    fn runner(&self, script: &str, data: &Path, name: &str) -> Command {
        let mut command = Command::new(self.python);
        command.arg(self.root.join("bench/peers").join(script)).arg("--data").arg(data);
        command.args(["--name", name, "--threads", &self.options.threads.to_string()]);
        command.arg("--memfold").arg(self.memfold);
        command
    }

    fn sign(&self, line: &mut Value) {
        results::sign(line, self.run, self.command);
    }
}
