//! `bench-compare`: the criterion groups of this tree beside those of a commit, in turn, on this machine.
//!
//! The baseline is a commit and not a file of times: times of another machine, another day or another toolchain say nothing
//! about a change. It is checked out and built under `target/bench-compare`, and each round measures both trees, one after
//! the other. Rounds of the same tree tell how far equal code drifts apart (A against A); only what is beyond that, and
//! beyond the tolerance, counts as a change.

mod judge;
mod measured;
mod options;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::judge::{Judged, Verdict, judge, table};
use self::measured::{Medians, add};
use self::options::Options;
use crate::measure::machine;
use crate::{report, results};

/// Where the baseline is checked out and both trees are measured.
const FOLDER: &str = "target/bench-compare";

/// Compares and shows; `false` where something is slower, or nothing could be compared.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    match try_run(root, arguments) {
        Ok(judged) => !judged.iter().any(|one| one.verdict == Verdict::Slower),
        Err(reason) => {
            report::line(&format!("bench-compare: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path, arguments: &[String]) -> Result<Vec<Judged>, String> {
    let options = Options::parse(arguments)?;
    let commit =
        said_by_git(root, &["rev-parse", "--verify", &format!("{}^{{commit}}", options.baseline)])
            .map_err(|_| format!("no commit is named {}", options.baseline))?;
    let folder = root.join(FOLDER);
    let trees = Trees { present: root.to_path_buf(), baseline: check_out(root, &folder, &commit)? };
    let groups = options.groups(&groups_of(root)?)?;
    let baseline_groups = groups_of(&trees.baseline)?;
    let is_shared = |group: &&String| baseline_groups.contains(group);
    report::line(&format!("{}, {}, baseline {}", machine(), results::run_name(), &commit[..12]));
    for group in &groups {
        cargo_bench(&trees.present, group, &["--no-run"], None)?;
    }
    for group in groups.iter().filter(is_shared) {
        cargo_bench(&trees.baseline, group, &["--no-run"], None)?;
    }
    let (mut present, mut baseline) = (Medians::new(), Medians::new());
    for round in 1..=options.rounds {
        report::line(&format!("round {round} of {}", options.rounds));
        for group in &groups {
            if is_shared(&group) {
                add(&mut baseline, measure(root, &trees.baseline, group, &options)?);
            }
            add(&mut present, measure(root, &trees.present, group, &options)?);
        }
    }
    let judged = judge(&baseline, &present, options.tolerance);
    if judged.is_empty() {
        return Err("nothing was measured: no benchmark has such a name".to_owned());
    }
    table(&judged).iter().for_each(|line| report::line(line));
    Ok(judged)
}

/// The tree that is worked on, and the one of the baseline.
struct Trees {
    present: PathBuf,
    baseline: PathBuf,
}

/// Checks a commit out beside the working tree, which it leaves as it is.
fn check_out(root: &Path, folder: &Path, commit: &str) -> Result<PathBuf, String> {
    let tree = folder.join("baseline");
    let path = tree.to_str().ok_or("the path of the repository is not UTF-8")?;
    if tree.exists() {
        said_by_git(&tree, &["checkout", "--quiet", "--force", "--detach", commit])?;
    } else {
        // Who deleted the folder of an earlier one left its registration.
        said_by_git(root, &["worktree", "prune"])?;
        said_by_git(root, &["worktree", "add", "--quiet", "--detach", path, commit])?;
    }
    Ok(tree)
}

fn said_by_git(folder: &Path, words: &[&str]) -> Result<String, String> {
    let said = results::said(Command::new("git").current_dir(folder).args(words))?;
    Ok(said.trim().to_owned())
}

/// The criterion groups of a tree, in the order of its manifest.
fn groups_of(tree: &Path) -> Result<Vec<String>, String> {
    let path = tree.join("bench/Cargo.toml");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    let manifest: toml::Table =
        text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let benches = manifest.get("bench").and_then(toml::Value::as_array).into_iter().flatten();
    let names = benches.filter_map(|bench| bench.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Measures a group once and returns the medians.
fn measure(
    root: &Path,
    tree: &Path,
    group: &str,
    options: &Options,
) -> Result<Vec<(String, f64)>, String> {
    let home = root.join(FOLDER).join("criterion");
    if home.exists() {
        std::fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    }
    let mut words = vec!["--", "--noplot", "--quiet"];
    words.extend(options.filter.as_deref());
    cargo_bench(tree, group, &words, Some(&home))?;
    measured::read(&home)
}

/// Builds or runs a group of a tree. Each tree has a folder of built crates of its own: cargo names crates by their path within
/// the workspace, and would take one tree's for the other's.
fn cargo_bench(
    tree: &Path,
    group: &str,
    words: &[&str],
    home: Option<&Path>,
) -> Result<(), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", tree.join("target"))
        .args(["bench", "--quiet", "--locked", "--package", "memfold-bench", "--bench", group])
        .args(words);
    if let Some(home) = home {
        command.env("CRITERION_HOME", home);
    }
    results::said(&mut command).map(drop)
}
