//! A revived memory is found at once, for any index and any place of its row.

use memfold::lookup::{Freshness, TierChoice, Wanted};
use memfold::quick_check::{Decision, Incoming, Written};
use memfold_core::memory::MemoryId;
use memfold_simd::Similarity;
use memfold_store::upkeep::restore;
use memfold_tests::{PlainMemory, StoreStyle, TestIndex, TestStore, generated_rows, memory};

const DIM: usize = 16;
const PAIRS: usize = 16;
const WAYS: [&str; 2] = ["merge.absorbed=archive", "merge.absorbed=move"];

/// The text of a pair, and its vector.
fn said(pair: usize, vectors: &[f32]) -> (String, &[f32]) {
    (format!("Shelf {pair} holds the maps of region {pair}."), &vectors[pair * DIM..][..DIM])
}

/// Pairs of equal texts; the older of each is merged: `m000000` to `m000015`.
fn pairs(vectors: &[f32]) -> Vec<PlainMemory> {
    let row = |number: usize| {
        let (text, vector) = said(number % PAIRS, vectors);
        PlainMemory { source: "daemon".to_owned(), ..memory(number, text, vector) }
    };
    (0..2 * PAIRS).map(row).collect()
}

/// Merges all pairs and builds the index then, which knows the merged ones by their texts at most.
fn merged(way: &str, vectors: &[f32]) -> (TestStore, TestIndex, String) {
    let db = TestStore::of(&pairs(vectors), StoreStyle::Plain).set(way);
    let run = db.complete_run().run_id().to_owned();
    let index = TestIndex::of(db.path());
    let _ = index.build(TierChoice::Scan);
    (db, index, run)
}

fn restored(db: &TestStore, id: &str) {
    let run_id = format!("restore-{id}");
    let _ = restore(&db.session(), &MemoryId::new(id), &db.upkeep(&run_id)).unwrap();
}

/// Counts the merged memories that a check by their vector does not name.
fn missed(db: &TestStore, index: &TestIndex, vectors: &[f32]) -> usize {
    let quick_check = db.quick_check();
    let mut missed = 0;
    for pair in 0..PAIRS {
        let (_, vector) = said(pair, vectors);
        let id = format!("m{pair:06}");
        let by_vector = Incoming::text("Something else.").with_vector(vector.to_vec());
        let check = quick_check.check(&by_vector, db.now()).unwrap();
        assert!(check.checked, "{:?}", check.notes);
        missed += usize::from(!check.matches.iter().any(|found| found.id.as_str() == id));
        let wanted = Wanted { neighbors: None, similarity_min: Similarity::new(0.9) };
        let found = index.found(Some(&index.index()), vector, wanted);
        assert_eq!(found, index.by_definition(vector, wanted), "{pair}");
    }
    missed
}

/// Counts the merged memories with a text that a check by the text alone takes for new, once their
/// survivors are gone.
fn missed_texts(db: &TestStore, vectors: &[f32]) -> usize {
    db.sql(&format!("DELETE FROM stm WHERE id >= 'm{PAIRS:06}'"));
    let quick_check = db.quick_check();
    let is_new = |pair: &usize| {
        let (text, _) = said(*pair, vectors);
        let check = quick_check.check(&Incoming::text(text), db.now()).unwrap();
        assert!(check.checked, "{:?}", check.notes);
        !matches!(check.decision, Decision::Touch | Decision::TouchAndFlag)
    };
    (0..PAIRS).filter(is_new).count()
}

/// 40 of 40 memories that an undo had brought back were invisible to checks and searches until the
/// index was built anew, and each check answered `checked: true`.
#[test]
fn undone_memories_are_found_at_once() {
    let vectors = generated_rows(PAIRS as u32, DIM, 5);
    for way in WAYS {
        let (db, index, run) = merged(way, &vectors);
        let undo = db.undo_all(&run);
        assert_eq!(missed(&db, &index, &vectors), 0, "{way}");
        assert_eq!(index.freshness(), Freshness::Since { fresh_rows: PAIRS as u64 });
        // Sealed they are found as well, also after sealing by another process.
        assert_eq!(index.seal(), PAIRS, "{way}");
        assert_eq!(index.freshness(), Freshness::Since { fresh_rows: 0 });
        assert_eq!(missed(&db, &index, &vectors), 0, "{way}, sealed");
        let _ = index.build(TierChoice::Scan);
        assert_eq!(missed(&db, &index, &vectors), 0, "{way}, built anew");
        // And the undo of the undo hides them again.
        let _ = db.undo_all(&undo);
        let wanted = Wanted { neighbors: None, similarity_min: Similarity::new(0.9) };
        let (_, vector) = said(7, &vectors);
        let found = index.found(Some(&index.index()), vector, wanted);
        assert_eq!(found, index.by_definition(vector, wanted), "{way}");
    }
}

/// Saving and sealing by others meanwhile moves the marks of the index past the new rows, and must
/// not move them past revived ones.
#[test]
fn sealing_hides_no_restored_memory() {
    let vectors = generated_rows(PAIRS as u32 + 4, DIM, 6);
    for way in WAYS {
        let (db, index, run) = merged(way, &vectors);
        let quick_check = db.quick_check();
        let save = |number: usize| {
            let vector = vectors[(PAIRS + number) * DIM..][..DIM].to_vec();
            let incoming = Incoming::text(format!("New fact {number}.")).with_vector(vector);
            assert_eq!(quick_check.save(&incoming, db.now()).unwrap().written, Written::Inserted);
        };
        save(0);
        assert_eq!(index.seal(), 1);
        restored(&db, "m000003");
        save(1);
        assert_eq!(index.seal(), 2, "{way}");
        save(2);
        let _ = db.undo_run(&run);
        save(3);
        assert_eq!(missed(&db, &index, &vectors), 0, "{way}");
        assert_eq!(missed_texts(&db, &vectors), 0, "{way}");
    }
}
