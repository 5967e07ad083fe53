//! Proposals: what nothing proves is asked, and done only where a person said so.

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{NOW, brain_db, memory};
use rusqlite::Connection;

use crate::reviewing::review;
use crate::support::{TestFolder, consolidate};

const DIM: usize = 8;

/// Pairs in other words at 0.93, one of them with a copy of its newer text; a pair that differs in a port.
fn dir() -> TestFolder {
    let dir = TestFolder::new();
    let texts = [
        ("Marek is the tech lead of payments.", 0, 0.0),
        ("The payments team's tech lead is Marek.", 0, 0.38),
        ("The payments team's tech lead is Marek.", 0, 0.38),
        ("Invoices get sent out by Ines every Friday.", 2, 0.0),
        ("Every Friday Ines sends out the invoices.", 2, 0.38),
        ("The gateway listens on port 8080.", 4, 0.0),
        ("The gateway listens on port 9090.", 4, 0.38),
    ];
    let row = |(at, (text, axis, turn)): (usize, &(&str, usize, f32))| {
        let mut vector = [0.0; DIM];
        (vector[*axis], vector[axis + 1]) = (turn.cos(), turn.sin());
        memory(at, *text, &vector)
    };
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
    dir
}

fn live(dir: &TestFolder) -> Vec<String> {
    let store = Connection::open(dir.path("brain.db")).unwrap();
    let sql = "SELECT id FROM stm WHERE source NOT LIKE 'archived:%' ORDER BY id";
    let mut statement = store.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

/// The proposals of a run: survivor first.
fn proposed(dir: &TestFolder, further: &[&str]) -> Vec<Vec<String>> {
    dir.succeed(&consolidate(&[&["--plan", "plan.json"], further].concat()));
    let plan = std::fs::read(dir.path("plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
    let actions = plan["actions"].as_array().unwrap().iter();
    let proposals = actions.filter(|action| action["type"] == "propose_merge");
    let ids = |action: &serde_json::Value| {
        let ids = action["targetIds"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    proposals.map(ids).collect()
}

#[test]
fn near_texts_in_other_words_are_proposed_with_the_copies_merged_first() {
    let dir = dir();
    let report = dir.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["propose_merge"], 2, "{}", report["planned"]);
    assert_eq!(report["planned"]["merge"], 1);
    let found = proposed(&dir, &[]);
    assert!(found.iter().all(|ids| ids.len() == 2), "copies are one memory: {found:?}");
    assert!(found.iter().flatten().all(|id| !["m000005", "m000006"].contains(&&**id)), "{found:?}");
    assert_eq!(proposed(&dir, &["--set", "propose.max_per_run=1"]).len(), 1);
    assert_eq!(proposed(&dir, &["--set", "propose.max_per_run=0"]).len(), 0);
    assert_eq!(proposed(&dir, &["--set", "propose.min_similarity=0.94"]).len(), 0);
    let screen = dir.succeed(&consolidate(&[]));
    assert!(screen.contains("2 probably the same (review)"), "{screen}");
}

#[test]
fn nothing_is_done_without_an_answer() {
    let dir = dir();
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    assert_eq!(live(&dir).len(), 6, "only the copy went");
    assert_eq!(proposed(&dir, &[]).len(), 2, "they wait on");
    // Neither does a saved plan that nobody reviewed, whatever is picked.
    dir.succeed(&consolidate(&["--save-plan"]));
    let apply = ["apply", "brain.db", "latest", "--execute", "--now", NOW];
    for picks in [&[][..], &["--only", "propose_merge"], &["--only", "a1,a2"]] {
        let applied = dir.run(&[&apply, picks].concat());
        assert_eq!(live(&dir).len(), 6, "{picks:?}: {applied:?}");
    }
}

#[test]
fn what_a_person_approves_is_merged_and_comes_back() {
    let dir = dir();
    dir.succeed(&consolidate(&["--save-plan"]));
    // The copy; of the ports the older, which is taken back, then none, then both; one proposal with the other survivor,
    // the second kept apart.
    let walked = review(&dir, &[], "y\no\nu\ns\nu\nb\ns\ny\nk\n");
    assert!(walked.out.contains("y merge · s swap · k both · n not now"), "{walked:?}");
    assert!(walked.out.contains("2 approved · 0 rejected · 2 kept apart"), "{walked:?}");
    let before = dir.files();
    dir.succeed(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert_eq!(live(&dir).len(), 5);
    assert_eq!(proposed(&dir, &[]).len(), 0, "one is done, one is decided");
    let report = dir.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["merge"], 0);
    assert_eq!(report["planned"]["flag_contradiction"], 0);
    assert!(before != dir.files());
    dir.succeed("undo brain.db latest --execute");
    assert_eq!(live(&dir).len(), 7);
    assert_eq!(proposed(&dir, &[]).len(), 0, "what was taken back is settled");
}

/// One port, told twice.
fn updated() -> TestFolder {
    let dir = TestFolder::new();
    let texts = ["The gateway listens on port 8080.", "The gateway listens on port 9090."];
    let row = |(at, text): (usize, &&str)| memory(at, *text, &[1.0; DIM]);
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
    dir.succeed(&consolidate(&["--save-plan"]));
    dir
}

#[test]
fn an_update_is_settled_on_the_spot() {
    let apply = ["apply", "brain.db", "latest", "--execute", "--now", NOW];
    for (answers, stays) in [
        ("n\n", vec!["m000001"]),
        ("o\n", vec!["m000000"]),
        ("b\n", vec!["m000000", "m000001"]),
        ("s\n", vec!["m000000", "m000001"]),
    ] {
        let dir = updated();
        let walked = review(&dir, &[], answers);
        assert_eq!((walked.code, &*walked.err), (Some(0), ""), "{walked:?}");
        assert!(walked.out.contains("n newer · o older · b both · s skip"), "{walked:?}");
        if answers != "s\n" {
            dir.run(&apply);
        }
        assert_eq!(live(&dir), stays, "{answers:?}: {walked:?}");
        let report = dir.json(&consolidate(&["--json"]));
        let again = u64::from(answers == "s\n");
        assert_eq!(report["planned"]["flag_contradiction"], again, "{answers:?}");
        assert_eq!(report["planned"]["merge"], 0, "{answers:?}");
        if stays.len() == 1 {
            dir.succeed("undo brain.db latest --execute");
            assert_eq!(live(&dir).len(), 2);
        }
    }
}
