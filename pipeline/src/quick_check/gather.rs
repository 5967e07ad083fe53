//! Looking through index and store: which memories may be alike?

use std::collections::HashSet;
use std::sync::Mutex;

use memfold_index::query_norm;
use memfold_simd::{Kernels, Similarity};

use super::Incoming;
use super::answer::IndexUsed;
use crate::lookup::{NearRows, SearchError, StoreIndex, near_rows};
use crate::recall::words;
use memfold_core::memory::{Memory, Status, VectorSpace};
use memfold_guard::text::{TextKey, strict_key};
use memfold_store::brain_db::{Marks, Reaches, SpaceShapes, StoreReader};
use memfold_store::reading::ModelShapes;

/// Without an index, a store of up to this many rows is read.
pub(super) const SCANNED_ROWS_MAX: usize = 2_000;
/// Up to this many rows that no index holds are read one by one.
const FRESH_ROWS_MAX: usize = 16_384;
/// The note if there are no vectors to compare with.
const NO_VECTORS: &str = "no memory of the store has a vector, so that only texts are compared; `memfold embed` makes them";
/// Number of memories with the new one's text that are searched for a vector.
const LENDERS_MAX: usize = 64;
/// Number of memories that share words with a text without a vector and are compared with it.
const WORD_ROWS_MAX: usize = 64;
/// Number of nearest rows of each part that are named.
const NEAR_ROWS_MAX: usize = 256;

/// Found memories, before any of them is read again.
#[derive(Debug, Clone, Default)]
pub(super) struct Gathered {
    /// Memories with a possibly similar text; `None`: not searched.
    pub(super) texts: Option<Vec<String>>,
    /// Memories with a near vector; `None`: not searched.
    pub(super) near: Option<NearRows>,
    /// The vector of a memory that says the very same, where the new one came without one.
    pub(super) reused: Option<Vec<f32>>,
    /// Whether texts are compared by the built-in embedding, in a store without vectors, or with
    /// some.
    pub(super) by_words: Option<StoreVectors>,
    /// Which vectors are compared.
    pub(super) space: Option<(VectorSpace, ModelShapes)>,
    /// Where the store ended.
    pub(super) marks: Option<Marks>,
    pub(super) used: IndexUsed,
    /// Rows that are in no segment.
    pub(super) unsealed_rows: u64,
    pub(super) notes: Vec<String>,
    /// Seconds of the clock when the store was open, and when all was found.
    pub(super) opened_at: Option<f64>,
    pub(super) found_at: Option<f64>,
}

/// Whether memories of a store have vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreVectors {
    Some,
    None,
}

impl Default for IndexUsed {
    fn default() -> Self {
        Self { kind: "none", rows: 0, fresh_rows: 0 }
    }
}

/// The query.
pub(super) struct Wanted<'a> {
    pub(super) incoming: &'a Incoming,
    pub(super) least: Similarity,
    pub(super) kernels: &'static Kernels,
    /// Says on which index to build, where one is missing.
    pub(super) build_hint: &'a str,
    /// Whether a memory without a vector is searched with the vector of one with the same text.
    pub(super) lends: bool,
}

/// Searches texts and vectors; each result is added to `found` at once.
pub(super) fn gather(
    reader: &StoreReader<'_>,
    index: Option<&StoreIndex>,
    wanted: &Wanted<'_>,
    found: &Mutex<Gathered>,
) -> Result<(), SearchError> {
    let put = |change: &mut dyn FnMut(&mut Gathered)| {
        if let Ok(mut found) = found.lock() {
            change(&mut found);
        }
    };
    let marks = reader.last_marks()?;
    let reaches = index.map(|index| reader.reaches(index.marks())).transpose()?;
    let fitting = index.zip(reaches).filter(|(_, reaches)| !reaches.is_lost());
    put(&mut |found| {
        // A second try begins anew.
        (found.texts, found.near, found.reused) = (None, None, None);
        found.marks = Some(marks.clone());
        if index.is_some() && fitting.is_none() {
            found.notes.push(format!(
                "the index no longer fits the store: rows were renumbered, or a new one may have \
                 any number, or it is another store's; {}",
                wanted.build_hint
            ));
        }
    });
    let mut texts = match (fitting, &wanted.incoming.text) {
        (Some((index, _)), Some(text)) => index.ids_of_text(text)?,
        _ => Vec::new(),
    };
    let (from, most) = match fitting {
        Some((_, reaches)) => (reaches, FRESH_ROWS_MAX),
        None => (Reaches::START, SCANNED_ROWS_MAX),
    };
    let (rows, is_complete) = texts_since(reader, from, most, wanted.incoming, &mut texts)?;
    let lends = is_complete && wanted.lends && wanted.incoming.vector.is_none();
    let reused = if lends { reused(reader, fitting, &texts, wanted.incoming)? } else { None };
    let by_words = match (&wanted.incoming.text, &wanted.incoming.vector) {
        (Some(text), None) if reused.is_none() => by_words(reader, text, &mut texts)?,
        _ => None,
    };
    put(&mut |found| {
        found.unsealed_rows = rows;
        found.used = used(fitting.map(|(index, _)| index), rows);
        found.by_words = by_words;
        if is_complete {
            found.texts = Some(std::mem::take(&mut texts));
        } else {
            found.notes.push(too_many(fitting.is_some(), wanted.build_hint));
        }
    });
    let given = wanted.incoming.vector.as_deref().filter(|_| is_complete);
    let Some(vector) = given.or(reused.as_deref()) else { return Ok(()) };
    let (space, shapes) = space_of(reader, fitting, wanted.incoming, vector)?;
    let is_bare = rows > 0 && fitting.is_none() && !reader.has_any_embedding()?;
    let looked = match misfit(wanted.incoming, vector, &space) {
        Some(note) => Err(note),
        None => {
            near(reader, fitting, vector, SpaceShapes { space: &space, shapes: &shapes }, wanted)?
        }
    };
    put(&mut |found| {
        match &looked {
            Ok(near) => found.near = Some(near.clone()),
            Err(note) if reused.is_none() => found.notes.push(note.clone()),
            Err(_) => return,
        }
        found.reused.clone_from(&reused);
        if is_bare {
            found.notes.push(NO_VECTORS.to_owned());
        }
        found.space = Some((space.clone(), shapes.clone()));
    });
    Ok(())
}

/// Adds the memories that share most words with a text, the rarest first; `None` where no full-text
/// index can be queried.
fn by_words(
    reader: &StoreReader<'_>,
    text: &str,
    texts: &mut Vec<String>,
) -> Result<Option<StoreVectors>, SearchError> {
    let Some(found) = reader.ids_of_words(&words(text), WORD_ROWS_MAX)? else { return Ok(None) };
    let known: HashSet<String> = texts.iter().cloned().collect();
    texts.extend(found.into_iter().filter(|id| !known.contains(id)));
    Ok(Some(match reader.has_any_embedding()? {
        true => StoreVectors::Some,
        false => StoreVectors::None,
    }))
}

/// Notes that not all texts were searched.
fn too_many(has_index: bool, build_hint: &str) -> String {
    let reason = match has_index {
        true => format!("more than {FRESH_ROWS_MAX} rows came since the index was built"),
        false => format!("no index, and more than {SCANNED_ROWS_MAX} memories"),
    };
    format!("{reason}; {build_hint}")
}

/// Returns the vectors that one is compared with.
fn space_of(
    reader: &StoreReader<'_>,
    fitting: Option<(&StoreIndex, Reaches)>,
    incoming: &Incoming,
    vector: &[f32],
) -> Result<(VectorSpace, ModelShapes), SearchError> {
    if let Some((index, _)) = fitting {
        return Ok((index.origin().space(), index.origin().shapes.clone()));
    }
    let shapes = reader.shapes()?;
    let model = incoming.model.as_deref();
    let model = shapes.model(model.map(Into::into)).into();
    Ok((VectorSpace { model, dim: vector.len() as u32 }, shapes))
}

/// Finds the vector of a memory, live or merged, with the same text as the new one: contradictions
/// of a repeated text are near to it.
fn reused(
    reader: &StoreReader<'_>,
    fitting: Option<(&StoreIndex, Reaches)>,
    ids: &[String],
    incoming: &Incoming,
) -> Result<Option<Vec<f32>>, SearchError> {
    let Some(own) = incoming.text.as_deref().map(strict_key) else { return Ok(None) };
    let says = |content: &str| strict_key(content) == own;
    let mut read_shapes = None;
    for id in ids.iter().take(LENDERS_MAX) {
        let memory = reader.remembered(id)?.filter(|memory| {
            matches!(memory.status, Status::Live | Status::Merged) && says(&memory.content)
        });
        let Some(Memory { merged_into, .. }) = memory else { continue };
        let live = merged_into.as_ref().map_or(id.as_str(), |survivor| survivor.as_str());
        let shapes = match (fitting, &mut read_shapes) {
            (Some((index, _)), _) => &index.origin().shapes,
            (None, Some(shapes)) => &*shapes,
            (None, none) => none.insert(reader.shapes()?),
        };
        let space = match fitting {
            Some((index, _)) => index.origin().space(),
            None => {
                let Some(live) = reader.live(live, None, shapes)? else { continue };
                let dim = live.vector.len() as u32;
                VectorSpace { model: shapes.model(None).into(), dim }
            }
        };
        let vector = match merged_into {
            None => reader.vector(id, SpaceShapes { space: &space, shapes })?,
            Some(_) => reader.vector_of_merged(id, SpaceShapes { space: &space, shapes })?,
        };
        if vector.is_some() {
            return Ok(vector);
        }
    }
    Ok(None)
}

/// Adds newer rows to the results; `false` if there are too many.
pub(super) fn catch_up(
    reader: &StoreReader<'_>,
    wanted: &Wanted<'_>,
    gathered: &mut Gathered,
) -> Result<bool, SearchError> {
    let Some(marks) = &gathered.marks else { return Ok(false) };
    let reaches = reader.reaches(marks)?;
    if reaches.is_lost() {
        return Ok(false);
    }
    if let Some(texts) = &mut gathered.texts {
        let (_, is_complete) =
            texts_since(reader, reaches, FRESH_ROWS_MAX, wanted.incoming, texts)?;
        if !is_complete {
            return Ok(false);
        }
    }
    let query = wanted.incoming.vector.as_deref().or(gathered.reused.as_deref());
    if let (Some(near), Some((space, shapes)), Some(vector)) =
        (&mut gathered.near, &gathered.space, query)
    {
        near_since(reader, reaches, vector, SpaceShapes { space, shapes }, wanted, near)?;
        near.settle();
    }
    Ok(true)
}

fn used(index: Option<&StoreIndex>, rows: u64) -> IndexUsed {
    let Some(index) = index else { return IndexUsed { fresh_rows: rows, ..IndexUsed::default() } };
    let sealed: u64 = index.fresh().iter().map(|segment| segment.row_count()).sum();
    IndexUsed {
        kind: index.files().tier().name(),
        rows: index.files().columns().len() as u64,
        fresh_rows: sealed + rows,
    }
}

/// Adds the rows since a place with a possibly similar text; returns how many there are, and
/// whether all were read.
fn texts_since(
    reader: &StoreReader<'_>,
    reaches: Reaches,
    most: usize,
    incoming: &Incoming,
    texts: &mut Vec<String>,
) -> Result<(u64, bool), SearchError> {
    let key = incoming.text.as_deref().map(TextKey::of);
    let mut rows = 0;
    let is_complete = reader.all_texts_since(reaches, most, |id, text| {
        rows += 1;
        if key.as_ref().is_some_and(|key| key.proposes(text)) {
            texts.push(id.to_owned());
        }
    })?;
    Ok((rows, is_complete))
}

/// Returns why a vector cannot be compared with the vectors of a space.
fn misfit(incoming: &Incoming, vector: &[f32], space: &VectorSpace) -> Option<String> {
    let VectorSpace { model, dim } = space;
    if let Some(given) = incoming.model.as_deref().filter(|given| **given != **model) {
        return Some(format!("the vector is of model {given:?}, those of the index of {model:?}"));
    }
    (vector.len() != *dim as usize).then(|| {
        format!("the vector has {} components, those of model {model:?} have {dim}", vector.len())
    })
}

/// Finds near vectors, or returns why that is impossible.
fn near(
    reader: &StoreReader<'_>,
    fitting: Option<(&StoreIndex, Reaches)>,
    query: &[f32],
    space: SpaceShapes<'_>,
    wanted: &Wanted<'_>,
) -> Result<Result<NearRows, String>, SearchError> {
    let Wanted { least, kernels, .. } = *wanted;
    let mut near = match fitting {
        Some((index, _)) => near_rows(index, query, least, NEAR_ROWS_MAX, kernels)?,
        None => NearRows::default(),
    };
    let from = fitting.map_or(Reaches::START, |(_, reaches)| reaches);
    let rows = near_since(reader, from, query, space, wanted, &mut near)?;
    if fitting.is_none() && rows == 0 && reader.has_any_embedding()? {
        let (model, components) = (&space.space.model, query.len());
        return Ok(Err(format!("no vector of model {model:?} has {components} components")));
    }
    near.settle();
    Ok(Ok(near))
}

/// Adds newer vectors; returns how many were compared.
fn near_since(
    reader: &StoreReader<'_>,
    reaches: Reaches,
    query: &[f32],
    space: SpaceShapes<'_>,
    wanted: &Wanted<'_>,
    near: &mut NearRows,
) -> Result<u64, SearchError> {
    let kernels = wanted.kernels;
    let squared_norm = query_norm(query, query.len(), 0, kernels)?;
    let mut rows = 0;
    reader.since(reaches, space, |id, vector| {
        rows += 1;
        let norms = [squared_norm, kernels.dot(vector, vector)];
        let similarity = kernels.similarity(query, vector, norms);
        if let Some(similarity) = similarity.filter(|found| *found >= wanted.least) {
            near.push(id, similarity);
        }
        Ok::<_, SearchError>(())
    })?;
    Ok(rows)
}
