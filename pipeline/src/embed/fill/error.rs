//! [`FillError`].

use crate::embed::EmbedError;
use memfold_store::LoadStoreError;
use memfold_store::brain_db::SessionError;

/// Why embeddings are missing still. What was written before stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FillError {
    /// The store cannot be read.
    #[error(transparent)]
    Load(#[from] LoadStoreError),
    /// The store cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The provider gave no vectors.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// Vectors of another model could not be compared with those of the store.
    #[error("the store's vectors are of the model {expected:?}, these would be of {found:?}")]
    Model {
        /// The store's.
        expected: String,
        /// The provider's.
        found: String,
    },
    /// Vectors of another dimension could not be compared with those of the store.
    #[error("the store's vectors have {expected} dimensions, those of {place} have {found}")]
    Dimension {
        /// The store's.
        expected: u32,
        /// The provider's.
        found: usize,
        /// Who made them.
        place: String,
    },
    /// No thread could be started.
    #[error("no thread could be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl FillError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Embed(error) => error.hint(),
            Self::Model { expected, .. } => Some(format!(
                "use the store's model; if it is the same under another name, say so: \
                 --set embed.model={expected} --set embed.request_model=NAME"
            )),
            Self::Dimension { .. } => Some(
                "use the store's model: `memfold doctor DB` names it, `embed.request_model` is what \
                 the provider is asked for"
                    .to_owned(),
            ),
            Self::Thread(_) => Some("end other programs, or allow more threads".to_owned()),
            Self::Cancelled => Some("what was written stays; running again continues".to_owned()),
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Load(LoadStoreError::Cancelled))
    }
}
