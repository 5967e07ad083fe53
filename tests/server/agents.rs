//! Agents: the six tools over stdio and over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::Place;

/// An agent at the pipes of a server.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Agent {
    fn start(place: &Place, further: &[&str]) -> Self {
        let arguments = [&["mcp", "brain.db"], further].concat();
        let mut child = place
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut agent = Self { child, input, output, id: 0 };
        let hello = agent.ask("initialize", &hello());
        assert_eq!(hello["serverInfo"]["name"], "memfold", "{hello}");
        assert!(hello["capabilities"]["tools"].is_object());
        agent.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn response(&mut self, method: &str, parameters: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let response = self.response(method, parameters);
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let tokens = memfold_lifecycle::estimated_tokens(text);
        assert!(tokens <= 2_000, "{tool}: {tokens}");
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
        result["structuredContent"].clone()
    }

    fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn hello() -> Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "a test", "version": "1" } })
}

const TOOLS: [&str; 6] = [
    "memory_check",
    "memory_duplicates",
    "memory_conflicts",
    "memory_consolidate",
    "memory_resolve",
    "memory_session_context",
];

#[test]
fn an_agent_checks_plans_applies_and_undoes() {
    let place = Place::new();
    let mut agent = Agent::start(&place, &["--allow-writes"]);
    let tools = agent.ask("tools/list", &json!({}));
    let names: Vec<_> =
        tools["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, TOOLS);
    for tool in tools["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }
    let check = agent.call("memory_check", &json!({ "text": "Alice prefers tea over coffee" }));
    assert_eq!(check["decision"], "touch", "{check}");
    let duplicates = agent.call("memory_duplicates", &json!({}));
    assert_eq!(duplicates["duplicates"][0]["memories"], 2, "{duplicates}");
    assert_eq!(agent.call("memory_conflicts", &json!({}))["conflicts"], json!([]));

    let plan = agent.call("memory_consolidate", &json!({ "action": "plan" }));
    assert_eq!(plan["planned"]["merge"], 1, "{plan}");
    let apply = json!({ "action": "apply", "plan_id": plan["plan_id"] });
    assert_eq!(agent.refused("memory_consolidate", &apply)["status"], 428);
    let wrong = json!({ "action": "apply", "plan_id": plan["plan_id"], "plan_digest": "00" });
    assert_eq!(agent.refused("memory_consolidate", &wrong)["status"], 412);
    let right = json!({ "action": "apply", "plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"] });
    let applied = agent.call("memory_consolidate", &right);
    assert_eq!(applied["executed"]["applied"], 1, "{applied}");
    assert_eq!(place.count("SELECT count(*) FROM stm"), 3);
    // What was applied is no duplicate any more.
    assert_eq!(agent.call("memory_duplicates", &json!({}))["duplicates"], json!([]));

    let explain = json!({ "action": "explain", "memory_id": "m000001" });
    assert_eq!(agent.call("memory_consolidate", &explain)["id"], "m000001");
    let resolved = agent.call("memory_resolve", &json!({ "memory_id": "m000001" }));
    assert_eq!(resolved["live_id"], "m000002", "{resolved}");
    let status = agent.call("memory_consolidate", &json!({ "action": "status" }));
    assert_eq!(status["runs"][0]["run_id"], applied["run_id"], "{status}");
    let undo = json!({ "action": "undo", "run_id": applied["run_id"] });
    assert_eq!(agent.call("memory_consolidate", &undo)["executed"]["applied"], 1);
    assert_eq!(place.count("SELECT count(*) FROM stm"), 4);
    let here = json!({ "name": "memory_session_context", "arguments": { "directory": "/deploy" } });
    let context = agent.ask("tools/call", &here);
    assert_eq!(
        (&context["isError"], context["content"][0]["text"].is_string()),
        (&json!(false), true)
    );
    agent.end();
}

#[test]
fn an_agent_writes_nothing_where_the_server_was_not_told_to() {
    let place = Place::new();
    let before = std::fs::read(place.path("brain.db")).unwrap();
    let mut agent = Agent::start(&place, &[]);
    let plan = agent.call("memory_consolidate", &json!({ "action": "plan" }));
    let apply = json!({ "action": "apply", "plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"] });
    let refused = agent.refused("memory_consolidate", &apply);
    assert_eq!(refused["status"], 403, "{refused}");
    let settle = json!({ "key": "0011223344556677", "settlement": "merge" });
    assert_eq!(agent.refused("memory_resolve", &settle)["status"], 403);
    for (tool, arguments) in [
        ("memory_check", json!({})),
        ("memory_consolidate", json!({ "action": "destroy" })),
        ("memory_resolve", json!({})),
        ("memory_check", json!({ "text": "a", "store": "none" })),
    ] {
        agent.refused(tool, &arguments);
    }
    let unknown = json!({ "name": "memory_delete", "arguments": {} });
    assert!(agent.response("tools/call", &unknown)["error"].is_object());
    agent.end();
    assert_eq!(before, std::fs::read(place.path("brain.db")).unwrap());
}

#[test]
fn agents_come_over_http_too() {
    let place = Place::new();
    let server = place.serve(&[]);
    let accept = ("Accept", "application/json, text/event-stream");
    let message = |method: &str, parameters: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters }).to_string()
    };
    let first = server.send("POST", "/mcp", &[accept], &message("initialize", hello()));
    assert_eq!(first.status, 200, "{first:?}");
    let session = first.headers["mcp-session-id"].clone();
    let headers = [accept, ("Mcp-Session-Id", &*session), ("MCP-Protocol-Version", "2025-06-18")];
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert_eq!(server.send("POST", "/mcp", &headers, &ready).status, 202);
    let list = server.send("POST", "/mcp", &headers, &message("tools/list", json!({})));
    for tool in TOOLS {
        assert!(list.body.contains(&format!("\"{tool}\"")), "{list:?}");
    }
    let call =
        json!({ "name": "memory_check", "arguments": { "text": "Alice prefers tea over coffee" } });
    let check = server.send("POST", "/mcp", &headers, &message("tools/call", call));
    assert!(check.body.contains("touch"), "{check:?}");
    let evil = [accept, ("Host", "evil.example")];
    let refused = server.send("POST", "/mcp", &evil, &message("initialize", hello()));
    refused.assert_problem(421, "misdirected");
    // 202 made the protocol's clients warn.
    assert_eq!(server.send("DELETE", "/mcp", &headers, "").status, 204);
}

/// 10,000 sessions that were opened and left kept 1.3 GB.
#[test]
fn sessions_are_limited() {
    let place = Place::new();
    let server = place.serve(&[]);
    let accept = ("Accept", "application/json, text/event-stream");
    let hello =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello() }).to_string();
    let mut last = None;
    for _ in 0..256 {
        let answer = server.send("POST", "/mcp", &[accept], &hello);
        assert_eq!(answer.status, 200, "{answer:?}");
        last = Some(answer.headers["mcp-session-id"].clone());
    }
    let refused = server.send("POST", "/mcp", &[accept], &hello);
    refused.assert_problem(429, "busy");
    assert_eq!(refused.headers["retry-after"], "300");
    let ended = [accept, ("Mcp-Session-Id", &*last.unwrap())];
    assert_eq!(server.send("DELETE", "/mcp", &ended, "").status, 204);
    assert_eq!(server.send("POST", "/mcp", &[accept], &hello).status, 200);
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
    let expected = json!({ "tools": 6, "check": "touch", "applied": 1, "undone": 1 });
    let place = Place::new();
    let store = place.path("brain.db");
    assert_eq!(visit(&["stdio", crate::PROGRAM, store.to_str().unwrap()]), expected);
    assert_eq!(place.count("SELECT count(*) FROM stm"), 4);
    // What was undone is not proposed again: another store.
    let place = Place::new();
    let server = place.write();
    assert_eq!(visit(&["http", &format!("http://{}/mcp", server.address)]), expected);
    assert_eq!(place.count("SELECT count(*) FROM stm"), 4);
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn report_skipped() {
    eprintln!("skipped: MEMFOLD_MCP_PYTHON names no Python with the package mcp");
}
