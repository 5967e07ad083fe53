//! Shared code of commands that write: words to repeat in commands, and the files of a run.

use std::io::Read as _;
use std::path::Path;

use memfold::execute::Execution;
use memfold::ops::{RunFiles, StorePath, Written, log_ended};
use memfold_core::report::{ReportPaths, ensure_report_dir, log_lines};

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::printer::Printer;

pub(crate) use memfold::ops::{counted, noun, path_word, store_words, undo_words};

/// Number of first bytes that identify a plan or a page of metrics.
const HEAD_BYTES: u64 = 512;

/// Words of a command line, to be typed again.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Adds a word.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Self {
        self.0.push(word.into());
        self
    }

    /// Adds a flag, where it was given.
    pub(crate) fn flag(mut self, flag: &str, is_given: bool) -> Self {
        self.0.extend(is_given.then(|| flag.to_owned()));
        self
    }

    /// Adds a flag with each of its values.
    pub(crate) fn values<T: ToString>(
        mut self,
        flag: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        for value in values {
            self.0.extend([flag.to_owned(), value.to_string()]);
        }
        self
    }

    /// Adds a flag with a path.
    pub(crate) fn path(self, flag: &str, path: Option<&Path>) -> Self {
        self.values(flag, path.map(path_word))
    }

    /// Adds the options of every command that must be typed again for a command to do the same.
    pub(crate) fn global(self, global: &GlobalArgs) -> Self {
        self.path("--config", global.sources.config.as_deref()).values("--set", &global.sources.set)
    }

    /// Returns the words.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }

    /// Returns the command line of a command about a store with these words behind it.
    pub(crate) fn command(&self, command: &str, store: &StorePath) -> String {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        store_words(&["memfold", command], store, &words)
    }
}

/// The options of every command that must be typed again for a command to do the same.
pub(crate) fn global_words(global: &GlobalArgs) -> Vec<String> {
    Words::default().global(global).into_vec()
}

/// The first `most` words, and how many more there are.
pub(crate) fn few(words: &[String], most: usize) -> String {
    let shown = words[..words.len().min(most)].join(", ");
    match words.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Refuses files of a run that cannot be written or must not, before it begins. The report's folder is made.
pub(crate) fn check_files(files: &RunFiles, mut outputs: Outputs) -> Result<(), Failure> {
    let unreported = |error| Failure::of("write the report", &error);
    if let Some(path) = &files.plan {
        outputs.take("--plan", path, Existing::ReplaceIf(is_plan))?;
    }
    if let Some(path) = &files.metrics {
        outputs.take("--metrics", path, Existing::ReplaceIf(is_metrics))?;
    }
    if let Some(path) = &files.report {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure_report_dir(folder.unwrap_or(Path::new("."))).map_err(unreported)?;
        let ReportPaths { json, markdown } = ReportPaths::of(path);
        outputs.take("--report", &json, Existing::Never)?;
        outputs.take("the Markdown of --report", &markdown, Existing::Never)?;
    }
    if let Some(folder) = &files.report_dir {
        ensure_report_dir(folder).map_err(unreported)?;
    }
    Ok(())
}

/// Reports the written files and, for a run that stands, failures to write. Returns whether all
/// were written.
pub(crate) fn tell_written(
    written: &Written,
    store: &StorePath,
    run_id: &str,
    printer: Printer,
) -> bool {
    for path in &written.files {
        printer.note(&format!("wrote {}", path.display()));
    }
    for failure in &written.failures {
        printer.failure(failure);
    }
    if !written.failures.is_empty() {
        let undo = undo_words(store, run_id);
        printer.failure_note(&format!("note: run {run_id} stands; to take it back: {undo}"));
    }
    written.failures.is_empty()
}

/// Ends a run that wrote to the store.
pub(crate) fn end_run(
    execution: &Execution,
    written: &Written,
    store: &StorePath,
    printer: Printer,
) -> Exit {
    let is_whole = tell_written(written, store, &execution.run_id, printer);
    log_ended(execution.state, execution.executed, execution.remaining, is_whole, &printer);
    match Exit::from(execution.state) {
        Exit::Done if !is_whole => Exit::Partial,
        exit => exit,
    }
}

/// Tells a command's log that it failed.
pub(crate) fn log_failed(done: Result<Exit, Failure>, printer: Printer) -> Result<Exit, Failure> {
    if let Err(failure) = &done {
        printer.detail(&log_lines::error(&failure.message));
    }
    done
}

/// Tells whether a file is a plan of an earlier run, or empty.
fn is_plan(path: &Path) -> bool {
    head(path).is_some_and(|head| {
        head.is_empty()
            || head.starts_with('{')
                && head.contains("\"schema_version\"")
                && head.contains("\"store_id\"")
    })
}

/// Tells whether a file holds metrics of an earlier run, or nothing.
fn is_metrics(path: &Path) -> bool {
    head(path).is_some_and(|head| head.is_empty() || head.starts_with("# HELP memfold_"))
}

fn head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
