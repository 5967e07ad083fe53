//! The thread pool: the only home of rayon.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;

use rayon::prelude::*;

/// A pool of worker threads whose results come back in task order.
///
/// Nothing computed on it depends on the number of threads.
#[derive(Debug)]
pub struct Pool {
    inner: rayon::ThreadPool,
}

/// The operating system refused to start the worker threads.
#[derive(Debug, thiserror::Error)]
#[error("start {threads} worker threads: {reason}")]
pub struct StartPoolError {
    threads: usize,
    reason: String,
}

impl Pool {
    /// Starts `threads` workers, or one for each core when `None`.
    ///
    /// # Errors
    /// When the operating system refuses to start a thread.
    pub fn new(threads: Option<NonZeroUsize>) -> Result<Self, StartPoolError> {
        let threads = threads.map_or_else(default_threads, NonZeroUsize::get);
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("memfold-{i}"))
            .build()
            .map(|inner| Self { inner })
            .map_err(|e| StartPoolError { threads, reason: e.to_string() })
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.inner.current_num_threads()
    }

    /// Computes `task(0), …, task(count - 1)` in parallel and returns the results in that order.
    pub fn map<T: Send>(&self, count: usize, task: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        self.inner.install(|| (0..count).into_par_iter().map(task).collect())
    }

    /// Computes `task` for `0..count` in batches of `len`, in order; `None` where the caller asked to stop.
    pub(crate) fn map_batches<T: Send>(
        &self,
        count: usize,
        len: usize,
        progress: &dyn Progress,
        task: impl Fn(Range<usize>) -> T + Sync + Send,
    ) -> Option<Vec<T>> {
        let batches = self.map(count.div_ceil(len), |batch| {
            let range = batch * len..count.min((batch + 1) * len);
            (!progress.cancelled()).then(|| task(range))
        });
        batches.into_iter().collect()
    }

    /// As [`map`](Self::map), with something that tasks use again: as many are made as run at a time.
    pub(crate) fn map_reusing<S: Send, T: Send, E: Send>(
        &self,
        count: usize,
        make: impl Fn() -> Result<S, E> + Sync + Send,
        task: impl Fn(&mut S, usize) -> Result<T, E> + Sync + Send,
    ) -> Result<Vec<T>, E> {
        let idle = Mutex::new(Vec::new());
        let done = self.map(count, |number| {
            let taken = idle.lock().ok().and_then(|mut idle| idle.pop());
            let mut used = taken.map_or_else(&make, Ok)?;
            let done = task(&mut used, number)?;
            if let Ok(mut idle) = idle.lock() {
                idle.push(used);
            }
            Ok(done)
        });
        done.into_iter().collect()
    }

    /// Sorts a slice by a key that is unique for each element, in parallel.
    pub fn sort_by_key<T: Send, K: Ord>(
        &self,
        items: &mut [T],
        key: impl Fn(&T) -> K + Sync + Send,
    ) {
        self.inner.install(|| items.par_sort_unstable_by_key(key));
    }
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_task_order() {
        for threads in [1, 2, 8] {
            let pool = Pool::new(NonZeroUsize::new(threads)).unwrap();
            assert_eq!(pool.threads(), threads);
            let results = pool.map(1_000, |task| task * task);
            assert!(results.into_iter().eq((0..1_000).map(|task| task * task)));
        }
    }

    #[test]
    fn sorting_orders_by_the_key() {
        let mut items: Vec<u32> = (0..5_000).map(|at| at * 7_919 % 5_003).collect();
        Pool::new(None).unwrap().sort_by_key(&mut items, |&item| std::cmp::Reverse(item));
        assert!(items.is_sorted_by(|a, b| a > b));
    }
}
