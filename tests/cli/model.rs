//! `--execute` does to a `brain.db` what the model does to plain rows.

use std::path::Path;

use jiff::tz::TimeZone;
use memfold_core::plan::Plan;
use memfold_core::time::Instant;
use memfold_store::brain_db::StoreStyle;
use memfold_tests::templated;
use memfold_tests::{Draws, NOW, apply, brain_db, comparable_source, created_at};
use memfold_tests::{PlainEmbedding, PlainMemory};
use rusqlite::Connection;

use crate::support::Place;

/// Components of each vector.
const DIM: usize = 24;

/// Stores that are tried.
const STORES: u64 = 24;

/// A few facts, said once to six times, in every state that matters to rules and merges.
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
    let mut picked: Vec<String> =
        (0..1 + draws.below(2)).map(|_| draws.pick(&known).to_owned()).collect();
    picked.dedup();
    picked
}

fn expires_at(draws: &mut Draws) -> Option<String> {
    let day = draws.below(300) as i64;
    let end = Instant(1_790_000_000_000_000 + day * 86_400_000_000);
    (draws.below(3) == 0).then(|| end.to_naive_local(&TimeZone::UTC))
}

/// Plans, applies the plan to the rows, executes, and compares row by row.
fn night(place: &Place, rows: &mut [PlainMemory]) -> usize {
    let plan_file = place.path("plan.json");
    let _ = std::fs::remove_file(&plan_file);
    let arguments = ["consolidate", "brain.db", "--now", NOW, "--quiet"];
    let set = ["--set", "time_zone=UTC", "--set", "merge.absorbed=archive"];
    place.succeed(&[&arguments[..], &set, &["--plan", "plan.json"]].concat());
    let plan: Plan = serde_json::from_slice(&std::fs::read(plan_file).unwrap()).unwrap();
    apply(&plan, rows);
    place.succeed(&[&arguments[..], &set, &["--execute", "--max-change-share", "1"]].concat());
    for (expected, found) in rows.iter().zip(stored(&place.path("brain.db"))) {
        let found = PlainMemory { embedding: expected.embedding.clone(), ..found };
        let source = comparable_source(&expected.source);
        let expected = PlainMemory { source, ..expected.clone() };
        assert_eq!(found, expected);
    }
    plan.changes() as usize
}

/// The rows of a store, in the order in which they were written, without vectors.
fn stored(path: &Path) -> Vec<PlainMemory> {
    let connection = Connection::open(path).unwrap();
    let sql =
        "SELECT id, content, categories, importance, access_count, created_at, expires_at, source
               FROM stm ORDER BY rowid";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let categories: String = row.get(2)?;
        Ok(PlainMemory {
            categories: serde_json::from_str(&categories).unwrap(),
            importance: row.get(3)?,
            access_count: row.get(4)?,
            expires_at: row.get(6)?,
            source: comparable_source(&row.get::<_, String>(7)?),
            ..PlainMemory::new(
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(5)?,
            )
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn executing_equals_the_model() {
    let mut changes = 0;
    for seed in 0..STORES {
        let place = Place::new();
        let mut rows = random_rows(seed);
        brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
        changes += night(&place, &mut rows);
        assert_eq!(night(&place, &mut rows), 0, "seed {seed}: the second night has work");
    }
    assert!(changes > 3 * STORES as usize, "{changes}");
}

#[test]
fn later_nights_build_on_earlier_ones_as_the_model_does() {
    for seed in 100..100 + STORES / 3 {
        let place = Place::new();
        let mut rows = random_rows(seed);
        brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
        night(&place, &mut rows);
        // Every second fact is saved once more, two days before the run.
        let newest: Vec<PlainMemory> = rows
            .iter()
            .filter(|row| !row.source.starts_with("archived:"))
            .step_by(2)
            .enumerate()
            .map(|(number, row)| PlainMemory {
                id: format!("late-{number:03}"),
                created_at: created_at(178 * 86_400 + number),
                access_count: 2,
                source: "daemon".into(),
                ..row.clone()
            })
            .collect();
        insert(&place.path("brain.db"), &newest);
        rows.extend(newest);
        night(&place, &mut rows);
    }
}

/// Saves rows as their owner does.
fn insert(path: &Path, rows: &[PlainMemory]) {
    let connection = Connection::open(path).unwrap();
    for row in rows {
        let sql = "INSERT INTO stm (id, content, categories, importance, access_count, created_at, expires_at, source)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let categories = serde_json::to_string(&row.categories).unwrap();
        let cells = rusqlite::params![
            row.id,
            row.content,
            categories,
            row.importance,
            row.access_count,
            row.created_at,
            row.expires_at,
            row.source
        ];
        connection.execute(sql, cells).unwrap();
        let rowid = connection.last_insert_rowid();
        let sql = "INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)";
        connection.execute(sql, rusqlite::params![rowid, row.content]).unwrap();
        let Some(embedding) = &row.embedding else { continue };
        let bytes: Vec<u8> = embedding.vector.iter().flat_map(|v| v.to_le_bytes()).collect();
        let sql =
            "INSERT INTO embeddings (id, source_type, source_id, embedding, model, created_at)
                   VALUES ('emb_' || ?1, 'stm', ?1, ?2, ?3, ?4)";
        let cells = rusqlite::params![row.id, bytes, embedding.model, row.created_at];
        connection.execute(sql, cells).unwrap();
    }
}
