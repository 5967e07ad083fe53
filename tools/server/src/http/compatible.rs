//! Paths of other systems, answered by the same engine.

use std::sync::Arc;

use serde::Deserialize;

use super::answers::{Answer, On, Query, Sent, json};
use super::routes::RUN_TIMEOUT;
use crate::service::{
    CompactAllAnswer, CompactAnswer, ExecuteMode, HistoryAnswer, JudgeMode, PastRun, Problem,
    RunAnswer, RunOptions, RunRequest,
};

/// Runs a consolidation and waits for its end.
async fn finished(on: &On, request: RunRequest) -> Result<Arc<PastRun>, Problem> {
    let job = on.work(move |store| store.start_run(request)).await?;
    job.wait(RUN_TIMEOUT).await;
    job.problem().map_or(Ok(()), Err)?;
    let mut past = on.store()?.past_runs().into_iter().rev();
    past.find(|run| run.job_id == job.id).ok_or_else(|| Problem::not_found("the run is not over"))
}

pub(super) async fn run(on: On, Sent(options): Sent<RunOptions>) -> Answer {
    let execute = if options.dry_run == Some(false) { ExecuteMode::All } else { ExecuteMode::None };
    let run = finished(&on, RunRequest { execute, ..RunRequest::default() }).await?;
    json(&RunAnswer { report: run.report.clone() })
}

pub(super) async fn history(on: On) -> Answer {
    let runs = on.store()?.past_runs();
    let reports = runs.into_iter().rev().map(|run| run.report.clone()).collect();
    json(&HistoryAnswer { reports })
}

/// Of `POST /v1/maintenance/compact`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompactQuery {
    user_id: Option<String>,
    skip_reextract: Option<bool>,
    skip_consolidate: Option<bool>,
    dry_run: Option<bool>,
}

pub(super) async fn compact(on: On, Query(query): Query<CompactQuery>) -> Answer {
    if query.user_id.as_deref().unwrap_or_default().is_empty() {
        return Err(Problem::unprocessable("compact is for one user")
            .with_hint("give user_id, or call compact_all"));
    }
    json(&compacted(&on, &query).await?)
}

pub(super) async fn compact_all(on: On, Query(query): Query<CompactQuery>) -> Answer {
    let query = CompactQuery { user_id: None, ..query };
    let names: Vec<String> = match &on.name {
        Some(_) => vec![on.store()?.name.clone()],
        None => on.app.service.stores().map(|store| store.name.clone()).collect(),
    };
    let mut results = Vec::new();
    for name in names {
        let on = On { app: on.app.clone(), name: Some(name) };
        results.push(compacted(&on, &query).await?);
    }
    json(&CompactAllAnswer { status: "completed", results })
}

async fn compacted(on: &On, query: &CompactQuery) -> Result<CompactAnswer, Problem> {
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
    let stats = finished(on, request).await?.stats;
    let (user_id, status) = (query.user_id.clone(), "completed");
    Ok(CompactAnswer { user_id, skip_reextract: true, skip_consolidate, dry_run, status, stats })
}
