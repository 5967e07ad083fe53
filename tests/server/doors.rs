//! Who may come in: hosts, origins, tokens, sockets.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::support::{Answer, Server, TestFolder};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_token_is_needed_and_cannot_be_guessed() {
    let dir = TestFolder::new();
    std::fs::write(dir.path("token"), TOKEN).unwrap();
    let server = dir.serve(&["--token-file", "token"]);
    let with = |token: &str| {
        let bearer = format!("Bearer {token}");
        server.send("GET", "/v1/stats", &[("Authorization", &bearer)], "")
    };
    let without = server.get("/v1/stats");
    without.assert_problem(401, "unauthorized");
    assert_eq!(without.headers["www-authenticate"], "Bearer");
    for path in ["/metrics", "/openapi.json", "/mcp", "/nothing"] {
        server.get(path).assert_problem(401, "unauthorized");
    }
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
    assert_eq!(with(TOKEN).status, 200);
    for _ in 0..10 {
        with("0123456789abcdef0123456789abcdee").assert_problem(401, "unauthorized");
    }
    let refused = with("0123456789abcdef0123456789abcdee");
    refused.assert_problem(429, "busy");
    // It said 1 while the address waits for a minute.
    let seconds: u32 = refused.headers["retry-after"].parse().unwrap();
    assert!((30..=60).contains(&seconds), "{seconds}");
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let dir = TestFolder::new();
    let mut command = dir.command(&["http", "brain.db", "--listen", "0.0.0.0:0"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("can be reached by others") && said.contains("hint: give --token-file"));
    std::fs::write(dir.path("token"), "short").unwrap();
    let arguments = ["http", "brain.db", "--listen", "0.0.0.0:0", "--token-file", "token"];
    assert_eq!(dir.command(&arguments).output().unwrap().status.code(), Some(2));
    std::fs::write(dir.path("token"), TOKEN).unwrap();
    let server = Server::start(dir.command(&arguments));
    assert!(server.address.starts_with("0.0.0.0:"), "{}", server.address);
}

#[test]
fn a_unix_socket_is_for_its_user_alone() {
    let dir = TestFolder::new();
    let socket = dir.path("socket");
    let arguments = ["http", "brain.db", "--unix-socket", "socket"];
    let server = Server::start(dir.command(&arguments));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let request = b"GET /v1/stats HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(Answer::read(&answer).json()["live"], 4, "{answer}");
    // The socket of a server that was killed is no obstacle.
    server.kill();
    assert!(socket.exists());
    let server = Server::start(dir.command(&arguments));
    assert_eq!(server.terminate(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn paths_lead_nowhere_else() {
    let dir = TestFolder::new();
    let server = dir.write();
    for path in [
        "/../brain.db",
        "/v1/plans/..%2F..%2Fbrain.db",
        "/v1/runs/%00",
        "/v1/plans/%2e%2e",
        "//v1/stats",
        "/v1/stats/",
        "/V1/STATS",
        "/v1/runs/..;/events",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.body.contains("SQLite"), "{path}");
    }
    server.get("/v1/check").assert_problem(405, "method-not-allowed");
    let headers = server.get("/v1/stats").headers;
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-store");
    let script = json!({ "text": "<script>alert(1)</script>" });
    let answer = server.post("/v1/check", &script);
    assert_eq!(answer.headers["content-type"], "application/json");
}
