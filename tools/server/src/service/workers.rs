//! [`Workers`]: the engine is blocking, so it is called on a bounded pool of threads.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::Span;

use super::problem::{Problem, ProblemKind};

/// Requests that may wait for each worker: more would wait longer than their callers.
const WAITING_PER_WORKER: usize = 16;

/// Threads beside which requests wait, and beyond these are turned away.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    at_work: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

impl Workers {
    /// Allows `count` calls at once, and some for each to wait.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            at_work: Arc::new(Semaphore::new(count)),
            admitted: Arc::new(Semaphore::new(count * (1 + WAITING_PER_WORKER))),
        }
    }

    /// Does blocking work.
    ///
    /// # Errors
    /// Errors of the work, and [`ProblemKind::Busy`] where too many wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = |_| {
            Problem::new(ProblemKind::Busy, "too many requests wait for the store")
                .with_hint("send it again in a second")
        };
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(busy)?;
        let stopping = |_| Problem::new(ProblemKind::Stopping, "the server stops");
        let turn = Arc::clone(&self.at_work).acquire_owned().await.map_err(stopping)?;
        let span = Span::current();
        let done = tokio::task::spawn_blocking(move || {
            let _entered = span.enter();
            // Held by the work, not by who waits for it: a caller that leaves frees no thread.
            let _turn = (turn, admitted);
            work()
        });
        done.await.unwrap_or_else(|_| {
            let detail = "the request ran into a defect; the server's log says where";
            Err(Problem::new(ProblemKind::Failed, detail))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_when_all_places_are_taken_is_turned_away() {
        let workers = Workers::new(1);
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let calls: Vec<_> = (0..=WAITING_PER_WORKER)
            .map(|_| {
                let (workers, gate) = (workers.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let work = move || {
                        gate.lock().unwrap().recv().unwrap();
                        Ok(())
                    };
                    workers.run(work).await
                })
            })
            .collect();
        while workers.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = workers.run(|| Ok(())).await.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Busy);
        for call in calls {
            open.send(()).unwrap();
            call.await.unwrap().unwrap();
        }
        workers.run(|| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn a_defect_is_an_answer() {
        let failed = Workers::new(1).run::<()>(|| panic!("a defect")).await.unwrap_err();
        assert_eq!(failed.kind, ProblemKind::Failed);
    }
}
