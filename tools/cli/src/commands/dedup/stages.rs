//! [`Stages`]: progress that remembers when preparing ended and when auditing began.

use std::sync::{Mutex, PoisonError};

use memfold_index::Progress;

use crate::resources::Stopwatch;

/// The stages of a join that follow preparation: of the exact one, and of that by a graph, …
const COMPARISONS: [&str; 2] = ["compare pairs", "search near rows"];

/// … and the one after that.
const AUDIT: &str = "audit pairs";

/// Shows progress as `inner` does, and tells preparing, comparing and auditing apart.
pub(super) struct Stages<'a> {
    inner: &'a dyn Progress,
    stopwatch: Stopwatch,
    begun: Mutex<Begun>,
}

/// When stages began, in seconds.
#[derive(Clone, Copy, Default)]
struct Begun {
    comparison: Option<f64>,
    audit: Option<f64>,
}

impl<'a> Stages<'a> {
    pub(super) fn start(inner: &'a dyn Progress) -> Self {
        Self { inner, stopwatch: Stopwatch::start(), begun: Mutex::default() }
    }

    /// Returns the seconds before the comparison, from there to the audit, and since that began.
    pub(super) fn split(&self) -> [f64; 3] {
        let now = self.stopwatch.seconds();
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let audited = begun.audit.unwrap_or(now);
        let compared = begun.comparison.unwrap_or(audited);
        [compared, audited - compared, now - audited]
    }
}

impl Progress for Stages<'_> {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some(self.stopwatch.seconds());
        match stage {
            AUDIT => begun.audit = now,
            stage if COMPARISONS.contains(&stage) => begun.comparison = now,
            _ => {}
        }
        drop(begun);
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
