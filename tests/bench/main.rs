//! `memfold-bench`, as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "the tests of memfold need more")]
mod support;
#[path = "../cli/schemas.rs"]
mod schemas;

mod ann;
mod commands;
mod faults;
mod generating;
mod guarding;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::TestFolder;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold-bench");

/// `memfold` beside it, which stands there when the whole workspace is tested.
static MEMFOLD: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold", "memfold-cli"));
/// So does `memfold-server`.
static SERVER: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold-server", "memfold-server"));

/// Returns another program of the workspace, which stands beside the tested one when the whole workspace is tested and is
/// built otherwise.
fn beside(name: &str, package: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let path = Path::new(PROGRAM).with_file_name(file);
    if !path.is_file() {
        let words = ["build", "--quiet", "--locked", "--package", package, "--bin", name];
        let built = Command::new(env!("CARGO")).args(words).status().unwrap();
        assert!(built.success(), "{name} cannot be built");
    }
    path
}

/// Runs `memfold`, which must succeed, and returns its stdout.
fn memfold(dir: &TestFolder, arguments: &[&str]) -> String {
    let answer = dir.answer(dir.program(&MEMFOLD, arguments).output().unwrap());
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    answer.out
}
