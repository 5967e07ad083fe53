//! How texts are compared.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// How texts are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardPolicy {
    /// Whether verdicts and absorbability count.
    pub enabled: bool,
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

impl Default for GuardPolicy {
    /// Returns what holds where nothing is configured.
    fn default() -> Self {
        Self {
            enabled: true,
            contradiction_threshold: 0.7,
            weights: SignalWeights::default(),
            lexicon: None,
            lexicon_file: None,
        }
    }
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

impl Default for SignalWeights {
    fn default() -> Self {
        Self {
            negation: 0.95,
            antonym: 0.9,
            number: 0.9,
            exclusive: 0.85,
            modality: 0.8,
            time: 0.8,
        }
    }
}

/// Serializes a text as its SHA-256 in hex, or null.
fn digest<S: Serializer>(value: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    let hex = |text: &String| -> String {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    value.as_ref().map(hex).serialize(to)
}
