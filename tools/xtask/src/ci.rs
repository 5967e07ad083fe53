//! `ci` and `bless`: the steps and how they are run.

use std::path::Path;
use std::process::Command;

use crate::{report, tidy};

/// The README's test command; `.ci/run` ends with it as well, so it comes last.
const TEST: &[&str] = &["test", "--workspace", "--locked"];

const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
    &["doc", "--workspace", "--no-deps", "--locked"],
];

/// One pass of every benchmark, as a test.
const BENCHES: &[&str] = &["test", "--package", "memfold-bench", "--benches", "--locked"];

pub(crate) fn run(root: &Path) -> bool {
    STEPS.iter().all(|step| cargo(root, step, &[("RUSTDOCFLAGS", "-D warnings")]))
        && tidy::run(root)
        && cargo(root, BENCHES, &[])
        && cargo(root, TEST, &[])
}

/// Lets the tests write what they compare with.
pub(crate) fn bless(root: &Path) -> bool {
    cargo(root, TEST, &[("BLESS", "1"), ("INSTA_UPDATE", "always")])
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    report::line(&format!("xtask: cargo {}", arguments.join(" ")));
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments).envs(environment.iter().copied());
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            report::line(&format!("xtask: cargo {} failed: {status}", arguments[0]));
            false
        }
        Err(error) => {
            report::line(&format!("xtask: cannot run cargo: {error}"));
            false
        }
    }
}
