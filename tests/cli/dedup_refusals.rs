//! What `memfold dedup` refuses, and what an interrupted run leaves.

use memfold_tests::npy_of_rows;

use crate::support::TestFolder;

fn with_vectors(names: &[&str]) -> TestFolder {
    let dir = TestFolder::new();
    for name in names {
        npy_of_rows(&dir.path(name), 20, 8, 1);
    }
    dir
}

#[test]
fn inputs_are_looked_for() {
    let dir = with_vectors(&["b.npy", "a.npy", "[x].npy"]);
    dir.run("dedup nowhere.npy").fails_with(1, &["nowhere.npy"]);
    dir.run("dedup *.parquet").fails(
        1,
        "no file matches *.parquet",
        "check the folder and the ending of the pattern",
    );
    dir.run("dedup .").fails_with(1, &[". is a folder", "hint: name its files"]);
    dir.run("dedup a.npy ?.npy").fails(
        2,
        "a.npy is named twice",
        "name each input once: all its rows would be duplicates",
    );
    assert!(dir.succeed("dedup ?.npy").starts_with("40 rows of 8 dimensions from 2 files"));
    assert!(dir.succeed("dedup [x].npy").starts_with("20 rows of 8 dimensions from 1 file "));
    dir.write("text.npy", "not vectors");
    dir.run("dedup text.npy").fails_with(1, &["failed to read the vectors", "text.npy"]);
    dir.run("dedup a.npy --keep newest").fails_with(1, &["created_at"]);
}

/// A pattern panicked where any file of the folder had a name that is not UTF-8.
#[cfg(unix)]
#[test]
fn pattern_passes_over_names_that_are_not_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = with_vectors(&["a.npy", "b.npy"]);
    let odd = OsStr::from_bytes(b"caf\xe9.npy");
    std::fs::rename(dir.path("b.npy"), dir.folder().join(odd)).unwrap();
    std::fs::create_dir_all(dir.path("deep/er")).unwrap();
    std::fs::copy(dir.path("a.npy"), dir.path("deep/er/c.npy")).unwrap();
    for (pattern, files) in [("a*.npy", 1), ("*.npy", 2), ("**/*.npy", 3), ("./deep/*/?.npy", 1)] {
        let screen = dir.succeed(&["dedup", pattern]);
        let rows = format!("{} rows of 8 dimensions from {files} file", 20 * files);
        assert!(screen.starts_with(&rows), "{pattern}: {screen}");
    }
}

#[test]
fn outputs_are_looked_at_before_work() {
    let dir = with_vectors(&["x.npy"]);
    dir.write("there.parquet", "mine");
    let before = dir.files();
    let dedup = |further: &[&str]| dir.run(&[&["dedup", "x.npy"], further].concat());
    dedup(&["--pairs", "there.parquet"]).fails(
        2,
        "there.parquet exists",
        "name another file, or replace it with --force",
    );
    for flag in ["--pairs", "--clusters", "--annotate"] {
        dedup(&[flag, "./x.npy", "--force"]).fails(
            2,
            &format!("{flag} ./x.npy is an input"),
            "name another file: inputs are never changed",
        );
    }
    dedup(&["--pairs", "p", "--clusters", "./p"]).fails(
        2,
        "--pairs and --clusters name the same file, ./p",
        "name two files",
    );
    dedup(&["--pairs", "nowhere/p"]).fails_with(1, &["nowhere/p", "hint: make the folder first"]);
    dedup(&["--annotate", "a.txt"]).fails_with(2, &["a.txt: unknown extension", "hint: "]);
    dedup(&["--annotate", "a.parquet", "--threshold", "0.8,0.9"]).fails(
        2,
        "--annotate takes one threshold: a row has one cluster in it",
        "choose one, or write the clusters of all with --clusters",
    );
    assert!(before == dir.files());
    assert_eq!(dedup(&["--pairs", "there.parquet", "--force"]).code, Some(0));
    assert!(before != dir.files());
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    use std::process::Stdio;

    use memfold_datasets::npy::{Component, NpyWriter};

    use crate::support::interrupt;

    let dir = TestFolder::new();
    // Every two of them are near each other: some hundred million pairs to be put in order.
    let mut writer = NpyWriter::create(&dir.path("x.npy"), 2, Component::F32).unwrap();
    for row in 0..20_000 {
        writer.push(&[1.0, row as f32 * 1e-6]).unwrap();
    }
    writer.finish().unwrap();
    let before = dir.files();
    let arguments = [
        "dedup",
        "x.npy",
        "--pair-budget",
        "1000000000",
        "--pairs",
        "p.parquet",
        "--clusters",
        "k.parquet",
    ];
    let mut command = dir.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt(&child);
    let answer = dir.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.out, "");
    assert_eq!(answer.err, "error: interrupted; nothing was written\n");
    assert!(before == dir.files());
    assert_eq!(dir.temporary_files(), 0);
}
