//! Stores of other kinds: saves, applied plans and undos of an agent are in the store itself
//! afterwards.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::Agent;
use crate::support::{Server, TestFolder};

/// A store, a text that it has twice, and an agent's addition.
struct Kind {
    store: &'static str,
    twice: &'static str,
    added: &'static str,
    categories: &'static [&'static str],
}

/// How often a text stands in the live part of a store.
fn count(dir: &TestFolder, store: &str, text: &str) -> usize {
    let mut open = vec![dir.path(store)];
    let mut count = 0;
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && ![".memfold", "archive", "ops"].contains(&name) {
            open.extend(std::fs::read_dir(&path).unwrap().map(|item| item.unwrap().path()));
        } else if path.is_file() && name != "_index.json" {
            count += std::fs::read_to_string(&path).unwrap().matches(text).count();
        }
    }
    count
}

/// Saves, recalls, applies and undoes over MCP; counts a text in the store after each.
fn live(dir: &TestFolder, kind: &Kind, there: &dyn Fn(&str) -> usize) {
    let Kind { store, twice, added, categories } = kind;
    assert_eq!((there(twice), there(added)), (2, 0), "{store}");
    let mut agent = Agent::start(dir, &[store, "--allow-writes"]);
    let save = json!({ "text": added, "categories": categories });
    let saved = agent.call("memory_save", &save);
    assert_eq!((&saved["did"], there(added)), (&json!("inserted"), 1), "{store}: {saved}");
    assert_eq!(agent.call("memory_save", &save)["did"], "counted_as_same", "{store}");
    assert_eq!(there(added), 1);
    let found = agent.call("memory_recall", &json!({ "query": added, "mode": "exhaustive" }));
    assert_eq!(found["memories"][0]["text"], *added, "{store}: {found}");

    let plan = agent.plan();
    assert_eq!(plan["planned"]["merge"], 1, "{store}: {plan}");
    assert_eq!(there(twice), 2, "a plan changes nothing");
    let mut merges = plan["actions"].as_array().unwrap().clone();
    merges.retain(|action| action["type"] == "merge");
    let only = merges.iter().map(|action| action["action"].clone()).collect();
    let applied = agent.apply(&plan, only);
    assert_eq!((&applied["applied"], there(twice)), (&json!(1), 1), "{store}: {applied}");
    let undone = agent.undo(&applied);
    assert_eq!((&undone["applied"], there(twice)), (&json!(1), 2), "{store}: {undone}");
    agent.end();
}

/// As [`live`], for a store of files.
fn live_in_files(dir: &TestFolder, kind: &Kind) {
    live(dir, kind, &|text| count(dir, kind.store, text));
}

const JSONL: &str = concat!(
    "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":",
    "[\"Prefers green tea in the morning\",\"Lives in Bern\",\"Prefers green tea in the morning\"]}\n",
);

#[test]
fn a_memory_jsonl_is_served() {
    let dir = TestFolder::new();
    dir.write("memory.jsonl", JSONL);
    let kind = Kind {
        store: "memory.jsonl",
        twice: "Prefers green tea in the morning",
        added: "Plays the cello in an orchestra",
        categories: &["entity:Alice"],
    };
    live_in_files(&dir, &kind);
    let text = dir.read("memory.jsonl");
    let entity: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(entity["observations"].as_array().unwrap().len(), 4, "{entity}");
}

#[test]
fn a_json_folder_is_served() {
    let dir = TestFolder::new();
    let entry = |id: &str, text: &str| {
        json!({ "id": id, "type": "semantic", "subtype": "factual", "created_by": "DEV-001",
                "created_at": "2026-11-01T10:00:00Z", "updated_at": "2026-11-01T10:00:00Z",
                "last_accessed": "2026-11-20T10:00:00Z", "scope": "agent", "scope_id": "DEV-001",
                "tags": ["deploy"], "priority": "medium", "content": { "fact": text },
                "access_count": 1 })
    };
    let twice = "The staging server listens on port 8080.";
    let entries = json!({ "version": "1.0", "entries": [
        entry("mem_aaaaaaaaaaa1", twice),
        entry("mem_aaaaaaaaaaa2", twice),
        entry("mem_aaaaaaaaaaa3", "Alice prefers tea over coffee."),
    ] });
    dir.write("memory/agents/DEV-001/memories.json", entries.to_string());
    dir.write("memory/global/_index.json", "{\"version\":\"1.0\",\"entries\":[]}");
    let added = "The release branch is cut on Mondays.";
    live_in_files(&dir, &Kind { store: "memory", twice, added, categories: &[] });
}

#[test]
fn markdown_is_served_and_an_undo_restores_every_byte() {
    let dir = TestFolder::new();
    let text = "# Memory\n\n## Habits\n\n- Deploys run on Friday at noon.\n- Tea is served at five.\n\
                - Deploys run on Friday at noon.\n";
    let kind = |store| Kind {
        store,
        twice: "Deploys run on Friday at noon.",
        added: "The kiln burns at 1200 degrees.",
        categories: &[],
    };
    dir.write("notes/MEMORY.md", text);
    live_in_files(&dir, &kind("notes/MEMORY.md"));
    let after = dir.read("notes/MEMORY.md");
    assert!(after.starts_with(text), "{after}");
    // A folder of them.
    dir.write("more/MEMORY.md", text);
    let wheel =
        "---\nname: wheel\ndescription: the wheel\ntype: project\n---\n\nThe wheel is blue.\n";
    dir.write("more/wheel.md", wheel);
    live_in_files(&dir, &kind("more"));
}

fn git(dir: &TestFolder, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir.path("repo")).args(["-c", "user.name=n", "-c", "user.email=n@m"]);
    let output = command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Lines of all notes that hold a text.
fn noted(dir: &TestFolder, text: &str) -> usize {
    let refs = git(dir, &["for-each-ref", "--format=%(refname)", "refs/notes"]);
    refs.lines().map(|name| git(dir, &["grep", "-F", text, name]).lines().count()).sum()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn git_notes_are_served() {
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("repo")).unwrap();
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let _ = git(&dir, &["init", "--quiet", "."]);
    for day in ["01", "02"] {
        let _ = git(&dir, &["commit", "--quiet", "--allow-empty", "-m", day]);
        let note = format!(
            "---\ntype: decisions\ntimestamp: '2026-{day}-01T10:00:00+00:00'\nsummary: Events go to \
             PostgreSQL\n---\n\nIt is there already.\n"
        );
        let _ = git(&dir, &["notes", "--ref=refs/notes/mem/decisions", "add", "-m", &note, "HEAD"]);
    }
    let mut agent = Agent::start(&dir, &["repo", "--allow-writes"]);
    let saved = agent.call("memory_save", &json!({ "text": "Builds run on four workers" }));
    assert_eq!((&saved["did"], noted(&dir, "four workers") > 0), (&json!("inserted"), true));
    let plan = agent.plan();
    let applied = agent.apply(&plan, json!(["identical"]));
    let merged =
        || git(&dir, &["grep", "-F", "consolidated_into", "refs/notes/mem-meta/decisions"]);
    assert_eq!((&applied["applied"], merged().is_empty()), (&json!(1), false), "{applied}");
    assert_eq!(agent.undo(&applied)["applied"], 1);
    assert_eq!(merged(), "");
    agent.end();
}

/// The writes of others are there for the next request, and a save leaves them unchanged.
#[test]
fn others_write_beside_the_server() {
    let dir = TestFolder::new();
    dir.write("memory.jsonl", JSONL);
    let arguments = ["http", "memory.jsonl", "--listen", "127.0.0.1:0", "--allow-writes"];
    let server = Server::start(dir.command(&arguments));
    let known = json!({ "text": "Repairs old clocks", "categories": ["entity:Bob", "person"] });
    assert_eq!(server.post("/v1/check", &known).json()["decision"], "insert");
    let other = "{\"type\":\"entity\",\"name\":\"Bob\",\"entityType\":\"person\",\"observations\":[\"Repairs old clocks\"]}\n";
    dir.write("memory.jsonl", format!("{JSONL}{other}"));
    assert_eq!(server.post("/v1/check", &known).json()["decision"], "touch");
    let new = json!({ "text": "Sings in a choir", "categories": ["entity:Bob", "person"] });
    assert_eq!(server.post("/v1/save", &new).json()["written"], "inserted");
    let text = dir.read("memory.jsonl");
    assert!(text.contains("\"Repairs old clocks\",\"Sings in a choir\""), "{text}");
}

#[test]
fn a_file_of_texts_is_no_store() {
    let dir = TestFolder::new();
    dir.write("notes.csv", "id,text\n1,Tea\n");
    dir.run("mcp notes.csv").fails_with(1, &["memfold import"]);
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_table_of_a_sqlite_file_is_served() {
    let dir = TestFolder::new();
    let twice = "Deploys run on Friday at noon";
    let connection = rusqlite::Connection::open(dir.path("notes.db")).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE archival_passages (id INTEGER PRIMARY KEY, text TEXT, embedding BLOB, is_deleted INTEGER DEFAULT 0);
             INSERT INTO archival_passages (text) VALUES ('{twice}'), ('{twice}.'), ('Tea is served at five');"
        ))
        .unwrap();
    let said = "nobody said how rows are taken out of it";
    dir.run("mcp notes.db --allow-writes").fails_with(1, &[said]);
    // Another program of the workspace, which stands beside this one when all is tested.
    let program = Path::new(crate::PROGRAM).with_file_name("memfold");
    if !program.is_file() {
        return eprintln!("skipped the rest: the program memfold is not built");
    }
    let choose = ["consolidate", "notes.db", "--removed", "is_deleted=1"];
    let chosen = dir.program(&program, &choose).output().unwrap();
    assert!(chosen.status.success(), "{chosen:?}");
    let there = |text: &str| -> usize {
        let sql = "SELECT count(*) FROM archival_passages WHERE NOT is_deleted AND instr(text, ?1)";
        connection.query_row(sql, [text], |row| row.get::<_, i64>(0)).unwrap() as usize
    };
    let added = "Plays the cello in an orchestra";
    live(&dir, &Kind { store: "notes.db", twice, added, categories: &[] }, &there);
    let mut agent = Agent::start(&dir, &["notes.db"]);
    let kiln = "INSERT INTO archival_passages (text) VALUES ('The kiln is blue')";
    connection.execute(kiln, []).unwrap();
    let found = agent.call("memory_recall", &json!({ "query": "kiln", "mode": "exhaustive" }));
    assert_eq!(found["memories"][0]["text"], "The kiln is blue", "{found}");
    agent.end();
}
