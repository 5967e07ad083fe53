//! Bodies in and answers out: JSON, and problems as `application/problem+json`.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::service::{Problem, ProblemKind};

/// Longest body.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// Seconds after which to try again where no other time is known.
const RETRY_SECONDS: u32 = 1;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind.status()).unwrap_or_default();
        let body = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = (status, body).into_response();
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
            headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A document as an answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => json_bytes(body),
            Err(error) => Problem::new(ProblemKind::Failed, error.to_string()).into_response(),
        }
    }
}

/// Bytes that are JSON as an answer.
pub(crate) fn json_bytes(body: Vec<u8>) -> Response {
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Sets the `ETag` of an answer.
pub(crate) fn with_etag(mut response: Response, digest: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{digest}\"")) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// Makes an answer one that tells where the work is.
pub(crate) fn accepted(mut response: Response, place: &str) -> Response {
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(value) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
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
