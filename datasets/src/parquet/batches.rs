//! [`TableBatches`]: columns of a Parquet file as record batches.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use super::ReadParquetError;
use super::file::ParquetFile;
use super::group::PlainGroup;
use super::lent::LentMemory;
use super::plain::{NotPlain, PlainColumn, PlainVectors};
use crate::guarded::guarded;

/// Rows decoded at once: some MB of vectors.
pub(crate) const DECODE_ROWS: usize = 1024;
/// Components of a batch, which are counted with 31 bits.
const BATCH_COMPONENTS_MAX: usize = i32::MAX as usize;

/// Columns of a Parquet file, batch by batch; after an error there are no more.
///
/// Vectors that are stored plainly are read as they are, all else by the decoder.
pub(crate) struct TableBatches {
    columns: Columns,
    current: Current,
    /// The first row group that was not begun.
    next_group: usize,
    memory: LentMemory,
    row_count: usize,
    rows_read: usize,
    is_over: bool,
}

/// What is read of a file.
struct Columns {
    file: Arc<ParquetFile>,
    /// Positions in the file, ascending.
    positions: Vec<usize>,
    schema: SchemaRef,
    /// Those that may be stored plainly.
    plain: Vec<PlainColumn>,
    /// Most rows of a batch.
    batch_rows: usize,
}

/// What the next batch comes from.
enum Current {
    Plain {
        group: usize,
        rows: PlainGroup,
    },
    Decoded {
        reader: ParquetRecordBatchReader,
        /// Rows that were returned before, and are decoded again: whether a row is right may depend on
        /// those before it.
        rows_known: usize,
    },
    Ended,
}

impl TableBatches {
    /// Reads all rows; a batch has at most `batch_rows` of them, at least 1.
    pub(super) fn of_all(
        file: &Arc<ParquetFile>,
        positions: &[usize],
        batch_rows: usize,
    ) -> Result<Self, ReadParquetError> {
        let columns = Columns::new(file, positions, batch_rows)?;
        Self::begin(columns, file.row_count(), |columns| columns.begin_at(0))
    }

    /// Reads the `row_count` rows of `selection`.
    pub(super) fn of_selected(
        file: &Arc<ParquetFile>,
        positions: &[usize],
        selection: RowSelection,
        row_count: usize,
    ) -> Result<Self, ReadParquetError> {
        let columns = Columns::new(file, positions, DECODE_ROWS)?;
        Self::begin(columns, row_count, |columns| {
            let builder = columns.builder(&columns.positions, columns.batch_rows)?;
            let reader = built(builder.with_row_selection(selection))?;
            Ok((Current::Decoded { reader, rows_known: 0 }, usize::MAX))
        })
    }

    fn begin(
        columns: Columns,
        row_count: usize,
        begin: impl FnOnce(&Columns) -> Result<(Current, usize), String>,
    ) -> Result<Self, ReadParquetError> {
        let (current, next_group) = guarded(|| begin(&columns))
            .and_then(|begun| begun)
            .map_err(|found| columns.damaged(&found))?;
        let memory = LentMemory::default();
        Ok(Self { columns, current, next_group, memory, row_count, rows_read: 0, is_over: false })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadParquetError> {
        let rows_read = self.rows_read;
        let next = guarded(|| self.read())
            .and_then(|read| read)
            .map_err(|found| self.columns.damaged(&format!("after row {rows_read}: {found}")))?;
        self.rows_read += next.as_ref().map_or(0, RecordBatch::num_rows);
        let is_short = next.is_none() && self.rows_read != self.row_count;
        if self.rows_read > self.row_count || is_short {
            let found = format!("{} rows, expected {}", self.rows_read, self.row_count);
            return Err(self.columns.damaged(&found));
        }
        Ok(next)
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, String> {
        loop {
            let read = match &mut self.current {
                Current::Plain { group, rows } => {
                    let Ok(read) = rows.read(&self.columns.schema, &mut self.memory) else {
                        let reader = self.columns.decoded(*group..*group + 1)?;
                        self.current = Current::Decoded { reader, rows_known: rows.rows_read() };
                        continue;
                    };
                    read
                }
                Current::Decoded { reader, rows_known } => {
                    let batch = reader.next().transpose().map_err(arrow_message)?;
                    let known = batch.as_ref().map_or(0, |batch| batch.num_rows().min(*rows_known));
                    *rows_known -= known;
                    match batch {
                        Some(batch) if known == batch.num_rows() => continue,
                        batch => batch.map(|batch| batch.slice(known, batch.num_rows() - known)),
                    }
                }
                Current::Ended => return Ok(None),
            };
            if read.is_some() {
                return Ok(read);
            }
            (self.current, self.next_group) = self.columns.begin_at(self.next_group)?;
        }
    }
}

#[cfg(test)]
impl TableBatches {
    /// Has all columns decoded, plain or not; before the first batch.
    pub(super) fn decode_all(&mut self) {
        self.columns.plain.clear();
        (self.current, self.next_group) = self.columns.begin_at(0).unwrap();
    }

    /// Tells whether the last batch did not pass the decoder.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self.current, Current::Plain { .. })
    }
}

impl Iterator for TableBatches {
    type Item = Result<RecordBatch, ReadParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_batch().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Columns {
    fn new(
        file: &Arc<ParquetFile>,
        positions: &[usize],
        batch_rows: usize,
    ) -> Result<Self, ReadParquetError> {
        let fields = file.metadata().schema().fields();
        for &position in positions {
            file.check_chunks(fields[position].name())?;
        }
        let plain = positions.iter().enumerate();
        let plain = plain.filter_map(|(at, &root)| PlainColumn::find(file.metadata(), root, at));
        let fields: Vec<_> = positions.iter().map(|&at| Arc::clone(&fields[at])).collect();
        Ok(Self {
            file: Arc::clone(file),
            positions: positions.to_vec(),
            schema: Arc::new(Schema::new(fields)),
            plain: plain.collect(),
            batch_rows,
        })
    }

    fn damaged(&self, found: &str) -> ReadParquetError {
        let names = self.schema.fields().iter().map(|field| format!("{:?}", field.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        self.file.damaged(format!("column {names}: {found}"))
    }

    /// Begins with the row group at `first`; returns with it the first one that is left for later.
    fn begin_at(&self, first: usize) -> Result<(Current, usize), String> {
        let groups = self.file.metadata().metadata().row_groups();
        if first >= groups.len() && first > 0 {
            return Ok((Current::Ended, first));
        }
        if let Some(dims) = self.dims_in(first)
            && let Ok(rows) = self.plain(first, &dims)
        {
            return Ok((Current::Plain { group: first, rows }, first + 1));
        }
        // One decoder for all groups up to the next plain one: a file may have many small ones, or none.
        let end = (first + 1..groups.len()).find(|&group| self.dims_in(group).is_some());
        let end = end.unwrap_or(groups.len());
        let reader = self.decoded(first..end)?;
        Ok((Current::Decoded { reader, rows_known: 0 }, end.max(first + 1)))
    }

    /// Returns the dimensions of the plain columns in a row group; `None` where one may not be plain
    /// there.
    fn dims_in(&self, group: usize) -> Option<Vec<usize>> {
        let group = self.file.metadata().metadata().row_groups().get(group)?;
        let dims: Option<Vec<_>> = self.plain.iter().map(|column| column.dim_in(group)).collect();
        dims.filter(|dims| !dims.is_empty())
    }

    fn plain(&self, group: usize, dims: &[usize]) -> Result<PlainGroup, NotPlain> {
        let metadata = self.file.metadata().metadata().row_group(group);
        let rows = usize::try_from(metadata.num_rows())?;
        let vectors = self.plain.iter().zip(dims).map(|(column, &dim)| {
            let handle = self.file.handle()?;
            PlainVectors::open(column.clone(), dim, metadata, handle)
        });
        let vectors = vectors.collect::<Result<Vec<_>, _>>()?;
        let dim_max = dims.iter().copied().max().unwrap_or(1);
        let batch_rows = self.batch_rows.min(BATCH_COMPONENTS_MAX / dim_max);
        let is_other = |at: &usize| self.plain.iter().all(|column| column.position() != *at);
        let others = (0..self.positions.len()).filter(is_other).map(|at| self.positions[at]);
        let others: Vec<usize> = others.collect();
        let others = (!others.is_empty()).then(|| -> Result<_, NotPlain> {
            let builder = self.builder(&others, batch_rows).map_err(|_| NotPlain)?;
            built(builder.with_row_groups(vec![group])).map_err(|_| NotPlain)
        });
        Ok(PlainGroup::new(rows, batch_rows, vectors, others.transpose()?))
    }

    /// Decodes all columns of some row groups.
    fn decoded(&self, groups: Range<usize>) -> Result<ParquetRecordBatchReader, String> {
        let builder = self.builder(&self.positions, self.batch_rows.min(DECODE_ROWS))?;
        built(builder.with_row_groups(groups.collect()))
    }

    fn builder(
        &self,
        positions: &[usize],
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReaderBuilder<File>, String> {
        let handle = self.file.handle().map_err(|error| error.to_string())?;
        let metadata = self.file.metadata().clone();
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
        let roots = positions.iter().copied();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        Ok(builder.with_projection(mask).with_batch_size(batch_rows))
    }
}

fn built(
    builder: ParquetRecordBatchReaderBuilder<File>,
) -> Result<ParquetRecordBatchReader, String> {
    builder.build().map_err(|error| error.to_string())
}

fn arrow_message(error: ArrowError) -> String {
    match error {
        ArrowError::ParquetError(message) => message,
        other => other.to_string(),
    }
}
