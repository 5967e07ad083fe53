//! Progress bars and Ctrl-C of a running command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use memfold::ops::Listener;
use memfold_index::Progress;

use crate::printer::Printer;

/// Shows stages as bars on stderr and carries Ctrl-C.
pub struct Bars {
    printer: Printer,
    bar: Mutex<ProgressBar>,
    interrupted: Arc<AtomicBool>,
}

impl std::fmt::Debug for Bars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bars").field("interrupted", &self.interrupted).finish_non_exhaustive()
    }
}

impl Bars {
    /// Makes bars and catches Ctrl-C: once asks the work to stop, twice ends the process.
    pub fn new(printer: Printer) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        let caught = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                end_now();
            }
        });
        if caught.is_err() {
            printer.detail("Ctrl-C ends the process at once here");
        }
        Self { printer, bar: Mutex::new(ProgressBar::hidden()), interrupted }
    }
}

#[expect(clippy::exit, reason = "the second Ctrl-C must end even work that does not listen")]
fn end_now() {
    std::process::exit(130);
}

impl Drop for Bars {
    /// Clears the bar of a stage that failed.
    fn drop(&mut self) {
        self.end();
    }
}

impl Progress for Bars {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.finish_and_clear();
        *bar = self.printer.bar(stage, total);
    }

    fn advance(&self, done: u64) {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).inc(done);
    }

    fn end(&self) {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).finish_and_clear();
    }

    fn cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Listener for Bars {
    fn note(&self, text: &str) {
        self.printer.note(text);
    }

    fn detail(&self, text: &str) {
        self.printer.detail(text);
    }
}
