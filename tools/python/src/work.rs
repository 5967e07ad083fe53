//! Long work beside the interpreter: without its lock, with Ctrl-C and progress; and exceptions with hints.

use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use memfold::ops::Listener;
use memfold_index::Progress;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The exceptions that Python sees; each takes a message and a hint.
mod exceptions {
    pyo3::import_exception!(memfold._errors, InputError);
    pyo3::import_exception!(memfold._errors, StoreError);
    pyo3::import_exception!(memfold._errors, RefusedError);
}

/// How often signals are checked and progress is displayed: Ctrl-C is to work within 100 ms.
const TICK: Duration = Duration::from_millis(25);

/// Hints speak of the command line's options; these have other names here.
const RENAMED: &[(&str, &str)] = &[
    ("--vector-column NAME", "vector_column=\"NAME\""),
    ("--threshold", "threshold="),
    ("--allow-unguarded", "the command line's --allow-unguarded"),
    ("give one with --text", "give one"),
    ("or give --vector", "or give a vector"),
    ("--source chat", "source=\"chat\""),
];

/// Which exception is raised.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The input cannot be used.
    Input,
    /// A store or a file cannot be read or written.
    Store,
    /// A write was refused; nothing was written.
    Refused,
}

/// Returns an exception with its hint.
pub(crate) fn error(kind: Kind, message: impl Display, hint: Option<String>) -> PyErr {
    let hint = hint.map(|hint| {
        RENAMED.iter().fold(hint, |hint, (option, argument)| hint.replace(option, argument))
    });
    let arguments = (message.to_string(), hint);
    match kind {
        Kind::Input => exceptions::InputError::new_err(arguments),
        Kind::Store => exceptions::StoreError::new_err(arguments),
        Kind::Refused => exceptions::RefusedError::new_err(arguments),
    }
}

/// Returns an exception about the input, with advice.
pub(crate) fn input(message: impl Display, hint: &str) -> PyErr {
    error(Kind::Input, message, Some(hint.to_owned()))
}

/// Returns the exception of interrupted work.
pub(crate) fn interrupted() -> PyErr {
    PyKeyboardInterrupt::new_err("interrupted")
}

/// Progress of work, and its cancellation.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    cancelled: AtomicBool,
    done: AtomicU64,
    stage: Mutex<Option<(&'static str, Option<u64>)>>,
}

impl Progress for Watch {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some((stage, total));
        self.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    fn end(&self) {}

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// The remarks of work that shows its progress are passed over.
impl Listener for Watch {
    fn note(&self, _text: &str) {}

    fn detail(&self, _text: &str) {}
}

/// Does work on a thread of its own, with the interpreter's lock released, while this one checks
/// signals and calls `shown(stage, done, total)`.
///
/// # Errors
/// `KeyboardInterrupt`, or another exception of a signal handler or of `shown`. The work was
/// cancelled and has ended then.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    watch: &Arc<Watch>,
    shown: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    watch.cancelled.store(false, Ordering::Relaxed);
    let ended = AtomicBool::new(false);
    let caller = thread::current();
    let (result, raised) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // Dropped also when the work panics.
            let _bell = Bell { ended: &ended, caller: &caller };
            work(watch)
        });
        let mut raised = Ok(());
        while !ended.load(Ordering::Acquire) {
            py.detach(|| thread::park_timeout(TICK));
            if raised.is_ok() {
                raised = py.check_signals().and_then(|()| show(watch, shown));
                watch.cancelled.store(raised.is_err(), Ordering::Relaxed);
            }
        }
        (py.detach(|| worker.join()), raised)
    });
    raised?;
    // PyO3 makes an exception of a panic, so none crosses into the interpreter.
    result.or_else(|panic| resume_unwind(panic))
}

/// Wakes the thread that waits for the end of work.
struct Bell<'a> {
    ended: &'a AtomicBool,
    caller: &'a thread::Thread,
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.caller.unpark();
    }
}

fn show(watch: &Watch, shown: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(shown) = shown else { return Ok(()) };
    let stage = *watch.stage.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((stage, total)) = stage {
        shown.call1((stage, watch.done.load(Ordering::Relaxed), total))?;
    }
    Ok(())
}
