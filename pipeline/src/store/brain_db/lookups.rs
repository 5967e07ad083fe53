//! [`StoreReader`]: what lookups ask a store, memory by memory.

use rusqlite::{OptionalExtension as _, params_from_iter};

use super::columns::{self, Columns};
use super::load::{MEMORY_COLUMNS, Pass, raw_embedding, raw_memory};
use super::open::BrainDb;
use crate::memory::{Memory, Standing, VectorSpace};
use crate::store::reading::{
    EmbeddingReader, MemoryReader, ModelShapes, ReadMemories, decode_vector,
};
use crate::store::{LoadRequest, LoadStoreError, OpenStoreError, VecSink};

/// A row of `embeddings` by which a later reader finds its place again.
///
/// SQLite gives the highest row number to the next row when a row is deleted, so a number alone says nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Watermark {
    /// Its row number.
    pub rowid: i64,
    /// The first 16 hex digits of the blake3 of its memory's id and its vector as stored.
    pub digest: Box<str>,
}

/// How far into `embeddings` an index reaches, in view of the table as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Rows up to this number are those that were indexed, so far as watermarks tell.
    After(i64),
    /// No watermark is where it was: the table was renumbered, or it is another store.
    Lost,
}

/// A live memory and its vector, as they are now.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveMemory {
    /// The memory.
    pub memory: Memory,
    /// Its vector.
    pub vector: Vec<f32>,
}

/// So many watermarks stand one by one at the end, others ever farther apart.
const WATERMARKS_CLOSE: i64 = 16;

/// A store inside one read transaction.
pub struct StoreReader<'a> {
    pass: Pass<'a>,
    embeddings: Columns,
    has_rowid: bool,
    has_rowid_of_memories: bool,
}

impl BrainDb {
    /// Reads single memories in one read transaction, without leaving a trace; `read` is called again where somebody
    /// wrote meanwhile.
    ///
    /// # Errors
    /// What `read` returns, and where the store cannot be opened.
    pub fn look_up<T, E: From<OpenStoreError> + From<LoadStoreError>>(
        &self,
        request: &LoadRequest<'_>,
        mut read: impl FnMut(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless(|reader, connection| {
            let failed = |error: rusqlite::Error| self.failed(reader, "embeddings", &error);
            let embeddings = Columns::of(connection, "embeddings").map_err(failed)?;
            let has_rowid = columns::has_rowid(connection, "embeddings").map_err(failed)?;
            let pass = Pass { store: self, reader, connection, request };
            let has_rowid_of_memories = columns::has_rowid(connection, "stm").map_err(failed)?;
            read(&StoreReader { pass, embeddings, has_rowid, has_rowid_of_memories })
        })
    }
}

impl StoreReader<'_> {
    /// Returns the name that an earlier run gave the store, if any did.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recorded_name(&self) -> Result<Option<Box<str>>, LoadStoreError> {
        self.pass.recorded_store_id()
    }

    /// Looks over all embeddings to learn how models write their vectors.
    pub(crate) fn shapes(&self) -> Result<ModelShapes, LoadStoreError> {
        Ok(self.pass.survey(&mut Vec::new())?.0)
    }

    /// Returns watermarks, the latest first: the last rows, and some before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn watermarks(&self) -> Result<Vec<Watermark>, LoadStoreError> {
        let mut watermarks = Vec::new();
        let Some(mut below) = self.has_embeddings().then_some(i64::MAX) else {
            return Ok(watermarks);
        };
        let mut gap = 1;
        while let Some(watermark) =
            self.watermark("rowid <= ?1 ORDER BY rowid DESC LIMIT 1", below)?
        {
            if watermarks.len() as i64 >= WATERMARKS_CLOSE {
                gap *= 2;
            }
            let Some(next) = watermark.rowid.checked_sub(gap) else { break };
            below = next;
            watermarks.push(watermark);
        }
        Ok(watermarks)
    }

    /// Finds the place of the latest watermark that is still where it was.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn reach(&self, watermarks: &[Watermark]) -> Result<Reach, LoadStoreError> {
        if !self.has_embeddings() {
            return Ok(Reach::Lost);
        }
        for watermark in watermarks {
            if self.watermark("rowid = ?1", watermark.rowid)?.as_ref() == Some(watermark) {
                return Ok(Reach::After(watermark.rowid));
            }
        }
        // A table that was empty has no watermarks, and everything in it came since.
        Ok(if watermarks.is_empty() { Reach::After(i64::MIN) } else { Reach::Lost })
    }

    /// Passes on the vectors of a space that came after a place, in the order in which they came: memory's id and
    /// vector. Whether their memories are live is another question.
    ///
    /// # Errors
    /// When the store cannot be read, or what `take` returns.
    pub(crate) fn since<E: From<LoadStoreError>>(
        &self,
        reach: Reach,
        (space, shapes): (&VectorSpace, &ModelShapes),
        mut take: impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| self.failed(error);
        if !self.embeddings.has_all(&["source_type", "source_id", "embedding"]) {
            return Ok(());
        }
        let (position, order) =
            if self.has_rowid { ("rowid", "AND rowid > ?1 ORDER BY rowid") } else { ("0", "") };
        let listed = self.embedding_columns();
        // By the index on source_type nearly every row would be found one by one and then sorted.
        let sql = format!(
            "SELECT {position}, {listed} FROM embeddings NOT INDEXED WHERE source_type = 'stm' {order}"
        );
        let mut statement = self.pass.connection.prepare(&sql).map_err(failed)?;
        let first = match reach {
            Reach::After(rowid) => rowid,
            Reach::Lost => i64::MIN,
        };
        let parameters = if self.has_rowid { &[first][..] } else { &[] };
        let mut rows = statement.query(params_from_iter(parameters)).map_err(failed)?;
        let mut vector = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let raw = raw_embedding(row).map_err(failed)?;
            let Some(id) = raw.source_id.text().ok().flatten() else { continue };
            if decode_vector(&raw, shapes, space, &mut vector) {
                take(&id, &vector)?;
            }
        }
        Ok(())
    }

    /// Returns the ids of memories whose text is stored in exactly these words, in any order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn ids_of_text(&self, text: &str) -> Result<Vec<String>, LoadStoreError> {
        let failed = |error| self.pass.failed("stm", error);
        let sql = "SELECT id FROM stm WHERE content = ?1 AND typeof(id) = 'text'";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let ids = statement.query_map([text], |row| row.get(0)).map_err(failed)?;
        ids.collect::<Result<_, _>>().map_err(failed)
    }

    /// Reads a memory as it is now; `None` unless it is live and has a valid vector (of the
    /// space, where one is given).
    pub(crate) fn live(
        &self,
        id: &str,
        (space, shapes): (Option<&VectorSpace>, &ModelShapes),
    ) -> Result<Option<LiveMemory>, LoadStoreError> {
        let Some(read) = self.memory(id)? else { return Ok(None) };
        let mut sink = VecSink::default();
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        let order = if self.has_rowid { "ORDER BY rowid DESC" } else { "" };
        let listed = self.embedding_columns();
        let sql = format!(
            "SELECT 0, {listed} FROM embeddings
             WHERE source_type = 'stm' AND source_id = ?1 {order} LIMIT 1"
        );
        let failed = |error| self.failed(error);
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        if let Some(row) = rows.next().map_err(failed)? {
            let raw = raw_embedding(row).map_err(failed)?;
            embeddings.take(&raw, &mut sink).map_err(LoadStoreError::Sink)?;
        }
        let found = embeddings.finish();
        let snapshot = found.into_snapshot(read, None, Vec::new());
        let memory = snapshot.memories.into_iter().next();
        Ok(memory.and_then(|memory| {
            let (at, row) = memory.embedding.vector()?;
            let vector = sink.vector(at, row).to_vec();
            let found = &snapshot.spaces[at.0 as usize];
            space.is_none_or(|space| space == found).then_some(LiveMemory { memory, vector })
        }))
    }

    /// Reads the row of a memory; `None` unless it can be read and is live.
    fn memory(&self, id: &str) -> Result<Option<ReadMemories>, LoadStoreError> {
        let failed = |error| self.failed(error);
        let listed = self.pass.reader.memory_columns.expressions(&MEMORY_COLUMNS);
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let sql = format!("SELECT {position}, {listed} FROM stm WHERE id = ?1 LIMIT 1");
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut memories = MemoryReader::new(*self.pass.request);
        let mut rows = statement.query([id]).map_err(failed)?;
        if let Some(row) = rows.next().map_err(failed)? {
            memories.take(&raw_memory(row).map_err(failed)?, row.get(0).map_err(failed)?);
        }
        let read = memories.finish(Vec::new());
        let is_live = read.memories.first().is_some_and(|memory| memory.standing == Standing::Live);
        Ok(is_live.then_some(read))
    }

    fn has_embeddings(&self) -> bool {
        self.has_rowid && self.embeddings.has_all(&["source_type", "source_id", "embedding"])
    }

    fn watermark(&self, which: &str, rowid: i64) -> Result<Option<Watermark>, LoadStoreError> {
        let sql = format!(
            "SELECT rowid, CAST(source_id AS BLOB), CAST(embedding AS BLOB) FROM embeddings NOT INDEXED
             WHERE source_type = 'stm' AND {which}"
        );
        let mut statement =
            self.pass.connection.prepare_cached(&sql).map_err(|e| self.failed(e))?;
        let watermark = statement.query_row([rowid], |row| {
            let mut hasher = blake3::Hasher::new();
            for column in [1, 2] {
                let bytes = row.get_ref(column)?.as_blob_or_null()?.unwrap_or_default();
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
            let digest = hasher.finalize().to_hex()[..16].into();
            Ok(Watermark { rowid: row.get(0)?, digest })
        });
        watermark.optional().map_err(|error| self.failed(error))
    }

    fn embedding_columns(&self) -> String {
        self.embeddings.expressions(&["source_id", "content", "embedding", "model"])
    }

    fn failed(&self, error: rusqlite::Error) -> LoadStoreError {
        self.pass.failed("embeddings", error)
    }
}
