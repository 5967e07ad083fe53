//! The only file that prints: data to stdout, everything else to stderr.
//!
//! Whatever is printed passes [`printable`] or [`printable_json`] last, so that no text of a store, a file or a command
//! line can steer a terminal or hide in what is shown.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle, Width};
use console::{Term, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use memfold_model::text::{printable, printable_json};

use crate::document::Document;
use crate::failure::Failure;

/// Prints for one command.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    quiet: bool,
    verbose: bool,
    progress: bool,
}

impl Printer {
    /// Makes a printer; progress shows on a terminal only.
    pub fn new(quiet: bool, verbose: bool, no_progress: bool) -> Self {
        let progress = !quiet && !no_progress && io::stderr().is_terminal();
        Self { quiet, verbose, progress }
    }

    /// Writes data to stdout.
    ///
    /// # Errors
    /// When stdout cannot be written; a reader that has gone away is no error.
    pub fn data(self, text: &str) -> Result<(), Failure> {
        to_stdout(&printable(text))
    }

    /// Tells whether details are wanted.
    pub(crate) const fn is_verbose(self) -> bool {
        self.verbose
    }

    /// Writes a screen to a terminal in place of what was there; the cursor stays behind it.
    pub(crate) fn page(self, terminal: &Term, text: &str) -> Result<(), Failure> {
        terminal
            .clear_screen()
            .map_err(|error| Failure::new("write to the terminal", &error, None))?;
        self.data(text)
    }

    /// Writes a document to stdout as JSON.
    pub fn document(self, document: &impl Document) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document).map_err(|error| unprinted(&error))?;
        to_stdout(&printable_json(&(text + "\n")))
    }

    /// Writes a document to stdout as one line of JSON, where others follow.
    pub fn document_line(self, document: &impl Document) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(|error| unprinted(&error))?;
        to_stdout(&printable_json(&(text + "\n")))
    }

    /// Writes a remark to stderr, unless quiet.
    pub fn note(self, text: &str) {
        if !self.quiet {
            to_stderr(text);
        }
    }

    /// Writes a remark to stderr where the user asked for more.
    pub fn detail(self, text: &str) {
        if self.verbose {
            to_stderr(text);
        }
    }

    /// Writes a failure to stderr.
    pub fn failure(self, failure: &Failure) {
        to_stderr(&format!("error: {}", failure.message));
        if let Some(hint) = &failure.hint {
            to_stderr(&format!("hint: {hint}"));
        }
    }

    /// Writes what belongs to a failure to stderr, also where it is quiet.
    pub(crate) fn failure_note(self, text: &str) {
        to_stderr(text);
    }

    /// Returns a hidden or visible progress bar; `total` of `None` spins.
    pub(crate) fn bar(self, stage: &'static str, total: Option<u64>) -> ProgressBar {
        if !self.progress {
            return ProgressBar::hidden();
        }
        let template = match total {
            Some(_) => "{msg:16} {bar:24} {human_pos}/{human_len} {per_sec} eta {eta}",
            None => "{msg:16} {spinner} {human_pos} {per_sec}",
        };
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(stage);
        bar
    }
}

/// Returns a table that fits the terminal as far as no word has to be cut; in a pipe each row is one line.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let stdout = Term::stdout();
    laid_out(header, rows, stdout.is_term().then(|| stdout.size().1))
}

fn laid_out(header: &[&str], rows: Vec<Vec<String>>, columns: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(header);
    let arrangement = match columns {
        Some(columns) => {
            table.set_width(columns);
            ContentArrangement::Dynamic
        }
        None => ContentArrangement::Disabled,
    };
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let longest = |at: usize| cells(at).flat_map(|cell| cell.split(' ')).map(measure_text_width);
    let longest: Vec<usize> = (0..header.len())
        .map(|at| longest(at).chain([measure_text_width(header[at])]).max().unwrap_or(1))
        .collect();
    table.set_content_arrangement(arrangement).add_rows(rows);
    for (column, longest) in table.column_iter_mut().zip(longest) {
        let width = Width::Fixed(
            u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(column.padding_width()),
        );
        column.set_constraint(ColumnConstraint::LowerBoundary(width));
    }
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Tells whether stdout is a terminal: elsewhere lines stay whole.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes what is wrong with a command line, or the help that it asked for.
pub(crate) fn usage(error: &clap::Error, typed: &[OsString]) {
    let is_plain = |word: &OsString| matches!(printable(&word.to_string_lossy()), Cow::Borrowed(_));
    if typed.iter().all(is_plain) {
        // Nobody is left to be told when the stream is gone.
        let _unread = error.print();
    } else {
        to_stderr(error.render().to_string().trim_end());
    }
}

/// Writes to stderr that the program has a defect.
pub(crate) fn panicked(panic: &PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("it said nothing");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    to_stderr(&format!("error: memfold has a defect: {what}{place}"));
    to_stderr("hint: please report it with this line; RUST_BACKTRACE=1 says more");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        to_stderr(&backtrace.to_string());
    }
}

fn to_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("write to stdout", &error, None))
        }
        _ => Ok(()),
    }
}

fn unprinted(error: &serde_json::Error) -> Failure {
    Failure::new("print the document", error, None)
}

fn to_stderr(text: &str) {
    // Nobody is left to be told when stderr is gone.
    let _unread = writeln!(io::stderr().lock(), "{}", printable(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run ids and keys of the configuration were broken in two at 80 columns, and tables in a pipe were wrapped.
    #[test]
    fn words_of_a_table_stay_whole() {
        let run = "20260630T120000Z-00112233";
        let key = "quick_check.contradiction_similarity";
        let remark = "some words that can be wrapped as often as the width asks for".repeat(2);
        let rows = || vec![vec![run.to_owned(), key.to_owned(), remark.clone()]];
        for columns in [None, Some(80), Some(40)] {
            let text = laid_out(&["run", "key", "remark"], rows(), columns);
            assert!(text.contains(run) && text.contains(key), "{columns:?}\n{text}");
            assert_eq!(columns.is_none(), text.lines().count() == 2, "{text}");
            let widest = text.lines().map(measure_text_width).max();
            assert!(columns != Some(80) || widest <= Some(80), "{text}");
        }
    }
}
