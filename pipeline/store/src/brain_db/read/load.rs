//! Reading a whole `brain.db`: memories first, then embeddings, each in one sequential pass.

use std::collections::HashMap;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as SqlValue};
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow};

use crate::brain_db::read::access::{Columns, Stamp, embeddings_are_unique, has_rowid};
use crate::brain_db::read::open::{BrainDb, Reader, UNLOCKED_TRIES};
use crate::memory_store::{LiveVisitor, LoadRequest, LoadStoreError, MemoryStore, VectorSink};
use crate::reading::embedding::{EmbeddingReader, RawEmbedding};
use crate::reading::memory::{MemoryReader, OldestRow, ReadMemories};
use crate::reading::vector::{ModelShapes, ShapeSurvey};
use memfold_core::Snapshot;
use memfold_core::memory::Memory;
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
    ) -> Result<Snapshot, LoadStoreError> {
        for _ in 0..UNLOCKED_TRIES {
            let reader = self.connect(false)?;
            let loaded = self.read_all(&reader, request, sink);
            let (is_isolated, before) = (reader.access.is_isolated(), reader.stamp.clone());
            drop(reader);
            if is_isolated || Stamp::take(self.path()).is_ok_and(|after| after == before) {
                return loaded;
            }
            sink.restart().map_err(|_| LoadStoreError::Changed { path: self.path().into() })?;
        }
        self.read_all(&self.connect(true)?, request, sink)
    }

    fn visit_live(
        &self,
        request: &LoadRequest<'_>,
        visitor: &mut dyn LiveVisitor,
    ) -> Result<bool, LoadStoreError> {
        self.visit_in_step(request, visitor)
    }
}

impl BrainDb {
    fn read_all(
        &self,
        reader: &Reader,
        request: &LoadRequest<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, LoadStoreError> {
        let transaction = reader
            .connection
            .unchecked_transaction()
            .map_err(|error| self.failed(&reader.stamp, "stm", &error))?;
        let pass = Pass::over(self, reader, &transaction, request);
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
    pub fn memories(&self, request: &LoadRequest<'_>) -> Result<Vec<Memory>, LoadStoreError> {
        self.traceless(|reader, connection| self.read_memories(reader, connection, request))
    }

    /// Reads the memories alone, without their embeddings, in a transaction of the caller.
    pub(crate) fn read_memories(
        &self,
        reader: &Reader,
        connection: &Connection,
        request: &LoadRequest<'_>,
    ) -> Result<Vec<Memory>, LoadStoreError> {
        let pass = Pass::over(self, reader, connection, request);
        // The findings already cover all remarks.
        Ok(pass.memories(&mut Vec::new())?.memories)
    }

    pub(crate) fn failed(
        &self,
        stamp: &Stamp,
        table: &'static str,
        error: &rusqlite::Error,
    ) -> LoadStoreError {
        use crate::brain_db::read::open::OpenStoreError as Open;
        match self.explain(error, stamp) {
            Open::Sqlite { path, reason } | Open::Damaged { path, reason } => {
                LoadStoreError::Read { path, table, reason }
            }
            other => LoadStoreError::Open(other),
        }
    }
}

/// One read transaction.
pub(crate) struct Pass<'a> {
    pub(crate) store: &'a BrainDb,
    pub(crate) stamp: &'a Stamp,
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
        let Reader { stamp, memory_columns, .. } = reader;
        Self { store, stamp, memory_columns, connection, request }
    }

    fn memories(&self, notes: &mut Vec<String>) -> Result<ReadMemories, LoadStoreError> {
        let failed = |error| self.failed("stm", error);
        let columns = self.memory_columns;
        let total = self.count("stm")?;
        if total + self.archived_count()? >= u64::from(u32::MAX) {
            return Err(LoadStoreError::TooManyRows { limit: u32::MAX - 1 });
        }
        let has_rowid = has_rowid(self.connection, "stm").map_err(failed)?;
        let (position, order) = if has_rowid { ("rowid", "ORDER BY rowid") } else { ("0", "") };
        let listed = columns.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT {position}, {listed} FROM stm {order}");
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
    ) -> Result<(ModelShapes, Option<u64>), LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let columns = Columns::of(self.connection, "embeddings").map_err(failed)?;
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
    pub(crate) fn shapes_of(&self, mut survey: ShapeSurvey) -> Result<ModelShapes, LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let archived = self.survey_archived(&mut survey)?;
        let columns = Columns::of(self.connection, "embeddings").map_err(failed)?;
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
    ) -> Result<(u64, ShapeSurvey), LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let columns = Columns::of(self.connection, "embeddings").map_err(failed)?;
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
    ) -> Result<Vec<Vec<u8>>, LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let sql = format!(
            "SELECT embedding {OF_MEMORIES} AND ({model} IS ?1 OR ?1 IS NULL)
             AND typeof(embedding) = 'blob' AND length(embedding) = ?2 LIMIT {PROBE_BLOBS}"
        );
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let blobs =
            statement.query_map((named, length as i64), |row| row.get(0)).map_err(failed)?;
        blobs.collect::<Result<_, _>>().map_err(failed)
    }

    fn embeddings(
        &self,
        count: u64,
        embeddings: &mut EmbeddingReader<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<(), LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let columns = Columns::of(self.connection, "embeddings").map_err(failed)?;
        let last = self.last_of_repeated()?;
        let has_rowid = has_rowid(self.connection, "embeddings").map_err(failed)?;
        let (position, order) = if has_rowid { ("rowid", "ORDER BY rowid") } else { ("0", "") };
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
            embeddings.take(&raw, sink).map_err(LoadStoreError::Sink)
        })
    }

    /// Returns the last rowid of each memory that has several embeddings.
    fn last_of_repeated(&self) -> Result<HashMap<String, i64>, LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        if embeddings_are_unique(self.connection).map_err(failed)?
            || !has_rowid(self.connection, "embeddings").map_err(failed)?
        {
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
    pub(crate) fn recorded_store_id(&self) -> Result<Option<Box<str>>, LoadStoreError> {
        let failed = |error| self.failed("memfold_schema", error);
        let columns = Columns::of(self.connection, "memfold_schema").map_err(failed)?;
        if !columns.has("store_uuid") {
            return Ok(None);
        }
        let sql = "SELECT store_uuid FROM memfold_schema WHERE store_uuid IS NOT NULL LIMIT 1";
        let id = self.connection.query_row(sql, [], |row| row.get::<_, String>(0)).optional();
        id.map(|id| id.map(Into::into)).map_err(failed)
    }

    pub(crate) fn count(&self, table: &'static str) -> Result<u64, LoadStoreError> {
        let count: i64 = self
            .connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .map_err(|error| self.failed(table, &error))?;
        Ok(count.unsigned_abs())
    }

    /// Runs a query of about `total` rows as one stage of progress.
    pub(crate) fn each_row(
        &self,
        table: &'static str,
        stage: &'static str,
        sql: &str,
        total: u64,
        mut take: impl FnMut(&SqlRow<'_>) -> Result<(), LoadStoreError>,
    ) -> Result<(), LoadStoreError> {
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

    pub(crate) fn failed(
        &self,
        table: &'static str,
        error: impl std::borrow::Borrow<rusqlite::Error>,
    ) -> LoadStoreError {
        self.store.failed(self.stamp, table, error.borrow())
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
    pub(crate) fn tick(&mut self) -> Result<(), LoadStoreError> {
        self.pending += 1;
        if self.pending == BATCH_ROWS {
            self.progress.advance(std::mem::take(&mut self.pending));
            if self.progress.cancelled() {
                return Err(LoadStoreError::Cancelled);
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
    pub fn read_blobs(&self) -> Result<ReadBlobs, LoadStoreError> {
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
