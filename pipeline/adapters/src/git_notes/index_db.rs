//! The owner's search index, `index.db`: vectors of memories, and what it alone knows of their status.
//!
//! Vectors are in `vec_memories`, a `vec0` table of the SQLite extension sqlite-vec.

use std::path::Path;

use rusqlite::{Connection, Row};

use crate::sqlite_file::{self, Chunk};

const VECTORS: &str = "vec_memories";

/// A memory as the index has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IndexedMemory {
    /// The id, in either form.
    pub(super) id: String,
    /// What was embedded: summary, newline, content; without white space around it.
    pub(super) text: String,
    pub(super) status: String,
    pub(super) vector: Option<Vec<f32>>,
}

/// Reads an index, `None` where there is none.
///
/// # Errors
/// When it cannot be read; the memories are in the notes, so this is a reason to go without.
pub(super) fn read_index(path: &Path) -> Result<Option<Vec<IndexedMemory>>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    sqlite_file::read(path, memories).map(Some).map_err(|error| error.to_string())
}

fn memories(connection: &Connection) -> rusqlite::Result<Vec<IndexedMemory>> {
    let has_vectors = sqlite_file::has_vectors(connection, VECTORS)?;
    let sql = if has_vectors {
        "SELECT m.id, m.summary, m.content, m.status, r.chunk_id, r.chunk_offset
         FROM memories m LEFT JOIN vec_memories_rowids r ON r.id = m.id
         ORDER BY r.chunk_id, r.chunk_offset, m.id"
    } else {
        "SELECT id, summary, content, status, NULL, NULL FROM memories ORDER BY id"
    };
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut chunk: Option<Chunk> = None;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut memory = indexed(row)?;
        if let (Some(id), Some(offset)) =
            (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?)
        {
            if chunk.as_ref().is_none_or(|chunk| chunk.id != id) {
                chunk = Chunk::read(connection, VECTORS, id)?;
            }
            memory.vector = chunk.as_ref().and_then(|chunk| chunk.vector(offset));
        }
        found.push(memory);
    }
    Ok(found)
}

fn indexed(row: &Row<'_>) -> rusqlite::Result<IndexedMemory> {
    let [summary, content, status] = [1, 2, 3].map(|column| row.get::<_, Option<String>>(column));
    let (summary, content) = (summary?.unwrap_or_default(), content?.unwrap_or_default());
    Ok(IndexedMemory {
        id: row.get(0)?,
        text: format!("{summary}\n{content}").trim().to_owned(),
        status: status?.unwrap_or_else(|| "active".to_owned()),
        vector: None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::read_index;
    use rusqlite::Connection;
    use std::path::Path;

    /// A memory to lay out in an index: id, summary, content, status, vector.
    pub(in crate::git_notes) type Row<'a> = (&'a str, &'a str, &'a str, &'a str, Option<Vec<f32>>);

    /// Places of a chunk; sqlite-vec has 1,024, a small number makes several chunks.
    const PLACES: usize = 8;

    /// Lays an index out as sqlite-vec 0.1.9 does.
    pub(in crate::git_notes) fn write_index(path: &Path, rows: &[Row<'_>]) {
        let db = Connection::open(path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT);
             INSERT INTO metadata VALUES ('schema_version', '4');
             CREATE TABLE memories (id TEXT PRIMARY KEY, commit_sha TEXT, namespace TEXT, summary TEXT, content TEXT,
                 timestamp TEXT, domain TEXT DEFAULT 'project', repo_path TEXT, spec TEXT, phase TEXT, tags TEXT,
                 status TEXT DEFAULT 'active', relates_to TEXT, created_at TEXT, updated_at TEXT);
             CREATE TABLE vec_memories_chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL,
                 validity BLOB NOT NULL, rowids BLOB NOT NULL);
             CREATE TABLE vec_memories_rowids (rowid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
                 chunk_id INTEGER, chunk_offset INTEGER);
             CREATE TABLE vec_memories_vector_chunks00 (rowid PRIMARY KEY, vectors BLOB NOT NULL);",
        )
        .unwrap();
        db.execute_batch("BEGIN").unwrap();
        for (id, summary, content, status, _) in rows {
            let sql = "INSERT INTO memories (id, summary, content, status) VALUES (?, ?, ?, ?)";
            db.execute(sql, [id, summary, content, status]).unwrap();
        }
        let vectors: Vec<_> = rows.iter().filter_map(|row| Some((row.0, row.4.clone()?))).collect();
        for (chunk, vectors) in (1..).zip(vectors.chunks(PLACES)) {
            write_chunk(&db, chunk, vectors);
        }
        db.execute_batch("COMMIT").unwrap();
    }

    fn write_chunk(db: &Connection, chunk: i64, vectors: &[(&str, Vec<f32>)]) {
        let mut validity = vec![0_u8; PLACES / 8];
        let mut blob = Vec::new();
        for (offset, (id, vector)) in vectors.iter().enumerate() {
            validity[offset / 8] |= 1 << (offset % 8);
            blob.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
            let sql =
                "INSERT INTO vec_memories_rowids (id, chunk_id, chunk_offset) VALUES (?, ?, ?)";
            db.execute(sql, (id, chunk, i64::try_from(offset).unwrap())).unwrap();
        }
        blob.resize(PLACES * 4 * vectors[0].1.len(), 0);
        let sql = "INSERT INTO vec_memories_chunks (size, validity, rowids) VALUES (?, ?, ?)";
        db.execute(sql, (i64::try_from(PLACES).unwrap(), validity, vec![0_u8; PLACES * 8]))
            .unwrap();
        db.execute("INSERT INTO vec_memories_vector_chunks00 VALUES (?, ?)", (chunk, blob))
            .unwrap();
    }

    #[test]
    fn vectors_of_several_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let ids: Vec<String> = (0..20).map(|n| format!("decisions:abc{n:04}:0")).collect();
        let vector = |n: usize| vec![n as f32, 0.5, -1.0];
        let rows: Vec<Row<'_>> = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.as_str(), "s", "c ", "active", (n != 3).then(|| vector(n))))
            .collect();
        write_index(&path, &rows);
        let mut read = read_index(&path).unwrap().unwrap();
        read.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(read.len(), 20);
        for (n, memory) in read.iter().enumerate() {
            assert_eq!((memory.id.as_str(), memory.text.as_str()), (ids[n].as_str(), "s\nc"));
            assert_eq!(memory.vector, (n != 3).then(|| vector(n)));
        }
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["index.db"], "reading leaves no file behind");
    }

    #[test]
    fn freed_places_and_broken_chunks_have_no_vector() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let rows = [
            ("a", "", "", "active", Some(vec![1.0, 2.0])),
            ("b", "", "", "active", Some(vec![f32::NAN, 2.0])),
        ];
        write_index(&path, &rows);
        let vectors = || -> Vec<_> {
            read_index(&path).unwrap().unwrap().into_iter().map(|memory| memory.vector).collect()
        };
        assert_eq!(vectors(), [Some(vec![1.0, 2.0]), None]);
        let db = Connection::open(&path).unwrap();
        db.execute("UPDATE vec_memories_chunks SET validity = x'02'", []).unwrap();
        assert_eq!(vectors(), [None, None]);
        db.execute_batch("UPDATE vec_memories_chunks SET validity = x'03'; UPDATE vec_memories_vector_chunks00 SET vectors = x'00'")
            .unwrap();
        assert_eq!(vectors(), [None, None]);
        db.execute("DROP TABLE vec_memories_vector_chunks00", []).unwrap();
        assert_eq!(vectors(), [None, None]);
        drop(db);
        std::fs::write(&path, "not a database").unwrap();
        assert!(read_index(&path).is_err());
        assert_eq!(read_index(&folder.path().join("none.db")), Ok(None));
    }

    /// A file that sqlite-vec itself wrote, with each vector as JSON in the content of its memory.
    #[test]
    #[ignore = "needs a file of sqlite-vec, named by MEMFOLD_VEC0_INDEX"]
    fn a_real_index_is_read() {
        let path = std::env::var_os("MEMFOLD_VEC0_INDEX").unwrap();
        let read = read_index(Path::new(&path)).unwrap().unwrap();
        assert!(!read.is_empty());
        for memory in read {
            let expected: Vec<f32> =
                serde_json::from_str(&memory.text[memory.text.find('[').unwrap()..]).unwrap();
            assert_eq!(memory.vector, Some(expected), "{}", memory.id);
        }
    }
}
