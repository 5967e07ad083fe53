//! [`Memfold`]: the binary, away from this machine's configuration.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::NOW;
use memfold::machine::Stopwatch;

/// The binary and a home of its own.
#[derive(Debug)]
pub struct Memfold {
    binary: PathBuf,
    home: TempDir,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` for a process that a signal killed.
    pub code: Option<i32>,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
    /// How long it took.
    pub seconds: f64,
}

impl Memfold {
    /// Takes a binary.
    ///
    /// # Panics
    /// When the temporary folder cannot be written.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let home = tempfile::tempdir().expect("the temporary folder is writable");
        Self { binary: binary.into(), home }
    }

    /// Prepares a command.
    #[must_use]
    pub fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    #[must_use]
    pub fn run(&self, arguments: &[String]) -> Ended {
        finish(self.command(arguments))
    }

    /// Starts, without its output: a pipe that nobody reads would stop it once it is full.
    ///
    /// # Panics
    /// When the binary cannot be run.
    #[must_use]
    pub fn spawn(&self, arguments: &[String]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).spawn().expect("the binary can be run")
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When the binary cannot be run.
pub(super) fn finish(mut command: Command) -> Ended {
    let clock = Stopwatch::start();
    let output = command.output().expect("the binary can be run");
    Ended { seconds: clock.seconds(), ..Ended::from(output) }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        Self { code: output.status.code(), out, err, seconds: 0.0 }
    }
}

impl Ended {
    /// Returns how it ended in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
        format!("{code}: {}", self.err.trim().replace('\n', " | "))
    }
}

/// Owns words.
#[must_use]
pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `consolidate --execute`.
pub(super) fn execute(store: &Path) -> Vec<String> {
    writing("consolidate", store, &["--max-change-share", "1"])
}

/// `apply PLAN --execute`.
pub(super) fn apply(store: &Path, plan: &str) -> Vec<String> {
    writing("apply", store, &[plan])
}

/// `undo RUN --execute`.
pub(super) fn undo(store: &Path, run: &str) -> Vec<String> {
    writing("undo", store, &[run])
}

fn writing(command: &str, store: &Path, further: &[&str]) -> Vec<String> {
    let words = ["--execute", "--now", NOW, "--set", "time_zone=UTC", "--json"];
    strings(&[&[command, &*store.to_string_lossy()], further, &words].concat())
}
