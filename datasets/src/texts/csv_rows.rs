//! [`CsvDialect`]: CSV and TSV with a header.

use std::collections::BTreeSet;

use csv::{ReaderBuilder, StringRecord};
use serde_json::Value;

use super::file::{Content, List, Rows, header_only};
use super::json::JsonText;
use super::record::{FoundFields, pass_over};
use super::shapes::{Roles, Shape, TextFields, TextRole};
use super::{TextFile, TextForm};
use crate::DataError;
use crate::input::BYTE_ORDER_MARK;

/// Delimiters between cells, the most usual first.
const DELIMITERS: [u8; 4] = *b",;\t|";
/// Rows that tell the delimiter.
const SAMPLE_ROWS: usize = 20;
const SAMPLE_BYTES: usize = 64 << 10;
/// Extensions of tables of cells.
const EXTENSIONS: [&str; 4] = ["csv", "tsv", "tab", "psv"];

const OPEN_QUOTE_ADVICE: &str = "close the quote, or double quotes inside a cell";

/// How a file of cells is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvDialect {
    pub(super) delimiter: u8,
}

impl CsvDialect {
    /// Recognises a table by its first rows, which have equally many cells, and its header, which
    /// names a text.
    ///
    /// The extension says it where the header does not.
    pub(super) fn detect(text: &str, extension: &str, fields: &TextFields) -> Option<Self> {
        let sample = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
        let is_cut = sample.len() < text.len();
        let is_csv = EXTENSIONS.contains(&extension);
        let mut best: Option<(Score, u8)> = None;
        for delimiter in DELIMITERS {
            let score = Self { delimiter }.score(sample, is_cut, fields);
            let is_better = best.as_ref().is_none_or(|(known, _)| score > *known);
            if is_better {
                best = Some((score, delimiter));
            }
        }
        let (score, delimiter) = best?;
        let is_table = score.has_text && score.is_even && score.cells > 1;
        (is_csv || is_table).then_some(Self { delimiter })
    }

    fn score(self, sample: &str, is_cut: bool, fields: &TextFields) -> Score {
        let mut rows = self.records(sample.as_bytes());
        let mut row = StringRecord::new();
        if !rows.read_record(&mut row).unwrap_or(false) {
            return Score::default();
        }
        let cells = row.len();
        let names: BTreeSet<String> = row.iter().map(str::to_owned).collect();
        let shape = fields.shape.unwrap_or_else(|| Shape::recognise(&names));
        let roles = Roles::new(shape, fields);
        let has_text =
            row.iter().any(|name| roles.of(name).is_some_and(|known| known.role == TextRole::Text));
        let (mut even, mut seen) = (0, 0);
        while seen < SAMPLE_ROWS && rows.read_record(&mut row).unwrap_or(false) {
            if is_cut && rows.is_done() {
                break;
            }
            seen += 1;
            even += usize::from(row.len() == cells);
        }
        Score { has_text: has_text && cells > 1, is_even: even * 2 > seen || seen == 0, cells }
    }

    fn records(self, bytes: &[u8]) -> csv::Reader<&[u8]> {
        ReaderBuilder::new()
            .delimiter(self.delimiter)
            .flexible(true)
            .has_headers(false)
            .from_reader(bytes)
    }

    /// Reads all rows; rows with other cells than the header are passed over and named.
    pub(super) fn read(
        self,
        text: JsonText<'_>,
        fields: &TextFields,
    ) -> Result<TextFile, DataError> {
        let bytes = text.text.as_bytes();
        let mut reader = self.records(bytes);
        let (mut header, mut row) = (StringRecord::new(), StringRecord::new());
        read(&mut reader, &mut header)?;
        let form = TextForm::Csv { delimiter: self.delimiter };
        let mut rows = Rows::new(form, header.iter().map(str::to_owned).collect(), fields, false)?;
        let used: Vec<bool> = header
            .iter()
            .map(|name| rows.roles.of(name).is_some() || rows.roles.is_holder(name))
            .collect();
        let unused = header.iter().zip(&used).filter(|(_, used)| !**used);
        unused.for_each(|(name, _)| pass_over(&mut rows.file.passed_over, name));
        let mut spans = Vec::new();
        loop {
            let before = reader.position().clone();
            if !read(&mut reader, &mut row)? {
                break;
            }
            let skipped = bytes[before.byte() as usize..].iter();
            let skipped = skipped.take_while(|byte| matches!(byte, b'\r' | b'\n'));
            let start = before.byte() as usize + skipped.clone().count();
            let line = before.line() + skipped.filter(|byte| **byte == b'\n').count() as u64;
            let mut end = reader.position().byte() as usize;
            if bytes[end - 1] == b'\r' && bytes.get(end) == Some(&b'\n') {
                end += 1;
            }
            spans.push(text.start + start..text.start + end);
            if end == bytes.len() && is_open(&bytes[start..end]) {
                let found =
                    format!("the quote that begins in the row of line {line} is never closed");
                return Err(DataError::texts(found, OPEN_QUOTE_ADVICE));
            }
            if row.len() != header.len() {
                rows.skip(line, format!("{} cells, expected {}", row.len(), header.len()));
                continue;
            }
            let mut found = FoundFields::default();
            for ((name, cell), _) in header.iter().zip(&row).zip(&used).filter(|(_, used)| **used) {
                if !cell.is_empty() && !found.take(name, cell.into(), &rows.roles) {
                    pass_over(&mut rows.file.passed_over, name);
                }
            }
            rows.push(found, line, spans.len() - 1);
        }
        if spans.is_empty() {
            return Err(header_only());
        }
        rows.into_file(Content::apart(List { name: String::new(), spans }))
    }

    /// Returns a row as an object of its cells.
    pub(super) fn object(self, header: &[u8], row: &str) -> Value {
        let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
        let (mut names, mut cells) = (StringRecord::new(), StringRecord::new());
        let is_read = self.records(header).read_record(&mut names).is_ok()
            && self.records(row.as_bytes()).read_record(&mut cells).is_ok();
        let cells = names.iter().zip(&cells).filter(|_| is_read);
        cells.map(|(name, cell)| (name.to_owned(), Value::from(cell))).collect()
    }
}

/// How well a delimiter explains the first rows; the greatest is the best.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    has_text: bool,
    is_even: bool,
    cells: usize,
}

/// Reads a row of bytes that are UTF-8.
fn read(reader: &mut csv::Reader<&[u8]>, row: &mut StringRecord) -> Result<bool, DataError> {
    reader.read_record(row).map_err(|error| std::io::Error::other(error).into())
}

/// Tells whether a last row of several lines has a quote that is never closed.
fn is_open(row: &[u8]) -> bool {
    let quotes = row.iter().filter(|byte| **byte == b'"').count();
    quotes % 2 == 1 && row.trim_ascii_end().contains(&b'\n')
}
