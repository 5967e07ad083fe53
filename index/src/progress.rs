//! How long work tells what it is doing, and learns that it should stop.

/// Receives the progress of long work and carries the wish to stop.
///
/// Implementations are cheap: they are called once per batch, from any thread.
pub trait Progress: Sync {
    /// Begins a stage of `total` units (`None`: unknown).
    fn begin(&self, stage: &'static str, total: Option<u64>);
    /// Adds `done` finished units to the current stage.
    fn advance(&self, done: u64);
    /// Ends the current stage.
    fn end(&self);
    /// Tells whether the caller asked to stop (Ctrl-C). Long loops ask once per batch.
    fn cancelled(&self) -> bool;
}

/// Shows nothing and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        false
    }
}
