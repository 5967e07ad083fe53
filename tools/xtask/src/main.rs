//! The project's own checks and chores: `cargo xtask ci | tidy | bless | measure | figures`.

mod ci;
mod figures;
mod measure;
mod report;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  ci     runs everything that must be green before a commit: fmt, clippy, docs, tidy, benches as tests, tests
  tidy   checks the invariants of ARCHITECTURE.md that no compiler checks
  bless  rewrites the generated files and snapshots that tests compare with
  measure [--full]
         times whole runs of `memfold consolidate` and renews bench/results/consolidate.jsonl
  figures
         writes the stored results into README.md and docs/performance.md; measure does so, too";

fn main() -> ExitCode {
    let root = root();
    let command = std::env::args().nth(1);
    let done = match command.as_deref() {
        Some("ci") => ci::run(&root),
        Some("tidy") => tidy::run(&root),
        Some("bless") => ci::bless(&root),
        Some("measure") => measure::run(&root, std::env::args().any(|a| a == "--full")),
        Some("figures") => figures::write(&root),
        _ => {
            report::line(USAGE);
            return ExitCode::from(2);
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    tools.and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
