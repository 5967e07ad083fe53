//! A table of a SQLite file: named or recognised, planned, applied, undone, and the refusals.

use std::path::Path;
use std::process::Stdio;

use memfold_tests::torture::{Calls, Fault, FaultKind, Shim};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::support::TestFolder;

const NOTES: &str = "
    CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, extra BLOB, weight REAL, user_id TEXT, archived INTEGER DEFAULT 0);
    INSERT INTO notes VALUES
        (1, 'The API deploys every Friday at 5 pm', x'00ff', 0.1, 'ana', 0),
        (2, 'The API deploys every Friday at 5 pm.', x'fe', 1e300, 'ana', 0),
        (3, 'Bob likes green tea', NULL, 2, 'ana', 0),
        (4, 'The API deploys every Friday at 5 pm', NULL, 2, 'bob', 0),
        (5, NULL, NULL, 2, 'bob', 0);";
const NAMED: [&str; 4] = ["--table", "notes", "--text", "body"];
const EXECUTE: [&str; 3] = ["--execute", "--max-change-share", "1"];

fn made(sql: &str) -> TestFolder {
    let dir = TestFolder::new();
    Connection::open(dir.path("notes.db")).unwrap().execute_batch(sql).unwrap();
    dir
}

/// Every cell with its storage class.
fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT rowid, * FROM notes ORDER BY 1").unwrap();
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

fn consolidate<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["consolidate", "notes.db"], further].concat()
}

#[test]
fn a_named_table_is_merged_and_taken_back_bit_for_bit() {
    let dir = made(NOTES);
    let (bytes, before) = (dir.files(), rows(&dir.path("notes.db")));
    let planned = dir.json(&consolidate(&[&NAMED[..], &["--json"]].concat()));
    assert_eq!(planned["planned"]["merge"], 1, "users are apart: {planned}");
    assert_eq!(dir.files(), bytes, "a dry run leaves every byte and no file");

    dir.run(&consolidate(&EXECUTE)).fails_with(
        1,
        &[
            "nobody said how rows are taken out of it",
            "memfold consolidate notes.db --removed delete or --removed COLUMN=VALUE says so",
            "--sql OUT",
        ],
    );
    assert_eq!(rows(&dir.path("notes.db")), before);

    // The table was named before.
    dir.succeed(&consolidate(&[&EXECUTE[..], &["--removed", "delete"]].concat()));
    assert_eq!(rows(&dir.path("notes.db")).len(), 4);
    let again = dir.json(&consolidate(&[&EXECUTE[..], &["--json"]].concat()));
    assert_eq!(again["planned"]["merge"], 0, "{again}");
    let answer = dir.run(&["doctor", "notes.db"]);
    for part in [
        "table notes: id id, text body, user user_id",
        "has the only copy of removed rows",
        "1 rows without a text",
    ] {
        assert!(answer.err.contains(part), "{part}: {}", answer.err);
    }
    dir.succeed(&["undo", "notes.db", "latest", "--execute"]);
    assert_eq!(rows(&dir.path("notes.db")), before);
    assert_eq!(dir.files().keys().count(), bytes.len(), "no file beside it");
}

#[test]
fn every_command_works_on_a_table_and_a_mark_is_taken_off() {
    let dir = made(NOTES);
    let before = rows(&dir.path("notes.db"));
    let words = [&NAMED[..], &["--removed", "archived=1", "--save-plan"]].concat();
    let saved = dir.run(&consolidate(&words));
    assert!(saved.err.contains("notes.db: table notes"), "{}", saved.err);
    let text = "The API deploys every Friday at 5 pm";
    let check =
        dir.json(&["check", "notes.db", "--text", text, "--category", "user:ana", "--json"]);
    assert_eq!(check["decision"], "touch");
    let found = dir.succeed(&["search", "notes.db", "--text", "green tea"]);
    assert!(found.contains("green tea"), "{found}");
    for command in ["status", "runs"] {
        let _ = dir.succeed(&[command, "notes.db"]);
    }
    assert_eq!(rows(&dir.path("notes.db")), before);
    let plans = dir.succeed(&["runs", "notes.db", "--plans"]);
    assert!(!plans.is_empty());
    dir.succeed(&["apply", "notes.db", "latest", "--execute"]);
    let marked = rows(&dir.path("notes.db"));
    assert_eq!((marked.len(), marked != before), (5, true));
    dir.succeed(&["undo", "notes.db", "latest", "--execute"]);
    assert_eq!(rows(&dir.path("notes.db")), before);
    dir.succeed(&["save", "notes.db", "--text", "The kiln is blue", "--category", "user:ana"]);
    assert!(rows(&dir.path("notes.db"))[5].contains("Integer(6)|Integer(6)"));
    let forgotten = dir.run(&["forget", "notes.db", "1"]);
    forgotten.fails_with(2, &["memories of a sqlite_table store are not forgotten by memfold"]);
}

#[test]
fn a_script_is_written_instead() {
    let dir = made(NOTES);
    let words = [&NAMED[..], &["--sql", "out.sql", "--ids", "gone.jsonl"]].concat();
    dir.succeed(&consolidate(&words));
    assert_eq!(dir.read("gone.jsonl").lines().count(), 1);
    Connection::open(dir.path("notes.db")).unwrap().execute_batch(&dir.read("out.sql")).unwrap();
    assert_eq!(rows(&dir.path("notes.db")).len(), 4);
    let refused = dir.run(&["consolidate", "notes.db", "--sql", "x.sql", "--execute"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    dir.write("memory.jsonl", "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[\"a\"]}\n");
    dir.run("consolidate memory.jsonl --removed delete")
        .fails_with(2, &["memory.jsonl has no table to name"]);
    let unknown = made("CREATE TABLE songs (id, content); CREATE TABLE albums (x);");
    let advice = "memfold consolidate notes.db --table songs --id id --text content";
    unknown.run("consolidate notes.db").fails_with(1, &[advice]);
    assert_eq!(unknown.files().len(), 1);
}

/// Twenty-four facts, each of them twice.
fn pairs() -> String {
    let mut sql =
        String::from("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, extra BLOB);\n");
    for at in 0..24 {
        sql.push_str(&format!(
            "INSERT INTO notes (body, extra) VALUES ('Server {at} listens on port {}', x'0{}');\n",
            8000 + at,
            at % 10
        ));
        sql.push_str(&format!(
            "INSERT INTO notes (body, extra) VALUES ('Server {at} listens on port {}.', NULL);\n",
            8000 + at
        ));
    }
    sql
}

/// After a kill at any write, the next run leaves the same state as an undisturbed one.
#[test]
#[expect(clippy::print_stderr, reason = "what was killed is said")]
fn kills_lose_no_row_and_leave_no_half_of_a_unit() {
    let kills = std::env::var("MEMFOLD_TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let dir = made(&pairs());
    let (database, template) = (dir.path("notes.db"), std::fs::read(dir.path("notes.db")).unwrap());
    let before = rows(&database);
    let mirror = ["--mirror", "state/mirror.db"];
    let execute = consolidate(&[&NAMED[..], &EXECUTE, &["--removed", "delete"], &mirror].concat());
    let undo = [&["undo", "notes.db", "latest", "--execute"][..], &mirror].concat();
    let renew = || {
        let _ = std::fs::remove_dir_all(dir.path("state"));
        std::fs::create_dir(dir.path("state")).unwrap();
        for ending in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(dir.path(&format!("notes.db{ending}")));
        }
        std::fs::write(&database, &template).unwrap();
    };
    let Some(shim) = Shim::build() else {
        eprintln!("skipped: no C compiler builds the shim that kills");
        return;
    };
    renew();
    let mut measured = Vec::new();
    for words in [&execute, &undo] {
        let mut command = dir.command(words);
        let counter = shim.count(&mut command, dir.folder(), Calls::Writes);
        assert!(command.output().unwrap().status.success());
        let writes: u64 = std::fs::read_to_string(counter).unwrap().parse().unwrap();
        measured.push((writes, rows(&database)));
    }
    assert_eq!((measured[0].1.len(), &measured[1].1), (24, &before));
    let mut killed = 0;
    for number in 0..kills {
        renew();
        let is_undo = number % 2 == 1;
        if is_undo {
            let _ = dir.succeed(&execute);
        }
        let (words, (writes, expected)) =
            if is_undo { (&undo, &measured[1]) } else { (&execute, &measured[0]) };
        let share = f64::from(number) * 0.618_034 % 1.0;
        let at = (share * *writes as f64) as u64 + 1;
        let mut command = dir.command(words);
        let fault = Fault { kind: FaultKind::Kill, at, is_sticky: true };
        shim.inject(&mut command, dir.folder(), fault);
        let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        let is_killed = !ended.success();
        killed += usize::from(is_killed);
        // No unit is there in half: of each pair one row is left at least.
        let left = rows(&database);
        for server in 0..24 {
            let of = format!("Server {server} listens");
            assert!(left.iter().any(|row| row.contains(&of)), "kill {number} at write {at}: {of}");
        }
        if is_killed && (!is_undo || left != *expected) {
            let _ = dir.run(words);
        }
        // Undone merges are not repeated.
        let _ = dir.succeed(&execute);
        assert_eq!(&rows(&database), expected, "kill {number} at write {at}");
    }
    eprintln!("{killed} of {kills} killed");
    assert!(killed > 0, "every run ended before it could be killed");
}
