//! The project's own checks; `cargo xtask` lists them. Measuring and figures are a script: `bench/measure.py`.

mod ci;
mod tidy;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask <command>

  ci [--no-test]
           runs everything that must pass before a commit: fmt, clippy, docs, tidy, smoke tests of the
           binary, benches as tests, the code for aarch64, the Python wheel, tests
  tidy     checks the invariants of ARCHITECTURE.md that the compiler cannot check
  bless    rewrites the generated files and snapshots that tests compare with
  aarch64  runs the tests of simd and index for aarch64 under qemu";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let done = match words[..] {
        ["ci"] => ci::run(&root, true),
        ["ci", "--no-test"] => ci::run(&root, false),
        ["tidy"] => tidy::run(&root),
        ["bless"] => ci::bless(&root),
        ["aarch64"] => ci::test_aarch64(&root),
        _ => {
            say(USAGE);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("xtask: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on stderr.
fn say(line: &str) {
    // Nobody is left to tell where stderr is gone.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Result<(), String> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let line = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
    say(&format!("xtask: {line}"));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}

/// Returns whether a program can be run.
fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns a cargo command in the root.
fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), root);
    cargo.args(words);
    cargo
}

/// Returns a command in the root, without the variables that `cargo run` set for this program.
///
/// Build scripts that read one of these variables (`ring`'s does) would run again, with everything
/// that depends on them; also where the command calls cargo.
fn command(program: impl AsRef<OsStr>, root: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.current_dir(root);
    command
}

fn root() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    tools.and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
