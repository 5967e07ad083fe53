//! [`Job`]: work that takes longer than a request: it is queued, watched, and cancelled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use memfold::machine::{self, Stopwatch};
use memfold::ops::{Failure, Listener};
use memfold_index::Progress;
use memfold_terminal::printer::Printer;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{Span, info, info_span};

use super::problem::{Problem, ProblemDocument, ProblemKind};
use super::store::{ServedStore, locked};
use crate::metrics::Metrics;

/// Jobs that may wait for each store: one runs at a time.
const WAITING_MAX: usize = 8;
/// Ended jobs that are remembered for each store.
const ENDED_KEPT: usize = 50;
/// Events of a job that are kept for who comes later.
const EVENTS_KEPT: usize = 256;
/// Least seconds between two progress reports within a stage.
const PROGRESS_EVERY: f64 = 0.1;
/// How often it is looked whether a job has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    /// It waits for others.
    Queued,
    /// It is at work.
    Running,
    /// Everything was done.
    Done,
    /// Some units were skipped or rolled back.
    Partial,
    /// It was stopped; applied units stay, and another run continues.
    Interrupted,
    /// It failed.
    Failed,
}

impl JobState {
    /// Tells whether nothing more comes of it.
    pub(crate) const fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// Returns the name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The stage that a job is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Stage {
    /// Its name.
    pub(crate) name: &'static str,
    /// Units done.
    pub(crate) done: u64,
    /// Units in all; `null` where that is not known.
    pub(crate) total: Option<u64>,
}

/// Something that happened in a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobEvent {
    /// Its number, from 1.
    pub(crate) seq: u64,
    /// `stage`, `progress` or `end`.
    pub(crate) kind: &'static str,
    /// The event's data, JSON.
    pub(crate) data: Value,
}

/// A job as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct JobDocument {
    /// Version of this format.
    pub(crate) schema_version: u32,
    /// Its id in this server.
    pub(crate) id: String,
    /// The store that it works on.
    pub(crate) store: String,
    /// `consolidate`, `apply` or `undo`.
    pub(crate) kind: &'static str,
    /// Where it stands.
    pub(crate) state: JobState,
    /// When it was asked for, RFC 3339.
    pub(crate) created_at: String,
    /// When it ended, RFC 3339.
    pub(crate) finished_at: Option<String>,
    /// The stage it is in; `null` before and after.
    pub(crate) stage: Option<Stage>,
    /// The run that it wrote to the store; `null` where it wrote none.
    pub(crate) run_id: Option<String>,
    /// The plan that it made or applied.
    pub(crate) plan_id: Option<String>,
    /// That plan's digest.
    pub(crate) plan_digest: Option<String>,
    /// What the command line would print with `--json`.
    pub(crate) result: Option<Value>,
    /// Why it failed.
    pub(crate) problem: Option<ProblemDocument>,
}

/// The result of a job that did not fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) state: Option<JobState>,
    pub(crate) run_id: Option<String>,
    pub(crate) plan_id: Option<String>,
    pub(crate) plan_digest: Option<String>,
    pub(crate) result: Option<Value>,
}

#[derive(Debug)]
struct Inner {
    document: JobDocument,
    problem: Option<Problem>,
    events: VecDeque<JobEvent>,
    last_told: f64,
}

/// Work that takes longer than a request.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its id in this server.
    pub(crate) id: String,
    kind: &'static str,
    store: String,
    /// Where remarks go.
    printer: Printer,
    stopwatch: Stopwatch,
    is_cancelled: AtomicBool,
    inner: Mutex<Inner>,
    seq: watch::Sender<u64>,
}

impl Job {
    fn new(store: &str, kind: &'static str, printer: Printer) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = machine::clock();
        let document = JobDocument {
            schema_version: 1,
            id: format!("job-{:x}-{number}", now.0),
            store: store.to_owned(),
            kind,
            state: JobState::Queued,
            created_at: now.to_rfc3339(),
            finished_at: None,
            stage: None,
            run_id: None,
            plan_id: None,
            plan_digest: None,
            result: None,
            problem: None,
        };
        Self {
            id: document.id.clone(),
            kind,
            store: store.to_owned(),
            printer,
            stopwatch: Stopwatch::start(),
            is_cancelled: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                document,
                problem: None,
                events: VecDeque::new(),
                last_told: 0.0,
            }),
            seq: watch::Sender::new(0),
        }
    }

    /// Returns where it stands.
    pub(crate) fn state(&self) -> JobState {
        locked(&self.inner).document.state
    }

    /// Asks it to stop at the next safe point.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns it as JSON.
    pub(crate) fn document(&self) -> JobDocument {
        locked(&self.inner).document.clone()
    }

    /// Returns the problem that it failed with.
    pub(crate) fn problem(&self) -> Option<Problem> {
        locked(&self.inner).problem.clone()
    }

    /// Returns the events after a number, and whether there will be no more.
    pub(crate) fn events_after(&self, seq: u64) -> (Vec<JobEvent>, bool) {
        let inner = locked(&self.inner);
        let events = inner.events.iter().filter(|event| event.seq > seq).cloned().collect();
        (events, inner.document.state.is_over())
    }

    /// Returns a receiver that changes with every event.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.seq.subscribe()
    }

    /// Waits until it is over, at most for `patience`; returns whether it is.
    pub(crate) async fn wait(&self, patience: Duration) -> bool {
        let mut changes = self.watch();
        let over = async {
            while !self.state().is_over() {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        tokio::time::timeout(patience, over).await.is_ok()
    }

    fn tell(&self, inner: &mut Inner, kind: &'static str, data: Value) {
        let seq = inner.events.back().map_or(0, |event| event.seq) + 1;
        inner.events.push_back(JobEvent { seq, kind, data });
        if inner.events.len() > EVENTS_KEPT {
            inner.events.pop_front();
        }
        self.seq.send_replace(seq);
    }

    fn end(&self, done: Result<Outcome, Problem>) {
        let inner = &mut *locked(&self.inner);
        let document = &mut inner.document;
        document.stage = None;
        document.finished_at = Some(machine::clock().to_rfc3339());
        match done {
            Ok(outcome) => {
                document.state = outcome.state.unwrap_or(JobState::Done);
                document.run_id = outcome.run_id;
                document.plan_id = outcome.plan_id;
                document.plan_digest = outcome.plan_digest;
                document.result = outcome.result;
            }
            Err(problem) => {
                document.state = match problem.kind {
                    ProblemKind::Stopping => JobState::Interrupted,
                    _ => JobState::Failed,
                };
                document.problem = Some(problem.document());
                inner.problem = Some(problem);
            }
        }
        let JobDocument { state, run_id, problem, .. } = &inner.document;
        let data = json!({ "state": state, "run_id": run_id, "problem": problem });
        self.tell(inner, "end", data);
    }
}

impl Progress for Job {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        let mut inner = locked(&self.inner);
        inner.document.stage = Some(Stage { name: stage, done: 0, total });
        inner.last_told = self.stopwatch.seconds();
        self.tell(&mut inner, "stage", json!({ "stage": stage, "total": total }));
    }

    fn advance(&self, done: u64) {
        let mut inner = locked(&self.inner);
        let Some(stage) = &mut inner.document.stage else { return };
        stage.done += done;
        let stage = *stage;
        let now = self.stopwatch.seconds();
        if now - inner.last_told >= PROGRESS_EVERY {
            inner.last_told = now;
            let data = json!({ "stage": stage.name, "done": stage.done, "total": stage.total });
            self.tell(&mut inner, "progress", data);
        }
    }

    fn end(&self) {
        locked(&self.inner).document.stage = None;
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Listener for Job {
    fn note(&self, text: &str) {
        self.printer.note(text);
    }

    fn detail(&self, text: &str) {
        self.printer.detail(text);
    }
}

type Task = Box<dyn FnOnce(&Arc<Job>) -> Result<Outcome, Problem> + Send>;

/// A job that waits, with its span and task.
type Waiting = (Arc<Job>, Span, Task);

/// The jobs of a store: waiting ones, the one at work, and lately ended ones.
#[derive(Default)]
pub(crate) struct Jobs {
    queue: Mutex<Option<SyncSender<Waiting>>>,
    known: Mutex<VecDeque<Arc<Job>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Jobs {
    /// Asks all to stop, and takes no more.
    pub(crate) fn stop(&self) {
        locked(&self.queue).take();
        for job in locked(&self.known).iter() {
            job.cancel();
        }
    }

    /// Waits until the one at work has stopped, at most for `patience`.
    pub(crate) fn wait(&self, patience: Duration) {
        let Some(worker) = locked(&self.worker).take() else { return };
        let stopwatch = Stopwatch::start();
        while !worker.is_finished() && stopwatch.seconds() < patience.as_secs_f64() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl ServedStore {
    /// Starts the thread on which jobs run.
    pub(crate) fn start_work(&self) -> Result<(), Failure> {
        let (queue, waiting) = sync_channel::<Waiting>(WAITING_MAX);
        let metrics = Arc::clone(&self.metrics);
        let name = format!("jobs of {}", self.name);
        let worker = std::thread::Builder::new()
            .name(name)
            .spawn(move || work(&waiting, &metrics))
            .map_err(|error| Failure::new("start a thread", &error, None))?;
        *locked(&self.jobs.queue) = Some(queue);
        *locked(&self.jobs.worker) = Some(worker);
        Ok(())
    }

    /// Queues a job.
    pub(crate) fn queue(
        &self,
        kind: &'static str,
        task: impl FnOnce(&Arc<Job>) -> Result<Outcome, Problem> + Send + 'static,
    ) -> Result<Arc<Job>, Problem> {
        let job = Arc::new(Job::new(&self.name, kind, self.printer));
        let queue = locked(&self.jobs.queue);
        let stopping = || Problem::new(ProblemKind::Stopping, "the server stops");
        let queue = queue.as_ref().ok_or_else(stopping)?;
        // Not a child of the request, which ends before it does.
        let span = info_span!(parent: None, "job", job = job.id, kind, store = self.name);
        span.follows_from(Span::current());
        match queue.try_send((Arc::clone(&job), span, Box::new(task))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(Problem::new(ProblemKind::Busy, "too many runs wait")
                    .with_hint("wait until one has ended"));
            }
            Err(TrySendError::Disconnected(_)) => return Err(stopping()),
        }
        let mut known = locked(&self.jobs.known);
        known.push_back(Arc::clone(&job));
        let ended = known.iter().filter(|job| job.state().is_over()).count();
        if ended > ENDED_KEPT
            && let Some(oldest) = known.iter().position(|job| job.state().is_over())
        {
            known.remove(oldest);
        }
        Ok(job)
    }

    /// Returns the jobs of this server, the latest one last.
    pub(crate) fn jobs(&self) -> Vec<Arc<Job>> {
        locked(&self.jobs.known).iter().cloned().collect()
    }

    /// Finds a job by its id, or by the run that it wrote.
    pub(crate) fn job(&self, id: &str) -> Option<Arc<Job>> {
        let jobs = self.jobs();
        let by_run = |job: &&Arc<Job>| locked(&job.inner).document.run_id.as_deref() == Some(id);
        let found = jobs.iter().find(|job| job.id == id).or_else(|| jobs.iter().find(by_run));
        found.cloned()
    }
}

fn work(waiting: &Receiver<Waiting>, metrics: &Metrics) {
    while let Ok((job, span, task)) = waiting.recv() {
        if job.cancelled() {
            job.end(Err(Problem::new(ProblemKind::Stopping, "it was stopped before it began")));
            continue;
        }
        locked(&job.inner).document.state = JobState::Running;
        metrics.running.add(1);
        let stopwatch = Stopwatch::start();
        let job_of_task = Arc::clone(&job);
        // On a thread of its own, so that a defect ends this job and no other.
        let done = std::thread::Builder::new()
            .name(format!("{} {}", job.kind, job.store))
            .spawn(move || span.in_scope(|| task(&job_of_task)))
            .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
            .and_then(|thread| {
                thread.join().unwrap_or_else(|_| {
                    let detail = "the run ran into a defect; the server's log says where";
                    Err(Problem::new(ProblemKind::Failed, detail))
                })
            });
        job.end(done);
        let state = job.state();
        info!(job = job.id, kind = job.kind, store = job.store, state = state.name(), "run ended");
        metrics.running.add(-1);
        metrics.run_ended(&job.store, job.kind, state.name(), stopwatch.seconds());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_told_of_each_stage_and_the_end() {
        let job = Arc::new(Job::new("brain", "consolidate", Printer::new(true, false, true)));
        let waiting = Arc::clone(&job);
        let waits = tokio::spawn(async move { waiting.wait(Duration::from_secs(20)).await });
        job.begin("load", Some(3));
        job.advance(2);
        assert_eq!(job.document().stage.unwrap().done, 2);
        let problem = Problem::new(ProblemKind::Locked, "locked");
        job.end(Err(problem));
        assert!(waits.await.unwrap());
        let (events, is_over) = job.events_after(0);
        let kinds: Vec<_> = events.iter().map(|event| (event.seq, event.kind)).collect();
        assert_eq!((kinds, is_over), (vec![(1, "stage"), (2, "end")], true));
        assert_eq!(job.events_after(1).0.len(), 1);
        assert_eq!(job.document().problem.unwrap().exit_code, 5);
    }
}
