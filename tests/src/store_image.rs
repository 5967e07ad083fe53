//! [`StoreImage`]: everything that a store's owner can see of it, to the bit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memfold_core::journal::RowImage;
use memfold_core::value::Value;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::comparable_source;

/// Differences of two images that are printed.
const SHOWN_MAX: usize = 20;

/// Tables of a full-text index that are not the owner's.
const SHADOWS: [&str; 5] = ["_data", "_idx", "_content", "_docsize", "_config"];

/// The owner's tables with row ids, storage classes and bits, the schema, and the answers of the
/// full-text index to each token and each whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreImage {
    schema: BTreeMap<String, String>,
    tables: BTreeMap<String, Table>,
    answers: BTreeMap<String, Vec<Hit>>,
    /// Rows that moved to `memfold_archive`: their columns, by table and row id.
    moved: BTreeMap<(String, i64), BTreeMap<String, Cell>>,
}

/// A row id and the bits of its rank.
type Hit = (i64, u64);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Table {
    columns: Vec<String>,
    rows: BTreeMap<i64, Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    Null,
    Integer(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl StoreImage {
    /// Reads a store, all of it in one transaction.
    ///
    /// # Panics
    /// When the store cannot be read.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    fn read(path: &Path) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(path)?;
        let transaction = connection.transaction()?;
        let schema = schema(&transaction)?;
        let mut tables = BTreeMap::new();
        for name in ordinary_tables(&schema) {
            let table = Table::read(&transaction, &name, "rowid, *")?;
            tables.insert(name, table);
        }
        let mut answers = BTreeMap::new();
        if schema.contains_key("stm_fts") {
            let indexed = Table::read(&transaction, "stm_fts_docsize", "id, sz")?;
            tables.insert("stm_fts_docsize".into(), indexed);
            answers = full_text_answers(&transaction, &tables["stm"])?;
        }
        let moved = moved(&transaction)?;
        Ok(Self { schema, tables, answers, moved })
    }

    /// Returns the image without the values that two runs write differently: run ids and times of
    /// provenance, `archived_by` and `updated_at`.
    #[must_use]
    pub fn without_run(mut self) -> Self {
        if let Some(stm) = self.tables.get_mut("stm") {
            let position = |name: &str| stm.columns.iter().position(|column| column == name);
            let (source, updated) = (position("source"), position("updated_at"));
            let archived_by = position("archived_by");
            for row in stm.rows.values_mut() {
                if let Some(at) = source {
                    row[at] = row[at].without_run();
                }
                if let Some(at) = updated {
                    row[at] = Cell::Null;
                }
                if let Some(at) = archived_by {
                    row[at] = row[at].without_name();
                }
            }
        }
        self
    }

    /// Tells whether `stm` has a column.
    #[must_use]
    pub fn has_column(&self, name: &str) -> bool {
        self.tables.get("stm").is_some_and(|stm| stm.columns.iter().any(|column| column == name))
    }

    /// Lists losses of another image against this one: a memory, its text, its id or its time, or a
    /// row of another table. Everything else of a memory may change, and the memory that an atom
    /// names; rows may move to `memfold_archive`, and anything may be added.
    #[must_use]
    pub fn lost_in(&self, later: &Self) -> Vec<String> {
        let mut lost = Vec::new();
        for (name, table) in &self.tables {
            let Some(now) = later.tables.get(name) else {
                lost.push(format!("table {name} is gone"));
                continue;
            };
            let kept: Vec<usize> = (0..table.columns.len())
                .filter(|&at| match name.as_str() {
                    "stm" => ["id", "content", "created_at"].contains(&&*table.columns[at]),
                    "atoms" => table.columns[at] != "source_memory_id",
                    _ => true,
                })
                .collect();
            for (rowid, row) in &table.rows {
                let same = |now: &Vec<Cell>| kept.iter().all(|&at| now.get(at) == row.get(at));
                let same_moved = |moved: &BTreeMap<String, Cell>| {
                    kept.iter().all(|&at| moved.get(&table.columns[at]) == row.get(at))
                };
                let moved = |name: &str| later.moved.get(&(name.to_owned(), *rowid));
                // The search entry goes with its memory.
                let went_along = name == "stm_fts_docsize" && moved("stm").is_some();
                let is_kept = now.rows.get(rowid).is_some_and(same)
                    || moved(name).is_some_and(same_moved)
                    || went_along;
                if !is_kept {
                    lost.push(format!("{name} row {rowid}: {}", shown(row)));
                }
            }
        }
        lost.truncate(SHOWN_MAX);
        lost
    }
}

/// Lists how two images differ; empty for equal ones.
#[must_use]
pub fn diff(left: &StoreImage, right: &StoreImage) -> Vec<String> {
    let mut found = Vec::new();
    compare("schema", &left.schema, &right.schema, &mut found, |text| text.clone());
    compare("table", &left.tables, &right.tables, &mut found, |table| {
        format!("{} rows", table.rows.len())
    });
    for (name, table) in &left.tables {
        if let Some(other) = right.tables.get(name).filter(|other| *other != table) {
            table.compare(name, other, &mut found);
        }
    }
    compare("search", &left.answers, &right.answers, &mut found, |hits| format!("{hits:?}"));
    found.truncate(SHOWN_MAX);
    found
}

/// Asserts that two images are equal.
///
/// # Panics
/// When they differ.
#[track_caller]
pub fn assert_same(left: &StoreImage, right: &StoreImage) {
    assert_eq!(diff(left, right), Vec::<String>::new());
}

fn compare<T: PartialEq>(
    what: &str,
    left: &BTreeMap<String, T>,
    right: &BTreeMap<String, T>,
    found: &mut Vec<String>,
    show: impl Fn(&T) -> String,
) {
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    for name in names {
        let (a, b) = (left.get(name), right.get(name));
        if a != b {
            let show = |side: Option<&T>| side.map_or_else(|| "absent".to_owned(), &show);
            found.push(format!("{what} {name:?}: {} | {}", cut(&show(a)), cut(&show(b))));
        }
    }
}

impl Table {
    fn read(connection: &Connection, name: &str, columns: &str) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(&format!("SELECT {columns} FROM \"{name}\""))?;
        let names = statement.column_names().skip(1).map(str::to_owned).collect();
        let count = statement.column_count();
        let mut table = Self { columns: names, rows: BTreeMap::new() };
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells = (1..count).map(|at| row.get_ref(at).map(Cell::from));
            table.rows.insert(row.get(0)?, cells.collect::<Result<_, _>>()?);
        }
        Ok(table)
    }

    fn compare(&self, name: &str, other: &Self, found: &mut Vec<String>) {
        if self.columns != other.columns {
            found.push(format!("{name}: columns {:?} | {:?}", self.columns, other.columns));
            return;
        }
        let rowids: BTreeSet<i64> = self.rows.keys().chain(other.rows.keys()).copied().collect();
        for rowid in rowids {
            match (self.rows.get(&rowid), other.rows.get(&rowid)) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    for (column, (a, b)) in self.columns.iter().zip(a.iter().zip(b)) {
                        if a != b {
                            found.push(format!("{name} row {rowid} {column}: {a} | {b}"));
                        }
                    }
                }
                (left, _) => {
                    let side = if left.is_some() { "left" } else { "right" };
                    found.push(format!("{name} row {rowid}: only on the {side}"));
                }
            }
        }
    }
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(*value),
            Value::Real(value) => Self::Real(value.to_bits()),
            Value::Text(bytes) => Self::Text(bytes.clone()),
            Value::Blob(bytes) => Self::Blob(bytes.clone()),
        }
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value.to_bits()),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => write!(f, "NULL"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Text(bytes) => write!(f, "{:?}", cut(&String::from_utf8_lossy(bytes))),
            Self::Blob(bytes) => write!(f, "blob of {} bytes", bytes.len()),
        }
    }
}

impl Cell {
    /// `memfold:<run>` without the run.
    fn without_name(&self) -> Self {
        match self {
            Self::Text(bytes) if bytes.starts_with(b"memfold:") => Self::Text(b"memfold:".to_vec()),
            other => other.clone(),
        }
    }

    fn without_run(&self) -> Self {
        match self {
            Self::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Self::Text(comparable_source(text).into_bytes()),
                Err(_) => self.clone(),
            },
            other => other.clone(),
        }
    }
}

fn shown(row: &[Cell]) -> String {
    row.iter().take(2).map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= 160 { text.to_owned() } else { text.chars().take(160).collect() }
}

/// The owner's schema, by name; memfold's own tables and SQLite's internal ones are left out.
fn schema(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare(
        "SELECT name, coalesce(sql, type) FROM sqlite_master
         WHERE tbl_name NOT LIKE 'memfold\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Reads the rows that moved away.
fn moved(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<(String, i64), BTreeMap<String, Cell>>> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'memfold_archive')";
    if !connection.query_row(exists, [], |row| row.get::<_, bool>(0))? {
        return Ok(BTreeMap::new());
    }
    let shaped = "SELECT count(*) FROM pragma_table_info('memfold_archive') WHERE name = 'shape'";
    let shape = match connection.query_row(shaped, [], |row| row.get::<_, bool>(0))? {
        true => "(SELECT columns FROM memfold_shapes AS s WHERE s.id = a.shape)",
        false => "NULL",
    };
    let mut statement = connection.prepare(&format!(
        "SELECT {shape} AS names, a.* FROM memfold_archive AS a WHERE row_rowid IS NOT NULL"
    ))?;
    let rows = statement.query_map([], |row| {
        let key = (row.get("table_name")?, row.get("row_rowid")?);
        let Some(names) = row.get::<_, Option<String>>("names")? else {
            let value = serde_json::from_str(&row.get::<_, String>("row")?).unwrap_or_default();
            let image = RowImage::from_json(None, &value);
            let cells = image.map_or_else(Vec::new, |image| image.cells).into_iter();
            return Ok((key, cells.map(|(name, value)| (name, Cell::from(&value))).collect()));
        };
        let names: Vec<String> = serde_json::from_str(&names).unwrap_or_default();
        let cell = |(at, name)| Ok((name, Cell::from(row.get_ref(&*format!("c{at}"))?)));
        let cells = names.into_iter().enumerate().map(cell);
        Ok((key, cells.collect::<rusqlite::Result<_>>()?))
    })?;
    rows.collect()
}

fn ordinary_tables(schema: &BTreeMap<String, String>) -> Vec<String> {
    let starts = |sql: &str, words: &str| sql.to_uppercase().starts_with(words);
    let is_virtual = |sql: &str| starts(sql, "CREATE VIRTUAL TABLE");
    let is_shadow = |name: &str| {
        let main = SHADOWS.iter().find_map(|ending| name.strip_suffix(ending));
        main.and_then(|main| schema.get(main)).is_some_and(|sql| is_virtual(sql))
    };
    let ordinary =
        |(name, sql): &(&String, &String)| starts(sql, "CREATE TABLE") && !is_shadow(name);
    schema.iter().filter(ordinary).map(|(name, _)| name.clone()).collect()
}

fn full_text_answers(
    connection: &Connection,
    stm: &Table,
) -> rusqlite::Result<BTreeMap<String, Vec<Hit>>> {
    let Some(content) = stm.columns.iter().position(|column| column == "content") else {
        return Ok(BTreeMap::new());
    };
    let mut queries = BTreeSet::new();
    for row in stm.rows.values() {
        if let Cell::Text(bytes) = &row[content] {
            let text = String::from_utf8_lossy(bytes);
            queries.extend(tokens(&text).into_iter().map(|token| format!("\"{token}\"")));
            queries.insert(format!("\"{}\"", tokens(&text).join(" ")));
        }
    }
    queries.remove("\"\"");
    let mut statement = connection
        .prepare("SELECT rowid, rank FROM stm_fts WHERE stm_fts MATCH ?1 ORDER BY rowid")?;
    let mut answer = |query: String| {
        let hits =
            statement.query_map([&query], |row| Ok((row.get(0)?, row.get::<_, f64>(1)?.to_bits())));
        Ok((query.clone(), hits?.collect::<rusqlite::Result<_>>()?))
    };
    queries.into_iter().map(&mut answer).collect()
}

/// Splits a text as the full-text index does, roughly: runs of letters and digits, in lower case.
#[must_use]
pub fn tokens(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Lists SQLite's complaints about a store; empty for a sound one.
///
/// # Panics
/// When the store cannot be read.
#[must_use]
pub fn integrity(path: &Path) -> Vec<String> {
    let check = || -> rusqlite::Result<Vec<String>> {
        let connection = Connection::open(path)?;
        let mut statement = connection.prepare("PRAGMA integrity_check")?;
        let lines: rusqlite::Result<Vec<String>> =
            statement.query_map([], |row| row.get(0))?.collect();
        let mut found: Vec<String> = lines?.into_iter().filter(|line| line != "ok").collect();
        let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
        let broken = statement.query_map([], |row| row.get::<_, String>(0))?;
        for table in broken {
            found.push(format!("a foreign key of {} leads nowhere", table?));
        }
        let check = "INSERT INTO stm_fts(stm_fts) VALUES ('integrity-check')";
        if schema(&connection)?.contains_key("stm_fts")
            && let Err(error) = connection.execute(check, [])
        {
            found.push(format!("stm_fts: {error}"));
        }
        Ok(found)
    };
    check().unwrap_or_else(|error| panic!("check {}: {error}", path.display()))
}
