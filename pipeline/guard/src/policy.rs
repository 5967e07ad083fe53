//! How texts are compared.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// How texts are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardPolicy {
    /// Whether verdicts are used, and limit merges.
    pub enabled: bool,
    /// The user's lexicon: the file's text, in the format of the built-in one.
    #[serde(serialize_with = "digest")]
    pub lexicon: Option<String>,
    /// Where that text came from; for messages.
    #[serde(skip)]
    pub lexicon_file: Option<PathBuf>,
}

impl Default for GuardPolicy {
    /// Returns the built-in settings.
    fn default() -> Self {
        Self { enabled: true, lexicon: None, lexicon_file: None }
    }
}

/// Serializes a text as its SHA-256 in hex, or null.
fn digest<S: Serializer>(value: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    let hex = |text: &String| -> String {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    value.as_ref().map(hex).serialize(to)
}
