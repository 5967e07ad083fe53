//! The server, as its callers meet it: the real binary over sockets and pipes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "a part of it is for the command line")]
mod folder;
mod support;
#[path = "../cli/schemas.rs"]
#[expect(dead_code, reason = "a part of it is for the documents of the command line")]
mod schemas;

mod memories;
mod plans_and_runs;
mod doors;
mod crashes;
mod compatible;
mod agents;
mod origins;
mod server_memory;
mod telemetry;
mod dashboard;
mod soak;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold-server");
