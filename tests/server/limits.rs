//! Callers that send too much, too slowly, or nonsense.

use std::io::{Read as _, Write as _};

use serde_json::json;

use crate::support::{Answer, TestFolder};

#[test]
fn bodies_that_are_too_large_or_broken_are_refused() {
    let dir = TestFolder::new();
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

#[test]
fn floods_of_headers_are_refused() {
    let dir = TestFolder::new();
    let server = dir.serve(&[]);
    let host = &server.address;
    let many: String = (0..1_000).map(|at| format!("X-{at}: a\r\n")).collect();
    let long = format!("X: {}\r\n", "a".repeat(200 << 10));
    // hyper accepts heads up to the end of its buffer.
    let little: String = (0..40).map(|at| format!("X-{at}: {}\r\n", "a".repeat(1_750))).collect();
    let answer =
        server.raw(format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n{little}\r\n").as_bytes());
    assert!([0, 431].contains(&Answer::read(&answer).status), "{answer}");
    for headers in [many, long] {
        let answer = server
            .raw(format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").as_bytes());
        let status = Answer::read(&answer).status;
        assert!([0, 431].contains(&status), "{status}");
    }
    for nonsense in ["\r\n\r\n", "GET\r\n\r\n", "\u{1}\u{2}\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let status = Answer::read(&server.raw(nonsense.as_bytes())).status;
        assert!([0, 400, 505].contains(&status), "{nonsense:?}: {status}");
    }
    // Two hosts, or a length and chunks, are how requests are smuggled past a proxy.
    let two =
        server.raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n");
    assert!([400, 421].contains(&Answer::read(&two).status), "{two}");
    assert_eq!(server.get("/healthz").status, 200);
}
