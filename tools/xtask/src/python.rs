//! `python`: builds the wheel, installs it in a fresh environment and runs its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report;

/// The environment, made anew each time.
const FOLDER: &str = "target/python";
/// What the tests import; pip brings what these need.
const PACKAGES: &[&str] = &["numpy", "pyarrow", "polars", "pytest"];
/// The oldest Python that the wheel is for.
const OLDEST: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// The libraries and tests of the whole workspace: for one package dependencies have other features, and all of them would
/// be compiled again.
const BUILD: &[&str] = &["build", "--workspace", "--lib", "--tests", "--locked"];

/// Builds and tests; with `--release` by maturin, as the wheel is published.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let is_release = match arguments {
        [] => false,
        [word] if word == "--release" => true,
        _ => return Err("it takes --release and nothing else".to_owned()),
    };
    test(root, &environment(root)?, is_release)
}

/// Builds and tests, or says why that is skipped: without Python or a network the rest can be checked all the same.
pub(crate) fn run_if_possible(root: &Path) -> Result<(), String> {
    match environment(root) {
        Ok(python) => test(root, &python, false),
        Err(lack) => {
            report::line(&format!("ci: skipped: the wheel for Python: {lack}"));
            Ok(())
        }
    }
}

/// Makes a fresh environment with the packages, and returns its Python.
fn environment(root: &Path) -> Result<PathBuf, String> {
    if !succeeds(Command::new("python3").args(["-c", OLDEST])) {
        return Err("there is no python3 of 3.10 or later with venv".to_owned());
    }
    let folder = root.join(FOLDER);
    if !succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)) {
        return Err(format!("python3 -m venv {FOLDER} failed"));
    }
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let words =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
    match succeeds(Command::new(&python).args(words).args(PACKAGES)) {
        true => Ok(python),
        false => Err(format!("pip cannot install {}", PACKAGES.join(", "))),
    }
}

fn test(root: &Path, python: &Path, is_release: bool) -> Result<(), String> {
    let pip = |what: &Path| {
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        done(Command::new(python).args(words).arg(what), "pip")
    };
    let project = root.join("tools/python");
    if is_release {
        pip(&project)?;
    } else {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        done(Command::new(cargo).current_dir(root).args(BUILD), "cargo build")?;
        pip(&packed(root, python)?)?;
    }
    let words = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    done(Command::new(python).current_dir(project).args(words), "pytest")
}

/// Packs the library that was built and returns the wheel.
fn packed(root: &Path, python: &Path) -> Result<PathBuf, String> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let library = root.join(target).join("debug").join(format!(
        "{}memfold_python{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    let output = Command::new(python)
        .arg(root.join("tools/python/pack.py"))
        .arg(library)
        .args([env!("CARGO_PKG_VERSION"), FOLDER])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run Python: {error}"))?;
    if !output.status.success() {
        return Err(format!("pack.py: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(root.join(String::from_utf8_lossy(&output.stdout).trim()))
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn done(command: &mut Command, name: &str) -> Result<(), String> {
    report::line(&format!("xtask: {name}"));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("cannot run {name}: {error}")),
    }
}
