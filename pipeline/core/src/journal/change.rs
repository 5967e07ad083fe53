//! [`Change`]: one reversible step on a row, and its entry in the journal.

use serde_json::{Map, Value as Json};

use crate::value::{Value, ValueRef};

/// A table that changes are made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The owner's memories.
    Memories,
    /// What the owner learned from memories, which it names.
    Atoms,
    /// Who was merged into whom.
    Lineage,
    /// What people and earlier runs decided.
    Decisions,
    /// Contradictions for people to look at.
    Flags,
    /// How memories hang together.
    Edges,
    /// What summaries rest on.
    Summaries,
}

impl Table {
    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memories => "stm",
            Self::Atoms => "atoms",
            Self::Lineage => "memfold_lineage",
            Self::Decisions => "memfold_decisions",
            Self::Flags => "memfold_flags",
            Self::Edges => "memfold_edges",
            Self::Summaries => "memfold_summaries",
        }
    }

    /// Returns the table of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let own = [Self::Lineage, Self::Decisions, Self::Flags, Self::Edges, Self::Summaries];
        let all = [Self::Memories, Self::Atoms].into_iter().chain(own);
        all.into_iter().find(|table| table.name() == name)
    }

    /// Tells whether it is one of memfold's own tables, whose rows are switched on and off by `active`.
    #[must_use]
    pub const fn is_own(self) -> bool {
        !matches!(self, Self::Memories | Self::Atoms)
    }
}

/// A row: its table and its key (the id of a row of the owner's, or the number of a row of ours).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The table.
    pub table: Table,
    /// The key, as text.
    pub key: String,
}

impl RowKey {
    /// Names a memory.
    #[must_use]
    pub fn memory(id: impl Into<String>) -> Self {
        Self { table: Table::Memories, key: id.into() }
    }
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.table {
            Table::Memories => write!(f, "{}", self.key),
            other => write!(f, "{} {}", other.name(), self.key),
        }
    }
}

/// Columns of a row and their values, in the table's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowImage {
    /// Where the row stands in its table, for tables that tell.
    pub rowid: Option<i64>,
    /// The columns, as spelled in the store.
    pub cells: Vec<(String, Value)>,
}

impl RowImage {
    /// Returns a column's value; names are compared without case, as SQLite does.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.cells
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(column))
            .map(|(_, value)| value)
    }

    /// Borrows a column's value, NULL where there is no such column.
    #[must_use]
    pub fn value(&self, column: &str) -> ValueRef<'_> {
        self.get(column).map_or(ValueRef::Null, Value::borrow)
    }

    /// Tells whether there is such a column.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.get(column).is_some()
    }

    /// Replaces a column's value; does nothing where there is no such column.
    pub fn set(&mut self, column: &str, value: Value) {
        if let Some((_, cell)) =
            self.cells.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(column))
        {
            *cell = value;
        }
    }

    /// Returns the columns as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        cells_to_json(&self.cells)
    }

    /// Reads what [`Self::to_json`] wrote.
    #[must_use]
    pub fn from_json(rowid: Option<i64>, value: &Json) -> Option<Self> {
        Some(Self { rowid, cells: cells_from_json(value)? })
    }
}

/// Writes cells as a JSON object.
pub fn cells_to_json(cells: &[(String, Value)]) -> Json {
    let fields = cells.iter().map(|(name, value)| (name.clone(), value.to_json()));
    Json::Object(fields.collect::<Map<_, _>>())
}

/// Reads cells from a JSON object.
pub fn cells_from_json(value: &Json) -> Option<Vec<(String, Value)>> {
    let fields = value.as_object()?;
    fields.iter().map(|(name, value)| Some((name.clone(), Value::from_json(value)?))).collect()
}

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
        /// What it was merged into.
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
    pub before: Value,
    /// What it holds now.
    pub after: Value,
    /// For counters: by how much it moved. Undoing subtracts this from whatever it holds then.
    pub delta: Option<i64>,
}

/// A new row of one of our tables: columns without the key, run, unit, time and `active`, which the writer fills in.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The table.
    pub table: Table,
    /// The columns.
    pub cells: Vec<(&'static str, Value)>,
}

impl Record {
    /// Returns the text of a column.
    pub fn text(&self, column: &str) -> Option<&str> {
        let cell = self.cells.iter().find(|(name, _)| *name == column);
        cell.and_then(|(_, value)| value.as_text())
    }
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
    /// What a memory that left was merged into.
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
                let written = |(column, value): &(String, Value)| ColumnChange {
                    column: column.clone(),
                    before: Value::Null,
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
            Change::Record(record) => Self::recorded(record.table, record_key.unwrap_or_default()),
        }
    }

    /// Makes the entry of a record of ours that was added under a key.
    #[must_use]
    pub fn recorded(table: Table, key: i64) -> Self {
        let active = ColumnChange {
            column: "active".to_owned(),
            before: Value::Integer(0),
            after: Value::Integer(1),
            delta: None,
        };
        let row = RowKey { table, key: key.to_string() };
        Self { op: Op::Set, row, columns: vec![active], image: None, survivor: None }
    }

    /// Returns the JSON of the columns `before`: of the whole row where it was kept.
    #[must_use]
    pub fn before_json(&self) -> Option<Json> {
        match (&self.image, self.columns.is_empty()) {
            (Some(image), _) => Some(image.to_json()),
            (None, true) => None,
            (None, false) => Some(self.cells(|change| &change.before)),
        }
    }

    /// Returns the JSON of the changed columns `after`.
    #[must_use]
    pub fn after_json(&self) -> Option<Json> {
        (!self.columns.is_empty()).then(|| self.cells(|change| &change.after))
    }

    /// Returns the JSON of the counters' movements.
    #[must_use]
    pub fn deltas_json(&self) -> Option<Json> {
        let deltas: Map<String, Json> = self
            .columns
            .iter()
            .filter_map(|change| Some((change.column.clone(), change.delta?.into())))
            .collect();
        (!deltas.is_empty()).then_some(Json::Object(deltas))
    }

    fn cells(&self, value: impl Fn(&ColumnChange) -> &Value) -> Json {
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
        before: Option<&Json>,
        after: Option<&Json>,
        deltas: Option<&Json>,
        rowid: Option<i64>,
        survivor: Option<String>,
    ) -> Option<Self> {
        let before = RowImage { rowid, cells: before.map_or(Some(Vec::new()), cells_from_json)? };
        let after = after.map_or(Some(Vec::new()), cells_from_json)?;
        let delta =
            |column: &str| deltas.and_then(|deltas| deltas.get(column)).and_then(Json::as_i64);
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
mod change_tests {
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
            change("access_count", Value::Null, Value::Integer(3), Some(3)),
        ];
        let image = RowImage {
            rowid: Some(7),
            cells: vec![
                ("id".to_owned(), "a".into()),
                ("source".to_owned(), "agent".into()),
                ("access_count".to_owned(), Value::Null),
            ],
        };
        for image in [None, Some(image)] {
            let row = RowKey::memory("a");
            let change = Change::Set { row, columns: columns.clone(), image: image.clone() };
            let entry = JournalEntry::of(&change, None);
            let read = JournalEntry::read(
                entry.op,
                entry.row.clone(),
                entry.before_json().as_ref(),
                entry.after_json().as_ref(),
                entry.deltas_json().as_ref(),
                image.as_ref().and_then(|image| image.rowid),
                None,
            );
            assert_eq!(read, Some(entry));
        }
    }
}
