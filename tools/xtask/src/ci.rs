//! `ci`, `bless` and `aarch64`: the one list of steps, which `.ci/run` runs as well.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cargo, command, runs, say, succeed, tidy};

/// The README's test command; `.ci/run` ends with it, so it comes last.
const TEST: &[&str] = &["test", "--workspace", "--locked"];

const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
    // With a kind of target that needs dev-dependencies, as clippy has: otherwise dependencies get other features
    // and are checked once more.
    &["doc", "--workspace", "--no-deps", "--locked", "--lib", "--examples"],
];

/// `memfold` as users build it: tests of the workspace turn all its features on.
const DEFAULT_BINARY: &[&str] = &["build", "--locked", "--package", "memfold-cli"];
/// All tests, and with them every binary with every feature but `local-models`: its crates take
/// minutes. A build of binaries alone would have other features of dependencies, and compile these
/// once more.
const BINARIES: &[&str] = &["test", "--workspace", "--no-run", "--locked"];
/// One pass of every benchmark. For the whole workspace, so that libraries have the features that they have in tests.
const BENCHES: &[&str] = &["test", "--workspace", "--bench", "*", "--locked"];

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_PACKAGES: &[&str] = &["--package", "memfold-simd", "--package", "memfold-index"];
const CROSS_COMPILER: &str = "aarch64-linux-gnu-gcc";
const AARCH64_VARIABLES: [(&str, &str); 3] = [
    ("CC_aarch64_unknown_linux_gnu", CROSS_COMPILER),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_COMPILER),
    // A skipped level is a failure.
    ("SIMD_TEST_REQUIRE", "neon,neondot"),
];
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];
/// The C library that comes with the cross compiler.
const CROSS_LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Runs all steps, or all but the tests.
pub(crate) fn run(root: &Path, with_tests: bool) -> Result<(), String> {
    for step in STEPS {
        succeed(cargo(root, step).env("RUSTDOCFLAGS", "-D warnings"))?;
    }
    tidy::run(root)?;
    if runs("cargo-deny") {
        succeed(&mut cargo(root, &["deny", "--offline", "check", "bans"]))?;
    }
    succeed(&mut cargo(root, DEFAULT_BINARY))?;
    smoke(root, "without")?;
    succeed(&mut cargo(root, BINARIES))?;
    smoke(root, "with")?;
    succeed(&mut cargo(root, BENCHES))?;
    match cross_tools() {
        Ok(()) => {
            let words = [&["check", "--locked", "--target", AARCH64], AARCH64_PACKAGES].concat();
            succeed(cargo(root, &words).envs(AARCH64_VARIABLES))?;
        }
        Err(lack) => say(&format!("ci: skipped the code for aarch64: {lack}")),
    }
    if runs("python3") {
        succeed(command("python3", root).arg("tools/python/test.py"))?;
    }
    if with_tests { succeed(&mut cargo(root, TEST)) } else { Ok(()) }
}

/// Runs the built `memfold`, which has the optional features or not.
fn smoke(root: &Path, features: &str) -> Result<(), String> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let memfold = target.join("debug").join(format!("memfold{}", std::env::consts::EXE_SUFFIX));
    succeed(Command::new("bash").current_dir(root).arg(".ci/smoke").arg(memfold).arg(features))
}

/// Lets the tests write their expected files.
pub(crate) fn bless(root: &Path) -> Result<(), String> {
    succeed(cargo(root, TEST).env("BLESS", "1").env("INSTA_UPDATE", "always"))
}

/// Runs the tests of `simd` and `index` for aarch64 under qemu.
pub(crate) fn test_aarch64(root: &Path) -> Result<(), String> {
    cross_tools()?;
    let emulator = EMULATORS.into_iter().find(|name| runs(name));
    let emulator = emulator.ok_or("there is no qemu-aarch64: install qemu-user")?;
    let words = [&["test", "--locked", "--target", AARCH64], AARCH64_PACKAGES].concat();
    let runner = format!("{emulator} -L {CROSS_LIBRARIES}");
    let mut test = cargo(root, &words);
    test.envs(AARCH64_VARIABLES).env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    succeed(&mut test)
}

/// Names the missing tools to compile for aarch64: Rust's own library, or a C compiler.
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
