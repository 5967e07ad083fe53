//! The tools of the MCP reference memory server: the same answers on the same file, and no write lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use memfold::machine::Stopwatch;
use serde_json::{Value, json};

use crate::support::{McpPipes, TestFolder, mcp_hello};

/// A client that believes the protocol and nothing else.
struct Client(McpPipes);

impl Client {
    fn start(command: Command) -> Self {
        let mut client = Self(McpPipes::start(command));
        assert!(client.ask("initialize", &mcp_hello())["capabilities"]["tools"].is_object());
        client.0.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn of(dir: &TestFolder, file: &str) -> Self {
        Self::start(dir.command(&["mcp", file, "--as", "server-memory"]))
    }

    /// A client of the package in the folder `MEMFOLD_MCP_SERVER`; `None` where that is not set.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn of_reference(dir: &TestFolder, file: &str) -> Option<Self> {
        let Some(folder) = std::env::var_os("MEMFOLD_MCP_SERVER") else {
            eprintln!("skipped: MEMFOLD_MCP_SERVER is not set");
            return None;
        };
        let script = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";
        let mut command = Command::new("node");
        command.arg(Path::new(&folder).join(script)).env("MEMORY_FILE_PATH", dir.path(file));
        Some(Self::start(command))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.0.request(method, parameters);
        let response = self.0.response();
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn graph(&mut self) -> Value {
        self.call("read_graph", &json!({}))["structuredContent"].clone()
    }

    fn end(self) {
        self.0.end();
    }
}

/// Every tool, with existing, missing and wrong arguments.
const CALLS: &str = r#"read_graph {}
create_entities {"entities": [{"name": "Ana", "entityType": "person", "observations": ["likes tea", "läuft 😀"]}, {"name": "Bob", "entityType": "person", "observations": []}]}
create_entities {"entities": [{"name": "Ana", "entityType": "person", "observations": ["other"]}, {"name": "Cleo", "entityType": "person", "observations": ["paints"]}]}
create_relations {"relations": [{"from": "Ana", "to": "Bob", "relationType": "knows"}, {"from": "Bob", "to": "Cleo", "relationType": "knows"}]}
create_relations {"relations": [{"from": "Ana", "to": "Bob", "relationType": "knows"}, {"from": "Nobody", "to": "Cleo", "relationType": "knows"}]}
add_observations {"observations": [{"entityName": "Ana", "contents": ["likes tea", "lives in Bern"]}, {"entityName": "Bob", "contents": ["sings"]}]}
add_observations {"observations": [{"entityName": "Bob", "contents": ["swims"]}, {"entityName": "Zoe", "contents": ["x"]}]}
search_nodes {"query": "TEA"}
search_nodes {"query": "person"}
search_nodes {"query": "swims"}
open_nodes {"names": ["Cleo", "Zoe"]}
delete_observations {"deletions": [{"entityName": "Ana", "observations": ["likes tea", "none"]}, {"entityName": "Zoe", "observations": ["x"]}]}
delete_relations {"relations": [{"from": "Bob", "to": "Cleo", "relationType": "knows"}, {"from": "x", "to": "y", "relationType": "knows"}]}
delete_entities {"entityNames": ["Bob", "Zoe"]}
read_graph {}"#;

fn calls() -> impl Iterator<Item = (&'static str, Value)> {
    let calls = CALLS.lines().map(|line| line.split_once(' ').unwrap());
    calls.map(|(tool, arguments)| (tool, serde_json::from_str(arguments).unwrap()))
}

fn graph_of(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The calls of a client, replayed on the package and on memfold.
#[test]
fn the_reference_server_answers_the_same_and_reads_the_same_file() {
    let dir = TestFolder::new();
    let Some(mut theirs) = Client::of_reference(&dir, "theirs.jsonl") else { return };
    let mut ours = Client::of(&dir, "ours.jsonl");
    let listed = |client: &mut Client| -> Vec<Value> {
        let tools = client.ask("tools/list", &json!({}))["tools"].clone();
        let kept = ["name", "title", "description", "inputSchema", "annotations"];
        let part =
            |tool: &Value| kept.iter().map(|key| ((*key).to_owned(), tool[key].clone())).collect();
        tools.as_array().unwrap().iter().map(|tool| Value::Object(part(tool))).collect()
    };
    assert_eq!(listed(&mut ours), listed(&mut theirs));
    for (tool, arguments) in calls() {
        let (mine, reference) = (ours.call(tool, &arguments), theirs.call(tool, &arguments));
        for key in ["content", "structuredContent"] {
            assert_eq!(mine[key], reference[key], "{tool} {arguments}");
        }
        let fails = |answer: &Value| answer["isError"] == true;
        assert_eq!(fails(&mine), fails(&reference), "{tool} {arguments}");
    }
    // Each goes on with the file of the other.
    let mut theirs_on = Client::of_reference(&dir, "ours.jsonl").unwrap();
    let mut ours_on = Client::of(&dir, "theirs.jsonl");
    assert_eq!(theirs_on.graph(), ours_on.graph());
    for client in [theirs, ours, theirs_on, ours_on] {
        client.end();
    }
}

#[test]
fn every_tool_answers_as_documented() {
    let dir = TestFolder::new();
    let mut client = Client::of(&dir, "memory.jsonl");
    let answers: Vec<Value> =
        calls().map(|(tool, arguments)| client.call(tool, &arguments)).collect();
    assert_eq!(answers[0]["structuredContent"], json!({ "entities": [], "relations": [] }));
    assert_eq!(answers[2]["structuredContent"]["entities"].as_array().unwrap().len(), 1);
    assert_eq!(answers[3]["structuredContent"]["relations"].as_array().unwrap().len(), 2);
    let text = answers[5]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("[\n  {\n    \"entityName\": \"Ana\",\n    \"addedObservations\": [\n      \"lives in Bern\""), "{text}");
    assert_eq!(answers[6]["isError"], true);
    assert_eq!(answers[6]["content"][0]["text"], "Entity with name Zoe not found");
    let found = |at: usize| answers[at]["structuredContent"]["entities"].as_array().unwrap().len();
    assert_eq!([found(7), found(8), found(9), found(10)], [1, 3, 0, 1]);
    let related =
        |at: usize| answers[at]["structuredContent"]["relations"].as_array().unwrap().len();
    assert_eq!([related(4), related(7), related(10)], [1, 1, 2]);
    assert_eq!(answers[13]["content"][0]["text"], "Entities deleted successfully");
    let ana = json!({ "name": "Ana", "entityType": "person", "observations": ["läuft \u{1f600}", "lives in Bern"] });
    assert_eq!(answers[14]["structuredContent"]["entities"][0], ana);
    assert_eq!(graph_of(&dir.path("memory.jsonl")).len(), 3);
    let wrong =
        client.call("add_observations", &json!({ "observations": [{ "entityName": "Ana" }] }));
    assert_eq!(wrong["isError"], true, "{wrong}");

    // An observation that another one is proven to say is known.
    let contents = json!({ "observations": [{ "entityName": "Ana", "contents": ["Lives in Bern.", "lives in Rome"] }] });
    let added = client.call("add_observations", &contents);
    let expected = json!([{ "entityName": "Ana", "addedObservations": ["lives in Rome"] }]);
    assert_eq!(added["structuredContent"]["results"], expected);
    let remark = added["content"][1]["text"].as_str().unwrap();
    assert!(remark.contains("\"lives in Bern\" says \"Lives in Bern.\""), "{remark}");
    client.end();
}

#[test]
fn files_in_other_shapes_are_read_and_broken_lines_keep_their_bytes() {
    let dir = TestFolder::new();
    let entity = "{\"name\":\"Ana\",\"entityType\":\"person\",\"observations\":[{\"text\":\"likes tea\"},\"sings\"]}";
    let relation = "{\"from\":\"Ana\",\"to\":\"Bob\",\"relationType\":\"knows\"}";
    for (name, text) in [
        ("array.json", format!("[\n  {entity},\n  {relation},\n  {relation}\n]\n")),
        ("object.json", format!("{{\"entities\": [{entity}], \"relations\": [{relation}]}}")),
        ("lines.json", format!("[{entity},{relation}]").replace(',', ",\n ")),
        ("untyped.jsonl", format!("{entity}\n{relation}\n{relation}\n")),
    ] {
        std::fs::write(dir.path(name), text).unwrap();
        let mut client = Client::of(&dir, name);
        let graph = client.graph();
        let known = json!(["likes tea", "sings"]);
        assert_eq!(graph["entities"][0]["observations"], known, "{name}: {graph}");
        let relations = graph["relations"].as_array().unwrap();
        assert_eq!(relations.len(), 1, "{name}: a relation counts once");
        let add = json!({ "observations": [{ "entityName": "Ana", "contents": ["swims"] }] });
        client.call("add_observations", &add);
        let relation = json!({ "from": "Ana", "to": "Cleo", "relationType": "knows" });
        client.call("create_relations", &json!({ "relations": [relation] }));
        let graph = client.graph();
        assert_eq!(graph["entities"][0]["observations"].as_array().unwrap().len(), 3, "{name}");
        assert_eq!(graph["relations"].as_array().unwrap().len(), 2, "{name}");
        client.end();
    }
    let broken = "{\"type\":\"entity\",\"name\":\"Half\n";
    let lone = "{\"type\":\"entity\",\"name\":\"Ana\",\"entityType\":\"p\",\"observations\":[\"cut \\ud83d\"],\"x\":1}\n";
    dir.write("memory.jsonl", format!("{broken}{lone}\u{feff}"));
    let mut client = Client::of(&dir, "memory.jsonl");
    assert_eq!(client.graph()["entities"].as_array().unwrap().len(), 1);
    let add = json!({ "observations": [{ "entityName": "Ana", "contents": ["swims"] }] });
    client.call("add_observations", &add);
    client.end();
    let text = dir.read("memory.jsonl");
    let kept = "[\"cut \\ud83d\",\"swims\"],\"x\":1}";
    assert!(text.starts_with(broken) && text.contains(kept), "{text}");
    dir.write("empty.jsonl", "");
    let mut client = Client::of(&dir, "empty.jsonl");
    assert_eq!(client.graph(), json!({ "entities": [], "relations": [] }));
    client.end();
}

/// Each server reads memfold's writes, and memfold the server's writes in between.
#[test]
fn runs_and_undo_of_memfold_work_beside_it() {
    for start in [
        |dir: &TestFolder| Some(Client::of(dir, "memory.jsonl")),
        |dir: &TestFolder| Client::of_reference(dir, "memory.jsonl"),
    ] {
        let dir = TestFolder::new();
        if let Some(client) = start(&dir) {
            run_and_undo_beside(&dir, client);
        }
    }
}

fn run_and_undo_beside(dir: &TestFolder, mut client: Client) {
    let entity = json!({ "name": "Ana", "entityType": "person", "observations":
        ["Prefers green tea in the morning", "Lives in Bern", "Prefers green tea in the morning."] });
    client.call("create_entities", &json!({ "entities": [entity] }));
    let mut agent = crate::agents::Agent::start(dir, &["memory.jsonl", "--allow-writes"]);
    let plan = agent.plan();
    assert_eq!(plan["planned"]["merge"], 1, "{plan}");
    let applied = agent.apply(&plan, Value::Null);
    let count = |client: &mut Client| {
        client.graph()["entities"][0]["observations"].as_array().unwrap().len()
    };
    assert_eq!(count(&mut client), 2);
    let add = json!({ "observations": [{ "entityName": "Ana", "contents": ["Plays the cello"] }] });
    client.call("add_observations", &add);
    agent.undo(&applied);
    assert_eq!(count(&mut client), 4);
    agent.end();
    client.end();
}

/// Writes of one client that were acknowledged.
#[derive(Default)]
struct Acknowledged {
    names: BTreeSet<String>,
    observations: BTreeSet<String>,
    micros: Vec<u64>,
}

/// Writes until `writes` writes are acknowledged, kills its server now and then.
fn write_on(dir: &TestFolder, writer: usize, writes: usize) -> Acknowledged {
    let mut client = Client::of(dir, "memory.jsonl");
    let (mut done, mut kills) = (Acknowledged::default(), 0);
    let own = format!("own-{writer}");
    let entity = |name: &str| json!({ "entities": [{ "name": name, "entityType": "t", "observations": ["made"] }] });
    client.call("create_entities", &entity(&own));
    for at in 0..writes {
        let name = format!("w{writer}-{at}");
        let is_observation = at % 50 == 49;
        let (tool, arguments) = match is_observation {
            true => (
                "add_observations",
                json!({ "observations": [{ "entityName": own, "contents": [name] }] }),
            ),
            false => ("create_entities", entity(&name)),
        };
        // A kill while a write is under way: the write was not acknowledged, so both states are
        // valid.
        if at % 97 == 96 && kills < 20 {
            client.0.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
            client.0.kill();
            client = Client::of(dir, "memory.jsonl");
            kills += 1;
        }
        let clock = Stopwatch::start();
        let answer = client.call(tool, &arguments);
        done.micros.push((clock.seconds() * 1e6) as u64);
        assert_ne!(answer["isError"], true, "{answer}");
        let list = if is_observation { &mut done.observations } else { &mut done.names };
        list.insert(name);
    }
    client.end();
    done
}

/// `MEMFOLD_TEST_WRITES=8x10000` for more than the usual.
#[test]
#[expect(clippy::print_stderr, reason = "the figures are said")]
fn no_write_of_several_processes_is_lost_with_kills_among_them() {
    let size = std::env::var("MEMFOLD_TEST_WRITES").unwrap_or_else(|_| "4x120".to_owned());
    let (writers, writes) = size.split_once('x').unwrap();
    let (writers, writes): (usize, usize) = (writers.parse().unwrap(), writes.parse().unwrap());
    let dir = TestFolder::new();
    let clock = Stopwatch::start();
    let done: Vec<Acknowledged> = std::thread::scope(|threads| {
        let dir = &dir;
        let started: Vec<_> = (0..writers)
            .map(|writer| threads.spawn(move || write_on(dir, writer, writes)))
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = clock.seconds();
    let mut client = Client::of(&dir, "memory.jsonl");
    let graph = client.graph();
    client.end();
    let entities = graph["entities"].as_array().unwrap();
    let names: BTreeSet<&str> =
        entities.iter().map(|entity| entity["name"].as_str().unwrap()).collect();
    let lists = entities.iter().flat_map(|entity| entity["observations"].as_array().unwrap());
    let texts: BTreeSet<&str> = lists.map(|text| text.as_str().unwrap()).collect();
    let mut lost = 0;
    for acknowledged in &done {
        lost += acknowledged.names.iter().filter(|name| !names.contains(&***name)).count();
        lost += acknowledged.observations.iter().filter(|text| !texts.contains(&***text)).count();
    }
    let mut micros: Vec<u64> = done.iter().flat_map(|done| done.micros.iter().copied()).collect();
    micros.sort_unstable();
    eprintln!(
        "{}",
        json!({ "writers": writers, "writes": micros.len(), "lost": lost, "seconds": seconds,
                "p50_us": micros[micros.len() / 2], "p99_us": micros[micros.len() * 99 / 100] })
    );
    assert_eq!((lost, micros.len()), (0, writers * writes));
}

/// `MEMFOLD_TEST_OBSERVATIONS=10000` measures writes to a file with this many observations.
#[test]
#[expect(clippy::print_stderr, reason = "the figures are said")]
fn a_write_takes_little_whatever_the_file_holds() {
    let held: usize =
        std::env::var("MEMFOLD_TEST_OBSERVATIONS").map_or(500, |held| held.parse().unwrap());
    let dir = TestFolder::new();
    let lines: Vec<String> = (0..held / 10)
        .map(|at| {
            let texts: Vec<String> = (0..10).map(|n| format!("Observation {n} of server {at} about port {}", 8000 + n)).collect();
            json!({ "type": "entity", "name": format!("server-{at}"), "entityType": "server", "observations": texts }).to_string()
        })
        .collect();
    dir.write("memory.jsonl", lines.join("\n"));
    let mut client = Client::of(&dir, "memory.jsonl");
    let mut p50 = Vec::new();
    for tool in ["create_entities", "add_observations"] {
        let mut micros = Vec::new();
        for at in 0..100 {
            let arguments = match tool {
                "create_entities" => {
                    json!({ "entities": [{ "name": format!("new-{at}"), "entityType": "t", "observations": ["x"] }] })
                }
                _ => {
                    json!({ "observations": [{ "entityName": format!("server-{}", at % (held / 10)), "contents": [format!("told at {at}")] }] })
                }
            };
            let clock = Stopwatch::start();
            let answer = client.call(tool, &arguments);
            micros.push((clock.seconds() * 1e6) as u64);
            assert_ne!(answer["isError"], true, "{answer}");
        }
        micros.sort_unstable();
        p50.push(json!({ "tool": tool, "observations": held, "p50_us": micros[50], "p99_us": micros[98] }));
    }
    client.end();
    eprintln!("{}", Value::Array(p50));
    assert_eq!(graph_of(&dir.path("memory.jsonl")).len(), held / 10 + 100);
}
