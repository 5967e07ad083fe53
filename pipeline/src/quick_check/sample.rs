//! Memories to check that resemble a store's, for measurements.

use memfold_index::{NoProgress, Row};

use super::{Incoming, QuickCheck};
use crate::lookup::SearchError;
use memfold_core::memory::VectorSpace;
use memfold_core::time::Instant;
use memfold_store::LoadRequest;
use memfold_store::brain_db::{Reach, StoreReader};
use memfold_store::reading::ModelShapes;

/// One in this many memories nearly repeats one of the store; the others are new.
const KNOWN_EACH: usize = 4;
/// The weight of another vector in a new one: the similarity to its own is about 0.98, and 0.64.
const OF_ANOTHER: [f32; 2] = [0.2, 1.2];

impl QuickCheck {
    /// Makes memories as they might be saved: texts and vectors of rows spread over the store, each vector bent towards
    /// that of another row. One in four is near its row, with a word more; the others are not.
    ///
    /// # Errors
    /// When the store or its index cannot be read.
    pub fn sample(&self, count: usize, now: Instant) -> Result<Vec<Incoming>, SearchError> {
        let index = self.shared.index.live().ok().flatten();
        let time_zone = &self.shared.options.time_zone;
        let load = LoadRequest { time_zone, now, progress: &NoProgress };
        let rows = self.shared.store.look_up(&load, |reader| match &index {
            Some(index) => {
                let origin = index.origin();
                let (space, columns) = (origin.space(), index.files().columns());
                let step = (columns.len() / count.max(1)).max(1);
                let ids = (0..columns.len()).step_by(step).take(count.saturating_mul(2));
                let ids = ids.map(|row| Ok(columns.id_at(Row(row as u32))?.to_owned()));
                let ids: Result<Vec<String>, SearchError> = ids.collect();
                rows(reader, &ids?, Some(&space), &origin.shapes)
            }
            None => {
                let mut ids = Vec::new();
                reader.texts_since(Reach::START, count, |id, _| ids.push(id.to_owned()))?;
                rows(reader, &ids, None, &reader.shapes()?)
            }
        })?;
        let bent = |at: usize| {
            let (text, vector) = &rows[at % rows.len()];
            let other = &rows[(at * 7 + 3) % rows.len()].1;
            let is_known = at.is_multiple_of(KNOWN_EACH);
            let share = OF_ANOTHER[usize::from(!is_known)] * norm(vector) / norm(other);
            let vector: Vec<f32> = vector.iter().zip(other).map(|(a, b)| a + share * b).collect();
            let text = if is_known { format!("{text} now") } else { format!("{text} ({at})") };
            Incoming::text(text).with_vector(vector)
        };
        Ok(if rows.is_empty() { Vec::new() } else { (0..count).map(bent).collect() })
    }
}

/// Texts and vectors of one dimension.
fn rows(
    reader: &StoreReader<'_>,
    ids: &[String],
    space: Option<&VectorSpace>,
    shapes: &ModelShapes,
) -> Result<Vec<(String, Vec<f32>)>, SearchError> {
    let mut rows: Vec<(String, Vec<f32>)> = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(live) = reader.live(id, space, shapes)?
            && rows.first().is_none_or(|(_, first)| first.len() == live.vector.len())
        {
            rows.push((live.memory.content.into(), live.vector));
        }
    }
    Ok(rows)
}

fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
}
