//! Restoring by `undo --memory`, `forget`, and pruning by `runs`.

use memfold_tests::{StoreImage, diff, integrity};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Place, consolidate};

/// The time of upkeep: a day after that of the runs.
const LATER: &str = "2026-07-01T12:00:00Z";

fn execute(place: &Place, further: &[&str]) -> Value {
    let arguments = consolidate(&["--execute", "--max-change-share", "1", "--json"]);
    place.json(&[&arguments[..], further].concat())
}

/// The pair, of which m000000 was merged into m000001.
fn folded(further: &[&str]) -> (Place, String) {
    let place = Place::with_pair();
    let document = execute(&place, further);
    assert_eq!(document["executed"]["applied"], 1, "{document}");
    let run = document["run_id"].as_str().unwrap().to_owned();
    assert_eq!(place.live_id("m000000"), "m000001");
    (place, run)
}

fn connect(place: &Place) -> Connection {
    Connection::open(place.path("brain.db")).unwrap()
}

fn image(place: &Place) -> StoreImage {
    StoreImage::of(&place.path("brain.db"))
}

fn planned_merges(place: &Place) -> Value {
    place.json(&["consolidate", "brain.db", "--now", LATER, "--json"])["planned"]["merge"].clone()
}

fn restore<'a>(id: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["undo", "brain.db", "--memory", id, "--now", LATER], further].concat()
}

fn forget<'a>(id: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["forget", "brain.db", id, "--now", LATER], further].concat()
}

/// Every table's cells that hold a text; search indexes hold tokens and are asked by words.
fn cells_with(place: &Place, text: &str) -> Vec<String> {
    let connection = connect(place);
    let names = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut found = Vec::new();
    for table in
        names("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%_fts%'")
    {
        for column in names(&format!("SELECT name FROM pragma_table_info('{table}')")) {
            let sql = format!(
                "SELECT count(*) FROM {table} WHERE instr(CAST(\"{column}\" AS TEXT), ?1) > 0"
            );
            let count: i64 = connection.query_row(&sql, [text], |row| row.get(0)).unwrap();
            if count > 0 {
                found.push(format!("{table}.{column}"));
            }
        }
    }
    found
}

fn matches(place: &Place, word: &str) -> i64 {
    let sql = "SELECT count(*) FROM stm_fts WHERE stm_fts MATCH ?1";
    connect(place).query_row(sql, [word], |row| row.get(0)).unwrap()
}

#[test]
fn a_restored_memory_lives_apart_and_can_be_folded_back() {
    for absorbed in ["archive", "move"] {
        let setting = format!("merge.absorbed={absorbed}");
        let (place, _) = folded(&["--set", &setting]);
        let before = image(&place);
        let files = place.files();
        let preview = place.succeed(&restore("m000000", &[]));
        assert!(preview.contains("kept apart from m000001"), "{preview}");
        assert!(preview.contains("undo brain.db --memory m000000 --execute"), "{preview}");
        assert!(files == place.files());
        let document = place.json(&restore("m000000", &["--execute", "--json"]));
        assert_eq!(document["restoration"]["apart_from"][0], "m000001");
        assert_eq!(place.live_id("m000000"), "m000000");
        assert_eq!(planned_merges(&place), 0, "{absorbed}");
        let row: (String, String) = connect(&place)
            .query_row("SELECT categories, source FROM stm WHERE id = 'm000000'", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(row, (r#"["general"]"#.to_owned(), "agent".to_owned()));
        assert_eq!(integrity(&place.path("brain.db")), [""; 0]);
        let run = document["run_id"].as_str().unwrap();
        place.succeed(&["undo", "brain.db", run, "--execute"]);
        assert_eq!(diff(&before, &image(&place)), [""; 0], "{absorbed}");
        assert_eq!(place.live_id("m000000"), "m000001");
    }
}

#[test]
fn what_was_edited_or_lost_its_survivor_is_listed() {
    let (place, _) = folded(&["--set", "merge.absorbed=archive"]);
    let nothing = "no archived memory was edited since, and every survivor is there\n";
    assert_eq!(place.succeed(&["undo", "brain.db", "--archived"]), nothing);
    let edit = "UPDATE stm SET content = 'The kiln is fired on Tuesdays.' WHERE id = 'm000000'";
    connect(&place).execute(edit, []).unwrap();
    insta::assert_snapshot!("restore-edited", place.succeed(&["undo", "brain.db", "--archived"]));
    connect(&place).execute("DELETE FROM stm WHERE id = 'm000001'", []).unwrap();
    let listed = place.json(&["undo", "brain.db", "--archived", "--json"]);
    assert_eq!(listed["candidates"][0]["reason"], "survivor_gone");
    assert_eq!(listed["candidates"][0]["survivor"], "m000001");
    place.succeed(&restore("m000000", &["--execute"]));
    assert_eq!(place.live_id("m000000"), "m000000");
    assert_eq!(place.succeed(&["undo", "brain.db", "--archived"]), nothing);
}

#[test]
fn what_others_archived_is_restored_without_our_tables() {
    let place = Place::with_pair();
    connect(&place)
        .execute(
            "UPDATE stm SET source = 'archived:low_utility', categories = '[\"x\", \"archived\"]'
             WHERE id = 'm000002'",
            [],
        )
        .unwrap();
    place.succeed(&restore("m000002", &["--execute"]));
    let row: (String, String) = connect(&place)
        .query_row("SELECT categories, source FROM stm WHERE id = 'm000002'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(row, (r#"["x"]"#.to_owned(), "agent".to_owned()));
}

#[test]
fn of_a_live_memory_the_last_unit_is_taken_back() {
    let (place, _) = folded(&[]);
    let preview = place.succeed(&restore("m000001", &[]));
    assert!(preview.contains("1 unit would be taken back"), "{preview}");
    for further in [&[][..], &["--execute"]] {
        place.run(&restore("x", further)).fails_with(1, &["x"]);
    }
    assert_eq!(place.run(&["undo", "brain.db", "--archived", "--execute"]).code, Some(2));
    place.succeed(&restore("m000001", &["--execute"]));
    assert_eq!(place.live_id("m000000"), "m000000");
}

#[test]
fn a_forgotten_memory_leaves_nothing_behind() {
    let (place, run) = folded(&[]);
    connect(&place)
        .execute_batch(
            r#"INSERT INTO stm(id, content, categories, source, created_at) VALUES
               ('flag_1', '{"type":"contradiction","ids":["m000001","m000002"]}', '[]',
                'consolidation:contradiction:k', '2026-06-30T00:00:00');"#,
        )
        .unwrap();
    let files = place.files();
    let refused = place.run(&forget("m000001", &["--execute"]));
    refused.fails_with(1, &["1 memories were merged into m000001: m000000", "--with-absorbed"]);
    let preview = place.succeed(&forget("m000001", &["--with-absorbed"]));
    insta::assert_snapshot!("forget", preview.replace(&run, "RUN"));
    assert!(files == place.files());
    let done = place.json(&forget("m000001", &["--with-absorbed", "--execute", "--json"]));
    assert_eq!(done["erasure"]["ids"], serde_json::json!(["flag_1", "m000000", "m000001"]));
    assert_eq!(
        (&done["erasure"]["memories"], &done["erasure"]["archived"]),
        (&2.into(), &2.into())
    );
    assert_eq!(done["files"]["backups"].as_array().unwrap().len(), 1);
    assert_eq!(done["files"]["reports"].as_array().unwrap().len(), 2);
    for text in ["m000000", "m000001", "flag_1", "kiln"] {
        assert_eq!(cells_with(&place, text), [""; 0], "{text}");
        let log = std::fs::read(place.path("brain.db-wal")).unwrap_or_default();
        let bytes = [std::fs::read(place.path("brain.db")).unwrap(), log].concat();
        let is_there = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!is_there, "{text} is still in the file");
    }
    assert_eq!((matches(&place, "kiln"), matches(&place, "harbour")), (0, 1));
    assert_eq!(integrity(&place.path("brain.db")), [""; 0]);
    let history = place.json(&["runs", "brain.db", "--json"]);
    assert_eq!(history["audit_chain"]["holds"], true);
    assert_eq!(history["runs"][1]["kind"], "forget");
    place.run(&["undo", "brain.db", &run, "--execute"]);
    assert_eq!(cells_with(&place, "kiln"), [""; 0]);
    assert_eq!(planned_merges(&place), 0);
    place.run(&["explain", "brain.db", "m000001"]).fails_with(1, &["is not in this store"]);
}

/// `forget` said nothing of memfold's own index, which kept the id, the hash of the text and the vector: beside the store,
/// and in another folder that was named. Processes that have an index open go on with it.
#[test]
fn an_index_that_holds_a_forgotten_memory_goes_with_it() {
    let place = Place::with_pair();
    let build =
        |further: &[&str]| place.succeed(&[&["index", "build", "brain.db"], further].concat());
    build(&[]);
    build(&["--index-dir", "elsewhere"]);
    let open = memfold::lookup::StoreIndex::open(&place.path("brain.db.memfold"));
    let holds = |folder: &str| {
        let files = place.files();
        let mut inside = files.iter().filter(|(path, _)| path.to_string_lossy().contains(folder));
        inside.any(|(_, bytes)| bytes.windows(7).any(|window| window == b"m000000"))
    };
    assert!(holds("brain.db.memfold/") && holds("elsewhere/"));
    let files = place.files();
    let preview = place.json(&forget("m000000", &["--json"]));
    assert_eq!(preview["indexes"].as_array().unwrap().len(), 1);
    assert!(files == place.files());
    let done = place.succeed(&forget("m000000", &["--index-dir", "elsewhere", "--execute"]));
    assert!(done.contains("index removed, since it holds id and vector"), "{done}");
    assert!(done.contains("brain.db.memfold") && done.contains("elsewhere"), "{done}");
    assert!(!holds("brain.db.memfold/") && !holds("elsewhere/"));
    let known = open.unwrap().unwrap();
    assert_eq!(known.files().columns().len(), 3, "a reader keeps what it has open");
    // One that does not hold the memory stays.
    build(&[]);
    assert!(!holds("brain.db.memfold/"));
    place.succeed(&forget("m000002", &["--execute"]));
    build(&[]);
    let others = place.json(&forget("m000001", &["--json"]));
    assert_eq!(others["indexes"].as_array().unwrap().len(), 1);
}

/// Rows of the owner's other tables follow a forgotten memory where the schema says so; that is told before.
#[test]
fn what_the_owners_schema_does_to_a_forgotten_memory_is_told() {
    let place = Place::with_pair();
    connect(&place)
        .execute_batch(
            "CREATE TABLE notes (m TEXT REFERENCES stm(id) ON DELETE CASCADE);
             INSERT INTO notes VALUES ('m000000'), ('m000001')",
        )
        .unwrap();
    let preview = place.succeed(&forget("m000000", &[]));
    let said = "your tables follow: table notes refers to stm by a foreign key";
    assert!(preview.contains(said), "{preview}");
    place.succeed(&forget("m000000", &["--execute"]));
    let left: i64 =
        connect(&place).query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

#[test]
fn a_forgotten_ghost_is_no_longer_named_by_its_survivor() {
    for absorbed in ["archive", "move"] {
        let setting = format!("merge.absorbed={absorbed}");
        let (place, run) = folded(&["--set", &setting]);
        place.succeed(&forget("m000000", &["--execute"]));
        assert_eq!(cells_with(&place, "m000000"), [""; 0], "{absorbed}");
        assert_eq!(place.live_id("m000001"), "m000001");
        let undone = place.run(&["undo", "brain.db", &run, "--execute"]);
        assert!(undone.out.contains("its journal was pruned"), "{undone:?}");
        assert_eq!(cells_with(&place, "kiln"), ["stm.content", "embeddings.content"]);
        assert_eq!(place.run(&forget("m000000", &[])).code, Some(1));
    }
}

#[test]
fn a_survivor_is_forgotten_once_its_ghost_lives_again() {
    for absorbed in ["archive", "move"] {
        let setting = format!("merge.absorbed={absorbed}");
        let (place, _) = folded(&["--set", &setting]);
        place.succeed(&restore("m000000", &["--execute"]));
        place.succeed(&forget("m000001", &["--execute"]));
        assert_eq!(cells_with(&place, "m000001"), [""; 0], "{absorbed}");
        assert_eq!(place.live_id("m000000"), "m000000");
        assert_eq!(matches(&place, "kiln"), 1);
        assert_eq!(integrity(&place.path("brain.db")), [""; 0]);
    }
}

#[test]
fn a_plan_that_names_a_forgotten_memory_is_not_applied() {
    let place = Place::with_pair();
    place.succeed(&consolidate(&["--save-plan"]));
    place.succeed(&forget("m000000", &["--execute"]));
    assert_eq!(cells_with(&place, "m000000"), [""; 0]);
    assert_eq!(place.run(&["apply", "brain.db", "latest", "--execute"]).code, Some(1));
    assert_eq!(place.live_id("m000001"), "m000001");
}

#[test]
fn old_entries_of_the_journal_are_removed() {
    let (place, run) = folded(&[]);
    place.succeed(&consolidate(&["--save-plan", "--set", "guard.enabled=false"]));
    let prune = |age: &str, further: &[&str]| {
        let all = ["runs", "brain.db", "--prune-older-than", age, "--now", LATER];
        place.json(&[&all[..], &["--json"], further].concat())
    };
    let files = place.files();
    assert_eq!(prune("2d", &[])["runs"].as_array().unwrap().len(), 0);
    let preview = prune("23h", &[]);
    assert_eq!(preview["runs"][0]["run_id"], run.as_str());
    assert_eq!(preview["runs"][0]["no_longer_undoable"], 1);
    assert!(files == place.files());
    prune("23h", &["--execute"]);
    let count = |sql: &str| connect(&place).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM memfold_journal"), 0);
    assert_eq!(count("SELECT count(*) FROM memfold_units"), 0);
    assert_eq!(count("SELECT count(*) FROM memfold_lineage"), 1);
    assert_eq!(prune("23h", &[])["runs"].as_array().unwrap().len(), 0);
    place.run(&["undo", "brain.db", &run, "--execute"]).fails_with(1, &["was pruned"]);
    assert_eq!(place.live_id("m000000"), "m000001");
    assert_eq!(planned_merges(&place), 0);
    let history = place.json(&["runs", "brain.db", "--json"]);
    assert_eq!(history["audit_chain"]["holds"], true);
    assert_eq!(history["runs"].as_array().unwrap().len(), 2);
    let wrong = place.run(&["runs", "brain.db", "--prune-older-than", "soon"]);
    wrong.fails_with(2, &["expected hours, days or weeks"]);
    place.run(&["runs", "brain.db", "--execute"]).fails_with(2, &["--prune-older-than"]);
}

#[test]
fn the_kill_switch_beats_execute() {
    let (place, _) = folded(&[]);
    let files = place.files();
    for arguments in [
        &restore("m000000", &["--execute"])[..],
        &forget("m000000", &["--execute"]),
        &["runs", "brain.db", "--prune-older-than", "0h", "--now", LATER, "--execute"],
    ] {
        for set in ["read_only=true", "enabled=false"] {
            let answer = place.run(&[arguments, &["--set", set]].concat());
            assert_eq!(answer.code, Some(0), "{answer:?}");
            assert!(answer.err.contains("beats --execute"), "{answer:?}");
            assert!(files == place.files(), "{arguments:?}");
        }
        let dry = place.run(&[arguments, &["--dry-run"]].concat());
        assert!(dry.code == Some(0) && files == place.files(), "{dry:?}");
    }
}
