//! [`MemfoldError`]: why a store could not be opened, planned or changed.

use memfold_core::detect::DetectError;
use memfold_core::policy::ConfigError;
use memfold_guard::LexiconError;
use memfold_index::StartPoolError;
use memfold_store::StoreError;

use crate::columns::ColumnsError;
use crate::execute::ExecuteError;

/// Why a store could not be opened, planned or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemfoldError {
    /// The configuration is not valid.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// The configuration names no time zone.
    #[error("the time zone {name:?} is not known")]
    TimeZone {
        /// The name.
        name: String,
    },
    /// The user's lexicon is not valid.
    #[error(transparent)]
    Lexicon(#[from] LexiconError),
    /// The store cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is no `brain.db`: its mirror is one.
    #[error("{} is a store of kind {kind}, expected a brain.db", path.display())]
    NeedsMirror {
        /// The store.
        path: std::path::PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// No thread can be started.
    #[error(transparent)]
    Threads(#[from] StartPoolError),
    /// The plan was not applied, or not to the end.
    #[error(transparent)]
    Execute(Box<ExecuteError>),
    /// The temporary columns could not be written or mapped.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// Detection gave no answer.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

impl From<ExecuteError> for MemfoldError {
    fn from(error: ExecuteError) -> Self {
        Self::Execute(Box::new(error))
    }
}

impl MemfoldError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Configuration(error) => error.hint(),
            Self::Lexicon(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::TimeZone { .. } => {
                Some("use an IANA name such as Europe/Berlin, or UTC".to_owned())
            }
            Self::NeedsMirror { path, kind } if *kind == memfold_adapters::markdown::KIND => {
                Some(format!(
                    "mirror it first, with memfold::mirror::Mirror or `memfold status {0}`, and open its mirror, which \
                 `memfold doctor {0}` names",
                    path.display()
                ))
            }
            Self::NeedsMirror { path, .. } => Some(format!(
                "mirror it first, with memfold::mirror::Mirror or `memfold status {0}`, and open its mirror, {1}",
                path.display(),
                crate::mirror::mirror_path(path).display()
            )),
            Self::Threads(_) => Some("use fewer threads".to_owned()),
            Self::Columns(error) => error.hint(),
            Self::Detect(error) => error.hint(),
            Self::Execute(error) => error.hint(),
            Self::Cancelled => {
                Some("what was answered is kept; running again continues".to_owned())
            }
        }
    }

    /// Tells whether the caller cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::Store(StoreError::Cancelled)
                | Self::Detect(DetectError::Cancelled)
        )
    }
}
