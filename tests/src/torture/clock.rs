//! [`Clock`]: the one place here that reads the time.
#![expect(clippy::disallowed_methods, reason = "waits of other processes are measured here")]

use std::time::{Duration, Instant};

/// Time since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the seconds since the start.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}
