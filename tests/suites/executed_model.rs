//! Executing a plan has the same effect on a `brain.db` as the model on plain rows.

use jiff::tz::TimeZone;
use memfold_core::time::Instant;
use memfold_tests::{
    Draws, PlainEmbedding, PlainMemory, StoreStyle, TestStore, apply, comparable_source,
    created_at, templated,
};

/// Components of each vector.
const DIM: usize = 24;

/// Stores that are tried.
const STORES: u64 = 24;

/// A few facts, stated once to six times, in every state that matters to rules and merges.
fn random_rows(seed: u64) -> Vec<PlainMemory> {
    let mut draws = Draws::new(seed);
    let mut rows = Vec::new();
    for group in 0..6 + draws.below(8) {
        let base: Vec<f64> = (0..DIM).map(|_| draws.uniform() - 0.5).collect();
        for member in 0..1 + draws.below(6) {
            let vector = base.iter().map(|x| (x + 0.05 * (draws.uniform() - 0.5)) as f32).collect();
            let day = draws.below(170) as usize;
            let number = rows.len();
            let embedding = PlainEmbedding { model: Some("m".into()), vector, content: None };
            rows.push(PlainMemory {
                categories: categories(&mut draws),
                importance: draws.pick(&[1.0, 1.25, 2.0, 2.75, 3.0]),
                access_count: draws.pick(&[0, 1, 3, 7, 20]),
                expires_at: expires_at(&mut draws),
                source: draws.pick(&["agent", "daemon", "manual", "api"]).to_owned(),
                embedding: (draws.below(8) != 0).then_some(embedding),
                ..PlainMemory::new(
                    format!("m{seed:02}-{number:03}"),
                    templated(group, member, seed),
                    created_at(day * 86_400 + number),
                )
            });
        }
    }
    rows
}

fn categories(draws: &mut Draws) -> Vec<String> {
    let known = ["general", "sop", "coding", "trading", "caf\u{e9}"];
    let count = 1 + draws.below(2);
    let mut picked: Vec<String> = (0..count).map(|_| draws.pick(&known).to_owned()).collect();
    picked.dedup();
    picked
}

fn expires_at(draws: &mut Draws) -> Option<String> {
    let day = draws.below(300) as i64;
    let end = Instant(1_790_000_000_000_000 + day * 86_400_000_000);
    (draws.below(3) == 0).then(|| end.to_naive_local(&TimeZone::UTC))
}

/// Plans, applies the plan to the rows and to the store, and compares them; returns the changes.
fn run_both(db: &TestStore, rows: &mut [PlainMemory]) -> u64 {
    let applied = db.nightly_run();
    apply(&applied.outcome.plan, rows);
    for (expected, found) in rows.iter().zip(stored(db)) {
        let found = PlainMemory { embedding: expected.embedding.clone(), ..found };
        let source = comparable_source(&expected.source);
        assert_eq!(found, PlainMemory { source, ..expected.clone() });
    }
    applied.outcome.plan.changes()
}

/// The rows of a store, in the order in which they were written, without vectors.
fn stored(db: &TestStore) -> Vec<PlainMemory> {
    let owner = db.owner();
    let sql =
        "SELECT id, content, categories, importance, access_count, created_at, expires_at, source
         FROM stm ORDER BY rowid";
    let mut statement = owner.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let text = |at: usize| row.get::<_, String>(at);
        Ok(PlainMemory {
            categories: serde_json::from_str(&text(2)?).unwrap(),
            importance: row.get(3)?,
            access_count: row.get(4)?,
            expires_at: row.get(6)?,
            source: comparable_source(&text(7)?),
            ..PlainMemory::new(text(0)?, text(1)?, text(5)?)
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn store_of(rows: &[PlainMemory]) -> TestStore {
    TestStore::of(rows, StoreStyle::Plain).set("merge.absorbed=archive")
}

#[test]
fn executing_equals_the_model() {
    let mut changes = 0;
    for seed in 0..STORES {
        let mut rows = random_rows(seed);
        let db = store_of(&rows);
        changes += run_both(&db, &mut rows);
        assert_eq!(run_both(&db, &mut rows), 0, "seed {seed}: the second run has work");
    }
    assert!(changes > 3 * STORES, "{changes}");
}

#[test]
fn later_runs_build_on_earlier_ones_as_the_model_does() {
    for seed in 100..100 + STORES / 3 {
        let mut rows = random_rows(seed);
        let db = store_of(&rows);
        run_both(&db, &mut rows);
        // Every second fact is saved once more, two days before the run.
        let live = rows.iter().filter(|row| !row.source.starts_with("archived:")).step_by(2);
        let newest = live.enumerate().map(|(number, row)| PlainMemory {
            id: format!("late-{number:03}"),
            created_at: created_at(178 * 86_400 + number),
            access_count: 2,
            source: "daemon".into(),
            ..row.clone()
        });
        let newest: Vec<PlainMemory> = newest.collect();
        newest.iter().for_each(|row| db.save(row));
        rows.extend(newest);
        run_both(&db, &mut rows);
    }
}
