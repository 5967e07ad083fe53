//! The project's own checks and chores: `cargo xtask ci | tidy | bless | measure | figures | torture`.

mod ci;
mod figures;
mod measure;
mod report;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  ci     runs everything that must be green before a commit: fmt, clippy, docs, tidy, benches as tests, tests
  tidy   checks the invariants of ARCHITECTURE.md that no compiler checks
  bless  rewrites the generated files and snapshots that tests compare with
  measure [--full]
         times whole runs of `memfold consolidate` and renews bench/results/consolidate.jsonl
  figures
         writes the stored results into README.md and docs/performance.md; measure does so, too
  torture [--full] [--only kill|faults|writers|reader]
         disturbs runs of `memfold consolidate --execute` and `memfold undo` by kills, failing writes, busy locks,
         readers and writers, and renews bench/results/torture.jsonl";

fn main() -> ExitCode {
    let root = root();
    let command = std::env::args().nth(1);
    let done = match command.as_deref() {
        Some("ci") => ci::run(&root),
        Some("tidy") => tidy::run(&root),
        Some("bless") => ci::bless(&root),
        Some("measure") => measure::run(&root, std::env::args().any(|a| a == "--full")),
        Some("figures") => figures::write(&root),
        Some("torture") => torture::run(&root, &std::env::args().skip(2).collect::<Vec<_>>()),
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
