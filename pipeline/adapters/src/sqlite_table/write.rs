//! Units as transactions on the table, and the SQL script that removes rows, for the owner of the file to run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use memfold_core::value::Value;
use memfold_store::brain_db::{Param, cell};
use memfold_store::origin::{
    OriginChange, OriginError, OriginRecord, OriginUnit, PlannedRemoval, Published, Removal,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params_from_iter};

use super::Stop;
use super::layout::{Flag, Layout, Vectors};
use super::read::{Kept, Ledger, Line, Made, TableRow};
use crate::shared::{attribute, digest, note};
use crate::sqlite_file::{BUSY_TIMEOUT, quoted, shown};

/// Tells whether a change takes a row out, or puts it back.
pub(super) const fn removes(change: &OriginChange) -> bool {
    matches!(
        change,
        OriginChange::Retire { .. } | OriginChange::Restore { .. } | OriginChange::Remove { .. }
    )
}

/// Tells whether a row is gone or marked after a change.
const fn is_removal(change: &OriginChange) -> bool {
    matches!(change, OriginChange::Retire { .. } | OriginChange::Remove { .. })
}

/// Writes units.
pub(super) struct Writer<'a> {
    pub(super) path: &'a Path,
    pub(super) layout: &'a Layout,
    pub(super) ledger: &'a Ledger,
    /// Where removed rows are kept.
    pub(super) place: &'a Path,
}

impl Writer<'_> {
    pub(super) fn write(&self, units: &[OriginUnit]) -> Result<Published, Stop> {
        let mut connection = self.open()?;
        let wanted: BTreeSet<&str> =
            units.iter().flat_map(|unit| &unit.changes).map(OriginChange::id).collect();
        let rows = rows_by_id(&connection, self.layout, self.ledger, &wanted)?;
        self.keep(units, &rows)?;
        let (mut published, mut restored) = (Published::default(), BTreeSet::new());
        for (at, unit) in units.iter().enumerate() {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let outcome = match self.write_unit(&transaction, unit, &rows) {
                Ok(()) => {
                    transaction.commit()?;
                    let back = unit.changes.iter().filter(|change| !is_removal(change));
                    restored.extend(back.map(OriginChange::id));
                    Ok(())
                }
                Err(Stop::Conflict(refusal)) => {
                    transaction.rollback()?;
                    Err(refusal)
                }
                Err(stop) => return Err(stop),
            };
            note(&mut published, at, outcome);
        }
        // Rows that stand in the table again are kept nowhere else.
        Ledger::forget(self.place, &restored)?;
        Ok(published)
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        Ok(connection)
    }

    /// Keeps all rows that go, before the first one does.
    fn keep(
        &self,
        units: &[OriginUnit],
        rows: &HashMap<String, TableRow>,
    ) -> Result<(), OriginError> {
        let mut lines = Vec::new();
        for unit in units {
            for change in &unit.changes {
                let OriginChange::Retire { before, id, into, .. } = change else { continue };
                let Some(row) = rows.get(id).filter(|row| digest(row.raw()) == *before) else {
                    continue;
                };
                lines.push(Line::Kept(Kept {
                    id: id.clone(),
                    table: self.layout.table.clone(),
                    key: row.key.to_json(),
                    columns: self.layout.columns.clone(),
                    cells: row.cells.iter().map(Value::to_json).collect(),
                    merged_into: into.clone(),
                    rule: unit.rule.clone(),
                    run_id: unit.run_id.clone(),
                    at: unit.at.clone(),
                }));
            }
        }
        Ledger::append(self.place, &lines)
    }

    fn write_unit(
        &self,
        transaction: &Transaction<'_>,
        unit: &OriginUnit,
        rows: &HashMap<String, TableRow>,
    ) -> Result<(), Stop> {
        for change in &unit.changes {
            let id = change.id();
            let conflict = |reason: &str| Stop::Conflict((id.to_owned(), reason.to_owned()));
            // As it is now: others may have written since.
            let now = match rows.get(id) {
                Some(row) => row_at(transaction, self.layout, &row.key)?,
                None => None,
            };
            let step = Step { layout: self.layout, transaction, unit, id, now };
            match change {
                OriginChange::Create { record, .. } => self.add(&step, record)?,
                OriginChange::Update { record, .. } => match &step.now {
                    None => return Err(conflict("its row is gone")),
                    Some(now) if self.layout.text_of(now).as_deref() == Ok(&*record.text) => {}
                    Some(_) => return Err(conflict("texts of a table are not changed")),
                },
                OriginChange::Retire { before, .. } => {
                    let is_kept = self.ledger.kept.contains_key(id);
                    step.retire(before, is_kept)?;
                }
                OriginChange::Restore { before, record } => {
                    let kept = self.ledger.kept.get(id).and_then(|kept| kept.row(self.layout));
                    step.restore(before.as_deref(), record, kept)?;
                }
                OriginChange::Remove { before, .. } => step.remove_added(before.as_deref())?,
            }
        }
        Ok(())
    }

    /// Adds a row for a memory that memfold saved.
    fn add(&self, step: &Step<'_>, record: &OriginRecord) -> Result<(), Stop> {
        if step.now.is_some() {
            return Ok(());
        }
        check_addition(self.layout).map_err(|reason| step.conflict(&reason))?;
        let columns = &self.layout.columns;
        let mut cells: BTreeMap<usize, Value> = BTreeMap::new();
        let is_numbered = self
            .layout
            .table_info
            .as_ref()
            .is_some_and(|table| table.numbers_itself(&columns[self.layout.id]));
        if !is_numbered {
            cells.insert(self.layout.id, record.id.as_str().into());
        }
        cells.insert(self.layout.text[0], record.text.as_str().into());
        for (name, column) in &self.layout.attributes {
            cells.extend(attribute(record, name).map(|value| (*column, value.into())));
        }
        let names: Vec<String> = cells.keys().map(|at| quoted(&columns[*at])).collect();
        step.insert(&names, cells.into_values().collect())?;
        if !is_numbered {
            return Ok(());
        }
        let key = step.transaction.last_insert_rowid().to_string();
        let made = Line::Made(Made::new(&record.id, key, &record.text));
        Ok(Ledger::append(self.place, &[made])?)
    }
}

/// Returns why no row can be added to a table.
pub(super) fn check_addition(layout: &Layout) -> Result<(), String> {
    let no = |reason: &str| Err(format!("no row is added to {}: {reason}", layout.table));
    let Some(table) = layout.table_info.as_ref().filter(|_| layout.own_api.is_none()) else {
        return no(layout
            .own_api
            .map_or("its rows are not those of one table", |[reason, _]| reason));
    };
    if layout.has_index {
        return no("an index beside it would not know the text");
    }
    let known = [layout.id, layout.text[0]].map(|at| layout.columns[at].as_str());
    let missing = table.columns.iter().find(|column| {
        column.must_be_given && !known.contains(&&*column.name) && !column.is_generated
    });
    match missing {
        Some(column) => no(&format!("a value of {} must be given", column.name)),
        None if layout.text.len() > 1 => no("its texts stand in several columns"),
        None => Ok(()),
    }
}

/// One change of a row.
struct Step<'a> {
    layout: &'a Layout,
    transaction: &'a Transaction<'a>,
    unit: &'a OriginUnit,
    id: &'a str,
    now: Option<TableRow>,
}

impl Step<'_> {
    fn conflict(&self, reason: &str) -> Stop {
        Stop::Conflict((self.id.to_owned(), reason.to_owned()))
    }

    fn flag(&self) -> Option<&Flag> {
        let is_chosen = matches!(self.layout.removal, Some(Removal::Flag { .. }));
        self.layout.flag.as_ref().filter(|_| is_chosen)
    }

    /// Takes the row out.
    fn retire(&self, before: &str, is_kept: bool) -> Result<(), Stop> {
        let Some(now) = &self.now else {
            return if is_kept { Ok(()) } else { Err(self.conflict("its row is gone")) };
        };
        if self.layout.is_marked(now) {
            return if is_kept { Ok(()) } else { Err(self.conflict("others marked its row")) };
        }
        if digest(now.raw()) != before {
            return Err(self.conflict("its row was changed meanwhile"));
        }
        let Some(flag) = self.flag() else { return self.delete(now) };
        let mut marked = now.clone();
        let declared = self.declared(flag.column);
        marked.cells[flag.column] = flag.value_at(&self.unit.at, &declared);
        self.overwrite(&marked)
    }

    fn declared(&self, column: usize) -> String {
        let name = &self.layout.columns[column];
        let column = self.layout.table_info.as_ref().and_then(|table| table.column(name));
        column.map(|column| column.declared.clone()).unwrap_or_default()
    }

    /// Puts the row back.
    fn restore(
        &self,
        before: Option<&str>,
        record: &OriginRecord,
        kept: Option<TableRow>,
    ) -> Result<(), Stop> {
        let Some(now) = &self.now else {
            let Some(kept) = kept else {
                return Err(self.conflict("its row is gone, and nothing is kept of it"));
            };
            return self.put_back(&kept);
        };
        if now.raw() == record.raw {
            return Ok(());
        }
        let is_ours = before.is_none_or(|before| digest(now.raw()) == before);
        match (kept, self.layout.flag.as_ref()) {
            (Some(kept), Some(_)) if is_ours && self.layout.is_marked(now) => self.overwrite(&kept),
            _ => Err(self.conflict("its row was changed meanwhile")),
        }
    }

    /// Deletes a row that memfold added.
    fn remove_added(&self, before: Option<&str>) -> Result<(), Stop> {
        match &self.now {
            None => Ok(()),
            Some(now) if before.is_none_or(|before| digest(now.raw()) == before) => {
                self.delete(now)
            }
            Some(_) => Err(self.conflict("its row was changed meanwhile")),
        }
    }

    fn key(&self) -> &str {
        self.layout.key.as_deref().unwrap_or("rowid")
    }

    fn delete(&self, row: &TableRow) -> Result<(), Stop> {
        let sql = format!("DELETE FROM {} WHERE {} IS ?", quoted(&self.layout.table), self.key());
        self.execute(&sql, vec![row.key.clone()])?;
        match row_at(self.transaction, self.layout, &row.key)? {
            None => Ok(()),
            Some(_) => Err(self.conflict("the table does not let its row go")),
        }
    }

    fn put_back(&self, row: &TableRow) -> Result<(), Stop> {
        let key = self.key();
        let columns = &self.layout.columns;
        // A key that is a column is among the cells.
        let is_column = columns.iter().any(|column| quoted(column) == key);
        let extra = (!is_column).then(|| (key.to_owned(), row.key.clone()));
        let cells = columns.iter().map(|name| quoted(name)).zip(row.cells.iter().cloned());
        let (names, values): (Vec<String>, Vec<Value>) = extra.into_iter().chain(cells).unzip();
        self.insert(&names, values)?;
        self.expect(row)
    }

    fn insert(&self, names: &[String], values: Vec<Value>) -> Result<(), Stop> {
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quoted(&self.layout.table),
            names.join(", "),
            vec!["?"; names.len()].join(", ")
        );
        self.execute(&sql, values)
    }

    /// Gives a row all its cells.
    fn overwrite(&self, row: &TableRow) -> Result<(), Stop> {
        let now = self.now.as_ref().map_or(&[][..], |now| &now.cells);
        let columns = self.layout.columns.iter().zip(&row.cells).enumerate();
        let changed = columns.filter(|(at, (_, value))| now.get(*at) != Some(*value));
        let (names, mut values): (Vec<String>, Vec<Value>) = changed
            .map(|(_, (name, value))| (format!("{} = ?", quoted(name)), value.clone()))
            .unzip();
        if names.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "UPDATE {} SET {} WHERE {} IS ?",
            quoted(&self.layout.table),
            names.join(", "),
            self.key()
        );
        values.push(row.key.clone());
        self.execute(&sql, values)?;
        self.expect(row)
    }

    /// Makes sure that the table holds exactly a row.
    fn expect(&self, row: &TableRow) -> Result<(), Stop> {
        let found = row_at(self.transaction, self.layout, &row.key)?;
        let differs = |found: &TableRow| {
            let mut pairs = self.layout.columns.iter().zip(found.cells.iter().zip(&row.cells));
            pairs.find(|(_, (found, wanted))| found != wanted).map(|(name, _)| name.clone())
        };
        match found {
            Some(found) if found == *row => Ok(()),
            found => {
                let column = found.as_ref().and_then(differs).unwrap_or_default();
                Err(self.conflict(&format!(
                    "a trigger or a type of the table changes its column {column}"
                )))
            }
        }
    }

    /// Executes a statement on one row; a refusal by the table is a conflict.
    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<(), Stop> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        match statement.execute(params_from_iter(values.iter().map(Param))) {
            Ok(1) => Ok(()),
            Ok(count) => Err(self.conflict(&format!("{count} rows would change instead of one"))),
            Err(error) if is_refusal(&error) => {
                Err(self.conflict(&format!("the table refuses it: {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Tells whether a constraint, a trigger or a missing extension refused a statement.
fn is_refusal(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    matches!(
        error.sqlite_error_code(),
        Some(
            Code::ConstraintViolation
                | Code::TypeMismatch
                | Code::Unknown
                | Code::PermissionDenied
                | Code::SchemaChanged
        )
    )
}

fn row_at(
    connection: &Connection,
    layout: &Layout,
    key: &Value,
) -> rusqlite::Result<Option<TableRow>> {
    let name = layout.key.as_deref().unwrap_or("rowid");
    let sql = format!("{} WHERE {name} IS ?", layout.select);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([Param(key)])?;
    rows.next()?.map(|row| TableRow::of(row, layout.columns.len())).transpose()
}

/// Finds rows by the ids of their memories: of several rows with one id the first.
pub(super) fn rows_by_id(
    connection: &Connection,
    layout: &Layout,
    ledger: &Ledger,
    wanted: &BTreeSet<&str>,
) -> rusqlite::Result<HashMap<String, TableRow>> {
    let mut found = HashMap::new();
    let Some(key) = &layout.key else {
        let mut statement = connection.prepare(&layout.select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let row = TableRow::of(row, layout.columns.len())?;
            if let Some(id) = layout.id_of(&row).filter(|id| wanted.contains(&**id)) {
                found.entry(id).or_insert(row);
            }
        }
        return Ok(found);
    };
    let id = quoted(&layout.columns[layout.id]);
    let mut keys: Vec<Value> = Vec::new();
    // Only keys and ids are looked at, in the order in which rows are read.
    let sql = format!("SELECT {key}, {id} FROM {}", quoted(&layout.table));
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut seen = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (key, id) = (Value::from(cell(row, 0)?), Value::from(cell(row, 1)?));
        let is_wanted = wanted.contains(&*shown(&id)) && seen.insert(shown(&id));
        if is_wanted || ledger.may_have_made(&key) {
            keys.push(key);
        }
    }
    for key in keys {
        let Some(row) = row_at(connection, layout, &key)? else { continue };
        let text = layout.text_of(&row).unwrap_or_default();
        let made = ledger.made_of(&row, &text).map(|made| made.id.clone());
        if let Some(id) = made.or_else(|| layout.id_of(&row)).filter(|id| wanted.contains(&**id)) {
            found.entry(id).or_insert(row);
        }
    }
    Ok(found)
}

/// Writes the script; an error says why there is none, with advice.
pub(super) fn script(
    connection: &Connection,
    layout: &Layout,
    ledger: &Ledger,
    removals: &[PlannedRemoval],
) -> Result<String, Stop> {
    if let Some(refusal) = layout.own_api.filter(|_| layout.system != Some("sqlite-vec")) {
        return Err(Stop::Refused(refusal.map(str::to_owned)));
    }
    let ids = removals.iter().flat_map(|removal| [Some(&*removal.id), removal.into.as_deref()]);
    let wanted: BTreeSet<&str> = ids.flatten().collect();
    let rows = rows_by_id(connection, layout, ledger, &wanted)?;
    let table = quoted(&layout.table);
    let mut script = format!(
        "-- Removes {} rows of {table}. A row whose text was changed since is left alone.\n\
         BEGIN IMMEDIATE;\n",
        removals.len()
    );
    for removal in removals {
        let Some(row) = rows.get(&removal.id) else { continue };
        let mut condition = is_unchanged(layout, row);
        if let Some(survivor) = removal.into.as_ref().and_then(|into| rows.get(into)) {
            let stands = is_unchanged(layout, survivor);
            let _ = write!(condition, "\n  AND EXISTS (SELECT 1 FROM {table} WHERE {stands})");
        }
        let by = removal.into.as_ref().map_or_else(
            || format!("rule {}", removal.rule),
            |into| format!("{} says the same, rule {}", one_line(into), removal.rule),
        );
        let _ = writeln!(script, "-- {}: {by}", one_line(&removal.id));
        let _ = match (&layout.removal, &layout.flag) {
            (Some(Removal::Flag { .. }), Some(flag)) => {
                let value = match flag.value.eq_ignore_ascii_case("now") {
                    true => "CURRENT_TIMESTAMP".to_owned(),
                    false => literal(&flag.value_at("", "")),
                };
                let column = quoted(&layout.columns[flag.column]);
                writeln!(script, "UPDATE {table} SET {column} = {value}\nWHERE {condition};")
            }
            _ => writeln!(script, "DELETE FROM {table}\nWHERE {condition};"),
        };
    }
    script.push_str(&beside(layout));
    script.push_str("COMMIT;\n");
    Ok(script)
}

/// Lists the ids as the owner's own interface takes them: one JSON object on a line.
pub(super) fn id_list(layout: &Layout, removals: &[PlannedRemoval]) -> String {
    // Ids of Chroma are unique in a collection.
    let is_within = layout.attributes.iter().any(|(name, _)| *name == "collection");
    let lines = removals.iter().map(|removal| {
        let (within, id) = match removal.id.split_once('/').filter(|_| is_within) {
            Some((within, id)) => (Some(within), id),
            None => (None, &*removal.id),
        };
        let into = removal.into.as_deref();
        let into = into.map(|into| match within {
            Some(_) => into.split_once('/').map_or(into, |(_, id)| id),
            None => into,
        });
        let mut line = serde_json::json!({ "id": id, "into": into, "rule": removal.rule });
        if let Some(within) = within {
            line["collection"] = within.into();
        }
        format!("{line}\n")
    });
    lines.collect()
}

/// The statements for the indexes beside the table.
fn beside(layout: &Layout) -> String {
    let mut script = String::new();
    if layout.key.is_none() || matches!(layout.removal, Some(Removal::Flag { .. })) {
        return script;
    }
    if let Some(search) = &layout.search {
        let search = quoted(search);
        let _ = writeln!(script, "INSERT INTO {search}({search}) VALUES ('rebuild');");
    }
    if let Vectors::Vec0 { table, .. } | Vectors::Vec1 { table } = &layout.vectors {
        let by_id = matches!(&layout.vectors, Vectors::Vec0 { by_id: true, .. });
        let (here, there) = match by_id {
            true => ("id", quoted(&layout.columns[layout.id])),
            false => ("rowid", layout.key.clone().unwrap_or_default()),
        };
        let _ = writeln!(
            script,
            "-- Needs the extension of {}.\nDELETE FROM {} WHERE {here} NOT IN (SELECT {there} FROM {});",
            one_line(table),
            quoted(table),
            quoted(&layout.table)
        );
    }
    script
}

/// The condition that a row is the one that was read.
fn is_unchanged(layout: &Layout, row: &TableRow) -> String {
    let key = layout.key.as_deref().unwrap_or("rowid");
    let mut parts = vec![format!("{key} IS {}", literal(&row.key))];
    for at in &layout.text {
        parts.push(format!("{} IS {}", quoted(&layout.columns[*at]), literal(&row.cells[*at])));
    }
    parts.join(" AND ")
}

/// A value in SQL.
fn literal(value: &Value) -> String {
    let hex = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{digits}'")
    };
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Blob(bytes) => hex(bytes),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST({} AS TEXT)", hex(bytes)),
        },
    }
}

/// Text that stays within a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
