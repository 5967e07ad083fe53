//! Proposals: what nothing proves is asked, and done only where a person said so.

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{NOW, brain_db, memory};
use rusqlite::Connection;

use crate::reviewing::review;
use crate::support::{Place, consolidate};

const DIM: usize = 8;

/// Pairs in other words at 0.93, one of them with a copy of its newer text; a pair that differs in a port.
fn place() -> Place {
    let place = Place::new();
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
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    place
}

fn live(place: &Place) -> Vec<String> {
    let store = Connection::open(place.path("brain.db")).unwrap();
    let sql = "SELECT id FROM stm WHERE source NOT LIKE 'archived:%' ORDER BY id";
    let mut statement = store.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

/// The proposals of a run: survivor first.
fn proposed(place: &Place, further: &[&str]) -> Vec<Vec<String>> {
    place.succeed(&consolidate(&[&["--plan", "plan.json"], further].concat()));
    let plan = std::fs::read(place.path("plan.json")).unwrap();
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
    let place = place();
    let report = place.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["propose_merge"], 2, "{}", report["planned"]);
    assert_eq!(report["planned"]["merge"], 1);
    let found = proposed(&place, &[]);
    assert!(found.iter().all(|ids| ids.len() == 2), "copies are one memory: {found:?}");
    assert!(found.iter().flatten().all(|id| !["m000005", "m000006"].contains(&&**id)), "{found:?}");
    assert_eq!(proposed(&place, &["--set", "propose.max_per_run=1"]).len(), 1);
    assert_eq!(proposed(&place, &["--set", "propose.max_per_run=0"]).len(), 0);
    assert_eq!(proposed(&place, &["--set", "propose.min_similarity=0.94"]).len(), 0);
    let screen = place.succeed(&consolidate(&[]));
    assert!(screen.contains("2 probably the same (review)"), "{screen}");
}

#[test]
fn nothing_is_done_without_an_answer() {
    let place = place();
    place.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    assert_eq!(live(&place).len(), 6, "only the copy went");
    assert_eq!(proposed(&place, &[]).len(), 2, "they wait on");
    // Neither does a saved plan that nobody reviewed, whatever is picked.
    place.succeed(&consolidate(&["--save-plan"]));
    let apply = ["apply", "brain.db", "latest", "--execute", "--now", NOW];
    for picks in [&[][..], &["--only", "propose_merge"], &["--only", "a1,a2"]] {
        let applied = place.run(&[&apply, picks].concat());
        assert_eq!(live(&place).len(), 6, "{picks:?}: {applied:?}");
    }
}

#[test]
fn what_a_person_approves_is_merged_and_comes_back() {
    let place = place();
    place.succeed(&consolidate(&["--save-plan"]));
    // The copy; of the ports the older, which is taken back, then none, then both; one proposal with the other survivor,
    // the second kept apart.
    let walked = review(&place, &[], "y\no\nu\ns\nu\nb\ns\ny\nk\n");
    assert!(walked.out.contains("y merge · s swap · k both · n not now"), "{walked:?}");
    assert!(walked.out.contains("2 approved · 0 rejected · 2 kept apart"), "{walked:?}");
    let before = place.files();
    place.succeed(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert_eq!(live(&place).len(), 5);
    assert_eq!(proposed(&place, &[]).len(), 0, "one is done, one is decided");
    let report = place.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["merge"], 0);
    assert_eq!(report["planned"]["flag_contradiction"], 0);
    assert!(before != place.files());
    place.succeed(&["undo", "brain.db", "latest", "--execute"]);
    assert_eq!(live(&place).len(), 7);
    assert_eq!(proposed(&place, &[]).len(), 0, "what was taken back is settled");
}

#[test]
fn not_now_is_asked_again() {
    let place = place();
    place.succeed(&consolidate(&["--save-plan"]));
    review(&place, &[], "n\ns\nn\nn\n");
    place.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert_eq!(live(&place).len(), 7);
    assert_eq!(proposed(&place, &[]).len(), 2);
}

/// One port, told twice.
fn updated() -> Place {
    let place = Place::new();
    let texts = ["The gateway listens on port 8080.", "The gateway listens on port 9090."];
    let row = |(at, text): (usize, &&str)| memory(at, *text, &[1.0; DIM]);
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    place.succeed(&consolidate(&["--save-plan"]));
    place
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
        let place = updated();
        let walked = review(&place, &[], answers);
        assert_eq!((walked.code, &*walked.err), (Some(0), ""), "{walked:?}");
        assert!(walked.out.contains("n newer · o older · b both · s skip"), "{walked:?}");
        if answers != "s\n" {
            place.run(&apply);
        }
        assert_eq!(live(&place), stays, "{answers:?}: {walked:?}");
        let report = place.json(&consolidate(&["--json"]));
        let again = u64::from(answers == "s\n");
        assert_eq!(report["planned"]["flag_contradiction"], again, "{answers:?}");
        assert_eq!(report["planned"]["merge"], 0, "{answers:?}");
        if stays.len() == 1 {
            place.succeed(&["undo", "brain.db", "latest", "--execute"]);
            assert_eq!(live(&place).len(), 2);
        }
    }
}

#[test]
fn a_flag_that_waits_says_what_it_is_and_how_to_settle_it() {
    let place = updated();
    place.succeed(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    let flags = place.json(&["review", "brain.db", "--flags", "--json"]);
    let flag = &flags["flags"][0];
    assert_eq!((&flag["kind"], &flag["newer"]), (&"update".into(), &"m000001".into()), "{flag}");
    let listed = place.succeed(&["review", "brain.db", "--flags"]);
    assert!(listed.contains("  update") && listed.contains("KEY --newer"), "{listed}");
    place.succeed(&["review", "brain.db", flag["key"].as_str().unwrap(), "--newer", "--execute"]);
    assert_eq!(live(&place), ["m000001"]);
}

/// Three wordings of one fact; the first and the last are too far apart to be asked about together.
fn chain() -> Place {
    let place = Place::new();
    let texts = [
        "Invoices get sent out by Ines every Friday.",
        "Every Friday Ines sends out the invoices.",
        "The invoices are sent out by Ines every Friday.",
    ];
    let row = |(at, text): (usize, &&str)| {
        let turn = 0.45 * at as f32;
        let mut vector = [0.0; DIM];
        (vector[0], vector[1]) = (turn.cos(), turn.sin());
        memory(at, *text, &vector)
    };
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    place
}

/// Only one of the two groups was asked about before: the second waited for the first one's answer.
#[test]
fn a_memory_between_two_others_stands_in_the_questions_of_both() {
    let place = chain();
    let found = proposed(&place, &[]);
    let with = |id: &str| found.iter().filter(|ids| ids.iter().any(|own| own == id)).count();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(["m000000", "m000001", "m000002"].map(with), [1, 2, 1], "{found:?}");
    assert_eq!(proposed(&place, &["--set", "propose.max_per_run=1"]).len(), 1);
}

#[test]
fn answers_to_two_questions_about_one_memory_lose_nothing() {
    for (answers, left) in
        [("y\ny\n", 1..=2), ("y\nk\n", 2..=2), ("k\ny\n", 2..=2), ("k\nk\n", 3..=3)]
    {
        let place = chain();
        place.succeed(&consolidate(&["--save-plan"]));
        review(&place, &[], answers);
        place.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
        let stays = live(&place);
        assert!(left.contains(&stays.len()), "{answers:?}: {stays:?}");
        let store = Connection::open(place.path("brain.db")).unwrap();
        let sql = "SELECT COUNT(*) FROM stm";
        assert_eq!(store.query_row(sql, [], |row| row.get(0)), Ok(3_i64), "nothing is lost");
        // What an answer left open is asked anew, about live memories only; what was decided is not.
        let again = proposed(&place, &[]);
        assert!(again.iter().flatten().all(|id| stays.contains(id)), "{answers:?}: {again:?}");
        let report = place.json(&consolidate(&["--json"]));
        assert_eq!(report["planned"]["merge"], 0, "{answers:?}");
        place.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
        assert_eq!(live(&place), stays, "{answers:?}: a further run changes nothing");
        assert_eq!(proposed(&place, &[]), again, "{answers:?}");
    }
}
