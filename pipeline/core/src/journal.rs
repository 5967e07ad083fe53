//! The journal: the rows a run changed, exactly as they were before, and how to take changes back.
//!
//! A [`Change`] is one reversible step on a row of the store. Executing writes changes down beside the rows, in
//! the same transaction; [`revert`] turns them into the changes that undo them, given the rows as they
//! are now. An undo is made of changes like any other run, so it can be undone itself.
//!
//! Everything here is plain data: nothing reads a store or a clock.

use serde_json::{Map, Value as Json};

use crate::memory::named;
use crate::value::{Value, ValueRef};

named! {
    /// A table that changes are made to.
    pub enum Table {
        /// The owner's memories.
        Memories = "stm",
        /// What the owner learned from memories, which it names.
        Atoms = "atoms",
        /// Who was merged into whom.
        Lineage = "memfold_lineage",
        /// What people and earlier runs decided.
        Decisions = "memfold_decisions",
        /// Contradictions for people to look at.
        Flags = "memfold_flags",
        /// How memories hang together.
        Edges = "memfold_edges",
        /// What summaries rest on.
        Summaries = "memfold_summaries",
    }
}

impl Table {
    /// Tells whether it is one of memfold's own tables, with rows switched on and off by `active`.
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

    /// Borrows a column's value, NULL where there is no column of this name.
    #[must_use]
    pub fn value(&self, column: &str) -> ValueRef<'_> {
        self.get(column).map_or(ValueRef::Null, Value::borrow)
    }

    /// Tells whether there is a column of this name.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.get(column).is_some()
    }

    /// Replaces a column's value; does nothing where there is no column of this name.
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

    /// Reads the form of [`Self::to_json`].
    #[must_use]
    pub fn from_json(rowid: Option<i64>, value: &Json) -> Option<Self> {
        Some(Self { rowid, cells: cells_from_json(value)? })
    }
}

/// Writes cells as a JSON object.
pub(crate) fn cells_to_json(cells: &[(String, Value)]) -> Json {
    let fields = cells.iter().map(|(name, value)| (name.clone(), value.to_json()));
    Json::Object(fields.collect::<Map<_, _>>())
}

/// Reads cells from a JSON object.
pub(crate) fn cells_from_json(value: &Json) -> Option<Vec<(String, Value)>> {
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
        /// The changed columns.
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
        /// Its survivor.
        survivor: Option<String>,
        /// Its text when it was put in, where known: by these words it may be searchable.
        said: Option<String>,
    },
    /// A memory's text becomes searchable.
    Index {
        /// The memory's id.
        id: String,
        /// The words, where they differ from its row.
        words: Option<RowImage>,
    },
    /// A memory's text is no longer searchable.
    Unindex {
        /// The memory's id.
        id: String,
        /// The former words, where they differ from its row.
        words: Option<RowImage>,
    },
    /// A row of ours is added, active.
    Record(Record),
}

impl Change {
    /// Gives one column of a row another value.
    #[must_use]
    pub fn of_column(row: RowKey, column: &str, before: Value, after: Value) -> Self {
        Self::Set { row, columns: vec![ColumnChange::of(column, before, after)], image: None }
    }
}

/// A column's old and new value.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnChange {
    /// The column, as spelled in the store.
    pub column: String,
    /// Its former value.
    pub before: Value,
    /// Its new value.
    pub after: Value,
    /// For counters: by how much it moved. Undoing subtracts this from whatever it holds then.
    pub delta: Option<i64>,
}

impl ColumnChange {
    /// A change of a column that does not count.
    #[must_use]
    pub fn of(column: &str, before: Value, after: Value) -> Self {
        Self { column: column.to_owned(), before, after, delta: None }
    }
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

named! {
    /// The effect of a journal entry.
    pub enum Op {
        /// Columns got other values.
        Set = "set",
        /// A memory entered the owner's tables.
        PutIn = "put_in",
        /// A memory left them.
        TakeOut = "take_out",
        /// A search entry was made.
        Index = "index",
        /// A search entry was removed.
        Unindex = "unindex",
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
    /// The survivor of a memory that left.
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
                let written = |(column, value): &(String, Value)| {
                    ColumnChange::of(column, Value::Null, value.clone())
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
        let active = ColumnChange::of("active", Value::Integer(0), Value::Integer(1));
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

/// The rows as they are now.
pub trait CurrentRows {
    /// Why a row cannot be read.
    type Error;

    /// Returns a row; `None` where it is gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn row(&self, key: &RowKey) -> Result<Option<RowImage>, Self::Error>;

    /// Tells whether a memory lies in the archive table.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn is_archived(&self, id: &str) -> Result<bool, Self::Error>;

    /// Returns the columns of a memory in the archive table, or of an image of one, that hold a value and are in the
    /// owner's tables no more.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn lost_columns(&self, id: &str, image: Option<&RowImage>) -> Result<Vec<String>, Self::Error>;

    /// Returns why rows must not be moved out of the owner's tables, if anything forbids it.
    fn move_refusal(&self) -> Option<&str>;
}

/// The ways to treat conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevertOptions {
    /// Restores columns that somebody changed since, and takes rows out that somebody changed.
    pub force: bool,
    /// Brings back rows that somebody deleted since, as they were.
    pub recreate: bool,
}

/// Why a unit cannot be undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Somebody changed a written value.
    #[error("{column} of {row} was changed since")]
    Changed {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
    },
    /// Somebody deleted a row that was changed.
    #[error("{row} was deleted since")]
    Gone {
        /// The row.
        row: RowKey,
        /// Whether the journal holds the whole row.
        can_recreate: bool,
    },
    /// Somebody took the place of a row that was moved away.
    #[error("another memory has taken the id {row} since")]
    Taken {
        /// The row.
        row: RowKey,
    },
    /// A row that was moved away is no longer in the archive table.
    #[error("{row} is no longer in memfold_archive")]
    Lost {
        /// The row.
        row: RowKey,
    },
    /// Somebody dropped or renamed a column, and its value would have no place.
    #[error("{row} has a value for {column}, a column that was dropped or renamed since")]
    NoColumn {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
    },
    /// A row that was put in must not be taken out.
    #[error("{row} must not be taken out: {reason}")]
    Held {
        /// The row.
        row: RowKey,
        /// Why.
        reason: String,
    },
}

impl Conflict {
    /// Returns the flag that gets past it, if any.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Changed { .. } => Some("--force"),
            Self::Gone { can_recreate: true, .. } => Some("--recreate"),
            Self::Gone { can_recreate: false, .. }
            | Self::Taken { .. }
            | Self::Lost { .. }
            | Self::NoColumn { .. }
            | Self::Held { .. } => None,
        }
    }
}

/// Columns that readers and writers touch all day, and references that the owner turned elsewhere: restored where they
/// still hold the written value, else left.
const PASSING: [&str; 3] = ["updated_at", "last_accessed", REFERENCE];
/// The column by which the owner's atoms name a memory.
pub const REFERENCE: &str = "source_memory_id";
/// The columns that count accesses: reading a row is no reason to keep it.
const COUNTER: &str = "access_count";

fn is_passing(column: &str) -> bool {
    PASSING.iter().any(|passing| passing.eq_ignore_ascii_case(column))
}

/// Returns the changes that take back the entries of a unit, last first; or all its conflicts.
///
/// # Errors
/// When a row cannot be read.
pub fn revert<R: CurrentRows>(
    entries: &[JournalEntry],
    rows: &R,
    options: RevertOptions,
) -> Result<Result<Vec<Change>, Vec<Conflict>>, R::Error> {
    let mut changes = Vec::new();
    let mut conflicts = Vec::new();
    for entry in entries.iter().rev() {
        match revert_one(entry, rows, options, &changes)? {
            Ok(reverted) => changes.extend(reverted),
            Err(found) => conflicts.extend(found),
        }
    }
    Ok(if conflicts.is_empty() { Ok(changes) } else { Err(conflicts) })
}

type Reverted = Result<Vec<Change>, Vec<Conflict>>;

fn revert_one<R: CurrentRows>(
    entry: &JournalEntry,
    rows: &R,
    options: RevertOptions,
    planned: &[Change],
) -> Result<Reverted, R::Error> {
    let row = &entry.row;
    let id = || row.key.clone();
    Ok(match entry.op {
        Op::Index => Ok(vec![Change::Unindex { id: id(), words: entry.image.clone() }]),
        Op::Unindex => Ok(vec![Change::Index { id: id(), words: entry.image.clone() }]),
        Op::PutIn => match rows.row(row)? {
            Some(now) => take_out(entry, &now, rows.move_refusal(), options),
            // It is gone already, as was wanted.
            None => Ok(Vec::new()),
        },
        Op::TakeOut => {
            if rows.row(row)?.is_some() {
                Err(vec![Conflict::Taken { row: row.clone() }])
            } else if rows.is_archived(&row.key)? {
                placed(
                    row,
                    rows.lost_columns(&row.key, None)?,
                    Change::PutIn { id: id(), image: None },
                )
            } else {
                Err(vec![Conflict::Lost { row: row.clone() }])
            }
        }
        Op::Set => match rows.row(row)? {
            Some(now) => set_back(entry, &now, options),
            // It comes back in the same undo, exactly as it went.
            None if comes_back(row, planned) => Ok(vec![restored_as_left(entry)]),
            // Our note about it was pruned, or the row that named a memory is gone: there is nothing left to withdraw.
            None if row.table != Table::Memories => Ok(Vec::new()),
            None => {
                let lost = match &entry.image {
                    Some(image) => rows.lost_columns(&row.key, Some(image))?,
                    None => Vec::new(),
                };
                recreate(entry, lost, options)
            }
        },
    })
}

/// A row that was put in goes again, unless somebody changed it.
fn take_out(
    entry: &JournalEntry,
    now: &RowImage,
    refusal: Option<&str>,
    options: RevertOptions,
) -> Reverted {
    let row = &entry.row;
    if let Some(reason) = refusal {
        return Err(vec![Conflict::Held { row: row.clone(), reason: reason.to_owned() }]);
    }
    let is_changed = |change: &&ColumnChange| {
        !is_passing(&change.column)
            && !change.column.eq_ignore_ascii_case(COUNTER)
            && now.get(&change.column).is_some_and(|held| *held != change.after)
    };
    let changed = |change: &ColumnChange| Conflict::Changed {
        row: row.clone(),
        column: change.column.clone(),
    };
    let conflicts: Vec<Conflict> = entry.columns.iter().filter(is_changed).map(changed).collect();
    if conflicts.is_empty() || options.force {
        let content = entry.columns.iter().find(|change| change.column == "content");
        let said = content.and_then(|change| change.after.as_text()).map(str::to_owned);
        return Ok(vec![Change::TakeOut { id: row.key.clone(), survivor: None, said }]);
    }
    Err(conflicts)
}

/// A row comes back, unless a value of it would be lost.
fn placed(row: &RowKey, lost: Vec<String>, change: Change) -> Reverted {
    if lost.is_empty() {
        return Ok(vec![change]);
    }
    let no_column = |column| Conflict::NoColumn { row: row.clone(), column };
    Err(lost.into_iter().map(no_column).collect())
}

fn comes_back(row: &RowKey, planned: &[Change]) -> bool {
    planned.iter().any(|change| matches!(change, Change::PutIn { id, .. } if *id == row.key))
}

/// A row left the table after it was changed: it holds the written values when it comes back.
fn restored_as_left(entry: &JournalEntry) -> Change {
    let columns = entry.columns.iter().map(|change| ColumnChange {
        column: change.column.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
        delta: change.delta.map(i64::wrapping_neg),
    });
    Change::Set { row: entry.row.clone(), columns: columns.collect(), image: None }
}

fn set_back(entry: &JournalEntry, now: &RowImage, options: RevertOptions) -> Reverted {
    let mut columns = Vec::new();
    let mut conflicts = Vec::new();
    for change in &entry.columns {
        let Some(held) = now.get(&change.column) else {
            // The owner dropped or renamed the column: the former value would have no place.
            if change.before != Value::Null && !is_passing(&change.column) {
                let column = change.column.clone();
                conflicts.push(Conflict::NoColumn { row: entry.row.clone(), column });
            }
            continue;
        };
        let restored = if *held == change.after || options.force && change.delta.is_none() {
            Some(change.before.clone())
        } else if let Some(delta) = change.delta {
            moved_back(held, delta)
        } else if is_passing(&change.column) {
            None
        } else {
            let column = change.column.clone();
            conflicts.push(Conflict::Changed { row: entry.row.clone(), column });
            None
        };
        if let Some(after) = restored.filter(|after| after != held) {
            columns.push(ColumnChange {
                column: change.column.clone(),
                before: held.clone(),
                after,
                delta: change.delta.map(i64::wrapping_neg),
            });
        }
    }
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Change::Set { row: entry.row.clone(), columns, image: None }])
}

/// A counter without our part; a value that is no number is left alone.
fn moved_back(held: &Value, delta: i64) -> Option<Value> {
    match held {
        Value::Null => Some(Value::Integer(0_i64.saturating_sub(delta).max(0))),
        Value::Integer(value) => Some(Value::Integer(value.saturating_sub(delta).max(0))),
        Value::Real(value) => Some(Value::Real((value - delta as f64).max(0.0))),
        Value::Text(_) | Value::Blob(_) => None,
    }
}

fn recreate(entry: &JournalEntry, lost: Vec<String>, options: RevertOptions) -> Reverted {
    match (&entry.image, options.recreate) {
        (Some(image), true) => {
            let (id, image) = (entry.row.key.clone(), Some(image.clone()));
            placed(&entry.row, lost, Change::PutIn { id, image })
        }
        (image, _) => {
            Err(vec![Conflict::Gone { row: entry.row.clone(), can_recreate: image.is_some() }])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::convert::Infallible;

    use super::*;

    fn change(column: &str, before: Value, after: Value, delta: Option<i64>) -> ColumnChange {
        ColumnChange { column: column.to_owned(), before, after, delta }
    }

    #[derive(Default)]
    struct Rows {
        rows: BTreeMap<RowKey, RowImage>,
        archived: BTreeSet<String>,
        lost: Vec<String>,
        refusal: Option<&'static str>,
    }

    impl CurrentRows for Rows {
        type Error = Infallible;

        fn row(&self, key: &RowKey) -> Result<Option<RowImage>, Infallible> {
            Ok(self.rows.get(key).cloned())
        }

        fn is_archived(&self, id: &str) -> Result<bool, Infallible> {
            Ok(self.archived.contains(id))
        }

        fn lost_columns(&self, _: &str, _: Option<&RowImage>) -> Result<Vec<String>, Infallible> {
            Ok(self.lost.clone())
        }

        fn move_refusal(&self) -> Option<&str> {
            self.refusal
        }
    }

    fn image(source: &str, count: i64) -> RowImage {
        let cells = vec![
            ("source".to_owned(), source.into()),
            ("access_count".to_owned(), Value::Integer(count)),
            ("updated_at".to_owned(), "then".into()),
        ];
        RowImage { rowid: Some(1), cells }
    }

    /// `a` was set from ("agent", 2, "then") to ("folded", 5, "now").
    fn entry(image: Option<RowImage>) -> JournalEntry {
        JournalEntry {
            op: Op::Set,
            row: RowKey::memory("a"),
            columns: vec![
                change("source", "agent".into(), "folded".into(), None),
                change("access_count", Value::Integer(2), Value::Integer(5), Some(3)),
                change("updated_at", "then".into(), "now".into(), None),
            ],
            image,
            survivor: None,
        }
    }

    fn with(source: &str, count: i64, updated_at: &str) -> Rows {
        let mut now = image(source, count);
        now.set("updated_at", updated_at.into());
        Rows { rows: BTreeMap::from([(RowKey::memory("a"), now)]), ..Rows::default() }
    }

    fn run(entries: &[JournalEntry], rows: &Rows, options: RevertOptions) -> Reverted {
        let Ok(reverted) = revert(entries, rows, options);
        reverted
    }

    fn after(changes: &[Change]) -> Vec<(&str, &Value)> {
        let Change::Set { columns, .. } = &changes[0] else { panic!("{changes:?}") };
        columns.iter().map(|change| (change.column.as_str(), &change.after)).collect()
    }

    #[test]
    fn an_untouched_row_gets_back_what_it_held() {
        let changes =
            run(&[entry(None)], &with("folded", 5, "now"), RevertOptions::default()).unwrap();
        let expected: [(&str, &Value); 3] = [
            ("source", &"agent".into()),
            ("access_count", &Value::Integer(2)),
            ("updated_at", &"then".into()),
        ];
        assert_eq!(after(&changes), expected);
    }

    #[test]
    fn accesses_since_then_stay_counted() {
        let changes =
            run(&[entry(None)], &with("folded", 9, "later"), RevertOptions::default()).unwrap();
        let expected: [(&str, &Value); 2] =
            [("source", &"agent".into()), ("access_count", &Value::Integer(6))];
        assert_eq!(after(&changes), expected);
    }

    #[test]
    fn what_somebody_else_wrote_is_a_conflict_unless_forced() {
        let rows = with("edited", 5, "now");
        let conflicts = run(&[entry(None)], &rows, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].to_string(), "source of a was changed since");
        assert_eq!(conflicts[0].remedy(), Some("--force"));
        let force = RevertOptions { force: true, ..RevertOptions::default() };
        assert_eq!(
            after(&run(&[entry(None)], &rows, force).unwrap())[0],
            ("source", &"agent".into())
        );
    }

    #[test]
    fn a_deleted_row_comes_back_only_on_request() {
        let rows = Rows::default();
        let kept = entry(Some(image("agent", 2)));
        let conflicts =
            run(std::slice::from_ref(&kept), &rows, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].remedy(), Some("--recreate"));
        let recreate = RevertOptions { recreate: true, ..RevertOptions::default() };
        let changes = run(&[kept], &rows, recreate).unwrap();
        assert_eq!(changes, [Change::PutIn { id: "a".to_owned(), image: Some(image("agent", 2)) }]);
        assert!(run(&[entry(None)], &rows, recreate).is_err());
    }

    #[test]
    fn moves_are_taken_back_from_the_archive_only() {
        let moved = JournalEntry {
            op: Op::TakeOut,
            columns: Vec::new(),
            survivor: Some("b".to_owned()),
            ..entry(None)
        };
        let lost = run(std::slice::from_ref(&moved), &Rows::default(), RevertOptions::default())
            .unwrap_err();
        assert!(matches!(lost[..], [Conflict::Lost { .. }]));
        let mut rows = Rows { archived: BTreeSet::from(["a".to_owned()]), ..Rows::default() };
        let changes = run(std::slice::from_ref(&moved), &rows, RevertOptions::default()).unwrap();
        assert_eq!(changes, [Change::PutIn { id: "a".to_owned(), image: None }]);
        // Changed first, moved then: it comes back and is set back.
        let both = run(&[entry(None), moved.clone()], &rows, RevertOptions::default()).unwrap();
        assert_eq!(both.len(), 2);
        rows.rows.insert(RowKey::memory("a"), image("new", 0));
        let taken = run(&[moved], &rows, RevertOptions::default()).unwrap_err();
        assert!(matches!(taken[..], [Conflict::Taken { .. }]));
    }
    #[test]
    fn a_value_without_a_column_is_never_thrown_away() {
        let force = RevertOptions { force: true, recreate: true };
        let mut rows = with("folded", 5, "now");
        let renamed: Vec<_> = image("folded", 5).cells.into_iter().skip(1).collect();
        rows.rows.insert(RowKey::memory("a"), RowImage { rowid: Some(1), cells: renamed });
        let set = run(&[entry(None)], &rows, force).unwrap_err();
        let said = "a has a value for source, a column that was dropped or renamed since";
        assert_eq!((set[0].to_string().as_str(), set[0].remedy()), (said, None));
        let rows = Rows {
            archived: BTreeSet::from(["a".to_owned()]),
            lost: vec!["mood".to_owned()],
            ..Rows::default()
        };
        let moved = JournalEntry { op: Op::TakeOut, columns: Vec::new(), ..entry(None) };
        for entry in [moved, entry(Some(image("agent", 2)))] {
            let conflicts = run(&[entry], &rows, force).unwrap_err();
            assert!(
                matches!(&conflicts[..], [Conflict::NoColumn { column, .. }] if column == "mood")
            );
        }
    }

    #[test]
    fn a_row_of_ours_that_somebody_edited_stays() {
        let put_in = Change::PutIn { id: "a".to_owned(), image: Some(image("flag", 0)) };
        let entry = JournalEntry::of(&put_in, None);
        let undone = |rows: &Rows, options| run(std::slice::from_ref(&entry), rows, options);
        let gone = vec![Change::TakeOut { id: "a".to_owned(), survivor: None, said: None }];
        // Reading it is no edit.
        let read = with("flag", 7, "later");
        assert_eq!(undone(&read, RevertOptions::default()), Ok(gone.clone()));
        let edited = with("mine now", 0, "then");
        let conflicts = undone(&edited, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].to_string(), "source of a was changed since");
        let force = RevertOptions { force: true, ..RevertOptions::default() };
        assert_eq!(undone(&edited, force), Ok(gone));
        let held = Rows { refusal: Some("table n refers to it"), ..read };
        assert!(matches!(undone(&held, force).unwrap_err()[..], [Conflict::Held { .. }]));
    }

    #[test]
    fn entries_survive_the_journal() {
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
