//! `torture`: breaks runs of the release binary on purpose and stores what was counted.
//!
//! The harness is the binary `torture` of `memfold-tests`, which the suites share. Every line of
//! `bench/results/torture.jsonl` is one suite on one store: how often it was disturbed, what became of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::measure::machine;
use crate::report;

const RESULTS: &str = "bench/results/torture.jsonl";

/// Builds, runs, and renews the lines of the suites that ran; `arguments` go to the harness.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    match try_run(root, arguments) {
        Ok(()) => true,
        Err(reason) => {
            report::line(&format!("torture: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, arguments: &[String]) -> Result<(), String> {
    for (package, binary) in [("memfold", "memfold"), ("memfold-tests", "torture")] {
        let words = ["build", "--release", "--locked", "--package", package, "--bin", binary];
        let built = Command::new("cargo").current_dir(root).args(words).status();
        if !built.is_ok_and(|status| status.success()) {
            return Err(format!("{package} cannot be built"));
        }
    }
    let output = Command::new(root.join("target/release/torture"))
        .arg("--memfold")
        .arg(root.join("target/release/memfold"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run the harness: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let command = ["cargo xtask torture"].into_iter().chain(arguments.iter().map(String::as_str));
    let command = command.collect::<Vec<_>>().join(" ");
    let lines: Result<Vec<String>, String> =
        said.lines().map(|line| signed(line, &command)).collect();
    store(&root.join(RESULTS), &lines?)?;
    if output.status.success() { Ok(()) } else { Err(format!("it ended with {}", output.status)) }
}

/// Adds to a line where it comes from and how to get it again.
fn signed(line: &str, command: &str) -> Result<String, String> {
    let mut value: Value =
        serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    value["command"] = command.into();
    value["machine"] = machine().into();
    value["version"] = env!("CARGO_PKG_VERSION").into();
    Ok(value.to_string())
}

/// Replaces the stored lines of the suites that ran.
fn store(path: &Path, lines: &[String]) -> Result<(), String> {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let text = renewed(&old, lines);
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn renewed(old: &str, lines: &[String]) -> String {
    let suite = |line: &str| {
        let value: Option<Value> = serde_json::from_str(line).ok();
        value.and_then(|value| value["suite"].as_str().map(str::to_owned))
    };
    let ran: BTreeSet<Option<String>> = lines.iter().map(|line| suite(line)).collect();
    let kept = old.lines().filter(|line| !ran.contains(&suite(line)));
    kept.chain(lines.iter().map(String::as_str)).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::{renewed, signed};

    #[test]
    fn lines_of_suites_that_ran_are_replaced() {
        let old = "{\"suite\":\"kill\",\"n\":1}\n{\"suite\":\"reader\",\"n\":2}\n{\"suite\":\"kill\",\"n\":3}\n";
        let new = ["{\"suite\":\"kill\",\"n\":4}".to_owned()];
        let kept = "{\"suite\":\"reader\",\"n\":2}\n{\"suite\":\"kill\",\"n\":4}\n";
        assert_eq!(renewed(old, &new), kept);
        assert_eq!(renewed("", &[]), "");
    }

    #[test]
    fn a_line_says_how_to_get_it_again() {
        let line = signed("{\"suite\":\"kill\"}", "cargo xtask torture --full").unwrap();
        assert!(line.contains("\"command\":\"cargo xtask torture --full\""), "{line}");
        assert!(line.contains("\"machine\":"), "{line}");
    }
}
