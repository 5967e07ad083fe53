//! `memfold runs --plans` and `memfold review`, through pipes.

use std::time::Duration;

use memfold_store::brain_db::{Session, SessionOptions, StoreStyle};
use memfold_tests::{NOW, brain_db, memory, unit_vector};
use rusqlite::Connection;

use crate::support::{Answer, TestFolder, consolidate};

/// Equal, trivially and otherwise different texts, each twice, and a contradiction.
pub(crate) fn dir() -> TestFolder {
    let dir = TestFolder::new();
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
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
    dir
}

/// Saves what a run plans, and returns the plan's name.
fn save_plan(dir: &TestFolder) -> String {
    dir.succeed(&consolidate(&["--save-plan"]));
    let plans = dir.json("runs brain.db --plans --json");
    plans["plans"][0]["plan_id"].as_str().unwrap().to_owned()
}

pub(crate) fn review(dir: &TestFolder, further: &[&str], answers: &str) -> Answer {
    let arguments = [&["review", "brain.db", "latest", "--now", NOW], further].concat();
    dir.run_with(&arguments, answers)
}

/// The states of the plan's changes, by label.
fn states(dir: &TestFolder) -> Vec<String> {
    let plan = dir.json("runs brain.db latest --plans --json");
    let actions = plan["actions"].as_array().unwrap().iter();
    let changes = actions.filter(|saved| saved["action"]["type"] != "noop");
    changes.map(|saved| format!("{} {}", saved["label"], saved["state"]).replace('"', "")).collect()
}

#[test]
fn plans_are_listed_with_their_actions() {
    let dir = dir();
    let name = save_plan(&dir);
    insta::assert_snapshot!(
        "plans",
        dir.succeed("runs brain.db --plans").replace(&name, "PLAN_ID______")
    );
    let before = dir.files();
    let plan = dir.succeed(&["runs", "brain.db", &name[..6], "--plans"]);
    insta::assert_snapshot!("plan", plan.replace(&name, "PLAN"));
    assert!(before == dir.files(), "looking leaves no trace");
    let listed = dir.json("runs brain.db --plans --json");
    assert_eq!(listed["plans"][0]["plan_id"], name.as_str());
    assert_eq!(listed["plans"][0]["states"]["proposed"], 4);
}

#[test]
fn a_plan_is_reviewed_through_a_pipe() {
    let dir = dir();
    let name = save_plan(&dir);
    let walked = review(&dir, &[], "v\ny\nperhaps\nn\nu\nk\ns\ny\n");
    assert_eq!((walked.code, walked.err.as_str()), (Some(0), ""), "{walked:?}");
    insta::assert_snapshot!("review", walked.out.replace(&name, "PLAN"));
    assert_eq!(states(&dir), ["a1 approved", "a2 rejected", "a3 approved", "a4 proposed"]);
    // What was left open comes first next time.
    let rest = review(&dir, &[], "k\n");
    assert!(rest.out.contains("1 of 1 · a4 flag_contradiction"), "{}", rest.out);
    assert_eq!(states(&dir)[3], "a4 rejected");
    let nothing = review(&dir, &[], "");
    assert_eq!(nothing.err, format!("nothing is left to decide in {name}\n"));
}

#[test]
fn the_count_of_answers_is_a_document() {
    let dir = dir();
    let name = save_plan(&dir);
    let walked = review(&dir, &["--json"], "y\nn\n");
    let document: serde_json::Value = serde_json::from_str(&walked.out).unwrap();
    let expected = serde_json::json!({
        "schema_version": 1, "plan_id": name,
        "approved": 1, "rejected": 1, "kept_both": 0, "undecided": 2,
    });
    assert_eq!(document, expected);
    assert!(walked.err.contains("1 of 4 · "), "questions go to stderr: {}", walked.err);
}

#[test]
fn what_was_answered_is_what_is_applied() {
    let dir = dir();
    let name = save_plan(&dir);
    // The backups as planned, the tea kept apart, the kiln the other way round, no flag.
    let walked = review(&dir, &[], "y\nk\ns\ny\nk\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    dir.succeed(&["apply", "brain.db", &name, "--now", NOW, "--execute"]);
    let store = Connection::open(dir.path("brain.db")).unwrap();
    let archived = |number: u32| -> bool {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM stm WHERE id = ?1)";
        store.query_row(sql, [format!("m{number:06}")], |row| row.get(0)).unwrap()
    };
    let archived: Vec<u32> = (0..8).filter(|&number| archived(number)).collect();
    assert_eq!(archived, [1, 4], "the newer kiln merged into the older one");
    assert_eq!(states(&dir), ["a1 applied", "a2 rejected", "a3 applied", "a4 rejected"]);
    drop(store);
    let again = dir.json(&consolidate(&["--json"]));
    assert_eq!(again["planned"]["merge"], 0, "what was kept apart is not planned again");
    assert_eq!(again["planned"]["flag_contradiction"], 0);
}

#[test]
fn while_a_run_is_at_work_only_keep_both_must_wait() {
    let dir = dir();
    save_plan(&dir);
    let options = SessionOptions { busy_timeout: Duration::from_secs(5), holder: "here 1".into() };
    let run = Session::open(&dir.path("brain.db"), &options).unwrap();
    let walked = review(&dir, &[], "k\ny\nq\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    let out = walked.out.replace('\n', " ");
    assert!(out.contains("is locked by another run of"), "{}", walked.out);
    drop(run);
    assert_eq!(states(&dir)[..2], ["a1 approved", "a2 proposed"]);
    review(&dir, &[], "k\n");
    assert_eq!(states(&dir)[1], "a2 rejected");
}

/// One answer for many actions is given on the command line, by `--only` or by labels.
#[test]
fn many_actions_are_answered_at_once() {
    let dir = dir();
    save_plan(&dir);
    let before = dir.files();
    let review = |further: &[&str]| {
        dir.succeed(&[&["review", "brain.db", "latest", "--now", NOW], further].concat())
    };
    let dry = review(&["--only", "merge", "--approve"]);
    assert_eq!(dry, "3 actions would be approved: a1, a2, a3\n");
    assert!(before == dir.files());
    let done = review(&["--only", "merge", "--approve", "--execute"]);
    assert!(done.contains("3 approved · 0 rejected"), "{done}");
    review(&["a4", "--reject", "--execute"]);
    assert_eq!(states(&dir), ["a1 approved", "a2 approved", "a3 approved", "a4 rejected"]);
    for (words, said) in [
        (&["--approve"][..], "no action is named"),
        (&["a1"], "a1 without an answer"),
        (&["--only", "nonsense", "--approve"], "names no actions"),
        (&["--only", "a9", "--approve"], "no a9"),
        (&["--execute"], "a dialogue writes each answer at once"),
    ] {
        dir.run(&[&["review", "brain.db", "latest"], words].concat()).fails_with(2, &[said]);
    }
}

#[test]
fn an_audit_keeps_how_many_merges_were_wrong() {
    let dir = dir();
    let audit = |further: &[&str], answers: &str| {
        dir.run_with(&[&["audit", "brain.db", "--now", NOW], further].concat(), answers)
    };
    let none = audit(&[], "");
    assert!(none.code == Some(1) && none.err.contains("no run has written"), "{none:?}");
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
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
    let shown = dir.succeed(&["runs", "brain.db", run]);
    let line = "audit: 2 looked at: 1 right, 1 wrong; 50.0 % wrong, 9.5 % to 90.5 % (95 %)";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("audit: 1 looked at: 1 right, 0 wrong; at most"), "{shown}");
    let listed = dir.json("runs brain.db --json");
    assert_eq!(listed["audit_chain"]["holds"], true);
    let kinds = |kind: &str| {
        let runs = listed["runs"].as_array().unwrap().iter();
        runs.filter(|run| run["kind"] == kind).count()
    };
    assert_eq!((kinds("execute"), kinds("audit")), (1, 2));
    // What an audit kept is no run to undo.
    dir.succeed(&["undo", "brain.db", "latest", "--execute", "--now", NOW]);
    let after = audit(&["latest"], "y\nq\n");
    assert_eq!(after.code, Some(0), "{after:?}");
}
