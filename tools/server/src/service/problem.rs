//! [`Problem`]: why a request was not done, with the hint and the exit code that the command line would give.

use memfold::execute::ExecuteError;
use memfold::lookup::SearchError;
use memfold::quick_check::SaveError;
use memfold_cli::{Exit, Failure};
use memfold_store::LoadStoreError;
use memfold_store::brain_db::SessionError;
use schemars::JsonSchema;
use serde::Serialize;

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request cannot be understood.
    Malformed,
    /// There is no token, or a wrong one.
    Unauthorized,
    /// The server was not told to write, or the configuration forbids it.
    Forbidden,
    /// Host or Origin are those of another site.
    Misdirected,
    /// There is no such thing.
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
    /// The body is no JSON.
    NotJson,
    /// The request is understood, and asks for what cannot be.
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
    /// What kind of problem.
    pub kind: ProblemKind,
    /// What happened, in words.
    pub detail: String,
    /// What the caller can do.
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

    /// Adds what the caller can do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says after how many seconds to try again.
    #[must_use]
    pub fn with_retry(self, seconds: u32) -> Self {
        Self { retry_seconds: Some(seconds), ..self }
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotFound, detail)
    }

    /// The request asks for what cannot be.
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

    fn of(kind: ProblemKind, error: &dyn std::error::Error, hint: Option<String>) -> Self {
        let mut detail = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !detail.contains(&text) {
                detail = format!("{detail}: {text}");
            }
            cause = error.source();
        }
        Self { kind, detail, hint, retry_seconds: None }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let kind = match failure.exit {
            Exit::Usage => ProblemKind::Unprocessable,
            Exit::Locked => ProblemKind::Locked,
            Exit::Interrupted => ProblemKind::Stopping,
            _ => ProblemKind::Failed,
        };
        Self { kind, detail: failure.message, hint: failure.hint, retry_seconds: None }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let kind = match &error {
            SessionError::UnknownPlan { .. } => ProblemKind::NotFound,
            SessionError::AmbiguousPlan { .. } | SessionError::Refused { .. } => {
                ProblemKind::Conflict
            }
            SessionError::ReadOnly { .. } => ProblemKind::Forbidden,
            SessionError::Busy { .. } | SessionError::Full { .. } => ProblemKind::Unavailable,
            error if error.is_locked_by_run() => ProblemKind::Locked,
            _ => ProblemKind::Failed,
        };
        let hint = error.hint();
        Self::of(kind, &error, hint)
    }
}

impl From<LoadStoreError> for Problem {
    fn from(error: LoadStoreError) -> Self {
        let hint = error.hint();
        let kind = match &error {
            LoadStoreError::Changed { .. } | LoadStoreError::Sink(_) => ProblemKind::Unavailable,
            _ => ProblemKind::Failed,
        };
        Self::of(kind, &error, hint)
    }
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        let kind = match &error {
            SearchError::NoMemory { .. } | SearchError::NoText => ProblemKind::NotFound,
            SearchError::Query(_) | SearchError::NoVectors { .. } => ProblemKind::Unprocessable,
            SearchError::Cancelled => ProblemKind::Stopping,
            _ => ProblemKind::Failed,
        };
        let hint = error.hint();
        Self::of(kind, &error, hint)
    }
}

impl From<SaveError> for Problem {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Session(error) => error.into(),
            SaveError::Load(error) => error.into(),
            SaveError::Search(error) => error.into(),
            SaveError::IdTaken { .. } | SaveError::Forgotten => {
                let hint = error.hint();
                Self::of(ProblemKind::Conflict, &error, hint)
            }
            error => {
                let hint = error.hint();
                Self::of(ProblemKind::Unprocessable, &error, hint)
            }
        }
    }
}

impl From<ExecuteError> for Problem {
    fn from(error: ExecuteError) -> Self {
        let kind = match error {
            ExecuteError::Session(error) => return error.into(),
            ExecuteError::Load(error) => return error.into(),
            ExecuteError::Forbidden { .. } | ExecuteError::Unguarded { .. } => {
                ProblemKind::Forbidden
            }
            ExecuteError::AnotherPlan { .. } => ProblemKind::AnotherPlan,
            ExecuteError::Unknown { .. } | ExecuteError::UnknownPair { .. } => {
                ProblemKind::NotFound
            }
            ExecuteError::Stopped { .. } | ExecuteError::UndoStopped { .. } => ProblemKind::Failed,
            _ => ProblemKind::Conflict,
        };
        let hint = error.hint();
        Self::of(kind, &error, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_hint_and_the_exit_code_of_the_command_line() {
        let locked = Failure { exit: Exit::Locked, ..Failure::plain("locked", "wait") };
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
