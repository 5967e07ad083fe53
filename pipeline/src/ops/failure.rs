//! [`Failure`]: why an operation failed, the kind of failure, and advice.

use std::error::Error;
use std::io;

use memfold_core::policy::ConfigError;
use memfold_core::report::{ReportFileError, WriteFileError};
use memfold_datasets::DataError;
use memfold_guard::LexiconError;
use memfold_index::file::GenerationError;
use memfold_index::{JoinError, StartPoolError, TileError};
use memfold_simd::RequestLevelError;
use memfold_store::StoreError;
use memfold_store::brain_db::CreateStoreError;
use memfold_store::origin::OriginError;
use memfold_store::upkeep::UpkeepError;

use crate::MemfoldError;
use crate::dedup::DedupError;
use crate::embed::EmbedError;
use crate::execute::{ExecuteError, PickError};
use crate::export::ExportError;
use crate::import::ImportError;
use crate::lookup::{IndexError, SearchError};
use crate::mirror::MirrorError;
use crate::quick_check::SaveError;

/// The kind of a failure: a program's exit code, a server's status, an exception's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Something failed; nothing is half done.
    Failed,
    /// The request itself is wrong.
    Usage,
    /// The request does not fit the store.
    Unsuitable,
    /// The store lacks the named object.
    NotFound,
    /// The state of the store forbids it.
    Conflict,
    /// The plan is not the one that was reviewed.
    AnotherPlan,
    /// The configuration forbids it.
    Forbidden,
    /// The guard or protection is off.
    Unguarded,
    /// Another run holds the store.
    Locked,
    /// Another program holds the store, or the disk is full.
    Unavailable,
    /// The caller cancelled.
    Interrupted,
}

/// An error that knows its kind and its advice.
pub trait Advised: Error + 'static {
    /// Returns the kind.
    fn kind(&self) -> FailureKind;

    /// Returns advice for the user.
    fn advice(&self) -> Option<String>;
}

/// Why an operation failed, as it is displayed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The failed operation and the reason: fragments that follow "error: ".
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure to do `what` because of `error` and its causes, with its kind and advice.
    pub fn of(what: &str, error: &impl Advised) -> Self {
        match error.kind() {
            FailureKind::Interrupted => Self::interrupted(),
            kind => Self { kind, ..Self::new(what, error, error.advice()) },
        }
    }

    /// A failure to do `what`, because of `error` and its causes. Without a hint the advice is for
    /// a system error, if one is among them.
    pub fn new(what: &str, error: &(dyn Error + 'static), hint: Option<String>) -> Self {
        let text = error.to_string();
        // Some errors begin with the file that `what` ends with.
        let is_told = |first| what.strip_suffix(first).is_some_and(|before| before.ends_with(' '));
        let told = text.split_once(": ").filter(|(first, _)| is_told(*first));
        let mut message = format!("failed to {what}: {}", told.map_or(&*text, |(_, rest)| rest));
        let hint = hint.or_else(|| advice(error).map(str::to_owned));
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own words.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self { kind: FailureKind::Failed, message, hint }
    }

    /// Returns it as one of another kind.
    #[must_use]
    pub fn of_kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// A failure in its own words.
    pub fn plain(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, message: message.into(), hint: Some(hint.into()) }
    }

    /// A wrong request.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::plain(message, hint).of_kind(FailureKind::Usage)
    }

    /// The caller interrupted; nothing was written.
    #[must_use]
    pub fn interrupted() -> Self {
        let message = "interrupted; nothing was written".to_owned();
        Self { kind: FailureKind::Interrupted, message, hint: None }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

impl Advised for Failure {
    fn kind(&self) -> FailureKind {
        self.kind
    }

    fn advice(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Returns advice for the first system error, if there is any.
fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    match causes.find_map(|error| error.downcast_ref::<io::Error>())?.kind() {
        io::ErrorKind::NotFound => Some("check the path"),
        io::ErrorKind::IsADirectory => Some("name a file, not a folder"),
        io::ErrorKind::PermissionDenied => Some("check who may read and write there"),
        io::ErrorKind::StorageFull => Some("free some space, or choose another folder"),
        _ => None,
    }
}

const fn interrupted_if(is_cancelled: bool) -> FailureKind {
    if is_cancelled { FailureKind::Interrupted } else { FailureKind::Failed }
}

/// Makes errors [`Advised`], each with how its kind is found.
macro_rules! advised {
    ($($error:ty => $kind:expr;)+) => {
        $(impl Advised for $error {
            fn kind(&self) -> FailureKind {
                let kind: fn(&Self) -> FailureKind = $kind;
                kind(self)
            }

            fn advice(&self) -> Option<String> {
                self.hint()
            }
        })+
    };
}

advised! {
    ConfigError => |_| FailureKind::Usage;
    CreateStoreError => |_| FailureKind::Failed;
    DataError => |error| interrupted_if(matches!(error, DataError::Cancelled));
    EmbedError => |error| match error {
        EmbedError::Store(error) => error.kind(),
        error if error.is_cancelled() => FailureKind::Interrupted,
        _ => FailureKind::Failed,
    };
    ExecuteError => |error| match error {
        ExecuteError::Store(error) => error.kind(),
        ExecuteError::Forbidden { .. } => FailureKind::Forbidden,
        ExecuteError::Unguarded { .. } => FailureKind::Unguarded,
        ExecuteError::AnotherPlan { .. } => FailureKind::AnotherPlan,
        ExecuteError::Unknown { .. } | ExecuteError::UnknownPair { .. } => FailureKind::NotFound,
        ExecuteError::Stopped { .. } | ExecuteError::UndoStopped { .. } => FailureKind::Failed,
        _ => FailureKind::Conflict,
    };
    ExportError => |error| interrupted_if(error.is_cancelled());
    DedupError => |error| interrupted_if(error.is_cancelled());
    ImportError => |error| interrupted_if(matches!(error, ImportError::Cancelled));
    GenerationError => |_| FailureKind::Failed;
    IndexError => |error| interrupted_if(error.is_cancelled());
    JoinError => |error| interrupted_if(matches!(error, JoinError::Cancelled));
    LexiconError => |_| FailureKind::Usage;
    MemfoldError => |error| interrupted_if(error.is_cancelled());
    MirrorError => |error| match error.is_locked() {
        true => FailureKind::Locked,
        false => FailureKind::Failed,
    };
    OriginError => |_| FailureKind::Failed;
    PickError => |_| FailureKind::Usage;
    ReportFileError => |_| FailureKind::Failed;
    RequestLevelError => |_| FailureKind::Usage;
    SaveError => |error| match error {
        SaveError::Store(error) => error.kind(),
        SaveError::Search(error) => error.kind(),
        SaveError::IdTaken { .. } | SaveError::Forgotten => FailureKind::Conflict,
        _ => FailureKind::Unsuitable,
    };
    SearchError => |error| match error {
        SearchError::NoMemory { .. } | SearchError::NoText => FailureKind::NotFound,
        SearchError::Query(_) | SearchError::NoVectors { .. } => FailureKind::Unsuitable,
        SearchError::Cancelled => FailureKind::Interrupted,
        _ => FailureKind::Failed,
    };
    StoreError => |error| match error {
        StoreError::Cancelled => FailureKind::Interrupted,
        StoreError::UnknownPlan { .. } => FailureKind::NotFound,
        StoreError::AmbiguousPlan { .. } | StoreError::Refused { .. } => FailureKind::Conflict,
        StoreError::ReadOnly { .. } => FailureKind::Forbidden,
        StoreError::Busy { .. }
        | StoreError::Full { .. }
        | StoreError::Changed { .. }
        | StoreError::Sink(_) => FailureKind::Unavailable,
        StoreError::LockedByRun { .. } => FailureKind::Locked,
        _ => FailureKind::Failed,
    };
    TileError => |error| match error {
        TileError::InUse { .. } => FailureKind::Locked,
        error if error.is_cancelled() => FailureKind::Interrupted,
        _ => FailureKind::Failed,
    };
    UpkeepError => |error| match error {
        UpkeepError::Store(error) => error.kind(),
        _ => FailureKind::Failed,
    };
    WriteFileError => |_| FailureKind::Failed;
}

impl Advised for StartPoolError {
    fn kind(&self) -> FailureKind {
        FailureKind::Failed
    }

    fn advice(&self) -> Option<String> {
        Some("use fewer threads: --threads N".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use memfold_datasets::{Corpus, CorpusOptions};

    use super::*;

    #[test]
    fn the_file_is_named_once_and_the_system_answered() {
        let missing = io::Error::from_raw_os_error(2);
        let options = CorpusOptions::new("".as_ref());
        let unread = Corpus::open(&["no such.npy".into()], &options).unwrap_err();
        let Failure { message, hint, .. } = Failure::new("convert no such.npy", &unread, None);
        assert_eq!(message, format!("failed to convert no such.npy: {missing}"));
        assert_eq!(hint.as_deref(), Some("check the path"));
        let Failure { message, hint, .. } =
            Failure::new("read the vectors", &unread, Some("look".to_owned()));
        assert_eq!(message, format!("failed to read the vectors: no such.npy: {missing}"));
        assert_eq!(hint.as_deref(), Some("look"));
        let odd = Failure::new("read x", &io::Error::other("odd"), None);
        assert_eq!((&*odd.message, odd.hint), ("failed to read x: odd", None));
    }
}
