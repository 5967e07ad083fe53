//! A memory may stand in the questions of several proposals; answers to all of them lose nothing.

use memfold_tests::{NOW, memory, turned_vector};

use crate::reviewing::{proposed, review};
use crate::support::{TestFolder, consolidate};

const DIM: usize = 8;

/// Three wordings of one fact; the first and the last are too far apart for one question.
fn chain() -> TestFolder {
    let texts = [
        "Invoices get sent out by Ines every Friday.",
        "Every Friday Ines sends out the invoices.",
        "The invoices are sent out by Ines every Friday.",
    ];
    let row =
        |(at, text): (usize, &&str)| memory(at, *text, &turned_vector(DIM, 0, 0.45 * at as f32));
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    TestFolder::with(&rows)
}

/// Only one of the two groups was a question before: the second waited for the first one's answer.
#[test]
fn a_memory_between_two_others_stands_in_the_questions_of_both() {
    let dir = chain();
    let found = proposed(&dir, &[]);
    let with = |id: &str| found.iter().filter(|ids| ids.iter().any(|own| own == id)).count();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(["m000000", "m000001", "m000002"].map(with), [1, 2, 1], "{found:?}");
    assert_eq!(proposed(&dir, &["--set", "propose.max_per_run=1"]).len(), 1);
}

#[test]
fn answers_to_two_questions_about_one_memory_lose_nothing() {
    for (answers, left) in
        [("y\ny\n", 1..=2), ("y\nk\n", 2..=2), ("k\ny\n", 2..=2), ("k\nk\n", 3..=3)]
    {
        let dir = chain();
        dir.succeed(&consolidate(&["--save-plan"]));
        review(&dir, &[], answers);
        dir.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
        let stays = dir.live();
        assert!(left.contains(&stays.len()), "{answers:?}: {stays:?}");
        let sql = "SELECT (SELECT COUNT(*) FROM stm) + (SELECT COUNT(DISTINCT memory_id) FROM memfold_archive)";
        assert_eq!(dir.one::<i64>(sql), 3, "nothing is lost");
        // Undecided groups are asked again, about live memories only; decided ones are not.
        let again = proposed(&dir, &[]);
        assert!(again.iter().flatten().all(|id| stays.contains(id)), "{answers:?}: {again:?}");
        let report = dir.json(&consolidate(&["--json"]));
        assert_eq!(report["planned"]["merge"], 0, "{answers:?}");
        dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
        assert_eq!(dir.live(), stays, "{answers:?}: a further run changes nothing");
        assert_eq!(proposed(&dir, &[]), again, "{answers:?}");
    }
}
