//! [`BrainDb::checkup`]: the facts, gathered in two readings, the vectors' and this one.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;

use crate::brain_db::doctor::examine::{
    Check, archived_edited, broken_references, check_tables, examine_files, examine_full_text,
    examine_own_tables, is_damage, is_locked, moved, survivor_gone, unopened_tables,
    visible_archived,
};
use crate::brain_db::doctor::facts::{Facts, Found, MemoryFacts, VectorCensus, find_rivals};
use crate::brain_db::doctor::findings::{Severity, findings, size};
use crate::brain_db::read::open::{BrainDb, OpenOptions, OpenStoreError, Reader};
use crate::brain_db::write::layout::reactions_of;
use crate::memory_store::{LoadRequest, LoadStoreError, MemoryStore as _};
use memfold_core::memory::{CreatedAt, Embedding, InvalidEmbedding, Memory, Status};
use memfold_core::report::StoreFigures;
use memfold_core::{SkipReason, Snapshot};
use memfold_guard::text::excerpt;

/// A store, loaded and examined.
#[derive(Debug)]
pub struct Checkup {
    /// The facts.
    pub facts: Facts,
    /// The memories, or why they cannot be read; damage is listed in the facts.
    pub loaded: Result<Snapshot, LoadStoreError>,
    /// How many vectors each of the snapshot's spaces has.
    pub vectors: Vec<u64>,
}

impl BrainDb {
    /// Loads the store and examines it; writes nothing. One vector under `shared_texts` different texts or more
    /// is noted.
    ///
    /// # Errors
    /// When the store cannot be opened, or when cancelled. Damage is a fact, not an error.
    pub fn checkup(
        &self,
        request: &LoadRequest<'_>,
        shared_texts: usize,
    ) -> Result<Checkup, LoadStoreError> {
        let mut census = VectorCensus::default();
        let loaded = match self.load(request, &mut census) {
            Err(error) if !matches!(error, LoadStoreError::Read { .. }) => return Err(error),
            loaded => loaded,
        };
        let snapshot = loaded.as_ref().ok();
        let mut facts = self.traceless(|reader, connection| {
            request.progress.begin("examine", None);
            let facts = Gatherer { store: self, reader, connection, request }.all(snapshot);
            request.progress.end();
            facts.map_err(|error| self.failed(&reader.stamp, "stm", &error))
        })?;
        if let (Some(memories), Some(snapshot)) = (&mut facts.memories, snapshot) {
            memories.spaces = census.spaces();
            (memories.shared_vectors, memories.sharing_memories) =
                census.shared(snapshot, shared_texts);
        }
        Ok(Checkup { facts, loaded, vectors: census.counts() })
    }
}

/// One read transaction.
pub(crate) struct Gatherer<'a> {
    pub(crate) store: &'a BrainDb,
    pub(crate) reader: &'a Reader,
    pub(crate) connection: &'a Connection,
    pub(crate) request: &'a LoadRequest<'a>,
}

impl Gatherer<'_> {
    fn all(&self, snapshot: Option<&Snapshot>) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let mut facts = self.few(Check::Integrity)?;
        let live = snapshot.map(live_ids);
        let damage = &mut facts.damage;
        facts.broken_references = unless_damaged(damage, broken_references(connection))?;
        facts.full_text = unless_damaged(damage, examine_full_text(connection, live.as_ref()))?;
        let columns = &self.reader.memory_columns;
        let rivals = find_rivals(connection, columns, self.store.path());
        facts.rivals = unless_damaged(damage, rivals)?;
        facts.reactions = unless_damaged(damage, reactions_of(connection))?;
        if let Some(snapshot) = snapshot {
            let moved = unless_damaged(damage, moved(connection))?;
            if let Some(own) = &mut facts.own {
                own.moved = moved.len() as u64;
            }
            let edited = archived_edited(connection, snapshot, &moved);
            let archived_edited = unless_damaged(damage, edited)?;
            facts.memories = Some(MemoryFacts {
                archived_edited,
                visible_archived: visible_archived(snapshot, &moved),
                survivor_gone: survivor_gone(snapshot, &moved),
                ..MemoryFacts::of(snapshot)
            });
        }
        Ok(facts)
    }

    /// Gathers the cheap facts: one check, the files, memfold's own tables.
    pub(crate) fn few(&self, check: Check) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let unopened = unless_damaged(&mut Vec::new(), unopened_tables(connection))?;
        let mut damage = match unopened.is_empty() {
            true => check.run(connection)?,
            false => check_tables(connection)?,
        };
        let full_text_damage: Vec<String> =
            damage.iter().filter(|line| is_of_full_text(line)).cloned().collect();
        if !full_text_damage.is_empty() {
            // The check stopped there.
            damage = check_tables(connection)?;
        }
        let mut facts = Facts { damage, full_text_damage, unopened, ..Facts::default() };
        let damage = &mut facts.damage;
        facts.own = unless_damaged(damage, examine_own_tables(connection, self.request))?;
        let unfinished = facts.own.iter_mut().flat_map(|own| &mut own.unfinished);
        for run in unfinished.filter(|run| run.is_running) {
            run.is_alive = is_locked(self.store.path()).unwrap_or(run.is_alive);
        }
        let files = examine_files(connection, self.store.path(), &self.reader.stamp);
        facts.files = unless_damaged(damage, files)?;
        Ok(facts)
    }
}

/// Tells whether a complaint is about the content of an FTS5 index.
fn is_of_full_text(line: &str) -> bool {
    line.starts_with("fts5: ") || line.contains("for FTS5 table")
}

/// Takes damage for a fact.
fn unless_damaged<T: Default>(
    damage: &mut Vec<String>,
    found: rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    match found {
        Err(error) if is_damage(&error) => {
            damage.push(error.to_string());
            Ok(T::default())
        }
        found => found,
    }
}

fn live_ids(snapshot: &Snapshot) -> HashSet<&str> {
    let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    live.map(|memory| memory.id.as_str()).collect()
}

impl MemoryFacts {
    /// Counts the facts that a snapshot alone shows.
    fn of(snapshot: &Snapshot) -> Self {
        let mut facts = Self { live: snapshot.live_count(), ..Self::default() };
        for (reason, &count) in &snapshot.skipped {
            facts.skipped.insert(*reason, Found { count, examples: Vec::new() });
        }
        let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
        for memory in live {
            if matches!(memory.embedding, Embedding::Invalid(_)) {
                facts.invalid_embeddings.push(memory.id.to_string());
            }
            for reason in complaints(memory) {
                if let Some(found) = facts.skipped.get_mut(&reason) {
                    found.illustrate(memory.id.as_str());
                }
            }
        }
        facts
    }
}

/// The reasons that a live memory is counted under.
fn complaints(memory: &Memory) -> impl Iterator<Item = SkipReason> {
    let time = matches!(memory.created_at, CreatedAt::Unreadable(_))
        .then_some(SkipReason::CreatedAtUnreadable);
    let embedding = match memory.embedding {
        Embedding::Vector { .. } => None,
        Embedding::Stale => Some(SkipReason::EmbeddingStale),
        Embedding::Missing => Some(SkipReason::EmbeddingMissing),
        Embedding::Invalid(InvalidEmbedding::Length) => Some(SkipReason::EmbeddingLength),
        Embedding::Invalid(InvalidEmbedding::NotFinite) => Some(SkipReason::EmbeddingNotFinite),
        Embedding::Invalid(InvalidEmbedding::Zero) => Some(SkipReason::EmbeddingZero),
        Embedding::Invalid(InvalidEmbedding::Unreadable) => Some(SkipReason::EmbeddingUnreadable),
    };
    time.into_iter().chain(embedding)
}

/// Larger files are checked in part: their memory table alone.
const CHECKED_BYTES_MAX: u64 = 512 << 20;

/// Maximum characters of a reason.
const REASON_CHARS: usize = 200;

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// Sound.
    Ok,
    /// It works, but a person should look.
    Warning,
    /// It cannot be read, or is damaged.
    Critical,
}

impl HealthStatus {
    /// Returns the word that the line begins with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARN",
            Self::Critical => "CRITICAL",
        }
    }
}

/// The health of a store, for a monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// How it is.
    pub status: HealthStatus,
    /// Why it is not ok: safe to display.
    pub reasons: Vec<String>,
    /// Counts, where the store could be read.
    pub counts: Option<HealthCounts>,
}

/// Counts of a readable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCounts {
    /// Counts over the whole memory table.
    pub figures: StoreFigures,
    /// Memories that may take part in a consolidation.
    pub live: u64,
    /// Contradictory pairs that wait for a person.
    pub open_flags: u64,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// Whether the check went through the whole file, or only through the memory table.
    pub is_whole_file_checked: bool,
}

impl Health {
    /// A store of which nothing but this is known.
    #[must_use]
    pub fn unknown(status: HealthStatus, reason: &str) -> Self {
        Self { status, reasons: vec![excerpt(reason, REASON_CHARS)], counts: None }
    }

    /// Returns the line, without a line break: `OK | STM:377 | live:366 | …`, with reasons at its end.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts = vec![self.status.word().to_owned()];
        if let Some(counts) = &self.counts {
            parts.extend([
                format!("STM:{}", counts.figures.memories),
                format!("live:{}", counts.live),
                format!("embedded:{:.0}%", 100.0 * counts.figures.embedded_share()),
                format!("flags:{}", counts.open_flags),
                format!("size:{}", size(counts.store_bytes).replace(' ', "")),
                format!("wal:{}", size(counts.log_bytes).replace(' ', "")),
            ]);
        }
        if !self.reasons.is_empty() {
            parts.push(self.reasons.join("; "));
        }
        parts.join(" | ")
    }
}

/// Checks a store without its vectors: quick counts, a quick check, memfold's own tables. Writes
/// nothing and never fails: an unreadable store is critical, a locked one a warning.
#[must_use]
pub fn health(path: &Path, options: OpenOptions, request: &LoadRequest<'_>) -> Health {
    let looked = BrainDb::open(path, options)
        .map_err(LoadStoreError::from)
        .and_then(|store| store.glance(request));
    match looked {
        Ok((facts, counts)) => judged(&facts, counts),
        Err(LoadStoreError::Open(error @ OpenStoreError::Locked { .. })) => {
            Health::unknown(HealthStatus::Warning, &error.to_string())
        }
        Err(error) => Health::unknown(HealthStatus::Critical, &error.to_string()),
    }
}

fn judged(facts: &Facts, counts: HealthCounts) -> Health {
    let findings = findings(facts, "");
    let bad = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let reasons = bad.clone().map(|finding| excerpt(&finding.what, REASON_CHARS)).collect();
    let status = match bad.map(|finding| finding.severity).max() {
        None => HealthStatus::Ok,
        Some(Severity::Critical) => HealthStatus::Critical,
        Some(_) => HealthStatus::Warning,
    };
    Health { status, reasons, counts: Some(counts) }
}

impl BrainDb {
    fn glance(&self, request: &LoadRequest<'_>) -> Result<(Facts, HealthCounts), LoadStoreError> {
        self.traceless(|reader, connection| {
            let failed = |error| self.failed(&reader.stamp, "stm", &error);
            let bytes = std::fs::metadata(self.path()).map_or(0, |metadata| metadata.len());
            let is_whole_file_checked = bytes <= CHECKED_BYTES_MAX;
            let check = if is_whole_file_checked { Check::Quick } else { Check::QuickMemories };
            let gatherer = Gatherer { store: self, reader, connection, request };
            let facts = gatherer.few(check).map_err(failed)?;
            let memories = self.read_memories(reader, connection, request)?;
            let live = memories.iter().filter(|memory| memory.status == Status::Live).count();
            let counts = HealthCounts {
                figures: crate::brain_db::doctor::examine::read_figures(connection)
                    .map_err(failed)?,
                live: live as u64,
                open_flags: facts.own.as_ref().map_or(0, |own| own.open_flags),
                store_bytes: facts.files.store_bytes,
                log_bytes: facts.files.log_bytes,
                is_whole_file_checked,
            };
            Ok((facts, counts))
        })
    }
}
