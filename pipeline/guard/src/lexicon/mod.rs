//! The lexicon: the guard's knowledge of words.
//!
//! `parse` reads its text into a `Draft`, which is laid out as a `Lexicon`: tables without pointers. For the built-in text that
//! is done when the crate is built (`build.rs`), so that a process that judges one pair parses nothing.

mod built_in;
mod parse;
mod tables;

pub(super) use built_in::BUILT_IN;
#[cfg(test)]
pub(super) use built_in::FILES;
pub use parse::LexiconError;
pub(super) use tables::{Lexicon, Marks, PHRASE_WORDS_MAX, Relation, Roles};

use std::borrow::Cow;

use parse::Draft;
use tables::Relation::{Distinct, Exclusive, Modality, Opposite};
use tables::{Canonical, Form, Lists, Membership, Phrase, Table, Unit};

/// The built-in lexicon as `build.rs` laid it out.
const TABLES: Lexicon = include!(concat!(env!("OUT_DIR"), "/lexicon.rs"));

impl Lexicon {
    /// Returns the built-in lexicon, or reads it again together with the user's; errors name the
    /// user's lines.
    pub(super) fn load(user: Option<&str>) -> Result<Self, LexiconError> {
        match user {
            None => Ok(TABLES),
            Some(_) => Self::load_from(BUILT_IN, user),
        }
    }

    /// Reads a lexicon's text and then the user's; errors name the user's lines.
    pub(super) fn load_from(built_in: &str, user: Option<&str>) -> Result<Self, LexiconError> {
        let mut draft = Draft::default();
        parse::parse(built_in, &mut draft)?;
        if let Some(user) = user {
            draft.begin_user();
            parse::parse(user, &mut draft)?;
        }
        Ok(draft.lay_out())
    }
}

#[cfg(test)]
mod tests;
