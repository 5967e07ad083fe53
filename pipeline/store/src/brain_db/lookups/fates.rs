//! What became of a single memory, and what was folded into it.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, params};

use super::StoreReader;
use super::since::{archived_image, content_of};
use crate::brain_db::load::{MEMORY_COLUMNS, raw_embedding, raw_memory};
use crate::journal::RowImage;
use crate::reading::{
    EmbeddingReader, MemoryReader, ModelShapes, RawEmbedding, RawMemory, ReadMemories,
    decode_vector, provenance,
};
use crate::{LoadStoreError, VecSink};
use memfold_model::memory::{Exclusion, Memory, MemoryId, Standing, VectorSpace};

/// A live memory and its vector, as they are now.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveMemory {
    /// The memory.
    pub memory: Memory,
    /// Its vector.
    pub vector: Vec<f32>,
}

/// What became of a memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It is live.
    Live(Box<Memory>),
    /// It was folded into another.
    Folded {
        /// What it says.
        content: Box<str>,
        /// What it was folded into.
        survivor: MemoryId,
    },
    /// A rule of ours archived it.
    Archived {
        /// The memory, with the categories and source that it had.
        memory: Box<Memory>,
    },
    /// Anything else: expired, archived by its owner, a record, unreadable, gone.
    Other,
}

/// A memory that was folded into another.
#[derive(Debug, Clone, PartialEq)]
pub struct Ghost {
    /// The id.
    pub id: MemoryId,
    /// The text.
    pub content: Box<str>,
    /// The vector, where there is one.
    pub vector: Option<Vec<f32>>,
}

/// Vectors that are compared, and how the store's models write them.
pub(crate) type Space<'a> = (&'a VectorSpace, &'a ModelShapes);

impl StoreReader<'_> {
    /// Reads a memory as it is now; `None` unless it is live and has a valid vector (of the
    /// space, where one is given).
    pub fn live(
        &self,
        id: &str,
        (space, shapes): (Option<&VectorSpace>, &ModelShapes),
    ) -> Result<Option<LiveMemory>, LoadStoreError> {
        let Some(read) = self.read_memory(id)? else { return Ok(None) };
        if !is_live(&read) {
            return Ok(None);
        }
        let found = self.with_vector(read, shapes)?;
        Ok(found
            .and_then(|(live, found)| space.is_none_or(|space| *space == found).then_some(live)))
    }

    /// Finds out what became of a memory.
    pub fn fate(&self, id: &str) -> Result<Fate, LoadStoreError> {
        let Some(read) = self.read_memory(id)? else { return self.fate_in_archive(id) };
        let Some(memory) = read.memories.into_iter().next() else { return Ok(Fate::Other) };
        Ok(match &memory.standing {
            Standing::Live => Fate::Live(Box::new(memory)),
            Standing::Ghost { survivor } => {
                Fate::Folded { survivor: survivor.clone(), content: memory.content }
            }
            Standing::Excluded(Exclusion::Archived)
                if provenance::is_archived_by_run(&memory.source) =>
            {
                Fate::Archived { memory: Box::new(before_archival(memory)) }
            }
            Standing::Excluded(_) => Fate::Other,
        })
    }

    fn fate_in_archive(&self, id: &str) -> Result<Fate, LoadStoreError> {
        if !self.own()?.has_archive {
            return Ok(Fate::Other);
        }
        let sql = "SELECT row, survivor_id FROM memfold_archive
                   WHERE memory_id = ?1 AND table_name = 'stm' ORDER BY id DESC LIMIT 1";
        let failed = |error| self.failed(error);
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let found = statement
            .query_row([id], |row| {
                Ok((archived_image(&row.get::<_, String>(0)?), row.get::<_, Option<String>>(1)?))
            })
            .optional()
            .map_err(failed)?;
        let Some((Some(image), survivor)) = found else { return Ok(Fate::Other) };
        let Some(content) = content_of(&image).map(Box::from) else { return Ok(Fate::Other) };
        Ok(match survivor {
            Some(survivor) => Fate::Folded { content, survivor: MemoryId::new(survivor) },
            // As it was: its marks were never written.
            None => self.moved_memory(&image),
        })
    }

    fn moved_memory(&self, image: &RowImage) -> Fate {
        let mut memories = MemoryReader::new(*self.pass.request);
        memories.take(&RawMemory::from(image), 0);
        let memory = memories.finish(Vec::new()).memories.into_iter().next();
        memory.map_or(Fate::Other, |memory| Fate::Archived { memory: Box::new(memory) })
    }

    /// Returns the vector of a live memory, where it has a valid one of the space.
    pub fn vector(
        &self,
        id: &str,
        (space, shapes): Space<'_>,
    ) -> Result<Option<Vec<f32>>, LoadStoreError> {
        Ok(self.live(id, (Some(space), shapes))?.map(|live| live.vector))
    }

    /// Returns all that was folded into a memory, directly or along with others; `None` where that is more than `most`.
    pub fn ghosts(
        &self,
        live: &Memory,
        space: Option<Space<'_>>,
        most: usize,
    ) -> Result<Option<Vec<Ghost>>, LoadStoreError> {
        let mut ghosts: Vec<Ghost> = Vec::new();
        let mut seen = BTreeSet::from([live.id.clone()]);
        // The source of a memory names what was folded into it; that of a ghost no longer does.
        let mut open = vec![(live.id.clone(), &*live.source)];
        while let Some((survivor, source)) = open.pop() {
            for id in self.folded_into(&survivor, source)? {
                if seen.contains(&id) {
                    continue;
                }
                let Fate::Folded { content, survivor } = self.fate(id.as_str())? else { continue };
                // A list names all ever folded, also what somebody folded elsewhere since.
                if !seen.contains(&survivor) {
                    continue;
                }
                if ghosts.len() == most {
                    return Ok(None);
                }
                let vector = match space {
                    Some(space) => self.vector_of_ghost(id.as_str(), space)?,
                    None => None,
                };
                open.push((id.clone(), ""));
                seen.insert(id.clone());
                ghosts.push(Ghost { id, content, vector });
            }
        }
        Ok(Some(ghosts))
    }

    /// The memories that are said to be folded into one: by our own tables, then by its source.
    fn folded_into(
        &self,
        survivor: &MemoryId,
        source: &str,
    ) -> Result<Vec<MemoryId>, LoadStoreError> {
        let mut ids = Vec::new();
        if self.own()?.has_lineage {
            let failed = |error| self.failed(error);
            let sql = "SELECT absorbed_id FROM memfold_lineage
                       WHERE survivor_id = ?1 AND active = 1 ORDER BY id";
            let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
            let found = statement
                .query_map([survivor.as_str()], |row| row.get::<_, String>(0))
                .map_err(failed)?;
            for id in found {
                ids.push(MemoryId::new(id.map_err(failed)?));
            }
        }
        // The latest stand last, and what came along with another before it.
        ids.extend(provenance::parse(source).merged_from.into_iter().rev());
        Ok(ids)
    }

    /// Returns the vector that a folded memory had, where it is a valid one of the space.
    pub fn vector_of_ghost(
        &self,
        id: &str,
        (space, shapes): Space<'_>,
    ) -> Result<Option<Vec<f32>>, LoadStoreError> {
        let mut vector = Vec::new();
        let found =
            self.last_embedding(id, |raw| decode_vector(raw, shapes, space, &mut vector))?;
        match found {
            Some(is_valid) => return Ok(is_valid.then_some(vector)),
            None if !self.own()?.has_archive => return Ok(None),
            None => {}
        }
        let failed = |error| self.failed(error);
        let sql = "SELECT row FROM memfold_archive
                   WHERE memory_id = ?1 AND table_name = 'embeddings' ORDER BY id DESC LIMIT 1";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let json: Option<String> =
            statement.query_row([id], |row| row.get(0)).optional().map_err(failed)?;
        let image: Option<RowImage> = json.as_deref().and_then(archived_image);
        let is_valid = image.is_some_and(|image| {
            decode_vector(&RawEmbedding::from(&image), shapes, space, &mut vector)
        });
        Ok(is_valid.then_some(vector))
    }

    /// Reads the row of a memory, whatever it is; `None` where there is none.
    fn read_memory(&self, id: &str) -> Result<Option<ReadMemories>, LoadStoreError> {
        let failed = |error| self.failed(error);
        let listed = self.pass.memory_columns.expressions(&MEMORY_COLUMNS);
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let sql = format!("SELECT {position}, {listed} FROM stm WHERE id = ?1 LIMIT 1");
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut memories = MemoryReader::new(*self.pass.request);
        let mut rows = statement.query([id]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        memories.take(&raw_memory(row).map_err(failed)?, row.get(0).map_err(failed)?);
        let read = memories.finish(Vec::new());
        let is_archived =
            |memory: &Memory| memory.standing == Standing::Excluded(Exclusion::Archived);
        if !read.memories.iter().any(is_archived) || !self.own()?.has_lineage {
            return Ok(Some(read));
        }
        // Its own marks do not say into what it was folded, but ours may.
        let mut memories = MemoryReader::new(*self.pass.request);
        memories.take(&raw_memory(row).map_err(failed)?, row.get(0).map_err(failed)?);
        Ok(Some(memories.finish(self.lineage_of(id)?)))
    }

    fn lineage_of(&self, id: &str) -> Result<Vec<(MemoryId, MemoryId)>, LoadStoreError> {
        let failed = |error| self.failed(error);
        let sql = "SELECT survivor_id FROM memfold_lineage
                   WHERE absorbed_id = ?1 AND active = 1 ORDER BY id DESC";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let survivors =
            statement.query_map(params![id], |row| row.get::<_, String>(0)).map_err(failed)?;
        let pair = |survivor| (MemoryId::new(id), MemoryId::new(survivor));
        survivors.map(|survivor| survivor.map(pair).map_err(failed)).collect()
    }

    /// Adds the vector to a memory that was read; `None` where it has no valid one.
    fn with_vector(
        &self,
        read: ReadMemories,
        shapes: &ModelShapes,
    ) -> Result<Option<(LiveMemory, VectorSpace)>, LoadStoreError> {
        let Some(id) = read.memories.first().map(|memory| memory.id.clone()) else {
            return Ok(None);
        };
        let mut sink = VecSink::default();
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        if let Some(taken) =
            self.last_embedding(id.as_str(), |raw| embeddings.take(raw, &mut sink))?
        {
            taken.map_err(LoadStoreError::Sink)?;
        }
        let found = embeddings.finish();
        let snapshot = found.into_snapshot(read, None, Vec::new());
        let memory = snapshot.memories.into_iter().next();
        Ok(memory.and_then(|memory| {
            let (at, row) = memory.embedding.vector()?;
            let space = snapshot.spaces[at.0 as usize].clone();
            Some((LiveMemory { memory, vector: sink.vector(at, row).to_vec() }, space))
        }))
    }

    /// Hands over the embedding of a memory that counts: the last of several.
    fn last_embedding<T>(
        &self,
        id: &str,
        take: impl FnOnce(&RawEmbedding<'_>) -> T,
    ) -> Result<Option<T>, LoadStoreError> {
        if !self.has_embeddings() {
            return Ok(None);
        }
        let failed = |error| self.failed(error);
        let order = if self.has_rowid { "ORDER BY rowid DESC" } else { "" };
        let listed = self.embedding_columns();
        let sql = format!(
            "SELECT 0, {listed} FROM embeddings
             WHERE source_type = 'stm' AND source_id = ?1 {order} LIMIT 1"
        );
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        Ok(Some(take(&raw_embedding(row).map_err(failed)?)))
    }
}

/// Takes the marks of the archive off.
fn before_archival(mut memory: Memory) -> Memory {
    memory.categories.retain(|category| **category != *"archived");
    for category in &mut memory.categories {
        if let Some(before) = category.strip_prefix("archive/") {
            *category = before.into();
        }
    }
    memory
}

fn is_live(read: &ReadMemories) -> bool {
    read.memories.first().is_some_and(|memory| memory.standing == Standing::Live)
}
