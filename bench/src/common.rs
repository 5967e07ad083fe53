//! Shared by several commands: input from a file or stdin, and times.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use jiff::tz::TimeZone;
use memfold::machine::Stopwatch;
use memfold_core::time::Instant;
use memfold_terminal::failure::Failure;

/// Tells whether a path stands for stdin.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an input.
pub(crate) fn source(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

/// Opens a file, or stdin.
pub(crate) fn open_input(path: &Path, hint: &str) -> Result<Box<dyn BufRead>, Failure> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(path).map_err(|error| {
        Failure::new(&format!("open {}", path.display()), &error, Some(hint.to_owned()))
    });
    Ok(Box::new(BufReader::new(opened?)))
}

/// Reads a time of the command line.
pub(crate) fn instant(text: &str) -> Result<Instant, Failure> {
    Instant::parse(text, &TimeZone::UTC)
        .ok_or_else(|| Failure::usage(format!("{text} is no time"), "name an RFC 3339 time"))
}

/// Does some work; returns its result and its microseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let stopwatch = Stopwatch::start();
    let done = work();
    (done, stopwatch.seconds() * 1e6)
}
