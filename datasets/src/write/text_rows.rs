//! [`TextRowsWriter`]: memories as JSON Lines or CSV, as [`crate::texts`] reads them.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;

use crate::DataError;
use crate::atomic_file::NewFile;
use crate::columns::ColumnRecord;

const BUFFER_BYTES: usize = 1 << 20;
/// The fields of a row; the last two only where vectors are written.
const FIELDS: [&str; 9] = [
    "id",
    "text",
    "categories",
    "importance",
    "access_count",
    "created_at",
    "source",
    "model",
    "vector",
];
const FIELDS_WITHOUT_VECTOR: usize = 7;

/// Writes memories with their texts, and with vectors where asked to.
pub struct TextRowsWriter {
    output: Output,
    path: PathBuf,
    fields: &'static [&'static str],
}

enum Output {
    JsonLines(BufWriter<NewFile>),
    Csv(Box<csv::Writer<NewFile>>),
}

impl TextRowsWriter {
    /// Begins CSV, or JSON Lines, in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create_in(file: NewFile, is_csv: bool, has_vectors: bool) -> Result<Self, DataError> {
        let count = if has_vectors { FIELDS.len() } else { FIELDS_WITHOUT_VECTOR };
        let (path, fields) = (file.path().to_owned(), &FIELDS[..count]);
        let output = if is_csv {
            let mut csv = csv::Writer::from_writer(file);
            csv.write_record(fields).map_err(|error| failed(&path, error))?;
            Output::Csv(Box::new(csv))
        } else {
            Output::JsonLines(BufWriter::with_capacity(BUFFER_BYTES, file))
        };
        Ok(Self { output, path, fields })
    }

    /// Appends a row; an empty vector is none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<(), DataError> {
        let time = record.created_at.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        let vector = (!record.vector.is_empty()).then_some(record.vector);
        let values = [
            json!(record.id),
            json!(record.text),
            json!(record.categories),
            json!(record.importance),
            json!(record.access_count),
            json!(time.map(|time| time.to_string())),
            json!(record.source),
            json!(vector.map(|_| record.model)),
        ];
        // A value of JSON would hold f64, with more digits.
        let vector = vector.map(|vector| serde_json::to_string(vector).unwrap_or_default());
        let in_json = |at: usize| match values.get(at) {
            Some(value) => (!value.is_null()).then(|| value.to_string()),
            None => vector.clone(),
        };
        let written = match &mut self.output {
            Output::Csv(csv) => {
                let as_text = |at: usize| values.get(at)?.as_str().map(str::to_owned);
                let cell = |at| as_text(at).or_else(|| in_json(at)).unwrap_or_default();
                csv.write_record((0..self.fields.len()).map(cell)).map_err(io::Error::other)
            }
            Output::JsonLines(output) => {
                let member = |(at, name): (usize, &&str)| {
                    format!("{name:?}:{}", in_json(at).as_deref().unwrap_or("null"))
                };
                let members: Vec<String> = self.fields.iter().enumerate().map(member).collect();
                writeln!(output, "{{{}}}", members.join(","))
            }
        };
        written.map_err(|source| DataError::io(&self.path, source))
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(self) -> Result<(), DataError> {
        let file = match self.output {
            Output::Csv(csv) => {
                csv.into_inner().map_err(|error| io::Error::other(error.to_string()))
            }
            Output::JsonLines(output) => {
                output.into_inner().map_err(io::IntoInnerError::into_error)
            }
        };
        let published = file.and_then(|file| file.publish().map(drop));
        published.map_err(|source| DataError::io(&self.path, source))
    }
}

fn failed(path: &Path, error: csv::Error) -> DataError {
    DataError::io(path, io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::{TextFields, TextFile};

    #[test]
    fn rows_are_read_back_from_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let categories = ["ops".into(), "user:u".into()];
        let record = ColumnRecord {
            id: "a",
            created_at: Some(1_767_225_600_000_000),
            categories: &categories,
            importance: 1.5,
            access_count: 3,
            source: "manual",
            model: "m",
            text: Some("two\nlines, \"quoted\""),
            vector: &[0.1, -2.0],
            ..ColumnRecord::default()
        };
        for (name, has_vectors) in
            [("a.jsonl", true), ("b.jsonl", false), ("a.csv", true), ("b.csv", false)]
        {
            let path = folder.path().join(name);
            let file = NewFile::create(&path).unwrap();
            let mut writer =
                TextRowsWriter::create_in(file, name.ends_with("csv"), has_vectors).unwrap();
            writer.push(&record).unwrap();
            let other = ColumnRecord { id: "b", created_at: None, vector: &[], ..record };
            writer.push(&other).unwrap();
            writer.finish().unwrap();
            let file = TextFile::read(&path, &TextFields::default()).unwrap();
            let [first, second] = &*file.records else { panic!("{file:?}") };
            assert_eq!(Some(&*first.text), record.text, "{name}");
            assert_eq!(first.categories, ["ops", "user:u"]);
            assert_eq!((first.importance, first.access_count), (Some(1.5), Some(3)));
            assert_eq!(first.created_at.as_deref(), Some("2026-01-01T00:00:00Z"));
            assert_eq!(first.vector.as_deref(), has_vectors.then_some(record.vector));
            assert_eq!(first.model.is_some(), has_vectors);
            assert_eq!((&second.created_at, &second.vector, &second.model), (&None, &None, &None));
            assert!(file.passed_over.is_empty() && second.fault.is_none());
        }
    }
}
