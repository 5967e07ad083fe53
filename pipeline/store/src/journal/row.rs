//! Rows: which one, and all that it holds.

use serde_json::{Map, Value};

use super::StoredValue;

/// A table that changes are made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The owner's memories.
    Memories,
    /// What the owner learned from memories, which it names.
    Atoms,
    /// Who was folded into whom.
    Lineage,
    /// What people and earlier runs decided.
    Decisions,
    /// Contradictions for people to look at.
    Flags,
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
        }
    }

    /// Returns the table of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Memories, Self::Atoms, Self::Lineage, Self::Decisions, Self::Flags]
            .into_iter()
            .find(|table| table.name() == name)
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
    pub cells: Vec<(String, StoredValue)>,
}

impl RowImage {
    /// Returns a column's value; names are compared without case, as SQLite does.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&StoredValue> {
        self.cells
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(column))
            .map(|(_, value)| value)
    }

    /// Tells whether there is such a column.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.get(column).is_some()
    }

    /// Replaces a column's value; does nothing where there is no such column.
    pub fn set(&mut self, column: &str, value: StoredValue) {
        if let Some((_, cell)) =
            self.cells.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(column))
        {
            *cell = value;
        }
    }

    /// Returns the columns as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        cells_to_json(&self.cells)
    }

    /// Reads what [`Self::to_json`] wrote.
    #[must_use]
    pub fn from_json(rowid: Option<i64>, value: &Value) -> Option<Self> {
        Some(Self { rowid, cells: cells_from_json(value)? })
    }
}

/// Writes cells as a JSON object.
pub(super) fn cells_to_json(cells: &[(String, StoredValue)]) -> Value {
    let fields = cells.iter().map(|(name, value)| (name.clone(), value.to_json()));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Reads cells from a JSON object.
pub(super) fn cells_from_json(value: &Value) -> Option<Vec<(String, StoredValue)>> {
    let fields = value.as_object()?;
    fields
        .iter()
        .map(|(name, value)| Some((name.clone(), StoredValue::from_json(value)?)))
        .collect()
}
