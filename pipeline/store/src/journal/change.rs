//! [`Change`]: one reversible step, and its entry in the journal.

use serde_json::{Map, Value};

use super::row::{cells_from_json, cells_to_json};
use super::{RowImage, RowKey, StoredValue, Table};

/// One reversible step on a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Columns get other values.
    Set {
        /// The row.
        row: RowKey,
        /// What changes.
        columns: Vec<ColumnChange>,
        /// The whole row as it was, kept where the row might be deleted by others later.
        image: Option<RowImage>,
    },
    /// A memory enters the owner's tables: a new row, or one that comes back from the archive table.
    PutIn {
        /// The memory's id.
        id: String,
        /// A new row; `None`: the one in the archive table.
        image: Option<RowImage>,
    },
    /// A memory leaves the owner's tables for the archive table, with embedding and search entry.
    TakeOut {
        /// The memory's id.
        id: String,
        /// What it was folded into.
        survivor: Option<String>,
        /// What it said when it was put in, where that is known: by these words it may be searchable.
        said: Option<String>,
    },
    /// A memory's text becomes searchable.
    Index {
        /// The memory's id.
        id: String,
        /// The words, where they are not those of its row.
        words: Option<RowImage>,
    },
    /// A memory's text is no longer searchable.
    Unindex {
        /// The memory's id.
        id: String,
        /// The words that were, where they are not those of its row.
        words: Option<RowImage>,
    },
    /// A row of ours is added, active.
    Record(Record),
}

/// A column's old and new value.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnChange {
    /// The column, as spelled in the store.
    pub column: String,
    /// What it held.
    pub before: StoredValue,
    /// What it holds now.
    pub after: StoredValue,
    /// For counters: by how much it moved. Undoing subtracts this from whatever it holds then.
    pub delta: Option<i64>,
}

/// A new row of one of our tables: columns without the key, run, unit, time and `active`, which the writer fills in.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The table.
    pub table: Table,
    /// The columns.
    pub cells: Vec<(&'static str, StoredValue)>,
}

/// What a journal entry did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Columns got other values.
    Set,
    /// A memory entered the owner's tables.
    PutIn,
    /// A memory left them.
    TakeOut,
    /// A search entry was made.
    Index,
    /// A search entry was removed.
    Unindex,
}

impl Op {
    const ALL: [Self; 5] = [Self::Set, Self::PutIn, Self::TakeOut, Self::Index, Self::Unindex];

    /// Returns the name in the journal.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::PutIn => "put_in",
            Self::TakeOut => "take_out",
            Self::Index => "index",
            Self::Unindex => "unindex",
        }
    }

    /// Returns the operation of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// A change as the journal keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// What was done.
    pub op: Op,
    /// To which row.
    pub row: RowKey,
    /// Changed columns, with their values before and after.
    pub columns: Vec<ColumnChange>,
    /// The whole row as it was before, where it was kept; of a search entry its words, where they were not the row's.
    pub image: Option<RowImage>,
    /// What a memory that left was folded into.
    pub survivor: Option<String>,
}

impl JournalEntry {
    /// Makes the entry of a change; a record's key is known only once it is written.
    #[must_use]
    pub fn of(change: &Change, record_key: Option<i64>) -> Self {
        let plain = |op, row| Self { op, row, columns: Vec::new(), image: None, survivor: None };
        match change {
            Change::Set { row, columns, image } => Self {
                columns: columns.clone(),
                image: image.clone(),
                ..plain(Op::Set, row.clone())
            },
            Change::PutIn { id, image } => {
                let written = |(column, value): &(String, StoredValue)| ColumnChange {
                    column: column.clone(),
                    before: StoredValue::Null,
                    after: value.clone(),
                    delta: None,
                };
                let columns = image.iter().flat_map(|image| &image.cells).map(written).collect();
                Self { columns, ..plain(Op::PutIn, RowKey::memory(id)) }
            }
            Change::TakeOut { id, survivor, .. } => {
                Self { survivor: survivor.clone(), ..plain(Op::TakeOut, RowKey::memory(id)) }
            }
            Change::Index { id, words } => {
                Self { image: words.clone(), ..plain(Op::Index, RowKey::memory(id)) }
            }
            Change::Unindex { id, words } => {
                Self { image: words.clone(), ..plain(Op::Unindex, RowKey::memory(id)) }
            }
            Change::Record(record) => {
                let key = record_key.unwrap_or_default().to_string();
                let active = ColumnChange {
                    column: "active".to_owned(),
                    before: StoredValue::Integer(0),
                    after: StoredValue::Integer(1),
                    delta: None,
                };
                let row = RowKey { table: record.table, key };
                Self { columns: vec![active], ..plain(Op::Set, row) }
            }
        }
    }

    /// Returns the JSON of the columns `before`: of the whole row where it was kept.
    #[must_use]
    pub fn before_json(&self) -> Option<Value> {
        match (&self.image, self.columns.is_empty()) {
            (Some(image), _) => Some(image.to_json()),
            (None, true) => None,
            (None, false) => Some(self.cells(|change| &change.before)),
        }
    }

    /// Returns the JSON of the changed columns `after`.
    #[must_use]
    pub fn after_json(&self) -> Option<Value> {
        (!self.columns.is_empty()).then(|| self.cells(|change| &change.after))
    }

    /// Returns the JSON of the counters' movements.
    #[must_use]
    pub fn deltas_json(&self) -> Option<Value> {
        let deltas: Map<String, Value> = self
            .columns
            .iter()
            .filter_map(|change| Some((change.column.clone(), change.delta?.into())))
            .collect();
        (!deltas.is_empty()).then_some(Value::Object(deltas))
    }

    fn cells(&self, value: impl Fn(&ColumnChange) -> &StoredValue) -> Value {
        let cells: Vec<_> = self
            .columns
            .iter()
            .map(|change| (change.column.clone(), value(change).clone()))
            .collect();
        cells_to_json(&cells)
    }

    /// Reads an entry back; `None` where it is none of ours. `rowid` is that of a kept row.
    #[must_use]
    pub fn read(
        op: Op,
        row: RowKey,
        (before, after, deltas): (Option<&Value>, Option<&Value>, Option<&Value>),
        (rowid, survivor): (Option<i64>, Option<String>),
    ) -> Option<Self> {
        let before = RowImage { rowid, cells: before.map_or(Some(Vec::new()), cells_from_json)? };
        let after = after.map_or(Some(Vec::new()), cells_from_json)?;
        let delta =
            |column: &str| deltas.and_then(|deltas| deltas.get(column)).and_then(Value::as_i64);
        let has_image = before.cells.len() > after.len();
        let columns = after
            .into_iter()
            .map(|(column, after)| {
                let old = before.get(&column)?.clone();
                let delta = delta(&column);
                Some(ColumnChange { column, before: old, after, delta })
            })
            .collect::<Option<Vec<_>>>()?;
        let image = has_image.then_some(before);
        Some(Self { op, row, columns, image, survivor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_journal() {
        let change = |column: &str, before, after, delta| ColumnChange {
            column: column.to_owned(),
            before,
            after,
            delta,
        };
        let columns = vec![
            change("source", "agent".into(), "archived:{}".into(), None),
            change("access_count", StoredValue::Null, StoredValue::Integer(3), Some(3)),
        ];
        let image = RowImage {
            rowid: Some(7),
            cells: vec![
                ("id".to_owned(), "a".into()),
                ("source".to_owned(), "agent".into()),
                ("access_count".to_owned(), StoredValue::Null),
            ],
        };
        for image in [None, Some(image)] {
            let row = RowKey::memory("a");
            let change = Change::Set { row, columns: columns.clone(), image: image.clone() };
            let entry = JournalEntry::of(&change, None);
            let read = JournalEntry::read(
                entry.op,
                entry.row.clone(),
                (
                    entry.before_json().as_ref(),
                    entry.after_json().as_ref(),
                    entry.deltas_json().as_ref(),
                ),
                (image.as_ref().and_then(|image| image.rowid), None),
            );
            assert_eq!(read, Some(entry));
        }
    }
}
