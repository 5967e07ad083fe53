//! Rows become memories.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::cell::{Cell, InvalidUtf8};
use super::identity::OldestRow;
use super::provenance::{self, Provenance};
use super::tally::Tally;
use super::{categories, digest};
use crate::memory::{CreatedAt, Embedding, Exclusion, Memory, MemoryId, Standing};
use crate::store::{LoadRequest, SkipReason};

const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";

/// A row of a memory table as stored; columns that do not exist are NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMemory<'a> {
    pub(crate) id: Cell<'a>,
    pub(crate) content: Cell<'a>,
    pub(crate) categories: Cell<'a>,
    pub(crate) importance: Cell<'a>,
    pub(crate) access_count: Cell<'a>,
    pub(crate) created_at: Cell<'a>,
    pub(crate) expires_at: Cell<'a>,
    pub(crate) source: Cell<'a>,
    pub(crate) archived_by: Cell<'a>,
}

impl Default for RawMemory<'_> {
    fn default() -> Self {
        let null = Cell::Null;
        Self {
            id: null,
            content: null,
            categories: null,
            importance: null,
            access_count: null,
            created_at: null,
            expires_at: null,
            source: null,
            archived_by: null,
        }
    }
}

/// Takes the rows of a memory table, one by one.
pub(crate) struct MemoryReader<'a> {
    request: LoadRequest<'a>,
    read: ReadMemories,
    oldest: OldestRow,
    merged_from: Vec<(MemoryId, Vec<MemoryId>)>,
}

/// Memories whose embeddings are still to be read.
#[derive(Debug, Default)]
pub(crate) struct ReadMemories {
    /// The readable rows; each one's embedding is `Missing`, its digest covers the columns only.
    pub(crate) memories: Vec<Memory>,
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

/// The text columns of a row, valid UTF-8.
struct Texts<'a> {
    id: Cow<'a, str>,
    content: Cow<'a, str>,
    categories: Option<Cow<'a, str>>,
    source: Cow<'a, str>,
}

impl<'a> MemoryReader<'a> {
    /// Begins with no rows.
    pub(crate) fn new(request: LoadRequest<'a>) -> Self {
        Self {
            request,
            read: ReadMemories::default(),
            oldest: OldestRow::default(),
            merged_from: Vec::new(),
        }
    }

    /// Takes one row; `position` names it where it has no id (the rowid).
    pub(crate) fn take(&mut self, raw: &RawMemory<'_>, position: i64) {
        self.read.rows_total += 1;
        self.oldest.consider(raw.created_at, raw.id);
        match texts(raw) {
            Ok(texts) => {
                let memory = self.understand(raw, &texts, position);
                self.read.memories.push(memory);
            }
            Err(reason) => self.leave_out(raw, position, reason),
        }
    }

    /// Ends the table. `lineage` holds (absorbed, survivor) pairs recorded outside of the rows.
    pub(crate) fn finish(mut self, lineage: Vec<(MemoryId, MemoryId)>) -> ReadMemories {
        self.drop_repeated_ids();
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
        let zone = self.request.time_zone;
        let categories = texts.categories.as_deref().map(categories::parse).unwrap_or_default();
        let provenance = provenance::parse(&texts.source);
        let expires_at = raw.expires_at.instant(zone);
        let archived = provenance.archived
            || !matches!(raw.archived_by, Cell::Null)
            || categories.iter().any(|category| provenance::archives(category));
        let expired = expires_at.is_some_and(|at| at <= self.request.now);
        let id = MemoryId::new(&*texts.id);
        if !provenance.merged_from.is_empty() {
            self.merged_from.push((id.clone(), provenance.merged_from.clone()));
        }
        Memory {
            rowid,
            id,
            content: texts.content.as_ref().into(),
            categories,
            importance: raw.importance.number().unwrap_or(IMPORTANCE_DEFAULT),
            access_count: raw.access_count.count().unwrap_or(0),
            created_at: created_at(raw.created_at, self.request),
            expires_at,
            source: texts.source.as_ref().into(),
            standing: standing(&provenance, archived, expired),
            root_source: provenance.root,
            embedding: Embedding::Missing,
            base_digest: digest::of_columns(raw),
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

    /// Learns who was folded into whom: a row's own word first, then lineage, then survivors' lists.
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

fn texts<'a>(raw: &RawMemory<'a>) -> Result<Texts<'a>, SkipReason> {
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

fn created_at(cell: Cell<'_>, request: LoadRequest<'_>) -> CreatedAt {
    match (cell.instant(request.time_zone), cell) {
        (Some(instant), _) => CreatedAt::At(instant),
        (None, Cell::Text(bytes)) => CreatedAt::Unreadable(String::from_utf8_lossy(bytes).into()),
        (None, other) => CreatedAt::Unreadable(other.shown().into()),
    }
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
