//! Rows become memories.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::memory_store::LoadRequest;
use memfold_core::SkipReason;
use memfold_core::memory::{BaseDigest, CreatedAt, Embedding, Memory, MemoryId, Status};
use memfold_core::row::{RawMemory, Texts, digest_of_columns, facts_of, texts_of};
use memfold_core::value::ValueRef;
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
    pub(crate) folded_into: BTreeMap<MemoryId, MemoryId>,
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
        self.fold(lineage);
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
        let facts = facts_of(raw, texts, self.request.time_zone, self.request.now);
        let id = MemoryId::new(&*texts.id);
        if !facts.merged_from.is_empty() {
            self.merged_from.push((id.clone(), facts.merged_from));
        }
        Memory {
            rowid,
            id,
            content: texts.content.as_ref().into(),
            categories: facts.categories,
            importance: facts.importance,
            access_count: facts.access_count,
            created_at: created_at(raw.created_at, self.request),
            expires_at: facts.expires_at,
            last_accessed: raw.last_accessed.instant(self.request.time_zone),
            source: texts.source.as_ref().into(),
            status: facts.status,
            merged_into: facts.merged_into,
            root_source: facts.root_source,
            embedding: Embedding::Missing,
            base_digest: digest_of_columns(raw),
        }
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
    fn fold(&mut self, lineage: Vec<(MemoryId, MemoryId)>) {
        let read = &mut self.read;
        for memory in &read.memories {
            if let Some(survivor) = &memory.merged_into {
                read.folded_into.insert(memory.id.clone(), survivor.clone());
            }
        }
        self.merged_from.sort();
        let listed = self.merged_from.drain(..).flat_map(|(survivor, absorbed)| {
            absorbed.into_iter().map(move |absorbed| (absorbed, survivor.clone()))
        });
        let claims: Vec<_> = lineage.into_iter().chain(listed).collect();
        if claims.is_empty() {
            return;
        }
        let at: HashMap<&str, usize> =
            read.memories.iter().enumerate().map(|(at, m)| (m.id.as_str(), at)).collect();
        let claims: Vec<_> = claims
            .into_iter()
            .map(|(absorbed, survivor)| (at.get(absorbed.as_str()).copied(), absorbed, survivor))
            .collect();
        for (at, absorbed, survivor) in claims {
            let memory = at.map(|at| &mut read.memories[at]);
            // A live row has lost its archive mark: somebody brought it back.
            let is_live = memory.as_ref().is_some_and(|memory| memory.status == Status::Live);
            if absorbed == survivor || is_live {
                continue;
            }
            let known = read.folded_into.entry(absorbed).or_insert(survivor);
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
    Some(Memory {
        rowid,
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
    })
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
