//! `python`: builds the wheel, installs it in a fresh environment and runs its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report;

/// The environment, made anew each time.
const FOLDER: &str = "target/python";
/// That of measurements, apart from the tests'.
const MEASURED_FOLDER: &str = "target/measured-python";
/// Where wheels are packed.
const WHEELS: &str = "target/wheels";
/// What the tests import; pip brings what these need.
const PACKAGES: &[&str] = &["numpy", "pyarrow", "polars", "pytest"];
/// What the tests of `memfold.ray` import beyond; without it they are skipped.
const RAY: &str = "ray";
/// The oldest Python that the wheel is for.
const OLDEST: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// The libraries and tests of the whole workspace: for one package dependencies have other features, and all of them would
/// be compiled again.
const BUILD: &[&str] = &["build", "--workspace", "--lib", "--tests", "--locked"];
const RELEASED: &[&str] = &["build", "--workspace", "--lib", "--release", "--locked"];

/// Builds and tests; with `--release` by maturin, as the wheel is published, with `--ray` on Ray too.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (mut is_release, mut packages) = (false, PACKAGES.to_vec());
    for word in arguments {
        match word.as_str() {
            "--release" => is_release = true,
            "--ray" => packages.push(RAY),
            _ => return Err("it takes --release, --ray and nothing else".to_owned()),
        }
    }
    test(root, &environment(root, FOLDER, &packages)?, is_release)
}

/// Builds and tests, or says why that is skipped: without Python or a network the rest can be checked all the same.
pub(crate) fn run_if_possible(root: &Path) -> Result<(), String> {
    match environment(root, FOLDER, PACKAGES) {
        Ok(python) => test(root, &python, false),
        Err(lack) => {
            report::line(&format!("ci: skipped: the wheel for Python: {lack}"));
            Ok(())
        }
    }
}

/// Says what is missing to make an environment.
pub(crate) fn lack() -> Option<String> {
    let is_there = succeeds(Command::new("python3").args(["-c", OLDEST]));
    (!is_there).then(|| "there is no python3 of 3.10 or later with venv".to_owned())
}

/// Makes a fresh environment with packages, and returns its Python.
fn environment(root: &Path, folder: &str, packages: &[&str]) -> Result<PathBuf, String> {
    if let Some(lack) = lack() {
        return Err(lack);
    }
    let path = root.join(folder);
    if !succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path)) {
        return Err(format!("python3 -m venv {folder} failed"));
    }
    let python = path.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let words =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
    match succeeds(Command::new(&python).args(words).args(packages)) {
        true => Ok(python),
        false => Err(format!("pip cannot install {}", packages.join(", "))),
    }
}

fn test(root: &Path, python: &Path, is_release: bool) -> Result<(), String> {
    let project = root.join("tools/python");
    if is_release {
        install(python, &project)?;
    } else {
        cargo(root, BUILD)?;
        install(python, &packed(root, python, "debug")?)?;
    }
    let words = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    done(Command::new(python).current_dir(project).args(words), "pytest")
}

/// Makes a fresh environment to measure in: the wheel as optimized as it is published, and some packages.
pub(crate) fn to_measure(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    install_released(root, environment(root, MEASURED_FOLDER, packages)?)
}

/// Builds the wheel as optimized as it is published, and installs it in the environment of a Python, which it returns.
pub(crate) fn install_released(root: &Path, python: PathBuf) -> Result<PathBuf, String> {
    cargo(root, RELEASED)?;
    let wheel = packed(root, &python, "release")?;
    let words = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    done(Command::new(&python).args(words).arg(wheel), "pip")?;
    Ok(python)
}

fn cargo(root: &Path, words: &[&str]) -> Result<(), String> {
    done(crate::cargo(root).args(words), "cargo build")
}

fn install(python: &Path, what: &Path) -> Result<(), String> {
    let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    done(Command::new(python).args(words).arg(what), "pip")
}

/// Packs the library that was built with a profile and returns the wheel.
fn packed(root: &Path, python: &Path, profile: &str) -> Result<PathBuf, String> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    std::fs::create_dir_all(root.join(WHEELS)).map_err(|error| format!("{WHEELS}: {error}"))?;
    let library = root.join(target).join(profile).join(format!(
        "{}memfold_python{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    let output = Command::new(python)
        .arg(root.join("tools/python/pack.py"))
        .arg(library)
        .args([env!("CARGO_PKG_VERSION"), WHEELS])
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
