//! A store of another kind: saves, applied plans and undos of an agent are in the store itself
//! afterwards.

use serde_json::{Value, json};

use crate::agents::Agent;
use crate::support::{Server, TestFolder};

const TWICE: &str = "Prefers green tea in the morning";
const ADDED: &str = "Plays the cello in an orchestra";

const JSONL: &str = concat!(
    "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":",
    "[\"Prefers green tea in the morning\",\"Lives in Bern\",\"Prefers green tea in the morning\"]}\n",
);

fn with_memory_jsonl() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("memory.jsonl", JSONL);
    dir
}

#[test]
fn an_agent_saves_applies_and_undoes_in_a_memory_jsonl() {
    let dir = with_memory_jsonl();
    let count = |text: &str| dir.read("memory.jsonl").matches(text).count();
    assert_eq!((count(TWICE), count(ADDED)), (2, 0));
    let mut agent = Agent::start(&dir, &["memory.jsonl", "--allow-writes"]);
    let save = json!({ "text": ADDED, "categories": ["entity:Alice"] });
    let saved = agent.call("memory_save", &save);
    assert_eq!((&saved["did"], count(ADDED)), (&json!("inserted"), 1), "{saved}");
    assert_eq!(agent.call("memory_save", &save)["did"], "counted_as_same");
    assert_eq!(count(ADDED), 1);
    let found = agent.call("memory_recall", &json!({ "query": ADDED, "mode": "exhaustive" }));
    assert_eq!(found["memories"][0]["text"], ADDED, "{found}");

    let plan = agent.call("memory_consolidate", &json!({ "action": "plan" }));
    assert_eq!((&plan["planned"]["merge"], count(TWICE)), (&json!(1), 2), "{plan}");
    let apply = json!({ "action": "apply", "plan_id": plan["plan_id"],
                        "plan_digest": plan["plan_digest"] });
    let applied = agent.call("memory_consolidate", &apply);
    assert_eq!((&applied["applied"], count(TWICE)), (&json!(1), 1), "{applied}");
    let undo = json!({ "action": "undo", "run_id": applied["run_id"] });
    let undone = agent.call("memory_consolidate", &undo);
    assert_eq!((&undone["applied"], count(TWICE)), (&json!(1), 2), "{undone}");
    agent.end();
    let text = dir.read("memory.jsonl");
    let entity: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(entity["observations"].as_array().unwrap().len(), 4, "{entity}");
}

/// The writes of others are there for the next request, and a save leaves them unchanged.
#[test]
fn others_write_beside_the_server() {
    let dir = with_memory_jsonl();
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
fn stores_that_cannot_be_served_are_refused() {
    let dir = TestFolder::new();
    dir.write("notes.csv", "id,text\n1,Tea\n");
    dir.run("mcp notes.csv").fails_with(1, &["memfold import"]);
    let passages =
        "CREATE TABLE archival_passages (id INTEGER PRIMARY KEY, text TEXT, embedding BLOB, \
                    is_deleted INTEGER DEFAULT 0);
                    INSERT INTO archival_passages (text) VALUES ('Tea is served at five');";
    dir.sql(passages);
    let said = "nobody said how rows are taken out of it";
    dir.run("mcp brain.db --allow-writes").fails_with(1, &[said]);
}
