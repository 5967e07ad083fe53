//! [`Problem`]: why a request was not done, with the hint and the exit code that the command line would give.

use axum::http::StatusCode;
use memfold::ops::{Advised, FailureKind};
use memfold_terminal::failure::Exit;
use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// The request cannot be understood.
    Malformed,
    /// The token is missing or wrong.
    Unauthorized,
    /// The server was started without writes, or the configuration forbids it.
    Forbidden,
    /// Host or Origin belong to another site.
    Misdirected,
    /// The named object does not exist.
    NotFound,
    /// The path knows other methods.
    MethodNotAllowed,
    /// The request took too long to arrive.
    TooSlow,
    /// Things are not as the request needs them.
    Conflict,
    /// Another run holds the store.
    Locked,
    /// The plan has another digest.
    AnotherPlan,
    /// The digest is missing.
    DigestMissing,
    /// The body is too large.
    TooLarge,
    /// The body is not JSON.
    NotJson,
    /// The request is understood, but cannot be fulfilled.
    Unprocessable,
    /// Too much at once.
    Busy,
    /// The server stops.
    Stopping,
    /// A store cannot be read or written now: another program holds it, or the disk is full.
    Unavailable,
    /// Something failed; nothing is half done.
    Failed,
}

impl ProblemKind {
    /// Returns the HTTP status, the name in the type's URN, and the title.
    const fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => {
                (StatusCode::BAD_REQUEST, "malformed", "The request cannot be understood")
            }
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "This is not allowed here"),
            Self::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                "misdirected",
                "This host or origin is not served",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "There is no such thing"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Another method is needed")
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too-slow", "The request took too long"),
            Self::Conflict => {
                (StatusCode::CONFLICT, "conflict", "The state of the store forbids it")
            }
            Self::Locked => (StatusCode::CONFLICT, "locked", "Another run holds the store"),
            Self::AnotherPlan => {
                (StatusCode::PRECONDITION_FAILED, "another-plan", "The plan is another one")
            }
            Self::DigestMissing => {
                (StatusCode::PRECONDITION_REQUIRED, "digest-missing", "The plan's digest is needed")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "JSON is needed"),
            Self::Unprocessable => {
                (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", "The request cannot be done")
            }
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy", "Too much at once"),
            Self::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping", "The server stops"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "A store cannot be used now")
            }
            Self::Failed => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed",
                "Something failed; nothing is half done",
            ),
        }
    }

    /// Returns the HTTP status.
    pub(crate) const fn status(self) -> StatusCode {
        self.parts().0
    }
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The kind of problem.
    pub(crate) kind: ProblemKind,
    /// The problem, in words.
    pub(crate) detail: String,
    /// Advice for the caller.
    pub(crate) hint: Option<String>,
    /// Seconds after which to try again, where another time than at once is known.
    pub(crate) retry_seconds: Option<u32>,
}

/// A problem as JSON, `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ProblemDocument {
    /// `urn:memfold:problem:` and its kind.
    pub(crate) r#type: String,
    /// The kind in words.
    pub(crate) title: &'static str,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What happened, in words.
    pub(crate) detail: String,
    /// What the caller can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The exit code that the command line would end with.
    pub(crate) exit_code: u8,
}

impl Problem {
    /// Makes a problem.
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), hint: None, retry_seconds: None }
    }

    /// Adds advice for the caller.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says after how many seconds to try again.
    pub(crate) fn with_retry(self, seconds: u32) -> Self {
        Self { retry_seconds: Some(seconds), ..self }
    }

    /// The named object does not exist.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotFound, detail)
    }

    /// The request cannot be fulfilled.
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Unprocessable, detail)
    }

    /// Returns it as JSON.
    pub(crate) fn document(&self) -> ProblemDocument {
        let (status, name, title) = self.kind.parts();
        ProblemDocument {
            r#type: format!("urn:memfold:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: self.detail.clone(),
            hint: self.hint.clone(),
            exit_code: match self.kind {
                ProblemKind::Malformed | ProblemKind::Unprocessable | ProblemKind::NotJson => {
                    Exit::Usage as u8
                }
                ProblemKind::Locked => Exit::Locked as u8,
                ProblemKind::Stopping => Exit::Interrupted as u8,
                _ => Exit::Failure as u8,
            },
        }
    }
}

impl From<FailureKind> for ProblemKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Failed => Self::Failed,
            FailureKind::Usage | FailureKind::Unsuitable => Self::Unprocessable,
            FailureKind::NotFound => Self::NotFound,
            FailureKind::Conflict => Self::Conflict,
            FailureKind::AnotherPlan => Self::AnotherPlan,
            FailureKind::Forbidden | FailureKind::Unguarded => Self::Forbidden,
            FailureKind::Locked => Self::Locked,
            FailureKind::Unavailable => Self::Unavailable,
            FailureKind::Interrupted => Self::Stopping,
        }
    }
}

/// An error of the library speaks for itself, with its causes.
impl<E: Advised> From<E> for Problem {
    fn from(error: E) -> Self {
        let mut detail = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !detail.contains(&text) {
                detail = format!("{detail}: {text}");
            }
            cause = error.source();
        }
        let (kind, hint) = (error.kind().into(), error.advice());
        Self { kind, detail, hint, retry_seconds: None }
    }
}

#[cfg(test)]
mod tests {
    use memfold::ops::Failure;

    use super::*;

    #[test]
    fn a_problem_has_the_hint_and_the_exit_code_of_the_command_line() {
        let locked = Failure::plain("locked", "wait").of_kind(FailureKind::Locked);
        let document = Problem::from(locked).document();
        assert_eq!((document.status, document.exit_code), (409, 5));
        assert_eq!(document.hint.as_deref(), Some("wait"));
        let usage = Problem::from(Failure::usage("no", "do")).document();
        assert_eq!((usage.status, usage.exit_code), (422, 2));
    }
}
