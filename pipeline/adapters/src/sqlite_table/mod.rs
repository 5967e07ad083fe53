//! Memories in a table of any SQLite file: a known system's, or one that somebody names.
//!
//! A memory is a row. `shapes` lists the systems that are recognised; everything else needs the names of the table and
//! its columns. Reading opens the file read-only and leaves no file beside it.
//!
//! **Writing.** memfold deletes no row unless it was told to: a row is deleted or marked by a column, as somebody chose.
//! Each unit is one transaction, in which every row is compared with its state at reading. A row is deleted only where nothing
//! else in the file notices: beside a full-text index, vectors in a virtual table, triggers or foreign keys it can be
//! marked, or removed by a script. Of a text or a column that memfold does not know nothing is ever changed.
//!
//! **Undo.** The rows that were taken out are kept in a file of their own, with every column as it was, and put back bit
//! for bit. That file has the only copy of deleted rows, so that it must last: it does not belong in a cache.

mod layout;
mod read;
mod write;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memfold_store::brain_db::StoreVersion;
use memfold_store::origin::{
    Origin, OriginContents, OriginError, OriginRecord, OriginStatus, OriginUnit, PlannedRemoval,
    Published, Removal, ScriptForm, Skipped, TableChoice, Usage,
};
use memfold_store::whole_file::OsLock;
use rusqlite::{Connection, ErrorCode};

use self::layout::{Layout, Schema};
use self::read::{Ledger, Line, TableRow, VectorTable};
use self::write::Writer;
use crate::shared::{Refusal, advice_on_removed, failed, retired_status};
use crate::sqlite_file::{self, shown};

/// The kind, as `--store-kind` spells it.
pub const KIND: &str = "sqlite_table";
/// The table of a `brain.db`.
const BRAIN_DB_TABLE: &str = "stm";

/// A table of a SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    path: PathBuf,
    /// The choice for this command; else the previous one holds.
    choice: TableChoice,
    /// Where removed rows are kept.
    removed: Option<PathBuf>,
}

/// Why work on a file ended.
enum Stop {
    Sqlite(rusqlite::Error),
    Origin(OriginError),
    /// The reason, and advice.
    Refused([String; 2]),
    /// A unit is left alone.
    Conflict(Refusal),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<OriginError> for Stop {
    fn from(error: OriginError) -> Self {
        Self::Origin(error)
    }
}

/// Tells whether a file is a SQLite database with tables, and not a `brain.db`.
pub(crate) fn is_one(path: &Path) -> bool {
    if !path.is_file() || !StoreVersion::take(path).is_ok_and(|version| version.is_sqlite()) {
        return false;
    }
    let found = sqlite_file::read(path, |connection| {
        let sql = "SELECT count(*) > 0 AND sum(lower(name) = ?1) = 0 FROM sqlite_schema
                   WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
        let is_other = |row: &rusqlite::Row<'_>| row.get::<_, Option<bool>>(0);
        connection.query_row(sql, [BRAIN_DB_TABLE], is_other)
    });
    matches!(found, Ok(Some(true)))
}

impl SqliteTable {
    /// Opens a file. Writes nothing.
    pub(crate) fn open(path: &Path) -> Result<Self, OriginError> {
        let path = path.canonicalize().map_err(failed("open", path))?;
        let opened = Self { path, choice: TableChoice::default(), removed: None };
        let is_brain_db = opened.reading(|connection| {
            let schema = Schema::read(connection)?;
            Ok(schema.table(BRAIN_DB_TABLE).is_some_and(|table| table.has(&["id", "content"])))
        })?;
        if is_brain_db {
            let hint = "leave --table and --store-kind out: it is read and written directly";
            return Err(opened.refused("it is a brain.db, not a table of another system", hint));
        }
        Ok(opened)
    }

    fn refused(&self, reason: impl Into<String>, hint: impl Into<String>) -> OriginError {
        OriginError::Refused { path: self.path.clone(), reason: reason.into(), hint: hint.into() }
    }

    /// Reads in one transaction.
    fn reading<T>(&self, work: impl Fn(&Connection) -> Result<T, Stop>) -> Result<T, OriginError> {
        sqlite_file::read(&self.path, work).map_err(|stop| self.explained(stop))
    }

    fn explained(&self, stop: Stop) -> OriginError {
        let error = match stop {
            Stop::Sqlite(error) => error,
            Stop::Origin(error) => return error,
            Stop::Refused([reason, hint]) => return self.refused(reason, hint),
            Stop::Conflict((id, reason)) => return self.refused(reason, id),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                OriginError::Locked { path: self.path.clone() }
            }
            Some(ErrorCode::DatabaseCorrupt) => self.refused(
                format!("it is damaged: {error}"),
                "PRAGMA integrity_check says more; take a backup of it, or .recover it with sqlite3",
            ),
            _ => OriginError::Format {
                path: self.path.clone(),
                kind: "table of memories",
                reason: error.to_string(),
            },
        }
    }

    /// The ledger, with the choice for this command, else the previous one.
    fn ledger(&self) -> Result<Ledger, OriginError> {
        let mut ledger = Ledger::read(self.removed.as_deref())?;
        ledger.choice = united(&self.choice, &ledger.choice);
        Ok(ledger)
    }

    fn name(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    fn layout(&self, connection: &Connection, choice: &TableChoice) -> Result<Layout, Stop> {
        Layout::of(connection, &self.name(), choice)
    }

    fn read_layout(&self, choice: &TableChoice) -> Result<Layout, OriginError> {
        self.reading(|connection| self.layout(connection, choice))
    }

    /// Makes sure that the file is written by others than its own program.
    fn check_writing(&self, layout: &Layout) -> Result<(), OriginError> {
        layout.own_api.map_or(Ok(()), |[reason, hint]| {
            Err(self.refused(format!("nothing is written to it: {reason}"), hint))
        })
    }

    /// Makes sure that rows can be taken out as somebody chose.
    fn check_removal(&self, layout: &Layout) -> Result<(), OriginError> {
        self.check_writing(layout)?;
        let name = self.name();
        let flag = layout.flag.as_ref().map_or_else(
            || "COLUMN=VALUE".to_owned(),
            |flag| format!("{}={}", layout.columns[flag.column], flag.value),
        );
        let script = "or write a script for its owner: --sql OUT";
        match (&layout.removal, &layout.deletion_refusal) {
            (None, refusal) => {
                let deletes = if refusal.is_none() { "--removed delete or " } else { "" };
                Err(self.refused(
                    "nobody said how rows are taken out of it",
                    format!(
                        "memfold consolidate {name} {deletes}--removed {flag} says so; {script}"
                    ),
                ))
            }
            (Some(Removal::Delete), Some(reason)) => Err(self.refused(
                format!("its rows are not deleted: {reason}"),
                format!("mark them by a column: --removed {flag}; {script}"),
            )),
            (Some(_), _) => Ok(()),
        }
    }

    /// Makes records of rows; removed ones that are kept are among them.
    fn contents(
        &self,
        connection: &Connection,
        layout: &Layout,
        ledger: &Ledger,
    ) -> Result<OriginContents, Stop> {
        let mut vectors = VectorTable::read(connection, layout)?;
        let mut statement = connection.prepare(&layout.select)?;
        let mut rows = statement.query([])?;
        let mut reading = Reading::new(layout, ledger);
        let mut contents = OriginContents::default();
        while let Some(row) = rows.next()? {
            let row = TableRow::of(row, layout.columns.len())?;
            let Some(mut record) = reading.record(&row) else { continue };
            if record.status == OriginStatus::Live {
                let vector = vectors.take(layout, &row, &record.id);
                record.vector = vector.map(|vector| (layout.model_of(&row), vector));
            }
            contents.records.push(record);
        }
        contents.records.extend(reading.deleted());
        contents.skipped = reading.skipped();
        Ok(contents)
    }
}

/// Rows on their way to records.
struct Reading<'a> {
    layout: &'a Layout,
    ledger: &'a Ledger,
    /// How often rows are not memories, by the reason, and the first of them.
    unread: BTreeMap<&'static str, (usize, String)>,
    /// The removed rows that still stand in the table.
    seen: BTreeSet<String>,
}

impl<'a> Reading<'a> {
    fn new(layout: &'a Layout, ledger: &'a Ledger) -> Self {
        Self { layout, ledger, unread: BTreeMap::new(), seen: BTreeSet::new() }
    }

    fn record(&mut self, row: &TableRow) -> Option<OriginRecord> {
        let mut record = match self.layout.record(row) {
            Ok(record) => record,
            Err(reason) => {
                self.unread.entry(reason).or_insert_with(|| (0, shown(&row.key))).0 += 1;
                return None;
            }
        };
        if let Some(made) = self.ledger.made_of(row, &record.text) {
            record.id.clone_from(&made.id);
        }
        let kept = self.ledger.kept.get(&record.id);
        if kept.is_some() {
            self.seen.insert(record.id.clone());
        }
        if self.layout.is_marked(row) {
            // Rows that others marked are theirs.
            record.status = retired_status(kept?.merged_into.as_deref());
        }
        Some(record)
    }

    fn skipped(&self) -> Vec<Skipped> {
        let skipped = self.unread.iter().map(|(reason, (count, first))| Skipped {
            place: self.layout.table.clone(),
            reason: format!("{count} rows {reason}, the first is row {first}"),
        });
        let mut skipped: Vec<Skipped> = skipped.collect();
        skipped.sort_by(|one, other| one.reason.cmp(&other.reason));
        skipped
    }

    /// The removed rows that are not in the table, as they were.
    fn deleted(&self) -> Vec<OriginRecord> {
        let gone = self.ledger.kept.values().filter(|kept| !self.seen.contains(&kept.id));
        let mut records: Vec<OriginRecord> = gone
            .filter_map(|kept| {
                let record = self.layout.record(&kept.row(self.layout)?).ok()?;
                let place = format!("taken out of {}", self.layout.table);
                Some(OriginRecord {
                    id: kept.id.clone(),
                    status: retired_status(kept.merged_into.as_deref()),
                    place,
                    ..record
                })
            })
            .collect();
        records.sort_by(|one, other| one.id.cmp(&other.id));
        records
    }
}

/// The new choice goes before the previous one; columns of another table are not taken over.
fn united(now: &TableChoice, before: &TableChoice) -> TableChoice {
    let is_same = now.table.is_none() || now.table == before.table;
    let before = if is_same { before.clone() } else { TableChoice::default() };
    let or = |now: &Option<String>, before: Option<String>| now.clone().or(before);
    TableChoice {
        table: or(&now.table, before.table),
        id: or(&now.id, before.id),
        text: or(&now.text, before.text),
        time: or(&now.time, before.time),
        user: or(&now.user, before.user),
        vector: or(&now.vector, before.vector),
        removal: now.removal.clone().or(before.removal),
    }
}

impl Origin for SqliteTable {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        let ledger = self.ledger()?;
        self.reading(|connection| {
            self.contents(connection, &self.layout(connection, &ledger.choice)?, &ledger)
        })
    }

    fn read_some(&self, ids: &BTreeSet<&str>) -> Result<OriginContents, OriginError> {
        let ledger = self.ledger()?;
        self.reading(|connection| {
            let layout = &self.layout(connection, &ledger.choice)?;
            if layout.key.is_none() {
                return self.contents(connection, layout, &ledger);
            }
            let mut reading = Reading::new(layout, &ledger);
            let rows = write::rows_by_id(connection, layout, &ledger, ids)?;
            let mut records: Vec<OriginRecord> =
                rows.values().filter_map(|row| reading.record(row)).collect();
            let deleted = reading.deleted().into_iter();
            records.extend(deleted.filter(|record| ids.contains(&*record.id)));
            Ok(OriginContents { records, skipped: Vec::new() })
        })
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let Some(place) = &self.removed else {
            return Err(
                self.refused("nobody said where removed rows are kept", "name --mirror FILE")
            );
        };
        let _lock = OsLock::beside(place, &self.path)?;
        let ledger = self.ledger()?;
        let layout = self.read_layout(&ledger.choice)?;
        match units.iter().flat_map(|unit| &unit.changes).any(write::removes) {
            true => self.check_removal(&layout)?,
            false => self.check_writing(&layout)?,
        }
        let writer = Writer { path: &self.path, layout: &layout, ledger: &ledger, place };
        writer.write(units).map_err(|stop| self.explained(stop))
    }

    fn separate_by(&self) -> &'static [&'static str] {
        &["user:*", "collection:*", "project:*"]
    }

    fn keep_removed_in(&mut self, file: &Path) {
        self.removed = Some(file.to_owned());
    }

    fn keeps_removed(&self) -> bool {
        true
    }

    fn choose_table(&mut self, choice: &TableChoice) -> Result<bool, OriginError> {
        self.choice = choice.clone();
        let chosen = self.ledger()?.choice;
        self.read_layout(&chosen)?;
        if let Some(place) = &self.removed {
            let _lock = OsLock::beside(place, &self.path)?;
            if Ledger::read(Some(place))?.choice != chosen {
                Ledger::append(place, &[Line::Choice(chosen)])?;
            }
        }
        Ok(true)
    }

    fn check(&self, usage: Usage) -> Result<(), OriginError> {
        let layout = self.read_layout(&self.ledger()?.choice)?;
        match usage {
            Usage::Read => Ok(()),
            Usage::Remove => self.check_removal(&layout),
            Usage::Add => write::check_addition(&layout).map_err(|reason| {
                self.refused(reason, "add it with the program that owns the file")
            }),
        }
    }

    fn description(&self) -> Option<String> {
        Some(self.read_layout(&self.ledger().ok()?.choice).ok()?.description())
    }

    fn removal_script(
        &self,
        removals: &[PlannedRemoval],
        form: ScriptForm,
    ) -> Result<Option<String>, OriginError> {
        let ledger = self.ledger()?;
        self.reading(|connection| {
            let layout = self.layout(connection, &ledger.choice)?;
            match form {
                ScriptForm::Sql => write::script(connection, &layout, &ledger, removals),
                ScriptForm::Ids => Ok(write::id_list(&layout, removals)),
            }
            .map(Some)
        })
    }

    fn advice(&self) -> Vec<String> {
        advice_on_removed(self.removed.as_deref(), "rows").into_iter().collect()
    }
}
