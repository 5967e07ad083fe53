//! The library that makes writes fail does so, and at the requested call.

use memfold_tests::torture::{Calls, Fault, FaultKind, Memfold, Shim, strings};

use crate::PROGRAM;

fn generate(folder: &std::path::Path) -> Vec<String> {
    let store = folder.join("made.db").to_string_lossy().into_owned();
    strings(&["generate", "--brain", "--rows", "300", "--dim", "16", "--output", &store])
}

/// `None`, with a message, where no library can be built.
fn shim() -> Option<Shim> {
    let shim = Shim::build();
    if shim.is_none() {
        skipped();
    }
    shim
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped() {
    eprintln!("skipped: no C compiler on Linux");
}

#[test]
fn calls_fail_where_they_should() {
    let Some(shim) = shim() else { return };
    let memfold = Memfold::new(PROGRAM);
    let folder = tempfile::tempdir().unwrap();
    let mut command = memfold.command(&generate(folder.path()));
    let counter = shim.count(&mut command, folder.path(), Calls::Writes);
    assert!(command.output().unwrap().status.success());
    let calls: u64 = std::fs::read_to_string(counter).unwrap().parse().unwrap();
    assert!(calls > 20, "{calls}");
    for (kind, message) in
        [(FaultKind::NoSpace, "full"), (FaultKind::Io, "I/O error"), (FaultKind::Kill, "")]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut command = memfold.command(&generate(folder.path()));
        shim.inject(&mut command, folder.path(), Fault { kind, at: calls / 2, is_sticky: true });
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if kind == FaultKind::Kill { None } else { Some(1) };
        assert_eq!(output.status.code(), code, "{kind:?}: {err}");
        assert!(err.contains(message), "{kind:?}: {err}");
        assert!(!folder.path().join("made.db").exists(), "{kind:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = memfold.command(&generate(folder.path()));
    let past = Fault { kind: FaultKind::Io, at: calls + 1, is_sticky: true };
    shim.inject(&mut command, folder.path(), past);
    assert!(command.output().unwrap().status.success());
}
