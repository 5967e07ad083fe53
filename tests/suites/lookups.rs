//! An index never decides the matches: after any change of the store, a search finds its present
//! memories.

use memfold::lookup::{Freshness, SearchError, Searched, StoreIndex, TierChoice, Wanted};
use memfold_simd::{Kernels, Level, Similarity};
use memfold_tests::{Draws, PlainMemory, StoreStyle, TestIndex, TestStore, generated_rows, memory};
use rusqlite::params;

const DIM: usize = 16;
const TIERS: [TierChoice; 2] = [TierChoice::Scan, TierChoice::Graph];

const NEAREST: Wanted = Wanted { neighbors: Some(7), similarity_min: None };

fn range(least: f64) -> Wanted {
    Wanted { neighbors: None, similarity_min: Similarity::new(least) }
}

/// Rows with planted copies.
fn rows(count: u32, seed: u64) -> Vec<PlainMemory> {
    let vectors = generated_rows(count, DIM, seed);
    let row = |(number, vector)| memory(number, format!("Fact {number} of {seed}."), vector);
    vectors.chunks_exact(DIM).enumerate().map(row).collect()
}

fn store(rows: &[PlainMemory]) -> (TestStore, TestIndex) {
    let store = TestStore::of(rows, StoreStyle::Plain);
    let index = TestIndex::of(store.path());
    (store, index)
}

fn save(store: &TestStore, id: &str, vector: &[f32]) {
    let text = format!("Saved as {id}.");
    let row = PlainMemory { id: id.to_owned(), embedding: None, ..memory(0, text, vector) };
    store.save(&row);
    embed(store, id, vector);
}

fn embed(store: &TestStore, id: &str, vector: &[f32]) {
    let blob: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
    let sql = "INSERT OR REPLACE INTO embeddings (id, source_type, source_id, embedding, model, created_at)
               VALUES ('emb_' || ?1, 'stm', ?1, ?2, 'm', '2026-06-01T10:00:00')";
    store.owner().execute(sql, params![id, blob]).unwrap();
}

/// Asks for neighbours of vectors of the store and compares with the definition.
#[track_caller]
fn agrees(db: &TestIndex, index: Option<&StoreIndex>, queries: &[f32], log: &str) {
    for query in queries.chunks_exact(DIM) {
        for wanted in [NEAREST, range(0.8), Wanted { neighbors: Some(3), ..range(0.5) }] {
            let (found, right) = (db.found(index, query, wanted), db.by_definition(query, wanted));
            assert_eq!(found, right, "{log}, {wanted:?}");
        }
    }
}

/// Edits of the store's owner, one after the other.
const HABITS: [&str; 8] =
    ["save", "forget", "forget the last", "embed anew", "archive", "edit", "save again", "expire"];

fn live(store: &TestStore, habit: &str, draws: &mut Draws, number: usize) {
    let vector = generated_rows(1, DIM, draws.below(1 << 30));
    let any = "SELECT id FROM stm ORDER BY (rowid * 7919) % 101, rowid LIMIT 1";
    let id = store.ask::<String>(any).remove(0);
    let here = format!("WHERE id = '{id}'");
    match habit {
        "save" => save(store, &format!("new{number:04}"), &vector),
        "forget" => store.sql(&format!("DELETE FROM stm {here}")),
        "forget the last" => {
            store.sql("DELETE FROM embeddings WHERE rowid = (SELECT max(rowid) FROM embeddings)")
        }
        "embed anew" => embed(store, &id, &vector),
        "archive" => store.sql(&format!("UPDATE stm SET categories = '[\"archived\"]' {here}")),
        "edit" => store.sql(&format!("UPDATE stm SET content = 'Edited {number}' {here}")),
        "save again" => {
            store.sql(&format!("DELETE FROM stm {here}"));
            save(store, &id, &vector);
        }
        _ => store
            .sql(&format!("UPDATE stm SET source = 'archived:{{\"merged_into\": \"x\"}}' {here}")),
    }
}

#[test]
fn a_search_finds_what_the_store_holds_now() {
    for tier in TIERS {
        for seed in 0..4 {
            let rows = rows(150, seed);
            let (owner, db) = store(&rows);
            db.build(tier);
            let mut index = db.index();
            let mut draws = Draws::new(seed);
            let queries = generated_rows(6, DIM, seed);
            agrees(&db, Some(&index), &queries, "as built");
            for number in 0..40 {
                let habit = draws.pick(&HABITS);
                live(&owner, habit, &mut draws, number);
                if draws.below(8) == 0 && db.freshness() != Freshness::Foreign {
                    db.seal();
                    index = db.index();
                }
                let query = &queries[number % 6 * DIM..][..DIM];
                let log = format!("{tier:?}, seed {seed}, {number}: {habit}");
                agrees(&db, Some(&index), query, &log);
            }
            agrees(&db, None, &queries, "without an index");
        }
    }
}

#[test]
fn an_index_that_no_longer_fits_is_not_used() {
    let (owner, db) = store(&rows(60, 3));
    db.build(TierChoice::Scan);
    let index = db.index();
    let queries = generated_rows(3, DIM, 3);
    // Every number changes.
    owner.sql("UPDATE embeddings SET rowid = rowid + 1000");
    let found = db.try_search(Some(&index), &queries[..DIM], NEAREST).unwrap();
    assert_eq!(found.searched, Searched::StoreInsteadOfIndex { rows: 60 });
    agrees(&db, Some(&index), &queries, "renumbered");
    // The index of one store beside another one.
    let (_store, other) = store(&rows(60, 4));
    let found = other.try_search(Some(&index), &queries[..DIM], NEAREST).unwrap();
    assert_eq!(found.searched, Searched::StoreInsteadOfIndex { rows: 60 });
    agrees(&other, Some(&index), &queries, "another store's index");
    assert_eq!(db.freshness(), Freshness::Foreign);
    db.build(TierChoice::Scan);
    assert_eq!(db.freshness(), Freshness::Since { fresh_rows: 0 });
}

#[test]
fn sealed_rows_are_compared_no_more_and_found_all_the_same() {
    let (owner, db) = store(&rows(200, 10));
    db.build(TierChoice::Scan);
    let vectors = generated_rows(90, DIM, 11);
    for (number, vector) in vectors.chunks_exact(DIM).enumerate() {
        save(&owner, &format!("saved{number:02}"), vector);
        if number % 30 == 29 {
            assert_eq!(db.seal(), 30);
        }
    }
    assert_eq!((db.seal(), db.freshness()), (0, Freshness::Since { fresh_rows: 0 }));
    let index = db.index();
    assert_eq!(index.fresh().iter().map(|segment| segment.len()).collect::<Vec<_>>(), [30; 3]);
    agrees(&db, Some(&index), &vectors, "sealed");
    owner.sql("DELETE FROM stm WHERE id LIKE 'saved_5'");
    embed(&owner, "saved07", &vectors[..DIM]);
    agrees(&db, Some(&index), &vectors, "some of the sealed ones gone");
    // A damaged segment makes the index unusable, so every vector is searched.
    let path = index.files().generation().fresh()[1].path().to_owned();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert!(StoreIndex::open(db.folder()).is_err());
    assert_eq!(db.build(TierChoice::Scan).generation, 2);
    assert!(db.index().fresh().is_empty());
}

#[test]
fn queries_that_fit_nothing_are_refused() {
    let (_store, db) = store(&rows(20, 6));
    let unindexed = db.try_search(None, &[1.0, 0.0], NEAREST).unwrap_err();
    assert!(matches!(unindexed, SearchError::NoVectors { dim: 2, .. }), "{unindexed}");
    db.build(TierChoice::Scan);
    let index = db.index();
    for query in [vec![1.0; 3], vec![0.0; DIM], vec![f32::NAN; DIM], vec![]] {
        let error = db.try_search(Some(&index), &query, NEAREST).unwrap_err();
        assert!(matches!(error, SearchError::Query(_)), "{error}");
    }
}

/// The same memories in another order, through another history, on other processors: the same bytes.
#[test]
fn index_bytes_do_not_depend_on_history() {
    let rows = rows(5_000, 7);
    let bytes = |db: &TestIndex, tier| {
        db.build(tier);
        std::fs::read(db.index().files().tiers().path()).unwrap()
    };
    for tier in TIERS {
        let (_store, db) = store(&rows);
        let expected = bytes(&db, tier);
        let mut shuffled: Vec<PlainMemory> = rows.iter().rev().step_by(2).cloned().collect();
        shuffled.extend(generated_strangers());
        shuffled.extend(rows.iter().rev().skip(1).step_by(2).cloned());
        let (owner, other) = store(&shuffled);
        other.build(tier);
        owner.sql("DELETE FROM stm WHERE id LIKE 'stranger%'");
        owner.sql("DELETE FROM embeddings WHERE source_id LIKE 'stranger%'; VACUUM");
        for level in Level::available() {
            let other = TestIndex::of(other.store().path()).with(1, Kernels::at(level).unwrap());
            assert!(bytes(&other, tier) == expected, "{tier:?} at {}", level.name());
        }
    }
}

fn generated_strangers() -> Vec<PlainMemory> {
    let vectors = generated_rows(500, DIM, 99);
    let row = |(number, vector)| PlainMemory {
        id: format!("stranger{number}"),
        ..memory(number, "A stranger.", vector)
    };
    vectors.chunks_exact(DIM).enumerate().map(row).collect()
}
