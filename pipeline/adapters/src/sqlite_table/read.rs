//! Rows as records; and [`Ledger`]: the rows that memfold took out of a table, exactly as they were, in a file of its own.
//!
//! One JSON object on a line. Lines are appended and synced before the table changes; a line about a row that stands in
//! its table unmarked holds nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use jiff::Timestamp;
use memfold_core::value::Value;
use memfold_store::brain_db::cell;
use memfold_store::origin::{OriginError, OriginRecord, OriginStatus, TableChoice};
use memfold_store::whole_file;
use rusqlite::{Connection, Row as SqlRow};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::layout::{Flag, Layout, USERS, Vectors};
use crate::shared::{IMPORTANCE, digest, failed, make_folder_of, read_text, words};
use crate::sqlite_file::{floats, quoted, shown, vec0_vectors};

/// A longer value of metadata is a text of its own, not an attribute.
const ATTRIBUTE_CHARS: usize = 80;
/// Seconds since 1970 are fewer than this until the year 5138.
const SECONDS_MAX: f64 = 1e11;
const MILLISECONDS_MAX: f64 = 1e14;

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableRow {
    /// Its unique key; NULL where there is none.
    pub(super) key: Value,
    /// The columns of the layout.
    pub(super) cells: Vec<Value>,
}

/// How a row that is not a memory is described.
const NO_ID: &str = "without an id";
const NO_TEXT: &str = "without a text";
const NOT_UTF8: &str = "whose text is not UTF-8";

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
    pub(super) fn text_of(&self, row: &TableRow) -> Result<String, &'static str> {
        let mut text = String::new();
        for at in &self.text {
            let part = match &row.cells[*at] {
                Value::Null => continue,
                Value::Text(bytes) | Value::Blob(bytes) => {
                    std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)?.to_owned()
                }
                value => shown(value),
            };
            if !text.is_empty() && !part.trim().is_empty() {
                text.push('\n');
            }
            text.push_str(&part);
        }
        if text.trim().is_empty() { Err(NO_TEXT) } else { Ok(text) }
    }

    /// Tells whether a row is marked as taken out, by the system or by memfold.
    pub(super) fn is_marked(&self, row: &TableRow) -> bool {
        self.flag.as_ref().is_some_and(|flag| flag.is_set(&row.cells[flag.column]))
    }

    /// Returns a live row as a record without a vector.
    pub(super) fn record(&self, row: &TableRow) -> Result<OriginRecord, &'static str> {
        let id = self.id_of(row).ok_or(NO_ID)?;
        let text = self.text_of(row)?;
        let time = |at: Option<usize>| at.and_then(|at| time(&row.cells[at]));
        let mut attributes: Vec<(String, String)> = Vec::new();
        for (name, column) in &self.attributes {
            let value = shown(&row.cells[*column]);
            if !value.is_empty() {
                attributes.push(((*name).to_owned(), value));
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
            status: OriginStatus::Live,
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
    let Some(listed) = listed else { return words(&text) };
    let tags = listed.iter().filter_map(Json::as_str).filter(|tag| !tag.is_empty());
    tags.map(str::to_owned).collect()
}

/// The short values of a JSON object; the name of a user is the attribute `user`.
fn metadata_of(text: &str) -> Vec<(String, String)> {
    let fields: Option<serde_json::Map<String, Json>> = serde_json::from_str(text).ok();
    let attribute = |(name, value): (String, Json)| {
        let value = match value {
            Json::String(text) => text,
            Json::Null | Json::Array(_) | Json::Object(_) => return None,
            other => other.to_string(),
        };
        let is_user = USERS.contains(&name.as_str());
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
        Ok(match &layout.vectors {
            Vectors::None | Vectors::Column(_) => Self::default(),
            Vectors::Vec0 { table, by_id } => Self(vec0_vectors(connection, table, *by_id)?),
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
                Self(found)
            }
        })
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

/// The ledger of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    pub(super) choice: TableChoice,
    pub(super) kept: HashMap<String, Kept>,
    /// Rows that memfold added, by their keys.
    made: HashMap<String, Made>,
}

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The last choice.
    Choice(TableChoice),
    /// A row that memfold takes out.
    Kept(Kept),
    /// A row that memfold adds, to a table that gives it another id.
    Made(Made),
}

/// A row that memfold added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Made {
    /// The id of its memory.
    pub(super) id: String,
    pub(super) key: String,
    /// The digest of its text.
    pub(super) text: String,
}

impl Made {
    pub(super) fn new(id: &str, key: String, text: &str) -> Self {
        Self { id: id.to_owned(), key, text: digest(text) }
    }
}

/// A row as it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) table: String,
    pub(super) key: Json,
    pub(super) columns: Vec<String>,
    pub(super) cells: Vec<Json>,
    /// The row that says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merged_into: Option<String>,
    pub(super) rule: String,
    pub(super) run_id: String,
    pub(super) at: String,
}

impl Kept {
    /// Returns the row in the order of a layout's columns; `None` where the table has other columns now.
    pub(super) fn row(&self, layout: &Layout) -> Option<TableRow> {
        if !self.table.eq_ignore_ascii_case(&layout.table)
            || self.columns.len() != layout.columns.len()
        {
            return None;
        }
        let cell = |name: &String| {
            let at = self.columns.iter().position(|column| column == name)?;
            Value::from_json(self.cells.get(at)?)
        };
        let cells = layout.columns.iter().map(cell).collect::<Option<_>>()?;
        Some(TableRow { key: Value::from_json(&self.key)?, cells })
    }
}

impl Ledger {
    /// Reads a ledger; a missing one is empty. The unfinished last line of a killed process is skipped.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, OriginError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        let mut ledger = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (at, line) in whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Line::Choice(choice)) => ledger.choice = choice,
                Ok(Line::Kept(kept)) => drop(ledger.kept.insert(kept.id.clone(), kept)),
                Ok(Line::Made(made)) => drop(ledger.made.insert(made.key.clone(), made)),
                Err(error) => {
                    return Err(OriginError::Format {
                        path: path.to_owned(),
                        kind: "list of removed rows",
                        reason: format!("line {}: {error}", at + 1),
                    });
                }
            }
        }
        Ok(ledger)
    }

    /// Returns the entry of a row that memfold added.
    pub(super) fn made_of(&self, row: &TableRow, text: &str) -> Option<&Made> {
        let made = self.made.get(&shown(&row.key))?;
        (made.text == digest(text)).then_some(made)
    }

    /// Tells whether memfold may have added the row of a key.
    pub(super) fn may_have_made(&self, key: &Value) -> bool {
        self.made.contains_key(&shown(key))
    }

    /// Forgets rows that stand in the table again.
    pub(super) fn forget(path: &Path, restored: &BTreeSet<&str>) -> Result<(), OriginError> {
        let ledger = Self::read(Some(path))?;
        if !restored.iter().any(|id| ledger.kept.contains_key(*id)) {
            return Ok(());
        }
        let kept: BTreeMap<&String, &Kept> =
            ledger.kept.iter().filter(|(id, _)| !restored.contains(id.as_str())).collect();
        let made: BTreeMap<&String, &Made> = ledger.made.iter().collect();
        let kept = kept.into_values().cloned().map(Line::Kept);
        let made = made.into_values().cloned().map(Line::Made);
        let mut bytes = Vec::new();
        for line in [Line::Choice(ledger.choice.clone())].into_iter().chain(kept).chain(made) {
            bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
            bytes.push(b'\n');
        }
        whole_file::replace(path, &bytes, Some(path)).map(drop).map_err(failed("write", path))
    }

    /// Appends lines and syncs them.
    pub(super) fn append(path: &Path, lines: &[Line]) -> Result<(), OriginError> {
        if lines.is_empty() {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            make_folder_of(path)?;
            let mut options = OpenOptions::new();
            options.create(true).append(true).read(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(path)?;
            let mut bytes = Vec::new();
            cut_unfinished(&file)?;
            for line in lines {
                serde_json::to_writer(&mut bytes, line)?;
                bytes.push(b'\n');
            }
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write().map_err(failed("write", path))
    }
}

/// Cuts off the line that a killed process left unfinished.
fn cut_unfinished(mut file: &fs::File) -> io::Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == [b'\n'] {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(end as u64)
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
