//! A text that was superseded, or that something newer contradicts, is news when it is saved again.
//!
//! Such a save used to be counted as one more access to the old row, with `stored: true` and nothing flagged: that the old
//! statement holds again was lost.

use jiff::tz::TimeZone;
use memfold::quick_check::{Decision, Incoming, Saved, Written};
use memfold::settle::{SettleRules, Settled, Settlement, settle};
use memfold_core::memory::MemoryId;
use memfold_core::policy::Policy;
use memfold_store::brain_db::{OpenPair, Session, SessionOptions, StoreStyle};
use memfold_store::upkeep::UpkeepRun;
use memfold_tests::PlainMemory;
use memfold_tests::{Desk, integrity, memory};

use super::{DIM, live, near, save};

const OLD: &str = "The release meeting is in the large room.";
const NEWER: &str = "The release meeting is in the small room.";

fn desk_of(texts: &[&str]) -> Desk {
    let row = |(row, text): (usize, &&str)| {
        let mut vector = near(0.99, 1 + row % (DIM - 1));
        vector[1] += 0.05;
        memory(row, *text, &vector)
    };
    let rows: Vec<PlainMemory> = texts.iter().enumerate().map(row).collect();
    Desk::of(&rows, StoreStyle::Plain)
}

fn say(desk: &Desk, text: &str) -> Saved {
    save(&desk.quick_check(), desk, &Incoming::text(text))
}

fn flags(desk: &Desk) -> Vec<OpenPair> {
    desk.store().open_flags().unwrap()
}

fn asserted(flag: &OpenPair) -> Option<&str> {
    flag.asserted.as_ref().map(|(id, _)| id.as_str())
}

fn settle_as(desk: &Desk, key: &str, settlement: Settlement) -> (String, Settled) {
    let options = SessionOptions {
        busy_timeout: std::time::Duration::from_secs(5),
        holder: "desk 1".to_owned(),
    };
    let session = Session::open(desk.path(), &options).unwrap();
    let policy = Policy::builtin();
    let guard = memfold_guard::Guard::new(&policy.guard).unwrap();
    let rules = SettleRules { policy: &policy, guard: &guard };
    let (time_zone, now) = (&TimeZone::UTC, desk.now());
    let run = UpkeepRun { run_id: "settled", now, time_zone, holder: "desk 1" };
    settle(&session, key, settlement, rules, &run).unwrap()
}

#[test]
fn a_text_that_something_newer_contradicts_is_touched_and_flagged() {
    let desk = desk_of(&[OLD, NEWER]);
    let before = desk.image();
    // Without a vector: that of the memory of the same text finds what is near.
    let checked = desk.quick_check().check(&Incoming::text(OLD), desk.now()).unwrap();
    assert_eq!(checked.decision, Decision::TouchAndFlag, "{checked:?}");
    assert_eq!(desk.image(), before);
    let saved = say(&desk, OLD);
    assert_eq!(saved.check.decision, Decision::TouchAndFlag, "{:?}", saved.check);
    assert_eq!((saved.written, saved.id.as_str()), (Written::Touched, "m000000"));
    assert!(saved.check.reason.contains("m000001"), "{}", saved.check.reason);
    assert_eq!((desk.cell("m000000", "access_count"), live(&desk)), (1.into(), 2));
    let [flag] = &flags(&desk)[..] else { panic!("{:?}", flags(&desk)) };
    assert_eq!(flag.asserted, Some(("m000000".to_owned(), desk.at())));

    // Said a third time it is a repetition: the flag is open, and tells already which side is newer.
    let third = say(&desk, OLD);
    assert_eq!((third.check.decision, third.run_id), (Decision::Touch, None));
    assert_eq!(flags(&desk), std::slice::from_ref(flag));
    // The other side, said again, is the newer one once more; the pair stays one flag.
    let other = say(&desk, NEWER);
    assert_eq!(other.check.decision, Decision::TouchAndFlag, "{:?}", other.check);
    assert_eq!(flags(&desk).iter().map(asserted).collect::<Vec<_>>(), [Some("m000001")]);
    drop(desk.undo_all(&other.run_id.unwrap()));
    assert_eq!(flags(&desk).iter().map(asserted).collect::<Vec<_>>(), [Some("m000000")]);

    // Of the pair, what was said last is the newer side: it stays where a person says that the newer one holds.
    let (run, settled) = settle_as(&desk, &flag.key, Settlement::Supersede);
    assert_eq!((settled.newer.as_str(), settled.older.as_str()), ("m000000", "m000001"));
    drop(desk.undo_all(&run));
    drop(desk.undo_all(&saved.run_id.unwrap()));
    assert_eq!((flags(&desk), live(&desk)), (vec![], 2));
    assert!(integrity(desk.path()).is_empty());
}

#[test]
fn a_repetition_of_the_newer_side_is_only_counted() {
    let desk = desk_of(&[OLD, NEWER]);
    let saved = say(&desk, NEWER);
    assert_eq!((saved.check.decision, saved.run_id), (Decision::Touch, None));
    assert_eq!(flags(&desk), []);
}

#[test]
fn what_a_person_keeps_beside_each_other_is_only_counted() {
    let desk = desk_of(&[OLD, NEWER]);
    drop(say(&desk, OLD));
    let (_, settled) = settle_as(&desk, &flags(&desk)[0].key, Settlement::KeepBoth);
    for text in [OLD, NEWER, OLD] {
        let saved = say(&desk, text);
        assert_eq!(saved.check.decision, Decision::Touch, "{text}: {:?}", saved.check);
    }
    assert_eq!(flags(&desk), []);
    // A decision holds while the texts stay.
    desk.sql("UPDATE stm SET content = 'The release meeting is not in the large room.' WHERE id = 'm000001'");
    desk.sql("UPDATE embeddings SET content = NULL");
    assert_eq!(settled.newer.as_str(), "m000000");
    assert_eq!(say(&desk, OLD).check.decision, Decision::TouchAndFlag);
}

#[test]
fn a_text_whose_place_was_given_to_another_one_lives_again_beside_it() {
    let desk = desk_of(&[OLD]);
    let incoming = Incoming::text(NEWER).with_vector(near(0.97, 1));
    let newer = save(&desk.quick_check(), &desk, &incoming);
    let key = flags(&desk)[0].key.clone();
    let (_, settled) = settle_as(&desk, &key, Settlement::Supersede);
    assert_eq!((settled.newer, settled.older.as_str()), (newer.id.clone(), "m000000"));
    assert_eq!(live(&desk), 1);

    let again = say(&desk, OLD);
    assert_eq!(again.check.decision, Decision::InsertAndFlag, "{:?}", again.check);
    assert_eq!((again.written, live(&desk)), (Written::Inserted, 2));
    let [flag] = &flags(&desk)[..] else { panic!("{:?}", flags(&desk)) };
    let mut ids = [again.id.to_string(), newer.id.to_string()];
    ids.sort();
    assert_eq!((&flag.ids, flag.kind.name()), (&ids, "contradiction"));
    // Both rows are of one moment here: the flag alone tells which one was said last.
    assert_eq!(asserted(flag), Some(again.id.as_str()));
    // Said once more, it is there.
    let third = say(&desk, OLD);
    assert_eq!((third.check.decision, &third.id), (Decision::Touch, &again.id));
    assert_eq!((flags(&desk).len(), live(&desk)), (1, 2));
    let night = desk.plan();
    assert_eq!(night.plan.changes(), 0, "{:?}", night.plan.actions);
    drop(desk.undo_all(&again.run_id.unwrap()));
    assert_eq!(flags(&desk), []);
}

#[test]
fn a_person_who_supersedes_what_the_guard_would_let_fold_is_asked_too() {
    // The guard sees no contradiction between the two; that a person gave one the place of the other tells enough.
    let desk = desk_of(&["The demo is shown by Ann.", "Note: the demo is shown by Ann."]);
    drop(desk.night());
    desk.sql("DELETE FROM memfold_flags");
    let ghosts: Vec<String> = desk.ask("SELECT absorbed_id FROM memfold_lineage WHERE active = 1");
    let [ghost] = &ghosts[..] else { panic!("{ghosts:?}") };
    let other = if ghost == "m000000" { "m000001" } else { "m000000" };
    let text: Vec<String> = if ghost == "m000000" {
        vec!["The demo is shown by Ann.".to_owned()]
    } else {
        vec!["Note: the demo is shown by Ann.".to_owned()]
    };
    assert_eq!(say(&desk, &text[0]).check.decision, Decision::Touch);
    desk.sql(&format!(
        "INSERT INTO memfold_flags (key, left_id, right_id, left_hash, right_hash, state, run_id, unit, at, active)
         VALUES ('k', '{ghost}', '{other}', '', '', 'superseded', 'r', 1, '2026-01-01', 1)"
    ));
    assert_eq!(say(&desk, &text[0]).check.decision, Decision::InsertAndFlag);
}

#[test]
fn a_text_that_was_folded_speaks_through_its_survivor() {
    let wording = "The release meeting is in the large room because the kitchen is loud.";
    let desk = desk_of(&[OLD]);
    let quick_check = desk.quick_check();
    let survivor = save(&quick_check, &desk, &Incoming::text(wording).with_vector(near(0.97, 1)));
    assert_eq!(survivor.written, Written::Replaced, "{:?}", survivor.check);
    // By another program, later.
    desk.sql(&format!(
        "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)
         VALUES ('newer', '{NEWER}', '[]', 1.0, 0, '2099-01-01T00:00:00', 'agent');
         INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
         SELECT 'e', 'stm', 'newer', NULL, embedding, model, '2099-01-01T00:00:00' FROM embeddings
         WHERE source_id = '{}'",
        survivor.id
    ));
    let saved = say(&desk, OLD);
    assert_eq!(saved.check.decision, Decision::TouchAndFlag, "{:?}", saved.check);
    assert_eq!((saved.written, &saved.id), (Written::Touched, &survivor.id));
    let [flag] = &flags(&desk)[..] else { panic!("{:?}", flags(&desk)) };
    assert_eq!(asserted(flag), Some(survivor.id.as_str()));
    assert!(flag.ids.contains(&"newer".to_owned()), "{flag:?}");
    assert_eq!(say(&desk, OLD).check.decision, Decision::Touch);
}

#[test]
fn a_text_that_was_archived_and_is_contradicted_comes_back_as_a_row_of_its_own() {
    let desk = desk_of(&[OLD, NEWER]);
    desk.sql(
        r#"UPDATE stm SET categories = '["archived"]',
           source = 'archived:{"reason":"R4-archive-low-utility","run_id":"r","previous_source":"chat"}'
           WHERE id = 'm000000'"#,
    );
    let incoming = Incoming::text(OLD).with_vector(near(0.99, 1));
    let saved = save(&desk.quick_check(), &desk, &incoming);
    assert_eq!(saved.check.decision, Decision::InsertAndFlag, "{:?}", saved.check);
    assert_eq!((saved.written, live(&desk)), (Written::Inserted, 2));
    assert_eq!(flags(&desk).len(), 1);
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
        let desk = desk_of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let saved = say(&desk, &texts[0]);
        assert_eq!(saved.check.decision, expected, "{values:?}: {:?}", saved.check);
        assert_eq!(flags(&desk).len(), usize::from(expected != Decision::Touch));
        // The newest value is only counted.
        assert_eq!(
            say(&desk, texts.last().unwrap()).check.decision,
            match expected {
                // The flagged pair is turned round.
                Decision::TouchAndFlag => Decision::TouchAndFlag,
                other => other,
            }
        );
        assert_eq!(flags(&desk).len(), usize::from(expected != Decision::Touch));
    }
}

#[test]
fn a_save_that_is_repeated_under_its_id_is_no_news() {
    let desk = desk_of(&[OLD, NEWER]);
    let retry = Incoming { id: Some("m000000".to_owned()), ..Incoming::text(OLD) };
    let saved = save(&desk.quick_check(), &desk, &retry);
    assert_eq!((saved.check.decision, saved.written), (Decision::Touch, Written::Touched));
    assert_eq!(flags(&desk), []);
}

#[test]
fn many_that_say_it_again_at_once_leave_one_flag() {
    let desk = desk_of(&[OLD, NEWER]);
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let quick_check = desk.quick_check();
                barrier.wait();
                quick_check.save(&Incoming::text(OLD), desk.now()).unwrap();
            });
        }
    });
    let [flag] = &flags(&desk)[..] else { panic!("{:?}", flags(&desk)) };
    assert_eq!(asserted(flag), Some("m000000"));
    let rows: Vec<i64> = desk.ask("SELECT count(*) FROM memfold_flags");
    assert_eq!((rows, desk.cell("m000000", "access_count")), (vec![1], 4.into()));
    assert_eq!(MemoryId::new(flag.ids[0].as_str()).as_str(), "m000000");
}
