//! [`ParquetTable`]: columns of a Parquet file as record batches, and [`ParquetText`]: one of texts.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use super::file::ParquetFile;
use crate::DataError;
use crate::error::ColumnRole;
use crate::guarded::guarded;
use crate::input::InputBytes;
use crate::read::{Batches, DECODE_ROWS, Source, Texts, find_column};

/// A Parquet file of which columns are read together.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    file: Arc<ParquetFile>,
}

impl ParquetTable {
    pub(crate) fn open(bytes: InputBytes) -> Result<Self, DataError> {
        Ok(Self { file: Arc::new(ParquetFile::open(bytes)?) })
    }

    /// Returns how the first column is compressed.
    pub(crate) fn compression(&self) -> Compression {
        let groups = self.file.metadata().metadata().row_groups().first();
        let first = groups.and_then(|group| group.columns().first());
        first.map_or(Compression::UNCOMPRESSED, ColumnChunkMetaData::compression)
    }
}

impl Source for ParquetTable {
    fn schema(&self) -> &SchemaRef {
        self.file.metadata().schema()
    }

    fn row_count(&self) -> usize {
        self.file.row_count()
    }

    fn batches(&self, positions: &[usize], rows: usize) -> Result<Batches, DataError> {
        let rows = rows.min(DECODE_ROWS);
        let batches = TableBatches::begin(&self.file, positions, self.row_count(), |builder| {
            builder.with_batch_size(rows)
        });
        Ok(Box::new(batches?))
    }

    fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError> {
        let ranges = rows.iter().map(|&row| row..row + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.row_count());
        TableBatches::begin(&self.file, &[position], rows.len(), |builder| {
            builder.with_batch_size(DECODE_ROWS).with_row_selection(selection)
        })?
        .collect()
    }
}

/// Columns of a Parquet file, batch by batch; after an error there are no more.
struct TableBatches {
    file: Arc<ParquetFile>,
    /// The names of the columns, for errors.
    columns: String,
    reader: ParquetRecordBatchReader,
    row_count: usize,
    rows_read: usize,
    is_over: bool,
}

impl TableBatches {
    /// Begins to read `row_count` rows, which `choose` selects.
    fn begin(
        file: &Arc<ParquetFile>,
        positions: &[usize],
        row_count: usize,
        choose: impl FnOnce(
            ParquetRecordBatchReaderBuilder<InputBytes>,
        ) -> ParquetRecordBatchReaderBuilder<InputBytes>,
    ) -> Result<Self, DataError> {
        let fields = file.metadata().schema().fields();
        for &position in positions {
            file.check_chunks(fields[position].name())?;
        }
        let names = positions.iter().map(|&position| format!("{:?}", fields[position].name()));
        let columns = names.collect::<Vec<_>>().join(", ");
        let handle = file.bytes().clone();
        let build = || {
            let metadata = file.metadata().clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
            let roots = positions.iter().copied();
            let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
            choose(builder.with_projection(mask)).build().map_err(|error| error.to_string())
        };
        let reader = guarded(build)
            .and_then(|built| built)
            .map_err(|found| file.damaged(format!("column {columns}: {found}")))?;
        let file = Arc::clone(file);
        Ok(Self { file, columns, reader, row_count, rows_read: 0, is_over: false })
    }

    fn damaged(&self, found: &str) -> DataError {
        self.file.damaged(format!("column {}: {found}", self.columns))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DataError> {
        let rows_read = self.rows_read;
        let next = guarded(|| self.reader.next().transpose().map_err(arrow_message))
            .and_then(|read| read)
            .map_err(|found| self.damaged(&format!("after row {rows_read}: {found}")))?;
        self.rows_read += next.as_ref().map_or(0, RecordBatch::num_rows);
        let is_short = next.is_none() && self.rows_read != self.row_count;
        if self.rows_read > self.row_count || is_short {
            let found = format!("{} rows, expected {}", self.rows_read, self.row_count);
            return Err(self.damaged(&found));
        }
        Ok(next)
    }
}

impl Iterator for TableBatches {
    type Item = Result<RecordBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_batch().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

fn arrow_message(error: ArrowError) -> String {
    match error {
        ArrowError::ParquetError(message) => message,
        other => other.to_string(),
    }
}

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
/// # Ok::<(), memfold_datasets::DataError>(())
/// ```
pub struct ParquetText {
    column: Box<str>,
    row_count: usize,
    batches: Batches,
    /// Texts of the batch that was begun, and how many were handed out.
    begun: Option<(Texts, usize, usize)>,
}

impl std::fmt::Debug for ParquetText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetText").field("column", &self.column).finish_non_exhaustive()
    }
}

impl ParquetText {
    /// Opens the first of the columns `names` that the file at `path` has.
    ///
    /// # Errors
    /// When the file cannot be read, is not a Parquet file, or has no such column of text.
    pub fn open(path: &Path, names: &[&str]) -> Result<Self, DataError> {
        let table = ParquetTable::open(InputBytes::open(path)?)?;
        let role = ColumnRole::Text;
        let position = find_column(table.schema(), path, names, role)?;
        let field = table.schema().field(position);
        let column: Box<str> = field.name().as_str().into();
        if !Texts::accept(field.data_type()) {
            let (path, found) = (path.into(), field.data_type().to_string());
            return Err(DataError::ColumnType { path, role, column, expected: "text", found });
        }
        let batches = table.batches(&[position], DECODE_ROWS)?;
        Ok(Self { column, row_count: table.row_count(), batches, begun: None })
    }

    /// Returns the number of rows of the file.
    #[must_use]
    pub const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the name of the column that was found.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.column
    }
}

impl Iterator for ParquetText {
    type Item = Result<Option<String>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((texts, next, count)) = &mut self.begun
                && next < count
            {
                *next += 1;
                return Some(Ok(texts.get(*next - 1).map(str::to_owned)));
            }
            match self.batches.next()? {
                Ok(batch) => {
                    let texts = Texts::of(batch.column(0)).expect("the type was checked");
                    self.begun = Some((texts, 0, batch.num_rows()));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
