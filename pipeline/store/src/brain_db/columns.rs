//! Which tables and columns a store really has: every version differs, and owners ALTER.

use std::collections::BTreeSet;

use rusqlite::Connection;

/// Columns that `stm` has in every version of the owner.
pub(super) const REQUIRED: [&str; 7] =
    ["id", "content", "categories", "importance", "access_count", "created_at", "source"];

/// The columns of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    table: &'static str,
    names: Vec<String>,
}

impl Columns {
    /// Reads a table's columns; none where there is no such table.
    pub(super) fn of(connection: &Connection, table: &'static str) -> rusqlite::Result<Self> {
        // As a statement of its own: the function of the same name costs a virtual table.
        let mut statement = connection.prepare(&format!("PRAGMA table_info({})", quoted(table)))?;
        let names = statement.query_map([], |row| row.get("name"))?.collect::<Result<_, _>>()?;
        Ok(Self { table, names })
    }

    /// Returns the table's name.
    pub(super) const fn table(&self) -> &'static str {
        self.table
    }

    /// Returns the columns' names as spelled in the store, in the table's order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.spelling(column).is_some()
    }

    pub(super) fn has_all(&self, columns: &[&str]) -> bool {
        columns.iter().all(|column| self.has(column))
    }

    /// Returns the column as an SQL expression, NULL where it does not exist.
    pub(super) fn expression(&self, column: &str) -> String {
        self.expressions(&[column])
    }

    /// Returns several columns as a list of SQL expressions.
    pub(super) fn expressions(&self, columns: &[&str]) -> String {
        // Every match of a lookup asks for this.
        let mut list = String::with_capacity(32 * columns.len());
        for column in columns {
            if !list.is_empty() {
                list.push_str(", ");
            }
            match self.spelling(column) {
                Some(name) => {
                    list.push_str(self.table);
                    list.push('.');
                    push_quoted(&mut list, name);
                }
                None => list.push_str("NULL"),
            }
        }
        list
    }

    fn spelling(&self, column: &str) -> Option<&str> {
        self.names.iter().find(|name| name.eq_ignore_ascii_case(column)).map(String::as_str)
    }
}

/// Tells whether rows of the table have a rowid.
pub(super) fn has_rowid(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare(&format!("PRAGMA main.table_list({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (schema, kind, without_rowid): (String, String, bool) =
            (row.get("schema")?, row.get("type")?, row.get("wr")?);
        if schema == "main" && kind == "table" && !without_rowid {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether a name is that of a view.
pub(super) fn is_view(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND lower(name) = ?1";
    connection.prepare_cached(sql)?.exists([name])
}

/// Tells whether a table has a column `rowid` that is not the number of its rows itself.
pub(super) fn hides_rowids(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare_cached(&format!("PRAGMA table_info({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (name, kind, key): (String, String, i64) =
            (row.get("name")?, row.get("type")?, row.get("pk")?);
        if name.eq_ignore_ascii_case("rowid") {
            return Ok(key == 0 || !kind.eq_ignore_ascii_case("INTEGER"));
        }
    }
    Ok(false)
}

/// Tells whether an index (or key) makes each (source_type, source_id) of `embeddings` unique.
pub(super) fn embeddings_are_unique(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) FROM pragma_index_list('embeddings') AS list
         WHERE list.\"unique\" = 1 AND list.partial = 0
           AND (SELECT group_concat(lower(name)) FROM
                (SELECT name FROM pragma_index_info(list.name) ORDER BY lower(name)))
               IN ('source_id,source_type', 'source_id')",
        [],
        |row| row.get::<_, i64>(0).map(|count| count > 0),
    )
}

/// Tells whether the columns hold text and an index makes each of their values unique, byte for byte.
pub(super) fn is_text_key(
    connection: &Connection,
    table: &str,
    names: &[&str],
) -> rusqlite::Result<bool> {
    let mut types = connection.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let types: Vec<(String, String)> = types
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let is_text = |name: &&str| {
        types.iter().any(|(known, kind)| {
            known.eq_ignore_ascii_case(name) && kind.eq_ignore_ascii_case("text")
        })
    };
    let wanted: BTreeSet<String> = names.iter().map(|name| format!("{name} BINARY")).collect();
    let sql = "SELECT name FROM pragma_index_list(?1) WHERE \"unique\" = 1 AND partial = 0";
    let mut indexes = connection.prepare(sql)?;
    let mut indexes = indexes.query([table])?;
    // An expression has no name.
    let sql = "SELECT lower(ifnull(name, '')) || ' ' || coll FROM pragma_index_xinfo(?1) WHERE key";
    let mut keys = connection.prepare(sql)?;
    while let Some(index) = indexes.next()? {
        let found = keys.query_map([index.get::<_, String>(0)?], |row| row.get(0))?;
        if found.collect::<Result<BTreeSet<String>, _>>()? == wanted {
            return Ok(names.iter().all(is_text));
        }
    }
    Ok(false)
}

fn quoted(name: &str) -> String {
    let mut quoted = String::new();
    push_quoted(&mut quoted, name);
    quoted
}

fn push_quoted(sql: &mut String, name: &str) {
    sql.push('"');
    for character in name.chars() {
        if character == '"' {
            sql.push('"');
        }
        sql.push(character);
    }
    sql.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_spelled_as_in_the_store_and_quoted() {
        let names = ["Id".to_owned(), "a\"b".to_owned()].into();
        let columns = Columns { table: "stm", names };
        let listed = columns.expressions(&["id", "content", "a\"b"]);
        assert_eq!(listed, r#"stm."Id", NULL, stm."a""b""#);
        assert_eq!(columns.expression("content"), "NULL");
        assert_eq!(columns.expressions(&[]), "");
    }

    #[test]
    fn only_tables_with_rowids_have_rowids() {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE stm (id, \"a\"\"b\"); CREATE VIEW seen AS SELECT id FROM stm;
                   CREATE TABLE keyed (id PRIMARY KEY) WITHOUT ROWID";
        connection.execute_batch(sql).unwrap();
        let found = ["stm", "STM", "seen", "keyed", "missing"]
            .map(|table| has_rowid(&connection, table).unwrap());
        assert_eq!(found, [true, true, false, false, false]);
        assert_eq!(Columns::of(&connection, "stm").unwrap().names(), ["id", "a\"b"]);
        assert_eq!(Columns::of(&connection, "seen").unwrap().names(), ["id"]);
        let views = ["seen", "stm", "missing"].map(|name| is_view(&connection, name).unwrap());
        assert_eq!(views, [true, false, false]);
        assert!(Columns::of(&connection, "missing").unwrap().is_empty());
    }
}
