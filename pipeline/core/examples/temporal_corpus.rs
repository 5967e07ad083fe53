//! Counts which expressions of a corpus file are resolved as expected, and prints counts and errors
//! as JSON: `cargo run -p memfold-core --example temporal_corpus -- FILE`.

use std::error::Error;
use std::io::Write as _;

#[path = "../tests/support/temporal_corpus.rs"]
mod corpus;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: temporal_corpus FILE")?;
    let report = corpus::evaluate(&std::fs::read_to_string(path)?)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)?;
    Ok(())
}
