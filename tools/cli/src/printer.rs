//! The only file that prints: data to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, TableStyle};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::document::Document;
use crate::failure::Failure;

/// Columns of a table on a terminal of unknown width, and in a pipe.
const WIDTH_DEFAULT: u16 = 80;

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
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new("write to stdout", &error, None))
            }
            _ => Ok(()),
        }
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
        self.data(&(text + "\n"))
    }

    /// Writes a document to stdout as one line of JSON, where others follow.
    pub fn document_line(self, document: &impl Document) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(|error| unprinted(&error))?;
        self.data(&(text + "\n"))
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

/// Returns a table that fits the terminal, or 80 columns in a pipe.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
    if !io::stdout().is_terminal() {
        table.set_width(WIDTH_DEFAULT);
    }
    table.set_header(header).add_rows(rows);
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn unprinted(error: &serde_json::Error) -> Failure {
    Failure::new("print the document", error, None)
}

fn to_stderr(text: &str) {
    // Nobody is left to be told when stderr is gone.
    let _unread = writeln!(io::stderr().lock(), "{text}");
}
