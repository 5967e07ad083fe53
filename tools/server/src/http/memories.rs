//! Handlers about single memories and pairs of them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use memfold::ops::{
    CheckDocument, Elapsed, FlagsDocument, RecallDocument, SaveDocument, SearchDocument,
    SettledDocument,
};
use serde::Deserialize;
use serde_json::Value;

use super::answers::{Json, Query, Sent, json_bytes};
use super::routes::App;
use crate::service::{
    MemoryRequest, Problem, ProblemKind, RecallRequest, SaveAnswer, SearchRequest, ServedStore,
    SettleRequest,
};

/// Which store a request is about.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Of {
    /// Its name; by default the first one.
    pub(crate) store: Option<String>,
}

pub(super) async fn check(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(request): Sent<MemoryRequest>,
) -> Result<Response, Problem> {
    let check = app.service.on(of.store.as_deref(), move |store| store.check(request)).await?;
    Ok(Json(CheckDocument::new(&check)).into_response())
}

pub(super) async fn save(
    State(app): State<App>,
    Query(of): Query<Of>,
    headers: HeaderMap,
    Sent(request): Sent<MemoryRequest>,
) -> Result<Response, Problem> {
    let key =
        match headers.get("idempotency-key") {
            None => None,
            Some(key) => Some(key.to_str().map(str::to_owned).map_err(|_| {
                Problem::new(ProblemKind::Malformed, "the Idempotency-Key is no name")
            })?),
        };
    let work = move |store: &Arc<ServedStore>| store.save(request, key.as_deref());
    Ok(match app.service.on(of.store.as_deref(), work).await? {
        SaveAnswer::Now(saved) => Json(SaveDocument::new(None, &saved)).into_response(),
        SaveAnswer::Before(saved) => json_bytes(answered_before(&saved)),
    })
}

/// The document of a save that was answered before, byte for byte.
fn answered_before(saved: &str) -> Vec<u8> {
    let rest = saved.trim_start_matches('{');
    format!("{{\"schema_version\":1,\"stored\":true,{rest}").into_bytes()
}

pub(super) async fn search(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(request): Sent<SearchRequest>,
) -> Result<Response, Problem> {
    let found = app.service.on(of.store.as_deref(), move |store| store.search(&request)).await?;
    let seconds = Elapsed { open: 0.0, total: found.seconds };
    let document = SearchDocument::new(&found.matches, found.index.as_deref(), seconds);
    Ok(Json(document).into_response())
}

pub(super) async fn recall(
    State(app): State<App>,
    Query(of): Query<Of>,
    Sent(request): Sent<RecallRequest>,
) -> Result<Response, Problem> {
    let work = move |store: &Arc<ServedStore>| {
        let answered = store.recall(&request)?;
        let seconds = Elapsed { open: 0.0, total: answered.seconds };
        let (found, answer) = (&answered.recalled, answered.answer.as_ref());
        let document = RecallDocument::new(&request.query, request.mode, found, answer, seconds);
        serde_json::to_vec(&document)
            .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
    };
    Ok(json_bytes(app.service.on(of.store.as_deref(), work).await?))
}

pub(super) async fn flags(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let store = app.service.store(of.store.as_deref())?;
    let pairs = app.service.on(of.store.as_deref(), |store| store.flags()).await?;
    Ok(Json(FlagsDocument::of(&pairs, &store.time_zone)).into_response())
}

pub(super) async fn settle(
    State(app): State<App>,
    Query(of): Query<Of>,
    Path(key): Path<String>,
    Sent(request): Sent<SettleRequest>,
) -> Result<Response, Problem> {
    let work = move |store: &Arc<ServedStore>| store.settle(&key, request.settlement);
    let (run, settled) = app.service.on(of.store.as_deref(), work).await?;
    Ok(Json(SettledDocument::new(Some(run), settled)).into_response())
}

pub(super) async fn proposals(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let proposals = app.service.on(of.store.as_deref(), |store| store.proposals()).await?;
    Ok(Json(proposals).into_response())
}

pub(super) async fn stats(
    State(app): State<App>,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let work = |store: &Arc<ServedStore>| {
        let status = store.status()?;
        serde_json::to_value(status.document())
            .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
    };
    let document: Value = app.service.on(of.store.as_deref(), work).await?;
    Ok(Json(document).into_response())
}

#[cfg(test)]
mod tests {
    use super::answered_before;

    #[test]
    fn an_answer_of_before_is_the_document_of_then() {
        let bytes = answered_before(r#"{"decision":"insert","id":"a"}"#);
        let expected = r#"{"schema_version":1,"stored":true,"decision":"insert","id":"a"}"#;
        assert_eq!(bytes, expected.as_bytes());
    }
}
