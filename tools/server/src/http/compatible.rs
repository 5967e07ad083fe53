//! Paths of other systems, answered by the same engine.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::answers::{Json, Query, Sent};
use super::memories::Of;
use super::routes::{App, RUN_TIMEOUT};
use crate::service::{
    CompactAllAnswer, CompactAnswer, ExecuteMode, HistoryAnswer, JudgeMode, PastRun, Problem,
    RunAnswer, RunOptions, RunRequest, ServedStore,
};

/// Runs a consolidation and waits for its end.
async fn wait_for(
    app: &App,
    store: &Arc<ServedStore>,
    request: RunRequest,
) -> Result<Arc<PastRun>, Problem> {
    let name = store.name.clone();
    let job = app.service.on(Some(&name), move |store| store.start_run(request)).await?;
    job.wait(RUN_TIMEOUT).await;
    job.problem().map_or(Ok(()), Err)?;
    let mut past = store.past_runs().into_iter().rev();
    past.find(|run| run.job_id == job.id).ok_or_else(|| Problem::not_found("the run is not over"))
}

pub(super) async fn run(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(options): Sent<RunOptions>,
) -> Result<Json<RunAnswer>, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    let execute = if options.dry_run == Some(false) { ExecuteMode::All } else { ExecuteMode::None };
    let run = wait_for(&app, &store, RunRequest { execute, ..RunRequest::default() }).await?;
    Ok(Json(RunAnswer { report: run.report.clone() }))
}

pub(super) async fn history(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Json<HistoryAnswer>, Problem> {
    let runs = app.service.store(of.store.as_deref())?.past_runs();
    let reports = runs.into_iter().rev().map(|run| run.report.clone()).collect();
    Ok(Json(HistoryAnswer { reports }))
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

pub(super) async fn compact(
    State(app): State<App>,
    Query(query): Query<CompactQuery>,
) -> Result<Json<CompactAnswer>, Problem> {
    if query.user_id.as_deref().unwrap_or_default().is_empty() {
        return Err(Problem::unprocessable("compact is for one user")
            .with_hint("give user_id, or call compact_all"));
    }
    let store = app.service.store(query.store.as_deref())?;
    compacted(&app, &store, &query).await.map(Json)
}

pub(super) async fn compact_all(
    State(app): State<App>,
    Query(query): Query<CompactQuery>,
) -> Result<Json<CompactAllAnswer>, Problem> {
    let query = CompactQuery { user_id: None, ..query };
    let stores: Vec<_> = match &query.store {
        Some(name) => vec![app.service.store(Some(name))?],
        None => app.service.stores().cloned().collect(),
    };
    let mut results = Vec::new();
    for store in stores {
        results.push(compacted(&app, &store, &query).await?);
    }
    Ok(Json(CompactAllAnswer { status: "completed", results }))
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
        // In a dry run no model is queried.
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
