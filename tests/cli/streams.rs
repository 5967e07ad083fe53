//! stdout is data, stderr is for people, and neither is assumed to be there.

use std::process::Stdio;

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{brain_db, generated_rows, npy_of_rows, store_of_vectors};

use crate::support::{Place, consolidate};

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::with_sample();
    for arguments in [
        consolidate(&[]),
        consolidate(&["--json"]),
        vec!["config", "schema"],
        vec!["--help"],
        vec!["completions", "bash"],
    ] {
        let mut child = place
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let answer = place.answer(child.wait_with_output().unwrap());
        assert!(!answer.err.contains("panicked"), "{arguments:?}: {answer:?}");
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn nothing_is_coloured_in_a_pipe_or_under_no_color() {
    let place = Place::with_sample();
    for arguments in [consolidate(&[]), vec!["doctor", "brain.db"], vec!["--help"]] {
        let plain = place.run(&arguments);
        let output = place.command(&arguments).env("NO_COLOR", "1").output().unwrap();
        let uncoloured = place.answer(output);
        assert!(!plain.out.contains('\u{1b}') && !plain.err.contains('\u{1b}'), "{arguments:?}");
        assert_eq!(plain.out, uncoloured.out);
    }
}

#[test]
fn remarks_in_a_pipe_fit_eighty_columns_and_commands_are_whole() {
    let place = Place::with_sample();
    for arguments in
        [consolidate(&[]), vec!["explain", "--texts", "The port is 8080.", "The port is 9090."]]
    {
        let out = place.succeed(&arguments);
        for line in out.lines().filter(|line| !line.starts_with("next: ")) {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn quiet_leaves_stderr_to_errors() {
    let place = Place::with_sample();
    let answer = place.run(&consolidate(&["--quiet", "--report", "r.json"]));
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
    assert!(!answer.out.is_empty());
    let answer = place.run(&["doctor", "nowhere.db", "--quiet"]);
    assert!(answer.err.starts_with("error: "), "{answer:?}");
}

#[test]
fn json_stands_alone_on_stdout() {
    let place = Place::with_sample();
    npy_of_rows(&place.path("x.npy"), 10, 8, 1);
    for arguments in [
        consolidate(&["--json"]),
        vec!["doctor", "brain.db", "--json"],
        vec!["config", "show", "--json"],
        vec!["explain", "--texts", "a", "b", "--json"],
        vec!["export", "brain.db", "-o", "x.arrow", "--json"],
        vec!["dedup", "x.npy", "--json"],
        vec!["dedup", "x.npy", "--json", "--threshold", "0.8,0.9"],
    ] {
        place.json(&arguments);
    }
}

#[test]
fn the_screen_is_as_published() {
    let place = Place::with_sample();
    insta::assert_snapshot!("screen", place.succeed(&consolidate(&[])));
}

#[test]
fn what_a_store_holds_cannot_steer_a_terminal() {
    let place = Place::new();
    let mut rows = store_of_vectors(&generated_rows(200, 16, 41), 16).rows().to_vec();
    for row in &mut rows {
        row.id.push_str("\u{1b}[31m");
        row.created_at.push('\u{7}');
        row.content.push_str(" \u{1b}[2J\u{202e}");
        if let Some(embedding) = &mut row.embedding {
            embedding.model = Some("m\u{1b}[1m".into());
        }
    }
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Wild);
    for arguments in [
        consolidate(&["--report-dir", "r"]),
        vec!["doctor", "brain.db"],
        vec!["export", "brain.db", "-o", "x.arrow"],
    ] {
        let answer = place.run(&arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        for text in [&answer.out, &answer.err] {
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{arguments:?}: {text}");
        }
    }
    let texts = ["explain", "--texts", "a \u{1b}[31mred door", "a \u{1b}[32mgreen window"];
    assert!(!place.succeed(&texts).contains('\u{1b}'));
}
