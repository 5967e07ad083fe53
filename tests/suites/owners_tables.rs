//! Work of memfold changes nothing else of the owner's: no row of another table, no search entry,
//! no column, and nothing that the owner wrote since.

use memfold::execute::UndoOutcome;
use memfold::quick_check::{Incoming, Written};
use memfold::settle::{Settled, Settlement};
use memfold_core::memory::MemoryId;
use memfold_store::journal::RevertOptions;
use memfold_store::upkeep::restore;
use memfold_tests::{PlainMemory, StoreStyle, TestStore, assert_same, daemon_memory, unit_vector};
use rusqlite::types::Value;

const KILN: &str = "The kiln is fired on Mondays.";

/// Three copies, of which `m000002` survives; then one memory of its own, old and never read; then another.
fn rows() -> Vec<PlainMemory> {
    vec![
        daemon_memory(0, KILN, 0),
        daemon_memory(1, KILN, 0),
        daemon_memory(2, KILN, 0),
        daemon_memory(3, "Tea comes on Friday.", 1),
        daemon_memory(4, "The harbour has two cranes.", 2),
    ]
}

fn db() -> TestStore {
    TestStore::of(&rows(), StoreStyle::Plain).set("merge.absorbed=move")
}

/// Settles the one pair that waits.
fn supersede(db: &TestStore) -> (String, Settled) {
    let key = db.ask::<String>("SELECT key FROM memfold_flags WHERE state = 'open'").remove(0);
    db.settle(&key, Settlement::Supersede)
}

/// Schemas that an owner may have beside memories, and the words by which a move is refused.
/// `notes` holds a row for each memory.
const SCHEMAS: [(&str, &str); 8] = [
    ("CREATE TABLE notes (m TEXT REFERENCES stm(id) ON DELETE CASCADE)", REFERS),
    ("CREATE TABLE notes (m TEXT REFERENCES stm(id) ON DELETE SET NULL)", REFERS),
    ("CREATE TABLE notes (m TEXT REFERENCES STM(id))", REFERS),
    (
        "CREATE TABLE notes (m TEXT, e TEXT REFERENCES embeddings(id) ON DELETE CASCADE)",
        "table notes refers to embeddings by a foreign key",
    ),
    (
        "CREATE TRIGGER follow AFTER DELETE ON stm BEGIN DELETE FROM notes WHERE m = old.id; END",
        "trigger follow runs when a row of stm is deleted",
    ),
    (
        "CREATE TRIGGER \"before update\" BEFORE DELETE ON embeddings
         BEGIN DELETE FROM notes WHERE m = old.source_id; END",
        "trigger before update runs when a row of embeddings is deleted",
    ),
    (
        "CREATE TRIGGER heir AFTER DELETE ON stm BEGIN
             DELETE FROM stm_fts_docsize WHERE 0; UPDATE notes SET m = NULL WHERE m = old.id; END",
        "trigger heir runs when a row of stm is deleted",
    ),
    (
        "CREATE TRIGGER again AFTER INSERT ON stm WHEN new.id = 'm000000'
         BEGIN INSERT INTO notes VALUES ('again'); END",
        "trigger again runs when a row of stm is inserted",
    ),
];
const REFERS: &str = "table notes refers to stm by a foreign key";

/// Lets a memory leave; returns the run to undo and its notes.
type Writer = fn(&TestStore) -> (String, Vec<String>);

/// The ways in which memories leave.
const WRITERS: [Writer; 3] = [
    |db| {
        let execution = db.complete_run().execution.unwrap();
        (execution.run_id, execution.notes)
    },
    |db| {
        let newer = Incoming::text("The harbour has two cranes. Ships wait in the bay.");
        let newer = newer.with_vector(unit_vector(8, 2));
        let saved = db.quick_check().save(&newer, db.now()).unwrap();
        assert_eq!(saved.written, Written::Replaced, "{saved:?}");
        (saved.run_id.unwrap(), saved.check.notes)
    },
    |db| {
        let other = Incoming::text("The harbour has three cranes.");
        let other = other.with_vector(unit_vector(8, 2));
        let saved = db.quick_check().save(&other, db.now()).unwrap();
        assert_eq!(saved.written, Written::Inserted, "{saved:?}");
        let (run, settled) = supersede(db);
        (run, settled.note.into_iter().collect())
    },
];

/// With `absorbed: move`, 12 rows of a table that refers to `embeddings` with ON DELETE CASCADE
/// went with the moved rows, and so did the rows that a trigger AFTER DELETE removed; undo brought
/// none of them back. A save and the settling of a flag had not even the check of foreign keys that
/// `apply` had. Now every writer archives these rows in place and says why.
#[test]
fn nothing_of_another_table_goes_with_a_memory() {
    for (schema, reason) in SCHEMAS {
        for (number, write) in WRITERS.iter().enumerate() {
            let tell = format!("{schema}, writer {number}");
            let db = db().set("protection.min_age_hours=0");
            if schema.starts_with("CREATE TRIGGER") {
                db.sql("CREATE TABLE notes (m TEXT)");
            }
            db.sql(schema);
            let has_embedding = schema.contains("e TEXT");
            let (columns, values) = match has_embedding {
                true => ("m, e", "source_id, id"),
                false => ("m", "source_id"),
            };
            db.sql(&format!("INSERT INTO notes ({columns}) SELECT {values} FROM embeddings"));
            let notes = || db.ask::<Option<String>>("SELECT m FROM notes ORDER BY rowid");
            let before = (notes(), db.image());
            let (run, said) = write(&db);
            assert_eq!(notes(), before.0, "{tell}");
            assert_eq!(db.ask::<i64>("SELECT count(*) FROM memfold_archive"), [0], "{tell}");
            let archived = "SELECT count(*) FROM stm WHERE source LIKE 'archived:%'";
            assert!(db.ask::<i64>(archived)[0] > 0, "{tell}");
            assert_eq!(said.len(), 1, "once: {tell}: {said:?}");
            assert!(said[0].contains("archived in place") && said[0].contains(reason), "{said:?}");
            let undone = db.undo_run(&run);
            assert_eq!(undone.executed.stale + undone.executed.failed, 0, "{undone:?}");
            assert_eq!(notes(), before.0, "{tell}");
            if number == 0 {
                assert_same(&before.1, &db.image());
            }
            db.assert_sound();
        }
    }
}

/// Harmless triggers do not keep rows from moving: triggers on updates, and triggers that keep the
/// search index.
#[test]
fn a_trigger_that_only_keeps_the_index_does_not_keep_rows_from_moving() {
    let db = db();
    db.sql(
        "DROP TABLE stm_fts;
         CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='stm', content_rowid='rowid');
         INSERT INTO stm_fts(stm_fts) VALUES ('rebuild');
         CREATE TRIGGER t_in AFTER INSERT ON stm BEGIN
             INSERT INTO stm_fts(rowid, content) VALUES (new.rowid, new.content); END;
         CREATE TRIGGER t_out AFTER DELETE ON stm BEGIN
             INSERT INTO stm_fts(stm_fts, rowid, content) VALUES ('delete', old.rowid, old.content); END;
         CREATE TRIGGER t_seen AFTER UPDATE ON stm BEGIN SELECT 1; END;",
    );
    let before = db.image();
    let applied = db.complete_run();
    assert_eq!(applied.execution.as_ref().unwrap().notes, Vec::<String>::new());
    assert_eq!(db.ask::<i64>("SELECT count(*) FROM stm"), [3]);
    let _ = db.undo_all(applied.run_id());
    assert_same(&before, &db.image());
}

fn found(db: &TestStore, word: &str) -> Vec<i64> {
    db.ask(&format!("SELECT rowid FROM stm_fts WHERE stm_fts MATCH '{word}' ORDER BY rowid"))
}

/// Copies where the last one to be merged has the highest row number, so that the next memory gets
/// that number.
fn last_copy_merges() -> TestStore {
    let rows = [
        daemon_memory(9, "Tea comes on Friday.", 1),
        daemon_memory(2, KILN, 0),
        daemon_memory(1, KILN, 0),
    ];
    let db = TestStore::of(&rows, StoreStyle::Plain).set("merge.absorbed=move");
    db.sql("UPDATE embeddings SET content = (SELECT content FROM stm WHERE id = source_id)");
    db
}

const UNRELATED: &str =
    "INSERT INTO stm (id, content, created_at) VALUES ('new', 'Rain.', '2026-06-01');
    INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm WHERE id = 'new'";

/// A row that the owner had edited without indexing it anew left its old words behind when it
/// moved, and a search for an old word found the unrelated memory that got its row number next. The
/// text beside the embedding is the indexed one.
#[test]
fn the_words_of_a_row_that_moved_find_no_other_row() {
    let db = last_copy_merges();
    let number = db.ask::<i64>("SELECT max(rowid) FROM stm")[0];
    db.sql(
        "INSERT INTO stm_fts(stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'm000001';
         INSERT INTO stm_fts(rowid, content) SELECT rowid, 'An old zebra, quoted \"so\".' FROM stm WHERE id = 'm000001';
         UPDATE embeddings SET content = 'An old zebra, quoted \"so\".' WHERE source_id = 'm000001'",
    );
    // Stale as it is, its vector counts for nothing; the texts are equal.
    assert_eq!(found(&db, "zebra"), [number]);
    let before = db.image();
    let run = db.complete_run().run_id().to_owned();
    assert_eq!(db.ask::<i64>("SELECT count(*) FROM stm WHERE id = 'm000001'"), [0]);
    assert_eq!(found(&db, "zebra"), [0; 0]);
    let undo = db.undo_all(&run);
    assert_same(&before, &db.image());
    let _ = db.undo_all(&undo);
    db.sql(UNRELATED);
    assert_eq!(db.ask::<i64>("SELECT rowid FROM stm WHERE id = 'new'"), [number]);
    assert_eq!((found(&db, "zebra"), found(&db, "rain")), (vec![], vec![number]));
    db.assert_sound();
}

/// Where nobody can tell which words are indexed, the row keeps its number: so no other memory is found by them.
#[test]
fn a_row_whose_indexed_words_are_unknown_stays_in_its_place() {
    let long = "word ".repeat(400);
    for indexed in [
        // Neither the row nor its embedding shows this.
        "INSERT INTO stm_fts(stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'm000001';
         INSERT INTO stm_fts(rowid, content) SELECT rowid, 'An old zebra.' FROM stm WHERE id = 'm000001';
         UPDATE embeddings SET content = NULL WHERE source_id = 'm000001'"
            .to_owned(),
        // The embedding has only the beginning of it.
        format!(
            "INSERT INTO stm_fts(stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'm000001';
             INSERT INTO stm_fts(rowid, content) SELECT rowid, '{long} zebra' FROM stm WHERE id = 'm000001';
             UPDATE embeddings SET content = substr('{long} zebra', 1, 1000) WHERE source_id = 'm000001'"
        ),
        // It was indexed twice, and both texts are found.
        "INSERT INTO stm_fts(rowid, content) SELECT rowid, 'An old zebra.' FROM stm WHERE id = 'm000001';
         UPDATE embeddings SET content = 'An old zebra.' WHERE source_id = 'm000001'"
            .to_owned(),
    ] {
        let db = last_copy_merges();
        db.sql(&indexed);
        let before = db.image();
        let execution = db.complete_run().execution.unwrap();
        let said = &execution.notes[..];
        assert!(said.len() == 1 && said[0].contains("words that are not known"), "{said:?}");
        assert!(said[0].starts_with("1 memory was archived in place"), "{said:?}");
        let source = db.ask::<String>("SELECT source FROM stm WHERE id = 'm000001'");
        assert!(source[0].starts_with("archived:"), "{source:?}");
        let number = db.ask::<i64>("SELECT rowid FROM stm WHERE id = 'm000001'")[0];
        db.sql(UNRELATED);
        assert_ne!(db.ask::<i64>("SELECT rowid FROM stm WHERE id = 'new'"), [number]);
        assert_eq!(found(&db, "zebra"), [number]);
        db.sql(
            "INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'new';
             DELETE FROM stm WHERE id = 'new'",
        );
        let _ = db.undo_all(&execution.run_id);
        assert_same(&before, &db.image());
    }
}

/// A memory archived in its table went on being found beside its survivor, and each text was indexed twice.
#[test]
fn an_archived_row_is_found_no_longer_and_undo_makes_it_findable_again() {
    for edited in [false, true] {
        let db = last_copy_merges().set("merge.absorbed=archive");
        if edited {
            db.sql(
                "UPDATE stm SET content = 'The kiln is fired on  Mondays.' WHERE id = 'm000001'",
            );
        }
        let before = db.image();
        assert_eq!(found(&db, "kiln").len(), 2);
        let run = db.complete_run().run_id().to_owned();
        let survivor = db.ask::<i64>("SELECT rowid FROM stm WHERE id = 'm000002'");
        assert_eq!((found(&db, "kiln"), db.ask("SELECT count(*) FROM stm")), (survivor, vec![3]));
        let executed = db.image();
        let undo = db.undo_all(&run);
        assert_same(&before, &db.image());
        let _ = db.undo_all(&undo);
        assert_same(&executed, &db.image());
    }
}

/// Atoms name the memory that they were learned from. When that moved, the name led nowhere.
#[test]
fn atoms_follow_a_moved_memory_and_return() {
    let db = db();
    db.sql(
        "ALTER TABLE atoms ADD COLUMN source_memory_id TEXT;
         INSERT INTO atoms (id, subject, action, outcome, created_at, source_memory_id) VALUES
             ('atm_1', 's', 'a', 'o', '2026-01-01', 'm000000'), ('atm_2', 's', 'a', 'o', '2026-01-01', 'm000001'),
             ('atm_3', 's', 'a', 'o', '2026-01-01', 'm000003'), ('atm_4', 's', 'a', 'o', '2026-01-01', NULL),
             ('atm_5', 's', 'a', 'o', '2026-01-01', 'm000000')",
    );
    let named = || db.ask::<Option<String>>("SELECT source_memory_id FROM atoms ORDER BY id");
    let names = |ids: [&str; 5]| ids.map(|id| (!id.is_empty()).then(|| id.to_owned())).to_vec();
    let before = db.image();
    let run = db.complete_run().run_id().to_owned();
    assert_eq!(named(), names(["m000002", "m000002", "m000003", "", "m000002"]));
    let _ = db.undo_all(&run);
    assert_same(&before, &db.image());
    // Atoms that the owner redirected meanwhile, or deleted, stay so.
    let run = db.undo_all(
        &db.ask::<String>("SELECT run_id FROM memfold_runs ORDER BY seq DESC LIMIT 1")[0],
    );
    db.sql("UPDATE atoms SET source_memory_id = 'm000004' WHERE id = 'atm_1'; DELETE FROM atoms WHERE id = 'atm_5'");
    let _ = db.undo_all(&run);
    let left = db.ask::<Option<String>>("SELECT source_memory_id FROM atoms ORDER BY id");
    assert_eq!(left, names(["m000004", "m000001", "m000003", "", ""])[..4]);
}

/// Undo filled NULL where the owner had renamed or dropped a column, deleted the only copy of the value and ended with
/// exit code 0.
#[test]
fn a_value_without_a_column_is_kept_and_told_of() {
    for merged in ["archive", "move"] {
        for (change, column) in [
            ("ALTER TABLE stm RENAME COLUMN mood TO temper", "mood"),
            ("ALTER TABLE stm DROP COLUMN mood", "mood"),
            ("ALTER TABLE embeddings RENAME COLUMN model TO made_by", "embeddings.model"),
            ("DROP TABLE embeddings", "embeddings."),
        ] {
            let mut db =
                TestStore::of(&rows(), StoreStyle::Plain).set(format!("merge.absorbed={merged}"));
            db.sql("ALTER TABLE stm ADD COLUMN mood TEXT; UPDATE stm SET mood = 'calm ' || id");
            let run = db.complete_run().run_id().to_owned();
            db.sql(change);
            let archive = "SELECT memory_id || table_name FROM memfold_archive ORDER BY id";
            let kept = (db.ask::<String>(archive), db.image());
            db.revert_with(RevertOptions { force: true, recreate: true });
            let undo = db.undo_run(&run);
            if merged == "archive" {
                // It stood in its table all the time, and the writes to it were in other columns.
                assert_eq!(undo.executed.stale, 0, "{change}: {undo:?}");
                continue;
            }
            assert_eq!((undo.executed.applied, undo.executed.stale), (0, 1), "{change}: {undo:?}");
            let UndoOutcome { conflicts, remedies, .. } = &undo.outcomes[0];
            let said = format!("has a value for {column}");
            assert!(conflicts.iter().any(|conflict| conflict.contains(&said)), "{conflicts:?}");
            assert_eq!(*remedies, Vec::<&str>::new(), "nothing gets past it");
            let refused = restore(&db.session(), &MemoryId::new("m000000"), &db.upkeep("r"));
            assert!(refused.unwrap_err().to_string().contains(&said), "{change}");
            assert_eq!(db.ask::<String>(archive), kept.0, "{change}");
            assert_same(&kept.1, &db.image());
            if change.contains("RENAME COLUMN mood") {
                db.sql("ALTER TABLE stm RENAME COLUMN temper TO mood");
                let _ = db.undo_all(&run);
                assert_eq!(db.cell("m000000", "mood"), Value::Text("calm m000000".to_owned()));
            }
        }
    }
}

/// An undo removed rows that it had written as flags into the owner's table, also where the owner had edited them since.
#[test]
fn a_flag_row_that_the_owner_edited_stays() {
    let rows = [daemon_memory(0, "The port is 8080.", 0), daemon_memory(1, "The port is 9090.", 0)];
    let db = || TestStore::of(&rows, StoreStyle::Plain).set("flags.write_to=stm");
    let flags = "SELECT id FROM stm WHERE source LIKE 'consolidation:contradiction:%'";
    let mut edited = db();
    let run = edited.complete_run().run_id().to_owned();
    let flag = edited.ask::<String>(flags).remove(0);
    edited.sql("UPDATE stm SET content = content || ' Ana asks.', access_count = 7 WHERE source LIKE 'consolidation:contradiction:%'");
    let undo = edited.undo_run(&run);
    assert_eq!((undo.executed.applied, undo.executed.stale), (0, 1), "{undo:?}");
    assert_eq!(undo.outcomes[0].conflicts, [format!("content of {flag} was changed since")]);
    assert_eq!(
        (undo.outcomes[0].remedies.as_slice(), edited.ask::<String>(flags)),
        (&["--force"][..], vec![flag])
    );
    edited.revert_with(RevertOptions { force: true, recreate: false });
    let _ = edited.undo_all(&run);
    assert_eq!(edited.ask::<String>(flags), [""; 0]);
    let kept = edited.ask::<String>("SELECT c1 FROM memfold_archive WHERE table_name = 'stm'");
    assert!(kept.iter().any(|row| row.contains("Ana asks.")), "{kept:?}");
    // Readers that count accesses are no editors.
    let read = db();
    let run = read.complete_run().run_id().to_owned();
    read.sql("UPDATE stm SET access_count = access_count + 3");
    let _ = read.undo_all(&run);
    assert_eq!(read.ask::<String>(flags), [""; 0]);
}
