//! Reading what earlier runs and people recorded in memfold's own tables; what an undo withdrew does not count.

use rusqlite::Row as SqlRow;

use super::columns::Columns;
use super::load::{Pass, cell};
use super::own::FlagKind;
use crate::LoadStoreError;
use crate::reading::{Recorded, RecordedDecision, RecordedFlag};
use memfold_model::memory::MemoryId;

impl Pass<'_> {
    /// Returns (absorbed, survivor) pairs of earlier runs, the latest record of each first.
    pub(super) fn lineage(&self) -> Result<Vec<(MemoryId, MemoryId)>, LoadStoreError> {
        let mut pairs = Vec::new();
        self.own_rows("memfold_lineage", &["absorbed_id", "survivor_id"], &[], |row| {
            if let (Some(absorbed), Some(survivor)) = (text(row, 0)?, text(row, 1)?) {
                pairs.push((MemoryId::new(absorbed), MemoryId::new(survivor)));
            }
            Ok(())
        })?;
        pairs.reverse();
        Ok(pairs)
    }

    /// Returns decisions and flags in the order in which they were recorded.
    pub(super) fn recorded(&self) -> Result<Recorded, LoadStoreError> {
        let mut recorded = Recorded::default();
        let optional = ["group_id", "content_hash", "action", "access_count", "at"];
        self.own_rows("memfold_decisions", &["kind", "memory_id"], &optional, |row| {
            if let (Some(kind), Some(memory_id)) = (text(row, 0)?, text(row, 1)?) {
                recorded.decisions.push(RecordedDecision {
                    kind,
                    memory_id,
                    group_id: text(row, 2)?,
                    content_hash: text(row, 3)?,
                    action: text(row, 4)?,
                    access_count: cell(row, 5)?.count().unwrap_or(0),
                    at: cell(row, 6)?.instant(self.request.time_zone),
                });
            }
            Ok(())
        })?;
        let optional = ["left_hash", "right_hash", "kind", "state"];
        self.own_rows("memfold_flags", &["left_id", "right_id"], &optional, |row| {
            // Of two that are only alike nobody has said that they contradict each other.
            if text(row, 4)?.as_deref() == Some(FlagKind::Near.name()) {
                return Ok(());
            }
            if let (Some(left), Some(right)) = (text(row, 0)?, text(row, 1)?) {
                let sides = [(left, text(row, 2)?), (right, text(row, 3)?)];
                recorded.flags.push(RecordedFlag { sides, state: text(row, 5)? });
            }
            Ok(())
        })?;
        Ok(recorded)
    }

    /// Reads the rows of a table of ours that count, oldest first: the needed columns, then the optional
    /// ones. A table that lacks a needed column holds nothing.
    fn own_rows(
        &self,
        table: &'static str,
        needed: &[&str],
        optional: &[&str],
        mut take: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), LoadStoreError> {
        let failed = |error| self.failed(table, error);
        let columns = Columns::of(self.connection, table).map_err(failed)?;
        if !columns.has_all(needed) {
            return Ok(());
        }
        let listed = columns.expressions(&[needed, optional].concat());
        let counts = if columns.has("active") { "WHERE active = 1" } else { "" };
        let sql = format!("SELECT {listed} FROM {table} {counts} ORDER BY rowid");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(row).map_err(failed)?;
        }
        Ok(())
    }
}

fn text(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<Box<str>>> {
    Ok(cell(row, column)?.text().ok().flatten().map(|text| text.into()))
}
