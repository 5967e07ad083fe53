//! Readers and writers at once, in threads; locks are those of open files, so threads are to them what processes are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::file::generations::manifest::Manifest;

#[test]
fn readers_never_fail_under_a_thousand_swaps() {
    const SWAPS: u64 = 1_000;
    let place = place();
    publish(place.path());
    let done = AtomicBool::new(false);
    let opened = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let number = live(place.path());
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // One that holds a generation for long, and looks for fresh rows in it.
        scope.spawn(|| {
            let generations = Generations::at(place.path());
            while !done.load(Ordering::Relaxed) {
                let mut generation = generations.current().unwrap().unwrap();
                while generations.is_current(&generation).unwrap() && !done.load(Ordering::Relaxed)
                {
                    generation.see_fresh().unwrap();
                }
                assert_whole(&generation);
            }
        });
        let swap = || {
            for number in 2..=SWAPS + 1 {
                assert_eq!(publish(place.path()), number);
                if number % 7 == 0 {
                    seal(&mut open(place.path()));
                }
            }
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(swap));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    assert_eq!(live(place.path()), SWAPS + 1);
    assert!(opened.into_inner() >= SWAPS / 2, "readers were hardly there");
}

#[test]
fn sealers_take_turns_while_generations_come_and_go() {
    let place = place();
    publish(place.path());
    let done = AtomicBool::new(false);
    let (sealed, gone) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut generation = open(place.path());
                    match try_seal(&mut generation) {
                        Ok(_) => sealed.fetch_add(1, Ordering::Relaxed),
                        Err(GenerationError::Gone { .. }) => gone.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error:?}"),
                    };
                    assert_whole(&generation);
                }
            });
        }
        let swap = || (0..300).for_each(|_| assert!(publish(place.path()) > 1));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(swap));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    assert!(sealed.into_inner() > 100);
    assert_eq!(list(place.path()), ["LOCK", "MANIFEST", "gen-000300", "gen-000301"]);
}

/// A reader that is interrupted between mapping files and looking for fresh rows must not do without the rows.
#[test]
fn a_generation_that_vanishes_while_it_is_opened_is_opened_again() {
    let place = place();
    publish(place.path());
    seal(&mut open(place.path()));
    let manifest = Manifest::read(place.path()).unwrap().unwrap();
    let half_open = || Generation::map_files(place.path(), &manifest).unwrap();
    let (early, late) = (half_open(), half_open());
    assert_eq!(early.with_fresh().unwrap().fresh().len(), 1);
    publish(place.path());
    publish(place.path());
    let error = late.with_fresh().unwrap_err();
    assert!(matches!(error, GenerationError::Missing { .. }), "{error}");
}

#[test]
fn removing_and_publishing_take_turns() {
    let place = place();
    let folder = place.path().join("index");
    let inside = AtomicBool::new(false);
    // The folder may go between finding it and locking it.
    let begin = || loop {
        match GenerationWriter::begin(&folder, FileMode::PRIVATE, LONG) {
            Err(GenerationError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            begun => return begun.unwrap(),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let writer = begin();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two writers at once");
                    fill(&writer);
                    // Others come to wait at a lock that is about to be removed.
                    std::thread::sleep(Duration::from_millis(2));
                    inside.store(false, Ordering::SeqCst);
                    writer.publish().unwrap();
                }
            });
        }
        scope.spawn(|| {
            (0..100).for_each(|_| assert!(Generations::at(&folder).remove(LONG).is_ok()))
        });
    });
}
