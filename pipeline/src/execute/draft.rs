//! [`Draft`]: the rows of a unit while its actions are worked out.

use std::collections::BTreeMap;

use memfold_model::memory::MemoryId;
use memfold_store::brain_db::UnitRow;
use memfold_store::journal::{Change, ColumnChange, RowImage, RowKey, StoredValue};
pub(super) use memfold_store::reading::Cell;

/// Columns that count, whose changes are differences.
const COUNTER: &str = "access_count";
const UPDATED_AT: &str = "updated_at";

/// Rows as they are and as they shall be.
pub(crate) struct Draft<'a> {
    rows: BTreeMap<&'a MemoryId, Row<'a>>,
    /// Touched rows in the order in which they were first touched.
    order: Vec<&'a MemoryId>,
    /// What follows the changes of columns.
    rest: Vec<Change>,
}

struct Row<'a> {
    was: &'a UnitRow,
    is: RowImage,
    keeps_image: bool,
    is_touched: bool,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(rows: &'a [UnitRow]) -> Self {
        let row = |was: &'a UnitRow| {
            (&was.id, Row { was, is: was.image.clone(), keeps_image: false, is_touched: false })
        };
        Self { rows: rows.iter().map(row).collect(), order: Vec::new(), rest: Vec::new() }
    }

    /// Returns a row as it was read.
    pub(crate) fn was(&self, id: &MemoryId) -> Option<&'a UnitRow> {
        self.rows.get(id).map(|row| row.was)
    }

    /// Sets a column; does nothing where the store has none of this name.
    pub(crate) fn set(&mut self, id: &MemoryId, column: &str, value: StoredValue) {
        let Some(row) = self.rows.get_mut(id).filter(|row| row.is.has(column)) else { return };
        if !std::mem::replace(&mut row.is_touched, true) {
            self.order.push(&row.was.id);
        }
        row.is.set(column, value);
    }

    /// Keeps the whole row in the journal, in case somebody deletes it later.
    pub(crate) fn keep_image(&mut self, id: &MemoryId) {
        if let Some(row) = self.rows.get_mut(id) {
            row.keeps_image = true;
        }
    }

    /// Adds a change that follows those of columns.
    pub(crate) fn then(&mut self, change: Change) {
        self.rest.push(change);
    }

    /// Returns all changes in order; rows that changed get `updated_at`.
    pub(crate) fn into_changes(mut self, at: &str) -> Vec<Change> {
        let order = std::mem::take(&mut self.order);
        let mut changes = Vec::new();
        for id in order {
            let Some(row) = self.rows.get_mut(id) else { continue };
            if row.is == row.was.image {
                continue;
            }
            row.is.set(UPDATED_AT, at.into());
            let columns = differences(&row.was.image, &row.is);
            let image = row.keeps_image.then(|| row.was.image.clone());
            changes.push(Change::Set { row: RowKey::memory(id.as_str()), columns, image });
        }
        changes.append(&mut self.rest);
        changes
    }
}

fn differences(was: &RowImage, is: &RowImage) -> Vec<ColumnChange> {
    was.cells
        .iter()
        .zip(&is.cells)
        .filter(|((_, before), (_, after))| before != after)
        .map(|((column, before), (_, after))| ColumnChange {
            column: column.clone(),
            before: before.clone(),
            after: after.clone(),
            delta: column.eq_ignore_ascii_case(COUNTER).then(|| delta(before, after)),
        })
        .collect()
}

fn delta(before: &StoredValue, after: &StoredValue) -> i64 {
    let count = |value: &StoredValue| Cell::from(value).count().unwrap_or(0);
    count(after).saturating_sub(count(before))
}
