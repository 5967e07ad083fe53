//! Handlers about runs and plans: start, watch, decide, apply, undo.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::header::{ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use memfold::ops::{PlansDocument, RunDocument, RunsDocument, SavedPlanDocument};
use memfold_core::plan::SavedPlan;
use serde::Serialize;

use super::answers::{Answer, On, Sent, json};
use crate::schedule::ScheduleSettings;
use crate::service::{
    ApplyRequest, DecisionsRequest, Job, JobDocument, JobEvent, Problem, ProblemKind, RunRequest,
    UndoRequest,
};

/// Maximum time a request may wait for a run: `Prefer: wait=SECONDS`.
const WAIT_SECONDS_MAX: u64 = 590;
/// Between two remarks that keep a connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /v1/runs`: the runs of the store, and the jobs of this server.
#[derive(Serialize)]
struct AllRuns<'a> {
    #[serde(flatten)]
    runs: RunsDocument<'a>,
    jobs: Vec<JobDocument>,
}

pub(super) async fn list(on: On) -> Answer {
    on.work(|store| {
        let (history, jobs) = (store.runs()?, store.jobs());
        let jobs = jobs.iter().map(|job| JobDocument { result: None, ..job.document() });
        json(&AllRuns { runs: RunsDocument::of(&history), jobs: jobs.collect() })
    })
    .await
}

pub(super) async fn start(on: On, headers: HeaderMap, Sent(request): Sent<RunRequest>) -> Answer {
    started(&*on.work(move |store| store.start_run(request)).await?, &headers).await
}

/// Tells where the job is; waits for its end where the caller prefers that.
async fn started(job: &Job, headers: &HeaderMap) -> Answer {
    let prefers = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let seconds = prefers
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.trim().parse::<u64>().ok());
    if let Some(seconds) = seconds {
        let patience = Duration::from_secs(seconds.min(WAIT_SECONDS_MAX));
        if job.wait(patience).await {
            job.problem().map_or(Ok(()), Err)?;
            return json(&job.document());
        }
    }
    accepted(job)
}

fn accepted(job: &Job) -> Answer {
    let place = format!("/v1/runs/{}", job.id);
    Ok((StatusCode::ACCEPTED, [(LOCATION, place)], json(&job.document())?).into_response())
}

/// A job of this server, or a run that the store remembers.
pub(super) async fn one(on: On, Path(id): Path<String>) -> Answer {
    if let Some(job) = on.store()?.job(&id).filter(|job| job.id == id) {
        return json(&job.document());
    }
    on.work(move |store| {
        let run = store.run(&id)?;
        json(&RunDocument::of(&run, &store.units(&run.run_id)?))
    })
    .await
}

fn job_of(on: &On, id: &str) -> Result<Arc<Job>, Problem> {
    on.store()?.job(id).ok_or_else(|| {
        Problem::not_found(format!("this server has no run {id:?}"))
            .with_hint("GET /v1/runs lists the runs; only those of this server can be watched")
    })
}

pub(super) async fn cancel(on: On, Path(id): Path<String>) -> Answer {
    let job = job_of(&on, &id)?;
    job.cancel();
    accepted(&job)
}

/// The events of a job, from the one after `Last-Event-ID` on, until it ends.
pub(crate) async fn events(on: On, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    let job = job_of(&on, &id)?;
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let seen = seen.and_then(|value| value.parse().ok()).unwrap_or(0);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(followed(job, seen)).keep_alive(keep_alive).into_response())
}

fn followed(job: Arc<Job>, seen: u64) -> impl Stream<Item = Result<Event, Infallible>> {
    let changes = job.watch();
    let batches = stream::unfold(Some((job, changes, seen)), |at| async move {
        let (job, mut changes, seen) = at?;
        loop {
            changes.mark_unchanged();
            let (events, is_over) = job.events_after(seen);
            if is_over {
                return Some((events, None));
            }
            if let Some(last) = events.last() {
                let seen = last.seq;
                return Some((events, Some((job, changes, seen))));
            }
            changes.changed().await.ok()?;
        }
    });
    batches.flat_map(|events| stream::iter(events.into_iter().map(|event| Ok(written(&event)))))
}

fn written(JobEvent { seq, kind, data }: &JobEvent) -> Event {
    Event::default().id(seq.to_string()).event(kind).data(data.to_string())
}

pub(super) async fn undo(
    on: On,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<UndoRequest>,
) -> Answer {
    started(&*on.work(move |store| store.start_undo(&id, request)).await?, &headers).await
}

pub(super) async fn plans(on: On) -> Answer {
    on.work(|store| json(&PlansDocument::new(store.plans()?))).await
}

pub(super) async fn plan(on: On, Path(id): Path<String>) -> Answer {
    on.work(move |store| tagged(&store.plan(&id)?)).await
}

/// A plan with its digest as the `ETag`.
fn tagged(plan: &SavedPlan) -> Answer {
    let tag = format!("\"{}\"", plan.plan_digest);
    Ok(([(ETAG, tag)], json(&SavedPlanDocument::of(plan))?).into_response())
}

pub(super) async fn decide(
    on: On,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<DecisionsRequest>,
) -> Answer {
    let expected = if_match(&headers)?;
    on.work(move |store| {
        if let Some(digest) = expected {
            store.plan_with(&id, &digest)?;
        }
        tagged(&store.decide(&id, &request)?)
    })
    .await
}

pub(super) async fn apply(
    on: On,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<ApplyRequest>,
) -> Answer {
    let digest = if_match(&headers)?.ok_or_else(|| {
        Problem::new(ProblemKind::DigestMissing, "the digest of the plan is needed")
            .with_hint("send it: If-Match: \"DIGEST\", the ETag of GET /v1/plans/{id}")
    })?;
    let job = on.work(move |store| store.start_apply(&id, &digest, request)).await?;
    started(&job, &headers).await
}

/// The digest that the caller expects; `*` is not a digest.
fn if_match(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let digest = value.to_str().unwrap_or_default().trim().trim_matches('"');
    if digest.is_empty() || digest == "*" {
        return Err(Problem::new(ProblemKind::DigestMissing, "If-Match names no digest")
            .with_hint("send the ETag of GET /v1/plans/{id}"));
    }
    Ok(Some(digest.to_owned()))
}

pub(super) async fn schedule(on: On) -> Answer {
    let schedules = Arc::clone(&on.app.schedules);
    on.work(move |store| json(&schedules.view(store)?)).await
}

pub(super) async fn set_schedule(on: On, Sent(settings): Sent<ScheduleSettings>) -> Answer {
    let schedules = Arc::clone(&on.app.schedules);
    on.work(move |store| json(&schedules.set(store, settings)?)).await
}
