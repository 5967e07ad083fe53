//! `ci`, `bless` and `aarch64`: the one list of steps, which `.ci/run` runs as well.

use std::path::Path;
use std::process::Command;

use crate::{python, report, tidy};

/// The README's test command; `.ci/run` ends with it as well, so it comes last.
const TEST: &[&str] = &["test", "--workspace", "--locked"];

const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
    &["doc", "--workspace", "--no-deps", "--locked"],
];

/// One pass of every benchmark, as a test. For the whole workspace, so that the tests find their libraries built: for one
/// package these have other features.
const BENCHES: &[&str] = &["test", "--workspace", "--bench", "*", "--locked"];

/// The processor beside this one for which there are kernels.
const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_PACKAGES: &[&str] = &["--package", "memfold-simd", "--package", "memfold-index"];
const CROSS_COMPILER: &str = "aarch64-linux-gnu-gcc";
const AARCH64_TOOLS: &[(&str, &str)] = &[
    ("CC_aarch64_unknown_linux_gnu", CROSS_COMPILER),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_COMPILER),
    // A skipped level is a failure.
    ("SIMD_TEST_REQUIRE", "neon,neondot"),
];
/// Runs a program for aarch64 with the C library that comes with the cross compiler.
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];
const CROSS_LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Runs all steps, with `--no-test` all but the last.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let with_tests = match arguments {
        [] => true,
        [word] if word == "--no-test" => false,
        _ => return Err("it takes --no-test and nothing else".to_owned()),
    };
    for step in STEPS {
        cargo(root, step, &[("RUSTDOCFLAGS", "-D warnings")])?;
    }
    tidy::run(root)?;
    cargo(root, BENCHES, &[])?;
    match cross_tools() {
        Ok(()) => {
            let words = [&["check", "--locked", "--target", AARCH64], AARCH64_PACKAGES].concat();
            cargo(root, &words, AARCH64_TOOLS)?;
        }
        Err(lack) => report::line(&format!("ci: skipped: the code for aarch64: {lack}")),
    }
    python::run_if_possible(root)?;
    if with_tests { cargo(root, TEST, &[]) } else { Ok(()) }
}

/// Lets the tests write what they compare with.
pub(crate) fn bless(root: &Path) -> Result<(), String> {
    cargo(root, TEST, &[("BLESS", "1"), ("INSTA_UPDATE", "always")])
}

/// Runs the tests of `simd` and `index` for aarch64 under qemu.
pub(crate) fn test_aarch64(root: &Path) -> Result<(), String> {
    cross_tools()?;
    let emulator = EMULATORS.into_iter().find(|name| runs(name));
    let emulator = emulator.ok_or("there is no qemu-aarch64: install qemu-user")?;
    let runner = format!("{emulator} -L {CROSS_LIBRARIES}");
    let words = [&["test", "--locked", "--target", AARCH64], AARCH64_PACKAGES].concat();
    let runner = [("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner.as_str())];
    cargo(root, &words, &[AARCH64_TOOLS, &runner].concat())
}

/// Says what is missing to compile for aarch64: Rust's own library, or a C compiler.
fn cross_tools() -> Result<(), String> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map_err(|error| format!("cannot run rustc: {error}"))?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if !Path::new(&sysroot).join("lib/rustlib").join(AARCH64).is_dir() {
        return Err(format!("the target is not installed: rustup target add {AARCH64}"));
    }
    match runs(CROSS_COMPILER) {
        true => Ok(()),
        false => Err(format!("there is no {CROSS_COMPILER}: install gcc-aarch64-linux-gnu")),
    }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs cargo with some words and variables.
fn cargo(root: &Path, words: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    report::line(&format!("xtask: cargo {}", words.join(" ")));
    match crate::cargo(root).args(words).envs(environment.iter().copied()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} ended with {status}", words[0])),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
