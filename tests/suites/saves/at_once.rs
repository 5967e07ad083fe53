//! Saves of two processes at the same moment, or one right after the other.

use std::collections::BTreeMap;

use memfold::lookup::TierChoice;
use memfold::quick_check::{Decision, Incoming, Saved, Written};
use memfold_tests::{StoreStyle, TestIndex, TestStore, memory};

use super::{DIM, OLD, db, live, near, save};

#[test]
fn save_is_visible_to_the_other_process() {
    let rounds = std::env::var("MEMFOLD_TEST_ALTERNATIONS").map_or(120, |n| n.parse().unwrap());
    for has_index in [false, true] {
        let db = db();
        let index = TestIndex::of(db.path());
        if has_index {
            index.build(TierChoice::Scan);
        }
        let both = [db.quick_check(), db.quick_check()];
        // Without an index no more than 2,000 rows are searched.
        for round in 0..if has_index { rounds } else { rounds.min(1_900) } {
            let text = format!("Fact number {round} of this store.");
            let mut vector = vec![0.01; DIM];
            vector[round % DIM] = 1.0 + round as f32 * 0.01;
            let incoming = Incoming::text(text).with_vector(vector);
            let saved = save(&both[round % 2], &db, &incoming);
            assert_eq!(saved.written, Written::Inserted, "round {round}: {:?}", saved.check);
            let check = both[(round + 1) % 2].check(&incoming, db.now()).unwrap();
            assert_eq!(check.decision, Decision::Touch, "round {round}: {check:?}");
            assert!(check.reason.contains(saved.id.as_str()), "{}", check.reason);
            if has_index && round % 50 == 49 {
                assert!(index.seal() > 0);
            }
        }
    }
}

/// Three at once: two wordings that may replace each other by their vectors alone, and one of them
/// again.
#[test]
fn concurrent_near_saves_end_with_one_row() {
    let rounds = std::env::var("MEMFOLD_TEST_RACES").map_or(40, |n| n.parse().unwrap());
    let wordings = [
        Incoming::text(OLD).with_vector(near(1.0, 1)),
        Incoming::text("Note: the release meeting is in the large room.")
            .with_vector(near(0.97, 1)),
    ];
    let far = memory(1, "Grandmother's recipe wants two eggs.", &near(0.0, DIM - 1));
    let mut decided: BTreeMap<&str, u32> = BTreeMap::new();
    for round in 0..rounds {
        let db = TestStore::of(std::slice::from_ref(&far), StoreStyle::Plain);
        let barrier = std::sync::Barrier::new(3);
        let saves: Vec<Saved> = std::thread::scope(|scope| {
            let (barrier, db, wordings) = (&barrier, &db, &wordings);
            let savers: Vec<_> = (0..3)
                .map(|saver| {
                    scope.spawn(move || {
                        let quick_check = db.quick_check();
                        barrier.wait();
                        save(&quick_check, db, &wordings[(round + saver) % 2])
                    })
                })
                .collect();
            savers.into_iter().map(|saver| saver.join().unwrap()).collect()
        });
        for saved in &saves {
            *decided.entry(saved.check.decision.name()).or_default() += 1;
        }
        // The far one and the survivor, which knows the other wording.
        assert_eq!(live(&db), 2, "round {round}: {saves:?}");
        for wording in &wordings {
            let again = save(&db.quick_check(), &db, wording);
            assert_eq!(again.written, Written::Touched, "round {round}: {again:?}");
        }
        db.assert_sound();
    }
    let rounds = rounds as u32;
    assert_eq!((decided["insert"], decided["replace"]), (rounds, rounds), "{decided:?}");
}
