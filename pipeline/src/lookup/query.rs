//! [`Query`]: what is searched for, and the vector that stands for it.

use std::borrow::Cow;

use super::SearchError;
use super::search::Compared;
use memfold_model::text::strict_key;
use memfold_store::brain_db::LiveMemory;

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Query<'a> {
    /// What is near a vector.
    Vector(&'a [f32]),
    /// What is near the live memory of this id, which is no match itself.
    Memory(&'a str),
    /// What is near the vector of a live memory with this text (but for white space and the form of Unicode).
    ///
    /// Where there is no index, only texts that are spelled alike are found.
    Text(&'a str),
}

/// A query as it is compared.
pub(super) struct Asked<'a> {
    pub(super) vector: Cow<'a, [f32]>,
    /// The memory that is no match.
    pub(super) except: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// Finds its vector.
    pub(super) fn resolve(self, compared: &Compared<'_>) -> Result<Asked<'a>, SearchError> {
        let (found, except) = match self {
            Self::Vector(vector) => (Cow::Borrowed(vector), None),
            Self::Memory(id) => {
                let found = compared.live(id)?;
                let found = found.ok_or_else(|| SearchError::NoMemory { id: id.into() })?;
                (Cow::Owned(found.vector), Some(id))
            }
            Self::Text(text) => {
                let found = of_text(compared, text)?.ok_or(SearchError::NoText)?;
                (Cow::Owned(found.vector), None)
            }
        };
        Ok(Asked { vector: found, except })
    }
}

/// Returns the first live memory with a text, by their ids.
fn of_text(compared: &Compared<'_>, text: &str) -> Result<Option<LiveMemory>, SearchError> {
    let indexed = compared.index.map_or(Ok(Vec::new()), |(index, _)| index.ids_of_text(text))?;
    match first_of(compared, indexed, text)? {
        Some(found) => Ok(Some(found)),
        None => first_of(compared, compared.reader.ids_of_text(text)?, text),
    }
}

fn first_of(
    compared: &Compared<'_>,
    mut ids: Vec<String>,
    text: &str,
) -> Result<Option<LiveMemory>, SearchError> {
    let key = strict_key(text);
    ids.sort_unstable();
    for id in &ids {
        let live = compared.live(id)?;
        if let Some(live) = live.filter(|live| strict_key(&live.memory.content) == key) {
            return Ok(Some(live));
        }
    }
    Ok(None)
}
