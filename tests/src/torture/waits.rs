//! [`Waits`]: how long somebody had to wait.

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
    pub fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let Some(&max) = seconds.last() else { return Self::default() };
        let at = |share: f64| {
            let rank = (share * seconds.len() as f64).ceil() as usize;
            seconds[rank.clamp(1, seconds.len()) - 1] * 1e3
        };
        let count = seconds.len() as u64;
        Self { count, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: max * 1e3 }
    }
}
