//! Queries by example: the vector of a memory that is there.

use memfold_index::Row;
use memfold_index::tiers::TierViews;

use super::build::text_hash;
use super::{SearchError, StoreIndex};
use crate::memory::VectorSpace;
use crate::store::brain_db::{LiveMemory, StoreReader};
use crate::store::reading::ModelShapes;
use crate::store::{BrainDb, LoadRequest};
use crate::text::strict_key;

/// Returns a live memory of this id with its vector; `None` where there is none, or it has no vector of the index's model.
///
/// # Errors
/// When the store cannot be read.
pub fn vector_of_memory(
    store: &BrainDb,
    index: Option<&StoreIndex>,
    id: &str,
    load: &LoadRequest<'_>,
) -> Result<Option<LiveMemory>, SearchError> {
    store.look_up(load, |reader| {
        let (space, shapes) = space_and_shapes(reader, index)?;
        Ok(reader.live(id, (space.as_ref(), &shapes))?)
    })
}

/// Returns the live memories with this text (but for white space and the form of Unicode), by their ids.
///
/// Where there is no index, only texts that are spelled alike are found.
///
/// # Errors
/// When the store cannot be read, or the index is damaged.
pub fn vectors_of_text(
    store: &BrainDb,
    index: Option<&StoreIndex>,
    text: &str,
    load: &LoadRequest<'_>,
) -> Result<Vec<LiveMemory>, SearchError> {
    let key = strict_key(text);
    let mut ids = Vec::new();
    if let Some(index) = index {
        let tiers = TierViews::open(index.file());
        let tiers = tiers.map_err(|error| SearchError::Damaged(error.to_string()))?;
        for Row(row) in tiers.text_keys.rows(text_hash(text)) {
            if (row as usize) < index.columns().len() {
                ids.push(index.columns().id_at(Row(row))?.to_owned());
            }
        }
    }
    store.look_up(load, |reader| {
        let (space, shapes) = space_and_shapes(reader, index)?;
        let mut ids = ids.clone();
        if ids.is_empty() {
            ids = reader.ids_of_text(text)?;
        }
        ids.sort_unstable();
        ids.dedup();
        let mut found = Vec::new();
        for id in &ids {
            let live = reader.live(id, (space.as_ref(), &shapes))?;
            found.extend(live.filter(|live| strict_key(&live.memory.content) == key));
        }
        Ok(found)
    })
}

/// Returns the space that vectors must be of (`None`: of the model with most rows, any dimension).
fn space_and_shapes(
    reader: &StoreReader<'_>,
    index: Option<&StoreIndex>,
) -> Result<(Option<VectorSpace>, ModelShapes), SearchError> {
    match index {
        Some(index) => Ok((Some(index.origin().space()), index.origin().shapes.clone())),
        None => Ok((None, reader.shapes()?)),
    }
}
