//! [`Layout`]: the memories of a file and whether rows can be taken out of it; from the [`Schema`], the tables of the file
//! and the side effects of a change of their rows, and from `SHAPES`, the tables of known systems.

use memfold_store::origin::{Removal, TableChoice};
use rusqlite::{Connection, Row};

use super::Stop;
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
    /// The unique key of a row; `None` where the rows are not of one table.
    pub(super) key: Option<String>,
    /// The columns that are read, in this order behind the key.
    pub(super) columns: Vec<String>,
    pub(super) id: usize,
    pub(super) text: Vec<usize>,
    pub(super) time: Option<usize>,
    pub(super) updated: Option<usize>,
    /// Attributes, each with the column of its values.
    pub(super) attributes: Vec<(&'static str, usize)>,
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
    /// Why nothing is written, with advice.
    pub(super) own_api: Option<[&'static str; 2]>,
    /// The full-text index that no trigger keeps in step.
    pub(super) search: Option<String>,
    /// Whether an index of texts or vectors would not know of a new or changed text.
    pub(super) has_index: bool,
    pub(super) table_info: Option<Table>,
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

fn refused<T>(reason: impl Into<String>, hint: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Refused([reason.into(), hint.into()]))
}

impl Layout {
    /// Finds out how memories stand in the file of a name.
    ///
    /// # Errors
    /// When no table is recognised, or a named one is not there.
    pub(super) fn of(
        connection: &Connection,
        file: &str,
        choice: &TableChoice,
    ) -> Result<Self, Stop> {
        let schema = Schema::read(connection)?;
        Self::find(connection, &schema, choice, file)?.with_removal(&schema, choice)
    }

    fn find(
        connection: &Connection,
        schema: &Schema,
        choice: &TableChoice,
        file: &str,
    ) -> Result<Self, Stop> {
        let named = choice.table.as_deref();
        let is_named =
            |shape: &&Shape| named.is_none_or(|name| shape.table.eq_ignore_ascii_case(name));
        let shape = recognise(schema).filter(is_named);
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
        let rows = match shape.query {
            Some(query) => {
                let columns =
                    connection.prepare(query)?.column_names().map(str::to_owned).collect();
                let select = format!("SELECT NULL, * FROM ({query})");
                Self { select, columns, ..Self::default() }
            }
            None => table.map(rows_of).unwrap_or_default(),
        };
        let at = |name: &str| position(&rows.columns, name);
        let attributes =
            shape.attributes.iter().filter_map(|[name, column]| Some((*name, at(column)?)));
        let vectors = match at(shape.vector) {
            Some(column) => Vectors::Column(column),
            None if !shape.vector.is_empty() && has_vectors(connection, shape.vector)? => {
                Vectors::Vec0 { table: shape.vector.to_owned(), by_id: false }
            }
            None => Vectors::None,
        };
        let flag = shape.flag.and_then(|[column, value]| {
            Some(Flag { column: at(column)?, value: value.to_owned() })
        });
        let layout = Self {
            system: Some(shape.name),
            id: at(shape.id).unwrap_or_default(),
            text: shape.text.iter().filter_map(|name| at(name)).collect(),
            time: at(shape.time),
            updated: at(shape.updated),
            attributes: attributes.collect(),
            tags: at(shape.tags),
            metadata: at(shape.metadata),
            model: at(shape.model),
            flag,
            own_api: shape.own_api,
            table: shape.table.to_owned(),
            ..rows
        };
        Ok(layout.beside(schema, table, vectors))
    }

    fn of_table(
        connection: &Connection,
        schema: &Schema,
        table: &Table,
        choice: &TableChoice,
    ) -> Result<Self, Stop> {
        let name = &table.name;
        match &table.kind {
            TableKind::View => {
                let reason = format!("{name} is a view, whose rows are those of other tables");
                return refused(reason, format!("name one of {}", schema.listed().join(", ")));
            }
            TableKind::Virtual { module } if module == "vec0" => {
                let reason = format!("{name} is a table of sqlite-vec without a text column");
                let hint = "name the table of the texts that its vectors are of";
                return Self::of_vec0(connection, table)?.map_or_else(|| refused(reason, hint), Ok);
            }
            TableKind::Virtual { module } => {
                let reason = format!("{name} is a virtual table of {module}, not one of rows");
                return refused(reason, "name the table that it is an index of");
            }
            TableKind::Plain | TableKind::Shadow => {}
        }
        let rows = rows_of(table);
        let columns = &rows.columns;
        let Some(key) = &rows.key else {
            let reason = format!("{name} is made WITHOUT ROWID and has a key of several columns");
            return refused(reason, "such a table is not supported");
        };
        let hint = || format!("its columns are {}", columns.join(", "));
        let unknown =
            |typed: &str| Stop::Refused([format!("{name} has no column {typed}"), hint()]);
        let wanted = |typed: &Option<String>, known: &[&str]| match typed {
            Some(typed) => position(columns, typed).map(Some).ok_or_else(|| unknown(typed)),
            None => Ok(known.iter().find_map(|name| position(columns, name))),
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
            (None, None) => companion(connection, schema, table, &columns[id], key)?,
        };
        let user = user.map(|column| ("user", column));
        let layout =
            Self { id, text: vec![text], time, attributes: user.into_iter().collect(), ..rows };
        Ok(layout.beside(schema, Some(table), vectors))
    }

    /// Finds the table with the texts of the vectors of sqlite-vec or vec1.
    fn beside_vectors(connection: &Connection, schema: &Schema, file: &str) -> Result<Self, Stop> {
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
        let columns: Vec<String> = ["id"].iter().chain(&names).map(|name| (*name).into()).collect();
        let at = |known: &[&str]| known.iter().find_map(|name| position(&columns, name));
        let Some(text) = at(TEXTS) else { return Ok(None) };
        if !has_vectors(connection, &table.name)? {
            return Ok(None);
        }
        let part = |ending: &str| quoted(&format!("{}_{ending}", table.name));
        let listed = names.iter().enumerate();
        let listed: Vec<String> =
            listed.map(|(at, name)| format!("a.value{at:02} AS {}", quoted(name))).collect();
        let select = format!(
            "SELECT r.rowid, coalesce(r.id, r.rowid) AS id, {} FROM {} r
             JOIN {} a ON a.rowid = r.rowid ORDER BY r.rowid",
            listed.join(", "),
            part("rowids"),
            part("auxiliary")
        );
        let user = at(USERS).map(|column| ("user", column));
        Ok(Some(Self {
            system: Some("sqlite-vec"),
            text: vec![text],
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

    /// Notes the indexes beside the table.
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

    fn with_removal(self, schema: &Schema, choice: &TableChoice) -> Result<Self, Stop> {
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

    /// Describes the layout for people.
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
        for (name, column) in &self.attributes {
            text.push_str(&format!(", {name} {}", self.columns[*column]));
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

/// The rows of a table with their keys.
fn rows_of(table: &Table) -> Layout {
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
    Layout { table: table.name.clone(), select, columns, key, ..Layout::default() }
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

/// Finds the table of the vectors of a table.
fn companion(
    connection: &Connection,
    schema: &Schema,
    table: &Table,
    id: &str,
    key: &str,
) -> rusqlite::Result<Vectors> {
    for vectors in schema.virtual_tables(|module| module == "vec0") {
        if !has_vectors(connection, &vectors.name)? {
            continue;
        }
        let by_id = knows_ids(connection, &vectors.name)?;
        let rowids = quoted(&format!("{}_rowids", vectors.name));
        let on = match by_id {
            true => format!("v.id = t.{}", quoted(id)),
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

/// Lists the tables, and the command to type, with the likeliest table and columns.
fn unknown<T>(schema: &Schema, reason: &str, file: &str) -> Result<T, Stop> {
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

/// A system's table.
struct Shape {
    /// The system.
    name: &'static str,
    /// The table of its memories.
    table: &'static str,
    /// Columns that it has.
    needs: &'static [&'static str],
    /// Tables that stand beside it.
    beside: &'static [&'static str],
    /// The query that is read in place of the table.
    query: Option<&'static str>,
    id: &'static str,
    /// The texts, one below the other.
    text: &'static [&'static str],
    time: &'static str,
    updated: &'static str,
    /// Attributes with the columns of their values.
    attributes: &'static [[&'static str; 2]],
    /// Tags: a JSON array, or words between commas.
    tags: &'static str,
    /// A JSON object of further attributes.
    metadata: &'static str,
    /// A column of floats, or a table of sqlite-vec.
    vector: &'static str,
    model: &'static str,
    /// The column by which it marks rows itself, with the value, as `--removed` takes it.
    flag: Option<[&'static str; 2]>,
    /// Why the file is never written, with advice.
    own_api: Option<[&'static str; 2]>,
}

/// Documents with their metadata; vectors only as long as Chroma's queue has them.
const CHROMA: &str = "SELECT c.name || '/' || e.embedding_id AS id, c.name AS collection, d.string_value AS document,
    e.created_at AS created_at, q.vector AS vector,
    (SELECT json_group_object(m.key, coalesce(m.string_value, m.int_value, m.float_value, m.bool_value))
     FROM embedding_metadata m WHERE m.id = e.id AND m.key <> 'chroma:document') AS metadata
  FROM embeddings e JOIN segments s ON s.id = e.segment_id JOIN collections c ON c.id = s.collection
  LEFT JOIN embedding_metadata d ON d.id = e.id AND d.key = 'chroma:document'
  LEFT JOIN (SELECT substr(topic, -36) AS topic, id, vector, max(seq_id) FROM embeddings_queue
             WHERE vector IS NOT NULL GROUP BY 1, 2) q ON q.id = e.embedding_id AND q.topic = c.id
  ORDER BY e.id";

/// The last event of each memory.
const MEM0: &str = "SELECT memory_id, new_memory, created_at, updated_at, actor_id, role
  FROM (SELECT *, row_number() OVER (PARTITION BY memory_id
          ORDER BY coalesce(updated_at, created_at) DESC, rowid DESC) AS nth FROM history)
  WHERE nth = 1 AND event <> 'DELETE' AND NOT coalesce(is_deleted, 0)";

const SHAPE: Shape = Shape {
    name: "",
    table: "",
    needs: &[],
    beside: &[],
    query: None,
    id: "id",
    text: &[],
    time: "",
    updated: "",
    attributes: &[],
    tags: "",
    metadata: "",
    vector: "",
    model: "",
    flag: None,
    own_api: None,
};

const LETTA: Shape = Shape {
    name: "Letta",
    table: "archival_passages",
    needs: &["text", "embedding", "is_deleted"],
    text: &["text"],
    time: "created_at",
    updated: "updated_at",
    attributes: &[["user", "archive_id"], ["user", "agent_id"]],
    tags: "tags",
    vector: "embedding",
    flag: Some(["is_deleted", "1"]),
    ..SHAPE
};

const OPENCLAW: Shape = Shape {
    name: "OpenClaw",
    table: "memory_index_chunks",
    needs: &["path", "start_line", "text", "embedding"],
    beside: &["memory_index_sources"],
    text: &["text"],
    updated: "updated_at",
    attributes: &[["file", "path"], ["source", "source"]],
    vector: "embedding",
    model: "model",
    own_api: Some([
        "it is OpenClaw's index of Markdown files, which it makes anew",
        "consolidate the files: memfold consolidate ~/.openclaw/workspace",
    ]),
    ..SHAPE
};

/// Every known table, in the order in which they are looked for.
const SHAPES: &[Shape] = &[
    Shape {
        name: "claude-mem",
        table: "observations",
        needs: &["memory_session_id", "project", "narrative", "facts"],
        beside: &["sdk_sessions"],
        text: &["text", "title", "subtitle", "narrative", "facts"],
        time: "created_at",
        attributes: &[["project", "project"], ["type", "type"]],
        tags: "concepts",
        ..SHAPE
    },
    Shape {
        name: "mcp-memory-service",
        table: "memories",
        needs: &["content_hash", "content", "memory_type"],
        id: "content_hash",
        text: &["content"],
        time: "created_at",
        updated: "updated_at",
        attributes: &[["type", "memory_type"]],
        tags: "tags",
        vector: "memory_embeddings",
        flag: Some(["deleted_at", "now"]),
        ..SHAPE
    },
    Shape {
        name: "Chroma",
        table: "embeddings",
        needs: &["segment_id", "embedding_id"],
        beside: &["embedding_metadata", "embeddings_queue", "segments", "collections"],
        query: Some(CHROMA),
        text: &["document"],
        time: "created_at",
        attributes: &[["collection", "collection"]],
        metadata: "metadata",
        vector: "vector",
        own_api: Some([
            "Chroma keeps its own index beside the table",
            "list the ids (--ids OUT) and delete them with collection.delete(ids=…)",
        ]),
        ..SHAPE
    },
    OPENCLAW,
    Shape { table: "chunks", beside: &["files"], ..OPENCLAW },
    LETTA,
    Shape { table: "agent_passages", ..LETTA },
    Shape {
        name: "mem0",
        table: "history",
        needs: &["memory_id", "new_memory", "event"],
        query: Some(MEM0),
        id: "memory_id",
        text: &["new_memory"],
        time: "created_at",
        updated: "updated_at",
        attributes: &[["user", "actor_id"]],
        own_api: Some([
            "it is mem0's history; the memories are in its vector store",
            "list the ids (--ids OUT) and delete them with memory.delete(id)",
        ]),
        ..SHAPE
    },
];

/// Returns the system that made the file.
fn recognise(schema: &Schema) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| {
        let has_columns = schema.table(shape.table).is_some_and(|table| table.has(shape.needs));
        has_columns && shape.beside.iter().all(|name| schema.table(name).is_some())
    })
}

/// Names under which ids are kept.
const IDS: &[&str] = &["id", "uuid", "memory_id", "key"];
/// Names under which texts are kept, the most telling first.
const TEXTS: &[&str] =
    &["content", "text", "memory", "document", "contents", "body", "fact", "value", "note"];
/// Names under which times are kept.
const TIMES: &[&str] = &["created_at", "created", "timestamp", "inserted_at", "date"];
/// Names under which users are kept.
pub(super) const USERS: &[&str] = &["user_id", "user", "owner", "agent_id"];
/// Names under which vectors are kept.
const VECTORS: &[&str] = &["embedding", "vector", "embeddings"];

/// Names that the number of a row has.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// The schema of a file.
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

    /// Returns the virtual tables of some modules.
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

    /// Returns the full-text index of the texts of a table.
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

    /// Returns the arguments of a virtual table, for example `embedding float[384]`.
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
