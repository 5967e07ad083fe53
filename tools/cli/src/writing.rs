//! What all commands that write to a store share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use memfold::execute::{ExecuteError, Execution, UnitResult, forbidden_by};
use memfold::machine;
use memfold_core::plan::action_label;
use memfold_core::report::{ReportFileError, ensure_report_dir, state_report_dir};
use memfold_core::runs::RunState;
use memfold_datasets::atomic_file::stay_within;
use memfold_guard::text::excerpt;
use memfold_store::brain_db::{BackupOutcome, Session, SessionError, SessionOptions};

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::settings::Settings;

/// Tells whether a command may write: it was asked to, and nothing forbids it.
pub(crate) fn may_write(
    settings: &Settings,
    execute: bool,
    dry_run: bool,
    printer: Printer,
) -> bool {
    if !execute {
        return false;
    }
    let obstacle = match forbidden_by(&settings.configuration.settings) {
        _ if dry_run => "--dry-run wins over --execute".to_owned(),
        Some(setting) => format!("{setting}, which beats --execute"),
        None => return true,
    };
    printer.note(&format!("note: {obstacle}: nothing will be written"));
    false
}

/// Opens a store for a run.
///
/// # Errors
/// When it cannot be written, or another run holds it.
pub fn open_session(path: &Path, settings: &Settings) -> Result<Session, Failure> {
    Session::open(path, &session_options(settings))
        .map_err(|error| session_failure("write to the store", &error))
}

/// Opens a store for writes to memfold's own tables.
///
/// # Errors
/// When it cannot be written.
pub fn open_own_tables(path: &Path, settings: &Settings) -> Result<Session, Failure> {
    Session::open_beside_runs(path, &session_options(settings))
        .map_err(|error| session_failure("write to the store", &error))
}

/// Who writes, and how patiently.
pub fn session_options(settings: &Settings) -> SessionOptions {
    let timeout = settings.configuration.settings.busy_timeout_ms;
    SessionOptions {
        busy_timeout: Duration::from_millis(timeout.into()),
        holder: machine::holder(),
    }
}

/// A failure of the store, with its exit code.
pub fn session_failure(what: &str, error: &SessionError) -> Failure {
    let exit = if error.is_locked_by_run() { Exit::Locked } else { Exit::Failure };
    Failure { exit, ..Failure::new(what, error, error.hint()) }
}

/// A failure to execute, with its exit code.
pub(crate) fn execute_failure(error: &ExecuteError) -> Failure {
    match error {
        ExecuteError::Session(error) => session_failure("execute", error),
        ExecuteError::Unguarded { .. } => Failure::usage(error.to_string(), hint_of(error)),
        ExecuteError::AnotherPlan { .. } | ExecuteError::TooManyChanges { .. } => {
            Failure::refused(error.to_string(), hint_of(error))
        }
        error => Failure::new("execute", error, error.hint()),
    }
}

fn hint_of(error: &ExecuteError) -> String {
    error.hint().unwrap_or_default()
}

/// A failure to undo, with its exit code.
pub(crate) fn undo_failure(error: &ExecuteError) -> Failure {
    match error {
        ExecuteError::Session(error) => session_failure("undo", error),
        error => Failure::new("undo", error, error.hint()),
    }
}

/// Finds a folder for the reports of runs that write: `reports/consolidation` beside the store, or one in
/// the user's state folder.
pub(crate) fn report_dir(store: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: ReportFileError| {
        let hint = error.hint();
        Failure::new("find a place for the report; nothing was executed", &error, hint)
    };
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let home = store.parent().unwrap_or(Path::new("."));
    let beside = home.join("reports").join("consolidation");
    let ensured = stay_within(home, &beside)
        .map_err(|error| ReportFileError::CreateFolder { path: beside.clone(), error })
        .and_then(|()| ensure_report_dir(&beside));
    match (ensured, state_report_dir(&store)) {
        (Ok(()), _) => Ok(beside),
        (Err(_), Some(folder)) => ensure_report_dir(&folder).map(|()| folder).map_err(failed),
        (Err(error), None) => Err(failed(error)),
    }
}

/// Tells what became of the copy that is made before a store is first changed.
pub(crate) fn note_backup(execution: &Execution, printer: Printer) {
    match &execution.backup {
        Some(BackupOutcome::Made { path }) => {
            printer.note(&format!("copied the store as it was to {}", path.display()));
        }
        Some(BackupOutcome::Skipped { reason }) => {
            printer.note(&format!("note: no copy of the store was made: {reason}"));
        }
        None => {}
    }
}

/// Words as a command line, for messages.
pub(crate) fn command_line(words: &[&str]) -> String {
    memfold_core::report::shell_words(words)
}

/// A command about a store as a command line: the words before the store, the store, those after it.
pub(crate) fn store_words(before: &[&str], store: &Path, after: &[&str]) -> String {
    let store = path_word(store);
    command_line(&[before, &[&store], after].concat())
}

/// The mirrors that this process works on, each with the store that was named.
static SHOWN_AS: RwLock<BTreeMap<PathBuf, PathBuf>> = RwLock::new(BTreeMap::new());

/// From now on, messages name the store where they are about its mirror.
pub(crate) fn show_as(mirror: &Path, origin: &Path) {
    let mut shown = SHOWN_AS.write().unwrap_or_else(PoisonError::into_inner);
    shown.insert(mirror.to_owned(), origin.to_owned());
}

fn origin_of(mirror: &Path) -> Option<PathBuf> {
    SHOWN_AS.read().unwrap_or_else(PoisonError::into_inner).get(mirror).cloned()
}

/// The store that was named, where the command works on its mirror.
pub(crate) fn named_for(mirror: &Path) -> Option<PathBuf> {
    origin_of(mirror).map(|origin| origin.canonicalize().unwrap_or(origin))
}

/// A path as a word of a command line, where it must not be taken for a flag.
pub(crate) fn path_word(path: &Path) -> String {
    let shown = origin_of(path);
    let word = shown.as_deref().unwrap_or(path).to_string_lossy();
    if word.starts_with('-') { format!("./{word}") } else { word.into_owned() }
}

/// The options of every command that must be typed again for a command to do the same.
pub(crate) fn global_words(global: &GlobalArgs) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(file) = &global.config {
        words.extend(["--config".to_owned(), path_word(file)]);
    }
    for setting in &global.set {
        words.extend(["--set".to_owned(), setting.clone()]);
    }
    words
}

/// A count with its noun: `1 unit`, `1,204 units`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", memfold_core::report::grouped(count), noun(count, one, many))
}

/// The noun of a count.
pub(crate) const fn noun<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Tells what a run did, and how to go on, with further words of the command line.
pub(crate) fn note_execution(
    store: &Path,
    further: &[String],
    execution: &Execution,
    printer: Printer,
) {
    let Execution { run_id, plan_id, executed, remaining, .. } = execution;
    printer.note(&format!(
        "run {run_id}: {} applied, {} stale, {} failed{}",
        counted(executed.applied, "unit", "units"),
        executed.stale,
        executed.failed,
        if *remaining > 0 { format!(", {remaining} not tried") } else { String::new() }
    ));
    for note in &execution.notes {
        printer.note(&format!("note: {note}"));
    }
    for outcome in execution.outcomes.iter().filter(|o| o.result != UnitResult::Applied).take(SHOWN)
    {
        if let UnitResult::Stale(reason) | UnitResult::Failed(reason) = &outcome.result {
            printer.note(&format!("  {}: {}", outcome.label, excerpt(reason, REASON_CHARS)));
        }
    }
    for blocked in execution.blocked.iter().take(SHOWN) {
        let (action, needs) = (action_label(blocked.position), action_label(blocked.needs));
        printer.note(&format!("  {action}: not applied, it rests on {needs}"));
    }
    if *remaining > 0 {
        let after = [&[plan_id.as_str(), "--execute"][..], &strs(further)].concat();
        printer.note(&format!("to go on: {}", store_words(&["memfold", "apply"], store, &after)));
    }
}

/// Words as slices.
pub(crate) fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Outcomes that are told one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 200;

/// How a command ends that ran something.
pub(crate) const fn exit_of(state: RunState) -> Exit {
    match state {
        RunState::Done | RunState::Running => Exit::Done,
        RunState::Partial => Exit::Partial,
        RunState::Interrupted => Exit::Interrupted,
        RunState::Failed => Exit::Failure,
    }
}
