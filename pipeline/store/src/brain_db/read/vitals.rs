//! Rows of live memories without their texts, for retention.

use std::collections::HashSet;

use memfold_core::memory::{Memory, Status};
use memfold_core::time::Instant;

use crate::brain_db::read::access::has_rowid;
use crate::brain_db::read::load::{MEMORY_COLUMNS, Pass, cell, raw_memory};
use crate::brain_db::read::open::BrainDb;
use crate::memory_store::{LoadRequest, LoadStoreError};
use crate::reading::memory::without_text;
use memfold_core::row::MEMORY_CELLS;

/// When a memory was last read, if the owner's table has the column.
const LAST_ACCESSED: &str = "last_accessed";

/// A live memory without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Vitals {
    /// The memory. Its text is empty, its embedding `Missing` and its base digest all zeros.
    pub memory: Memory,
    /// When it was last read, if known.
    pub last_accessed: Option<Instant>,
}

impl BrainDb {
    /// Reads the live memories without their texts and embeddings, in the order of their table. A
    /// memory is live if a load at the request's time finds it live.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn vitals(&self, request: &LoadRequest<'_>) -> Result<Vec<Vitals>, LoadStoreError> {
        self.traceless(|reader, connection| Pass::over(self, reader, connection, request).vitals())
    }
}

impl Pass<'_> {
    fn vitals(&self) -> Result<Vec<Vitals>, LoadStoreError> {
        let failed = |error| self.failed("stm", error);
        let has_rowid = has_rowid(self.connection, "stm").map_err(failed)?;
        let (position, order) = if has_rowid { ("rowid", "ORDER BY rowid") } else { ("0", "") };
        let listed = self.memory_columns.expressions(&MEMORY_COLUMNS);
        let accessed = self.memory_columns.expression(LAST_ACCESSED);
        let sql = format!("SELECT {position}, {listed}, {accessed} FROM stm {order}");
        let mut found = Vec::new();
        // Only a table without a primary key repeats ids; the first row counts, as in a load.
        let mut seen = HashSet::new();
        let total = self.count("stm")?;
        self.each_row("stm", "read memories", &sql, total, |row| {
            let rowid = row.get::<_, Option<i64>>(0).map_err(failed)?.unwrap_or(0);
            let raw = raw_memory(row).map_err(failed)?;
            let Some(memory) = without_text(&raw, rowid, *self.request) else { return Ok(()) };
            if seen.insert(memory.id.clone()) && memory.status == Status::Live {
                let accessed = cell(row, MEMORY_CELLS + 1).map_err(failed)?;
                let last_accessed = accessed.instant(self.request.time_zone);
                found.push(Vitals { memory, last_accessed });
            }
            Ok(())
        })?;
        Ok(found)
    }
}
