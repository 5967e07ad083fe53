//! [`TextFile`]: a file of texts, its form, its records, and the file without some of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use super::csv_rows::CsvDialect;
use super::json::{JsonText, has_json_lines, lines_of};
use super::record::{FoundFields, Row, TextRecord};
use super::shapes::{Roles, Shape, TextFields, TextRole, check_given};
use super::tables::Table;
use crate::input::{BYTE_ORDER_MARK, InputBytes};
use crate::read::VectorFormat;
use crate::read::arrow;
use crate::{DataError, parquet};

/// Bytes that tell whether a file holds texts.
const START_BYTES: usize = 64 << 10;
/// Extensions of Markdown, which is a store of its own.
const MARKDOWN: [&str; 2] = ["md", "markdown"];
/// Extensions of JSON Lines.
const JSON_LINES: [&str; 2] = ["jsonl", "ndjson"];

const NO_TEXTS_ADVICE: &str = "write a text for each record: a line, a cell, or a field \"text\" \
     (pandas: to_json(FILE, orient=\"records\"))";

/// Begins the reason of a record that is not JSON.
pub(super) const NOT_JSON: &str = "not JSON";
/// Reasons, and places of one, that are named.
const REASONS_MAX: usize = 10;
const PLACES_SHOWN: usize = 20;

/// The form of a file of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextForm {
    /// An object, or a text, in JSON on each line.
    JsonLines,
    /// A list of objects or texts in JSON.
    JsonArray,
    /// An object in JSON that holds a list of records, or columns of them.
    Json,
    /// CSV, or TSV, with a header.
    Csv {
        /// The delimiter between cells: `,`, `;`, a tab or `|`.
        delimiter: u8,
    },
    /// A memory on each line.
    Lines,
    /// Parquet.
    Parquet,
    /// Arrow IPC: a file or a stream.
    Arrow,
}

impl TextForm {
    /// Returns the form's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "JSON Lines",
            Self::JsonArray => "JSON array",
            Self::Json => "JSON",
            Self::Csv { delimiter: b'\t' } => "TSV",
            Self::Csv { .. } => "CSV",
            Self::Lines => "plain text",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }

    /// Names a record in messages: a line or a row.
    #[must_use]
    pub const fn place_name(self) -> &'static str {
        match self {
            Self::JsonLines | Self::Lines | Self::Csv { .. } => "line",
            Self::JsonArray | Self::Json | Self::Parquet | Self::Arrow => "record",
        }
    }
}

/// A record without a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Its line or row, from 1.
    pub place: u64,
    /// The defect.
    pub reason: String,
}

/// A file of texts, read.
///
/// # Examples
/// ```
/// use memfold_datasets::texts::{TextFields, TextFile};
///
/// let bytes = b"id,text\n1,Prefers tea.\n2,Prefers tea.\n".to_vec();
/// let file = TextFile::read_bytes("notes.csv".as_ref(), bytes, &TextFields::default())?;
/// let mut out = Vec::new();
/// file.write(&|index| index != 1, &mut out)?;
/// assert_eq!(out, b"id,text\n1,Prefers tea.\n");
/// # Ok::<(), memfold_datasets::DataError>(())
/// ```
#[derive(Debug)]
pub struct TextFile {
    /// Its form.
    pub form: TextForm,
    /// The system that exported it, where one was recognised.
    pub shape: Option<&'static str>,
    /// Its memories, in their order.
    pub records: Vec<TextRecord>,
    /// Records without a memory, which stay in the file as they are.
    pub skipped: Vec<SkippedRecord>,
    /// Places of records that their system marks as deleted, which stay as they are.
    pub deleted: Vec<u64>,
    /// Outer fields that are not used, at most 20.
    pub passed_over: BTreeSet<String>,
    content: Content,
}

/// The source from which a file is written.
#[derive(Debug)]
pub(super) enum Content {
    Bytes {
        /// The file; empty until [`TextFile::read_bytes`] hands it over.
        bytes: Vec<u8>,
        /// Lists of the same length, in their order in the file; each row has a span in each.
        lists: Vec<List>,
        /// Whether a separator stands between two spans, which goes with the row after it.
        is_joined: bool,
    },
    Table(Table),
}

/// Where the rows of a file lie.
#[derive(Debug)]
pub(super) struct List {
    /// The field that the list holds, where there are several.
    pub(super) name: String,
    pub(super) spans: Vec<Range<usize>>,
}

impl Content {
    /// Rows with separators between them.
    pub(super) fn joined(lists: Vec<List>) -> Self {
        Self::Bytes { bytes: Vec::new(), lists, is_joined: true }
    }

    /// Rows with their ends.
    pub(super) fn apart(list: List) -> Self {
        Self::Bytes { bytes: Vec::new(), lists: vec![list], is_joined: false }
    }
}

/// The rows of a file that were read so far.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) roles: Roles,
    /// The result so far.
    pub(super) file: TextFile,
}

impl Rows {
    /// Begins to read records with fields of these dotted names, or records that are texts
    /// themselves.
    pub(super) fn new(
        form: TextForm,
        names: BTreeSet<String>,
        given: &TextFields,
        is_text: bool,
    ) -> Result<Self, DataError> {
        let shape = given.shape.unwrap_or_else(|| Shape::recognise(&names));
        let roles = Roles::new(shape, given);
        check_given(given, &names)?;
        let has_text = |name: &String| roles.of(name).is_some_and(|it| it.role == TextRole::Text);
        if !names.iter().any(has_text) && !is_text {
            let found = names.into_iter().collect();
            let expected = given.shape.and_then(|shape| shape.fields(TextRole::Text).next());
            let expected = expected.map(str::to_owned);
            return Err(DataError::NoField { role: "text", expected, found });
        }
        let file = TextFile {
            form,
            shape: shape.recognised_name(),
            records: Vec::new(),
            skipped: Vec::new(),
            deleted: Vec::new(),
            passed_over: BTreeSet::new(),
            content: Content::joined(Vec::new()),
        };
        Ok(Self { roles, file })
    }

    pub(super) fn push(&mut self, found: FoundFields, place: u64, row: usize) {
        match found.finish(place, row) {
            Row::Record(record) => self.file.records.push(*record),
            Row::Deleted => self.file.deleted.push(place),
            Row::Skipped(reason) => self.skip(place, reason),
        }
    }

    pub(super) fn skip(&mut self, place: u64, reason: String) {
        self.file.skipped.push(SkippedRecord { place, reason });
    }

    pub(super) fn into_file(self, content: Content) -> Result<TextFile, DataError> {
        let file = TextFile { content, ..self.file };
        if let (true, Some(first)) = (file.records.is_empty(), file.skipped.first()) {
            let count = file.skipped.len() + file.deleted.len();
            let SkippedRecord { place, reason } = first;
            let found = format!("none of {count} records has a text; the first, {place}: {reason}");
            return Err(DataError::texts(found, NO_TEXTS_ADVICE));
        }
        Ok(file)
    }
}

impl TextFile {
    /// Tells whether the file at `path` is one of texts, by its first bytes and its extension.
    ///
    /// Includes files that [`TextFile::read`] refuses with the name of their kind (a PDF, for
    /// example). Not folders, databases, bare vectors, Markdown and the graphs of the MCP memory
    /// server.
    #[must_use]
    pub fn is_texts(path: &Path) -> bool {
        let extension = extension_of(path);
        let Ok(bytes) = InputBytes::open(path) else { return false };
        let length = START_BYTES.min(bytes.len() as usize);
        let Ok(start) = bytes.read(0, length) else { return false };
        if MARKDOWN.contains(&&*extension) || start.starts_with(b"SQLite format 3\0") {
            return false;
        }
        match VectorFormat::of_file(path) {
            Some(VectorFormat::Columns | VectorFormat::Parquet) => {
                Table::open(bytes).is_ok_and(|table| table.has_text())
            }
            Some(VectorFormat::Jsonl) | None => !is_graph(&start),
            // Office documents are zip files too.
            Some(VectorFormat::Npz) => extension != "npz",
            Some(_) => false,
        }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, is not text, or has no texts.
    pub fn read(path: &Path, fields: &TextFields) -> Result<Self, DataError> {
        let found = std::fs::metadata(path)?;
        if found.is_dir() {
            let advice = format!("name a file in it, such as {}/FILE.jsonl", path.display());
            return Err(DataError::texts("a folder, expected a file of texts", advice));
        }
        if found.is_file() {
            let bytes = InputBytes::open(path)?;
            let start = bytes.read(0, arrow::MAGIC.len().min(bytes.len() as usize))?;
            if is_table(&start) {
                return Table::open(bytes)?.read_file(fields);
            }
        }
        Self::read_bytes(path, std::fs::read(path)?, fields)
    }

    /// Reads the bytes of a file; errors and the extension call it `name`.
    ///
    /// # Errors
    /// When the bytes are not text, or have no texts.
    pub fn read_bytes(name: &Path, bytes: Vec<u8>, fields: &TextFields) -> Result<Self, DataError> {
        if is_table(&bytes) {
            return Table::open(InputBytes::in_memory(name, bytes.into()))?.read_file(fields);
        }
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let head = &bytes[start..bytes.len().min(start + START_BYTES)];
        if let Some(error) = kind_of_bytes(head, name) {
            return Err(error);
        }
        let text = std::str::from_utf8(&bytes[start..]).map_err(|error| {
            let before = &bytes[start..start + error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            DataError::texts(format!("line {line} is not UTF-8"), converted(name, "latin1"))
        })?;
        if text.trim().is_empty() {
            return Err(empty());
        }
        let mut file = read_text(JsonText { text, start }, &extension_of(name), fields)?;
        if let Content::Bytes { bytes: empty, .. } = &mut file.content {
            *empty = bytes;
        }
        Ok(file)
    }

    /// Writes the file without the records for which `keeps` is false: in the same form and order,
    /// all other bytes as they are. A table has the same schema.
    ///
    /// # Errors
    /// When the output cannot be written, or a table cannot be read any more.
    pub fn write(
        &self,
        keeps: &dyn Fn(usize) -> bool,
        out: &mut (dyn Write + Send),
    ) -> Result<(), DataError> {
        let left_out = (0..self.records.len()).filter(|index| !keeps(*index));
        let left_out: Vec<usize> = left_out.map(|index| self.records[index].row).collect();
        let (bytes, lists, is_joined) = match &self.content {
            Content::Table(table) => return table.write(&left_out, out),
            Content::Bytes { bytes, lists, is_joined } => (bytes, lists, *is_joined),
        };
        let mut from = 0;
        for List { spans, .. } in lists {
            for (at, &row) in left_out.iter().enumerate() {
                let Range { start, end } = spans[row];
                let next = spans.get(row + 1).map_or(end, |next| next.start);
                let cut = match is_joined {
                    false => start..end,
                    // The separator after the first elements goes with them, else the one before.
                    true if at == row => start..next,
                    true => spans[row - 1].end..end,
                };
                out.write_all(&bytes[from..cut.start])?;
                from = cut.end;
            }
        }
        Ok(out.write_all(&bytes[from..])?)
    }

    /// Returns the line of a record in JSON Lines as it is, without its end; of other forms its
    /// object on one line.
    #[must_use]
    pub fn line(&self, index: usize) -> String {
        if let (TextForm::JsonLines, Content::Bytes { bytes, lists, .. }) =
            (self.form, &self.content)
        {
            let line = &bytes[lists[0].spans[self.records[index].row].clone()];
            return String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned();
        }
        self.raw(index).to_string()
    }

    /// Says which records were skipped and why, a sentence for each reason.
    ///
    /// # Examples
    /// ```
    /// use memfold_datasets::texts::{TextFields, TextFile};
    ///
    /// let bytes = b"{\"text\":\"a\"}\noops\n{\"text\":\"b\"}\n{\"t".to_vec();
    /// let file = TextFile::read_bytes("notes.jsonl".as_ref(), bytes, &TextFields::default())?;
    /// assert_eq!(file.skipped_notes(), ["2 of 4 lines are not JSON: 2, 4"]);
    /// # Ok::<(), memfold_datasets::DataError>(())
    /// ```
    #[must_use]
    pub fn skipped_notes(&self) -> Vec<String> {
        let total = self.records.len() + self.skipped.len() + self.deleted.len();
        let mut reasons: Vec<(&str, Vec<u64>)> = Vec::new();
        for SkippedRecord { place, reason } in &self.skipped {
            let reason = if reason.starts_with(NOT_JSON) { NOT_JSON } else { reason };
            match reasons.iter().position(|(known, _)| *known == reason) {
                Some(at) => reasons[at].1.push(*place),
                None if reasons.len() < REASONS_MAX => reasons.push((reason, vec![*place])),
                None => {}
            }
        }
        let place_name = self.form.place_name();
        let note = |(reason, places): (&str, Vec<u64>)| {
            let shown: Vec<String> = places.iter().take(PLACES_SHOWN).map(u64::to_string).collect();
            let more = if places.len() > PLACES_SHOWN { ", …" } else { "" };
            let count = places.len();
            let said = match (reason == NOT_JSON, count) {
                (true, 1) => "is not JSON".to_owned(),
                (true, _) => "are not JSON".to_owned(),
                (false, 1) => format!("is left out, {reason}"),
                (false, _) => format!("are left out, {reason}"),
            };
            format!("{count} of {total} {place_name}s {said}: {}{more}", shown.join(", "))
        };
        reasons.into_iter().map(note).collect()
    }

    /// Returns a record as the file has it: an object, or a text; of a table its id and text.
    #[must_use]
    pub fn raw(&self, index: usize) -> Value {
        let record = &self.records[index];
        let Content::Bytes { bytes, lists, .. } = &self.content else {
            return serde_json::json!({ "id": record.id, "text": record.text });
        };
        let text_of = |list: &List| String::from_utf8_lossy(&bytes[list.spans[record.row].clone()]);
        let json_of = |list: &List| serde_json::from_str(&text_of(list)).unwrap_or_default();
        match (self.form, &**lists) {
            (TextForm::Lines, _) => record.text.clone().into(),
            (TextForm::Csv { delimiter }, [list]) => {
                let header = &bytes[..list.spans.first().map_or(0, |span| span.start)];
                CsvDialect { delimiter }.object(header, &text_of(list))
            }
            (_, [list]) => json_of(list),
            (_, lists) => lists.iter().map(|list| (list.name.clone(), json_of(list))).collect(),
        }
    }
}

/// Reads a text; its content decides its form.
fn read_text(
    text: JsonText<'_>,
    extension: &str,
    fields: &TextFields,
) -> Result<TextFile, DataError> {
    let is_lines = JSON_LINES.contains(&extension);
    if !is_lines && let Some(file) = text.read_whole(fields, extension == "json")? {
        return Ok(file);
    }
    if is_lines || has_json_lines(text.text) {
        return text.read_lines(fields);
    }
    if let Some(dialect) = CsvDialect::detect(text.text, extension, fields) {
        return dialect.read(text, fields);
    }
    let mut rows = Rows::new(TextForm::Lines, BTreeSet::new(), fields, true)?;
    let mut spans = Vec::new();
    for (row, line) in lines_of(text.text).enumerate() {
        let mut found = FoundFields::default();
        found.take_whole(line.text.to_owned());
        rows.push(found, line.number, row);
        spans.push(text.start + line.start..text.start + line.end);
    }
    rows.into_file(Content::apart(List { name: String::new(), spans }))
}

fn extension_of(path: &Path) -> String {
    path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase()
}

fn is_table(start: &[u8]) -> bool {
    [arrow::MAGIC, parquet::MAGIC, arrow::STREAM_START].iter().any(|it| start.starts_with(it))
}

/// Tells whether lines are entities and relations, as the MCP memory server keeps them.
fn is_graph(start: &[u8]) -> bool {
    let first = String::from_utf8_lossy(start);
    let first = first.trim_start_matches('\u{feff}').lines().find(|line| !line.trim().is_empty());
    let Some(Ok(line)) = first.map(serde_json::from_str::<Value>) else { return false };
    match line["type"].as_str() {
        Some("entity") => line.get("observations").is_some(),
        Some("relation") => line.get("from").is_some() && line.get("to").is_some(),
        _ => false,
    }
}

/// There is nothing in the file.
pub(super) fn empty() -> DataError {
    DataError::texts("the file is empty", EMPTY_ADVICE)
}

/// There is no record below the names of the columns.
pub(super) fn header_only() -> DataError {
    DataError::texts("the file has a header and no rows", EMPTY_ADVICE)
}

const EMPTY_ADVICE: &str = "write the memories again; nothing was changed";

fn converted(path: &Path, from: &str) -> String {
    let path = path.display();
    format!("convert it: iconv -f {from} -t utf-8 {path} > {path}.utf8")
}

/// A file that is not text: how it begins, its kind, and the command that converts it, where `FILE`
/// is its name.
const KINDS: [(&[u8], &str, &str); 20] = [
    (b"%PDF-", "a PDF", "pdftotext FILE FILE.txt"),
    (b"\x89PNG", "an image", "tesseract FILE FILE"),
    (b"\xFF\xD8\xFF", "an image", "tesseract FILE FILE"),
    (b"GIF8", "an image", "tesseract FILE FILE"),
    (b"\xD0\xCF\x11\xE0", "an old Office file", "soffice --convert-to csv FILE"),
    (b"\x1F\x8B", "compressed with gzip", "gunzip -k FILE"),
    (b"\x28\xB5\x2F\xFD", "compressed with zstd", "zstd -dk FILE"),
    (b"BZh", "compressed with bzip2", "bunzip2 -k FILE"),
    (b"\xFD7zXZ\x00", "compressed with xz", "xz -dk FILE"),
    (b"7z\xBC\xAF", "a 7z archive", "7z x FILE"),
    (b"SQLite format 3\0", "a SQLite database", "memfold doctor FILE"),
    (b"\x93NUMPY", "a file of vectors", "memfold dedup FILE"),
    (b"\x89HDF", "an HDF5 file", "memfold dedup FILE"),
    (b"\x80\x03", "a Python pickle", "load it in Python and write it with json.dump"),
    (b"\x80\x04", "a Python pickle", "load it in Python and write it with json.dump"),
    (b"\x80\x05", "a Python pickle", "load it in Python and write it with json.dump"),
    (b"Obj\x01", "an Avro file", "avro cat FILE > FILE.jsonl"),
    (b"{\\rtf", "a Rich Text document", "pandoc -t plain --wrap none FILE -o FILE.txt"),
    (b"<?xml", "an XML file", "pandoc -t plain --wrap none FILE -o FILE.txt"),
    (b"PK\x03\x04", "a zip archive", "unzip FILE, and name a file of it"),
];
/// Zip archives by their extension.
const ZIPS: [(&str, &str, &str); 5] = [
    ("xlsx", "an Excel workbook", "soffice --convert-to csv FILE, or save it as CSV"),
    ("ods", "a spreadsheet", "soffice --convert-to csv FILE, or save it as CSV"),
    ("docx", "a Word document", "pandoc -t plain --wrap none FILE -o FILE.txt"),
    ("odt", "a document", "pandoc -t plain --wrap none FILE -o FILE.txt"),
    ("npz", "a file of vectors", "memfold dedup FILE"),
];

/// Names a file that is not text by its first bytes.
fn kind_of_bytes(start: &[u8], path: &Path) -> Option<DataError> {
    if start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF") {
        return Some(DataError::texts(
            "the file is UTF-16, expected UTF-8",
            converted(path, "utf-16"),
        ));
    }
    let (magic, mut what, mut advice) = *KINDS
        .iter()
        .find(|(magic, ..)| start.starts_with(magic))
        .or_else(|| is_html(start).then_some(&HTML))
        .or_else(|| start.contains(&0).then_some(&BINARY))?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if magic == b"PK\x03\x04"
        && let Some(zip) = ZIPS.iter().find(|(known, ..)| extension.eq_ignore_ascii_case(known))
    {
        (what, advice) = (zip.1, zip.2);
    }
    let advice = advice.replace("FILE", &path.display().to_string());
    Some(DataError::texts(format!("{what}, expected a file of texts"), advice))
}

const HTML: (&[u8], &str, &str) =
    (b"<", "an HTML page", "pandoc -t plain --wrap none FILE -o FILE.txt");
const BINARY: (&[u8], &str, &str) =
    (b"", "binary data", "write the memories as JSON Lines, CSV or plain text");

fn is_html(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html"]
        .iter()
        .any(|tag| start.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag)))
}
