//! [`Embedder`], which every provider implements.

use super::EmbedError;

/// Makes vectors of texts.
pub trait Embedder: Send {
    /// Returns the model's name as a store should spell it, where it is configured or the provider said it.
    fn model(&self) -> Option<&str>;

    /// Returns where texts go, for messages: an address without credentials, or a folder.
    fn place(&self) -> &str;

    /// Returns one vector for each text, in the order of the texts: all of one dimension, finite and not zero.
    ///
    /// # Errors
    /// When there is no answer, or not the one expected.
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}
