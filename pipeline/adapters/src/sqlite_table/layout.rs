//! [`Layout`]: what of a file is read, and whether rows can be taken out of it.

use std::path::Path;

use memfold_store::origin::{OriginError, Removal, TableChoice};
use rusqlite::Connection;

use super::schema::{Schema, Table, TableKind};
use super::shapes::{IDS, Names, Shape, TEXTS, TIMES, USERS, VECTORS, recognise, shape_of};
use crate::sqlite_file::{has_vectors, quoted};

/// How memories stand in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// The system that wrote the file, where it is known.
    pub(super) system: Option<&'static str>,
    /// The table, as it is spelled.
    pub(super) table: String,
    /// The query that is read.
    pub(super) select: String,
    /// What tells a row of the table from all others; `None` where the rows are not those of one table.
    pub(super) key: Option<String>,
    /// The columns that are read, in this order behind the key.
    pub(super) columns: Vec<String>,
    pub(super) id: usize,
    pub(super) text: Vec<usize>,
    pub(super) time: Option<usize>,
    pub(super) updated: Option<usize>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) tags: Option<usize>,
    pub(super) metadata: Option<usize>,
    pub(super) vectors: Vectors,
    pub(super) model: Option<usize>,
    /// The column that marks rows as taken out.
    pub(super) flag: Option<Flag>,
    /// How rows are taken out, where somebody chose.
    pub(super) removal: Option<Removal>,
    /// Why rows are not deleted.
    pub(super) deletion_refusal: Option<String>,
    /// Why nothing is written, and what to do instead.
    pub(super) own_api: Option<[&'static str; 2]>,
    /// The full-text index that no trigger keeps in step.
    pub(super) search: Option<String>,
    /// Whether an index of texts or vectors would not know of a new or changed text.
    pub(super) has_index: bool,
    pub(super) table_info: Option<Table>,
}

/// An attribute and the column of its values.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) column: usize,
}

/// A column that marks rows, and the value as typed.
#[derive(Debug, Clone)]
pub(super) struct Flag {
    pub(super) column: usize,
    pub(super) value: String,
}

/// Where vectors are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Vectors {
    #[default]
    None,
    /// In a column: bytes, or a JSON array.
    Column(usize),
    /// In a table of sqlite-vec, by the number of the row or by the id.
    Vec0 { table: String, by_id: bool },
    /// In a table of vec1, as long as they are not packed into its index.
    Vec1 { table: String },
}

/// Why there is no layout.
enum Failure {
    Sqlite(rusqlite::Error),
    /// What is wrong with a file or a choice, with advice.
    Refused([String; 2]),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn refused<T>(reason: impl Into<String>, hint: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused([reason.into(), hint.into()]))
}

impl Layout {
    /// Finds out how memories stand in a file.
    ///
    /// # Errors
    /// When no table is recognised, or what was named is not there.
    pub(super) fn of(
        connection: &Connection,
        path: &Path,
        choice: &TableChoice,
    ) -> rusqlite::Result<Result<Self, OriginError>> {
        let schema = Schema::read(connection)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let found = Self::find(connection, &schema, choice, &name);
        match found.and_then(|layout| layout.with_removal(&schema, choice)) {
            Ok(layout) => Ok(Ok(layout)),
            Err(Failure::Sqlite(error)) => Err(error),
            Err(Failure::Refused([reason, hint])) => {
                Ok(Err(OriginError::Refused { path: path.to_owned(), reason, hint }))
            }
        }
    }

    fn find(
        connection: &Connection,
        schema: &Schema,
        choice: &TableChoice,
        file: &str,
    ) -> Result<Self, Failure> {
        let named = choice.table.as_deref();
        let shape = named.map_or_else(|| recognise(schema), |name| shape_of(schema, name));
        if let Some(shape) = shape.filter(|_| choice.id.is_none() && choice.text.is_none()) {
            return Ok(Self::of_shape(connection, schema, shape)?);
        }
        let Some(name) = named else { return Self::beside_vectors(connection, schema, file) };
        match schema.table(name) {
            Some(table) => Self::of_table(connection, schema, table, choice),
            None => unknown(schema, &format!("there is no table {name}"), file),
        }
    }

    fn of_shape(
        connection: &Connection,
        schema: &Schema,
        shape: &'static Shape,
    ) -> rusqlite::Result<Self> {
        let table = schema.table(shape.table);
        let (select, columns, key) = match (shape.query, table) {
            (Some(query), _) => {
                let statement = connection.prepare(query)?;
                let names = statement.column_names().map(str::to_owned).collect();
                let all = format!("SELECT NULL, * FROM ({query})");
                drop(statement);
                (all, names, None)
            }
            (None, Some(table)) => rows_of(table),
            (None, None) => (String::new(), Vec::new(), None),
        };
        let at = |name: &str| position(&columns, name);
        let Names { id, text, time, updated, attributes, tags, metadata, vector, model } =
            &shape.names;
        let attributes = attributes.iter().filter_map(|[name, column]| {
            Some(Attribute { name: (*name).to_owned(), column: at(column)? })
        });
        let vectors = match at(vector) {
            Some(column) => Vectors::Column(column),
            None if !vector.is_empty() && has_vectors(connection, vector)? => {
                Vectors::Vec0 { table: (*vector).to_owned(), by_id: false }
            }
            None => Vectors::None,
        };
        let flag = shape.flag.and_then(|[column, value]| {
            Some(Flag { column: at(column)?, value: value.to_owned() })
        });
        let layout = Self {
            system: Some(shape.name),
            id: at(id).unwrap_or_default(),
            text: text.iter().filter_map(|name| at(name)).collect(),
            time: at(time),
            updated: at(updated),
            attributes: attributes.collect(),
            tags: at(tags),
            metadata: at(metadata),
            model: at(model),
            flag,
            own_api: shape.own_api,
            table: shape.table.to_owned(),
            select,
            columns,
            key,
            ..Self::default()
        };
        Ok(layout.beside(schema, table, vectors))
    }

    fn of_table(
        connection: &Connection,
        schema: &Schema,
        table: &Table,
        choice: &TableChoice,
    ) -> Result<Self, Failure> {
        let name = &table.name;
        match &table.kind {
            TableKind::View => {
                let hint = format!("name one of {}", schema.listed().join(", "));
                return refused(
                    format!("{name} is a view, whose rows are those of other tables"),
                    hint,
                );
            }
            TableKind::Virtual { module } if module == "vec0" => {
                return Self::of_vec0(connection, table)?.map_or_else(
                    || {
                        refused(
                            format!("{name} is a table of sqlite-vec without a text column"),
                            "name the table of the texts that its vectors are of",
                        )
                    },
                    Ok,
                );
            }
            TableKind::Virtual { module } => {
                return refused(
                    format!("{name} is a virtual table of {module}, not one of rows"),
                    "name the table that it is an index of",
                );
            }
            TableKind::Plain | TableKind::Shadow => {}
        }
        let (select, columns, key) = rows_of(table);
        if key.is_none() {
            let reason = format!("{name} is made WITHOUT ROWID and has a key of several columns");
            return refused(reason, "such a table is not supported");
        }
        let hint = || format!("its columns are {}", columns.join(", "));
        let unknown =
            |typed: &str| Failure::Refused([format!("{name} has no column {typed}"), hint()]);
        let wanted = |typed: &Option<String>, known: &[&str]| match typed {
            Some(typed) => position(&columns, typed).map(Some).ok_or_else(|| unknown(typed)),
            None => Ok(known.iter().find_map(|name| position(&columns, name))),
        };
        let [id, text] = [wanted(&choice.id, IDS)?, wanted(&choice.text, TEXTS)?];
        let [time, user] = [wanted(&choice.time, TIMES)?, wanted(&choice.user, USERS)?];
        let is_column = choice.vector.as_deref().is_none_or(|name| table.column(name).is_some());
        let vector = if is_column { wanted(&choice.vector, VECTORS)? } else { None };
        let (Some(id), Some(text)) = (id, text) else {
            let what = if id.is_none() { "ids: --id COLUMN" } else { "texts: --text COLUMN" };
            return refused(format!("say which column of {name} has the {what}"), hint());
        };
        let vectors = match (vector, &choice.vector) {
            (Some(column), _) => Vectors::Column(column),
            (None, Some(named)) if has_vectors(connection, named)? => {
                Vectors::Vec0 { by_id: knows_ids(connection, named)?, table: named.clone() }
            }
            (None, Some(named)) => return Err(unknown(named)),
            (None, None) => companion(connection, schema, table, id)?,
        };
        let user = user.map(|column| Attribute { name: "user".to_owned(), column });
        let layout = Self {
            id,
            text: vec![text],
            time,
            attributes: user.into_iter().collect(),
            table: name.clone(),
            select,
            columns,
            key,
            ..Self::default()
        };
        Ok(layout.beside(schema, Some(table), vectors))
    }

    /// Finds the table whose texts the vectors of sqlite-vec or vec1 are of.
    fn beside_vectors(
        connection: &Connection,
        schema: &Schema,
        file: &str,
    ) -> Result<Self, Failure> {
        let is_of_vectors = |module: &str| matches!(module, "vec0" | "vec1");
        for vectors in schema.virtual_tables(is_of_vectors) {
            if let Some(layout) = Self::of_vec0(connection, vectors)? {
                return Ok(layout);
            }
        }
        let mut candidates = schema.tables.iter().filter(|table| {
            let has = |names: &[&str]| names.iter().any(|name| table.column(name).is_some());
            table.kind == TableKind::Plain && has(IDS) && has(TEXTS)
        });
        let has_vectors = schema.virtual_tables(is_of_vectors).next().is_some();
        if let (Some(only), None, true) = (candidates.next(), candidates.next(), has_vectors) {
            let layout = Self::of_table(connection, schema, only, &TableChoice::default())?;
            if layout.vectors != Vectors::None {
                return Ok(layout);
            }
        }
        unknown(schema, "no table of memories is recognised", file)
    }

    /// The texts in an auxiliary column of a table of sqlite-vec.
    fn of_vec0(connection: &Connection, table: &Table) -> rusqlite::Result<Option<Self>> {
        let arguments = table.arguments();
        let auxiliary = arguments.iter().filter_map(|argument| argument.strip_prefix('+'));
        let names: Vec<&str> =
            auxiliary.map(|column| column.split_whitespace().next().unwrap_or_default()).collect();
        let of_text =
            |wanted: &str| names.iter().position(|name| name.eq_ignore_ascii_case(wanted));
        let Some(text) = TEXTS.iter().find_map(|name| of_text(name)) else { return Ok(None) };
        if !has_vectors(connection, &table.name)? {
            return Ok(None);
        }
        let (rowids, values) = (
            quoted(&format!("{}_rowids", table.name)),
            quoted(&format!("{}_auxiliary", table.name)),
        );
        let listed: Vec<String> = (0..names.len())
            .zip(&names)
            .map(|(at, name)| format!("a.value{at:02} AS {}", quoted(name)))
            .collect();
        let select = format!(
            "SELECT r.rowid, coalesce(r.id, r.rowid) AS id, {} FROM {rowids} r
             JOIN {values} a ON a.rowid = r.rowid ORDER BY r.rowid",
            listed.join(", ")
        );
        let columns =
            ["id"].iter().chain(&names).map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let at = |known: &[&str]| known.iter().find_map(|name| position(&columns, name));
        let user = at(USERS).map(|column| Attribute { name: "user".to_owned(), column });
        Ok(Some(Self {
            system: Some("sqlite-vec"),
            text: vec![text + 1],
            time: at(TIMES),
            attributes: user.into_iter().collect(),
            vectors: Vectors::Vec0 { table: table.name.clone(), by_id: false },
            own_api: Some([
                "rows of a virtual table are changed by its own extension only",
                "write a script: --sql OUT, and run it where sqlite-vec is loaded",
            ]),
            table: table.name.clone(),
            select,
            columns,
            ..Self::default()
        }))
    }

    /// Notes what stands beside the table.
    fn beside(self, schema: &Schema, table: Option<&Table>, vectors: Vectors) -> Self {
        let Some(table) = table else { return Self { vectors, ..self } };
        let companion = match &vectors {
            Vectors::Vec0 { table, .. } | Vectors::Vec1 { table } => {
                Some(format!("the virtual table {table} is kept beside it"))
            }
            Vectors::None | Vectors::Column(_) => None,
        };
        let search = schema.search_without_trigger(&table.name).map(str::to_owned);
        Self {
            has_index: companion.is_some() || search.is_some(),
            deletion_refusal: companion.or_else(|| schema.deletion_refusal(&table.name)),
            search,
            vectors,
            table_info: Some(table.clone()),
            ..self
        }
    }

    fn with_removal(self, schema: &Schema, choice: &TableChoice) -> Result<Self, Failure> {
        let Some(Removal::Flag { column, value }) = &choice.removal else {
            return Ok(Self { removal: choice.removal.clone(), ..self });
        };
        let at = position(&self.columns, column);
        let is_own = at.is_some_and(|at| at == self.id || self.text.contains(&at));
        match at.filter(|_| !is_own && schema.table(&self.table).is_some()) {
            Some(at) => {
                let flag = Flag { column: at, value: value.clone() };
                Ok(Self { flag: Some(flag), removal: choice.removal.clone(), ..self })
            }
            None => refused(
                format!("--removed: {} has no column {column} for a mark", self.table),
                format!("its columns are {}", self.columns.join(", ")),
            ),
        }
    }

    /// Says what was found, for people.
    pub(super) fn description(&self) -> String {
        let names = |columns: &[usize]| -> String {
            let names: Vec<&str> = columns.iter().map(|at| self.columns[*at].as_str()).collect();
            names.join(" + ")
        };
        let system = self.system.map_or_else(String::new, |system| format!(" of {system}"));
        let mut text = format!(
            "table {}{system}: id {}, text {}",
            self.table,
            names(&[self.id]),
            names(&self.text)
        );
        for attribute in &self.attributes {
            text.push_str(&format!(", {} {}", attribute.name, self.columns[attribute.column]));
        }
        if let Some(time) = self.time {
            text.push_str(&format!(", time {}", names(&[time])));
        }
        text + &match &self.vectors {
            Vectors::None => "; no vectors: compared by words".to_owned(),
            Vectors::Column(column) => format!("; vectors in {}", names(&[*column])),
            Vectors::Vec0 { table, .. } | Vectors::Vec1 { table } => {
                format!("; vectors in {table}")
            }
        }
    }
}

/// The rows of a table with their keys: the query, the columns, the key.
fn rows_of(table: &Table) -> (String, Vec<String>, Option<String>) {
    let stored = table.columns.iter().filter(|column| !column.is_generated);
    let columns: Vec<String> = stored.map(|column| column.name.clone()).collect();
    let key = table.key();
    let listed: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let select = format!(
        "SELECT {}, {} FROM {}",
        key.as_deref().unwrap_or("NULL"),
        listed.join(", "),
        quoted(&table.name)
    );
    (select, columns, key)
}

fn position(columns: &[String], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.eq_ignore_ascii_case(name))
}

/// Tells whether a table of sqlite-vec has ids of its own.
fn knows_ids(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let rowids = quoted(&format!("{table}_rowids"));
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {rowids} WHERE id IS NOT NULL)");
    connection.query_row(&sql, [], |row| row.get(0))
}

/// Finds the table of vectors whose rows are those of a table.
fn companion(
    connection: &Connection,
    schema: &Schema,
    table: &Table,
    id: usize,
) -> rusqlite::Result<Vectors> {
    let stored = table.columns.iter().filter(|column| !column.is_generated);
    let names: Vec<&str> = stored.map(|column| column.name.as_str()).collect();
    let Some(key) = table.key() else { return Ok(Vectors::None) };
    for vectors in schema.virtual_tables(|module| module == "vec0") {
        if !has_vectors(connection, &vectors.name)? {
            continue;
        }
        let by_id = knows_ids(connection, &vectors.name)?;
        let rowids = quoted(&format!("{}_rowids", vectors.name));
        let on = match by_id {
            true => format!("v.id = t.{}", quoted(names[id])),
            false => format!("v.rowid = t.{key}"),
        };
        if joins(connection, &rowids, &table.name, &on)? {
            return Ok(Vectors::Vec0 { table: vectors.name.clone(), by_id });
        }
    }
    for vectors in schema.virtual_tables(|module| module == "vec1") {
        let base = format!("{}_base", vectors.name);
        let is_read = schema.table(&base).is_some_and(|base| base.has(&["id", "vector"]));
        if is_read && joins(connection, &quoted(&base), &table.name, &format!("v.id = t.{key}"))? {
            return Ok(Vectors::Vec1 { table: vectors.name.clone() });
        }
    }
    Ok(Vectors::None)
}

/// Tells whether every row of vectors has its row in a table.
fn joins(connection: &Connection, vectors: &str, table: &str, on: &str) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT count(*) > 0 AND count(*) = sum(EXISTS (SELECT 1 FROM {} t WHERE {on})) FROM {vectors} v",
        quoted(table)
    );
    Ok(connection.query_row(&sql, [], |row| row.get::<_, Option<bool>>(0))?.unwrap_or(false))
}

/// Says what was found, and the command to type, with the likeliest table and columns.
fn unknown<T>(schema: &Schema, reason: &str, file: &str) -> Result<T, Failure> {
    let plain = || schema.tables.iter().filter(|table| table.kind == TableKind::Plain);
    let known = |table: &Table, names: &[&str]| {
        names.iter().find_map(|name| table.column(name)).map(|column| column.name.clone())
    };
    let likely = plain().find(|table| known(table, TEXTS).is_some());
    let hint = match likely.or_else(|| plain().next()) {
        None => "name a file with a table of memories".to_owned(),
        Some(table) => format!(
            "name the table: memfold consolidate {file} --table {} --id {} --text {}; a brain.db has \
             a table stm",
            table.name,
            known(table, IDS).unwrap_or_else(|| "ID".to_owned()),
            known(table, TEXTS).unwrap_or_else(|| "TEXT".to_owned())
        ),
    };
    refused(format!("{reason}, found {}", schema.listed().join(", ")), hint)
}
