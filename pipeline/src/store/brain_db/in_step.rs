//! Live memories one by one: their table and their embeddings are read side by side, and nothing is held.

use rusqlite::{Connection, Row as SqlRow, Statement};

use super::BrainDb;
use super::columns::{self, Columns};
use super::load::{
    MEMORY_COLUMNS, OF_MEMORIES, Pass, Ticks, cell, derived_store_id, raw_embedding, raw_memory,
};
use crate::store::reading::{LiveReader, ModelShapes, ShapeSurvey};
use crate::store::{LiveVisitor, LoadRequest, LoadStoreError};

/// Embeddings that are looked over before the first is read; what all of them look like shows as they are read.
const SAMPLE_ROWS: u32 = 1024;

impl BrainDb {
    pub(super) fn visit_in_step(
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
            // The first ones are unlike the others, so what was shown was misread.
            shapes = decided;
        }
    }

    /// Shows all live memories; returns what all embeddings look like.
    fn visit_all(
        &self,
        shapes: &ModelShapes,
        visitor: &mut dyn LiveVisitor,
    ) -> Result<ShapeSurvey, LoadStoreError> {
        let failed = |error| self.failed("embeddings", error);
        let mut reader = LiveReader::new(self.request, shapes);
        let mut ticks = Ticks::begin(self.request.progress, "read memories", self.count("stm")?);
        self.each_pair(|memory, embedding| {
            let at = memory.get(0).map_err(failed)?;
            let raw = embedding.map(raw_embedding).transpose().map_err(failed)?;
            reader
                .take(at, &raw_memory(memory).map_err(failed)?, raw.as_ref(), visitor)
                .map_err(LoadStoreError::Sink)?;
            ticks.tick()
        })?;
        ticks.end();
        let (count, survey) = reader.finish();
        let sql = format!("SELECT count(*) {OF_MEMORIES}");
        let all: i64 = self.connection.query_row(&sql, [], |row| row.get(0)).map_err(failed)?;
        // Embeddings without a memory have their say, too.
        if count == all.unsigned_abs() { Ok(survey) } else { Ok(self.survey_table(None)?.1) }
    }

    /// Passes on each memory with its embedding, if it has one, in the order of the memory table.
    ///
    /// Embeddings mostly stand in the order of their memories, so the next one is tried first.
    fn each_pair(
        &self,
        mut take: impl FnMut(&SqlRow<'_>, Option<&SqlRow<'_>>) -> Result<(), LoadStoreError>,
    ) -> Result<(), LoadStoreError> {
        let failed_memory = |error| self.failed("stm", error);
        let failed = |error| self.failed("embeddings", error);
        let listed = self.memory_columns.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT rowid, {listed} FROM stm ORDER BY rowid");
        let mut all = self.connection.prepare(&sql).map_err(failed_memory)?;
        let mut memories = all.query([]).map_err(failed_memory)?;
        let mut embeddings = Embeddings::prepare(self.connection).map_err(failed)?;

        let mut memory = memories.next().map_err(failed_memory)?;
        let mut last = i64::MIN;
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
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Two ways to the embeddings of memories: rowid first, then what [`raw_embedding`] reads.
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
    let has_rowids =
        columns::has_rowid(connection, "stm")? && columns::has_rowid(connection, "embeddings")?;
    Ok(has_rowids
        && Columns::of(connection, "embeddings")?.has("embedding")
        && columns::is_text_key(connection, "stm", &["id"])?
        && columns::is_text_key(connection, "embeddings", &["source_id", "source_type"])?)
}
