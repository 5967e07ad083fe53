//! Rows become memories, embeddings find their memories, and everything becomes a snapshot.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use crate::error::StoreError;
use crate::memory_store::{LiveRow, LiveVisitor, LoadRequest, VectorSink};
use crate::reading::vector::{ModelShapes, RawRow, ShapeSurvey, decode_components};
use memfold_core::decisions::Decisions;
use memfold_core::journal::RowImage;
use memfold_core::memory::{
    BaseDigest, CreatedAt, Embedding, InvalidEmbedding, Memory, MemoryId, SpaceIndex, Status,
    VectorSpace,
};
use memfold_core::row::{
    MEMORY_CELLS, RawMemory, RowFacts, Texts, digest_of_columns, digest_with_embedding, facts_of,
    texts_of,
};
use memfold_core::value::ValueRef;
use memfold_core::{SkipReason, Snapshot};
use memfold_guard::text;

/// Takes the rows of a memory table, one by one.
pub(crate) struct MemoryReader<'a> {
    request: LoadRequest<'a>,
    read: ReadMemories,
    archived: Vec<Memory>,
    oldest: OldestRow,
    merged_from: Vec<(MemoryId, Vec<MemoryId>)>,
}

/// Memories without their embeddings, which are read later.
#[derive(Debug, Default)]
pub(crate) struct ReadMemories {
    /// The readable rows; each one's embedding is `Missing`, its digest covers the columns only.
    pub(crate) memories: Vec<Memory>,
    /// How many of them stand in the memory table; the rest were moved out of it.
    pub(crate) in_table: usize,
    /// Ids of rows that were left out: their embeddings are not orphans.
    pub(crate) left_out: HashSet<Box<str>>,
    /// Reasons for rows that are not among the memories.
    pub(crate) tally: Tally,
    /// All rows seen.
    pub(crate) rows_total: u64,
    /// Merged id → survivor.
    pub(crate) merged_into: BTreeMap<MemoryId, MemoryId>,
    /// The store's name, derived from its oldest row.
    pub(crate) store_id: Box<str>,
}

impl<'a> MemoryReader<'a> {
    /// Begins with no rows.
    pub(crate) fn new(request: LoadRequest<'a>) -> Self {
        Self {
            request,
            read: ReadMemories::default(),
            archived: Vec::new(),
            oldest: OldestRow::default(),
            merged_from: Vec::new(),
        }
    }

    /// Takes one row; `position` names it where it has no id (the rowid).
    pub(crate) fn take(&mut self, raw: &RawMemory<'_>, position: i64) {
        self.read.rows_total += 1;
        self.oldest.consider(raw.created_at, raw.id);
        match texts_of(raw) {
            Ok(texts) => {
                let memory = self.understand(raw, &texts, position);
                self.read.memories.push(memory);
            }
            Err(reason) => self.leave_out(raw, position, reason),
        }
    }

    /// Takes a row that was moved out of the table and into `survivor`, if anything; the latest record of
    /// an id comes first. Returns whether it can be read.
    pub(crate) fn take_archived(
        &mut self,
        raw: &RawMemory<'_>,
        survivor: Option<MemoryId>,
    ) -> bool {
        let Ok(texts) = texts_of(raw) else { return false };
        let status = if survivor.is_some() { Status::Merged } else { Status::Archived };
        let memory = Memory { status, merged_into: survivor, ..self.understand(raw, &texts, 0) };
        self.archived.push(memory);
        true
    }

    /// Ends the table. `lineage` holds (merged, survivor) pairs recorded outside of the rows.
    pub(crate) fn finish(mut self, lineage: Vec<(MemoryId, MemoryId)>) -> ReadMemories {
        self.drop_repeated_ids();
        self.read.in_table = self.read.memories.len();
        self.add_archived();
        self.read.store_id = self.oldest.store_id();
        self.mark_merged(lineage);
        self.read
    }

    fn leave_out(&mut self, raw: &RawMemory<'_>, position: i64, reason: SkipReason) {
        if let Ok(Some(id)) = raw.id.text() {
            self.read.left_out.insert(id.into());
        }
        self.read.tally.add(reason, || {
            let (id, content) = (raw.id.shown(), raw.content.shown());
            format!("rowid {position}: id {id}, content {content}")
        });
    }

    fn understand(&mut self, raw: &RawMemory<'_>, texts: &Texts<'_>, rowid: i64) -> Memory {
        let mut facts = facts_of(raw, texts, self.request.time_zone, self.request.now);
        let merged_from = std::mem::take(&mut facts.merged_from);
        let memory = memory_of(raw, texts, facts, self.request);
        if !merged_from.is_empty() {
            self.merged_from.push((memory.id.clone(), merged_from));
        }
        let (content, base_digest) = (texts.content.as_ref().into(), digest_of_columns(raw));
        Memory { rowid, content, base_digest, ..memory }
    }

    /// Keeps the first row of each id; only a table without a primary key has more.
    fn drop_repeated_ids(&mut self) {
        let mut known = HashSet::with_capacity(self.read.memories.len());
        let repeated: BTreeSet<usize> = self
            .read
            .memories
            .iter()
            .enumerate()
            .filter_map(|(at, memory)| (!known.insert(memory.id.as_str())).then_some(at))
            .collect();
        if repeated.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.read.memories);
        for (at, memory) in all.into_iter().enumerate() {
            if repeated.contains(&at) {
                self.read.tally.add(SkipReason::IdRepeated, || memory.id.to_string());
            } else {
                self.read.memories.push(memory);
            }
        }
    }

    /// Adds the rows that were moved out, unless the table holds a row of that id again.
    fn add_archived(&mut self) {
        if self.archived.is_empty() {
            return;
        }
        let read = &mut self.read;
        let ids = read.memories.iter().map(|memory| memory.id.as_str());
        let mut known: HashSet<&str> = ids.chain(read.left_out.iter().map(|id| &**id)).collect();
        let is_new: Vec<bool> =
            self.archived.iter().map(|memory| known.insert(memory.id.as_str())).collect();
        let archived = self.archived.drain(..).zip(is_new);
        read.memories.extend(archived.filter_map(|(memory, is_new)| is_new.then_some(memory)));
    }

    /// Learns who was merged into whom: a row's own word first, then lineage, then survivors' lists.
    fn mark_merged(&mut self, lineage: Vec<(MemoryId, MemoryId)>) {
        let read = &mut self.read;
        for memory in &read.memories {
            if let Some(survivor) = &memory.merged_into {
                read.merged_into.insert(memory.id.clone(), survivor.clone());
            }
        }
        self.merged_from.sort();
        let listed = self.merged_from.drain(..).flat_map(|(survivor, merged)| {
            merged.into_iter().map(move |merged| (merged, survivor.clone()))
        });
        let claims: Vec<_> = lineage.into_iter().chain(listed).collect();
        if claims.is_empty() {
            return;
        }
        let at: HashMap<&str, usize> =
            read.memories.iter().enumerate().map(|(at, m)| (m.id.as_str(), at)).collect();
        let claims: Vec<_> = claims
            .into_iter()
            .map(|(merged, survivor)| (at.get(merged.as_str()).copied(), merged, survivor))
            .collect();
        for (at, merged, survivor) in claims {
            let memory = at.map(|at| &mut read.memories[at]);
            // A live row has lost its archive mark: somebody brought it back.
            let is_live = memory.as_ref().is_some_and(|memory| memory.status == Status::Live);
            if merged == survivor || is_live {
                continue;
            }
            let known = read.merged_into.entry(merged).or_insert(survivor);
            if let Some(memory) = memory.filter(|memory| memory.status == Status::Archived) {
                memory.status = Status::Merged;
                memory.merged_into = Some(known.clone());
            }
        }
    }
}

/// Reads a row without its text: the cells that decide the status of the memory. `None` where a
/// load leaves it out.
///
/// The text is empty, and the base digest all zeros.
pub(crate) fn without_text(
    raw: &RawMemory<'_>,
    rowid: i64,
    request: LoadRequest<'_>,
) -> Option<Memory> {
    let texts = texts_of(raw).ok()?;
    let facts = facts_of(raw, &texts, request.time_zone, request.now);
    let memory = memory_of(raw, &texts, facts, request);
    Some(Memory { rowid, ..memory })
}

/// Makes a memory without its text, row number, embedding and digest.
fn memory_of(
    raw: &RawMemory<'_>,
    texts: &Texts<'_>,
    facts: RowFacts,
    request: LoadRequest<'_>,
) -> Memory {
    Memory {
        rowid: 0,
        id: MemoryId::new(&*texts.id),
        content: "".into(),
        categories: facts.categories,
        importance: facts.importance,
        access_count: facts.access_count,
        created_at: created_at(raw.created_at, request),
        expires_at: facts.expires_at,
        last_accessed: raw.last_accessed.instant(request.time_zone),
        source: texts.source.as_ref().into(),
        status: facts.status,
        merged_into: facts.merged_into,
        root_source: facts.root_source,
        embedding: Embedding::Missing,
        base_digest: BaseDigest([0; 32]),
    }
}

fn created_at(cell: ValueRef<'_>, request: LoadRequest<'_>) -> CreatedAt {
    match (cell.instant(request.time_zone), cell) {
        (Some(instant), _) => CreatedAt::At(instant),
        (None, ValueRef::Text(bytes)) => {
            CreatedAt::Unreadable(String::from_utf8_lossy(bytes).into())
        }
        (None, other) => CreatedAt::Unreadable(other.shown().into()),
    }
}

/// The oldest row, by the bytes of its creation time and id: it outlives edits of texts, new rows,
/// added columns, VACUUM and a backup's import, and it is the same for any order of rows.
#[derive(Debug, Default)]
pub(crate) struct OldestRow {
    key: Option<(Vec<u8>, Vec<u8>)>,
}

impl OldestRow {
    pub(crate) fn consider(&mut self, created_at: ValueRef<'_>, id: ValueRef<'_>) {
        let (ValueRef::Text(created_at), ValueRef::Text(id)) = (created_at, id) else { return };
        let older = self
            .key
            .as_ref()
            .is_none_or(|(time, known)| (created_at, id) < (time.as_slice(), known.as_slice()));
        if older {
            self.key = Some((created_at.to_vec(), id.to_vec()));
        }
    }

    /// Returns `store_` and 32 hex digits.
    pub(crate) fn store_id(&self) -> Box<str> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"memfold store 1");
        if let Some((created_at, id)) = &self.key {
            hasher.update(&(created_at.len() as u64).to_le_bytes());
            hasher.update(created_at);
            hasher.update(id);
        }
        format!("store_{}", &hasher.finalize().to_hex()[..32]).into()
    }
}

/// Maximum characters of an example.
const EXAMPLE_CHARS: usize = 200;

/// Counts rows that were left out.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<SkipReason, u64>,
    pub(crate) examples: BTreeMap<SkipReason, String>,
}

impl Tally {
    /// Counts one case; `example` is made for the first one only.
    pub(crate) fn add(&mut self, reason: SkipReason, example: impl FnOnce() -> String) {
        *self.counts.entry(reason).or_insert(0) += 1;
        self.illustrate(reason, example);
    }

    /// Keeps an example of a reason that is counted elsewhere, safe to display.
    pub(crate) fn illustrate(&mut self, reason: SkipReason, example: impl FnOnce() -> String) {
        self.examples.entry(reason).or_insert_with(|| text::excerpt(&example(), EXAMPLE_CHARS));
    }
}

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
) -> Result<Snapshot, StoreError> {
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
    let shapes = survey.decide(|_, _| Ok::<_, StoreError>(Vec::new()))?;
    let mut reader = EmbeddingReader::new(&read, &shapes);
    for cells in embeddings {
        reader.take(&RawEmbedding::of_cells(*cells), sink).map_err(StoreError::Sink)?;
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
        let example = || match unfit {
            Embedding::Stale => format!("{}: made for {}", memory.id, raw.content.shown()),
            _ => format!("{}: found {}", memory.id, raw.embedding.shown()),
        };
        if let Some(reason) = lack_of(&unfit).filter(|_| unfit != Embedding::Missing) {
            self.found.tally.illustrate(reason, example);
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
            decisions: Decisions { merged_into: read.merged_into, ..Decisions::default() },
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
            let Some(reason) = lack_of(&memory.embedding) else { return };
            reason
        }
        Status::Merged => SkipReason::Merged,
        Status::Expired => SkipReason::Expired,
        Status::Record => SkipReason::ConsolidationRecord,
        _ => SkipReason::Archived,
    };
    tally.add(reason, || memory.id.to_string());
}

/// Returns why a memory has no usable vector; `None` where it has one.
pub(crate) const fn lack_of(embedding: &Embedding) -> Option<SkipReason> {
    Some(match embedding {
        Embedding::Vector { .. } => return None,
        Embedding::Stale => SkipReason::EmbeddingStale,
        Embedding::Missing => SkipReason::EmbeddingMissing,
        Embedding::Invalid(InvalidEmbedding::Length) => SkipReason::EmbeddingLength,
        Embedding::Invalid(InvalidEmbedding::NotFinite) => SkipReason::EmbeddingNotFinite,
        Embedding::Invalid(InvalidEmbedding::Zero) => SkipReason::EmbeddingZero,
        Embedding::Invalid(InvalidEmbedding::Unreadable) => SkipReason::EmbeddingUnreadable,
    })
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
            self.survey.add_raw(embedding);
            self.embeddings += 1;
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
