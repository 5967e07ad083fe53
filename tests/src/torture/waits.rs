//! [`Waits`]: how long somebody had to wait.

use memfold_bench::percentile;
use serde::Serialize;

/// Percentiles of waits, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Waits {
    /// How many waits there were.
    pub count: u64,
    /// Half of them were no longer than this.
    pub p50_ms: f64,
    /// All but a hundredth.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Waits {
    /// Takes waits in seconds, in any order.
    #[must_use]
    pub fn of(seconds: &[f64]) -> Self {
        let [p50_ms, p99_ms, max_ms] =
            [0.5, 0.99, 1.0].map(|share| percentile(seconds, share) * 1e3);
        Self { count: seconds.len() as u64, p50_ms, p99_ms, max_ms }
    }
}
