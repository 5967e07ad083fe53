//! [`Schema`]: the tables of a SQLite file, and what else happens when a row of one changes.

use rusqlite::{Connection, Row};

use crate::sqlite_file::quoted;

/// Names that the number of a row has.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// What a file holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema {
    pub(super) tables: Vec<Table>,
    triggers: Vec<Trigger>,
}

/// A table, a view or a virtual table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) kind: TableKind,
    /// How it was made.
    pub(super) sql: String,
    pub(super) columns: Vec<Column>,
    has_rowid: bool,
    /// Tables that its foreign keys refer to.
    refers_to: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TableKind {
    Plain,
    View,
    /// Made by an extension, or a part of SQLite that works like one.
    Virtual {
        module: String,
    },
    /// Where a virtual table keeps its data.
    Shadow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// The declared type, in capitals.
    pub(super) declared: String,
    pub(super) must_be_given: bool,
    pub(super) is_generated: bool,
    key_position: i64,
}

#[derive(Debug, Clone)]
struct Trigger {
    name: String,
    table: String,
    sql: String,
}

impl Schema {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema
                   WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut schema = Self::default();
        while let Some(row) = rows.next()? {
            let (kind, name, table, sql): (String, String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            match kind.as_str() {
                "trigger" => schema.triggers.push(Trigger { name, table, sql }),
                "view" => schema.tables.push(Table::new(name, TableKind::View, sql)),
                "table" => {
                    let kind = module(&sql)
                        .map_or(TableKind::Plain, |module| TableKind::Virtual { module });
                    schema.tables.push(Table::new(name, kind, sql));
                }
                _ => {}
            }
        }
        schema.name_shadows();
        for table in &mut schema.tables {
            if matches!(table.kind, TableKind::Plain | TableKind::Shadow) {
                table.read_columns(connection)?;
            }
        }
        Ok(schema)
    }

    /// A virtual table `V` keeps its data in tables `V_…`.
    fn name_shadows(&mut self) {
        let parents: Vec<String> =
            self.virtual_tables(|_| true).map(|table| format!("{}_", table.name)).collect();
        for table in &mut self.tables {
            let is_shadow = parents.iter().any(|parent| table.name.starts_with(parent));
            if table.kind == TableKind::Plain && is_shadow {
                table.kind = TableKind::Shadow;
            }
        }
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// Returns the virtual tables whose module a test takes.
    pub(super) fn virtual_tables(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(move |table| match &table.kind {
            TableKind::Virtual { module } => is_wanted(module),
            _ => false,
        })
    }

    /// Returns the tables that a person could mean, with their columns: `memories (id, content)`.
    pub(super) fn listed(&self) -> Vec<String> {
        let plain = self.tables.iter().filter(|table| table.kind == TableKind::Plain);
        plain.map(|table| format!("{} ({})", table.name, table.names().join(", "))).collect()
    }

    /// Returns why rows of a table cannot be deleted and put back as they were, where other tables would notice.
    pub(super) fn deletion_refusal(&self, table: &str) -> Option<String> {
        let is_ours = |name: &str| name.eq_ignore_ascii_case(table);
        let trigger = self.triggers.iter().find(|trigger| {
            let sql = trigger.sql.to_ascii_lowercase();
            is_ours(&trigger.table) && (sql.contains("delete") || sql.contains("insert"))
        });
        let referring = || {
            let refers = |other: &&Table| other.refers_to.iter().any(|name| is_ours(name));
            self.tables.iter().find(refers)
        };
        if let Some(search) = self.search_of(table) {
            return Some(format!("the virtual table {search} is kept beside it"));
        }
        if let Some(trigger) = trigger {
            return Some(format!("the trigger {} runs when its rows change", trigger.name));
        }
        referring().map(|other| format!("the table {} refers to it by a foreign key", other.name))
    }

    /// Returns the full-text index whose texts are in a table.
    fn search_of(&self, table: &str) -> Option<&str> {
        let is_full_text = |module: &str| module.starts_with("fts");
        let mut indexes = self.virtual_tables(is_full_text);
        indexes
            .find(|index| content_of(&index.sql).as_deref() == Some(&*table.to_ascii_lowercase()))
            .map(|index| index.name.as_str())
    }

    /// Returns the full-text index of a table that no trigger keeps in step.
    pub(super) fn search_without_trigger(&self, table: &str) -> Option<&str> {
        let search = self.search_of(table)?;
        let keeps = |trigger: &Trigger| {
            trigger.table.eq_ignore_ascii_case(table)
                && trigger.sql.to_ascii_lowercase().contains(&search.to_ascii_lowercase())
        };
        (!self.triggers.iter().any(keeps)).then_some(search)
    }
}

impl Table {
    fn new(name: String, kind: TableKind, sql: String) -> Self {
        let (columns, refers_to) = (Vec::new(), Vec::new());
        Self { name, kind, sql, columns, has_rowid: true, refers_to }
    }

    fn read_columns(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT name, upper(type), \"notnull\" AND dflt_value IS NULL, hidden > 1, pk
                   FROM pragma_table_xinfo(?1)";
        let column = |row: &Row<'_>| {
            Ok(Column {
                name: row.get(0)?,
                declared: row.get(1)?,
                must_be_given: row.get(2)?,
                is_generated: row.get(3)?,
                key_position: row.get(4)?,
            })
        };
        let mut statement = connection.prepare_cached(sql)?;
        self.columns = statement.query_map([&self.name], column)?.collect::<Result<_, _>>()?;
        let sql = "SELECT wr = 0 FROM pragma_table_list WHERE schema = 'main' AND name = ?1";
        self.has_rowid = connection.query_row(sql, [&self.name], |row| row.get(0))?;
        let sql = "SELECT \"table\" FROM pragma_foreign_key_list(?1)";
        let mut statement = connection.prepare_cached(sql)?;
        self.refers_to =
            statement.query_map([&self.name], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// Returns a column as it is spelled.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.column(name).is_some())
    }

    /// Returns the SQL that tells a row from all others; `None` where there is nothing short.
    pub(super) fn key(&self) -> Option<String> {
        if self.has_rowid {
            let free = ROWIDS.iter().find(|name| self.column(name).is_none());
            return free.map(|name| (*name).to_owned()).or_else(|| self.integer_key());
        }
        let mut keys = self.columns.iter().filter(|column| column.key_position > 0);
        match (keys.next(), keys.next()) {
            (Some(only), None) => Some(quoted(&only.name)),
            _ => None,
        }
    }

    /// The column that is the number of the row.
    fn integer_key(&self) -> Option<String> {
        let mut keys = self.columns.iter().filter(|column| column.key_position > 0);
        let only = keys.next().filter(|column| column.declared == "INTEGER")?;
        keys.next().is_none().then(|| quoted(&only.name))
    }

    /// Tells whether a column is the number of the row, so that SQLite gives a value where none is given.
    pub(super) fn numbers_itself(&self, column: &str) -> bool {
        self.has_rowid && self.integer_key() == Some(quoted(column))
    }

    /// Returns the arguments of a virtual table, such as `embedding float[384]`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let Some((_, rest)) = self.sql.split_once('(') else { return Vec::new() };
        let rest = rest.rsplit_once(')').map_or(rest, |(inner, _)| inner);
        let mut depth = 0_i32;
        let parts = rest.split(|character| {
            depth += match character {
                '[' | '(' => 1,
                ']' | ')' => -1,
                _ => 0,
            };
            character == ',' && depth == 0
        });
        parts.map(|part| part.trim().to_owned()).collect()
    }
}

/// The module of a virtual table, in small letters.
fn module(sql: &str) -> Option<String> {
    let lower = sql.to_ascii_lowercase();
    let rest = lower.trim_start().strip_prefix("create virtual table")?;
    let (_, rest) = rest.split_once("using")?;
    let name: String = rest
        .trim_start()
        .chars()
        .take_while(|character| character.is_ascii_alphanumeric() || *character == '_')
        .collect();
    Some(name)
}

/// The table that a full-text index takes its texts from, in small letters.
fn content_of(sql: &str) -> Option<String> {
    let lower = sql.to_ascii_lowercase();
    let (_, rest) = lower.split(',').map(str::trim).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let name = name.rsplit(['(', ' ', '\n']).find(|word| !word.is_empty())?;
        (name == "content").then_some((name, value))
    })?;
    let name = rest.trim().trim_end_matches(')').trim();
    Some(name.trim_matches(['\'', '"', '`', '[', ']']).to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Schema, TableKind, content_of, module};

    #[test]
    fn virtual_tables_are_read_from_their_sql() {
        let sql = "CREATE VIRTUAL TABLE docs using vec0(id text primary key, embedding float[3], +body text)";
        assert_eq!(module(sql).as_deref(), Some("vec0"));
        assert_eq!(module("CREATE TABLE t (using vec0)"), None);
        let search = "CREATE VIRTUAL TABLE f USING fts5(\n title, text,\n content='Observations',\n content_rowid='id')";
        assert_eq!(content_of(search).as_deref(), Some("observations"));
        assert_eq!(
            content_of("CREATE VIRTUAL TABLE f USING fts5(content, content=memories)").as_deref(),
            Some("memories")
        );
        assert_eq!(content_of("CREATE VIRTUAL TABLE f USING fts5(content)"), None);
        assert_eq!(content_of("CREATE VIRTUAL TABLE f USING fts5(a, content='')"), None);
    }

    #[test]
    fn what_else_a_deletion_would_change_is_named() {
        let tables = "CREATE TABLE m (id INTEGER PRIMARY KEY, body TEXT);";
        for (more, expected) in [
            ("", None),
            ("CREATE TABLE tags (memory REFERENCES M(id));", Some("the table tags refers to it")),
            (
                "CREATE VIRTUAL TABLE s USING fts5(body, content='m', content_rowid='id');",
                Some("the virtual table s is kept beside it"),
            ),
            (
                "CREATE TABLE log (x); CREATE TRIGGER gone AFTER DELETE ON m BEGIN INSERT INTO log VALUES (old.id); END;",
                Some("the trigger gone runs"),
            ),
            (
                "CREATE TABLE o (x); CREATE TRIGGER other AFTER DELETE ON o BEGIN SELECT 1; END;",
                None,
            ),
        ] {
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            connection.execute_batch(&format!("{tables}{more}")).unwrap();
            let schema = Schema::read(&connection).unwrap();
            let found = schema.deletion_refusal("m");
            match expected {
                None => assert_eq!(found, None, "{more}"),
                Some(part) => assert!(found.clone().unwrap().starts_with(part), "{found:?}"),
            }
            let shadows = schema.tables.iter().filter(|table| table.kind == TableKind::Shadow);
            assert_eq!(shadows.count() > 0, more.contains("fts5"), "{more}");
        }
    }
}
