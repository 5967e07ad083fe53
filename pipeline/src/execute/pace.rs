//! How a run shows that it lives, and lets others at the store.

use std::time::Duration;

use memfold_model::time::Instant;

/// The run's time moved on by what has passed since it began: it shows that the run is alive.
pub(super) fn heartbeat(now: Instant, clock: &dyn Fn() -> f64, started: f64) -> Instant {
    Instant(now.0.saturating_add(((clock() - started) * 1e6) as i64))
}

/// Others wait for the store by trying again after pauses that grow to 100 ms. With every second moment
/// theirs, hardly anybody meets a closed door many times in a row.
const GIVE_WAY_MAX: Duration = Duration::from_millis(100);

/// Lets others at the store for as long as they just had to wait.
pub(super) fn give_way(held_seconds: f64) {
    let held = Duration::try_from_secs_f64(held_seconds).unwrap_or_default();
    std::thread::sleep(held.min(GIVE_WAY_MAX));
}
