//! Paths of other systems, answered by the same engine.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Json, Query, Sent};
use super::memories::Of;
use super::routes::{App, RUN_TIMEOUT};
use crate::schedule::{ScheduleSettings, ScheduleView};
use crate::service::{
    CompactStats, ExecuteMode, HistoryReport, JudgeMode, PastRun, Problem, RunRequest, ServedStore,
};

/// Of `POST /api/v1/brain/consolidation/run`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RunOptions {
    /// Whether nothing is written; by default so.
    #[schemars(with = "Option<bool>")]
    pub(crate) dry_run: Option<bool>,
}

/// Answer of `POST /api/v1/brain/consolidation/run`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunAnswer {
    /// What the run did.
    report: HistoryReport,
}

/// Answer of `GET /api/v1/brain/consolidation/history`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryAnswer {
    /// The consolidations of this server, the latest one first, 50 at most.
    reports: Vec<HistoryReport>,
}

/// Runs a consolidation and waits for its end.
async fn wait_for(
    app: &App,
    store: &Arc<ServedStore>,
    request: RunRequest,
) -> Result<Arc<PastRun>, Problem> {
    let name = store.name.clone();
    let job = app.service.on(Some(&name), move |store| store.start_run(request)).await?;
    job.wait(RUN_TIMEOUT).await;
    if let Some(problem) = job.problem() {
        return Err(problem);
    }
    let mut past = store.past_runs().into_iter().rev();
    past.find(|run| run.job_id == job.id).ok_or_else(|| Problem::not_found("the run is not over"))
}

pub(super) async fn run(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(options): Sent<RunOptions>,
) -> Result<Response, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    let execute = match options.dry_run {
        Some(false) => ExecuteMode::All,
        _ => ExecuteMode::None,
    };
    let run = wait_for(&app, &store, RunRequest { execute, ..RunRequest::default() }).await?;
    Ok(Json(RunAnswer { report: run.report.clone() }).into_response())
}

pub(super) async fn history(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    let reports = store.past_runs().into_iter().rev().map(|run| run.report.clone()).collect();
    Ok(Json(HistoryAnswer { reports }).into_response())
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

/// Of `POST /v1/maintenance/compact`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompactQuery {
    store: Option<String>,
    user_id: Option<String>,
    skip_reextract: Option<bool>,
    skip_consolidate: Option<bool>,
    dry_run: Option<bool>,
}

/// Answer of `POST /v1/maintenance/compact`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactAnswer {
    /// Whose memories; `null` for those of all users.
    user_id: Option<String>,
    /// Always true: nothing is extracted anew.
    skip_reextract: bool,
    /// Whether models wrote no memories anew; by default so.
    skip_consolidate: bool,
    /// Whether nothing was written; by default so.
    dry_run: bool,
    /// `completed` or `failed`.
    status: &'static str,
    /// What was done, or would be.
    stats: CompactStats,
}

/// Answer of `POST /v1/maintenance/compact_all`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactAllAnswer {
    /// `completed` or `failed`.
    status: &'static str,
    /// One for each store, over the memories of all users: they never merge across users.
    results: Vec<CompactAnswer>,
}

pub(super) async fn compact(
    State(app): State<App>,
    Query(query): Query<CompactQuery>,
) -> Result<Response, Problem> {
    let user = query.user_id.as_deref().filter(|user| !user.is_empty());
    if user.is_none() {
        return Err(Problem::unprocessable("compact is for one user")
            .with_hint("give user_id, or call compact_all"));
    }
    let store = app.service.store(query.store.as_deref())?;
    Ok(Json(compacted(&app, &store, &query).await?).into_response())
}

pub(super) async fn compact_all(
    State(app): State<App>,
    Query(query): Query<CompactQuery>,
) -> Result<Response, Problem> {
    let query = CompactQuery { user_id: None, ..query };
    let stores: Vec<_> = match &query.store {
        Some(name) => vec![app.service.store(Some(name))?],
        None => app.service.stores().cloned().collect(),
    };
    let mut results = Vec::new();
    for store in stores {
        results.push(compacted(&app, &store, &query).await?);
    }
    Ok(Json(CompactAllAnswer { status: "completed", results }).into_response())
}

async fn compacted(
    app: &App,
    store: &Arc<ServedStore>,
    query: &CompactQuery,
) -> Result<CompactAnswer, Problem> {
    if query.skip_reextract == Some(false) {
        return Err(Problem::unprocessable("memories are never extracted anew")
            .with_hint("leave skip_reextract out, or say true"));
    }
    let dry_run = query.dry_run.unwrap_or(true);
    let skip_consolidate = query.skip_consolidate.unwrap_or(true);
    let request = RunRequest {
        execute: if dry_run { ExecuteMode::None } else { ExecuteMode::All },
        user_id: query.user_id.clone(),
        // In a dry run no model is asked.
        judge: match (skip_consolidate, dry_run) {
            (true, _) => None,
            (false, true) => Some(JudgeMode::Recorded),
            (false, false) => Some(JudgeMode::Ask),
        },
        ..RunRequest::default()
    };
    let run = wait_for(app, store, request).await?;
    Ok(CompactAnswer {
        user_id: query.user_id.clone(),
        skip_reextract: true,
        skip_consolidate,
        dry_run,
        status: "completed",
        stats: run.stats,
    })
}
