//! What `memfold dedup` refuses, and what an interrupted run leaves.

use memfold_tests::npy_of_rows;

use crate::support::Place;

fn with_vectors(names: &[&str]) -> Place {
    let place = Place::new();
    for name in names {
        npy_of_rows(&place.path(name), 20, 8, 1);
    }
    place
}

#[test]
fn wrong_flags_are_usage_errors() {
    let place = with_vectors(&["x.npy"]);
    let dedup = |further: &[&str]| place.run(&[&["dedup", "x.npy"], further].concat());
    dedup(&["--threshold", "1.5"]).fails_with(2, &["'1.5'", "expected a number from -1 to 1"]);
    dedup(&["--threshold", "0.9,high"]).fails_with(2, &["'high'", "expected a number"]);
    dedup(&["--keep", "oldest"]).fails_with(2, &["first, newest, most_central or column:NAME"]);
    dedup(&["--keep", "column:"]).fails_with(2, &["column:NAME"]);
    dedup(&["--linkage", "average"]).fails_with(2, &["greedy_complete", "single"]);
    dedup(&["--pairs-form", "distinct"]).fails_with(2, &["--pairs"]);
    place.run(&["dedup"]).fails_with(2, &["<INPUT>"]);
}

#[test]
fn inputs_are_looked_for() {
    let place = with_vectors(&["b.npy", "a.npy", "[x].npy"]);
    place.run(&["dedup", "nowhere.npy"]).fails_with(1, &["nowhere.npy"]);
    place.run(&["dedup", "*.parquet"]).fails(
        1,
        "no file matches *.parquet",
        "check the folder and the ending of the pattern",
    );
    place.run(&["dedup", "."]).fails_with(1, &[". is a folder", "hint: name its files"]);
    place.run(&["dedup", "a.npy", "?.npy"]).fails(
        2,
        "a.npy is named twice",
        "name each input once: all its rows would be duplicates",
    );
    assert!(place.succeed(&["dedup", "?.npy"]).starts_with("40 rows of 8 dimensions from 2 files"));
    assert!(
        place.succeed(&["dedup", "[x].npy"]).starts_with("20 rows of 8 dimensions from 1 file ")
    );
    place.write("text.npy", "not vectors");
    place.run(&["dedup", "text.npy"]).fails_with(1, &["failed to read the vectors", "text.npy"]);
    place.run(&["dedup", "a.npy", "--keep", "newest"]).fails_with(1, &["created_at"]);
}

/// A pattern panicked where any file of the folder had a name that is not UTF-8.
#[cfg(unix)]
#[test]
fn pattern_passes_over_names_that_are_not_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let place = with_vectors(&["a.npy", "b.npy"]);
    let odd = OsStr::from_bytes(b"caf\xe9.npy");
    std::fs::rename(place.path("b.npy"), place.folder().join(odd)).unwrap();
    std::fs::create_dir_all(place.path("deep/er")).unwrap();
    std::fs::copy(place.path("a.npy"), place.path("deep/er/c.npy")).unwrap();
    for (pattern, files) in [("a*.npy", 1), ("*.npy", 2), ("**/*.npy", 3), ("./deep/*/?.npy", 1)] {
        let screen = place.succeed(&["dedup", pattern]);
        let rows = format!("{} rows of 8 dimensions from {files} file", 20 * files);
        assert!(screen.starts_with(&rows), "{pattern}: {screen}");
    }
}

#[test]
fn outputs_are_looked_at_before_work() {
    let place = with_vectors(&["x.npy"]);
    place.write("there.parquet", "mine");
    let before = place.files();
    let dedup = |further: &[&str]| place.run(&[&["dedup", "x.npy"], further].concat());
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
    assert!(before == place.files());
    assert_eq!(dedup(&["--pairs", "there.parquet", "--force"]).code, Some(0));
    assert!(before != place.files());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let place = with_vectors(&["x.npy"]);
    for arguments in [&["dedup", "x.npy"][..], &["dedup", "x.npy", "--json"]] {
        let mut command = place.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let answer = place.answer(child.wait_with_output().unwrap());
        assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn quiet_leaves_stderr_to_errors() {
    let place = with_vectors(&["x.npy"]);
    let answer = place.run(&["dedup", "x.npy", "--pairs", "p.parquet"]);
    assert_eq!(answer.err, "wrote p.parquet\n");
    let answer = place.run(&["dedup", "x.npy", "--pairs", "q.parquet", "--quiet"]);
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    use std::process::Stdio;

    use memfold_datasets::npy::{Component, NpyWriter};

    use crate::support::interrupt;

    let place = Place::new();
    // Every two of them are near each other: some hundred million pairs to be put in order.
    let mut writer = NpyWriter::create(&place.path("x.npy"), 2, Component::F32).unwrap();
    for row in 0..20_000 {
        writer.push(&[1.0, row as f32 * 1e-6]).unwrap();
    }
    writer.finish().unwrap();
    let before = place.files();
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
    let mut command = place.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt(&child);
    let answer = place.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.out, "");
    assert_eq!(answer.err, "error: interrupted; nothing was written\n");
    assert!(before == place.files());
    assert_eq!(place.temporary_files(), 0);
}
