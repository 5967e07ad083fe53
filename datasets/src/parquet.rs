//! Parquet files: [`ParquetTable`], a table of columns.
//!
//! [`ColumnsWriter`](crate::ColumnsWriter) writes the columns of [`crate::schema`]. Files that are
//! read often belong in [`crate::columns`].

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::DataError;
use crate::catch_panic::decoded;
use crate::input::InputBytes;
use crate::read::{Batches, DECODE_ROWS, Source};

/// The first and last bytes of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// The last bytes of a file with an encrypted footer.
const MAGIC_ENCRYPTED: &[u8] = b"PARE";
/// Footer length and magic.
const TRAILER_BYTES: usize = 8;
/// A Parquet file with a valid footer.
#[derive(Debug, Clone)]
pub(crate) struct ParquetTable {
    bytes: InputBytes,
    metadata: ArrowReaderMetadata,
    row_count: usize,
}

impl ParquetTable {
    /// Reads the footer, with the Arrow types that the file was written from.
    pub(crate) fn open(bytes: InputBytes) -> Result<Self, DataError> {
        let damaged = |found| DataError::damaged(bytes.path(), format!("footer: {found}"));
        check_footer(&read_footer(&bytes)?).map_err(damaged)?;
        let metadata = decoded(|| ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()))
            .map_err(damaged)?;
        let row_count = row_count(metadata.metadata()).map_err(damaged)?;
        Ok(Self { bytes, metadata, row_count })
    }

    /// Returns how the first column is compressed.
    pub(crate) fn compression(&self) -> Compression {
        let groups = self.metadata.metadata().row_groups().first();
        let first = groups.and_then(|group| group.columns().first());
        first.map_or(Compression::UNCOMPRESSED, ColumnChunkMetaData::compression)
    }

    /// Checks that the parts of a column lie inside the file and are compressed in a way that this
    /// build can read.
    fn check_chunks(&self, column: &str) -> Result<(), DataError> {
        let groups = self.metadata.metadata().row_groups().iter();
        for chunk in groups.flat_map(RowGroupMetaData::columns) {
            if chunk.column_path().parts().first().is_none_or(|name| name != column) {
                continue;
            }
            let start = start_of(chunk);
            let size = chunk.compressed_size();
            let is_inside = start >= MAGIC.len() as i64
                && size >= 0
                && start
                    .checked_add(size)
                    .is_some_and(|end| end.cast_unsigned() <= self.bytes.len());
            if !is_inside {
                let length = self.bytes.len();
                let found = format!("column {column:?}: {size} bytes at {start} of {length}");
                return Err(self.damaged(found));
            }
            let compression = chunk.compression();
            if !is_known(compression) {
                let name = compression.to_string();
                let name = name.split('(').next().unwrap_or_default();
                let found =
                    format!("column {column:?} is compressed with {name}, expected {CODECS}");
                return Err(DataError::format(self.bytes.path(), found));
            }
        }
        Ok(())
    }

    fn damaged(&self, found: String) -> DataError {
        DataError::damaged(self.bytes.path(), found)
    }
}

/// The codecs that are read, as errors list them.
const CODECS: &str = "none, snappy, zstd, gzip, lz4 or brotli";

const fn is_known(compression: Compression) -> bool {
    !matches!(compression, Compression::LZO)
}

/// Returns where the pages of a column chunk begin, as the file has it.
fn start_of(chunk: &ColumnChunkMetaData) -> i64 {
    chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset())
}

/// Returns the number of rows on which the file and its row groups agree.
fn row_count(metadata: &ParquetMetaData) -> Result<usize, String> {
    let rows = metadata.file_metadata().num_rows();
    let groups = metadata.row_groups().iter().map(|group| group.num_rows());
    let sum = groups.clone().try_fold(0_i64, i64::checked_add);
    if groups.min().is_some_and(|rows| rows < 0) || sum != Some(rows) {
        return Err(format!("{rows} rows, but row groups of {}", sum.unwrap_or(i64::MAX)));
    }
    match u32::try_from(rows) {
        Ok(rows) if rows < u32::MAX => Ok(rows as usize),
        _ => Err(format!("{rows} rows, expected at most {}", u32::MAX - 1)),
    }
}

/// Returns the bytes of the footer; its place and length are checked against the file's.
fn read_footer(bytes: &InputBytes) -> Result<Buffer, DataError> {
    let unreadable = |found: String| {
        DataError::format(bytes.path(), format!("not a readable Parquet file ({found})"))
    };
    let length = bytes.len();
    let start = bytes.read(0, MAGIC.len().min(length as usize))?;
    if start.as_slice() != MAGIC {
        return Err(unreadable(format!("it begins with \"{}\"", start.escape_ascii())));
    }
    if length < (MAGIC.len() + TRAILER_BYTES) as u64 {
        return Err(unreadable(format!("cut off after {length} bytes")));
    }
    let trailer_start = length - TRAILER_BYTES as u64;
    let trailer = bytes.read(trailer_start, TRAILER_BYTES)?;
    let (&footer_length, magic) = trailer.split_first_chunk().unwrap_or((&[0; 4], &[]));
    if magic == MAGIC_ENCRYPTED {
        return Err(unreadable("its footer is encrypted".into()));
    }
    if magic != MAGIC {
        return Err(unreadable(format!("cut off: it ends in \"{}\"", magic.escape_ascii())));
    }
    let footer_length = u32::from_le_bytes(footer_length);
    let Some(footer_start) = trailer_start.checked_sub(footer_length.into()) else {
        return Err(unreadable(format!("a footer of {footer_length} bytes in {length}")));
    };
    bytes.read(footer_start, footer_length as usize)
}

/// Deepest nesting that is followed; real footers need 7 levels.
const DEPTH_MAX: usize = 32;

/// Checks that every field, list and text of the footer lies inside its bytes.
///
/// An element takes at least a byte, so a count that passes is no larger than the footer.
fn check_footer(bytes: &[u8]) -> Result<(), String> {
    let mut walk = Walk { bytes, position: 0 };
    walk.structure(0)
        .ok_or_else(|| format!("unreadable at byte {} of {}", walk.position, bytes.len()))
}

/// A position in the bytes; `None` from a step means that they end too early or make no sense.
struct Walk<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Walk<'_> {
    fn structure(&mut self, depth: usize) -> Option<()> {
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            // A zero in the upper half says that the field's id follows in full.
            if header >> 4 == 0 {
                self.number()?;
            }
            // A field holds a flag in its type; in a list it takes a byte.
            if !matches!(header & 15, 1 | 2) {
                self.value(header & 15, depth)?;
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 if depth < DEPTH_MAX => self.list(depth + 1),
            12 if depth < DEPTH_MAX => self.structure(depth + 1),
            _ => None,
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.number()?,
            count => u64::from(count),
        };
        if count > (self.bytes.len() - self.position) as u64 {
            return None;
        }
        (0..count).try_for_each(|_| self.value(header & 15, depth))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        let end = self.position.checked_add(usize::try_from(count).ok()?)?;
        (end <= self.bytes.len()).then(|| self.position = end)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.position).copied();
        self.position += usize::from(byte.is_some());
        byte
    }
}

impl Source for ParquetTable {
    fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    fn row_count(&self) -> usize {
        self.row_count
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        self.bytes.check_unchanged()
    }

    fn batches(&self, positions: &[usize], rows: usize) -> Result<Batches, DataError> {
        let rows = rows.min(DECODE_ROWS);
        let batches = TableBatches::begin(self, positions, self.row_count, |builder| {
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
        let selection = RowSelection::from_consecutive_ranges(ranges, self.row_count);
        TableBatches::begin(self, &[position], rows.len(), |builder| {
            builder.with_batch_size(DECODE_ROWS).with_row_selection(selection)
        })?
        .collect()
    }
}

/// Columns of a Parquet file, batch by batch; after an error there are no more.
struct TableBatches {
    table: ParquetTable,
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
        table: &ParquetTable,
        positions: &[usize],
        row_count: usize,
        choose: impl FnOnce(
            ParquetRecordBatchReaderBuilder<InputBytes>,
        ) -> ParquetRecordBatchReaderBuilder<InputBytes>,
    ) -> Result<Self, DataError> {
        let fields = table.metadata.schema().fields();
        for &position in positions {
            table.check_chunks(fields[position].name())?;
        }
        let names = positions.iter().map(|&position| format!("{:?}", fields[position].name()));
        let columns = names.collect::<Vec<_>>().join(", ");
        let handle = table.bytes.clone();
        let build = || {
            let metadata = table.metadata.clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
            let roots = positions.iter().copied();
            let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
            choose(builder.with_projection(mask)).build()
        };
        let reader =
            decoded(build).map_err(|found| table.damaged(format!("column {columns}: {found}")))?;
        let table = table.clone();
        Ok(Self { table, columns, reader, row_count, rows_read: 0, is_over: false })
    }

    fn damaged(&self, found: &str) -> DataError {
        self.table.damaged(format!("column {}: {found}", self.columns))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DataError> {
        let rows_read = self.rows_read;
        let next = decoded(|| self.reader.next().transpose().map_err(arrow_message))
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, ListArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::read::support::{batch, vectors_in};

    #[test]
    fn every_codec_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let rows = (0..500).map(|i| Some([Some(i % 7), Some(i)]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
        let batch = batch(&[("vector", lists)]);
        for codec in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(ZstdLevel::default()),
            Compression::GZIP(GzipLevel::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::BROTLI(BrotliLevel::default()),
        ] {
            let properties = WriterProperties::builder().set_compression(codec).build();
            let file = File::create(&path).unwrap();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let values = vectors_in(&path, None).unwrap();
            assert!(
                (0..500).all(|i| values[2 * i..][..2] == [(i % 7) as f32, i as f32]),
                "{codec}"
            );
        }
    }

    #[test]
    fn fields_lists_and_texts_are_walked() {
        // i32 1 · list of two structs, each a text · flag · stop
        let bytes = [0x15, 2, 0x19, 0x2C, 0x18, 1, b'a', 0, 0x18, 1, b'b', 0, 0x11, 0];
        assert_eq!(check_footer(&bytes), Ok(()));
        assert!((0..bytes.len()).all(|length| check_footer(&bytes[..length]).is_err()));
        // A list of 2³¹ − 1 structs.
        let bytes = [0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0, 0];
        assert_eq!(check_footer(&bytes).unwrap_err(), "unreadable at byte 7 of 9");
        // Deep nesting.
        assert!(check_footer(&[0x1C; 10_000]).is_err());
        assert!(check_footer(&[0x19; 10_000]).is_err());
    }
}
