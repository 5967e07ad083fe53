//! Live memories one by one: their table and their embeddings are read side by side, and nothing is held.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::{io, thread};

use rusqlite::{Connection, Row as SqlRow, Statement};

use crate::brain_db::read::access::{Columns, has_rowid, is_text_key};
use crate::brain_db::read::load::{
    MEMORY_COLUMNS, OF_MEMORIES, Pass, Ticks, cell, derived_store_id,
};
use crate::brain_db::read::open::BrainDb;
use crate::memory_store::{LiveVisitor, LoadRequest, LoadStoreError};
use crate::reading::embedding::{EMBEDDING_CELLS, LiveReader};
use crate::reading::vector::{ModelShapes, PackedRows, ShapeSurvey};
use memfold_core::row::MEMORY_CELLS;

/// Embeddings that are surveyed before the first is read; the shape of all of them is known once
/// they are read.
const SAMPLE_ROWS: u32 = 1024;

/// Packs of rows that wait to be visited.
const PACKS_WAITING: usize = 4;

impl BrainDb {
    pub(crate) fn visit_in_step(
        &self,
        request: &LoadRequest<'_>,
        visitor: &mut dyn LiveVisitor,
    ) -> Result<bool, LoadStoreError> {
        self.traceless(|reader, connection| {
            Pass::over(self, reader, connection, request).in_step(visitor)
        })
    }
}

impl Pass<'_> {
    fn in_step(&self, visitor: &mut dyn LiveVisitor) -> Result<bool, LoadStoreError> {
        let failed = |error| self.failed("stm", error);
        if !has_keys(self.connection).map_err(failed)? {
            return Ok(false);
        }
        let store_id = match self.recorded_store_id()? {
            Some(recorded) => recorded,
            None => derived_store_id(self.connection).map_err(failed)?,
        };
        let (_, sample) = self.survey_table(Some(SAMPLE_ROWS))?;
        let mut shapes = self.shapes_of(sample)?;
        loop {
            visitor.begin(&store_id).map_err(LoadStoreError::Sink)?;
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
    ) -> Result<ShapeSurvey, LoadStoreError> {
        let (waiting, packs) = sync_channel(PACKS_WAITING);
        let (give_back, shown) = channel();
        let reader = LiveReader::new(self.request, shapes);
        let (is_whole, (count, survey)) = thread::scope(|scope| {
            let showing = thread::Builder::new()
                .name("show rows".to_owned())
                .spawn_scoped(scope, move || show(reader, &packs, &give_back, visitor))
                .map_err(LoadStoreError::Sink)?;
            let read =
                self.read_all_pairs(RowQueue { filling: PackedRows::default(), waiting, shown });
            let seen = showing.join().unwrap_or_else(|panic| resume_unwind(panic));
            // If the visitor refuses, nobody receives further rows.
            let seen = seen.map_err(LoadStoreError::Sink)?;
            Ok::<_, LoadStoreError>((read?, seen))
        })?;
        // Embeddings without a memory have their say, too.
        if is_whole || count == self.embeddings_of_memories()? {
            return Ok(survey);
        }
        Ok(self.survey_table(None)?.1)
    }

    /// Puts all rows into the queue; returns whether these are all embeddings for sure.
    fn read_all_pairs(&self, mut queue: RowQueue) -> Result<bool, LoadStoreError> {
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

    fn embeddings_of_memories(&self) -> Result<u64, LoadStoreError> {
        let sql = "SELECT count(*) FROM embeddings WHERE source_type = 'stm'";
        let count: rusqlite::Result<i64> = self.connection.query_row(sql, [], |row| row.get(0));
        count.map(i64::unsigned_abs).map_err(|error| self.failed("embeddings", error))
    }

    /// Passes on each memory with its embedding, if it has one, in the order of the memory table.
    ///
    /// Embeddings mostly stand in the order of their memories, so the next one is tried first. Returns whether all of them
    /// do, and none is without a memory.
    fn each_pair(
        &self,
        mut take: impl FnMut(&SqlRow<'_>, Option<&SqlRow<'_>>) -> Result<(), LoadStoreError>,
    ) -> Result<bool, LoadStoreError> {
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
    fn pass_on(&mut self) -> Result<(), LoadStoreError> {
        let mut next = self.shown.try_recv().unwrap_or_default();
        next.clear();
        let filled = std::mem::replace(&mut self.filling, next);
        self.waiting
            .send(filled)
            .map_err(|_| LoadStoreError::Sink(io::ErrorKind::BrokenPipe.into()))
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
