//! Reading a whole `brain.db`: memories first, then embeddings, each in one sequential pass; without texts, for
//! retention; or memory by memory with its embedding, where nothing is held.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::{io, thread};

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as SqlValue};
use rusqlite::{Connection, Row as SqlRow, Statement};

use crate::brain_db::read::access::{
    Columns, StoreVersion, all, cell0, embeddings_are_unique, first, has_rowid, is_text_key,
};
use crate::brain_db::read::open::{BrainDb, Reader};
use crate::error::StoreError;
use crate::memory_store::{LiveVisitor, LoadRequest, MemoryStore, VectorSink};
use crate::reading::memory::{
    EMBEDDING_CELLS, EmbeddingReader, LiveReader, MemoryReader, OldestRow, RawEmbedding,
    ReadMemories, without_text,
};
use crate::reading::vector::{ModelShapes, PackedRows, ShapeSurvey};
use memfold_core::Snapshot;
use memfold_core::memory::{Memory, Status};
use memfold_core::row::{MEMORY_CELLS, RawMemory};
use memfold_core::value::{Value, ValueRef};
use memfold_index::Progress;

/// Rows between two checks for progress and cancellation.
const BATCH_ROWS: u64 = 4096;

/// Blobs read to learn whether a model's vectors are f32 or f64.
pub(crate) const PROBE_BLOBS: usize = 16;

/// The columns that [`raw_memory`] reads, after a first column of the caller's.
pub(crate) const MEMORY_COLUMNS: [&str; MEMORY_CELLS] = [
    "id",
    "content",
    "categories",
    "importance",
    "access_count",
    "created_at",
    "expires_at",
    "source",
    "archived_by",
    "last_accessed",
];

/// Columns without which a table of embeddings is of no use.
const EMBEDDING_COLUMNS: [&str; 3] = ["source_type", "source_id", "embedding"];

/// Which embeddings belong to memories. By the index on `source_type` nearly every row would be
/// found one by one and then sorted.
pub(crate) const OF_MEMORIES: &str = "FROM embeddings NOT INDEXED WHERE source_type = 'stm'";

impl MemoryStore for BrainDb {
    fn load(
        &self,
        request: &LoadRequest<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, StoreError> {
        let mut tries = 0;
        self.traceless(|reader, connection| {
            if tries > 0 {
                sink.restart().map_err(|_| StoreError::Changed { path: self.path().into() })?;
            }
            tries += 1;
            self.read_all(&Pass::over(self, reader, connection, request), sink)
        })
    }

    fn visit_live(
        &self,
        request: &LoadRequest<'_>,
        visitor: &mut dyn LiveVisitor,
    ) -> Result<bool, StoreError> {
        self.traceless(|reader, connection| {
            Pass::over(self, reader, connection, request).in_step(visitor)
        })
    }
}

impl BrainDb {
    fn read_all(&self, pass: &Pass<'_>, sink: &mut dyn VectorSink) -> Result<Snapshot, StoreError> {
        let mut notes = Vec::new();
        let read = pass.memories(&mut notes)?;
        let (shapes, embedding_count) = pass.survey(&mut notes)?;
        let store_id = pass.recorded_store_id()?;
        let mut embeddings = EmbeddingReader::new(&read, &shapes);
        if let Some(count) = embedding_count {
            pass.embeddings(count, &mut embeddings, sink)?;
        }
        notes.extend(pass.archived_embeddings(&mut embeddings, sink)?);
        let found = embeddings.finish();
        let mut snapshot = found.into_snapshot(read, store_id, notes);
        pass.recorded()?.add_to(&mut snapshot.decisions, &snapshot.memories);
        Ok(snapshot)
    }

    /// Returns all memories without their embeddings, archived ones included.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn memories(&self, request: &LoadRequest<'_>) -> Result<Vec<Memory>, StoreError> {
        self.traceless(|reader, connection| {
            // The findings already cover all remarks.
            Ok(Pass::over(self, reader, connection, request).memories(&mut Vec::new())?.memories)
        })
    }

    pub(crate) fn failed(
        &self,
        version: &StoreVersion,
        table: &'static str,
        error: &rusqlite::Error,
    ) -> StoreError {
        match self.explain(error, version) {
            StoreError::Sqlite { path, reason } | StoreError::Damaged { path, reason } => {
                StoreError::Read { path, table, reason }
            }
            other => other,
        }
    }
}

/// One read transaction.
pub(crate) struct Pass<'a> {
    pub(crate) store: &'a BrainDb,
    pub(crate) version: &'a StoreVersion,
    pub(crate) memory_columns: &'a Columns,
    pub(crate) connection: &'a Connection,
    pub(crate) request: &'a LoadRequest<'a>,
}

impl<'a> Pass<'a> {
    pub(crate) fn over(
        store: &'a BrainDb,
        reader: &'a Reader,
        connection: &'a Connection,
        request: &'a LoadRequest<'a>,
    ) -> Self {
        let Reader { version, memory_columns, .. } = reader;
        Self { store, version, memory_columns, connection, request }
    }

    pub(crate) fn memories(&self, notes: &mut Vec<String>) -> Result<ReadMemories, StoreError> {
        let failed = |error| self.failed("stm", error);
        let total = self.count("stm")?;
        if total + self.archived_count()? >= u64::from(u32::MAX) {
            return Err(StoreError::TooManyRows { limit: u32::MAX - 1 });
        }
        let sql = self.all_memories()?;
        let mut memories = MemoryReader::new(*self.request);
        self.each_row("stm", "read memories", &sql, total, |row| {
            let at = row.get::<_, Option<i64>>(0).map_err(failed)?.unwrap_or(0);
            memories.take(&raw_memory(row).map_err(failed)?, at);
            Ok(())
        })?;
        notes.extend(self.archived_memories(&mut memories)?);
        Ok(memories.finish(self.lineage()?))
    }

    /// Surveys all embeddings: how many there are (`None`: no table) and their shapes.
    pub(crate) fn survey(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<(ModelShapes, Option<u64>), StoreError> {
        let columns = self.columns("embeddings")?;
        if columns.has_all(&EMBEDDING_COLUMNS) {
            let (count, survey) = self.survey_table(None)?;
            return Ok((self.shapes_of(survey)?, Some(count)));
        }
        let lack = if columns.is_empty() { "no table" } else { "no columns of use in table" };
        notes.push(format!("{lack} embeddings: only equal texts can be found"));
        Ok((self.shapes_of(ShapeSurvey::default())?, None))
    }

    /// Decides the shapes of embeddings from the table's, as `survey` found them, and the
    /// archive's.
    pub(crate) fn shapes_of(&self, mut survey: ShapeSurvey) -> Result<ModelShapes, StoreError> {
        let archived = self.survey_archived(&mut survey)?;
        let columns = self.columns("embeddings")?;
        survey.decide(|named, length| {
            let mut blobs = Vec::new();
            if columns.has_all(&EMBEDDING_COLUMNS) {
                blobs = self.probe(&columns.expression("model"), named, length)?;
            }
            archived.fill(&mut blobs, named, length);
            Ok(blobs)
        })
    }

    /// Surveys the table of embeddings, or the first `limit` of them; returns how many there are.
    pub(crate) fn survey_table(
        &self,
        limit: Option<u32>,
    ) -> Result<(u64, ShapeSurvey), StoreError> {
        let failed = |error| self.failed("embeddings", error);
        let columns = self.columns("embeddings")?;
        let model = columns.expression("model");
        let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        let sql = format!(
            "SELECT {model}, iif(typeof(embedding) = 'blob', length(embedding), NULL)
             {OF_MEMORIES}{limit}"
        );
        let total = self.count("embeddings")?;
        let mut survey = ShapeSurvey::default();
        let mut count = 0;
        self.each_row("embeddings", "look over embeddings", &sql, total, |row| {
            let named = cell(row, 0).map_err(failed)?.text().ok().flatten();
            let length = row.get::<_, Option<i64>>(1).map_err(failed)?;
            survey.add(named.as_deref(), length.and_then(|length| usize::try_from(length).ok()));
            count += 1;
            Ok(())
        })?;
        Ok((count, survey))
    }

    /// Returns some blobs of a length and, where one is named, a model.
    fn probe(
        &self,
        model: &str,
        named: Option<&str>,
        length: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let sql = format!(
            "SELECT embedding {OF_MEMORIES} AND ({model} IS ?1 OR ?1 IS NULL)
             AND typeof(embedding) = 'blob' AND length(embedding) = ?2 LIMIT {PROBE_BLOBS}"
        );
        self.query("embeddings", |c| all(c, &sql, (named, length as i64), cell0))
    }

    fn embeddings(
        &self,
        count: u64,
        embeddings: &mut EmbeddingReader<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<(), StoreError> {
        let failed = |error| self.failed("embeddings", error);
        let columns = self.columns("embeddings")?;
        let last = self.last_of_repeated()?;
        let (position, order) = match self.has_rowid("embeddings")? {
            true => ("rowid", "ORDER BY rowid"),
            false => ("0", ""),
        };
        let listed = columns.expressions(&["source_id", "content", "embedding", "model"]);
        let sql = format!("SELECT {position}, {listed} {OF_MEMORIES} {order}");
        self.each_row("embeddings", "read embeddings", &sql, count, |row| {
            let raw = raw_embedding(row).map_err(failed)?;
            let at: i64 = row.get(0).map_err(failed)?;
            let id = if last.is_empty() { None } else { raw.source_id.text().ok().flatten() };
            if id.and_then(|id| last.get(&*id)).is_some_and(|last| *last != at) {
                embeddings.repeated(raw.source_id);
                return Ok(());
            }
            embeddings.take(&raw, sink).map_err(StoreError::Sink)
        })
    }

    /// Returns the last rowid of each memory that has several embeddings.
    fn last_of_repeated(&self) -> Result<HashMap<String, i64>, StoreError> {
        let failed = |error| self.failed("embeddings", error);
        if self.query("embeddings", embeddings_are_unique)? || !self.has_rowid("embeddings")? {
            return Ok(HashMap::new());
        }
        let sql = format!(
            "SELECT CAST(source_id AS TEXT), max(rowid) {OF_MEMORIES} AND typeof(source_id) <> 'blob'
             GROUP BY 1 HAVING count(*) > 1"
        );
        let mut last = HashMap::new();
        self.each_row("embeddings", "find repeated embeddings", &sql, 0, |row| {
            if let Some(id) = cell(row, 0).map_err(failed)?.text().ok().flatten() {
                last.insert(id.into_owned(), row.get(1).map_err(failed)?);
            }
            Ok(())
        })?;
        Ok(last)
    }

    /// Returns the name that an earlier run gave the store.
    pub(crate) fn recorded_store_id(&self) -> Result<Option<Box<str>>, StoreError> {
        if !self.columns("memfold_schema")?.has("store_uuid") {
            return Ok(None);
        }
        let sql = "SELECT store_uuid FROM memfold_schema WHERE store_uuid IS NOT NULL LIMIT 1";
        let id = self.query("memfold_schema", |c| first(c, sql, [], cell0::<String>))?;
        Ok(id.map(Into::into))
    }

    /// Returns the recorded name of the store, or the one that its rows give.
    pub(crate) fn store_id(&self) -> Result<Box<str>, StoreError> {
        match self.recorded_store_id()? {
            Some(recorded) => Ok(recorded),
            None => self.query("stm", derived_store_id),
        }
    }

    pub(crate) fn count(&self, table: &'static str) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {table}");
        let count = self.query(table, |c| c.query_row(&sql, [], cell0::<i64>))?;
        Ok(count.unsigned_abs())
    }

    /// Runs a query of about `total` rows as one stage of progress.
    pub(crate) fn each_row(
        &self,
        table: &'static str,
        stage: &'static str,
        sql: &str,
        total: u64,
        mut take: impl FnMut(&SqlRow<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |error| self.failed(table, error);
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut ticks = Ticks::begin(self.request.progress, stage, total);
        while let Some(row) = rows.next().map_err(failed)? {
            take(row)?;
            ticks.tick()?;
        }
        ticks.end();
        Ok(())
    }

    /// Runs statements that read a table.
    pub(crate) fn query<T>(
        &self,
        table: &'static str,
        read: impl FnOnce(&'a Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(self.connection).map_err(|error| self.failed(table, error))
    }

    /// Reads the columns of a table.
    pub(crate) fn columns(&self, table: &'static str) -> Result<Columns, StoreError> {
        self.query(table, |connection| Columns::of(connection, table))
    }

    /// Tells whether rows of a table have a rowid.
    pub(crate) fn has_rowid(&self, table: &'static str) -> Result<bool, StoreError> {
        self.query(table, |connection| has_rowid(connection, table))
    }

    /// Returns the query of all memories in the order of their table: row numbers, then [`MEMORY_COLUMNS`].
    fn all_memories(&self) -> Result<String, StoreError> {
        let (position, order) = match self.has_rowid("stm")? {
            true => ("rowid", "ORDER BY rowid"),
            false => ("0", ""),
        };
        let listed = self.memory_columns.expressions(&MEMORY_COLUMNS);
        Ok(format!("SELECT {position}, {listed} FROM stm {order}"))
    }

    pub(crate) fn failed(
        &self,
        table: &'static str,
        error: impl std::borrow::Borrow<rusqlite::Error>,
    ) -> StoreError {
        self.store.failed(self.version, table, error.borrow())
    }
}

/// Names a store that holds no name by its oldest row.
pub(crate) fn derived_store_id(connection: &Connection) -> rusqlite::Result<Box<str>> {
    let mut oldest = OldestRow::default();
    let mut statement = connection.prepare("SELECT created_at, id FROM stm")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        oldest.consider(cell(row, 0)?, cell(row, 1)?);
    }
    Ok(oldest.store_id())
}

/// One stage of progress, row by row.
pub(crate) struct Ticks<'a> {
    progress: &'a dyn Progress,
    pending: u64,
}

impl<'a> Ticks<'a> {
    pub(crate) fn begin(progress: &'a dyn Progress, stage: &'static str, total: u64) -> Self {
        progress.begin(stage, Some(total));
        Self { progress, pending: 0 }
    }

    /// Counts a row.
    pub(crate) fn tick(&mut self) -> Result<(), StoreError> {
        self.pending += 1;
        if self.pending == BATCH_ROWS {
            self.progress.advance(std::mem::take(&mut self.pending));
            if self.progress.cancelled() {
                return Err(StoreError::Cancelled);
            }
        }
        Ok(())
    }

    pub(crate) fn end(self) {
        self.progress.advance(self.pending);
        self.progress.end();
    }
}

pub(crate) fn raw_memory<'a>(row: &'a SqlRow<'_>) -> rusqlite::Result<RawMemory<'a>> {
    cells(row).map(RawMemory::of_cells)
}

pub(crate) fn raw_embedding<'a>(row: &'a SqlRow<'_>) -> rusqlite::Result<RawEmbedding<'a>> {
    cells(row).map(RawEmbedding::of_cells)
}

/// Reads the cells behind the first.
fn cells<'a, const N: usize>(row: &'a SqlRow<'_>) -> rusqlite::Result<[ValueRef<'a>; N]> {
    let mut cells = [ValueRef::Null; N];
    for (column, found) in (1..).zip(&mut cells) {
        *found = cell(row, column)?;
    }
    Ok(cells)
}

/// Returns a value of a row.
///
/// # Errors
/// When the column does not exist.
pub fn cell<'a>(row: &'a SqlRow<'_>, column: usize) -> rusqlite::Result<ValueRef<'a>> {
    Ok(match row.get_ref(column)? {
        SqlValue::Null => ValueRef::Null,
        SqlValue::Integer(value) => ValueRef::Integer(value),
        SqlValue::Real(value) => ValueRef::Real(value),
        SqlValue::Text(bytes) => ValueRef::Text(bytes),
        SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
    })
}

/// A value as a parameter of a statement.
#[derive(Debug)]
pub struct Param<'a>(pub &'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0.borrow() {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(value) => SqlValue::Integer(value),
            ValueRef::Real(value) => SqlValue::Real(value),
            ValueRef::Text(bytes) => SqlValue::Text(bytes),
            ValueRef::Blob(bytes) => SqlValue::Blob(bytes),
        }))
    }
}

/// Embeddings that were read and dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBlobs {
    /// Rows read.
    pub rows: u64,
    /// Bytes of their vectors as stored.
    pub bytes: u64,
}

impl BrainDb {
    /// Reads the vectors of all memories in the order of the table and drops them: the time that an export cannot
    /// undercut.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read_blobs(&self) -> Result<ReadBlobs, StoreError> {
        self.consult("embeddings", read_blobs)
    }
}

fn read_blobs(connection: &Connection) -> rusqlite::Result<ReadBlobs> {
    let sql = "SELECT embedding FROM embeddings NOT INDEXED WHERE source_type = 'stm'";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut read = ReadBlobs::default();
    while let Some(row) = rows.next()? {
        read.rows += 1;
        // A value that is not a blob has no bytes to read.
        let bytes = row.get_ref(0)?.as_bytes_or_null().ok().flatten();
        read.bytes += bytes.map_or(0, |bytes| bytes.len() as u64);
    }
    Ok(read)
}

impl BrainDb {
    /// Reads the live memories without their texts and embeddings, in the order of their table. A
    /// memory is live if a load at the request's time finds it live. Texts are empty, embeddings
    /// `Missing` and base digests all zeros.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn live_without_texts(&self, request: &LoadRequest<'_>) -> Result<Vec<Memory>, StoreError> {
        self.traceless(|reader, connection| {
            Pass::over(self, reader, connection, request).live_without_texts()
        })
    }
}

impl Pass<'_> {
    fn live_without_texts(&self) -> Result<Vec<Memory>, StoreError> {
        let failed = |error| self.failed("stm", error);
        let sql = self.all_memories()?;
        let mut found = Vec::new();
        // Only a table without a primary key repeats ids; the first row counts, as in a load.
        let mut seen = HashSet::new();
        let total = self.count("stm")?;
        self.each_row("stm", "read memories", &sql, total, |row| {
            let rowid = row.get::<_, Option<i64>>(0).map_err(failed)?.unwrap_or(0);
            let raw = raw_memory(row).map_err(failed)?;
            let Some(memory) = without_text(&raw, rowid, *self.request) else { return Ok(()) };
            if seen.insert(memory.id.clone()) && memory.status == Status::Live {
                found.push(memory);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Embeddings that are surveyed before the first is read; the shape of all of them is known once
/// they are read.
const SAMPLE_ROWS: u32 = 1024;

/// Packs of rows that wait to be visited.
const PACKS_WAITING: usize = 4;

impl Pass<'_> {
    fn in_step(&self, visitor: &mut dyn LiveVisitor) -> Result<bool, StoreError> {
        if !self.query("stm", has_keys)? {
            return Ok(false);
        }
        let store_id = self.store_id()?;
        let (_, sample) = self.survey_table(Some(SAMPLE_ROWS))?;
        let mut shapes = self.shapes_of(sample)?;
        loop {
            visitor.begin(&store_id).map_err(StoreError::Sink)?;
            let decided = self.shapes_of(self.visit_all(&shapes, visitor)?)?;
            if decided == shapes {
                return Ok(true);
            }
            // The first embeddings differ from the others, so the rows were decoded with the wrong
            // shape.
            shapes = decided;
        }
    }

    /// Passes all live memories to the visitor; returns the shapes of all embeddings.
    ///
    /// A second thread decodes the rows that this one reads and passes them on.
    fn visit_all(
        &self,
        shapes: &ModelShapes,
        visitor: &mut dyn LiveVisitor,
    ) -> Result<ShapeSurvey, StoreError> {
        let (waiting, packs) = sync_channel(PACKS_WAITING);
        let (give_back, shown) = channel();
        let reader = LiveReader::new(self.request, shapes);
        let (is_whole, (count, survey)) = thread::scope(|scope| {
            let showing = thread::Builder::new()
                .name("show rows".to_owned())
                .spawn_scoped(scope, move || show(reader, &packs, &give_back, visitor))
                .map_err(StoreError::Sink)?;
            let read =
                self.read_all_pairs(RowQueue { filling: PackedRows::default(), waiting, shown });
            let seen = showing.join().unwrap_or_else(|panic| resume_unwind(panic));
            // If the visitor refuses, nobody receives further rows.
            let seen = seen.map_err(StoreError::Sink)?;
            Ok::<_, StoreError>((read?, seen))
        })?;
        // Embeddings without a memory have their say, too.
        if is_whole || count == self.embeddings_of_memories()? {
            return Ok(survey);
        }
        Ok(self.survey_table(None)?.1)
    }

    /// Puts all rows into the queue; returns whether these are all embeddings for sure.
    fn read_all_pairs(&self, mut queue: RowQueue) -> Result<bool, StoreError> {
        let failed = |error| self.failed("embeddings", error);
        let mut ticks = Ticks::begin(self.request.progress, "read memories", self.count("stm")?);
        let is_whole = self.each_pair(|memory, embedding| {
            pack(&mut queue.filling, memory, embedding).map_err(failed)?;
            if queue.filling.is_full() {
                queue.pass_on()?;
            }
            ticks.tick()
        })?;
        queue.pass_on()?;
        ticks.end();
        Ok(is_whole)
    }

    fn embeddings_of_memories(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM embeddings WHERE source_type = 'stm'";
        let count = self.query("embeddings", |c| c.query_row(sql, [], cell0::<i64>))?;
        Ok(count.unsigned_abs())
    }

    /// Passes on each memory with its embedding, if it has one, in the order of the memory table.
    ///
    /// Embeddings mostly stand in the order of their memories, so the next one is tried first. Returns whether all of them
    /// do, and none is without a memory.
    fn each_pair(
        &self,
        mut take: impl FnMut(&SqlRow<'_>, Option<&SqlRow<'_>>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let failed_memory = |error| self.failed("stm", error);
        let failed = |error| self.failed("embeddings", error);
        let listed = self.memory_columns.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT rowid, {listed} FROM stm ORDER BY rowid");
        let mut all = self.connection.prepare(&sql).map_err(failed_memory)?;
        let mut memories = all.query([]).map_err(failed_memory)?;
        let mut embeddings = Embeddings::prepare(self.connection).map_err(failed)?;

        let mut memory = memories.next().map_err(failed_memory)?;
        let mut last = i64::MIN;
        // Without memories the embeddings are irrelevant.
        let mut is_whole = memory.is_some();
        while memory.is_some() {
            let mut rest = embeddings.after.query([last]).map_err(failed)?;
            let mut next = rest.next().map_err(failed)?;
            while let Some(row) = memory {
                let id = cell(row, 1).map_err(failed_memory)?;
                if let Some(embedding) = next
                    && cell(embedding, 1).map_err(failed)? == id
                {
                    last = embedding.get(0).map_err(failed)?;
                    take(row, Some(embedding))?;
                    memory = memories.next().map_err(failed_memory)?;
                    next = rest.next().map_err(failed)?;
                    continue;
                }
                let id = id.text().ok().flatten();
                let mut found = embeddings.of.query([id.as_deref()]).map_err(failed)?;
                let elsewhere = found.next().map_err(failed)?;
                take(row, elsewhere)?;
                memory = memories.next().map_err(failed_memory)?;
                if let Some(embedding) = elsewhere {
                    last = embedding.get(0).map_err(failed)?;
                    is_whole = false;
                    break;
                }
            }
            is_whole &= next.is_none();
        }
        Ok(is_whole)
    }
}

/// Rows on their way to the thread that shows them.
struct RowQueue {
    filling: PackedRows,
    waiting: SyncSender<PackedRows>,
    /// Visited packs, for reuse of their memory.
    shown: Receiver<PackedRows>,
}

impl RowQueue {
    /// Passes on the rows there are; waits while enough others do.
    fn pass_on(&mut self) -> Result<(), StoreError> {
        let mut next = self.shown.try_recv().unwrap_or_default();
        next.clear();
        let filled = std::mem::replace(&mut self.filling, next);
        self.waiting.send(filled).map_err(|_| StoreError::Sink(io::ErrorKind::BrokenPipe.into()))
    }
}

/// Copies a row of [`MEMORY_COLUMNS`] with its row of embeddings.
fn pack(
    packed: &mut PackedRows,
    memory: &SqlRow<'_>,
    embedding: Option<&SqlRow<'_>>,
) -> rusqlite::Result<()> {
    packed.begin(memory.get(0)?, embedding.is_some());
    for column in 1..=MEMORY_CELLS {
        packed.push(cell(memory, column)?);
    }
    if let Some(embedding) = embedding {
        for column in 1..=EMBEDDING_CELLS {
            packed.push(cell(embedding, column)?);
        }
    }
    Ok(())
}

/// Passes all rows to a visitor; returns the number of embeddings and their shapes.
fn show(
    mut reader: LiveReader<'_>,
    packs: &Receiver<PackedRows>,
    give_back: &Sender<PackedRows>,
    visitor: &mut dyn LiveVisitor,
) -> io::Result<(u64, ShapeSurvey)> {
    for rows in packs {
        rows.iter().try_for_each(|row| reader.take(&row, visitor))?;
        // The reader may be done.
        let _ = give_back.send(rows);
    }
    Ok(reader.finish())
}

/// Two ways to the embeddings of memories: by rowid first, then as
/// [`raw_embedding`](crate::brain_db::read::load::raw_embedding) reads them.
struct Embeddings<'a> {
    /// All behind a rowid, in order.
    after: Statement<'a>,
    /// The one of a memory.
    of: Statement<'a>,
}

impl<'a> Embeddings<'a> {
    fn prepare(connection: &'a Connection) -> rusqlite::Result<Self> {
        let columns = Columns::of(connection, "embeddings")?;
        let listed = columns.expressions(&["source_id", "content", "embedding", "model"]);
        let after = format!("SELECT rowid, {listed} {OF_MEMORIES} AND rowid > ?1 ORDER BY rowid");
        let of = format!(
            "SELECT rowid, {listed} FROM embeddings WHERE source_type = 'stm' AND source_id = ?1"
        );
        Ok(Self { after: connection.prepare(&after)?, of: connection.prepare(&of)? })
    }
}

/// Tells whether a memory is found by its id, and its one embedding by that, byte for byte.
fn has_keys(connection: &Connection) -> rusqlite::Result<bool> {
    let has_rowids = has_rowid(connection, "stm")? && has_rowid(connection, "embeddings")?;
    Ok(has_rowids
        && Columns::of(connection, "embeddings")?.has("embedding")
        && is_text_key(connection, "stm", &["id"])?
        && is_text_key(connection, "embeddings", &["source_id", "source_type"])?)
}
