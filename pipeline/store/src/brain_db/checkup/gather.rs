//! [`BrainDb::checkup`]: the facts, gathered in two readings, the vectors' and this one.

use std::collections::HashSet;

use rusqlite::Connection;

use super::census::VectorCensus;
use super::facts::{Facts, Found, MemoryFacts};
use super::sound::{Check, broken_references, is_damage};
use super::{files, folded, full_text, own_tables};
use crate::brain_db::open::{BrainDb, Reader};
use crate::brain_db::rivals;
use crate::brain_db::session::reactions;
use crate::{LoadRequest, LoadStoreError, MemoryStore as _, SkipReason, Snapshot};
use memfold_model::memory::{CreatedAt, Embedding, InvalidEmbedding, Memory, Standing};

/// A store, loaded and examined.
#[derive(Debug)]
pub struct Checkup {
    /// What was found.
    pub facts: Facts,
    /// The memories, or why they cannot be read: what damage there is stands in the facts.
    pub loaded: Result<Snapshot, LoadStoreError>,
    /// How many vectors each of the snapshot's spaces has.
    pub vectors: Vec<u64>,
}

impl BrainDb {
    /// Loads the store and examines it; writes nothing. One vector under `shared_texts` different texts or more
    /// is noted.
    ///
    /// # Errors
    /// When the store cannot be opened, or when cancelled. Damage is no error, but a fact.
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
pub(super) struct Gatherer<'a> {
    pub(super) store: &'a BrainDb,
    pub(super) reader: &'a Reader,
    pub(super) connection: &'a Connection,
    pub(super) request: &'a LoadRequest<'a>,
}

impl Gatherer<'_> {
    fn all(&self, snapshot: Option<&Snapshot>) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let mut facts = self.few(Check::Integrity)?;
        let live = snapshot.map(live_ids);
        let damage = &mut facts.damage;
        facts.broken_references = unless_damaged(damage, broken_references(connection))?;
        facts.full_text = unless_damaged(damage, full_text::examine(connection, live.as_ref()))?;
        let columns = &self.reader.memory_columns;
        let rivals = rivals::examine(connection, columns, self.store.path());
        facts.rivals = unless_damaged(damage, rivals)?;
        facts.reactions = unless_damaged(damage, reactions(connection))?;
        if let Some(snapshot) = snapshot {
            let moved = unless_damaged(damage, folded::moved(connection))?;
            if let Some(own) = &mut facts.own {
                own.moved = moved.len() as u64;
            }
            let edited = folded::archived_edited(connection, snapshot, &moved);
            let archived_edited = unless_damaged(damage, edited)?;
            facts.memories = Some(MemoryFacts {
                archived_edited,
                visible_archived: folded::visible_archived(snapshot, &moved),
                survivor_gone: folded::survivor_gone(snapshot, &moved),
                ..MemoryFacts::of(snapshot)
            });
        }
        Ok(facts)
    }

    /// Gathers what costs little: one check, the files, memfold's own tables.
    pub(super) fn few(&self, check: Check) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let mut facts = Facts { damage: check.run(connection)?, ..Facts::default() };
        let damage = &mut facts.damage;
        facts.own = unless_damaged(damage, own_tables::examine(connection, self.request))?;
        let unfinished = facts.own.iter_mut().flat_map(|own| &mut own.unfinished);
        for run in unfinished.filter(|run| run.is_running) {
            run.is_alive = files::is_locked(self.store.path()).unwrap_or(run.is_alive);
        }
        let files = files::examine(connection, self.store.path(), &self.reader.stamp);
        facts.files = unless_damaged(damage, files)?;
        Ok(facts)
    }
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
    let live = snapshot.memories.iter().filter(|memory| memory.standing == Standing::Live);
    live.map(|memory| memory.id.as_str()).collect()
}

impl MemoryFacts {
    /// Takes from a snapshot what can be read from it alone.
    fn of(snapshot: &Snapshot) -> Self {
        let mut facts = Self { live: snapshot.live_count(), ..Self::default() };
        for (reason, &count) in &snapshot.skipped {
            facts.skipped.insert(*reason, Found { count, examples: Vec::new() });
        }
        let live = snapshot.memories.iter().filter(|memory| memory.standing == Standing::Live);
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

/// What a live memory is counted under.
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
