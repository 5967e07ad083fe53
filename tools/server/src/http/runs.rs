//! Handlers about runs and plans: start, watch, decide, apply, undo.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use memfold::ops::{PlansDocument, RunDocument, RunsDocument, SavedPlanDocument};
use serde::Serialize;

use super::answers::{Json, Query, Sent, accepted, with_etag};
use super::memories::Of;
use super::routes::App;
use crate::schedule::{ScheduleSettings, ScheduleView};
use crate::service::{
    ApplyRequest, DecisionsRequest, Job, JobDocument, JobEvent, Problem, ProblemKind, RunRequest,
    ServedStore, UndoRequest,
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

pub(super) async fn list(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    let history = app.service.on(of.store.as_deref(), |store| store.runs()).await?;
    let jobs = store.jobs();
    let jobs = jobs.iter().map(|job| JobDocument { result: None, ..job.document() }).collect();
    let document = AllRuns { runs: RunsDocument::of(&history), jobs };
    Ok(Json(document).into_response())
}

pub(super) async fn start(
    State(app): State<App>,
    Query(of): Query<Of>,
    headers: HeaderMap,
    Sent(request): Sent<RunRequest>,
) -> Result<Response, Problem> {
    let work = move |store: &Arc<ServedStore>| store.start_run(request);
    let job = app.service.on(of.store.as_deref(), work).await?;
    Ok(answer(&job, &headers).await)
}

/// Tells where the job is; waits for its end where the caller prefers that.
async fn answer(job: &Job, headers: &HeaderMap) -> Response {
    let prefers = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let seconds = prefers
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.trim().parse::<u64>().ok());
    if let Some(seconds) = seconds {
        let patience = Duration::from_secs(seconds.min(WAIT_SECONDS_MAX));
        if job.wait(patience).await {
            return match job.problem() {
                Some(problem) => problem.into_response(),
                None => Json(job.document()).into_response(),
            };
        }
    }
    accepted(Json(job.document()).into_response(), &format!("/v1/runs/{}", job.id))
}

/// A job of this server, or a run that the store remembers.
pub(super) async fn one(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    if let Some(job) = store.job(&id).filter(|job| job.id == id) {
        return Ok(Json(job.document()).into_response());
    }
    let work = move |store: &Arc<ServedStore>| {
        let run = store.run(&id)?;
        let units = store.units(&run.run_id)?;
        Ok((run, units))
    };
    let (run, units) = app.service.on(of.store.as_deref(), work).await?;
    Ok(Json(RunDocument::of(&run, &units)).into_response())
}

fn job_of(app: &App, of: &Of, id: &str) -> Result<Arc<Job>, Problem> {
    app.service.store(of.store.as_deref())?.job(id).ok_or_else(|| {
        Problem::not_found(format!("this server has no run {id:?}"))
            .with_hint("GET /v1/runs lists the runs; only those of this server can be watched")
    })
}

pub(super) async fn cancel(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let job = job_of(&app, &of, &id)?;
    job.cancel();
    Ok(accepted(Json(job.document()).into_response(), &format!("/v1/runs/{}", job.id)))
}

/// The events of a job, from the one after `Last-Event-ID` on, until it ends.
pub(crate) async fn events(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = job_of(&app, &of, &id)?;
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
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<UndoRequest>,
) -> Result<Response, Problem> {
    let work = move |store: &Arc<ServedStore>| store.start_undo(&id, request);
    let job = app.service.on(of.store.as_deref(), work).await?;
    Ok(answer(&job, &headers).await)
}

pub(super) async fn plans(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let plans = app.service.on(of.store.as_deref(), |store| store.plans()).await?;
    Ok(Json(PlansDocument::new(plans)).into_response())
}

pub(super) async fn plan(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let plan = app.service.on(of.store.as_deref(), move |store| store.plan(&id)).await?;
    Ok(with_etag(Json(SavedPlanDocument::of(&plan)).into_response(), &plan.plan_digest))
}

pub(super) async fn decide(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<DecisionsRequest>,
) -> Result<Response, Problem> {
    let expected = if_match(&headers)?;
    let work = move |store: &Arc<ServedStore>| {
        if let Some(digest) = expected {
            store.plan_with(&id, &digest)?;
        }
        store.decide(&id, &request)
    };
    let plan = app.service.on(of.store.as_deref(), work).await?;
    Ok(with_etag(Json(SavedPlanDocument::of(&plan)).into_response(), &plan.plan_digest))
}

pub(super) async fn apply(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent(request): Sent<ApplyRequest>,
) -> Result<Response, Problem> {
    let digest = if_match(&headers)?.ok_or_else(|| {
        Problem::new(ProblemKind::DigestMissing, "the digest of the plan is needed")
            .with_hint("send it: If-Match: \"DIGEST\", the ETag of GET /v1/plans/{id}")
    })?;
    let work = move |store: &Arc<ServedStore>| store.start_apply(&id, &digest, request);
    let job = app.service.on(of.store.as_deref(), work).await?;
    Ok(answer(&job, &headers).await)
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

pub(super) async fn schedule(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let schedules = Arc::clone(&app.schedules);
    let work = move |store: &Arc<ServedStore>| schedules.view(store);
    let view: ScheduleView = app.service.on(of.store.as_deref(), work).await?;
    Ok(Json(view).into_response())
}

pub(super) async fn set_schedule(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(settings): Sent<ScheduleSettings>,
) -> Result<Response, Problem> {
    let schedules = Arc::clone(&app.schedules);
    let work = move |store: &Arc<ServedStore>| schedules.set(store, settings);
    let view: ScheduleView = app.service.on(of.store.as_deref(), work).await?;
    Ok(Json(view).into_response())
}
