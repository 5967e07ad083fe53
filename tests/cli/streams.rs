//! stdout is data, stderr is for people, and neither is assumed to be there.

use std::process::Stdio;

use crate::support::{TestFolder, consolidate};

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = TestFolder::with_sample();
    for arguments in [
        consolidate(&[]),
        consolidate(&["--json"]),
        vec!["config", "schema"],
        vec!["--help"],
        vec!["completions", "bash"],
    ] {
        let mut child =
            dir.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let answer = dir.answer(child.wait_with_output().unwrap());
        assert!(!answer.err.contains("panicked"), "{arguments:?}: {answer:?}");
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn nothing_is_coloured_in_a_pipe_or_under_no_color() {
    let dir = TestFolder::with_sample();
    for arguments in [consolidate(&[]), vec!["doctor", "brain.db"], vec!["--help"]] {
        let plain = dir.run(&arguments);
        let output = dir.command(&arguments).env("NO_COLOR", "1").output().unwrap();
        let uncoloured = dir.answer(output);
        assert!(!plain.out.contains('\u{1b}') && !plain.err.contains('\u{1b}'), "{arguments:?}");
        assert_eq!(plain.out, uncoloured.out);
    }
}

#[test]
fn remarks_in_a_pipe_fit_eighty_columns_and_commands_are_whole() {
    let dir = TestFolder::with_sample();
    for arguments in
        [consolidate(&[]), vec!["explain", "--texts", "The port is 8080.", "The port is 9090."]]
    {
        let out = dir.succeed(&arguments);
        for line in out.lines().filter(|line| !line.starts_with("next: ")) {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn the_screen_is_as_published() {
    let dir = TestFolder::with_sample();
    insta::assert_snapshot!("screen", dir.succeed(&consolidate(&[])));
}
