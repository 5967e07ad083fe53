//! The habits of stores that many programs wrote for years, mixed in deterministically.

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::brain_db::create::{NewMemory, Spelled, WrittenStore, blob, embedding_id};
use memfold_core::SkipReason;
use memfold_core::row::categories_to_json;

/// Spells the memory number `row` in one of the ways that mean the same.
pub(crate) fn spell(row: u64, memory: &NewMemory<'_>) -> Spelled {
    let null_if = |default: bool, value: Value| if default { Value::Null } else { value };
    let odd = row % 2 == 1;
    Spelled {
        categories: spell_categories(row, memory.categories),
        importance: null_if(odd && is_one(memory.importance), memory.importance.into()),
        access_count: null_if(odd && memory.access_count == 0, memory.access_count.into()),
        created_at: spell_time(row, memory.created_at).into(),
        source: null_if(odd && memory.source == "agent", memory.source.to_owned().into()),
        embedding: memory.vector.map_or(Value::Null, |vector| spell_vector(row, vector)),
        embedded_chars: [Some(1000), Some(500), None][(row % 3) as usize],
        model: memory.model.filter(|_| row % 11 != 10).map(str::to_owned),
        last_accessed: Some(spell_access(row, memory.created_at)),
        in_fts: row % 9 != 8,
    }
}

fn is_one(value: f64) -> bool {
    value.to_bits() == 1.0_f64.to_bits()
}

fn spell_categories(row: u64, categories: &[&str]) -> Value {
    let quotable = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    match (row % 4, categories) {
        (1, [single]) if quotable(single) => (*single).to_owned().into(),
        (2, [single]) if quotable(single) => format!("\"{single}\"").into(),
        (3, many) => serde_json::json!(many).to_string().into(),
        _ => categories_to_json(categories).into(),
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
        5 => vector.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect::<Vec<u8>>().into(),
        7 => {
            let numbers: Vec<_> = vector.iter().map(|v| f64::from(*v).to_string()).collect();
            format!("[{}]", numbers.join(", ")).into()
        }
        _ => blob(vector).into(),
    }
}

/// The column is declared INTEGER, yet one writer puts text into it.
fn spell_access(row: u64, created_at: &str) -> Value {
    if row.is_multiple_of(2) {
        Value::Integer(1_760_000_000 + row as i64)
    } else {
        created_at.to_owned().into()
    }
}

/// Model and dimension of the pushed vectors; odd rows follow them.
#[derive(Debug)]
pub(crate) struct VectorShape {
    model: String,
    dim: usize,
}

impl Default for VectorShape {
    fn default() -> Self {
        Self { model: "all-MiniLM-L6-v2".into(), dim: 384 }
    }
}

impl VectorShape {
    pub(crate) fn learn(&mut self, memory: &NewMemory<'_>) {
        if let Some(vector) = memory.vector {
            self.dim = vector.len();
        }
        if let Some(model) = memory.model
            && self.model != model
        {
            self.model = model.to_owned();
        }
    }

    /// A vector unlike any other: two waves with lengths that depend on `seed`.
    fn vector(&self, seed: usize) -> Vec<f32> {
        let wave = |i: usize| ((i * (2 * seed + 3)) as f32 * 0.37).sin() + 0.01;
        let values: Vec<f32> = (0..self.dim).map(wave).collect();
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.iter().map(|value| value / norm).collect()
    }
}

/// How many odd rows there are, and which reasons they give.
#[derive(Debug, Default)]
pub(crate) struct OddRows {
    rows: u64,
    reasons: Vec<SkipReason>,
}

impl OddRows {
    pub(crate) fn add_to(self, written: &mut WrittenStore) {
        written.rows_total += self.rows;
        for reason in self.reasons {
            *written.left_out.entry(reason).or_insert(0) += 1;
        }
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

/// Writes the odd rows behind the pushed ones.
pub(crate) fn write_odd_rows(
    connection: &Connection,
    shape: &VectorShape,
) -> rusqlite::Result<OddRows> {
    let mut writer = OddWriter { connection, shape, odd: OddRows::default() };
    writer.unreadable_rows()?;
    writer.rows_that_are_no_candidates()?;
    writer.odd_but_live_rows()?;
    writer.odd_embeddings()?;
    writer.other_spaces()?;
    Ok(writer.odd)
}

struct OddWriter<'a> {
    connection: &'a Connection,
    shape: &'a VectorShape,
    odd: OddRows,
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
        self.embedding("wild_empty", blob(&self.shape.vector(1)).into(), None)
    }

    fn rows_that_are_no_candidates(&mut self) -> rusqlite::Result<()> {
        use SkipReason::{Archived, ConsolidationRecord, Expired, Folded};
        let marked = text(r#"["archived", "archive/general"]"#);
        let source = |source: &str, id: &str| Odd { source: text(source), ..usual(id) };
        self.row(Odd { categories: marked.clone(), ..usual("wild_marked") }, &[Archived])?;
        self.row(source("archived:low_utility", "wild_low"), &[Archived])?;
        let by = text("5b0f9d4e-1111-4222-8333-abcdefabcdef");
        self.row(Odd { archived_by: by, ..usual("wild_by") }, &[Archived])?;
        self.row(source("archived:merged_into:wild_survivor", "wild_ghost_1"), &[Folded])?;
        let json = r#"archived:{"merged_into": "wild_survivor", "run_id": "r", "previous_source": "manual"}"#;
        self.row(source(json, "wild_ghost_2"), &[Folded])?;
        self.row(Odd { categories: marked, ..usual("wild_ghost_3") }, &[Folded])?;
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
            self.embedding(id, blob(&self.shape.vector(seed)).into(), None)?;
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
        self.embedding("4711", blob(&self.shape.vector(6)).into(), None)?;
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
            self.embedding(id, blob(&self.shape.vector(7)).into(), None)?;
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
            ("wild_nan", blob(&not_a_number).into(), Why::EmbeddingNotFinite),
            ("wild_infinite", blob(&infinite).into(), Why::EmbeddingNotFinite),
            ("wild_zero", blob(&zero).into(), Why::EmbeddingZero),
            ("wild_words", text("no vector"), Why::EmbeddingUnreadable),
            ("wild_one_number", Value::Integer(1), Why::EmbeddingUnreadable),
        ] {
            self.row(usual(id), &[reason])?;
            self.embedding(id, embedding, None)?;
        }
        self.row(usual("wild_edited"), &[Why::EmbeddingStale])?;
        self.embedding("wild_edited", blob(&self.shape.vector(10)).into(), Some("as it was"))?;
        for orphan in ["wild_deleted_1", "wild_deleted_2"] {
            self.embedding(orphan, blob(&self.shape.vector(11)).into(), None)?;
            self.odd.reasons.push(Why::EmbeddingOrphan);
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
            self.embedding(id, blob(&small.vector(seed)).into(), None)?;
            self.set_model(id, &small.model)?;
        }
        let wide = VectorShape { model: self.shape.model.clone(), dim: self.shape.dim + 3 };
        self.row(usual("wild_wide"), &[])?;
        self.embedding("wild_wide", blob(&wide.vector(15)).into(), None)
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
        self.odd.rows += 1;
        self.odd.reasons.extend(reasons);
        Ok(())
    }

    fn embedding(&self, id: &str, embedding: Value, content: Option<&str>) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
                 VALUES (?1, 'stm', ?2, ?3, ?4, ?5, '2026-01-05T08:30:00+00:00')",
            )?
            .execute(params![embedding_id(id), id, content, embedding, self.shape.model])?;
        Ok(())
    }

    fn set_model(&self, id: &str, model: &str) -> rusqlite::Result<()> {
        self.connection
            .execute("UPDATE embeddings SET model = ?1 WHERE source_id = ?2", [model, id])?;
        Ok(())
    }
}
