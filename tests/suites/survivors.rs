//! A survivor is reachable in every way that a merged row was, takes over what the spec says, and
//! nothing else of the owner's is touched.

use memfold::execute::UnitResult;
use memfold_core::runs::RunState;
use memfold_tests::{
    PlainMemory, StoreStyle, TestStore, assert_same, daemon_memory, memory, merges, sample_rows,
};
use rusqlite::types::Value;

const KILN: &str = "The kiln is fired on Mondays.";

/// Three copies, of which `m000002` survives, and one memory of its own, with the columns of later versions.
fn copies() -> TestStore {
    let rows = [
        daemon_memory(0, KILN, 0),
        daemon_memory(1, KILN, 0),
        daemon_memory(2, KILN, 0),
        daemon_memory(3, "Tea comes on Friday.", 1),
    ];
    let db = TestStore::of(&rows, StoreStyle::Plain);
    db.sql(
        "ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
         ALTER TABLE stm ADD COLUMN last_accessed INTEGER;
         ALTER TABLE stm ADD COLUMN archived_by TEXT;
         ALTER TABLE stm ADD COLUMN mood TEXT DEFAULT 'calm';",
    );
    db
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// Sets a column of the three copies, merges them, and returns the survivor's value.
#[track_caller]
fn merged(column: &str, values: [&str; 3]) -> Value {
    let db = copies();
    for (number, value) in values.iter().enumerate() {
        db.sql(&format!("UPDATE stm SET {column} = {value} WHERE id = 'm00000{number}'"));
    }
    let applied = db.complete_run();
    assert_eq!(merges(&applied.outcome.plan), [["m000002", "m000001", "m000000"]]);
    db.cell("m000002", column)
}

/// The newest copy survived though it had no capitals, or had short forms.
#[test]
fn better_written_text_survives() {
    for (first, second, survivor) in [
        ("Tom lives in Berlin", "tom lives in berlin", "m000000"),
        ("tom lives in berlin", "Tom lives in Berlin", "m000001"),
        ("The repository is on the server", "The repo is on the server", "m000000"),
        ("The repo is on the server", "The repository is on the server", "m000001"),
        ("Tom lives in Berlin", "Tom lives in Berlin.", "m000001"),
    ] {
        let db = TestStore::of(
            &[daemon_memory(0, first, 0), daemon_memory(1, second, 0)],
            StoreStyle::Plain,
        );
        let merged = if survivor == "m000000" { "m000001" } else { "m000000" };
        assert_eq!(merges(&db.plan().plan), [[survivor, merged]], "{first} / {second}");
    }
}

const LATE: &str = "'2027-03-01T00:00:00'";
const LATER: &str = "'2027-04-01 00:00:00Z'";

#[test]
fn survivor_takes_the_latest_expiry() {
    assert_eq!(merged("expires_at", ["NULL", LATE, LATER]), Value::Null);
    assert_eq!(merged("expires_at", [LATE, LATER, LATE]), text("2027-04-01 00:00:00Z"));
    assert_eq!(merged("expires_at", [LATE, LATE, LATER]), text("2027-04-01 00:00:00Z"));
    assert_eq!(merged("expires_at", [LATE, LATE, "NULL"]), Value::Null);
    // An integer stays one, in a column that converts nothing.
    let db = copies();
    db.sql("ALTER TABLE stm DROP COLUMN expires_at; ALTER TABLE stm ADD COLUMN expires_at;");
    db.sql("UPDATE stm SET expires_at = '2027-03-01T00:00:00'; UPDATE stm SET expires_at = 1806537600 WHERE id = 'm000000'");
    let _ = db.complete_run();
    assert_eq!(db.cell("m000002", "expires_at"), Value::Integer(1_806_537_600));
}

#[test]
fn survivor_takes_largest_confidence_and_last_access() {
    assert_eq!(merged("confidence", ["0.25", "0.75", "0.5"]), Value::Real(0.75));
    assert_eq!(merged("confidence", ["NULL", "0.25", "NULL"]), Value::Real(0.25));
    assert_eq!(merged("confidence", ["0.1", "NULL", "0.9"]), Value::Real(0.9));
    let (iso, epoch) = ("'2026-06-01T10:00:00'", "1780000000");
    // 1780000000 is the 28th of May 2026.
    assert_eq!(merged("last_accessed", [iso, epoch, "NULL"]), text("2026-06-01T10:00:00"));
    assert_eq!(
        merged("last_accessed", ["'2026-05-01T10:00:00'", epoch, "NULL"]),
        Value::Integer(1_780_000_000)
    );
    assert_eq!(merged("last_accessed", ["'never'", "NULL", epoch]), Value::Integer(1_780_000_000));
    assert_eq!(merged("last_accessed", [epoch, "NULL", "'never'"]), Value::Integer(1_780_000_000));
}

#[test]
fn categories_are_joined_as_json_dumps_writes_them() {
    let joined =
        merged("categories", ["'[\"caf\u{e9}\",\"kiln\"]'", "'general'", "'[\"general\"]'"]);
    assert_eq!(joined, text(r#"["general", "caf\u00e9", "kiln"]"#));
    for same in ["'general'", "'[\"general\",\"general\"]'", "' [ \"general\" ] '"] {
        let Value::Text(kept) = merged("categories", ["'[\"general\"]'", "'general'", same]) else {
            panic!()
        };
        assert_eq!(format!("'{kept}'"), same);
    }
    // Without any, a row has none to lose.
    assert_eq!(merged("categories", ["NULL", "NULL", "NULL"]), Value::Null);
    assert_eq!(merged("categories", ["NULL", "'[]'", "'{garbage'"]), text("{garbage"));
}

#[test]
fn a_survivor_becomes_searchable_where_it_was_not() {
    for merged in ["archive", "move"] {
        let db = copies().set(format!("merge.absorbed={merged}"));
        db.sql("INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'm000002'");
        let before = db.image();
        let found =
            || db.ask::<i64>("SELECT rowid FROM stm_fts WHERE stm_fts MATCH 'kiln' ORDER BY rowid");
        assert_eq!(found(), [1, 2]);
        let applied = db.complete_run();
        assert_eq!(found(), [3]);
        let _ = db.undo_all(applied.run_id());
        assert_same(&before, &db.image());
    }
}

#[test]
fn protected_rows_and_unknown_columns_stay_as_they_are() {
    for style in [StoreStyle::Plain, StoreStyle::Wild] {
        let db = TestStore::of(&sample_rows(), style).set("merge.absorbed=archive");
        db.sql("ALTER TABLE stm ADD COLUMN mood TEXT; UPDATE stm SET mood = 'm' || rowid");
        db.sql(
            "CREATE TABLE guarded AS SELECT id FROM stm WHERE importance >= 3
               OR categories LIKE '%permanent%' OR categories LIKE '%pinned%'
               OR categories LIKE '%decision%' OR source IN ('manual', 'user')",
        );
        let columns = db.ask::<String>("SELECT name FROM pragma_table_info('stm')");
        let quoted = columns.iter().map(|name| format!("quote({name})")).collect::<Vec<_>>();
        let protected = format!(
            "SELECT {} FROM stm WHERE id IN (SELECT id FROM guarded) ORDER BY rowid",
            quoted.join(" || ',' || ")
        );
        let moods = "SELECT mood FROM stm ORDER BY rowid";
        let before = (db.ask::<String>(&protected), db.ask::<String>(moods));
        assert!(before.0.len() > 10);
        let _ = db.complete_run();
        assert_eq!((db.ask::<String>(&protected), db.ask::<String>(moods)), before);
    }
}

/// `then.params.absorbed` of a rule was accepted and had no effect: all merges followed
/// `merge.absorbed`.
#[test]
fn rule_overrides_move_or_archive() {
    for (rule, all, left) in [("move", "archive", 2), ("archive", "move", 4)] {
        let rules = ["R1-exact-duplicate-merge", "R2-near-duplicate-merge"]
            .map(|id| format!("{{id: {id}, then: {{params: {{absorbed: {rule}}}}}}}"));
        let db = copies()
            .set(format!("merge.absorbed={all}"))
            .set(format!("rules=[{}]", rules.join(", ")));
        let before = db.image();
        let applied = db.complete_run();
        assert_eq!(db.ask::<i64>("SELECT count(*) FROM stm"), [left], "{rule}");
        // Each with its embedding.
        let moved = 2 * (4 - left);
        assert_eq!(db.ask::<i64>("SELECT count(*) FROM memfold_archive"), [moved], "{rule}");
        assert!(merges(&db.plan().plan).is_empty(), "{rule}");
        let _ = db.undo_all(applied.run_id());
        assert_same(&before, &db.image());
    }
}

#[test]
fn guarded_row_fails_its_unit_alone() {
    let tea = "Tea comes on Friday.";
    let rows = [
        daemon_memory(0, KILN, 0),
        daemon_memory(1, KILN, 0),
        daemon_memory(2, tea, 1),
        daemon_memory(3, tea, 1),
    ];
    for raise in
        ["RAISE(ABORT, 'mine')", "RAISE(FAIL, 'mine')", "RAISE(ROLLBACK, 'mine')", "RAISE(IGNORE)"]
    {
        for merged in ["archive", "move"] {
            let db =
                TestStore::of(&rows, StoreStyle::Plain).set(format!("merge.absorbed={merged}"));
            let outcome = db.plan();
            let guarded = merges(&outcome.plan)[0].last().unwrap().to_string();
            db.sql(&format!(
                "CREATE TRIGGER keep BEFORE UPDATE ON stm WHEN old.id = '{guarded}' BEGIN SELECT {raise}; END;
                 CREATE TRIGGER stay BEFORE DELETE ON stm WHEN old.id = '{guarded}' BEGIN SELECT {raise}; END;"
            ));
            let before = db.image();
            let execution = db.try_apply(&outcome).unwrap();
            let tell = format!("{raise} {merged}: {:?}", execution.executed);
            assert_eq!(execution.state, RunState::Partial, "{tell}");
            assert_eq!((execution.executed.failed, execution.executed.stale), (1, 0), "{tell}");
            let failed =
                execution.outcomes.iter().filter(|o| matches!(o.result, UnitResult::Failed(_)));
            assert_eq!(failed.map(|o| o.positions[0]).collect::<Vec<_>>(), [0]);
            let archived =
                "SELECT count(*) FROM memfold_archive WHERE memory_id IN (SELECT id FROM stm)";
            assert_eq!(db.ask::<i64>(archived), [0], "{tell}");
            let _ = db.undo_all(&execution.run_id);
            assert_same(&before, &db.image());
        }
    }
}

#[test]
fn columns_come_and_go_between_plan_apply_and_undo() {
    let mut db = copies().set("merge.absorbed=archive");
    let outcome = db.plan();
    db.sql(
        "ALTER TABLE stm ADD COLUMN weather TEXT DEFAULT 'fair'; ALTER TABLE stm DROP COLUMN mood",
    );
    let before = db.image();
    let execution = db.try_apply(&outcome).unwrap();
    assert_eq!(execution.state, RunState::Done, "{:?}", execution.outcomes);
    assert_eq!(db.cell("m000000", "weather"), text("fair"));
    let _ = db.undo_all(&execution.run_id);
    assert_same(&before, &db.image());
    db.sql("DELETE FROM memfold_decisions");
    db.later(1);
    let db = db.set("merge.absorbed=move");
    let run = db.complete_run().run_id().to_owned();
    db.sql("ALTER TABLE stm ADD COLUMN wind TEXT DEFAULT 'west'; ALTER TABLE stm DROP COLUMN archived_by");
    let _ = db.undo_all(&run);
    let first = "SELECT id || wind FROM stm ORDER BY rowid LIMIT 1";
    assert_eq!(db.ask::<String>(first), ["m000000west"]);
}

/// The effect of VACUUM or of importing a backup: the same rows under other numbers.
fn renumber(db: &TestStore) {
    db.sql(
        "VACUUM;
         UPDATE stm SET rowid = rowid + 1000;
         UPDATE embeddings SET rowid = rowid + 500;
         INSERT INTO stm_fts (stm_fts) VALUES ('delete-all');
         INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm;",
    );
}

#[test]
fn undo_goes_by_id_where_rows_got_other_numbers() {
    for merged in ["archive", "move"] {
        let db = TestStore::of(&sample_rows(), StoreStyle::Plain)
            .set(format!("merge.absorbed={merged}"));
        let all = "SELECT quote(id) || quote(content) || quote(categories) || quote(importance) || quote(access_count) || quote(updated_at) || quote(source) || (SELECT quote(group_concat(quote(e.id) || quote(e.embedding))) FROM embeddings e WHERE e.source_id = stm.id) FROM stm ORDER BY id";
        let before = db.ask::<String>(all);
        let run = db.complete_run().run_id().to_owned();
        renumber(&db);
        let _ = db.undo_all(&run);
        assert_eq!(db.ask::<String>(all), before);
        let indexed =
            "SELECT count(*) FROM stm WHERE rowid NOT IN (SELECT id FROM stm_fts_docsize)";
        assert_eq!(db.ask::<i64>(indexed), [0]);
        db.assert_sound();
    }
}

/// Above some 1,400 mutually similar memories the whole run failed, and nothing else was merged either.
#[test]
fn a_series_keeps_nothing_else_from_merging() {
    let vector = |number: usize| {
        let mut vector = vec![1.0_f32; 16];
        vector[number % 16] += 0.01 * (number / 16) as f32;
        vector
    };
    let mut rows: Vec<PlainMemory> = (0..1_500)
        .map(|number| memory(number, format!("Build #{number} passed."), &vector(number)))
        .collect();
    for copy in 0..2 {
        let mut apart = vec![0.0; 16];
        apart[0] = 1.0;
        rows.push(memory(1_500 + copy, "Tea is served at four.", &apart));
    }
    let db = TestStore::of(&rows, StoreStyle::Plain);
    let planned = db.plan();
    assert_eq!(merges(&planned.plan), [["m001501", "m001500"]]);
    let said = planned.report.notes.join("\n");
    assert!(said.contains("1500 memories are similar to very many others"), "{said}");
}

#[test]
fn provenance_alone_keeps_merged_rows_from_being_merged_again() {
    let db = TestStore::of(&sample_rows(), StoreStyle::Plain).set("merge.absorbed=archive");
    let applied = db.complete_run();
    let tables = db.ask::<String>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memfold%'
             AND name NOT GLOB 'memfold_merged_*'",
    );
    assert!(tables.len() > 8);
    tables.iter().for_each(|table| db.sql(&format!("DROP TABLE {table}")));
    let done = merges(&applied.outcome.plan);
    let plan = db.plan().plan;
    for ids in merges(&plan) {
        let again = done.iter().any(|merge| ids.iter().any(|id| merge[1..].contains(id)));
        assert!(!again, "{ids:?}");
    }
    assert_eq!(merges(&plan), Vec::<Vec<&str>>::new());
}
