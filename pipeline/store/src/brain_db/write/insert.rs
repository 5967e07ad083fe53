//! New rows of the owner's tables.

use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{OptionalExtension as _, Row};

use crate::brain_db::own::archive::archived_image;
use crate::brain_db::own::merged::rewrite_merged;
use crate::brain_db::write::changes::put_in;
use crate::brain_db::write::layout::{Layout, Search};
use crate::brain_db::write::rows::{drop_entry, indexed_words, quoted, row};
use crate::brain_db::write::session::{Session, SessionError, Writes};
use memfold_core::journal::RowImage;
use memfold_core::merge::Words;
use memfold_core::value::Value;

/// The confidence of a new memory.
const CONFIDENCE: f64 = 1.0;

/// The content of a new row of `stm`.
#[derive(Debug, Clone, Copy)]
pub struct NewRow<'a> {
    /// The id.
    pub id: &'a str,
    /// The text.
    pub content: &'a str,
    /// As stored.
    pub categories: &'a str,
    /// The importance.
    pub importance: f64,
    /// Where it came from.
    pub source: &'a str,
    /// When, as the owner writes times.
    pub at: &'a str,
}

impl Writes<'_> {
    /// Inserts a memory, searchable where `indexed`; columns that the table lacks are left out, others keep their
    /// defaults.
    pub fn insert_memory(
        &self,
        layout: &Layout,
        row: &NewRow<'_>,
        indexed: bool,
    ) -> Result<(), SessionError> {
        let cells: [(&str, Value); 12] = [
            ("id", row.id.into()),
            ("content", row.content.into()),
            ("categories", row.categories.into()),
            ("importance", Value::Real(row.importance)),
            ("access_count", Value::Integer(0)),
            ("created_at", row.at.into()),
            ("updated_at", row.at.into()),
            ("source", row.source.into()),
            // As the owner's own writer has it, independent of the columns' defaults.
            ("confidence", Value::Real(CONFIDENCE)),
            ("last_accessed", row.at.into()),
            ("validation_count", Value::Integer(0)),
            ("contradiction_count", Value::Integer(0)),
        ];
        let cells = cells.into_iter().map(|(name, value)| (name.to_owned(), value));
        put_in(self, layout, &RowImage { rowid: None, cells: cells.collect() }, indexed, None)
    }

    /// Returns model and bytes of the vector that came last, if any did.
    pub fn last_embedding(
        &self,
        layout: &Layout,
    ) -> Result<Option<(Option<String>, i64)>, SessionError> {
        if layout.embeddings.is_empty() || !layout.embeddings_have_rowid {
            return Ok(None);
        }
        let model = layout.embeddings.expression("model");
        let sql = format!(
            "SELECT iif(typeof({model}) = 'text', {model}, NULL), length(CAST(embedding AS BLOB))
             FROM embeddings NOT INDEXED WHERE source_type = 'stm' ORDER BY rowid DESC LIMIT 1"
        );
        self.query("look for an embedding", |connection| {
            use rusqlite::OptionalExtension as _;
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    /// Returns the bytes of the vector of a model that came last, if one of the latest rows is of that model and a blob.
    pub fn last_vector_bytes_of(
        &self,
        layout: &Layout,
        model: &str,
    ) -> Result<Option<i64>, SessionError> {
        const ROWS_MAX: u32 = 4_096;
        if layout.embeddings.is_empty()
            || !layout.embeddings_have_rowid
            || !layout.embeddings.has("model")
        {
            return Ok(None);
        }
        let sql = format!(
            "SELECT length(embedding) FROM
                 (SELECT model, embedding FROM embeddings NOT INDEXED WHERE source_type = 'stm'
                  ORDER BY rowid DESC LIMIT {ROWS_MAX})
             WHERE model = ?1 AND typeof(embedding) = 'blob' LIMIT 1"
        );
        self.query("look for an embedding", |connection| {
            use rusqlite::OptionalExtension as _;
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([model], |row| row.get(0)).optional()
        })
    }

    /// Counts one more access of a memory, and nothing else.
    pub fn count_access(
        &self,
        layout: &Layout,
        id: &str,
        count: i64,
        at: &str,
    ) -> Result<(), SessionError> {
        let accessed =
            if layout.memories.has("last_accessed") { ", last_accessed = ?3" } else { "" };
        let sql =
            format!("UPDATE stm SET access_count = ?2{accessed} WHERE id = ?1 AND ?3 IS NOT NULL");
        self.execute("count an access", &sql, rusqlite::params![id, count, at]).map(drop)
    }
}

/// A memory to import, its cells as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedMemory {
    /// The id.
    pub id: String,
    /// The text.
    pub content: String,
    /// The categories as JSON.
    pub categories: String,
    /// The importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made.
    pub created_at: String,
    /// When it was changed.
    pub updated_at: Option<String>,
    /// When it expires.
    pub expires_at: Option<String>,
    /// Where it came from.
    pub source: String,
}

impl Writes<'_> {
    /// Tells whether rows were moved to an archive table of ours.
    pub fn has_archive(&self) -> Result<bool, SessionError> {
        self.query("look for memfold_archive", |connection| {
            let sql =
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memfold_archive'";
            connection.prepare_cached(sql)?.exists([])
        })
    }

    /// Returns the bytes of a memory's text, from `stm` or the archive; `None` where the memory
    /// does not exist.
    pub fn text_of(&self, id: &str, has_archive: bool) -> Result<Option<Vec<u8>>, SessionError> {
        let found = self.query("look for a memory", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT content FROM stm WHERE id = ?1")?;
            let bytes = |row: &Row<'_>| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                    _ => Vec::new(),
                })
            };
            statement.query_row([id], bytes).optional()
        })?;
        if found.is_some() {
            return Ok(found);
        }
        if !has_archive {
            return Ok(None);
        }
        let image = archived_image(self, id)?;
        Ok(image.map(|image| match image.get("content") {
            Some(Value::Text(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }))
    }

    /// Inserts a memory and makes it searchable; columns that the table lacks are left out, others keep their defaults.
    pub fn insert_imported(
        &self,
        layout: &Layout,
        memory: &ImportedMemory,
    ) -> Result<(), SessionError> {
        let cells: [(&str, Option<Value>); 10] = [
            ("id", Some(memory.id.as_str().into())),
            ("content", Some(memory.content.as_str().into())),
            ("categories", Some(memory.categories.as_str().into())),
            ("importance", Some(Value::Real(memory.importance))),
            ("access_count", Some(Value::Integer(memory.access_count))),
            ("created_at", Some(memory.created_at.as_str().into())),
            ("updated_at", memory.updated_at.as_deref().map(Into::into)),
            ("expires_at", memory.expires_at.as_deref().map(Into::into)),
            ("source", Some(memory.source.as_str().into())),
            ("confidence", Some(Value::Real(CONFIDENCE))),
        ];
        let given = cells.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        put_in(self, layout, &RowImage { rowid: None, cells: given.collect() }, true, None)
    }
}

/// How much of its text stands beside an embedding, as the owner has it.
const CONTENT_CHARS: usize = 1_000;
const ID_DIGITS: usize = 12;

/// A vector for a memory.
#[derive(Debug, Clone, Copy)]
pub struct NewEmbedding<'a> {
    /// The memory's id.
    pub memory_id: &'a str,
    /// The memory's whole text, which the vector was made of.
    pub content: &'a str,
    /// The vector, finite and not zero.
    pub vector: &'a [f32],
    /// The model's name; `None`: the default of the owner's table.
    pub model: Option<&'a str>,
    /// When, as the owner writes times.
    pub at: &'a str,
}

/// The values of a row of `embeddings` beside its keys.
struct EmbeddingValues {
    content: String,
    vector: Vec<u8>,
}

impl EmbeddingValues {
    fn of(new: &NewEmbedding<'_>) -> Self {
        Self {
            content: new.content.chars().take(CONTENT_CHARS).collect(),
            vector: new.vector.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    fn cells<'a>(&'a self, new: &'a NewEmbedding<'_>) -> Vec<(&'static str, &'a dyn ToSql)> {
        let mut cells: Vec<(&str, &dyn ToSql)> =
            vec![("content", &self.content), ("embedding", &self.vector), ("created_at", &new.at)];
        cells.extend(new.model.as_ref().map(|model| ("model", model as &dyn ToSql)));
        cells
    }
}

impl Writes<'_> {
    /// Tells whether a memory has a row of `embeddings`, with any content.
    pub fn has_embedding_row(&self, memory_id: &str) -> Result<bool, SessionError> {
        self.query("look for an embedding", |connection| {
            let sql = "SELECT 1 FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            connection.prepare_cached(sql)?.exists([memory_id])
        })
    }

    /// Inserts the embedding of a memory that has none, into the existing columns.
    pub fn insert_embedding(
        &self,
        layout: &Layout,
        new: &NewEmbedding<'_>,
    ) -> Result<(), SessionError> {
        layout.check_takes_embeddings()?;
        let id = match layout.embedding_ids_are_texts {
            true => Some(self.free_embedding_id(new)?),
            // The table numbers its rows itself, or has no ids.
            false => None,
        };
        let values = EmbeddingValues::of(new);
        let mut cells = values.cells(new);
        cells.extend([("source_type", &"stm" as &dyn ToSql), ("source_id", &new.memory_id)]);
        cells.extend(id.as_ref().map(|id| ("id", id as &dyn ToSql)));
        cells.retain(|(column, _)| layout.embeddings.has(column));
        let columns: Vec<String> = cells.iter().map(|(column, _)| quoted(column)).collect();
        let values: Vec<&dyn ToSql> = cells.iter().map(|(_, value)| *value).collect();
        let marks = (1..=values.len()).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO embeddings({}) VALUES ({marks})", columns.join(", "));
        self.execute("insert an embedding", &sql, &*values).map(drop)
    }

    /// Puts another vector in the place of a memory's; `false`: it has none.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn replace_embedding(
        &self,
        layout: &Layout,
        new: &NewEmbedding<'_>,
    ) -> Result<bool, SessionError> {
        layout.check_takes_embeddings()?;
        let values = EmbeddingValues::of(new);
        let mut cells = values.cells(new);
        cells.retain(|(column, _)| layout.embeddings.has(column));
        let columns: Vec<String> = (1..)
            .zip(&cells)
            .map(|(n, (column, _))| format!("{} = ?{n}", quoted(column)))
            .collect();
        let mut values: Vec<&dyn ToSql> = cells.iter().map(|(_, value)| *value).collect();
        values.push(&new.memory_id);
        let sql = format!(
            "UPDATE embeddings SET {} WHERE source_type = 'stm' AND source_id = ?{}",
            columns.join(", "),
            values.len()
        );
        self.execute("replace an embedding", &sql, &*values).map(|changed| changed > 0)
    }

    /// Makes an id in the owner's manner that no row has.
    fn free_embedding_id(&self, new: &NewEmbedding<'_>) -> Result<String, SessionError> {
        self.query("look for an embedding's id", |connection| {
            let mut seed = format!("{}\0{}\0{}", new.memory_id, new.at, new.content);
            let mut taken = connection.prepare_cached("SELECT 1 FROM embeddings WHERE id = ?1")?;
            loop {
                let digest = blake3::hash(seed.as_bytes()).to_hex();
                let id = format!("emb_{}", &digest[..ID_DIGITS]);
                if !taken.exists([&id])? {
                    return Ok(id);
                }
                seed.push('+');
            }
        })
    }
}

impl Layout {
    /// Refuses tables with required columns of embeddings that are unknown here.
    pub fn check_takes_embeddings(&self) -> Result<(), SessionError> {
        let refused =
            |reason: String| SessionError::Refused { what: "insert an embedding", reason };
        if self.embeddings.is_empty() {
            let columns = "with the columns source_type, source_id and embedding";
            return Err(refused(format!("the store has no table `embeddings` {columns}")));
        }
        match self.wanted_of_embeddings.iter().find(|column| !is_known(column)) {
            Some(column) => Err(refused(format!(
                "`embeddings.{column}` must not be NULL and has no default, and memfold does not know it"
            ))),
            None => Ok(()),
        }
    }
}

fn is_known(column: &str) -> bool {
    ["id", "source_type", "source_id", "content", "embedding", "model", "created_at"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(column))
}

/// The number of rows of a memory in the owner's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traces {
    /// Its row.
    pub(crate) rows: u64,
    /// Its vectors.
    pub(crate) embeddings: u64,
    /// Its search entry.
    pub(crate) search_entries: u64,
    /// Rows of `atoms` that name it.
    pub(crate) references: u64,
}

impl Writes<'_> {
    /// Counts the rows of a memory in the owner's tables.
    pub(crate) fn traces(&self, layout: &Layout, id: &str) -> Result<Traces, SessionError> {
        let found = self.query("read a memory", |connection| {
            row(connection, &layout.memories, layout.has_rowid, "id", id)
        })?;
        let embeddings = if layout.embeddings.is_empty() {
            0
        } else {
            self.query("count embeddings", |connection| {
                let sql =
                    "SELECT count(*) FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
                connection.prepare_cached(sql)?.query_row([id], |row| row.get::<_, i64>(0))
            })?
        };
        let has_entry = match (found.as_ref().and_then(|row| row.rowid), &layout.search) {
            (Some(rowid), Search::ByHand { .. }) => self.query("look for a search entry", |c| {
                crate::brain_db::write::rows::is_indexed(c, rowid)
            })?,
            (Some(_), Search::ByTriggers) => true,
            _ => false,
        };
        Ok(Traces {
            rows: found.is_some().into(),
            embeddings: embeddings.unsigned_abs(),
            search_entries: has_entry.into(),
            references: self.references(layout, &[id])?.len() as u64,
        })
    }

    /// Removes a memory, its vectors and its search entry from the owner's tables.
    pub(crate) fn erase(&self, layout: &Layout, id: &str) -> Result<(), SessionError> {
        let found = self.query("read a memory", |connection| {
            row(connection, &layout.memories, layout.has_rowid, "id", id)
        })?;
        if let Some((rowid, image)) = found.and_then(|image| Some((image.rowid?, image))) {
            match indexed_words(self, layout, id, &image, None)? {
                Words::Earlier(words) => drop_entry(self, layout, rowid, &words)?,
                Words::None | Words::Now | Words::Unknown => {
                    drop_entry(self, layout, rowid, &image)?;
                }
            }
        }
        if !layout.atoms.is_empty() {
            let sql = "UPDATE atoms SET source_memory_id = NULL WHERE source_memory_id = ?1";
            self.execute("take a name out of atoms", sql, [id])?;
        }
        if !layout.embeddings.is_empty() {
            let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            self.execute("remove an embedding", sql, [id])?;
        }
        self.execute("remove a memory", "DELETE FROM stm WHERE id = ?1", [id]).map(drop)
    }
}

impl Session {
    /// Makes SQLite overwrite deleted bytes with zeros from now on.
    pub(crate) fn overwrite_deleted(&self) -> Result<(), SessionError> {
        self.connection
            .pragma_update(None, "secure_delete", true)
            .map_err(|error| self.explain("overwrite what is deleted", &error))
    }

    /// Rewrites the search index without removed entries, and empties the write-ahead log. `false`:
    /// another process still reads the log, which keeps old pages until it is done.
    pub(crate) fn settle(&self) -> Result<bool, SessionError> {
        let (is_by_hand, has_tables) = self.read::<_, SessionError>(|reads| {
            Ok((reads.layout()?.keeps_search_by_hand(), reads.has_own_tables()?))
        })?;
        if has_tables {
            self.write(rewrite_merged)?;
        }
        if is_by_hand {
            let sql = "INSERT INTO stm_fts(stm_fts) VALUES ('optimize')";
            self.write(|writes| writes.execute("optimize the search index", sql, []))?;
        }
        self.empty_log()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const MEMORY: &str = "CREATE TABLE stm(id TEXT PRIMARY KEY, content TEXT);";

    fn inserted(tables: &str, new: &NewEmbedding<'_>) -> Result<Connection, SessionError> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("{MEMORY}{tables}")).unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        writes.insert_embedding(&writes.layout()?, new)?;
        Ok(connection)
    }

    fn new<'a>(content: &'a str, model: Option<&'a str>) -> NewEmbedding<'a> {
        let at = "2026-06-01T12:00:00.000000";
        NewEmbedding { memory_id: "stm_1", content, vector: &[0.5, -2.0], model, at }
    }

    #[test]
    fn an_embedding_looks_like_the_owners() {
        let text = "ä".repeat(1_200);
        let table = crate::brain_db::create::FRESH_TABLES
            .split_inclusive(';')
            .find(|statement| statement.contains("CREATE TABLE embeddings"))
            .unwrap();
        let connection = inserted(table, &new(&text, None)).unwrap();
        let row = connection
            .query_row("SELECT * FROM embeddings", [], |row| {
                Ok((
                    row.get::<_, String>("id")?,
                    row.get::<_, String>("source_type")?,
                    row.get::<_, String>("source_id")?,
                    row.get::<_, String>("content")?,
                    row.get::<_, Vec<u8>>("embedding")?,
                    (row.get::<_, String>("model")?, row.get::<_, String>("created_at")?),
                ))
            })
            .unwrap();
        let (id, source_type, source_id, content, embedding, (model, created_at)) = row;
        let digits = id.strip_prefix("emb_").unwrap();
        assert!(digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert_eq!((&*source_type, &*source_id), ("stm", "stm_1"));
        assert_eq!(content, "ä".repeat(1_000));
        assert_eq!(embedding, [0, 0, 0, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!((&*model, &*created_at), ("all-MiniLM-L6-v2", "2026-06-01T12:00:00.000000"));
    }

    #[test]
    fn an_id_that_is_taken_is_not_taken_again() {
        let connection = inserted(
            "CREATE TABLE embeddings(id TEXT PRIMARY KEY, source_type, source_id, embedding);",
            &new("x", None),
        )
        .unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        assert!(writes.has_embedding_row("stm_1").unwrap());
        assert!(!writes.has_embedding_row("stm_2").unwrap());
        writes.insert_embedding(&writes.layout().unwrap(), &new("x", None)).unwrap();
        let sql = "SELECT count(DISTINCT id) FROM embeddings";
        assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    }

    #[test]
    fn only_columns_that_exist_are_written() {
        for table in [
            "CREATE TABLE embeddings(source_type, source_id, embedding);",
            "CREATE TABLE embeddings(ID INTEGER PRIMARY KEY, source_type, source_id, embedding);",
            "CREATE TABLE embeddings(source_type, source_id, embedding, more NOT NULL DEFAULT 1);",
        ] {
            let connection = inserted(table, &new("x", Some("m"))).unwrap();
            let sql = "SELECT count(*) FROM embeddings WHERE source_id = 'stm_1'";
            assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
        }
    }

    #[test]
    fn a_table_that_wants_more_is_refused() {
        let strange = "CREATE TABLE embeddings(source_type, source_id, embedding, norm NOT NULL);";
        for (table, words) in [
            (strange, "`embeddings.norm` must not be NULL and has no default"),
            ("", "no table `embeddings`"),
            ("CREATE TABLE embeddings(source_id, vector);", "no table `embeddings`"),
        ] {
            let error = inserted(table, &new("x", None)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
