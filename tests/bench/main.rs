//! `memfold-bench`, as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "the tests of memfold need more")]
mod support;
#[path = "../cli/schemas.rs"]
mod schemas;

mod ann;
mod commands;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::Place;

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold-bench");

/// `memfold` beside it, which stands there when the whole workspace is tested.
static MEMFOLD: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold", "memfold-cli"));
/// So does `memfold-server`.
static SERVER: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold-server", "memfold-server"));

fn beside(name: &str, package: &str) -> PathBuf {
    let path = Path::new(PROGRAM).with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        let words = ["build", "--quiet", "--locked", "--package", package, "--bin", name];
        let built = Command::new(env!("CARGO")).args(words).status().unwrap();
        assert!(built.success(), "{name} cannot be built");
    }
    path
}

/// Runs `memfold`, which must succeed, and returns its stdout.
fn memfold(place: &Place, arguments: &[&str]) -> String {
    let answer = place.answer(place.program(&MEMFOLD, arguments).output().unwrap());
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    answer.out
}
