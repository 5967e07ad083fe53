//! What can be wrong with a lexicon.

use std::fmt;
use std::path::PathBuf;

use super::section::SECTIONS;

/// Why a lexicon cannot be read. Says where, and never what stands there: a path may lead to a file that is no lexicon
/// and holds secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LexiconError {
    /// The file, where it is known.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// The section that may be meant.
    pub suggestion: Option<&'static str>,
}

impl std::error::Error for LexiconError {}

impl fmt::Display for LexiconError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, expected, .. } = self;
        match &self.file {
            Some(file) => {
                write!(
                    f,
                    "{}, line {line}: expected {expected}",
                    file.to_string_lossy().escape_debug()
                )
            }
            None => write!(f, "line {line} of the lexicon: expected {expected}"),
        }
    }
}

impl LexiconError {
    /// Returns advice for the writer of the lexicon.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self.suggestion {
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

/// Returns the section whose name is nearly that of a header.
pub(super) fn nearest_section(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix('[')?.trim_matches(['[', ']', ' ']).split(' ').next()?;
    SECTIONS.iter().map(|(section, _)| *section).find(|section| is_near(section, name))
}

/// Tells whether two names of one length differ in at most two letters, or start alike.
fn is_near(known: &str, found: &str) -> bool {
    let differing =
        known.bytes().zip(found.bytes()).filter(|(known, found)| known != found).count();
    let same_start = known.bytes().zip(found.bytes()).take_while(|(known, found)| known == found);
    (known.len() == found.len() && differing <= 2) || same_start.count() >= 4
}
