//! New rows of the owner's `embeddings`.

use rusqlite::types::ToSql;

use super::SessionError;
use super::fts::quoted;
use super::layout::Layout;
use super::writes::Writes;

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
    /// The model's name; `None`: what the owner's table has for a default.
    pub model: Option<&'a str>,
    /// When, as the owner writes times.
    pub at: &'a str,
}

impl Writes<'_> {
    /// Tells whether a memory has a row of `embeddings`, whatever is in it.
    pub fn has_embedding_row(&self, memory_id: &str) -> Result<bool, SessionError> {
        self.query("look for an embedding", |connection| {
            let sql = "SELECT 1 FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            connection.prepare_cached(sql)?.exists([memory_id])
        })
    }

    /// Inserts the embedding of a memory that has none, into the columns that there are.
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
        let content: String = new.content.chars().take(CONTENT_CHARS).collect();
        let vector: Vec<u8> = new.vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut cells: Vec<(&str, &dyn ToSql)> = vec![
            ("source_type", &"stm"),
            ("source_id", &new.memory_id),
            ("content", &content),
            ("embedding", &vector),
            ("created_at", &new.at),
        ];
        cells.extend(id.as_ref().map(|id| ("id", id as &dyn ToSql)));
        cells.extend(new.model.as_ref().map(|model| ("model", model as &dyn ToSql)));
        cells.retain(|(column, _)| layout.embeddings.has(column));
        let columns: Vec<String> = cells.iter().map(|(column, _)| quoted(column)).collect();
        let values: Vec<&dyn ToSql> = cells.iter().map(|(_, value)| *value).collect();
        let marks = (1..=values.len()).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO embeddings({}) VALUES ({marks})", columns.join(", "));
        self.execute("insert an embedding", &sql, &*values).map(drop)
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
    /// Refuses tables that want something of an embedding that nobody here knows.
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
        let table = crate::brain_db::schema::FRESH
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
