//! A store that somebody else is writing to is waited for, then left as it is.

use std::time::Duration;

use memfold_tests::{NOW, StoreImage, diff, wild_store};
use rusqlite::{Connection, TransactionBehavior};

use crate::support::Place;

/// A store and what runs on it.
fn wild() -> (Place, StoreImage) {
    let place = Place::new();
    let path = place.path("brain.db");
    let _facts = wild_store(&path, 60, 9);
    let image = StoreImage::of(&path);
    (place, image)
}

fn execute(timeout_ms: &str) -> Vec<String> {
    let set = format!("busy_timeout_ms={timeout_ms}");
    let words = ["consolidate", "brain.db", "--now", NOW, "--set", "time_zone=UTC", "--set", &set];
    let further = ["--execute", "--max-change-share", "1", "--quiet"];
    words.into_iter().chain(further).map(str::to_owned).collect()
}

#[test]
fn a_lock_that_is_released_in_time_is_waited_for() {
    let (place, before) = wild();
    let arguments = execute("20000");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut holder = Connection::open(place.path("brain.db")).unwrap();
    let held = holder.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let answer = std::thread::scope(|scope| {
        let running = scope.spawn(|| place.run(&arguments));
        std::thread::sleep(Duration::from_millis(700));
        drop(held);
        running.join().unwrap()
    });
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let after = StoreImage::of(&place.path("brain.db"));
    assert!(!diff(&before, &after).is_empty());
}

#[test]
fn a_lock_that_stays_is_an_error_and_nothing_is_half_done() {
    let (place, before) = wild();
    let arguments = execute("60");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut holder = Connection::open(place.path("brain.db")).unwrap();
    let held = holder.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let answer = place.run(&arguments);
    drop(held);
    assert!(matches!(answer.code, Some(1 | 5)), "{answer:?}");
    assert!(answer.err.contains("hint: "), "{answer:?}");
    let after = StoreImage::of(&place.path("brain.db"));
    assert_eq!(diff(&before, &after), Vec::<String>::new());
}
