//! What can be wrong with a lexicon.

use super::section::SECTIONS;

/// Why a lexicon cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the lexicon: expected {expected}, found {found:?}")]
#[non_exhaustive]
pub struct LexiconError {
    /// The line, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there, shortened.
    pub found: String,
}

impl LexiconError {
    /// Returns advice for the writer of the lexicon.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let name = self.found.trim_matches(['[', ']', ' ']).split(' ').next().unwrap_or_default();
        let near = SECTIONS
            .iter()
            .map(|(section, _)| *section)
            .filter(|_| self.found.starts_with('['))
            .find(|section| is_near(section, name));
        Some(match near {
            Some(section) => format!("did you mean `[{section}]`?"),
            None => {
                let names: Vec<_> = SECTIONS.iter().map(|(section, _)| *section).collect();
                format!(
                    "a lexicon has sections [{}]; words are apart by commas, `#` starts a comment",
                    names.join("], [")
                )
            }
        })
    }
}

/// Tells whether two names of one length differ in at most two letters, or start alike.
fn is_near(known: &str, found: &str) -> bool {
    let differing =
        known.bytes().zip(found.bytes()).filter(|(known, found)| known != found).count();
    let same_start = known.bytes().zip(found.bytes()).take_while(|(known, found)| known == found);
    (known.len() == found.len() && differing <= 2) || same_start.count() >= 4
}
