//! The only file that prints: data to stdout, everything else to stderr.
//!
//! All output passes [`printable`] or [`printable_json`] last, so that no text of a store, a file
//! or a command line can steer a terminal or hide in the output.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle, Width};
use console::{Term, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memfold::ops::Listener;
use memfold_guard::text::{printable, printable_json};
use memfold_index::Progress;
use serde::Serialize;

use crate::failure::{Exit, Failure};

/// Checks the published schemas of documents: `documents! { "name" => Type }`, where `docs/schemas/name.schema.json`
/// is the type's schema. Once in a module.
#[macro_export]
macro_rules! documents {
    ($($name:literal => $document:ty),+ $(,)?) => {
        #[cfg(test)]
        mod published {
            use super::*;

            #[test]
            fn schemas_are_those_of_the_documents() {
                $(memfold_tests::assert_published::<$document>($name);)+
            }
        }
    };
}

pub use crate::documents;

/// Prints for one command.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    quiet: bool,
    verbose: bool,
    progress: bool,
    json: bool,
}

impl Printer {
    /// Makes a printer; progress shows on a terminal only.
    pub fn new(quiet: bool, verbose: bool, no_progress: bool) -> Self {
        let progress = !quiet && !no_progress && io::stderr().is_terminal();
        Self { quiet, verbose, progress, json: false }
    }

    /// Returns it so that each line on stderr is a JSON object.
    pub const fn logging_json(self, json: bool) -> Self {
        Self { json, ..self }
    }

    /// Writes data to stdout.
    ///
    /// # Errors
    /// When stdout cannot be written; a reader that has gone away is not an error.
    pub fn data(self, text: &str) -> Result<(), Failure> {
        to_stdout(&printable(text))
    }

    /// Tells whether details are wanted.
    pub const fn is_verbose(self) -> bool {
        self.verbose
    }

    /// Writes a screen to a terminal in place of its content; the cursor stays behind it.
    pub fn page(self, terminal: &Term, text: &str) -> Result<(), Failure> {
        terminal
            .clear_screen()
            .map_err(|error| Failure::new("write to the terminal", &error, None))?;
        self.data(text)
    }

    /// Writes a document to stdout as JSON.
    pub fn document(self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document).map_err(|error| unprinted(&error))?;
        to_stdout(&printable_json(&(text + "\n")))
    }

    /// Writes a result to stdout: as a document of JSON, or as text.
    pub fn show(
        self,
        as_json: bool,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, Failure> {
        if as_json {
            self.document(document)?
        } else {
            self.data(&text())?
        }
        Ok(Exit::Done)
    }

    /// Writes a document to stdout as one line of JSON, where others follow.
    pub fn document_line(self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(|error| unprinted(&error))?;
        to_stdout(&printable_json(&(text + "\n")))
    }

    /// Writes a remark to stderr, unless quiet.
    pub fn note(self, text: &str) {
        if !self.quiet {
            self.log("info", text);
        }
    }

    /// Writes a remark to stderr in verbose mode.
    pub fn detail(self, text: &str) {
        if self.verbose {
            self.log("info", text);
        }
    }

    /// Writes a failure to stderr.
    pub fn failure(self, failure: &Failure) {
        if self.json {
            let mut line = line_of("error", &failure.message);
            if let Some(hint) = &failure.hint {
                line.insert("hint".to_owned(), hint.as_str().into());
            }
            return json_to_stderr(line);
        }
        to_stderr(&format!("error: {}", failure.message));
        if let Some(hint) = &failure.hint {
            to_stderr(&format!("hint: {hint}"));
        }
    }

    /// Writes notes on a failure, or other essential ones, to stderr, also where it is quiet.
    pub fn failure_note(self, text: &str) {
        self.log("info", text);
    }

    /// Writes a line about a stage to stderr: in JSON the fields, else the text.
    pub fn stage(self, text: impl FnOnce() -> String, fields: impl FnOnce() -> Fields) {
        if !self.json {
            return to_stderr(&text());
        }
        let mut line = line_of("info", "");
        line.remove("message");
        line.extend(fields());
        json_to_stderr(line);
    }

    fn log(self, level: &str, text: &str) {
        match self.json {
            true => json_to_stderr(line_of(level, text)),
            false => to_stderr(text),
        }
    }

    /// Returns a hidden or visible progress bar; `total` of `None` spins.
    pub fn bar(self, stage: &'static str, total: Option<u64>) -> ProgressBar {
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

/// Remarks of work that shows no progress.
impl Listener for Printer {
    fn note(&self, text: &str) {
        Self::note(*self, text);
    }

    fn detail(&self, text: &str) {
        Self::detail(*self, text);
    }
}

impl Progress for Printer {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}

    fn advance(&self, _done: u64) {}

    fn end(&self) {}

    fn cancelled(&self) -> bool {
        false
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
#[must_use]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

impl Exit {
    /// Prints clap's output for a command line: help and the version to stdout with 0, mistakes to
    /// stderr with 2.
    #[must_use]
    pub fn of_usage(error: &clap::Error, typed: &[OsString]) -> Self {
        usage(error, typed);
        if error.use_stderr() { Self::Usage } else { Self::Done }
    }
}

/// Writes the error of a command line, or the requested help.
fn usage(error: &clap::Error, typed: &[OsString]) {
    let is_plain = |word: &OsString| matches!(printable(&word.to_string_lossy()), Cow::Borrowed(_));
    if typed.iter().all(is_plain) {
        // With a closed stream, nobody can read a message.
        let _unread = error.print();
    } else {
        to_stderr(error.render().to_string().trim_end());
    }
}

/// Writes to stderr that the program has a defect.
pub fn panicked(panic: &PanicHookInfo<'_>) {
    // A damaged file, which an error names.
    if memfold_datasets::is_catching_panics() {
        return;
    }
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
    bytes_to_stdout(text.as_bytes())
}

fn bytes_to_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
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
    // With stderr closed, nobody can read a message.
    let _unread = writeln!(io::stderr().lock(), "{}", printable(text));
}

/// The fields of a line.
pub type Fields = serde_json::Map<String, serde_json::Value>;

fn line_of(level: &str, message: &str) -> Fields {
    let time = memfold::machine::clock().to_rfc3339();
    let fields = [("time", time.as_str()), ("level", level), ("message", message)];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn json_to_stderr(line: Fields) {
    let line = serde_json::Value::Object(line).to_string();
    // With stderr closed, nobody can read a message.
    let _unread = writeln!(io::stderr().lock(), "{}", printable_json(&line));
}

/// Columns of a screen.
pub const COLUMNS: usize = 80;

/// Breaks a text at its spaces into lines of at most `columns` columns; a wider word is broken.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        for piece in pieces(word, columns) {
            let width = measure_text_width(&piece);
            if used > 0 && used + 1 + width > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&piece);
            used += width;
        }
    }
    lines.push(line);
    lines
}

/// A word in pieces that fit.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    if measure_text_width(word) <= columns {
        return vec![word.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for character in word.chars() {
        let width = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if used + width > columns {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
        used += width;
    }
    pieces
}

/// Keeps the first `most` lines; the last one then says how much is hidden.
pub fn cut(mut lines: Vec<String>, most: usize, columns: usize) -> Vec<String> {
    if lines.len() <= most || most == 0 {
        lines.truncate(most);
        return lines;
    }
    let mut hidden: usize = lines[most..].iter().map(|line| line.chars().count() + 1).sum();
    lines.truncate(most);
    if let Some(last) = lines.last_mut() {
        // The count may get one digit longer while the line gets shorter.
        while measure_text_width(last) + measure_text_width(&more(hidden + 9)) > columns {
            if last.pop().is_none() {
                break;
            }
            hidden += 1;
        }
        let kept = last.trim_end().to_owned();
        *last = kept + &more(hidden);
    }
    lines
}

fn more(hidden: usize) -> String {
    format!("… ({hidden} more characters: v)")
}

/// One line of at most a screen's columns.
pub fn line(text: &str) -> String {
    let mut line = text.to_owned();
    if measure_text_width(&line) <= COLUMNS {
        return line;
    }
    while measure_text_width(&line) >= COLUMNS {
        line.pop();
    }
    line.trim_end().to_owned() + "…"
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

    #[test]
    fn lines_are_as_wide_as_allowed() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 5), [""]);
        // These characters take two columns each.
        assert_eq!(wrap("水水水水", 5), ["水水", "水水"]);
    }

    #[test]
    fn what_is_cut_is_counted() {
        let text = "word ".repeat(30);
        let all = wrap(&text, 40);
        let shown = cut(all.clone(), 2, 40);
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|line| measure_text_width(line) <= 40), "{shown:?}");
        let (kept, said) = shown[1].split_once("… (").unwrap();
        let hidden: usize = said.split(' ').next().unwrap().parse().unwrap();
        let told = shown[0].len() + 1 + kept.len() + hidden;
        assert!(told.abs_diff(text.len()) <= 2, "{told} of {}", text.len());
        assert_eq!(cut(all.clone(), 9, 40), all);
    }

    #[test]
    fn a_line_stays_one() {
        assert_eq!(measure_text_width(&line(&"水".repeat(60))), 79);
        assert_eq!(line("short"), "short");
    }
}
