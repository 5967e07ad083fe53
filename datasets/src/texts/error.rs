//! [`TextError`]: why a file of texts cannot be read.

use std::path::{Path, PathBuf};

use crate::DataError;

/// A file of texts could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file cannot be read, or is a damaged table.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The input cannot be read, or the output cannot be written.
    #[error("{source}")]
    Io {
        /// What the system says.
        #[from]
        source: std::io::Error,
    },
    /// A folder.
    #[error("a folder, expected a file of texts")]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing in the file.
    #[error("the file is empty")]
    Empty,
    /// There is no record below the names of the columns.
    #[error("the file has a header and no rows")]
    HeaderOnly,
    /// No record has a text that is not blank.
    #[error("none of {count} records has a text{}", first_reason(*first, reason))]
    NoTexts {
        /// How many records there are.
        count: u64,
        /// The first of them.
        first: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// No record has such a field.
    #[error("no field for the {role}{}, found {}", named(expected.as_deref()), listed(found))]
    NoField {
        /// What the field is for: text, id, time or user.
        role: &'static str,
        /// The name that the caller gave.
        expected: Option<String>,
        /// The dotted names of the fields that there are.
        found: Vec<String>,
    },
    /// An object that holds no list of records.
    #[error("a JSON object without a list of memories, found {}", listed(found))]
    NoList {
        /// The names of its fields.
        found: Vec<String>,
    },
    /// Bytes of another encoding.
    #[error("line {line} is not UTF-8")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// UTF-16, which Windows calls Unicode.
    #[error("the file is UTF-16, expected UTF-8")]
    Utf16 {
        /// The file.
        path: PathBuf,
    },
    /// A file of another kind.
    #[error("{what}, expected a file of texts")]
    NotText {
        /// What it is.
        what: &'static str,
        /// The command that makes a file of texts of it.
        advice: String,
    },
    /// The JSON ends too early.
    #[error("the JSON is cut off at line {line}")]
    Truncated {
        /// The last line.
        line: u64,
    },
    /// The JSON has an error.
    #[error("line {line}, column {column} is not JSON: {found}")]
    Json {
        /// The line, from 1.
        line: u64,
        /// The byte of the line, from 1.
        column: u64,
        /// What is wrong.
        found: String,
    },
    /// A quote that is opened and never closed takes in all lines after it.
    #[error("the quote that begins in the row of line {line} is never closed")]
    OpenQuote {
        /// The line, from 1.
        line: u64,
    },
}

/// Names in an error.
const NAMES_SHOWN: usize = 20;

fn listed(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len() {
        0 => "none".into(),
        count if count > NAMES_SHOWN => {
            format!("{} and {} more", shown.join(", "), count - NAMES_SHOWN)
        }
        _ => shown.join(", "),
    }
}

fn named(expected: Option<&str>) -> String {
    expected.map(|name| format!(" {name:?}")).unwrap_or_default()
}

fn first_reason(first: u64, reason: &str) -> String {
    match reason.is_empty() {
        true => String::new(),
        false => format!("; the first, {first}: {reason}"),
    }
}

impl TextError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Data(error) => return error.hint(),
            Self::Io { .. } => return None,
            Self::Folder { path } => {
                format!("name a file in it, such as {}/FILE.jsonl", path.display())
            }
            Self::Empty | Self::HeaderOnly => {
                "write the memories again; nothing was changed".into()
            }
            Self::NoTexts { .. } => {
                "write a text for each record: a line, a cell, or a field \"text\" (pandas: \
                 to_json(FILE, orient=\"records\"))"
                    .into()
            }
            Self::NoField { role, found, .. } if found.is_empty() => {
                format!("write objects with a field for the {role}")
            }
            Self::NoField { role, .. } => format!("name it with --{role}-field NAME"),
            Self::NoList { .. } => {
                "write the list alone, as with jq '.NAME' FILE > LIST.json, or jq '[.[]]' FILE > \
                 LIST.json where each field is a memory"
                    .into()
            }
            Self::NotUtf8 { path, .. } => converted(path, "latin1"),
            Self::Utf16 { path } => converted(path, "utf-16"),
            Self::NotText { advice, .. } => advice.clone(),
            Self::Truncated { .. } => {
                "fetch or write the file again; its copy may be incomplete".into()
            }
            Self::Json { .. } => "mend the line, or write one JSON object on each line".into(),
            Self::OpenQuote { .. } => "close the quote, or double quotes inside a cell".into(),
        })
    }
}

fn converted(path: &Path, from: &str) -> String {
    let path = path.display();
    format!("convert it: iconv -f {from} -t utf-8 {path} > {path}.utf8")
}

/// A file that is no text: how it begins, what it is, and the command that helps, where `FILE` is its name.
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

/// Names a file that is no text by its first bytes.
pub(super) fn kind_of_bytes(start: &[u8], path: &Path) -> Option<TextError> {
    if start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF") {
        return Some(TextError::Utf16 { path: path.into() });
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
    Some(TextError::NotText { what, advice })
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
