//! `memfold_archive`: rows that were moved out of the owner's tables, with every value in its storage class.

use std::collections::HashMap;

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::{Param, cell};
use crate::brain_db::write::changes::Mark;
use crate::brain_db::write::session::{SessionError, Writes};
use memfold_core::journal::RowImage;

const TABLE: &str = "memfold_archive";

/// A row with more columns is kept as JSON: SQLite's default limit is 2,000 columns per table.
const CELLS_MAX: usize = 1_000;

/// A row of the archive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArchivedRow {
    /// The owner's table.
    pub(crate) table: String,
    /// The row.
    pub(crate) image: RowImage,
    /// Whether it had a search entry.
    pub(crate) indexed: bool,
}

/// The memory that a row belongs to, and the survivor it was merged into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved<'a> {
    pub(crate) memory_id: &'a str,
    pub(crate) survivor: Option<&'a str>,
}

/// How the rows of the archive are read: the cells of a row stand in the columns `c0`, `c1`, …, and its `shape` holds
/// their names. Rows of earlier versions have no shape; they are JSON in the column `row`.
#[derive(Debug)]
pub(crate) struct ArchiveReader {
    listed: String,
    shapes: HashMap<i64, Vec<String>>,
}

impl ArchiveReader {
    /// Reads the layout of the archive's tables; `None` where there is no archive.
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let columns = Columns::of(connection, TABLE)?;
        if !columns.has_all(&["memory_id", "table_name", "row"]) {
            return Ok(None);
        }
        let shapes = if columns.has("shape") { shapes(connection)? } else { HashMap::new() };
        let cells = shapes.values().map(Vec::len).max().unwrap_or_default();
        let cells: Vec<String> = (0..cells).map(cell_name).collect();
        let names: Vec<&str> =
            ["row", "shape"].into_iter().chain(cells.iter().map(String::as_str)).collect();
        Ok(Some(Self { listed: columns.expressions(&names), shapes }))
    }

    /// Returns the columns that [`Self::image`] reads, for a `SELECT`.
    pub(crate) fn listed(&self) -> &str {
        &self.listed
    }

    /// Reads the row with columns from `first` on; `None` where it is damaged.
    pub(crate) fn image(&self, row: &Row<'_>, first: usize) -> rusqlite::Result<Option<RowImage>> {
        let Some(shape) = row.get::<_, Option<i64>>(first + 1).ok().flatten() else {
            return Ok(row.get_ref(first)?.as_str().ok().and_then(from_json));
        };
        let Some(names) = self.shapes.get(&shape) else { return Ok(None) };
        let cells = names
            .iter()
            .enumerate()
            .map(|(at, name)| Ok((name.clone(), cell(row, first + 2 + at)?.into())))
            .collect::<rusqlite::Result<_>>()?;
        Ok(Some(RowImage { rowid: None, cells }))
    }

    /// Returns each shape with the column that holds the cell of a name.
    pub(crate) fn columns_of<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (i64, String)> + 'a {
        let mut shapes: Vec<_> = self.shapes.iter().collect();
        shapes.sort_unstable_by_key(|(shape, _)| **shape);
        shapes.into_iter().filter_map(move |(shape, names)| {
            let at = names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
            Some((*shape, cell_name(at)))
        })
    }
}

fn cell_name(at: usize) -> String {
    format!("c{at}")
}

fn from_json(json: &str) -> Option<RowImage> {
    RowImage::from_json(None, &serde_json::from_str(json).ok()?)
}

fn shapes(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<String>>> {
    let mut statement = connection.prepare_cached("SELECT id, columns FROM memfold_shapes")?;
    let rows =
        statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut shapes = HashMap::new();
    for row in rows {
        let (id, names) = row?;
        shapes.extend(serde_json::from_str(&names).ok().map(|names| (id, names)));
    }
    Ok(shapes)
}

/// Keeps a row that leaves one of the owner's tables.
pub(crate) fn keep(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    moved: Moved<'_>,
    row: &ArchivedRow,
) -> Result<(), SessionError> {
    let ArchivedRow { table, image, indexed } = row;
    let shape = writes.query("archive a row", |connection| shape_of(connection, image))?;
    let json = if shape.is_some() { String::new() } else { image.to_json().to_string() };
    let cells = if shape.is_some() { image.cells.len() } else { 0 };
    let mut sql = format!(
        "INSERT INTO {TABLE}(memory_id, table_name, row_rowid, row, indexed, survivor_id, run_id, at, shape"
    );
    (0..cells).for_each(|at| sql.push_str(&format!(", {}", cell_name(at))));
    sql.push_str(") VALUES (?1");
    (2..10 + cells).for_each(|at| sql.push_str(&format!(", ?{at}")));
    sql.push(')');
    // Rows that belong to a memory move with it: only the memory's own row holds the time and the
    // survivor.
    let (run_id, at, survivor) =
        if table == "stm" { (mark.run_id, mark.at, moved.survivor) } else { ("", "", None) };
    let values: Vec<Param<'_>> =
        image.cells.iter().take(cells).map(|(_, value)| Param(value)).collect();
    let mut params: Vec<&dyn ToSql> = vec![
        &moved.memory_id,
        table,
        &image.rowid,
        &json,
        indexed,
        &survivor,
        &run_id,
        &at,
        &shape,
    ];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute("archive a row", &sql, &*params).map(drop)
}

/// Returns the shape of a row's columns, made where it is new; `None` where they are too many.
fn shape_of(connection: &Connection, image: &RowImage) -> rusqlite::Result<Option<i64>> {
    if image.cells.len() > CELLS_MAX {
        return Ok(None);
    }
    let names: Vec<&str> = image.cells.iter().map(|(name, _)| name.as_str()).collect();
    let names = serde_json::json!(names).to_string();
    let sql = "SELECT id FROM memfold_shapes WHERE columns = ?1";
    let known = connection.prepare_cached(sql)?.query_row([&names], |row| row.get(0)).optional()?;
    if known.is_some() {
        return Ok(known);
    }
    let columns = Columns::of(connection, TABLE)?;
    for name in (0..image.cells.len()).map(cell_name).filter(|name| !columns.has(name)) {
        // Without a type, so that no value changes its storage class.
        connection.execute_batch(&format!("ALTER TABLE {TABLE} ADD COLUMN {name}"))?;
    }
    connection.execute("INSERT INTO memfold_shapes(columns) VALUES (?1)", [&names])?;
    Ok(Some(connection.last_insert_rowid()))
}

/// Returns the archived rows of a memory: its own first.
pub(crate) fn archived(writes: &Writes<'_>, id: &str) -> Result<Vec<ArchivedRow>, SessionError> {
    let rows = writes.query("read memfold_archive", |connection| {
        let Some(reader) = ArchiveReader::of(connection)? else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT table_name, row_rowid, indexed, {} FROM {TABLE}
             WHERE memory_id = ?1 ORDER BY table_name <> 'stm', id",
            reader.listed()
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([id], |row| {
            let (table, rowid, indexed) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let image = reader.image(row, 3)?;
            Ok(image.map(|image| ArchivedRow {
                table,
                image: RowImage { rowid, ..image },
                indexed,
            }))
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })?;
    rows.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| SessionError::Unreadable {
        path: writes.path().to_owned(),
        what: format!("the archived row of {id}"),
    })
}

/// Returns a memory's row in the archive table.
pub(crate) fn archived_image(
    reads: &Writes<'_>,
    id: &str,
) -> Result<Option<RowImage>, SessionError> {
    let rows = archived(reads, id)?;
    Ok(rows.into_iter().find(|row| row.table == "stm").map(|row| row.image))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::brain_db::own::tables::migrate;
    use memfold_core::value::Value;

    fn store() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, || Ok("store_1".to_owned()), "t").unwrap();
        connection
    }

    /// Any value that SQLite can hold.
    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_filter("no NaN in SQLite", |v| !v.is_nan()).prop_map(Value::Real),
            any::<Vec<u8>>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Blob),
        ]
    }

    fn kept(connection: &Connection, id: &str, image: &RowImage) {
        let writes = Writes::new(connection, std::path::Path::new("brain.db"));
        let mark = Mark { run_id: "r", unit: 1, at: "t" };
        let row = ArchivedRow { table: "stm".to_owned(), image: image.clone(), indexed: true };
        keep(&writes, &mark, Moved { memory_id: id, survivor: Some("s") }, &row).unwrap();
        assert_eq!(archived(&writes, id).unwrap(), [row]);
    }

    proptest! {
        /// Whole numbers as reals, numbers as text, −0: an affinity would change the storage class.
        #[test]
        fn every_value_keeps_its_storage_class(values in prop::collection::vec(any_value(), 1..6)) {
            let cells = values.into_iter().enumerate().map(|(at, v)| (format!("k{at}"), v));
            let connection = store();
            kept(&connection, "m", &RowImage { rowid: Some(7), cells: cells.collect() });
        }
    }

    #[test]
    fn rows_of_other_columns_have_another_shape() {
        let connection = store();
        let image = |names: &[&str]| RowImage {
            rowid: None,
            cells: names.iter().map(|name| ((*name).to_owned(), (*name).into())).collect(),
        };
        kept(&connection, "a", &image(&["id", "content"]));
        kept(&connection, "b", &image(&["id", "content", "a \"new\" one"]));
        kept(&connection, "c", &image(&["id", "content"]));
        let shapes: i64 = connection
            .query_row("SELECT count(*) FROM memfold_shapes", [], |row| row.get(0))
            .unwrap();
        assert_eq!(shapes, 2);
        let many: Vec<String> = (0..=CELLS_MAX).map(|at| format!("k{at}")).collect();
        kept(&connection, "d", &image(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    }

    #[test]
    fn rows_that_are_json_are_read_as_well() {
        let connection = store();
        let image = RowImage { rowid: None, cells: vec![("id".to_owned(), "x".into())] };
        connection
            .execute(
                "INSERT INTO memfold_archive(memory_id, table_name, row, indexed, run_id, at)
                 VALUES ('x', 'stm', ?1, 0, 'r', 't')",
                [image.to_json().to_string()],
            )
            .unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        assert_eq!(archived_image(&writes, "x").unwrap(), Some(image));
    }
}
