//! The habits of stores that many programs wrote for years, given to a new store deterministically.

use std::collections::BTreeMap;
use std::path::Path;

use memfold_core::SkipReason;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

/// Columns that later versions and other tools of the owner added.
const LATER_COLUMNS: &str = "
ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
ALTER TABLE stm ADD COLUMN last_accessed INTEGER;
ALTER TABLE stm ADD COLUMN validation_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN contradiction_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN compressed_from TEXT;
ALTER TABLE stm ADD COLUMN archived_by TEXT;
ALTER TABLE stm ADD COLUMN timestamp TEXT;
ALTER TABLE embeddings ADD COLUMN confidence REAL;
ALTER TABLE embeddings ADD COLUMN access_count INTEGER DEFAULT 1;
";

/// The rows of a store, and the rows that a reader must leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WildStore {
    /// Rows of the memory table.
    pub rows_total: u64,
    /// Reasons a reader meets, as [`Snapshot::skipped`](memfold_core::Snapshot::skipped) counts them.
    pub left_out: BTreeMap<SkipReason, u64>,
}

/// Gives a new store of live rows every habit of stores that many programs wrote for years: its rows in other spellings of
/// the same, and some dozens of odd rows after them.
///
/// # Errors
/// When SQLite refuses, for example because the store has the habits already.
pub fn make_wild(path: &Path) -> rusqlite::Result<WildStore> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    connection.execute_batch(LATER_COLUMNS)?;
    let rows: i64 = connection.query_row("SELECT count(*) FROM stm", [], |row| row.get(0))?;
    let mut shape = VectorShape { model: "all-MiniLM-L6-v2".to_owned(), dim: 384 };
    let mut without_vector = 0;
    for row in 0..rows.unsigned_abs() {
        match spell(&connection, row)? {
            Some(found) => shape = found,
            None => without_vector += 1,
        }
    }
    let mut left_out = BTreeMap::new();
    if without_vector > 0 {
        left_out.insert(SkipReason::EmbeddingMissing, without_vector);
    }
    let written = WildStore { rows_total: rows.unsigned_abs(), left_out };
    let mut writer = OddWriter { connection: &connection, shape: &shape, written };
    writer.unreadable_rows()?;
    writer.rows_that_are_no_candidates()?;
    writer.odd_but_live_rows()?;
    writer.odd_embeddings()?;
    writer.other_spaces()?;
    let written = writer.written;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(written)
}

/// Spells the memory number `row` in one of the ways that mean the same; returns the shape of its vector.
fn spell(connection: &Connection, row: u64) -> rusqlite::Result<Option<VectorShape>> {
    let rowid = row as i64 + 1;
    let odd = row % 2 == 1;
    let mut found = connection.prepare_cached(
        "SELECT id, content, categories, importance, access_count, created_at, source FROM stm WHERE rowid = ?1",
    )?;
    let mut rows = found.query([rowid])?;
    let Some(memory) = rows.next()? else { return Ok(None) };
    let (id, content): (String, String) = (memory.get(0)?, memory.get(1)?);
    let (categories, created_at): (String, String) = (memory.get(2)?, memory.get(5)?);
    let usual = [Value::Real(1.0), Value::Integer(0), text("agent")];
    let mut spelled: [Value; 3] = [memory.get(3)?, memory.get(4)?, memory.get(6)?];
    for (value, usual) in spelled.iter_mut().zip(usual) {
        if odd && *value == usual {
            *value = Value::Null;
        }
    }
    let [importance, access_count, source] = spelled;
    connection
        .prepare_cached(
            "UPDATE stm SET categories = ?2, importance = ?3, access_count = ?4, created_at = ?5, source = ?6,
                            last_accessed = ?7
             WHERE rowid = ?1",
        )?
        .execute(params![
            rowid,
            spell_categories(row, &categories),
            importance,
            access_count,
            spell_time(row, &created_at),
            source,
            spell_access(row, &created_at),
        ])?;
    if row % 9 == 8 {
        connection
            .prepare_cached(
                "INSERT INTO stm_fts (stm_fts, rowid, content) VALUES ('delete', ?1, ?2)",
            )?
            .execute(params![rowid, content])?;
    }
    spell_embedding(connection, row, &id)
}

fn spell_embedding(
    connection: &Connection,
    row: u64,
    id: &str,
) -> rusqlite::Result<Option<VectorShape>> {
    let mut found = connection.prepare_cached(
        "SELECT content, embedding, model FROM embeddings WHERE source_type = 'stm' AND source_id = ?1",
    )?;
    let mut rows = found.query([id])?;
    let Some(embedding) = rows.next()? else { return Ok(None) };
    let (content, bytes): (String, Vec<u8>) = (embedding.get(0)?, embedding.get(1)?);
    let model: Option<String> = embedding.get(2)?;
    let (floats, _) = bytes.as_chunks::<4>();
    let vector: Vec<f32> = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let chars = [Some(1000), Some(500), None][(row % 3) as usize];
    let embedded: Option<String> = chars.map(|chars| content.chars().take(chars).collect());
    connection
        .prepare_cached(
            "UPDATE embeddings SET content = ?2, embedding = ?3, model = ?4
             WHERE source_type = 'stm' AND source_id = ?1",
        )?
        .execute(params![
            id,
            embedded,
            spell_vector(row, &vector),
            model.as_ref().filter(|_| row % 11 != 10),
        ])?;
    let model = model.unwrap_or_else(|| "all-MiniLM-L6-v2".to_owned());
    Ok(Some(VectorShape { model, dim: vector.len() }))
}

fn spell_categories(row: u64, written: &str) -> Value {
    let quotable = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let categories: Vec<String> = serde_json::from_str(written).unwrap_or_default();
    match (row % 4, &categories[..]) {
        (1, [single]) if quotable(single) => text(single),
        (2, [single]) if quotable(single) => Value::Text(format!("\"{single}\"")),
        (3, many) => Value::Text(serde_json::json!(many).to_string()),
        _ => text(written),
    }
}

/// Only naive spellings, which need no zone to mean the same.
fn spell_time(row: u64, text: &str) -> String {
    match row % 4 {
        1 => text.replacen('T', " ", 1),
        2 if text.len() == "2026-02-21T11:12:02".len() => format!("{text}.000000"),
        3 => format!(" {text}\n"),
        _ => text.to_owned(),
    }
}

fn spell_vector(row: u64, vector: &[f32]) -> Value {
    match row % 8 {
        5 => Value::Blob(vector.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect()),
        7 => {
            let numbers: Vec<_> = vector.iter().map(|v| f64::from(*v).to_string()).collect();
            Value::Text(format!("[{}]", numbers.join(", ")))
        }
        _ => blob(vector),
    }
}

fn blob(vector: &[f32]) -> Value {
    Value::Blob(vector.iter().flat_map(|component| component.to_le_bytes()).collect())
}

/// The column is declared INTEGER, yet one writer puts text into it.
fn spell_access(row: u64, created_at: &str) -> Value {
    if row.is_multiple_of(2) {
        Value::Integer(1_760_000_000 + row as i64)
    } else {
        text(created_at)
    }
}

/// Model and dimension of the last memory's vector; odd rows follow them.
#[derive(Debug)]
struct VectorShape {
    model: String,
    dim: usize,
}

impl VectorShape {
    /// A vector unlike any other: two waves with lengths that depend on `seed`.
    fn vector(&self, seed: usize) -> Vec<f32> {
        let wave = |i: usize| ((i * (2 * seed + 3)) as f32 * 0.37).sin() + 0.01;
        let values: Vec<f32> = (0..self.dim).map(wave).collect();
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.iter().map(|value| value / norm).collect()
    }
}

/// An odd row; unset fields have the usual values.
struct Odd {
    id: Value,
    content: Value,
    categories: Value,
    created_at: &'static str,
    source: Value,
    expires_at: Value,
    archived_by: Value,
}

fn usual(id: &str) -> Odd {
    Odd {
        id: id.to_owned().into(),
        content: format!("The odd row {id} says something of its own.").into(),
        categories: r#"["general"]"#.to_owned().into(),
        created_at: "2026-01-05T08:30:00.125000",
        source: "agent".to_owned().into(),
        expires_at: Value::Null,
        archived_by: Value::Null,
    }
}

fn text(value: &str) -> Value {
    value.to_owned().into()
}

struct OddWriter<'a> {
    connection: &'a Connection,
    shape: &'a VectorShape,
    written: WildStore,
}

impl OddWriter<'_> {
    fn unreadable_rows(&mut self) -> rusqlite::Result<()> {
        use SkipReason::{ContentMissing, IdBlob, IdNull, InvalidUtf8};
        self.row(Odd { id: Value::Null, ..usual("null_1") }, &[IdNull])?;
        self.row(Odd { id: Value::Null, ..usual("null_2") }, &[IdNull])?;
        self.row(Odd { id: Value::Blob(vec![1, 2, 3]), ..usual("blob") }, &[IdBlob])?;
        self.row(Odd { content: text(""), ..usual("wild_empty") }, &[ContentMissing])?;
        self.row(Odd { content: text(" \n\t"), ..usual("wild_blank") }, &[ContentMissing])?;
        let bytes = Value::Blob(b"bytes".to_vec());
        self.row(Odd { content: bytes, ..usual("wild_bytes") }, &[ContentMissing])?;
        for column in ["content", "id"] {
            let id = format!("wild_invalid_{column}");
            self.row(usual(&id), &[InvalidUtf8])?;
            let sql = format!("UPDATE stm SET {column} = CAST(?1 AS TEXT) WHERE id = ?2");
            self.connection.execute(&sql, params![b"broken \xff\xfe text".as_slice(), id])?;
        }
        // The embedding of a left-out row is not an orphan.
        self.embedding("wild_empty", blob(&self.shape.vector(1)), None)
    }

    fn rows_that_are_no_candidates(&mut self) -> rusqlite::Result<()> {
        use SkipReason::{Archived, ConsolidationRecord, Expired, Merged};
        let marked = text(r#"["archived", "archive/general"]"#);
        let source = |source: &str, id: &str| Odd { source: text(source), ..usual(id) };
        self.row(Odd { categories: marked.clone(), ..usual("wild_marked") }, &[Archived])?;
        self.row(source("archived:low_utility", "wild_low"), &[Archived])?;
        let by = text("5b0f9d4e-1111-4222-8333-abcdefabcdef");
        self.row(Odd { archived_by: by, ..usual("wild_by") }, &[Archived])?;
        self.row(source("archived:merged_into:wild_survivor", "wild_ghost_1"), &[Merged])?;
        let json = r#"archived:{"merged_into": "wild_survivor", "run_id": "r", "previous_source": "manual"}"#;
        self.row(source(json, "wild_ghost_2"), &[Merged])?;
        self.row(Odd { categories: marked, ..usual("wild_ghost_3") }, &[Merged])?;
        let flag = Odd {
            content: text(r#"{"type": "contradiction", "ids": ["wild_a", "wild_b"]}"#),
            categories: text(r#"["contradictions", "consolidation"]"#),
            ..source("consolidation:contradiction:00112233aabbccdd", "wild_flag")
        };
        self.row(flag, &[ConsolidationRecord])?;
        let expires = |at: Value, id: &str| Odd { expires_at: at, ..usual(id) };
        self.row(expires(text("2020-01-01T00:00:00"), "wild_expired_1"), &[Expired])?;
        self.row(expires(Value::Integer(1_600_000_000), "wild_expired_2"), &[Expired])?;
        let survivor = r#"consolidation:{"merged_from": ["wild_survivor", "wild_ghost_1", "wild_ghost_3", "wild_gone"], "previous_source": "user"}"#;
        self.row(source(survivor, "wild_survivor"), &[])?;
        for (seed, id) in
            (2..).zip(["wild_survivor", "wild_ghost_1", "wild_ghost_2", "wild_ghost_3"])
        {
            self.embedding(id, blob(&self.shape.vector(seed)), None)?;
        }
        Ok(())
    }

    fn odd_but_live_rows(&mut self) -> rusqlite::Result<()> {
        use SkipReason::{CreatedAtUnreadable, EmbeddingMissing};
        for (id, created_at) in [("wild_yesterday", "yesterday"), ("wild_no_time", "")] {
            let odd = Odd { created_at, ..usual(id) };
            self.row(odd, &[CreatedAtUnreadable, EmbeddingMissing])?;
        }
        for (id, created_at) in [
            ("wild_utc", "2026-02-21T11:12:02Z"),
            ("wild_ms_utc", "2026-02-21T11:12:02.285Z"),
            ("wild_offset", "2026-02-21T11:12:02.285411+00:00"),
            ("wild_short_offset", "2026-02-21 11:12:02-0800"),
            ("wild_day", "2026-02-21"),
            ("wild_epoch", "1771672322"),
            ("wild_future", "2999-12-31T23:59:59"),
        ] {
            self.row(Odd { created_at, ..usual(id) }, &[EmbeddingMissing])?;
        }
        for (id, categories) in [
            ("wild_garbage", text(r#"["open"#)),
            ("wild_nested", text(r#"[["sop", ["coding"]], 3, null]"#)),
            ("wild_escapes", text(r#"["caf\u00e9", "\ud83d\ude00"]"#)),
            ("wild_no_categories", Value::Null),
            ("wild_blob_categories", Value::Blob(vec![0, 159])),
        ] {
            self.row(Odd { categories, ..usual(id) }, &[EmbeddingMissing])?;
        }
        let later = Value::Integer(32_000_000_000);
        self.row(Odd { expires_at: later, ..usual("wild_expires_late") }, &[EmbeddingMissing])?;
        let ansi = text("<script>alert(1)</script> \u{1b}[31mred\u{1b}[0m *bold* \u{202e}");
        self.row(Odd { content: ansi, ..usual("wild_markup") }, &[EmbeddingMissing])?;
        // Stored as text, because the column says so.
        self.row(Odd { id: Value::Integer(4711), ..usual("wild_number") }, &[])?;
        self.embedding("4711", blob(&self.shape.vector(6)), None)?;
        self.twice_saved()
    }

    /// One tool of the owner stores each text twice, milliseconds apart.
    fn twice_saved(&mut self) -> rusqlite::Result<()> {
        let content = text("The nightly backup of the wild store runs at 03:40.");
        for (id, created_at) in [
            ("wild_twice_1", "2026-01-06T10:00:00.100000"),
            ("wild_twice_2", "2026-01-06T10:00:00.104000"),
        ] {
            self.row(Odd { content: content.clone(), created_at, ..usual(id) }, &[])?;
            self.embedding(id, blob(&self.shape.vector(7)), None)?;
        }
        Ok(())
    }

    fn odd_embeddings(&mut self) -> rusqlite::Result<()> {
        use SkipReason as Why;
        let mut not_a_number = self.shape.vector(8);
        not_a_number[0] = f32::NAN;
        let mut infinite = self.shape.vector(9);
        infinite[0] = f32::INFINITY;
        let zero = vec![-0.0; self.shape.dim];
        for (id, embedding, reason) in [
            ("wild_cut", Value::Blob(vec![7; 4 * self.shape.dim - 1]), Why::EmbeddingLength),
            ("wild_no_bytes", Value::Blob(Vec::new()), Why::EmbeddingLength),
            ("wild_nan", blob(&not_a_number), Why::EmbeddingNotFinite),
            ("wild_infinite", blob(&infinite), Why::EmbeddingNotFinite),
            ("wild_zero", blob(&zero), Why::EmbeddingZero),
            ("wild_words", text("no vector"), Why::EmbeddingUnreadable),
            ("wild_one_number", Value::Integer(1), Why::EmbeddingUnreadable),
        ] {
            self.row(usual(id), &[reason])?;
            self.embedding(id, embedding, None)?;
        }
        self.row(usual("wild_edited"), &[Why::EmbeddingStale])?;
        self.embedding("wild_edited", blob(&self.shape.vector(10)), Some("as it was"))?;
        for orphan in ["wild_deleted_1", "wild_deleted_2"] {
            self.embedding(orphan, blob(&self.shape.vector(11)), None)?;
            self.leave_out(Why::EmbeddingOrphan);
        }
        self.connection.execute(
            "INSERT INTO embeddings (id, source_type, source_id, embedding, created_at)
             VALUES ('emb_message', 'message', 'msg_1', ?1, '2026-01-05T08:30:00')",
            [blob(&self.shape.vector(12))],
        )?;
        Ok(())
    }

    fn other_spaces(&mut self) -> rusqlite::Result<()> {
        let small = VectorShape { model: "other-model".into(), dim: 64 };
        for (seed, id) in [(13, "wild_other_1"), (14, "wild_other_2")] {
            self.row(usual(id), &[])?;
            self.embedding(id, blob(&small.vector(seed)), None)?;
            self.set_model(id, &small.model)?;
        }
        let wide = VectorShape { model: self.shape.model.clone(), dim: self.shape.dim + 3 };
        self.row(usual("wild_wide"), &[])?;
        self.embedding("wild_wide", blob(&wide.vector(15)), None)
    }

    fn row(&mut self, odd: Odd, reasons: &[SkipReason]) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO stm (id, content, categories, created_at, source, expires_at, archived_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                odd.id,
                odd.content,
                odd.categories,
                odd.created_at,
                odd.source,
                odd.expires_at,
                odd.archived_by,
            ])?;
        self.written.rows_total += 1;
        reasons.iter().for_each(|reason| self.leave_out(*reason));
        Ok(())
    }

    fn leave_out(&mut self, reason: SkipReason) {
        *self.written.left_out.entry(reason).or_insert(0) += 1;
    }

    fn embedding(&self, id: &str, embedding: Value, content: Option<&str>) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
                 VALUES (?1, 'stm', ?2, ?3, ?4, ?5, '2026-01-05T08:30:00+00:00')",
            )?
            .execute(params![format!("emb_{id}"), id, content, embedding, self.shape.model])?;
        Ok(())
    }

    fn set_model(&self, id: &str, model: &str) -> rusqlite::Result<()> {
        self.connection
            .execute("UPDATE embeddings SET model = ?1 WHERE source_id = ?2", [model, id])?;
        Ok(())
    }
}
