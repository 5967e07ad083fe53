//! A server in a folder of its own, and a client that can also misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memfold_tests::{PATIENT, PlainMemory, memory, unit_vector};
use serde_json::{Value, json};

pub(crate) use crate::folder::TestFolder;

/// Longest wait for an answer: builds of tests run beside others.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    log: Arc<Mutex<String>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl TestFolder {
    /// With two equal and two other memories as `brain.db`.
    pub(crate) fn with_deploys() -> Self {
        Self::with(&deploys())
    }

    /// Serves `brain.db` on a free port.
    pub(crate) fn serve(&self, further: &[&str]) -> Server {
        let words = ["http", "brain.db", "--listen", "127.0.0.1:0", "--set", PATIENT];
        let arguments = [&words[..], further].concat();
        Server::start(self.command(&arguments))
    }

    pub(crate) fn serve_writing(&self) -> Server {
        self.serve(&["--allow-writes"])
    }
}

/// Two equal memories and two others; nothing of them contradicts.
pub(crate) fn deploys() -> Vec<PlainMemory> {
    let row = |number, text: &str, axis| memory(number, text, &unit_vector(4, axis));
    vec![
        row(1, "The deploy runs every Friday at noon", 0),
        row(2, "The deploy runs every Friday at noon", 0),
        row(3, "Alice prefers tea over coffee", 1),
        row(4, "The staging database lives in Frankfurt", 2),
    ]
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {}", log.lock().unwrap());
            log.lock().unwrap().push_str(&line);
            if let Some((_, url)) = line.trim().split_once(" listens at ") {
                break url.trim_start_matches("http://").to_owned();
            }
        };
        let into = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, address, log }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are and reads until the other side closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        // It may have been killed meanwhile.
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return String::new() };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may have been refused before all of it was sent.
        let _sent = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _read = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let has = |name: &str| headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
        if !has("host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !body.is_empty() && !has("content-type") {
            head.push_str("Content-Type: application/json\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        Answer::read(&self.raw(head.as_bytes()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string())
    }

    /// Asks for a run and waits for its end.
    pub(crate) fn job(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
        let headers = [headers, &[("Prefer", "wait=120")]].concat();
        let answer = self.send("POST", path, &headers, &body.to_string());
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Makes a plan of the store; returns its id and digest.
    pub(crate) fn plan(&self, request: &Value) -> (String, String) {
        let job = self.job("/v1/runs", &[], request);
        let text = |name: &str| job[name].as_str().unwrap().to_owned();
        (text("plan_id"), text("plan_digest"))
    }

    /// Applies a plan and returns the run.
    pub(crate) fn apply(&self, plan: &str, digest: &str) -> String {
        let path = format!("/v1/plans/{plan}/apply");
        let tag = format!("\"{digest}\"");
        let job = self.job(&path, &[("If-Match", &tag)], &json!({}));
        assert_eq!(job["state"], "done", "{job}");
        job["run_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and returns the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Answer {
    pub(crate) fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let is_chunked = headers.get("transfer-encoding").is_some_and(|how| how == "chunked");
        let body = if is_chunked { joined(body) } else { body.to_owned() };
        Self { status: status.unwrap_or(0), headers, body }
    }

    /// Reads the answer that comes next on a connection that stays open.
    #[track_caller]
    pub(crate) fn next(reader: &mut BufReader<TcpStream>) -> Self {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "it ended: {head}");
        }
        let mut answer = Self::read(&head);
        let mut body = vec![0; answer.headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it is a problem of this kind.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, kind: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let document = self.json();
        assert_eq!(document["type"], format!("urn:memfold:problem:{kind}"), "{document}");
        assert_eq!(document["status"], status);
    }
}

fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > rest.len() {
            break;
        }
        body.push_str(&rest[..size]);
        chunks = rest[size..].trim_start_matches("\r\n");
    }
    body
}

/// A client of the Model Context Protocol over the stdin and stdout of a server.
pub(crate) struct McpPipes {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The last request.
    id: u64,
}

impl McpPipes {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output), id: 0 }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn request(&mut self, method: &str, parameters: &Value) {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
    }

    /// Waits for the response to the last request.
    pub(crate) fn response(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.id {
                return message;
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes stdin, which ends the server.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

impl Drop for McpPipes {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The parameters of `initialize`.
pub(crate) fn mcp_hello() -> Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "a test", "version": "1" } })
}
