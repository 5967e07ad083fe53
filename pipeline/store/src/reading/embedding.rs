//! Embeddings find their memories, and everything becomes a snapshot.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use crate::memory_store::{LiveRow, LiveVisitor, LoadRequest, LoadStoreError, VectorSink};
use crate::reading::memory::{MemoryReader, ReadMemories, Tally};
use crate::reading::vector::{ModelShapes, RawRow, ShapeSurvey, decode_components};
use memfold_core::decisions::Decisions;
use memfold_core::journal::RowImage;
use memfold_core::memory::{
    BaseDigest, CreatedAt, Embedding, InvalidEmbedding, Memory, SpaceIndex, Status, VectorSpace,
};
use memfold_core::row::{
    MEMORY_CELLS, RawMemory, RowFacts, digest_with_embedding, facts_of, texts_of,
};
use memfold_core::value::ValueRef;
use memfold_core::{SkipReason, Snapshot};

/// An embedding that covers this many characters of its text is not called stale for being short.
const FRESH_CHARS_MIN: usize = 500;

/// Cells of a [`RawEmbedding`].
pub(crate) const EMBEDDING_CELLS: usize = 4;

/// A row of an embeddings table as stored; columns that do not exist are NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEmbedding<'a> {
    pub(crate) source_id: ValueRef<'a>,
    pub(crate) content: ValueRef<'a>,
    pub(crate) embedding: ValueRef<'a>,
    pub(crate) model: ValueRef<'a>,
}

impl<'a> RawEmbedding<'a> {
    /// Takes the cells in the order of the fields.
    pub(crate) const fn of_cells(cells: [ValueRef<'a>; EMBEDDING_CELLS]) -> Self {
        let [source_id, content, embedding, model] = cells;
        Self { source_id, content, embedding, model }
    }
}

/// Takes the rows of an embeddings table, one by one.
pub(crate) struct EmbeddingReader<'a> {
    memories: &'a [Memory],
    in_table: usize,
    left_out: &'a HashSet<Box<str>>,
    index: HashMap<&'a str, u32>,
    shapes: &'a ModelShapes,
    found: Found,
    spaces: BTreeMap<VectorSpace, SpaceIndex>,
    latest: Option<(VectorSpace, SpaceIndex)>,
    vector: Vec<f32>,
}

/// Reads a store from rows in memory, as cells in the order of the columns: id, content,
/// categories, importance, access count, creation time, expiry, source and archive mark; of
/// embeddings the memory's id, the text, the vector in f32 and its model. Of several rows with one
/// id the first counts.
///
/// # Errors
/// When the sink cannot keep a vector.
pub fn read_rows(
    request: &LoadRequest<'_>,
    memories: &[[ValueRef<'_>; MEMORY_CELLS]],
    embeddings: &[[ValueRef<'_>; EMBEDDING_CELLS]],
    sink: &mut dyn VectorSink,
) -> Result<Snapshot, LoadStoreError> {
    let mut reader = MemoryReader::new(*request);
    for (position, cells) in (1..).zip(memories) {
        reader.take(&RawMemory::of_cells(*cells), position);
    }
    let read = reader.finish(Vec::new());
    let mut survey = ShapeSurvey::default();
    for [_, _, _, model] in embeddings {
        survey.add(model.text().ok().flatten().as_deref(), None);
    }
    // Without lengths, no blob is taken for doubles.
    let shapes = survey.decide(|_, _| Ok::<_, LoadStoreError>(Vec::new()))?;
    let mut reader = EmbeddingReader::new(&read, &shapes);
    for cells in embeddings {
        reader.take(&RawEmbedding::of_cells(*cells), sink).map_err(LoadStoreError::Sink)?;
    }
    Ok(reader.finish().into_snapshot(read, None, Vec::new()))
}

/// The results for each memory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    embeddings: Vec<Embedding>,
    digests: Vec<Option<BaseDigest>>,
    spaces: Vec<VectorSpace>,
    tally: Tally,
}

impl<'a> EmbeddingReader<'a> {
    /// Begins; `shapes` were decided over the same embeddings.
    pub(crate) fn new(read: &'a ReadMemories, shapes: &'a ModelShapes) -> Self {
        let memories = &read.memories;
        // Memories are numbered with 32 bits; the adapter refuses larger stores.
        let index = (0_u32..).zip(memories).map(|(at, memory)| (memory.id.as_str(), at)).collect();
        Self {
            memories,
            in_table: read.in_table,
            left_out: &read.left_out,
            index,
            shapes,
            found: Found {
                embeddings: vec![Embedding::Missing; memories.len()],
                digests: vec![None; memories.len()],
                ..Found::default()
            },
            spaces: BTreeMap::new(),
            latest: None,
            vector: Vec::new(),
        }
    }

    /// Takes one row.
    pub(crate) fn take(
        &mut self,
        raw: &RawEmbedding<'_>,
        sink: &mut dyn VectorSink,
    ) -> io::Result<()> {
        let Some(at) = self.position(raw) else {
            let id = raw.source_id.text().ok().flatten();
            if !id.is_some_and(|id| self.left_out.contains(&*id)) {
                self.found.tally.add(SkipReason::EmbeddingOrphan, || raw.source_id.shown());
            }
            return Ok(());
        };
        if self.found.digests[at].is_some() {
            self.repeated(raw.source_id);
            return Ok(());
        }
        self.put(at, raw, sink)
    }

    /// Takes a row that was moved out of the table together with its memory, the latest record
    /// first. A row in the tables takes precedence.
    pub(crate) fn take_archived(
        &mut self,
        raw: &RawEmbedding<'_>,
        sink: &mut dyn VectorSink,
    ) -> io::Result<()> {
        match self.position(raw) {
            Some(at) if at >= self.in_table && self.found.digests[at].is_none() => {
                self.put(at, raw, sink)
            }
            _ => Ok(()),
        }
    }

    fn position(&self, raw: &RawEmbedding<'_>) -> Option<usize> {
        let id = raw.source_id.text().ok().flatten()?;
        self.index.get(&*id).map(|at| *at as usize)
    }

    fn put(
        &mut self,
        at: usize,
        raw: &RawEmbedding<'_>,
        sink: &mut dyn VectorSink,
    ) -> io::Result<()> {
        let memory = &self.memories[at];
        self.found.digests[at] = Some(digest_with_embedding(memory.base_digest, raw.embedding));
        self.found.embeddings[at] = self.understand(memory, raw, sink)?;
        Ok(())
    }

    /// Counts an embedding that is replaced by another one of the same memory.
    pub(crate) fn repeated(&mut self, source_id: ValueRef<'_>) {
        self.found.tally.add(SkipReason::EmbeddingRepeated, || source_id.shown());
    }

    /// Ends the table.
    pub(crate) fn finish(self) -> Found {
        self.found
    }

    fn understand(
        &mut self,
        memory: &Memory,
        raw: &RawEmbedding<'_>,
        sink: &mut dyn VectorSink,
    ) -> io::Result<Embedding> {
        let unfit = match understand(raw, &memory.content, self.shapes, &mut self.vector) {
            Ok(model) => {
                let space = self.space(&model, sink)?;
                let row = sink.push(space, &self.vector)?;
                return Ok(Embedding::Vector { space, row });
            }
            Err(unfit) => unfit,
        };
        let tally = &mut self.found.tally;
        match unfit {
            Embedding::Stale => tally.illustrate(SkipReason::EmbeddingStale, || {
                format!("{}: made for {}", memory.id, raw.content.shown())
            }),
            Embedding::Invalid(invalid) => tally.illustrate(reason_of(invalid), || {
                format!("{}: found {}", memory.id, raw.embedding.shown())
            }),
            Embedding::Missing | Embedding::Vector { .. } => {}
        }
        Ok(unfit)
    }

    fn space(&mut self, model: &str, sink: &mut dyn VectorSink) -> io::Result<SpaceIndex> {
        let dim = u32::try_from(self.vector.len()).map_err(io::Error::other)?;
        if let Some((space, known)) = &self.latest
            && space.dim == dim
            && *space.model == *model
        {
            return Ok(*known);
        }
        let wanted = VectorSpace { model: model.into(), dim };
        let space = match self.spaces.get(&wanted) {
            Some(known) => *known,
            None => {
                let opened = sink.open_space(&wanted)?;
                self.found.spaces.push(wanted.clone());
                self.spaces.insert(wanted.clone(), opened);
                opened
            }
        };
        self.latest = Some((wanted, space));
        Ok(space)
    }
}

impl Found {
    /// Makes the snapshot; `store_id` overrides the name derived from the rows.
    pub(crate) fn into_snapshot(
        self,
        read: ReadMemories,
        store_id: Option<Box<str>>,
        notes: Vec<String>,
    ) -> Snapshot {
        let mut tally = read.tally;
        for (reason, count) in self.tally.counts {
            *tally.counts.entry(reason).or_insert(0) += count;
        }
        tally.examples.extend(self.tally.examples);
        let mut memories = read.memories;
        for ((memory, embedding), digest) in
            memories.iter_mut().zip(self.embeddings).zip(self.digests)
        {
            memory.embedding = embedding;
            memory.base_digest =
                digest.unwrap_or_else(|| digest_with_embedding(memory.base_digest, ValueRef::Null));
        }
        memories[..read.in_table].iter().for_each(|memory| count(memory, &mut tally));
        tally.examples.retain(|reason, _| tally.counts.contains_key(reason));
        Snapshot {
            store_id: store_id.unwrap_or(read.store_id),
            memories,
            spaces: self.spaces,
            skipped: tally.counts,
            skip_examples: tally.examples,
            rows_total: read.rows_total,
            decisions: Decisions { folded_into: read.folded_into, ..Decisions::default() },
            notes,
        }
    }
}

/// Decodes the vector of a row into `vector` and returns its model, or the reason why it is not a
/// valid vector of the text `content`.
pub(crate) fn understand<'a>(
    raw: &RawEmbedding<'a>,
    content: &str,
    shapes: &'a ModelShapes,
    vector: &mut Vec<f32>,
) -> Result<Cow<'a, str>, Embedding> {
    if is_stale(raw.content, content) {
        return Err(Embedding::Stale);
    }
    if matches!(raw.embedding, ValueRef::Null) {
        return Err(Embedding::Missing);
    }
    decode(raw, shapes, vector).map_err(Embedding::Invalid)
}

/// Decodes the vector of a row into `vector`; returns its model.
fn decode<'a>(
    raw: &RawEmbedding<'a>,
    shapes: &'a ModelShapes,
    vector: &mut Vec<f32>,
) -> Result<Cow<'a, str>, InvalidEmbedding> {
    let model = shapes.model(named_model(raw));
    let length = if let ValueRef::Blob(bytes) = raw.embedding { bytes.len() } else { 0 };
    decode_components(raw.embedding, shapes.holds_f64(&model, length), vector)?;
    Ok(model)
}

/// Decodes the vector of a row into `vector`; whether it is valid and of this space.
pub(crate) fn decode_vector(
    raw: &RawEmbedding<'_>,
    shapes: &ModelShapes,
    space: &VectorSpace,
    vector: &mut Vec<f32>,
) -> bool {
    decode(raw, shapes, vector)
        .is_ok_and(|model| *model == *space.model && vector.len() == space.dim as usize)
}

fn named_model<'a>(raw: &RawEmbedding<'a>) -> Option<Cow<'a, str>> {
    raw.model.text().ok().flatten().filter(|model| !model.is_empty())
}

/// Counts why a readable memory is not a candidate or, if it is one, the parts that it lacks.
fn count(memory: &Memory, tally: &mut Tally) {
    let reason = match memory.status {
        Status::Live => {
            if let CreatedAt::Unreadable(text) = &memory.created_at {
                tally.add(SkipReason::CreatedAtUnreadable, || format!("{}: {text:?}", memory.id));
            }
            match memory.embedding {
                Embedding::Vector { .. } => return,
                Embedding::Stale => SkipReason::EmbeddingStale,
                Embedding::Missing => SkipReason::EmbeddingMissing,
                Embedding::Invalid(invalid) => reason_of(invalid),
            }
        }
        Status::Merged => SkipReason::Folded,
        Status::Expired => SkipReason::Expired,
        Status::Record => SkipReason::ConsolidationRecord,
        _ => SkipReason::Archived,
    };
    tally.add(reason, || memory.id.to_string());
}

fn reason_of(invalid: InvalidEmbedding) -> SkipReason {
    match invalid {
        InvalidEmbedding::Length => SkipReason::EmbeddingLength,
        InvalidEmbedding::NotFinite => SkipReason::EmbeddingNotFinite,
        InvalidEmbedding::Zero => SkipReason::EmbeddingZero,
        InvalidEmbedding::Unreadable => SkipReason::EmbeddingUnreadable,
    }
}

/// Tells whether the text an embedding was made for is not a sufficiently long prefix of the text
/// now.
fn is_stale(embedded: ValueRef<'_>, content: &str) -> bool {
    let embedded = match embedded {
        ValueRef::Null => return false,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Integer(_) | ValueRef::Real(_) => return true,
    };
    if embedded.len() == content.len() {
        return embedded != content.as_bytes();
    }
    let Some(prefix) = content.get(..embedded.len()) else { return true };
    prefix.as_bytes() != embedded || prefix.chars().count() < FRESH_CHARS_MIN
}

/// Passes the live rows to a visitor, and surveys their embeddings.
pub(crate) struct LiveReader<'a> {
    request: &'a LoadRequest<'a>,
    shapes: &'a ModelShapes,
    survey: ShapeSurvey,
    embeddings: u64,
    vector: Vec<f32>,
}

impl<'a> LiveReader<'a> {
    /// Begins; `shapes` say how the models write their vectors.
    pub(crate) fn new(request: &'a LoadRequest<'a>, shapes: &'a ModelShapes) -> Self {
        Self { request, shapes, survey: ShapeSurvey::default(), embeddings: 0, vector: Vec::new() }
    }

    /// Takes a row.
    pub(crate) fn take(
        &mut self,
        RawRow { rowid, memory, embedding }: &RawRow<'_>,
        visitor: &mut dyn LiveVisitor,
    ) -> io::Result<()> {
        if let Some(embedding) = embedding {
            self.look_at(embedding);
        }
        let Ok(texts) = texts_of(memory) else { return Ok(()) };
        let facts = facts_of(memory, &texts, self.request.time_zone, self.request.now);
        let RowFacts { categories, importance, access_count, root_source, status, .. } = facts;
        if status != Status::Live {
            return Ok(());
        }
        let row = LiveRow {
            rowid: *rowid,
            id: &texts.id,
            content: &texts.content,
            categories: &categories,
            importance,
            access_count,
            created_at: memory.created_at.instant(self.request.time_zone),
            source: &texts.source,
            root_source: &root_source,
        };
        let model = embedding.as_ref().and_then(|embedding| {
            understand(embedding, &texts.content, self.shapes, &mut self.vector).ok()
        });
        visitor.visit(&row, model.as_deref().map(|model| (model, &*self.vector)))
    }

    /// Returns the number of embeddings taken and their shapes.
    pub(crate) fn finish(self) -> (u64, ShapeSurvey) {
        (self.embeddings, self.survey)
    }

    fn look_at(&mut self, embedding: &RawEmbedding<'_>) {
        let named = embedding.model.text().ok().flatten();
        let blob = if let ValueRef::Blob(bytes) = embedding.embedding { Some(bytes) } else { None };
        self.survey.add(named.as_deref(), blob.map(<[u8]>::len));
        self.embeddings += 1;
    }
}

impl<'a> From<&'a RowImage> for RawEmbedding<'a> {
    fn from(row: &'a RowImage) -> Self {
        Self {
            source_id: row.value("source_id"),
            content: row.value("content"),
            embedding: row.value("embedding"),
            model: row.value("model"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_means_made_for_another_or_a_much_shorter_text() {
        let long = "ä".repeat(1200);
        let chars = |count: usize| "ä".repeat(count);
        let stale =
            |embedded: &str, content: &str| is_stale(ValueRef::Text(embedded.as_bytes()), content);
        assert!(!is_stale(ValueRef::Null, "x"));
        assert!(!stale("same", "same"));
        assert!(stale("same", "other"));
        assert!(stale("sam", "same"));
        assert!(stale("", "same"));
        assert!(stale("same and more", "same"));
        assert!(!stale(&chars(1000), &long));
        assert!(!stale(&chars(500), &long));
        assert!(stale(&chars(499), &long));
        assert!(stale(&chars(600), &"ö".repeat(1200)));
        // Cut inside a character.
        assert!(is_stale(ValueRef::Blob(&long.as_bytes()[..1001]), &long));
    }
}
