//! [`Problem`]: why a request was not done, with the hint and the exit code that the command line would give.

use memfold::ops::{Advised, FailureKind};
use memfold_terminal::failure::Exit;
use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
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
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::Malformed,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Misdirected,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::TooSlow,
        Self::Conflict,
        Self::Locked,
        Self::AnotherPlan,
        Self::DigestMissing,
        Self::TooLarge,
        Self::NotJson,
        Self::Unprocessable,
        Self::Busy,
        Self::Stopping,
        Self::Unavailable,
        Self::Failed,
    ];

    /// Returns the HTTP status, the name in the type's URN, and the title.
    const fn parts(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Malformed => (400, "malformed", "The request cannot be understood"),
            Self::Unauthorized => (401, "unauthorized", "A token is needed"),
            Self::Forbidden => (403, "forbidden", "This is not allowed here"),
            Self::Misdirected => (421, "misdirected", "This host or origin is not served"),
            Self::NotFound => (404, "not-found", "There is no such thing"),
            Self::MethodNotAllowed => (405, "method-not-allowed", "Another method is needed"),
            Self::TooSlow => (408, "too-slow", "The request took too long"),
            Self::Conflict => (409, "conflict", "The state of the store forbids it"),
            Self::Locked => (409, "locked", "Another run holds the store"),
            Self::AnotherPlan => (412, "another-plan", "The plan is another one"),
            Self::DigestMissing => (428, "digest-missing", "The plan's digest is needed"),
            Self::TooLarge => (413, "too-large", "The body is too large"),
            Self::NotJson => (415, "not-json", "JSON is needed"),
            Self::Unprocessable => (422, "unprocessable", "The request cannot be done"),
            Self::Busy => (429, "busy", "Too much at once"),
            Self::Stopping => (503, "stopping", "The server stops"),
            Self::Unavailable => (503, "unavailable", "A store cannot be used now"),
            Self::Failed => (500, "failed", "Something failed; nothing is half done"),
        }
    }

    /// Returns the HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.parts().0
    }
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The problem, in words.
    pub detail: String,
    /// Advice for the caller.
    pub hint: Option<String>,
    /// Seconds after which to try again, where another time than at once is known.
    pub retry_seconds: Option<u32>,
}

/// A problem as JSON, `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProblemDocument {
    /// `urn:memfold:problem:` and its kind.
    pub r#type: String,
    /// The kind in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What happened, in words.
    pub detail: String,
    /// What the caller can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The exit code that the command line would end with.
    pub exit_code: u8,
}

impl Problem {
    /// Makes a problem.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), hint: None, retry_seconds: None }
    }

    /// Adds advice for the caller.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says after how many seconds to try again.
    #[must_use]
    pub fn with_retry(self, seconds: u32) -> Self {
        Self { retry_seconds: Some(seconds), ..self }
    }

    /// The named object does not exist.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotFound, detail)
    }

    /// The request cannot be fulfilled.
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Unprocessable, detail)
    }

    /// Returns it as JSON.
    #[must_use]
    pub fn document(&self) -> ProblemDocument {
        let (status, name, title) = self.kind.parts();
        ProblemDocument {
            r#type: format!("urn:memfold:problem:{name}"),
            title,
            status,
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
        for kind in ProblemKind::ALL {
            assert!((400..600).contains(&kind.status()), "{kind:?}");
        }
    }
}
