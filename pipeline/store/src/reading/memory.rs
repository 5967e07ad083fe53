//! Rows become memories.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::tz::TimeZone;

use crate::memory_store::LoadRequest;
use crate::reading::cell::{
    Cell, InvalidUtf8, Provenance, archives, parse_categories, parse_source,
};
use memfold_core::SkipReason;
use memfold_core::memory::{
    BaseDigest, CreatedAt, Embedding, Exclusion, Memory, MemoryId, Standing,
};
use memfold_core::time::Instant;
use memfold_guard::text;

/// Cells of a [`RawMemory`].
pub(crate) const MEMORY_CELLS: usize = 10;

/// A row of a memory table as stored; columns that do not exist are NULL.
#[derive(Debug, Clone, Copy)]
pub struct RawMemory<'a> {
    pub(crate) id: Cell<'a>,
    pub(crate) content: Cell<'a>,
    pub(crate) categories: Cell<'a>,
    pub(crate) importance: Cell<'a>,
    pub(crate) access_count: Cell<'a>,
    pub(crate) created_at: Cell<'a>,
    pub(crate) expires_at: Cell<'a>,
    pub(crate) source: Cell<'a>,
    pub(crate) archived_by: Cell<'a>,
    pub(crate) last_accessed: Cell<'a>,
}

impl<'a> RawMemory<'a> {
    /// Takes the cells in the order of the fields.
    pub(crate) const fn of_cells(cells: [Cell<'a>; MEMORY_CELLS]) -> Self {
        let [
            id,
            content,
            categories,
            importance,
            access_count,
            created_at,
            expires_at,
            source,
            archived_by,
            last_accessed,
        ] = cells;
        Self {
            id,
            content,
            categories,
            importance,
            access_count,
            created_at,
            expires_at,
            source,
            archived_by,
            last_accessed,
        }
    }
}

impl Default for RawMemory<'_> {
    fn default() -> Self {
        Self::of_cells([Cell::Null; MEMORY_CELLS])
    }
}

/// Takes the rows of a memory table, one by one.
pub(crate) struct MemoryReader<'a> {
    request: LoadRequest<'a>,
    read: ReadMemories,
    archived: Vec<Memory>,
    oldest: OldestRow,
    merged_from: Vec<(MemoryId, Vec<MemoryId>)>,
}

/// Memories whose embeddings are still to be read.
#[derive(Debug, Default)]
pub(crate) struct ReadMemories {
    /// The readable rows; each one's embedding is `Missing`, its digest covers the columns only.
    pub(crate) memories: Vec<Memory>,
    /// How many of them stand in the memory table; those behind them were moved out of it.
    pub(crate) in_table: usize,
    /// Ids of rows that were left out: their embeddings are no orphans.
    pub(crate) left_out: HashSet<Box<str>>,
    /// Reasons for rows that are not among the memories.
    pub(crate) tally: Tally,
    /// All rows seen.
    pub(crate) rows_total: u64,
    /// Absorbed id → survivor.
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
        let standing = survivor.map_or(Standing::Excluded(Exclusion::Archived), |survivor| {
            Standing::Ghost { survivor }
        });
        let memory = Memory { standing, ..self.understand(raw, &texts, 0) };
        self.archived.push(memory);
        true
    }

    /// Ends the table. `lineage` holds (absorbed, survivor) pairs recorded outside of the rows.
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
            standing: facts.standing,
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
            if let Standing::Ghost { survivor } = &memory.standing {
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
            let standing = at.map(|at| &mut read.memories[at].standing);
            // A row that bears no archive mark any more was brought back by somebody.
            if absorbed == survivor || standing.as_deref() == Some(&Standing::Live) {
                continue;
            }
            let known = read.folded_into.entry(absorbed).or_insert(survivor);
            if let Some(standing @ Standing::Excluded(Exclusion::Archived)) = standing {
                *standing = Standing::Ghost { survivor: known.clone() };
            }
        }
    }
}

/// Reads a row without its text: what there is to decide how alive the memory is. `None` where a load leaves it out.
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
        standing: facts.standing,
        root_source: facts.root_source,
        embedding: Embedding::Missing,
        base_digest: BaseDigest([0; 32]),
    })
}

fn created_at(cell: Cell<'_>, request: LoadRequest<'_>) -> CreatedAt {
    match (cell.instant(request.time_zone), cell) {
        (Some(instant), _) => CreatedAt::At(instant),
        (None, Cell::Text(bytes)) => CreatedAt::Unreadable(String::from_utf8_lossy(bytes).into()),
        (None, other) => CreatedAt::Unreadable(other.shown().into()),
    }
}

const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";

/// What a readable row says.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFacts {
    /// Categories in the order of the store, without repeats.
    pub categories: Vec<Box<str>>,
    /// Importance; NULL reads 1.0.
    pub(crate) importance: f64,
    /// How often it was read; NULL reads 0.
    pub access_count: i64,
    /// When it stops to count, if ever.
    pub expires_at: Option<Instant>,
    /// The first source, before any consolidation.
    pub root_source: Box<str>,
    /// The memories that its source names as merged into it; the list may be cut.
    pub merged_from: Vec<MemoryId>,
    /// How many memories its source says were merged into it.
    pub merged_count: u64,
    /// What it may take part in, by its own word.
    pub(crate) standing: Standing,
}

/// The text columns of a row, valid UTF-8.
pub(crate) struct Texts<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) content: Cow<'a, str>,
    pub(crate) categories: Option<Cow<'a, str>>,
    pub(crate) source: Cow<'a, str>,
}

/// Reads one row; an error where a load would leave it out.
pub fn row_facts(
    raw: &RawMemory<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<RowFacts, SkipReason> {
    Ok(facts_of(raw, &texts_of(raw)?, time_zone, now))
}

/// Returns the base digest of a row and its embedding as stored, NULL where there is none.
pub(crate) fn base_digest(columns: &RawMemory<'_>, embedding: Cell<'_>) -> BaseDigest {
    digest_with_embedding(digest_of_columns(columns), embedding)
}

pub(crate) fn facts_of(
    raw: &RawMemory<'_>,
    texts: &Texts<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> RowFacts {
    let categories = texts.categories.as_deref().map(parse_categories).unwrap_or_default();
    let provenance = parse_source(&texts.source);
    let expires_at = raw.expires_at.instant(time_zone);
    let archived = provenance.archived
        || !matches!(raw.archived_by, Cell::Null)
        || categories.iter().any(|category| archives(category));
    let expired = expires_at.is_some_and(|at| at <= now);
    RowFacts {
        categories,
        importance: raw.importance.number().unwrap_or(IMPORTANCE_DEFAULT),
        access_count: raw.access_count.count().unwrap_or(0),
        expires_at,
        standing: standing(&provenance, archived, expired),
        root_source: provenance.root,
        merged_from: provenance.merged_from,
        merged_count: provenance.merged_count,
    }
}

pub(crate) fn texts_of<'a>(raw: &RawMemory<'a>) -> Result<Texts<'a>, SkipReason> {
    let invalid = |_: InvalidUtf8| SkipReason::InvalidUtf8;
    let no_id = if matches!(raw.id, Cell::Null) { SkipReason::IdNull } else { SkipReason::IdBlob };
    let id = raw.id.text().map_err(invalid)?.ok_or(no_id)?;
    let content = raw.content.text().map_err(invalid)?.ok_or(SkipReason::ContentMissing)?;
    if content.trim().is_empty() {
        return Err(SkipReason::ContentMissing);
    }
    let categories = raw.categories.text().map_err(invalid)?;
    let source = raw.source.text().map_err(invalid)?.unwrap_or(SOURCE_DEFAULT.into());
    Ok(Texts { id, content, categories, source })
}

fn standing(provenance: &Provenance, archived: bool, expired: bool) -> Standing {
    match (&provenance.merged_into, archived) {
        (Some(survivor), true) => Standing::Ghost { survivor: survivor.clone() },
        (None, true) => Standing::Excluded(Exclusion::Archived),
        _ if provenance.record => Standing::Excluded(Exclusion::ConsolidationRecord),
        _ if expired => Standing::Excluded(Exclusion::Expired),
        _ => Standing::Live,
    }
}

/// The columns of most rows need no more.
const ROW_BYTES: usize = 1_024;

/// Hashes the columns of a row that a plan rests on; [`digest_with_embedding`] completes the digest.
pub(crate) fn digest_of_columns(raw: &RawMemory<'_>) -> BaseDigest {
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    bytes.extend_from_slice(b"memfold base columns 1");
    for cell in [
        raw.id,
        raw.content,
        raw.categories,
        raw.importance,
        raw.created_at,
        raw.expires_at,
        raw.source,
        raw.archived_by,
    ] {
        push(&mut bytes, cell);
    }
    BaseDigest(*blake3::hash(&bytes).as_bytes())
}

/// Completes the digest of a row with its embedding as stored, NULL where there is none.
pub(crate) fn digest_with_embedding(columns: BaseDigest, embedding: Cell<'_>) -> BaseDigest {
    let mut bytes = b"memfold base row 1".to_vec();
    bytes.extend_from_slice(&columns.0);
    push(&mut bytes, embedding);
    BaseDigest(*blake3::hash(&bytes).as_bytes())
}

/// Adds type tag, length and value, so that no two sequences of cells look the same.
fn push(hashed: &mut Vec<u8>, cell: Cell<'_>) {
    let number;
    let (tag, bytes): (u8, &[u8]) = match cell {
        Cell::Null => (0, &[]),
        Cell::Integer(value) => {
            number = value.to_le_bytes();
            (1, &number)
        }
        Cell::Real(value) => {
            number = value.to_bits().to_le_bytes();
            (2, &number)
        }
        Cell::Text(bytes) => (3, bytes),
        Cell::Blob(bytes) => (4, bytes),
    };
    let mut head = [tag; 9];
    head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    hashed.extend_from_slice(&head);
    hashed.extend_from_slice(bytes);
}

/// The oldest row, by the bytes of its creation time and id: it outlives edits of texts, new rows,
/// added columns, VACUUM and a backup's import, and it is the same in whatever order rows come.
#[derive(Debug, Default)]
pub(crate) struct OldestRow {
    key: Option<(Vec<u8>, Vec<u8>)>,
}

impl OldestRow {
    pub(crate) fn consider(&mut self, created_at: Cell<'_>, id: Cell<'_>) {
        let (Cell::Text(created_at), Cell::Text(id)) = (created_at, id) else { return };
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

/// Examples are cut after so many characters.
const EXAMPLE_CHARS: usize = 200;

/// Counts what was left out.
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

    /// Keeps an example of a reason that is counted elsewhere, fit to be shown.
    pub(crate) fn illustrate(&mut self, reason: SkipReason, example: impl FnOnce() -> String) {
        self.examples.entry(reason).or_insert_with(|| text::excerpt(&example(), EXAMPLE_CHARS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_780_272_000_000_000);

    fn row<'a>(categories: &'a str, source: &'a str) -> RawMemory<'a> {
        RawMemory {
            id: Cell::Text(b"a"),
            content: Cell::Text(b"text"),
            categories: Cell::Text(categories.as_bytes()),
            source: Cell::Text(source.as_bytes()),
            ..RawMemory::default()
        }
    }

    fn read(raw: &RawMemory<'_>) -> RowFacts {
        row_facts(raw, &TimeZone::UTC, NOW).unwrap()
    }

    #[test]
    fn a_survivor_says_what_was_folded_into_it() {
        let source = r#"consolidation:{"merged_from":["b","c"],"merged_count":180,"previous_source":"user"}"#;
        let facts = read(&row(r#"["sop"]"#, source));
        assert_eq!(facts.merged_from, [MemoryId::new("b"), MemoryId::new("c")]);
        assert_eq!((facts.merged_count, &*facts.root_source), (180, "user"));
        assert_eq!((facts.importance, facts.access_count), (1.0, 0));
        assert_eq!((&*facts.categories[0], facts.standing), ("sop", Standing::Live));
    }

    #[test]
    fn standing_follows_marks_and_time() {
        let archived = read(&row(r#"["archived"]"#, r#"archived:{"merged_into":"b"}"#)).standing;
        assert_eq!(archived, Standing::Ghost { survivor: MemoryId::new("b") });
        let expires_at = Cell::Text(b"2026-06-01T00:00:00Z");
        let expiring = RawMemory { expires_at, ..row("[]", "agent") };
        assert_eq!(read(&expiring).standing, Standing::Excluded(Exclusion::Expired));
        let earlier = row_facts(&expiring, &TimeZone::UTC, Instant(NOW.0 - 1)).unwrap();
        assert_eq!(earlier.standing, Standing::Live);
    }

    #[test]
    fn what_a_load_leaves_out_has_no_facts() {
        let broken = RawMemory { categories: Cell::Text(b"\xff"), ..row("", "agent") };
        assert_eq!(row_facts(&broken, &TimeZone::UTC, NOW), Err(SkipReason::InvalidUtf8));
    }

    #[test]
    fn the_digest_is_the_one_that_a_load_gives() {
        let raw = row("[]", "agent");
        let columns = digest_of_columns(&raw);
        assert_eq!(
            base_digest(&raw, Cell::Blob(b"v")),
            digest_with_embedding(columns, Cell::Blob(b"v"))
        );
        assert_ne!(base_digest(&raw, Cell::Null), base_digest(&raw, Cell::Blob(b"v")));
    }
}

#[cfg(test)]
mod digest_tests {
    use super::*;

    fn digest(id: &'static [u8], content: Cell<'static>, embedding: Cell<'_>) -> BaseDigest {
        let raw = RawMemory { id: Cell::Text(id), content, ..RawMemory::default() };
        digest_with_embedding(digest_of_columns(&raw), embedding)
    }

    #[test]
    fn every_stored_difference_shows() {
        let digests = [
            digest(b"a", Cell::Text(b"bc"), Cell::Null),
            digest(b"ab", Cell::Text(b"c"), Cell::Null),
            digest(b"a", Cell::Blob(b"bc"), Cell::Null),
            digest(b"a", Cell::Text(b"bc"), Cell::Blob(&[])),
            digest(b"a", Cell::Text(b"bc"), Cell::Blob(&[0])),
            digest(b"a", Cell::Integer(1), Cell::Null),
            digest(b"a", Cell::Real(1.0), Cell::Null),
            digest(b"a", Cell::Text(b"1"), Cell::Null),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        assert_eq!(digests[0], digest(b"a", Cell::Text(b"bc"), Cell::Null));
    }

    #[test]
    fn counters_do_not_show() {
        let read = RawMemory { access_count: Cell::Integer(7), ..RawMemory::default() };
        assert_eq!(digest_of_columns(&read), digest_of_columns(&RawMemory::default()));
    }
}
