//! `torture`: breaks runs of the release binary on purpose and stores what was counted.
//!
//! The harness is the binary `torture` of `memfold-tests`, which the suites share. Every line of
//! `bench/results/torture.jsonl` is one suite on one store: how often it was disturbed, what became of it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::measure::binary;
use crate::results;

const RESULTS: &str = "bench/results/torture.jsonl";

/// Builds, runs, and renews the lines of the suites that ran; `arguments` go to the harness.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let memfold = binary(root, "memfold")?;
    let output = Command::new(binary(root, "torture")?)
        .arg("--memfold")
        .arg(memfold)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run the harness: {error}"))?;
    let mut lines = results::parse(&String::from_utf8_lossy(&output.stdout))?;
    let (began, command) = (results::run_name(), results::typed("torture", arguments));
    lines.iter_mut().for_each(|line| results::sign(line, &began, &command));
    results::renew(&root.join(RESULTS), &lines, &["suite"])?;
    if output.status.success() { Ok(()) } else { Err(format!("it ended with {}", output.status)) }
}
