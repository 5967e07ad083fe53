//! `memfold runs --plans` and `memfold review`, through pipes.

use std::time::Duration;

use memfold_store::brain_db::{Session, SessionOptions, StoreStyle};
use memfold_tests::{NOW, brain_db, memory, unit_vector};
use rusqlite::Connection;

use crate::support::{Answer, Place, consolidate};

/// Equal, trivially and otherwise different texts, each twice, and a contradiction.
pub(crate) fn place() -> Place {
    let place = Place::new();
    let texts = [
        "The kiln is fired on Mondays.",
        "The kiln is fired on Mondays.",
        "Tea is ordered from the harbour shop.",
        "Tea is ordered from the harbour shop",
        "Backups run nightly at 02:00 and are kept for 4 weeks.",
        "Backups run nightly at 02:00 and are kept for 28 days.",
        "The port of the gateway is 8080.",
        "The port of the gateway is 9090.",
    ];
    let row = |(at, text): (usize, &&str)| memory(at, *text, &unit_vector(8, at / 2));
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    place
}

/// Saves what a run plans, and returns the plan's name.
fn save_plan(place: &Place) -> String {
    place.succeed(&consolidate(&["--save-plan"]));
    let plans = place.json(&["runs", "brain.db", "--plans", "--json"]);
    plans["plans"][0]["plan_id"].as_str().unwrap().to_owned()
}

pub(crate) fn review(place: &Place, further: &[&str], answers: &str) -> Answer {
    let arguments = [&["review", "brain.db", "latest", "--now", NOW], further].concat();
    place.run_with(&arguments, answers)
}

/// The states of the plan's changes, by label.
fn states(place: &Place) -> Vec<String> {
    let plan = place.json(&["runs", "brain.db", "latest", "--plans", "--json"]);
    let actions = plan["actions"].as_array().unwrap().iter();
    let changes = actions.filter(|saved| saved["action"]["type"] != "noop");
    changes.map(|saved| format!("{} {}", saved["label"], saved["state"]).replace('"', "")).collect()
}

#[test]
fn a_store_without_plans_says_how_to_save_one() {
    let place = place();
    let before = place.files();
    let listed = place.run(&["runs", "brain.db", "--plans"]);
    assert_eq!((listed.code, listed.out.as_str()), (Some(0), ""));
    assert_eq!(listed.err, "no plan is saved; save one: memfold consolidate DB --save-plan\n");
    assert_eq!(
        place.json(&["runs", "brain.db", "--plans", "--json"])["plans"],
        serde_json::json!([])
    );
    for command in [&["runs", "brain.db", "latest", "--plans"][..], &["review", "brain.db", "p123"]]
    {
        place.run(command).fails(
            1,
            &format!("failed to find the plan: no saved plan is named \"{}\"", command[2]),
            "save one first: memfold consolidate DB --save-plan",
        );
    }
    assert!(before == place.files(), "looking leaves no trace");
}

#[test]
fn plans_are_listed_with_their_actions() {
    let place = place();
    let name = save_plan(&place);
    insta::assert_snapshot!(
        "plans",
        place.succeed(&["runs", "brain.db", "--plans"]).replace(&name, "PLAN_ID______")
    );
    let before = place.files();
    let plan = place.succeed(&["runs", "brain.db", &name[..6], "--plans"]);
    insta::assert_snapshot!("plan", plan.replace(&name, "PLAN"));
    assert!(before == place.files(), "looking leaves no trace");
    let listed = place.json(&["runs", "brain.db", "--plans", "--json"]);
    assert_eq!(listed["plans"][0]["plan_id"], name.as_str());
    assert_eq!(listed["plans"][0]["states"]["proposed"], 4);
}

#[test]
fn a_plan_is_reviewed_through_a_pipe() {
    let place = place();
    let name = save_plan(&place);
    let walked = review(&place, &[], "v\ny\nperhaps\nn\nu\nk\ns\ny\n");
    assert_eq!((walked.code, walked.err.as_str()), (Some(0), ""), "{walked:?}");
    insta::assert_snapshot!("review", walked.out.replace(&name, "PLAN"));
    assert_eq!(states(&place), ["a1 approved", "a2 rejected", "a3 approved", "a4 proposed"]);
    // What was left open comes first next time.
    let rest = review(&place, &[], "k\n");
    assert!(rest.out.contains("1 of 1 · a4 flag_contradiction"), "{}", rest.out);
    assert_eq!(states(&place)[3], "a4 rejected");
    let nothing = review(&place, &[], "");
    assert_eq!(nothing.err, format!("nothing is left to decide in {name}\n"));
}

#[test]
fn kept_apart_counts_until_it_is_taken_back() {
    let place = place();
    save_plan(&place);
    let decisions = || -> Vec<String> {
        let store = Connection::open(place.path("brain.db")).unwrap();
        let sql = "SELECT memory_id FROM memfold_decisions WHERE active = 1 ORDER BY memory_id";
        let mut statement = store.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    };
    review(&place, &[], "k\n");
    assert_eq!(decisions().len(), 2);
    assert_eq!(states(&place).iter().filter(|state| state.ends_with("rejected")).count(), 1);
    let taken_back = review(&place, &[], "k\nu\nq\n");
    assert_eq!(taken_back.code, Some(0), "{taken_back:?}");
    assert_eq!(decisions().len(), 2, "only those of the first review");
    assert_eq!(states(&place).iter().filter(|state| state.ends_with("proposed")).count(), 3);
}

#[test]
fn the_count_of_answers_is_a_document() {
    let place = place();
    let name = save_plan(&place);
    let walked = review(&place, &["--json"], "y\nn\n");
    let document: serde_json::Value = serde_json::from_str(&walked.out).unwrap();
    let expected = serde_json::json!({
        "schema_version": 1, "plan_id": name,
        "approved": 1, "rejected": 1, "kept_both": 0, "undecided": 2,
    });
    assert_eq!(document, expected);
    assert!(walked.err.contains("1 of 4 · "), "questions go to stderr: {}", walked.err);
}

#[test]
fn a_store_that_must_not_be_written_is_not_reviewed() {
    let place = place();
    save_plan(&place);
    for key in ["read_only=true", "enabled=false"] {
        let refused = review(&place, &["--set", key], "y\n");
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
        assert!(refused.err.contains("answers cannot be written"), "{}", refused.err);
    }
    assert!(states(&place).iter().all(|state| state.ends_with("proposed")));
}

#[test]
fn a_damaged_plan_is_named() {
    let place = place();
    let name = save_plan(&place);
    let store = Connection::open(place.path("brain.db")).unwrap();
    store.execute("UPDATE memfold_actions SET body = '{' WHERE position = 0", []).unwrap();
    drop(store);
    let place = &place;
    for command in
        [&["runs", "brain.db", "latest", "--plans"][..], &["review", "brain.db", "latest"]]
    {
        let refused = place.run(command);
        let expected = format!("saved plan {name} is damaged: body: EOF");
        refused.fails_with(1, &[&expected, "hint: save it again"]);
    }
}

#[test]
fn what_was_answered_is_what_is_applied() {
    let place = place();
    let name = save_plan(&place);
    // The backups as planned, the tea kept apart, the kiln the other way round, no flag.
    let walked = review(&place, &[], "y\nk\ns\ny\nk\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    place.succeed(&["apply", "brain.db", &name, "--now", NOW, "--execute"]);
    let store = Connection::open(place.path("brain.db")).unwrap();
    let archived = |number: u32| -> bool {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM stm WHERE id = ?1)";
        store.query_row(sql, [format!("m{number:06}")], |row| row.get(0)).unwrap()
    };
    let archived: Vec<u32> = (0..8).filter(|&number| archived(number)).collect();
    assert_eq!(archived, [1, 4], "the newer kiln merged into the older one");
    assert_eq!(states(&place), ["a1 applied", "a2 rejected", "a3 applied", "a4 rejected"]);
    drop(store);
    let again = place.json(&consolidate(&["--json"]));
    assert_eq!(again["planned"]["merge"], 0, "what was kept apart is not planned again");
    assert_eq!(again["planned"]["flag_contradiction"], 0);
}

#[test]
fn a_plan_made_with_flags_is_reviewed_with_them() {
    let place = place();
    let flags = ["--save-plan", "--threshold", "0.97", "--set", "merge.absorbed=archive"];
    place.succeed(&consolidate(&flags));
    let plan = place.json(&["runs", "brain.db", "latest", "--plans", "--json"]);
    assert_eq!(plan["overrides"]["threshold"], 0.97);
    assert_eq!(review(&place, &[], "s\ny\n").code, Some(0));
    place.succeed(&["apply", "brain.db", "latest", "--now", NOW, "--execute"]);
}

#[test]
fn while_a_run_is_at_work_only_keep_both_must_wait() {
    let place = place();
    save_plan(&place);
    let options = SessionOptions { busy_timeout: Duration::from_secs(5), holder: "here 1".into() };
    let run = Session::open(&place.path("brain.db"), &options).unwrap();
    let walked = review(&place, &[], "k\ny\nq\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    let out = walked.out.replace('\n', " ");
    assert!(out.contains("is locked by another run of"), "{}", walked.out);
    drop(run);
    assert_eq!(states(&place)[..2], ["a1 approved", "a2 proposed"]);
    review(&place, &[], "k\n");
    assert_eq!(states(&place)[1], "a2 rejected");
}

/// One answer for many actions is given on the command line, by `--only` or by labels.
#[test]
fn many_actions_are_answered_at_once() {
    let place = place();
    save_plan(&place);
    let before = place.files();
    let review = |further: &[&str]| {
        place.succeed(&[&["review", "brain.db", "latest", "--now", NOW], further].concat())
    };
    let dry = review(&["--only", "merge", "--approve"]);
    assert_eq!(dry, "3 actions would be approved: a1, a2, a3\n");
    assert!(before == place.files());
    let done = review(&["--only", "merge", "--approve", "--execute"]);
    assert!(done.contains("3 approved · 0 rejected"), "{done}");
    review(&["a4", "--reject", "--execute"]);
    assert_eq!(states(&place), ["a1 approved", "a2 approved", "a3 approved", "a4 rejected"]);
    for (words, said) in [
        (&["--approve"][..], "no action is named"),
        (&["a1"], "a1 without an answer"),
        (&["--only", "nonsense", "--approve"], "names no actions"),
        (&["--only", "a9", "--approve"], "no a9"),
        (&["--execute"], "a dialogue writes each answer at once"),
    ] {
        place.run(&[&["review", "brain.db", "latest"], words].concat()).fails_with(2, &[said]);
    }
}

/// `--only` asks about these actions alone.
#[test]
fn a_dialogue_can_be_about_some_kinds_only() {
    let place = place();
    save_plan(&place);
    let walked = review(&place, &["--only", "flag_contradiction"], "b\n");
    assert!(walked.out.contains("1 of 1 · a4 flag_contradiction"), "{}", walked.out);
    assert_eq!(states(&place)[3], "a4 rejected");
    assert_eq!(states(&place).iter().filter(|state| state.ends_with("proposed")).count(), 3);
}

#[test]
fn an_audit_keeps_how_many_merges_were_wrong() {
    let place = place();
    let audit = |further: &[&str], answers: &str| {
        place.run_with(&[&["audit", "brain.db", "--now", NOW], further].concat(), answers)
    };
    let none = audit(&[], "");
    assert!(none.code == Some(1) && none.err.contains("no run has written"), "{none:?}");
    place.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let first = audit(&["--sample", "2", "--json"], "v\nperhaps\nn\nu\ny\nn\n");
    assert_eq!(first.code, Some(0), "{first:?}");
    let found: serde_json::Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!((&found["right"], &found["wrong"]), (&1.into(), &1.into()));
    assert_eq!(found["wrong_share"], 0.5);
    assert!(found["merges"].as_u64() >= Some(2), "{found}");
    // A sample is the same each time; without an answer nothing is kept.
    let question = |answer: &crate::support::Answer| answer.out.lines().next().map(str::to_owned);
    assert_eq!(question(&audit(&[], "q\n")), question(&audit(&[], "y\nq\n")));
    let run = found["run_id"].as_str().unwrap();
    let shown = place.succeed(&["runs", "brain.db", run]);
    let line = "audit: 2 looked at: 1 right, 1 wrong; 50.0 % wrong, 9.5 % to 90.5 % (95 %)";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("audit: 1 looked at: 1 right, 0 wrong; at most"), "{shown}");
    let listed = place.json(&["runs", "brain.db", "--json"]);
    assert_eq!(listed["audit_chain"]["holds"], true);
    let kinds = |kind: &str| {
        let runs = listed["runs"].as_array().unwrap().iter();
        runs.filter(|run| run["kind"] == kind).count()
    };
    assert_eq!((kinds("execute"), kinds("audit")), (1, 2));
    // What an audit kept is no run to undo.
    place.succeed(&["undo", "brain.db", "latest", "--execute", "--now", NOW]);
    let after = audit(&["latest"], "y\nq\n");
    assert_eq!(after.code, Some(0), "{after:?}");
}
