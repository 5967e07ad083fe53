//! [`ParquetText`]: a text column of a Parquet file, row by row.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, StringArray};
use arrow_schema::DataType;

use super::ReadParquetError;
use super::batches::ColumnSource;

/// Reads a text column of a Parquet file: an iterator over its rows, with a small batch in memory.
///
/// A row without text is `None`. After an error there are no more rows.
///
/// # Examples
/// ```no_run
/// use memfold_datasets::ParquetText;
///
/// for text in ParquetText::open("texts.parquet".as_ref(), &["text", "content"])? {
///     let text: Option<String> = text?;
/// }
/// # Ok::<(), memfold_datasets::parquet::ReadParquetError>(())
/// ```
#[derive(Debug)]
pub struct ParquetText {
    source: ColumnSource,
    batch: StringArray,
    position: usize,
    is_over: bool,
}

impl ParquetText {
    /// Opens the first of the columns `names` that the file at `path` has.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet file, or has no such column of text.
    pub fn open(path: &Path, names: &[&str]) -> Result<Self, ReadParquetError> {
        let source = ColumnSource::open(path, names)?;
        if source.data_type() != &DataType::Utf8 {
            return Err(source.type_error("text"));
        }
        let batch = StringArray::from(Vec::<&str>::new());
        Ok(Self { source, batch, position: 0, is_over: false })
    }

    /// Returns the number of rows of the file.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.source.row_count()
    }

    /// Returns the name of the column that was found.
    #[must_use]
    pub fn column(&self) -> Box<str> {
        self.source.column()
    }

    /// Decodes the next rows; returns false at the end.
    fn decode_rows(&mut self) -> Result<bool, ReadParquetError> {
        let Some((_, rows)) = self.source.next_rows()? else { return Ok(false) };
        let texts = rows.as_string_opt::<i32>().ok_or_else(|| self.source.type_error("text"))?;
        self.batch = texts.clone();
        self.position = 0;
        Ok(true)
    }
}

impl Iterator for ParquetText {
    type Item = Result<Option<String>, ReadParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.position == self.batch.len() && !self.is_over {
            match self.decode_rows() {
                Ok(has_rows) => self.is_over = !has_rows,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        let row = self.position;
        if row == self.batch.len() {
            return None;
        }
        self.position += 1;
        Some(Ok(self.batch.is_valid(row).then(|| self.batch.value(row).to_owned())))
    }
}
