//! A dry run leaves the store's files and folder as they were.

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{brain_db, generated_rows, store_of_vectors};
use rusqlite::Connection;

use crate::support::{Place, consolidate};

fn wild() -> Place {
    let place = Place::new();
    let rows = store_of_vectors(&generated_rows(2_000, 32, 31), 32);
    brain_db(&place.path("brain.db"), rows.rows(), StoreStyle::Wild);
    place
}

#[test]
fn a_wild_store_stays_as_it_is() {
    let place = wild();
    let before = place.files();
    let document = place.json(&consolidate(&["--json"]));
    assert!(before == place.files());
    let loaded = &document["loaded"];
    assert!(loaded["memories"].as_u64() > loaded["live"].as_u64());
    let commands: [&[&str]; 3] = [
        &["doctor", "brain.db"],
        &["doctor", "brain.db", "--health"],
        &["consolidate", "brain.db"],
    ];
    for command in commands {
        place.succeed(command);
        assert!(before == place.files(), "{command:?}");
    }
}

#[test]
fn a_store_that_a_writer_has_open_stays_as_it_is() {
    let place = wild();
    let writer = Connection::open(place.path("brain.db")).unwrap();
    writer
        .execute_batch(
            "PRAGMA wal_autocheckpoint = 0;
             INSERT INTO stm (id, content, categories, created_at)
             VALUES ('new', 'Written a moment ago.', '[]', '2026-02-02T02:02:02');
             BEGIN IMMEDIATE; DELETE FROM stm WHERE id = 'new';",
        )
        .unwrap();
    let before = place.files();
    assert_eq!(before.len(), 3);
    assert!(!before[&place.path("brain.db-wal")].is_empty());
    let live = place.json(&consolidate(&["--json"]))["loaded"]["live"].as_u64();
    let after = place.files();
    assert!(before.keys().eq(after.keys()));
    // In the shared memory every reader marks up to where it reads.
    for name in ["brain.db", "brain.db-wal"] {
        assert!(before[&place.path(name)] == after[&place.path(name)], "{name}");
    }
    writer.execute_batch("COMMIT").unwrap();
    let without = place.json(&consolidate(&["--json"]))["loaded"]["live"].as_u64();
    assert_eq!(live.map(|live| live - 1), without);
}

#[test]
fn a_store_beside_another_is_left_alone() {
    let place = wild();
    std::fs::copy(place.path("brain.db"), place.path("second.db")).unwrap();
    let before = place.files();
    place.succeed(&["consolidate", "brain.db", "--threshold", "0.8"]);
    assert!(before == place.files());
}

/// Sends SIGINT as soon as the process listens to it.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    use std::process::Stdio;

    use memfold_tests::PlainMemory;
    use memfold_tests::memory;

    use crate::support::interrupt;

    let place = Place::new();
    // Every two of them are near each other, so that judging them takes minutes.
    let row = |i: usize| -> PlainMemory {
        let text = format!("Worker {i} finished shift {} in hall {}.", i * 7, i % 13);
        memory(i, text, &[1.0, i as f32 * 1e-5, 0.0, 0.1])
    };
    brain_db(&place.path("brain.db"), &(0..6_000).map(row).collect::<Vec<_>>(), StoreStyle::Plain);
    let before = place.files();
    let arguments = consolidate(&["--report", "r.json"]);
    let child =
        place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt(&child);
    let answer = place.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.out, "");
    assert_eq!(answer.err, "error: interrupted; nothing was written\n");
    assert!(before == place.files());
}
