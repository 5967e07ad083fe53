//! Accepted and refused requests: tokens, sockets, bodies; and the published description.

use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Answer, Server, TestFolder};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_token_is_needed_and_cannot_be_guessed() {
    let dir = TestFolder::with_deploys();
    // White space around it does not count.
    dir.write("token", format!("  {TOKEN}\n"));
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
    // The header was 1 although the address has to wait for a minute.
    let seconds: u32 = refused.headers["retry-after"].parse().unwrap();
    assert!((30..=60).contains(&seconds), "{seconds}");
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let dir = TestFolder::with_deploys();
    let mut command = dir.command(&["http", "brain.db", "--listen", "0.0.0.0:0"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("can be reached by others") && said.contains("hint: give --token-file"));
    dir.write("token", "short");
    let arguments = ["http", "brain.db", "--listen", "0.0.0.0:0", "--token-file", "token"];
    assert_eq!(dir.command(&arguments).output().unwrap().status.code(), Some(2));
    dir.write("token", TOKEN);
    let server = Server::start(dir.command(&arguments));
    assert!(server.address.starts_with("0.0.0.0:"), "{}", server.address);
}

#[test]
fn a_unix_socket_is_for_its_user_alone() {
    let dir = TestFolder::with_deploys();
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
    // The socket of a killed server does not prevent a start.
    server.kill();
    assert!(socket.exists());
    let server = Server::start(dir.command(&arguments));
    assert_eq!(server.terminate(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn paths_lead_nowhere_else() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
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

#[test]
fn the_description_is_the_published_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/server.openapi.json");
    let dir = TestFolder::with_deploys();
    let output = dir.command(&["openapi"]).output().unwrap();
    assert!(output.status.success());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &output.stdout).unwrap();
    }
    let published = std::fs::read(&path).unwrap_or_default();
    assert!(published == output.stdout, "{} is old: run with BLESS=1", path.display());
    let served = dir.serve(&[]).get("/openapi.json").json();
    let published: Value = serde_json::from_slice(&published).unwrap();
    assert_eq!(served, published);
    assert_eq!(published["openapi"], "3.1.0");
}

/// Every documented path exists, and needs nothing undocumented.
#[test]
fn every_path_that_is_described_is_served() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    let described = server.get("/openapi.json").json();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "nothing").replace("{key}", "nothing");
        for method in methods.as_object().unwrap().keys() {
            let answer = server.send(&method.to_uppercase(), &path, &[], "");
            assert_ne!(answer.status, 405, "{method} {path}");
            let is_missing = answer.body.contains("there is nothing at this path");
            assert!(!is_missing && answer.status > 0, "{method} {path}: {answer:?}");
        }
    }
}

#[test]
fn bodies_that_are_too_large_or_broken_are_refused() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(17 << 20));
    // It may be closed before all was sent.
    let answer = server.send("POST", "/v1/check", &[], &large);
    if answer.status != 0 {
        answer.assert_problem(413, "too-large");
    }
    let long = json!({ "text": "x".repeat((1 << 20) + 1) });
    server.post("/v1/check", &long).assert_problem(413, "too-large");
    for body in ["{", "{\"text\":", "nonsense", "{\"text\":\"\\ud800\"}", "\u{0}"] {
        let answer = server.send("POST", "/v1/check", &[], body);
        answer.assert_problem(400, "malformed");
    }
    for body in ["[]", "{\"txt\":\"a\"}", "{\"text\":1}", "{\"vector\":[\"a\"]}", "null"] {
        let answer = server.send("POST", "/v1/check", &[], body);
        answer.assert_problem(422, "unprocessable");
    }
    let deep = "[".repeat(100_000);
    server.send("POST", "/v1/check", &[], &deep).assert_problem(422, "unprocessable");
    let nested = format!("{{\"categories\":{deep}");
    server.send("POST", "/v1/check", &[], &nested).assert_problem(422, "unprocessable");
    let half = "POST /v1/check HTTP/1.1\r\nHost: H\r\nContent-Type: application/json\r\n\
                Content-Length: 50\r\nConnection: close\r\n\r\n{\"text\""
        .replace("Host: H", &format!("Host: {}", server.address));
    let mut stream = server.connect();
    stream.write_all(half.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _read = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || Answer::read(&answer).status == 400, "{answer}");
    assert_eq!(server.get("/healthz").status, 200);
}
