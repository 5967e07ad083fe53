//! How texts are compared.

use std::path::PathBuf;

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
    /// From this score on a pair is contradictory, in (0, 1]: that of `detect`, and hashed with it.
    #[serde(skip)]
    pub contradiction_threshold: f64,
    /// How much each sign of contradiction adds to the score.
    pub weights: SignalWeights,
    /// The user's lexicon: the file's text, in the format of the built-in one.
    #[serde(serialize_with = "digest")]
    pub lexicon: Option<String>,
    /// Where that text came from; for messages.
    #[serde(skip)]
    pub lexicon_file: Option<PathBuf>,
}

/// What a sign of contradiction weighs, in \[0, 1\], where the rest of the two texts is the same; 0: no sign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SignalWeights {
    /// One text denies what the other says.
    pub negation: f64,
    /// Words with opposite meanings.
    pub antonym: f64,
    /// Numbers, quantities and amounts of money.
    pub number: f64,
    /// Members of a class that exclude each other.
    pub exclusive: f64,
    /// Modals that flip.
    pub modality: f64,
    /// Times of day.
    pub time: f64,
}
