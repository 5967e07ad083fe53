//! Wrong command lines and wrong configuration: exit code 2, and the words.

use crate::support::{Place, consolidate};

#[test]
fn an_unknown_flag_is_refused_with_a_suggestion() {
    let answer = Place::with_pair().run(&consolidate(&["--treshold", "0.9"]));
    answer.fails_with(2, &["unexpected argument '--treshold'", "'--threshold'"]);
}

#[test]
fn a_threshold_outside_its_range_is_refused() {
    Place::with_pair().run(&consolidate(&["--threshold", "1.5"])).fails_with(
        2,
        &["--threshold: `threshold` expects a number from -1 to 1", "found 1.5", "hint: "],
    );
}

#[test]
fn an_unknown_key_is_refused_with_a_suggestion() {
    let place = Place::with_pair();
    let answer = place.run(&consolidate(&["--set", "gaurd.enabled=false"]));
    answer.fails_with(2, &["unknown key `gaurd`", "hint: did you mean", "guard"]);
    place.write("memfold.yaml", "detect:\n  pair_bugdet: 7\n");
    let answer = place.run(&consolidate(&[]));
    answer.fails_with(2, &["memfold.yaml, line 2", "pair_bugdet", "did you mean", "pair_budget"]);
}

#[test]
fn an_unknown_trigger_is_refused_with_the_known_ones() {
    let place = Place::with_pair();
    place.run(&consolidate(&["--trigger", "wekly"])).fails_with(
        2,
        &["--trigger", "daily, weekly, session_end", "\"wekly\"", "hint: did you mean weekly?"],
    );
    place.write("memfold.yaml", "rules:\n  - id: R9\n    trigger: hourly\n");
    place.run(&consolidate(&[])).fails_with(2, &["memfold.yaml, line 3", "hourly", "session_end"]);
}

#[test]
fn an_unreadable_configuration_is_refused() {
    let place = Place::with_pair();
    place.write("broken.yaml", "detect: [1, 2\n");
    let answer = place.run(&consolidate(&["--config", "broken.yaml"]));
    answer.fails_with(2, &["failed to read the configuration", "broken.yaml"]);
    let answer = place.run(&consolidate(&["--config", "nowhere.yaml"]));
    answer.fails_with(2, &["failed to read the configuration", "nowhere.yaml"]);
}

/// A file that is no lexicon had its first line shown: a path that is mistyped, or planted, may lead to a private key.
#[test]
fn what_is_no_lexicon_is_named_and_not_shown() {
    let place = Place::with_pair();
    place.write("id_rsa", "hunter2-BEGIN-PRIVATE\nKEY\n");
    for command in [&consolidate(&[])[..], &["explain", "--texts", "one", "two"]] {
        let answer = place.run(&[command, &["--set", "guard.lexicon=id_rsa"]].concat());
        assert!(!answer.err.contains("hunter2"), "{}", answer.err);
        let message = "read the lexicon: id_rsa, line 1: expected a section before the first entry";
        answer.fails_with(2, &[message, "hint: a lexicon has sections"]);
    }
}

#[test]
fn an_unknown_isa_level_is_refused() {
    let place = Place::with_pair();
    let output = place.command(&consolidate(&[])).env("MEMFOLD_ISA", "bogus").output().unwrap();
    place.answer(output).fails_with(
        2,
        &[
            "use instruction set level \"bogus\" of MEMFOLD_ISA: there is no such level",
            "hint: set MEMFOLD_ISA to one of: scalar",
        ],
    );
}

#[test]
fn an_unreadable_now_is_refused() {
    let place = Place::with_pair();
    place.run(&["consolidate", "brain.db", "--now", "yesterday"]).fails(
        2,
        "--now \"yesterday\" is no time",
        "use RFC 3339, such as 2026-06-30T12:00:00Z",
    );
}

#[test]
fn an_unreadable_time_window_is_refused() {
    let answer = Place::with_pair().run(&consolidate(&["--since", "last week"]));
    answer.fails_with(2, &["--since", "last week"]);
}

#[test]
fn no_command_and_a_wrong_one_are_usage_errors() {
    let place = Place::new();
    assert_eq!(place.run(&[]).code, Some(2));
    place.run(&["consolidat"]).fails_with(2, &["consolidate"]);
    assert_eq!(place.run(&["consolidate"]).code, Some(2));
    assert_eq!(place.run(&["--threads", "0", "config", "path"]).code, Some(2));
}
