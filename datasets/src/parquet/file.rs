//! [`ParquetFile`]: an open file whose footer makes sense.

use std::path::Path;

use arrow_buffer::Buffer;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::DataError;
use crate::guarded::guarded;
use crate::input::InputBytes;

/// The first and last bytes of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// The last bytes of a file whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8] = b"PARE";
/// Footer length and magic.
const TRAILER_BYTES: usize = 8;
/// An open file whose footer makes sense.
#[derive(Debug)]
pub(super) struct ParquetFile {
    bytes: InputBytes,
    metadata: ArrowReaderMetadata,
    row_count: usize,
}

impl ParquetFile {
    /// Reads the footer, with the Arrow types that the file was written from.
    pub(super) fn open(bytes: InputBytes) -> Result<Self, DataError> {
        let damaged = |found| DataError::damaged(bytes.path(), format!("footer: {found}"));
        check_footer(&read_footer(&bytes)?).map_err(damaged)?;
        let metadata = guarded(|| ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()))
            .and_then(|loaded| loaded.map_err(|error| error.to_string()))
            .map_err(damaged)?;
        let row_count = row_count(metadata.metadata()).map_err(damaged)?;
        Ok(Self { bytes, metadata, row_count })
    }

    pub(super) fn path(&self) -> &Path {
        self.bytes.path()
    }

    pub(super) const fn bytes(&self) -> &InputBytes {
        &self.bytes
    }

    pub(super) const fn row_count(&self) -> usize {
        self.row_count
    }

    pub(super) const fn metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// Checks that the parts of a column lie inside the file and are compressed in a way that this
    /// build can read.
    pub(super) fn check_chunks(&self, column: &str) -> Result<(), DataError> {
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
                return Err(DataError::format(self.path(), found));
            }
        }
        Ok(())
    }

    pub(super) fn damaged(&self, found: String) -> DataError {
        DataError::damaged(self.path(), found)
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

/// Returns the bytes of the footer, whose place and length are checked against the file's.
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
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lists_and_texts_are_walked() {
        // i32 1 · list of two structs, each a text · flag · stop
        let bytes = [0x15, 2, 0x19, 0x2C, 0x18, 1, b'a', 0, 0x18, 1, b'b', 0, 0x11, 0];
        assert_eq!(check_footer(&bytes), Ok(()));
        assert!((0..bytes.len()).all(|length| check_footer(&bytes[..length]).is_err()));
    }

    #[test]
    fn a_count_beyond_the_end_is_refused() {
        // A list of 2³¹ − 1 structs.
        let bytes = [0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0, 0];
        assert_eq!(check_footer(&bytes).unwrap_err(), "unreadable at byte 7 of 9");
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(check_footer(&[0x1C; 10_000]).is_err());
        assert!(check_footer(&[0x19; 10_000]).is_err());
    }
}
