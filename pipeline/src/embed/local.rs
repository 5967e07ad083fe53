//! A model in a folder, run in this process; only with the feature `embed-candle`.

use super::{EmbedError, EmbedSettings, Embedder};

/// Says that this program was built without it.
pub(super) fn open(_settings: &EmbedSettings) -> Result<Box<dyn Embedder>, EmbedError> {
    Err(EmbedError::NotBuilt)
}
