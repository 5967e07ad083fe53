//! `memfold-server`: checks and saves over a connection that stays open, and checks as an agent asks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use memfold::quick_check::Incoming;
use memfold_terminal::failure::Failure;
use serde_json::{Value, json};

use super::Times;
use super::processes::Executable;
use crate::common::timed;

/// A server for the store that is measured; it ends with this.
pub(super) struct Service {
    _http: Running,
    agent: ureq::Agent,
    address: String,
    _mcp: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// A program that ends with this.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let started = command.spawn();
        started.map(Self).map_err(|error| Failure::new("start memfold-server", &error, None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl Service {
    /// Starts the program at `path`, once for HTTP and once for MCP over its pipes.
    pub(super) fn start(path: &Path, executable: &Executable) -> Result<Self, Failure> {
        if !path.is_file() {
            let hint = "build it with cargo build --release -p memfold-server";
            return Err(Failure::plain(format!("there is no {}", path.display()), hint));
        }
        let mut serve = serving(path, "http", executable);
        serve.args(["--allow-writes", "--listen", "127.0.0.1:0"]);
        let mut http = Running::start(serve.stderr(Stdio::piped()))?;
        let mut serve = serving(path, "mcp", executable);
        let mut mcp = Running::start(serve.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let pipes = (http.0.stderr.take(), mcp.0.stdin.take(), mcp.0.stdout.take());
        let (Some(remarks), Some(input), Some(output)) = pipes else { return Err(silent()) };
        let mut remarks = BufReader::new(remarks);
        let address = loop {
            let mut line = String::new();
            if remarks.read_line(&mut line).map_or(true, |read| read == 0) {
                return Err(silent());
            }
            if let Some((_, address)) = line.trim().split_once(" listens at ") {
                break address.to_owned();
            }
        };
        // A full pipe would hold the server up.
        std::thread::spawn(move || std::io::copy(&mut remarks, &mut std::io::sink()));
        let (agent, output) = (ureq::Agent::new_with_defaults(), BufReader::new(output));
        let mut service = Self { _http: http, agent, address, _mcp: mcp, input, output };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "memfold-bench", "version": env!("CARGO_PKG_VERSION") },
        });
        service.ask("initialize", &hello)?;
        service.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(service)
    }

    /// Posts each memory.
    pub(super) fn post(&self, path: &str, memories: &[Incoming]) -> Result<Times, Failure> {
        let url = format!("{}{path}", self.address);
        Times::of(memories, |memory| {
            let body = json!({ "text": memory.text, "vector": memory.vector }).to_string();
            let request = self.agent.post(&url).header("Content-Type", "application/json");
            let send = || request.send(&body).and_then(|mut sent| sent.body_mut().read_to_string());
            let (answer, took) = timed(send);
            let answer =
                answer.map_err(|error| Failure::new("ask memfold-server", &error, None))?;
            Ok((took, was_checked(&serde_json::from_str(&answer).unwrap_or_default())?))
        })
    }

    /// Calls `memory_check` for each memory.
    pub(super) fn call(&mut self, memories: &[Incoming]) -> Result<Times, Failure> {
        Times::of(memories, |memory| {
            let call = json!({ "name": "memory_check", "arguments": { "text": memory.text } });
            let (answer, took) = timed(|| self.ask("tools/call", &call));
            Ok((took, was_checked(&answer?["structuredContent"])?))
        })
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, Failure> {
        self.write(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters }))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_or(true, |read| read == 0) {
                return Err(silent());
            }
            match serde_json::from_str::<Value>(&line) {
                Ok(answer) if answer["id"] == 1 => return Ok(answer["result"].clone()),
                _ => {}
            }
        }
    }

    fn write(&mut self, message: &Value) -> Result<(), Failure> {
        writeln!(self.input, "{message}").map_err(|_| silent())
    }
}

/// `memfold-server` for the store of another program.
fn serving(path: &Path, command: &str, executable: &Executable) -> Command {
    let mut serving = Command::new(path);
    serving.arg(command);
    executable.configure(&mut serving);
    serving.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    serving
}

fn was_checked(answer: &Value) -> Result<bool, Failure> {
    answer["checked"].as_bool().ok_or_else(silent)
}

fn silent() -> Failure {
    let hint = "run `memfold-server http DB` by hand to see why";
    Failure::plain("memfold-server did not answer", hint)
}
