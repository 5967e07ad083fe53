//! The project's own checks and chores; `cargo xtask` lists them.

mod report;
mod results;
mod figures;
mod measure;
mod bench_peers;
mod torture;
mod tidy;
mod shape;
mod ci;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask <command>

  ci [--no-test]
         runs everything that must be green before a commit: fmt, clippy, docs, tidy, benches as
         tests, the other processor's code, the wheel for Python, tests
  tidy   checks the invariants of ARCHITECTURE.md that no compiler checks
  shape  prints files, lines, public items and error enums of every package, and the cycles
         between its modules
  bless  rewrites the generated files and snapshots that tests compare with
  aarch64
         runs the tests of simd and index for aarch64 under qemu
  python [--release] [--ray]
         builds the wheel, installs it in a fresh environment in target/python and runs its tests;
         --release: as maturin publishes it; --ray: those on Ray too, whose package is large; needs
         python3 with venv and pip
  figures
         writes the stored results into README.md, docs and docs/plots; whatever measures does so too
  bench-peers [--full] [--only joins|lookups] [--data FILE] [--rows N] [--engines a,b]
              [--threshold 0.85,0.95] [--threads N] [--seconds-max N] [--once]
         times other engines and memfold at the same joins and lookups, in turn, on up to 100,000
         rows (--full: and 1,000,000); needs python3 with pip for the others
  torture [--full] [--only kill|faults|writers|reader]
         disturbs runs of `memfold consolidate --execute` and `memfold undo` by kills, failing
         writes, busy locks, readers and writers
  measure [NAME…] [--full] [--runs N]
         measures what is named (all of it where nothing is) and renews bench/results/NAME.jsonl;
         --full adds the largest sizes; only on a quiet machine:
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match run(&root(), &command, &words.collect::<Vec<_>>()) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(reason)) => {
            report::line(&format!("{command}: {reason}"));
            ExitCode::FAILURE
        }
        None => {
            report::line(&format!("{USAGE}{}", measure::help()));
            ExitCode::from(2)
        }
    }
}

/// Runs a command; `None` where there is none of that name.
fn run(root: &Path, command: &str, arguments: &[String]) -> Option<Result<(), String>> {
    Some(match command {
        "ci" => ci::run(root, arguments),
        "tidy" => tidy::run(root),
        "shape" => shape::run(root),
        "bless" => ci::bless(root),
        "aarch64" => ci::test_aarch64(root),
        "python" => python::run(root, arguments),
        "figures" => figures::write(root),
        "bench-peers" => bench_peers::run(root, arguments),
        "torture" => torture::run(root, arguments),
        "measure" => measure::run(root, arguments),
        // Stored results name the command that they were measured by: `measure-join --full`.
        _ => measure::run(root, &measure::named_before(command, arguments)?),
    })
}

/// Cargo in the root, without what `cargo run` has set for this program.
///
/// Build scripts that look at such a variable (that of `ring`) would run again, and all that depends on them be compiled.
fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root);
    cargo
}

fn root() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    tools.and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    #[test]
    fn cargo_is_not_told_of_this_package() {
        let cargo = super::cargo(&super::root());
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(cargo.get_envs().any(|(key, value)| key == name && value.is_none()), "{name}");
        }
    }
}
