//! How texts are compared.

use serde::Serialize;

use super::hash::digest;

/// How texts are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardPolicy {
    /// Whether verdicts and absorbability count.
    pub enabled: bool,
    /// Share of a row's content words that its survivor may lack.
    pub lacking_words_max: f64,
    /// Longer texts (in characters) are beyond the embedder's window.
    pub window_chars: usize,
    /// Full-text shingle containment that texts beyond the window need.
    pub containment_min: f64,
    /// The user's lexicon: the file's text, in the format of the built-in one.
    #[serde(serialize_with = "digest")]
    pub lexicon: Option<String>,
}
