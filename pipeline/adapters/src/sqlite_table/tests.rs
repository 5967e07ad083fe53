//! Files of each known system, laid out as it does today, with rows of our own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tempfile::TempDir;

use super::*;
use crate::testing::{create, restore, undo, unit};
use memfold_store::origin::OriginChange;

// Each system's file as its version in the first line of the script lays it out, with rows of our own.
const CLAUDE_MEM: &str = include_str!("../../../../tests/data/sqlite_tables/claude_mem.sql");
const MCP_MEMORY_SERVICE: &str =
    include_str!("../../../../tests/data/sqlite_tables/mcp_memory_service.sql");
const CHROMA: &str = include_str!("../../../../tests/data/sqlite_tables/chroma.sql");
const OPENCLAW: &str = include_str!("../../../../tests/data/sqlite_tables/openclaw.sql");
const LETTA: &str = include_str!("../../../../tests/data/sqlite_tables/letta.sql");
const MEM0: &str = include_str!("../../../../tests/data/sqlite_tables/mem0.sql");
const VEC0: &str = include_str!("../../../../tests/data/sqlite_tables/vec0.sql");
const PLAIN: &str = include_str!("../../../../tests/data/sqlite_tables/notes.sql");

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(sql: &str) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        Connection::open(fixture.path()).unwrap().execute_batch(sql).unwrap();
        fixture
    }

    /// With a virtual table without its extension.
    fn with_virtual(sql: &str, name: &str, made_by: &str) -> Self {
        let fixture = Self::new(sql);
        let connection = Connection::open(fixture.path()).unwrap();
        connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
        let insert = "INSERT INTO sqlite_schema VALUES ('table', ?1, ?1, 0, ?2)";
        connection.execute(insert, [name, made_by]).unwrap();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("memories.db")
    }

    fn open(&self, choice: &TableChoice) -> SqliteTable {
        let mut table = SqliteTable::open(&self.path()).unwrap();
        table.keep_removed_in(&self.folder.path().join("state/removed.json"));
        assert!(table.choose_table(choice).unwrap());
        table
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.path()).unwrap().execute_batch(sql).unwrap();
    }

    /// Every cell of a table with its storage class.
    fn rows(&self, table: &str) -> Vec<String> {
        let connection = Connection::open(self.path()).unwrap();
        let mut statement = connection.prepare(&format!("SELECT rowid, * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|at| match row.get_ref(at).unwrap() {
                ValueRef::Text(bytes) => format!("text {}", String::from_utf8_lossy(bytes)),
                other => format!("{other:?}"),
            });
            found.push(cells.collect::<Vec<_>>().join("|"));
        }
        found
    }
}

fn removing(removal: Removal) -> TableChoice {
    TableChoice { removal: Some(removal), ..TableChoice::default() }
}

fn flag(column: &str, value: &str) -> Removal {
    Removal::Flag { column: column.to_owned(), value: value.to_owned() }
}

fn notes(removal: Option<Removal>) -> TableChoice {
    TableChoice {
        table: Some("notes".to_owned()),
        text: Some("body".to_owned()),
        removal,
        ..TableChoice::default()
    }
}

fn live(contents: &OriginContents) -> BTreeMap<String, String> {
    let live = contents.records.iter().filter(|record| record.status == OriginStatus::Live);
    live.map(|record| (record.id.clone(), record.text.clone())).collect()
}

fn record(table: &SqliteTable, id: &str) -> OriginRecord {
    let ids = BTreeSet::from([id]);
    let found = table.read_some(&ids).unwrap().records;
    found.into_iter().find(|record| record.id == id).unwrap()
}

fn retire(table: &SqliteTable, id: &str, into: &str) -> OriginUnit {
    unit(vec![crate::testing::retire(&record(table, id), Some(into))])
}

/// Undoes the changes of a record.
fn undoing(table: &SqliteTable, record: &OriginRecord) -> OriginUnit {
    unit(undo(&crate::testing::records(table), &[record], &[]))
}

fn refused(error: Result<(), OriginError>) -> (String, String) {
    let error = error.unwrap_err();
    (error.to_string(), error.hint().unwrap())
}

/// One system's file, and the expected records.
struct Case {
    sql: &'static str,
    made_by: Option<[&'static str; 2]>,
    live: &'static [[&'static str; 2]],
    vectors: usize,
    attribute: &'static str,
    /// The answer to `--removed delete`; empty where rows are deleted.
    refusal: &'static str,
}

const CASES: &[Case] = &[
    Case {
        sql: CLAUDE_MEM,
        made_by: None,
        live: &[
            ["1", "Port\nThe kiln listens on 8080\n[]"],
            ["2", "Port\nThe kiln listens on 8080\n[]"],
        ],
        vectors: 0,
        attribute: "project:kiln",
        refusal: "the virtual table observations_fts is kept beside it",
    },
    Case {
        sql: MCP_MEMORY_SERVICE,
        made_by: Some([
            "memory_embeddings",
            "CREATE VIRTUAL TABLE memory_embeddings USING vec0(content_embedding FLOAT[2])",
        ]),
        live: &[["h1", "Deploys run on Friday"], ["h2", "Deploys run on Friday."]],
        vectors: 2,
        attribute: "type:note",
        refusal: "the virtual table memory_embeddings is kept beside it",
    },
    Case {
        sql: CHROMA,
        made_by: None,
        live: &[["notes/a", "Tea is green"], ["notes/b", "Tea is green."]],
        vectors: 1,
        attribute: "user:u",
        refusal: "Chroma keeps its own index beside the table",
    },
    Case {
        sql: OPENCLAW,
        made_by: None,
        live: &[["c1", "Bob likes tea"], ["c2", "Bob likes tea"]],
        vectors: 2,
        attribute: "file:MEMORY.md",
        refusal: "it is OpenClaw's index of Markdown files",
    },
    Case {
        sql: LETTA,
        made_by: None,
        live: &[
            ["passage-1", "The wheel is in the cellar"],
            ["passage-2", "The wheel is in the cellar"],
        ],
        vectors: 2,
        attribute: "user:archive-1",
        refusal: "",
    },
    Case {
        sql: MEM0,
        made_by: None,
        live: &[["m1", "Likes green tea"], ["m2", "Likes green tea"]],
        vectors: 0,
        attribute: "",
        refusal: "it is mem0's history",
    },
    Case {
        sql: VEC0,
        made_by: Some([
            "items",
            "CREATE VIRTUAL TABLE items using vec0(embedding float[2], +contents text)",
        ]),
        live: &[["10", "item ten"], ["12", "item twelve"]],
        vectors: 2,
        attribute: "",
        refusal: "rows of a virtual table are changed by its own extension only",
    },
];

#[test]
fn files_of_known_systems_are_read_without_a_trace() {
    for case in CASES {
        let fixture = match case.made_by {
            Some([name, sql]) => Fixture::with_virtual(case.sql, name, sql),
            None => Fixture::new(case.sql),
        };
        assert!(is_one(&fixture.path()));
        let bytes = std::fs::read(fixture.path()).unwrap();
        let table = SqliteTable::open(&fixture.path()).unwrap();
        let contents = table.read().unwrap();
        let expected: BTreeMap<String, String> =
            case.live.iter().map(|[id, text]| ((*id).to_owned(), (*text).to_owned())).collect();
        assert_eq!(live(&contents), expected);
        let vectors = contents.records.iter().filter(|record| record.vector.is_some()).count();
        assert_eq!(vectors, case.vectors, "{expected:?}");
        let categories = contents.records[0].categories();
        let has = |wanted: &str| wanted.is_empty() || categories.iter().any(|name| name == wanted);
        assert!(has(case.attribute), "{categories:?}");
        assert!(table.description().unwrap().contains(": id "));
        assert_eq!(std::fs::read(fixture.path()).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(fixture.folder.path()).unwrap().count(), 1);

        let table = fixture.open(&removing(Removal::Delete));
        match case.refusal {
            "" => table.check(Usage::Remove).unwrap(),
            refusal => {
                let (error, hint) = refused(table.check(Usage::Remove));
                assert!(error.contains(refusal), "{error}");
                assert!(
                    hint.contains("--sql") || hint.contains("--ids") || hint.contains("memfold"),
                    "{hint}"
                );
            }
        }
    }
}

#[test]
fn rows_that_were_taken_out_come_back_bit_for_bit() {
    for (sql, choice, id, into) in [
        (PLAIN, notes(Some(Removal::Delete)), "2", "1"),
        (PLAIN, notes(Some(flag("archived", "1"))), "2", "1"),
        (LETTA, removing(flag("is_deleted", "1")), "passage-2", "passage-1"),
    ] {
        let fixture = Fixture::new(sql);
        let name = choice.table.clone().unwrap_or_else(|| "archival_passages".to_owned());
        let before = fixture.rows(&name);
        let left = before.len() - usize::from(choice.removal == Some(Removal::Delete));
        let table = fixture.open(&choice);
        let (texts, original) = (live(&table.read().unwrap()), record(&table, id));
        let units = [retire(&table, id, into)];
        for _ in 0..2 {
            assert_eq!(table.write(&units).unwrap().units, [0]);
            assert_eq!(fixture.rows(&name).len(), left);
        }
        assert_eq!(live(&table.read().unwrap()).len(), texts.len() - 1);
        let gone = record(&table, id);
        assert_eq!(gone.status, OriginStatus::Merged { into: into.into() });
        assert_eq!(gone.text, original.text);
        let units = [undoing(&table, &original)];
        for _ in 0..2 {
            assert_eq!(table.write(&units).unwrap().units, [0]);
            assert_eq!(fixture.rows(&name), before);
        }
        assert_eq!(live(&table.read().unwrap()), texts);
    }
}

#[test]
fn a_row_that_others_changed_keeps_its_whole_unit_as_it_is() {
    let fixture = Fixture::new(PLAIN);
    let table = fixture.open(&notes(Some(Removal::Delete)));
    let mut changes = retire(&table, "2", "1").changes;
    changes.extend(retire(&table, "3", "1").changes);
    fixture.sql("UPDATE notes SET weight = 3 WHERE id = 3");
    let before = fixture.rows("notes");
    let published = table.write(&[unit(changes)]).unwrap();
    assert_eq!((published.units.len(), published.conflicts.len()), (0, 1));
    assert!(published.conflicts[0].reason.contains("changed meanwhile"));
    assert_eq!(fixture.rows("notes"), before);
    assert_eq!(live(&table.read().unwrap()).len(), 4, "what was kept and is there is live");
}

#[test]
fn a_trigger_that_changes_more_than_the_mark_is_a_conflict() {
    let fixture = Fixture::new(PLAIN);
    fixture.sql(
        "CREATE TRIGGER touched AFTER UPDATE ON notes WHEN new.weight = old.weight
                 BEGIN UPDATE notes SET weight = weight + 1 WHERE id = new.id; END",
    );
    let before = fixture.rows("notes");
    let table = fixture.open(&notes(Some(flag("archived", "1"))));
    let published = table.write(&[retire(&table, "3", "1")]).unwrap();
    assert_eq!(
        published.conflicts[0].reason,
        "a trigger or a type of the table changes its column weight"
    );
    assert_eq!(fixture.rows("notes"), before);
}

#[test]
fn what_is_wrong_with_a_choice_is_said_with_the_command_to_type() {
    let fixture = Fixture::new("CREATE TABLE songs (x); CREATE TABLE texts (uuid, content); CREATE VIEW seen AS SELECT * FROM texts;
        CREATE TABLE keyed (a, b, content, PRIMARY KEY (a, b)) WITHOUT ROWID;");
    let choose = |choice: TableChoice| {
        let mut table = SqliteTable::open(&fixture.path()).unwrap();
        refused(table.choose_table(&choice).map(drop))
    };
    let named = |name: &str| TableChoice { table: Some(name.to_owned()), ..TableChoice::default() };
    let (error, hint) = choose(TableChoice::default());
    assert!(error.contains("no table of memories is recognised, found keyed (a, b, content), songs (x), texts (uuid, content)"), "{error}");
    assert!(hint.starts_with("name the table: memfold consolidate memories.db --table"), "{hint}");
    for (choice, expected) in [
        (named("none"), "there is no table none"),
        (named("seen"), "seen is a view"),
        (named("keyed"), "keyed is made WITHOUT ROWID and has a key of several columns"),
        (
            TableChoice { text: Some("body".to_owned()), ..named("texts") },
            "texts has no column body",
        ),
        (
            TableChoice { removal: Some(flag("gone", "1")), ..named("texts") },
            "--removed: texts has no column gone",
        ),
        (named("songs"), "say which column of songs has the ids: --id COLUMN"),
    ] {
        let (error, _) = choose(choice);
        assert!(error.contains(expected), "{error}");
    }
    let (error, hint) = refused(fixture.open(&named("texts")).check(Usage::Remove));
    assert!(error.contains("nobody said how rows are taken out"), "{error}");
    assert!(
        hint.contains("--removed delete or --removed COLUMN=VALUE") && hint.contains("--sql OUT"),
        "{hint}"
    );
}

#[test]
fn ids_of_every_kind_and_tables_without_rowids_are_written() {
    for (columns, ids) in [
        ("id INTEGER PRIMARY KEY", ["1", "2"]),
        ("id TEXT", ["'a'", "'b'"]),
        ("id BLOB PRIMARY KEY", ["x'000102030405060708090a0b0c0d0e0f'", "x'0f'"]),
        ("id TEXT PRIMARY KEY, rowid TEXT, oid TEXT", ["'a'", "'b'"]),
    ] {
        for ending in ["", "WITHOUT ROWID"] {
            if ending.is_empty() == columns.contains("oid TEXT")
                || (columns == "id TEXT" && !ending.is_empty())
            {
                continue;
            }
            let fixture = Fixture::new(&format!(
                "CREATE TABLE notes ({columns}, content TEXT) {ending};
                 INSERT INTO notes (id, content) VALUES ({}, 'same'), ({}, 'same');",
                ids[0], ids[1]
            ));
            let connection = Connection::open(fixture.path()).unwrap();
            let rows = || -> Vec<String> {
                let sql = "SELECT quote(id) || content FROM notes ORDER BY id";
                let mut statement = connection.prepare(sql).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            };
            let before = rows();
            let choice = TableChoice { table: Some("notes".into()), ..removing(Removal::Delete) };
            let table = fixture.open(&choice);
            let contents = table.read().unwrap();
            let [kept, gone] = [0, 1].map(|at| contents.records[at].id.clone());
            table.write(&[retire(&table, &gone, &kept)]).unwrap();
            assert_eq!(rows().len(), 1, "{columns} {ending}");
            let back = restore(&contents.records[1]);
            assert_eq!(table.write(&[unit(vec![back])]).unwrap().units, [0]);
            assert_eq!(rows(), before);
        }
    }
}

#[test]
fn memories_that_were_saved_are_rows_with_the_ids_that_the_table_gives() {
    let fixture = Fixture::new(PLAIN);
    let table = fixture.open(&notes(Some(Removal::Delete)));
    let mut saved = create("saved", "The oven is blue");
    if let OriginChange::Create { record, .. } = &mut saved {
        record.attributes.push(("user".into(), "u".into()));
    }
    let units = [unit(vec![saved])];
    for _ in 0..2 {
        assert_eq!(table.write(&units).unwrap().units, [0]);
        assert_eq!(fixture.rows("notes").len(), 6);
    }
    let read = record(&table, "saved");
    assert_eq!((read.text.as_str(), read.place.as_str()), ("The oven is blue", "notes row 6"));
    let remove = OriginChange::Remove { before: Some(read.digest()), id: "saved".into() };
    assert_eq!(table.write(&[unit(vec![remove])]).unwrap().units, [0]);
    assert_eq!(fixture.rows("notes").len(), 5);
    let strict = Fixture::new(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, session TEXT NOT NULL)",
    );
    let (error, _) = refused(strict.open(&notes(None)).check(Usage::Add));
    assert!(error.contains("a value of session must be given"), "{error}");
}

#[test]
fn the_script_removes_what_is_unchanged_and_nothing_else() {
    let planned = ["2", "3"].map(|id| PlannedRemoval {
        id: id.to_owned(),
        into: Some("1".to_owned()),
        rule: "R1".to_owned(),
    });
    for (removal, left) in [(None, 4), (Some(flag("archived", "1")), 5)] {
        let fixture = Fixture::new(PLAIN);
        fixture.sql("UPDATE notes SET body = 'It''s \"here\"' || char(10) || '--' WHERE id = 2");
        let table = fixture.open(&notes(removal));
        let script = table.removal_script(&planned, ScriptForm::Sql).unwrap().unwrap();
        fixture.sql("UPDATE notes SET body = 'changed' WHERE id = 3");
        for _ in 0..2 {
            fixture.sql(&script);
            let rows = fixture.rows("notes");
            assert_eq!(rows.len(), left, "{script}");
            assert!(rows.iter().any(|row| row.contains("changed")), "{script}");
        }
        let is_live = |id: &str| live(&table.read().unwrap()).contains_key(id);
        assert_eq!((is_live("1"), is_live("2"), is_live("3")), (true, false, true));
    }
    let chroma = Fixture::new(CHROMA);
    let table = chroma.open(&TableChoice::default());
    assert!(table.removal_script(&planned, ScriptForm::Sql).is_err());
    let planned =
        [PlannedRemoval { id: "notes/b".into(), into: Some("notes/a".into()), rule: "R1".into() }];
    let list = table.removal_script(&planned, ScriptForm::Ids).unwrap().unwrap();
    let line: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        line,
        serde_json::json!({ "id": "b", "into": "a", "rule": "R1", "collection": "notes" })
    );
}

#[test]
fn a_brain_db_a_locked_and_a_damaged_file_are_named() {
    let brain = Fixture::new("CREATE TABLE stm (id, content)");
    assert!(!is_one(&brain.path()));
    assert!(SqliteTable::open(&brain.path()).unwrap_err().to_string().contains("it is a brain.db"));
    assert!(!is_one(Path::new("/nowhere")));

    let locked = Fixture::new(PLAIN);
    let table = locked.open(&notes(Some(Removal::Delete)));
    let units = [retire(&table, "2", "1")];
    let writer = Connection::open(locked.path()).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(table.write(&units), Err(OriginError::Locked { .. })));
    drop(writer);
    assert_eq!(table.write(&units).unwrap().units, [0]);

    let damaged = Fixture::new(&format!(
        "{PLAIN} INSERT INTO notes (body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT 'memory ' || i FROM n;"
    ));
    let mut bytes = std::fs::read(damaged.path()).unwrap();
    bytes[8192..12288].fill(0xa5);
    std::fs::write(damaged.path(), bytes).unwrap();
    let mut table = SqliteTable::open(&damaged.path()).unwrap();
    table.choose_table(&notes(None)).unwrap();
    let error = table.read().unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(error.hint().unwrap().contains("integrity_check"));
}

#[test]
fn vectors_of_vec1_are_those_of_the_rows_beside_it() {
    let sql = "CREATE TABLE docs (id INTEGER PRIMARY KEY, content TEXT);
        INSERT INTO docs VALUES (1, 'one'), (2, 'two');
        CREATE TABLE v_base (id INTEGER PRIMARY KEY, vector);
        INSERT INTO v_base VALUES (1, x'0000803f00000000'), (2, 7);";
    let fixture = Fixture::with_virtual(sql, "v", "CREATE VIRTUAL TABLE v USING vec1(vector)");
    let table = SqliteTable::open(&fixture.path()).unwrap();
    let vectors: Vec<bool> =
        table.read().unwrap().records.iter().map(|record| record.vector.is_some()).collect();
    assert_eq!(vectors, [true, false]);
}
