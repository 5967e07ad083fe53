//! The lexicon: what the guard knows of words.
//!
//! `parse` reads its text into a `Draft`, which is laid out as a `Lexicon`: tables without pointers. For the built-in text that
//! is done when the crate is built (`build.rs`), so that a process that judges one pair parses nothing.

mod built_in;
mod parse;
mod tables;

#[cfg(test)]
pub(super) use built_in::FILES;
pub(super) use built_in::{BUILT_IN, PROOF_WORDS};
pub use parse::LexiconError;
pub(super) use tables::{Entry, Form, Lexicon, Marks, PHRASE_WORDS_MAX, Relation, Roles, Unit};

use std::borrow::Cow;

use parse::Draft;
use tables::Relation::{Distinct, Exclusive, Modality, Opposite};
use tables::{Lists, Membership, Phrase, ProofWords, Table};

use super::reading::Token;

/// The built-in lexicon as `build.rs` laid it out.
const TABLES: Lexicon = include!(concat!(env!("OUT_DIR"), "/lexicon.rs"));

/// What a proof knows besides, laid out in the same way.
pub(super) static PROOF: ProofWords = include!(concat!(env!("OUT_DIR"), "/proof_words.rs"));

impl Lexicon {
    /// Returns the built-in lexicon, or reads it again together with the user's, whose errors name the user's lines.
    pub(super) fn load(user: Option<&str>) -> Result<Self, LexiconError> {
        match user {
            None => Ok(TABLES),
            Some(_) => Self::load_from(BUILT_IN, user),
        }
    }

    /// Reads a lexicon's text and then the user's, whose errors name the user's lines.
    pub(super) fn load_from(built_in: &str, user: Option<&str>) -> Result<Self, LexiconError> {
        let mut draft = Draft::default();
        parse::parse(built_in, &mut draft)?;
        if let Some(user) = user {
            parse::parse(user, &mut draft)?;
        }
        Ok(draft.lay_out())
    }

    /// Returns the entry of a token; `None` for numbers and for words without one.
    pub(super) fn entry_of(&self, token: &Token) -> Option<Entry<'_>> {
        if token.is_word() { self.entry(token.entry) } else { None }
    }

    /// Returns what a token does in a sentence; nothing for numbers and for words without an entry.
    pub(super) fn roles_of(&self, token: &Token) -> Roles {
        if token.is_word() { self.roles(token.entry) } else { Roles::default() }
    }
}

#[cfg(test)]
mod tests;
