//! Bodies in and answers out: JSON, and problems as `application/problem+json`.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::routes::App;
use crate::service::{Problem, ProblemKind, ServedStore};

/// Longest body.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// Seconds after which to try again where no other time is known.
const RETRY_SECONDS: u32 = 1;

/// What a handler returns.
pub(crate) type Answer = Result<Response, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = (self.kind.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(
            self.kind,
            ProblemKind::Busy
                | ProblemKind::Locked
                | ProblemKind::Stopping
                | ProblemKind::Unavailable
        ) {
            let seconds = self.retry_seconds.unwrap_or(RETRY_SECONDS);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == ProblemKind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Makes a document an answer.
pub(crate) fn json(document: &impl Serialize) -> Answer {
    serde_json::to_vec(document)
        .map(json_bytes)
        .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
}

/// Bytes that are JSON as an answer.
pub(crate) fn json_bytes(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// The store that a request names; the first one where it names none.
pub(crate) struct On {
    pub(crate) app: App,
    pub(crate) name: Option<String>,
}

impl FromRequestParts<App> for On {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        struct Named {
            store: Option<String>,
        }
        let Query(Named { store: name }) = Query::from_request_parts(parts, app).await?;
        Ok(Self { app: app.clone(), name })
    }
}

impl On {
    pub(crate) fn store(&self) -> Result<Arc<ServedStore>, Problem> {
        self.app.service.store(self.name.as_deref())
    }

    /// Does work on the store where it may block.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<ServedStore>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.app.service.on(self.name.as_deref(), work).await
    }
}

/// A body of JSON. An empty body is an empty object where `T` allows it.
pub(crate) struct Sent<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers().get(CONTENT_TYPE));
        let bytes = collect(request.into_body()).await?;
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        if !is_json {
            // Forms of other sites cannot send this type without asking first.
            return Err(Problem::new(ProblemKind::NotJson, "the body is not said to be JSON")
                .with_hint("send Content-Type: application/json"));
        }
        parse(&bytes).map(Self)
    }
}

/// Reads a body up to the limit.
pub(crate) async fn collect(body: Body) -> Result<Bytes, Problem> {
    let collected = Limited::new(body, BODY_BYTES_MAX).collect().await;
    collected.map(|collected| collected.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let most = BODY_BYTES_MAX >> 20;
            return Problem::new(
                ProblemKind::TooLarge,
                format!("the body is longer than {most} MiB"),
            );
        }
        Problem::new(ProblemKind::Malformed, "the body broke off")
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => ProblemKind::Unprocessable,
            _ => ProblemKind::Malformed,
        };
        Problem::new(kind, format!("the body is not what is expected: {error}"))
            .with_hint("GET /openapi.json describes it")
    })
}

fn is_json(kind: Option<&HeaderValue>) -> bool {
    let Some(kind) = kind.and_then(|kind| kind.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The query of a path.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        found
            .map(|query| Self(query.0))
            .map_err(|rejection| Problem::new(ProblemKind::Malformed, rejection.body_text()))
    }
}
