//! Rows as records.

use std::collections::HashMap;

use jiff::Timestamp;
use memfold_core::value::Value;
use memfold_store::brain_db::cell;
use memfold_store::origin::{OriginRecord, OriginStanding, Skipped};
use rusqlite::{Connection, Row as SqlRow};
use serde_json::Value as Json;

use super::layout::{Flag, Layout, Vectors};
use crate::sqlite_file::{Chunk, floats, quoted};

/// What `brain.db` calls routine; such tables know no importance.
const IMPORTANCE: f64 = 1.0;
/// A longer value of metadata is a text of its own, not an attribute.
const ATTRIBUTE_CHARS: usize = 80;
/// Seconds since 1970 are fewer than this until the year 5138.
const SECONDS_MAX: f64 = 1e11;
const MILLISECONDS_MAX: f64 = 1e14;

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableRow {
    /// What tells it from all others; NULL where nothing does.
    pub(super) key: Value,
    /// The columns of the layout.
    pub(super) cells: Vec<Value>,
}

/// Why a row is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    NoId,
    NoText,
    NotUtf8,
}

impl TableRow {
    pub(super) fn of(row: &SqlRow<'_>, columns: usize) -> rusqlite::Result<Self> {
        let read = |at| Ok(Value::from(cell(row, at)?));
        let cells = (1..=columns).map(read).collect::<rusqlite::Result<_>>()?;
        Ok(Self { key: read(0)?, cells })
    }

    /// The digest of all that the row holds.
    pub(super) fn raw(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for value in [&self.key].into_iter().chain(&self.cells) {
            hasher.update(value.to_json().to_string().as_bytes());
            hasher.update(b"\n");
        }
        format!("row {} {}", shown(&self.key), &hasher.finalize().to_hex()[..32])
    }
}

impl Layout {
    /// Returns the id of a row; `None` where it has none.
    pub(super) fn id_of(&self, row: &TableRow) -> Option<String> {
        match &row.cells[self.id] {
            Value::Null => None,
            value => Some(shown(value)).filter(|id| !id.is_empty()),
        }
    }

    /// Returns the text of a row.
    pub(super) fn text_of(&self, row: &TableRow) -> Result<String, Unread> {
        let mut text = String::new();
        for at in &self.text {
            let part = match &row.cells[*at] {
                Value::Null => continue,
                Value::Text(bytes) | Value::Blob(bytes) => {
                    std::str::from_utf8(bytes).map_err(|_| Unread::NotUtf8)?.to_owned()
                }
                value => shown(value),
            };
            if !text.is_empty() && !part.trim().is_empty() {
                text.push('\n');
            }
            text.push_str(&part);
        }
        if text.trim().is_empty() { Err(Unread::NoText) } else { Ok(text) }
    }

    /// Tells whether a row is marked as taken out, by the system or by memfold.
    pub(super) fn is_marked(&self, row: &TableRow) -> bool {
        self.flag.as_ref().is_some_and(|flag| flag.is_set(&row.cells[flag.column]))
    }

    /// Returns a live row as a record without a vector.
    pub(super) fn record(&self, row: &TableRow) -> Result<OriginRecord, Unread> {
        let id = self.id_of(row).ok_or(Unread::NoId)?;
        let text = self.text_of(row)?;
        let time = |at: Option<usize>| at.and_then(|at| time(&row.cells[at]));
        let mut attributes: Vec<(String, String)> = Vec::new();
        for attribute in &self.attributes {
            let value = &row.cells[attribute.column];
            if *value != Value::Null && !shown(value).is_empty() {
                attributes.push((attribute.name.clone(), shown(value)));
            }
        }
        if let Some(metadata) = self.metadata.and_then(|at| row.cells[at].as_text()) {
            attributes.extend(metadata_of(metadata));
        }
        attributes.sort();
        attributes.dedup_by(|one, other| one.0 == other.0);
        Ok(OriginRecord {
            id,
            text,
            tags: self.tags.map(|at| tags(&row.cells[at])).unwrap_or_default(),
            attributes,
            importance: IMPORTANCE,
            created_at: time(self.time).or_else(|| time(self.updated)),
            updated_at: time(self.updated),
            standing: OriginStanding::Live,
            place: match row.key {
                Value::Null => self.table.clone(),
                _ => format!("{} row {}", self.table, shown(&row.key)),
            },
            raw: row.raw(),
            ..OriginRecord::default()
        })
    }

    /// Returns the model of a row's vector.
    pub(super) fn model_of(&self, row: &TableRow) -> String {
        let named = self.model.map(|at| shown(&row.cells[at])).filter(|model| !model.is_empty());
        named.unwrap_or_else(|| match &self.vectors {
            Vectors::Vec0 { table, .. } | Vectors::Vec1 { table } => table.clone(),
            Vectors::Column(at) => format!("{}.{}", self.table, self.columns[*at]),
            Vectors::None => String::new(),
        })
    }
}

impl Flag {
    /// Returns the value that marks a row, at a time as RFC 3339.
    pub(super) fn value_at(&self, at: &str, declared: &str) -> Value {
        if self.value.eq_ignore_ascii_case("now") {
            let timestamp: Option<Timestamp> = at.parse().ok();
            let is_number =
                ["INT", "REAL", "NUM", "FLOA", "DOUB"].iter().any(|part| declared.contains(part));
            return match timestamp.filter(|_| is_number) {
                Some(timestamp) => Value::Integer(timestamp.as_second()),
                None => at.into(),
            };
        }
        if self.value.eq_ignore_ascii_case("null") {
            return Value::Null;
        }
        if let Ok(number) = self.value.parse::<i64>() {
            return Value::Integer(number);
        }
        let real = self.value.parse::<f64>().ok().filter(|real| real.is_finite());
        real.map_or_else(|| self.value.as_str().into(), Value::Real)
    }

    /// Tells whether a cell marks its row.
    fn is_set(&self, cell: &Value) -> bool {
        if self.value.eq_ignore_ascii_case("now") {
            return !matches!(cell, Value::Null | Value::Integer(0)) && !shown(cell).is_empty();
        }
        if self.value.eq_ignore_ascii_case("null") {
            return *cell == Value::Null;
        }
        shown(cell) == shown(&self.value_at("", ""))
    }
}

/// A value as an id or an attribute: 16 bytes are a UUID.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Blob(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match bytes.len() {
                16 => {
                    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                    parts.join("-")
                }
                _ => hex,
            }
        }
    }
}

/// A time as RFC 3339; numbers are seconds, milliseconds or microseconds since 1970.
fn time(value: &Value) -> Option<String> {
    let seconds = match value {
        Value::Integer(value) => *value as f64,
        Value::Real(value) => *value,
        _ => return Some(shown(value)).filter(|text| !text.trim().is_empty()),
    };
    let seconds = match seconds.abs() {
        size if size < SECONDS_MAX => seconds,
        size if size < MILLISECONDS_MAX => seconds / 1e3,
        _ => seconds / 1e6,
    };
    Timestamp::from_microsecond((seconds * 1e6) as i64).ok().map(|time| time.to_string())
}

/// A JSON array of texts, or words between commas.
fn tags(value: &Value) -> Vec<String> {
    let text = shown(value);
    let listed: Option<Vec<Json>> = serde_json::from_str(&text).ok();
    let tags: Vec<String> = match listed {
        Some(listed) => listed.iter().filter_map(|tag| Some(tag.as_str()?.to_owned())).collect(),
        None => text.split(',').map(|tag| tag.trim().to_owned()).collect(),
    };
    tags.into_iter().filter(|tag| !tag.is_empty()).collect()
}

/// The short values of a JSON object; what names a user is the attribute `user`.
fn metadata_of(text: &str) -> Vec<(String, String)> {
    let fields: Option<serde_json::Map<String, Json>> = serde_json::from_str(text).ok();
    let attribute = |(name, value): (String, Json)| {
        let value = match value {
            Json::String(text) => text,
            Json::Null | Json::Array(_) | Json::Object(_) => return None,
            other => other.to_string(),
        };
        let is_user = super::shapes::USERS.contains(&name.as_str());
        let name = if is_user { "user".to_owned() } else { name };
        (!value.is_empty() && value.chars().count() <= ATTRIBUTE_CHARS).then_some((name, value))
    };
    fields.into_iter().flatten().filter_map(attribute).collect()
}

/// Vectors that stand in tables of their own, by the key or the id of the row that they are of.
#[derive(Debug, Default)]
pub(super) struct VectorTable(HashMap<String, Vec<f32>>);

impl VectorTable {
    pub(super) fn read(connection: &Connection, layout: &Layout) -> rusqlite::Result<Self> {
        match &layout.vectors {
            Vectors::None | Vectors::Column(_) => Ok(Self::default()),
            Vectors::Vec0 { table, by_id } => Self::of_vec0(connection, table, *by_id),
            Vectors::Vec1 { table } => {
                let base = quoted(&format!("{table}_base"));
                let mut statement =
                    connection.prepare(&format!("SELECT id, vector FROM {base}"))?;
                let mut rows = statement.query([])?;
                let mut found = HashMap::new();
                while let Some(row) = rows.next()? {
                    // A number in its place is a bucket of the index, which has the vector then.
                    if let Ok(bytes) = row.get_ref(1)?.as_blob()
                        && let Some(vector) = floats(bytes)
                    {
                        found.insert(row.get::<_, i64>(0)?.to_string(), vector);
                    }
                }
                Ok(Self(found))
            }
        }
    }

    fn of_vec0(connection: &Connection, table: &str, by_id: bool) -> rusqlite::Result<Self> {
        let rowids = quoted(&format!("{table}_rowids"));
        let name = if by_id { "id" } else { "rowid" };
        let sql = format!(
            "SELECT {name}, chunk_id, chunk_offset FROM {rowids}
             WHERE chunk_id IS NOT NULL AND {name} IS NOT NULL ORDER BY chunk_id, chunk_offset"
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let (mut chunk, mut found): (Option<Chunk>, _) = (None, HashMap::new());
        while let Some(row) = rows.next()? {
            let (id, offset): (i64, i64) = (row.get(1)?, row.get(2)?);
            if chunk.as_ref().is_none_or(|chunk| chunk.id != id) {
                chunk = Chunk::read(connection, table, id)?;
            }
            if let Some(vector) = chunk.as_ref().and_then(|chunk| chunk.vector(offset)) {
                found.insert(shown(&Value::from(cell(row, 0)?)), vector);
            }
        }
        Ok(Self(found))
    }

    /// Hands out the vector of a row.
    pub(super) fn take(&mut self, layout: &Layout, row: &TableRow, id: &str) -> Option<Vec<f32>> {
        match &layout.vectors {
            Vectors::None => None,
            Vectors::Column(at) => vector_of(&row.cells[*at]),
            Vectors::Vec0 { by_id: true, .. } => self.0.remove(id),
            Vectors::Vec0 { .. } | Vectors::Vec1 { .. } => self.0.remove(&shown(&row.key)),
        }
    }
}

/// Reads a vector from a cell: 32-bit floats, or a JSON array.
fn vector_of(cell: &Value) -> Option<Vec<f32>> {
    match cell {
        // Bytes that are all letters are base64, not floats.
        Value::Blob(bytes) if !bytes.iter().all(|byte| byte.is_ascii_graphic()) => floats(bytes),
        Value::Text(bytes) => {
            let vector: Vec<f32> = serde_json::from_slice(bytes).ok()?;
            let is_vector = !vector.is_empty() && vector.iter().all(|value| value.is_finite());
            is_vector.then_some(vector)
        }
        _ => None,
    }
}

/// Rows that are no memories, in few words.
#[derive(Debug, Default)]
pub(super) struct UnreadRows {
    counts: HashMap<&'static str, (usize, String)>,
}

impl UnreadRows {
    pub(super) fn add(&mut self, why: Unread, row: &TableRow) {
        let reason = match why {
            Unread::NoId => "without an id",
            Unread::NoText => "without a text",
            Unread::NotUtf8 => "whose text is not UTF-8",
        };
        let entry = self.counts.entry(reason).or_insert_with(|| (0, shown(&row.key)));
        entry.0 += 1;
    }

    pub(super) fn skipped(&self, table: &str) -> Vec<Skipped> {
        let mut skipped: Vec<Skipped> = self
            .counts
            .iter()
            .map(|(reason, (count, first))| Skipped {
                place: table.to_owned(),
                reason: format!("{count} rows {reason}, the first is row {first}"),
            })
            .collect();
        skipped.sort_by(|one, other| one.reason.cmp(&other.reason));
        skipped
    }
}

#[cfg(test)]
mod tests {
    use memfold_core::value::Value;

    use super::{shown, tags, time, vector_of};

    #[test]
    fn values_are_read_as_ids_times_tags_and_vectors() {
        let uuid: Vec<u8> = (0..16).collect();
        assert_eq!(shown(&Value::Blob(uuid)), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        for value in [
            Value::Integer(1_780_272_000),
            Value::Real(1_780_272_000.0),
            Value::Integer(1_780_272_000_000),
        ] {
            assert_eq!(time(&value).unwrap(), "2026-06-01T00:00:00Z");
        }
        assert_eq!(time(&"2026-06-01 10:00:00".into()).unwrap(), "2026-06-01 10:00:00");
        assert_eq!(time(&Value::Null), None);
        assert_eq!(tags(&"[\"a\", \"b c\"]".into()), ["a", "b c"]);
        assert_eq!(tags(&"a, b c,".into()), ["a", "b c"]);
        assert_eq!(vector_of(&Value::Blob(vec![0, 0, 128, 63])), Some(vec![1.0]));
        assert_eq!(vector_of(&Value::Blob(b"AACAPw==".to_vec())), None);
        assert_eq!(vector_of(&"[0.5, 1]".into()), Some(vec![0.5, 1.0]));
    }
}
