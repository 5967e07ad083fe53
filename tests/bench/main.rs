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

use std::path::PathBuf;
use std::sync::LazyLock;

use crate::support::{Place, beside};

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold-bench");

/// `memfold` beside it, which stands there when the whole workspace is tested.
static MEMFOLD: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold", "memfold-cli"));
/// So does `memfold-server`.
static SERVER: LazyLock<PathBuf> = LazyLock::new(|| beside("memfold-server", "memfold-server"));

/// Runs `memfold`, which must succeed, and returns its stdout.
fn memfold(place: &Place, arguments: &[&str]) -> String {
    let answer = place.answer(place.program(&MEMFOLD, arguments).output().unwrap());
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    answer.out
}
