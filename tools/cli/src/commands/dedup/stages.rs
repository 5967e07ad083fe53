//! [`Stages`]: progress that remembers when the comparison began.

use std::sync::{Mutex, PoisonError};

use memfold_index::Progress;

use crate::resources::Stopwatch;

/// The stage of a join that follows preparation.
const COMPARISON: &str = "compare pairs";

/// Shows progress as `inner` does, and tells preparing from comparing.
pub(super) struct Stages<'a> {
    inner: &'a dyn Progress,
    stopwatch: Stopwatch,
    compared_at: Mutex<Option<f64>>,
}

impl<'a> Stages<'a> {
    pub(super) fn start(inner: &'a dyn Progress) -> Self {
        Self { inner, stopwatch: Stopwatch::start(), compared_at: Mutex::new(None) }
    }

    /// Returns the seconds before the comparison, and since it began.
    pub(super) fn split(&self) -> (f64, f64) {
        let now = self.stopwatch.seconds();
        let compared_at = *self.compared_at.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = compared_at.unwrap_or(now);
        (prepared, now - prepared)
    }
}

impl Progress for Stages<'_> {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        if stage == COMPARISON {
            let mut compared_at = self.compared_at.lock().unwrap_or_else(PoisonError::into_inner);
            *compared_at = Some(self.stopwatch.seconds());
        }
        self.inner.begin(stage, total);
    }

    fn advance(&self, done: u64) {
        self.inner.advance(done);
    }

    fn end(&self) {
        self.inner.end();
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled()
    }
}
