//! A text that was superseded, or that something newer contradicts, is news when it is saved again.
//!
//! That save used to be counted as one more access to the old row, with `stored: true` and nothing
//! flagged: that the old statement holds again was lost.

use memfold::quick_check::{Decision, Incoming, Saved, Written};
use memfold::settle::Settlement;
use memfold_core::memory::MemoryId;
use memfold_store::brain_db::OpenPair;
use memfold_tests::{PlainMemory, StoreStyle, TestStore, memory};

use super::{DIM, live, near, save};

const OLD: &str = "The release meeting is in the large room.";
const NEWER: &str = "The release meeting is in the small room.";

fn db_of(texts: &[&str]) -> TestStore {
    let row = |(row, text): (usize, &&str)| {
        let mut vector = near(0.99, 1 + row % (DIM - 1));
        vector[1] += 0.05;
        memory(row, *text, &vector)
    };
    let rows: Vec<PlainMemory> = texts.iter().enumerate().map(row).collect();
    TestStore::of(&rows, StoreStyle::Plain)
}

fn say(db: &TestStore, text: &str) -> Saved {
    save(&db.quick_check(), db, &Incoming::text(text))
}

fn flags(db: &TestStore) -> Vec<OpenPair> {
    db.store().open_flags().unwrap()
}

fn asserted(flag: &OpenPair) -> Option<&str> {
    flag.asserted.as_ref().map(|(id, _)| id.as_str())
}

#[test]
fn a_text_that_something_newer_contradicts_is_touched_and_flagged() {
    let db = db_of(&[OLD, NEWER]);
    let before = db.image();
    // Without a vector: the vector of the memory with the same text finds near ones.
    let checked = db.quick_check().check(&Incoming::text(OLD), db.now()).unwrap();
    assert_eq!(checked.decision, Decision::TouchAndFlag, "{checked:?}");
    assert_eq!(db.image(), before);
    let saved = say(&db, OLD);
    assert_eq!(saved.check.decision, Decision::TouchAndFlag, "{:?}", saved.check);
    assert_eq!((saved.written, saved.id.as_str()), (Written::Touched, "m000000"));
    assert!(saved.check.reason.contains("m000001"), "{}", saved.check.reason);
    assert_eq!((db.cell("m000000", "access_count"), live(&db)), (1.into(), 2));
    let [flag] = &flags(&db)[..] else { panic!("{:?}", flags(&db)) };
    assert_eq!(flag.asserted, Some(("m000000".to_owned(), db.at())));

    // The third save is a repetition: the flag is open, and shows already which side is newer.
    let third = say(&db, OLD);
    assert_eq!((third.check.decision, third.run_id), (Decision::Touch, None));
    assert_eq!(flags(&db), std::slice::from_ref(flag));
    // The other side, saved again, is the newer one once more; the pair stays one flag.
    let other = say(&db, NEWER);
    assert_eq!(other.check.decision, Decision::TouchAndFlag, "{:?}", other.check);
    assert_eq!(flags(&db).iter().map(asserted).collect::<Vec<_>>(), [Some("m000001")]);
    drop(db.undo_all(&other.run_id.unwrap()));
    assert_eq!(flags(&db).iter().map(asserted).collect::<Vec<_>>(), [Some("m000000")]);

    // The statement saved last is the newer side of the pair: it stays where a person says that the
    // newer one holds.
    let (run, settled) = db.settle(&flag.key, Settlement::Supersede);
    assert_eq!((settled.newer.as_str(), settled.older.as_str()), ("m000000", "m000001"));
    drop(db.undo_all(&run));
    drop(db.undo_all(&saved.run_id.unwrap()));
    assert_eq!((flags(&db), live(&db)), (vec![], 2));
    db.assert_sound();
}

#[test]
fn kept_pair_is_only_counted() {
    let db = db_of(&[OLD, NEWER]);
    drop(say(&db, OLD));
    let (_, settled) = db.settle(&flags(&db)[0].key, Settlement::KeepBoth);
    for text in [OLD, NEWER, OLD] {
        let saved = say(&db, text);
        assert_eq!(saved.check.decision, Decision::Touch, "{text}: {:?}", saved.check);
    }
    assert_eq!(flags(&db), []);
    // A decision holds while the texts stay.
    db.sql("UPDATE stm SET content = 'The release meeting is not in the large room.' WHERE id = 'm000001'");
    db.sql("UPDATE embeddings SET content = NULL");
    assert_eq!(settled.newer.as_str(), "m000000");
    assert_eq!(say(&db, OLD).check.decision, Decision::TouchAndFlag);
}

#[test]
fn superseded_text_is_inserted_again_with_a_flag() {
    let db = db_of(&[OLD]);
    let incoming = Incoming::text(NEWER).with_vector(near(0.97, 1));
    let newer = save(&db.quick_check(), &db, &incoming);
    let key = flags(&db)[0].key.clone();
    let (_, settled) = db.settle(&key, Settlement::Supersede);
    assert_eq!((settled.newer, settled.older.as_str()), (newer.id.clone(), "m000000"));
    assert_eq!(live(&db), 1);

    let again = say(&db, OLD);
    assert_eq!(again.check.decision, Decision::InsertAndFlag, "{:?}", again.check);
    assert_eq!((again.written, live(&db)), (Written::Inserted, 2));
    let [flag] = &flags(&db)[..] else { panic!("{:?}", flags(&db)) };
    let mut ids = [again.id.to_string(), newer.id.to_string()];
    ids.sort();
    assert_eq!((&flag.ids, flag.kind.name()), (&ids, "contradiction"));
    // Both rows are of one moment here: only the flag shows which one was saved last.
    assert_eq!(asserted(flag), Some(again.id.as_str()));
    // Another save is a repetition.
    let third = say(&db, OLD);
    assert_eq!((third.check.decision, &third.id), (Decision::Touch, &again.id));
    assert_eq!((flags(&db).len(), live(&db)), (1, 2));
    let applied = db.plan();
    assert_eq!(applied.plan.changes(), 0, "{:?}", applied.plan.actions);
    drop(db.undo_all(&again.run_id.unwrap()));
    assert_eq!(flags(&db), []);
}

#[test]
fn merged_text_touches_its_survivor() {
    let wording = "The release meeting is in the large room because the kitchen is loud.";
    let db = db_of(&[OLD]);
    let quick_check = db.quick_check();
    let survivor = save(&quick_check, &db, &Incoming::text(wording).with_vector(near(0.97, 1)));
    assert_eq!(survivor.written, Written::Replaced, "{:?}", survivor.check);
    // By another program, later.
    db.sql(&format!(
        "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)
         VALUES ('newer', '{NEWER}', '[]', 1.0, 0, '2099-01-01T00:00:00', 'agent');
         INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
         SELECT 'e', 'stm', 'newer', NULL, embedding, model, '2099-01-01T00:00:00' FROM embeddings
         WHERE source_id = '{}'",
        survivor.id
    ));
    let saved = say(&db, OLD);
    assert_eq!(saved.check.decision, Decision::TouchAndFlag, "{:?}", saved.check);
    assert_eq!((saved.written, &saved.id), (Written::Touched, &survivor.id));
    let [flag] = &flags(&db)[..] else { panic!("{:?}", flags(&db)) };
    assert_eq!(asserted(flag), Some(survivor.id.as_str()));
    assert!(flag.ids.contains(&"newer".to_owned()), "{flag:?}");
    assert_eq!(say(&db, OLD).check.decision, Decision::Touch);
}

#[test]
fn another_value_that_came_since_is_an_update_and_a_series_is_none() {
    let of = |values: &[&str]| -> Vec<String> {
        values.iter().map(|value| format!("The builds run on Python {value} now.")).collect()
    };
    for (values, expected) in [
        (&["3.11", "3.12"][..], Decision::TouchAndFlag),
        (&["3.11", "3.12", "3.13"], Decision::TouchAndFlag),
        (&["3.9", "3.10", "3.11", "3.12"], Decision::Touch),
    ] {
        let texts = of(values);
        let db = db_of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let saved = say(&db, &texts[0]);
        assert_eq!(saved.check.decision, expected, "{values:?}: {:?}", saved.check);
        assert_eq!(flags(&db).len(), usize::from(expected != Decision::Touch));
        // The newest value is only counted.
        assert_eq!(
            say(&db, texts.last().unwrap()).check.decision,
            match expected {
                // The flagged pair is turned round.
                Decision::TouchAndFlag => Decision::TouchAndFlag,
                other => other,
            }
        );
        assert_eq!(flags(&db).len(), usize::from(expected != Decision::Touch));
    }
}

#[test]
fn concurrent_repeats_leave_one_flag() {
    let db = db_of(&[OLD, NEWER]);
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let quick_check = db.quick_check();
                barrier.wait();
                quick_check.save(&Incoming::text(OLD), db.now()).unwrap();
            });
        }
    });
    let [flag] = &flags(&db)[..] else { panic!("{:?}", flags(&db)) };
    assert_eq!(asserted(flag), Some("m000000"));
    let rows: Vec<i64> = db.ask("SELECT count(*) FROM memfold_flags");
    assert_eq!((rows, db.cell("m000000", "access_count")), (vec![1], 4.into()));
    assert_eq!(MemoryId::new(flag.ids[0].as_str()).as_str(), "m000000");
}
