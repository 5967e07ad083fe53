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
        &["'1.5' for '--threshold <T>'", "expected a number from 0 to 1, such as 0.95"],
    );
}

#[test]
fn an_unknown_key_is_refused_with_a_suggestion() {
    let place = Place::with_pair();
    let answer = place.run(&consolidate(&["--set", "gaurd.enabled=false"]));
    answer.fails_with(2, &["unknown key `gaurd`", "hint: did you mean", "guard"]);
    place.write("memfold.yaml", "detect:\n  exact_txet: no\n");
    let answer = place.run(&consolidate(&[]));
    answer.fails_with(2, &["memfold.yaml, line 2", "exact_txet", "did you mean", "exact_text"]);
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
    assert_eq!(place.run(&["--threads", "0", "config", "schema"]).code, Some(2));
}

/// "number would be zero for non-zero type", "invalid float literal" and "99 is not in 2..=64" are no words for people.
#[test]
fn numbers_that_are_none_are_answered_in_plain_words() {
    let place = Place::with_pair();
    let whole = "expected a whole number, 1 or more";
    let count = "expected a whole number, 0 or more";
    let cases: [(&[&str], &str); 16] = [
        (&["config", "schema", "--threads", "0"], whole),
        (&["config", "schema", "--threads", "-2"], whole),
        (&["config", "schema", "--threads", "many"], whole),
        (&["config", "schema", "--threads", "99999999999999999999999"], whole),
        (&["consolidate", "brain.db", "--limit", "0"], whole),
        (&["consolidate", "brain.db", "--threshold", "high"], "expected a number"),
        (&["consolidate", "brain.db", "--threshold", "nan"], "expected a number"),
        (&["consolidate", "brain.db", "--execute", "--max-change-share", "2"], "from 0 to 1"),
        (&["apply", "brain.db", "latest", "--limit", "1.5"], whole),
        (&["embed", "brain.db", "--limit", "-1"], whole),
        (&["search", "brain.db", "--id", "a", "-k", "0"], "from 1 to 4294967295"),
        (&["search", "brain.db", "--row", "x"], count),
        (&["dedup", "x.npy", "--pair-budget", "-1"], count),
        (&["dedup", "x.npy", "--examples", "x"], count),
        (&["index", "build", "brain.db", "--wait", "x"], "from 0 to 4294967295"),
        (&["save", "brain.db", "--text", "a", "--importance", "inf"], "expected a number"),
    ];
    for (arguments, expected) in cases {
        let answer = place.run(arguments);
        answer.fails_with(2, &[expected]);
        for word in ["literal", "non-zero", "..", "digit", "parse", "target type"] {
            assert!(!answer.err.contains(word), "{arguments:?}: {}", answer.err);
        }
    }
}

/// A category that no memory has gave "0 near pairs" and not a word; "3 live" was said of what lay outside the scope.
#[test]
fn a_category_that_matches_nothing_is_said() {
    let place = Place::with_pair();
    let answer = place.run(&consolidate(&["--category", "genral"]));
    let warning = "warning: no live memory has the category \"genral\"; did you mean \"general\"?";
    assert!(answer.err.contains(warning), "{answer:?}");
    assert!(answer.out.starts_with("3 live (0 in scope) → 3 · "), "{answer:?}");
    let answer = place.run(&consolidate(&["--category", "general"]));
    assert!(
        !answer.err.contains("warning") && answer.out.starts_with("3 live → 2 · "),
        "{answer:?}"
    );
}

/// Run ids and keys of the configuration were broken at 80 columns, also in a pipe.
#[test]
fn ids_digests_and_keys_stay_whole_in_a_pipe() {
    let place = Place::with_pair();
    let dry = place.succeed(&consolidate(&["--set", "time_zone=UTC", "--threshold", "0.96"]));
    let next = dry.lines().find(|line| line.starts_with("next: ")).unwrap();
    let report = place.json(&consolidate(&["--json", "--threshold", "0.96"]));
    assert!(next.contains(report["plan_digest"].as_str().unwrap()), "{dry}");
    assert!(next.ends_with("--set time_zone=UTC") && !dry.contains('\\'), "{dry}");
    place.succeed(&consolidate(&["--execute"]));
    let run = place.json(&["runs", "brain.db", "--json"])["runs"][0].clone();
    let listed = place.succeed(&["runs", "brain.db"]);
    for id in ["run_id", "plan_id"] {
        assert!(listed.contains(run[id].as_str().unwrap()), "{listed}");
    }
    let shown = place.succeed(&["config", "show"]);
    let keys = place.json(&["config", "show", "--json"]);
    for entry in keys["entries"].as_array().unwrap() {
        let key = entry["key"].as_str().unwrap();
        assert!(
            shown.lines().any(|line| line.split_whitespace().next() == Some(key)),
            "{key}: {shown}"
        );
    }
}

/// A cron line of yesterday says what to write today, and does not end in silence.
#[test]
fn a_removed_command_names_its_successor() {
    let place = Place::with_pair();
    for (words, successor) in [
        (&["due", "brain.db"][..], "use memfold status STORE --exit-code"),
        (&["--json", "prune", "brain.db"], "use memfold runs STORE --prune-older-than AGE"),
        (&["index", "verify", "brain.db"], "use memfold index info STORE --verify"),
        (&["hook", "install", "--print"], "use memfold hook print"),
    ] {
        let answer = place.run(words);
        answer.fails_with(2, &["any more", &format!("hint: {successor}")]);
    }
}

#[test]
fn repeating_a_flag_changes_nothing() {
    let place = Place::with_pair();
    let once = place.json(&consolidate(&["--json"]));
    let twice =
        place.json(&consolidate(&["--json", "--json", "--allow-unguarded", "--allow-unguarded"]));
    assert_eq!(twice["plan_digest"], once["plan_digest"]);
}
