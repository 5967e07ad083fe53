//! Agents: the eight tools over stdio and over HTTP.

use std::collections::BTreeMap;
use std::process::Command;

use memfold_tests::{PATIENT, memory, unit_vector};
use serde_json::{Value, json};

use crate::schemas::Schema;
use crate::support::{McpPipes, Server, TestFolder, mcp_hello};

/// Where an agent talks to a server.
enum Line<'s> {
    Pipes(McpPipes),
    /// With the session and the last request.
    Http {
        server: &'s Server,
        session: String,
        id: u64,
    },
}

/// An agent that believes nothing: arguments and answers must fit the schemas of the tools.
pub(crate) struct Agent<'s> {
    line: Line<'s>,
    tools: BTreeMap<String, Value>,
}

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

impl<'s> Agent<'s> {
    pub(crate) fn start(dir: &TestFolder, arguments: &[&str]) -> Self {
        let command = dir.command(&[&["mcp", "--set", PATIENT], arguments].concat());
        Self::greet(Line::Pipes(McpPipes::start(command)))
    }

    fn visit(server: &'s Server) -> Self {
        Self::greet(Line::Http { server, session: String::new(), id: 0 })
    }

    fn greet(line: Line<'s>) -> Self {
        let mut agent = Self { line, tools: BTreeMap::new() };
        let hello = agent.ask("initialize", &mcp_hello());
        assert_eq!(hello["serverInfo"]["name"], "memfold", "{hello}");
        assert!(hello["capabilities"]["tools"].is_object());
        let greeted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        match &mut agent.line {
            Line::Pipes(pipes) => pipes.send(&greeted),
            Line::Http { server, session, .. } => drop(posted(server, session, &greeted)),
        }
        let tools = agent.ask("tools/list", &json!({}));
        let named = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool.clone());
        agent.tools = tools["tools"].as_array().unwrap().iter().map(named).collect();
        agent
    }

    fn response(&mut self, method: &str, parameters: &Value) -> Value {
        match &mut self.line {
            Line::Pipes(pipes) => {
                pipes.request(method, parameters);
                pipes.response()
            }
            Line::Http { server, session, id } => {
                *id += 1;
                let message =
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
                let body = posted(server, session, &message);
                let is_meant = |line: &str| {
                    let line = line.trim_start_matches("data:");
                    let message: Value = serde_json::from_str(line).ok()?;
                    (message["id"] == *id).then_some(message)
                };
                body.lines().find_map(is_meant).unwrap_or_else(|| panic!("no answer: {body}"))
            }
        }
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let response = self.response(method, parameters);
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    /// Calls a tool; returns its document and its text.
    #[track_caller]
    fn both(&mut self, tool: &str, arguments: &Value) -> (Value, String) {
        let known = &self.tools[tool];
        let fits =
            |schema: &Value, document: &Value| Schema { root: schema.clone() }.check(document);
        assert_eq!(fits(&known["inputSchema"], arguments), Ok(()), "{tool}: {arguments}");
        let output = known["outputSchema"].clone();
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let document = result["structuredContent"].clone();
        assert_eq!(fits(&output, &document), Ok(()), "{tool}: {document:#}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        let tokens = memfold_core::lifecycle::estimated_tokens(&text);
        assert!(tokens <= 2_000, "{tool}: {tokens}");
        for advice in [" --", "`memfold", "/v1/"] {
            assert!(!text.contains(advice), "{tool} advises {advice}: {text}");
        }
        (document, text)
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let (document, text) = self.both(tool, arguments);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        document
    }

    #[track_caller]
    pub(crate) fn plan(&mut self) -> Value {
        self.call("memory_consolidate", &json!({ "action": "plan" }))
    }

    /// Applies a plan, or some of its actions.
    #[track_caller]
    pub(crate) fn apply(&mut self, plan: &Value, only: Value) -> Value {
        let mut apply = json!({ "action": "apply", "plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"] });
        if !only.is_null() {
            apply["only"] = only;
        }
        self.call("memory_consolidate", &apply)
    }

    #[track_caller]
    pub(crate) fn undo(&mut self, applied: &Value) -> Value {
        let undo = json!({ "action": "undo", "run_id": applied["run_id"] });
        self.call("memory_consolidate", &undo)
    }

    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        // It would not fit the schema of the tool.
        assert!(result["structuredContent"].is_null(), "{result}");
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    pub(crate) fn end(self) {
        match self.line {
            Line::Pipes(pipes) => assert!(pipes.end().success()),
            Line::Http { server, session, .. } => {
                let headers = [ACCEPT, ("Mcp-Session-Id", &*session)];
                // 202 made the protocol's clients warn.
                assert_eq!(server.send("DELETE", "/mcp", &headers, "").status, 204);
            }
        }
    }
}

/// Posts a message of a session and returns the answer; the first answer has the id of the session.
fn posted(server: &Server, session: &mut String, message: &Value) -> String {
    let mut headers = vec![ACCEPT, ("MCP-Protocol-Version", "2025-06-18")];
    if !session.is_empty() {
        headers.push(("Mcp-Session-Id", &**session));
    }
    let answer = server.send("POST", "/mcp", &headers, &message.to_string());
    assert!(answer.status == 200 || answer.status == 202, "{answer:?}");
    if let Some(named) = answer.headers.get("mcp-session-id") {
        session.clone_from(named);
    }
    answer.body
}

/// The tools: whether each only reads, destroys, is idempotent.
const TOOLS: [(&str, [bool; 3]); 8] = [
    ("memory_check", [true, false, true]),
    ("memory_conflicts", [true, false, true]),
    ("memory_consolidate", [false, true, true]),
    ("memory_duplicates", [true, false, true]),
    ("memory_recall", [true, false, true]),
    ("memory_resolve", [false, true, false]),
    ("memory_save", [false, false, true]),
    ("memory_session_context", [true, false, true]),
];

#[test]
fn eight_tools_have_titles_schemas_and_hints() {
    let dir = TestFolder::with_deploys();
    let agent = Agent::start(&dir, &["brain.db"]);
    assert_eq!(agent.tools.keys().collect::<Vec<_>>(), TOOLS.map(|(name, _)| name).to_vec());
    for (name, hints) in TOOLS {
        let tool = &agent.tools[name];
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name}: {tool}");
        }
        let told = &tool["annotations"];
        let said =
            ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| told[hint].clone());
        assert_eq!(said.to_vec(), hints.map(Value::from).to_vec(), "{name}");
        assert!(tool["title"].is_string() && told["openWorldHint"] == false, "{name}");
    }
    agent.end();
}

/// The life of an agent: save, recall, a conflict, duplicates, the start of a session.
fn live(agent: &mut Agent<'_>, dir: &TestFolder) {
    let count = || dir.one::<i64>("SELECT count(*) FROM stm");
    let walnuts = json!({ "text": "Bob is allergic to walnuts", "categories": ["health"] });
    assert_eq!(agent.call("memory_check", &walnuts)["decision"], "insert");
    let saved = agent.call("memory_save", &walnuts);
    assert_eq!((&saved["did"], &saved["text"]), (&json!("inserted"), &walnuts["text"]), "{saved}");
    let again = agent.call("memory_save", &walnuts);
    assert_eq!((&again["did"], &again["id"]), (&json!("counted_as_same"), &saved["id"]), "{again}");
    assert!(again["summary"].as_str().unwrap().contains("known already"), "{again}");
    assert_eq!(count(), 5);
    let found = agent.call("memory_recall", &json!({ "query": "What is Bob allergic to?" }));
    assert_eq!(found["memories"][0]["text"], walnuts["text"], "{found}");

    let contradicting =
        json!({ "text": "Bob is not allergic to walnuts", "categories": ["health"] });
    let flagged = agent.call("memory_save", &contradicting);
    assert_eq!(flagged["did"], "flagged_conflict", "{flagged}");
    let key = flagged["conflicts"][0]["key"].clone();
    let found = agent.call("memory_recall", &json!({ "query": "Bob walnuts" }));
    assert!(found["memories"][0]["conflicts_with"][0].is_string(), "{found}");
    let listed = agent.call("memory_conflicts", &json!({}));
    let conflict = &listed["conflicts"][0];
    assert_eq!((&listed["open"], &conflict["key"]), (&json!(1), &key), "{listed}");
    let mut texts: Vec<_> = (0..2).map(|at| conflict["memories"][at]["text"].clone()).collect();
    texts.sort_by_key(ToString::to_string);
    assert_eq!(texts, [walnuts["text"].clone(), contradicting["text"].clone()]);
    assert!(conflict["risk"].is_null() && conflict["differences"][0].is_string(), "{conflict}");
    let settle = json!({ "key": key, "settlement": "supersede" });
    let settled = agent.call("memory_resolve", &settle);
    assert_eq!((&settled["newer"]["text"], &settled["open"]), (&contradicting["text"], &json!(0)));
    assert_eq!(agent.call("memory_conflicts", &json!({}))["conflicts"], json!([]));
    assert_eq!(agent.refused("memory_resolve", &settle)["status"], 404);
    assert_eq!(count(), 5);
    clean_up(agent, &count);
    let here = json!({ "directory": "/home/a/deploy", "branch": "main" });
    let (context, block) = agent.both("memory_session_context", &here);
    assert_eq!(context["context"], block);
}

/// Plans, applies and undoes a merge.
fn clean_up(agent: &mut Agent<'_>, count: &dyn Fn() -> i64) {
    let duplicates = agent.call("memory_duplicates", &json!({}));
    let first = &duplicates["duplicates"][0];
    let deploy = "The deploy runs every Friday at noon";
    assert_eq!([&first["type"], &first["proof"]], ["merge", "identical"], "{first}");
    assert_eq!([&first["stays"]["text"], &first["memories"][0]["text"]], [deploy, deploy]);
    let plan = agent.plan();
    assert_eq!(plan["planned"]["merge"], 1, "{plan}");
    let mut apply = json!({ "action": "apply", "plan_id": plan["plan_id"] });
    assert_eq!(agent.refused("memory_consolidate", &apply)["status"], 428);
    apply["plan_digest"] = json!("00");
    assert_eq!(agent.refused("memory_consolidate", &apply)["status"], 412);
    let applied = agent.apply(&plan, Value::Null);
    assert_eq!(
        (&applied["applied"], &applied["actions"][0]["state"]),
        (&json!(1), &json!("applied"))
    );
    assert_eq!(applied["actions"][0]["memories"][0]["text"], deploy, "{applied}");
    assert_eq!(count(), 4);
    // An applied merge is no duplicate any more.
    assert_eq!(agent.call("memory_duplicates", &json!({}))["duplicates"], json!([]));

    let explain = json!({ "action": "explain", "memory_id": "m000001" });
    let memory = agent.call("memory_consolidate", &explain)["memory"].clone();
    assert_eq!([&memory["status"], &memory["live_id"]], ["merged", "m000002"], "{memory}");
    assert_eq!(memory["merged_by_run"], applied["run_id"], "{memory}");
    let status = agent.call("memory_consolidate", &json!({ "action": "status" }))["status"].clone();
    assert_eq!((&status["runs"][0]["run_id"], &status["live"]), (&applied["run_id"], &json!(4)));
    let run = json!({ "action": "status", "run_id": applied["run_id"] });
    assert_eq!(agent.call("memory_consolidate", &run)["state"], "done");
    let undone = agent.undo(&applied);
    assert_eq!(undone["applied"], 1);
    assert_eq!(undone["undone"][0]["memories"][0]["text"], deploy);
    assert_eq!(count(), 5);
}

#[test]
fn agent_session_over_stdio() {
    let dir = TestFolder::with_deploys();
    let mut agent = Agent::start(&dir, &["brain.db", "--allow-writes"]);
    live(&mut agent, &dir);
    agent.end();
}

#[test]
fn agent_session_over_http() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let mut agent = Agent::visit(&server);
    live(&mut agent, &dir);
    agent.end();
    let evil = [ACCEPT, ("Host", "evil.example")];
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": mcp_hello() });
    server.send("POST", "/mcp", &evil, &hello.to_string()).assert_problem(421, "misdirected");
}

#[test]
fn an_agent_writes_nothing_where_the_server_was_not_told_to() {
    let dir = TestFolder::with_deploys();
    let before = std::fs::read(dir.path("brain.db")).unwrap();
    let mut agent = Agent::start(&dir, &["brain.db"]);
    let saved = agent.refused("memory_save", &json!({ "text": "Bob is allergic to walnuts" }));
    let hint = saved["hint"].as_str().unwrap();
    let start = format!("memfold-server mcp {} --allow-writes", dir.path("brain.db").display());
    assert!(hint.starts_with("ask who runs this server") && hint.contains(&start), "{hint}");
    let plan = agent.plan();
    let apply = json!({ "action": "apply", "plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"] });
    assert_eq!(agent.refused("memory_consolidate", &apply)["status"], 403);
    let settle = json!({ "key": "0011223344556677", "settlement": "merge" });
    assert_eq!(agent.refused("memory_resolve", &settle)["status"], 403);
    for (tool, arguments) in [
        ("memory_check", json!({})),
        ("memory_consolidate", json!({ "action": "destroy" })),
        ("memory_consolidate", json!({ "action": "undo" })),
        ("memory_resolve", json!({})),
        ("memory_recall", json!({ "query": "a", "limit": 101 })),
        ("memory_check", json!({ "text": "a", "store": "none" })),
    ] {
        agent.refused(tool, &arguments);
    }
    let unknown = json!({ "name": "memory_delete", "arguments": {} });
    assert!(agent.response("tools/call", &unknown)["error"].is_object());
    agent.end();
    assert_eq!(before, std::fs::read(dir.path("brain.db")).unwrap());
}

/// Long texts come in parts: each says how many more there are, and all together hold every memory once.
#[test]
fn long_lists_come_in_parts() {
    let text =
        |at| format!("Box number{at} is on the shelf. {}", "It is full of old paper. ".repeat(30));
    let rows: Vec<_> =
        (0..60).map(|at| memory(at + 1, text(at / 2), &unit_vector(30, at / 2))).collect();
    let dir = TestFolder::with(&rows);
    let mut agent = Agent::start(&dir, &["brain.db"]);
    let mut seen = Vec::new();
    let mut arguments = json!({});
    let parts = loop {
        let part = agent.call("memory_duplicates", &arguments);
        let listed = part["duplicates"].as_array().unwrap();
        seen.extend(listed.iter().map(|item| item["action"].as_str().unwrap().to_owned()));
        assert_eq!(seen.len() as u64 + part["more"].as_u64().unwrap(), 30, "{part}");
        if part["more"] == 0 {
            break seen.len() / listed.len();
        }
        arguments = json!({ "after": part["next_after"] });
    };
    seen.dedup();
    assert!(parts > 2 && seen.len() == 30, "{parts}");
    agent.end();
}

/// 10,000 sessions that were opened and left kept 1.3 GB.
#[test]
fn sessions_are_limited() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": mcp_hello() })
        .to_string();
    let mut last = None;
    for _ in 0..256 {
        let answer = server.send("POST", "/mcp", &[ACCEPT], &hello);
        assert_eq!(answer.status, 200, "{answer:?}");
        last = Some(answer.headers["mcp-session-id"].clone());
    }
    let refused = server.send("POST", "/mcp", &[ACCEPT], &hello);
    refused.assert_problem(429, "busy");
    assert_eq!(refused.headers["retry-after"], "300");
    let ended = [ACCEPT, ("Mcp-Session-Id", &*last.unwrap())];
    assert_eq!(server.send("DELETE", "/mcp", &ended, "").status, 204);
    assert_eq!(server.send("POST", "/mcp", &[ACCEPT], &hello).status, 200);
}

/// The protocol's own client for Python, where `MEMFOLD_MCP_PYTHON` names a Python that has it.
#[test]
fn the_python_client_uses_the_tools() {
    let Some(python) = std::env::var_os("MEMFOLD_MCP_PYTHON") else { return report_skipped() };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/extras/mcp_client.py");
    let visit = |arguments: &[&str]| {
        let output = Command::new(&python).arg(script).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let expected = json!({ "tools": 8, "saved": "inserted", "recalled": "Bob is allergic to walnuts",
                           "flagged": "flagged_conflict", "open": 0, "applied": 1, "undone": 1 });
    let dir = TestFolder::with_deploys();
    let store = dir.path("brain.db");
    assert_eq!(visit(&["stdio", crate::PROGRAM, store.to_str().unwrap()]), expected);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 5);
    // Undone merges are not proposed again: another store.
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    assert_eq!(visit(&["http", &format!("http://{}/mcp", server.address)]), expected);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 5);
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn report_skipped() {
    eprintln!("skipped: MEMFOLD_MCP_PYTHON names no Python with the package mcp");
}
