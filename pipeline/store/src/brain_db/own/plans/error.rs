//! [`FindPlanError`].

use crate::brain_db::OpenStoreError;

/// Why a saved plan was not found or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindPlanError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// No plan has that name.
    #[error("no saved plan is named \"{}\"", wanted.escape_debug())]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Some plans that there are, last saved first.
        candidates: Vec<String>,
    },
    /// Several names begin that way.
    #[error("several saved plans begin with \"{}\"", wanted.escape_debug())]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// Some of them, last saved first.
        candidates: Vec<String>,
    },
    /// What the store holds is not what was written.
    #[error("saved plan {plan_id} is damaged: {column}: {}", reason.escape_debug())]
    Damaged {
        /// The plan.
        plan_id: String,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// SQLite refuses.
    #[error("read the saved plans: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

impl FindPlanError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(error) => error.hint(),
            Self::Unknown { candidates, .. } if candidates.is_empty() => {
                Some("save one first: memfold consolidate DB --save-plan".to_owned())
            }
            Self::Unknown { candidates, .. } | Self::Ambiguous { candidates, .. } => {
                Some(format!("name one of {}, or latest", candidates.join(", ")))
            }
            Self::Damaged { .. } => {
                Some("save it again: memfold consolidate DB --save-plan".to_owned())
            }
            Self::Sqlite(_) => None,
        }
    }
}
