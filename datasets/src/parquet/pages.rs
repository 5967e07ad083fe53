//! [`PageSource`]: the bytes of a column's pages, one page in memory at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes read with each page, so that the header after it is there: longer than headers are.
const HEADER_BYTES: usize = 4096;

/// The bytes of one column of a row group; memory of a page that is no longer used serves for the next.
#[derive(Debug)]
pub(super) struct PageSource {
    file: File,
    /// Where the column ends.
    end: u64,
    last: Mutex<Span>,
}

/// Bytes of the file that were read last.
#[derive(Debug, Default)]
struct Span {
    start: u64,
    bytes: Bytes,
}

impl PageSource {
    /// Reads from a handle of the file up to the position `end`.
    pub(super) fn new(file: File, end: u64) -> Self {
        Self { file, end, last: Mutex::default() }
    }

    /// Returns how many of `length` bytes at `start` belong to the column.
    fn clamped(&self, start: u64, length: usize) -> usize {
        usize::try_from(self.end.saturating_sub(start)).map_or(length, |left| left.min(length))
    }

    fn read(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = last.get(start, length) {
            return Ok(bytes);
        }
        let mut memory = std::mem::take(&mut last.bytes).try_into_mut().unwrap_or_default();
        memory.resize(self.clamped(start, length.saturating_add(HEADER_BYTES)), 0);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut memory)?;
        *last = Span { start, bytes: memory.freeze() };
        last.get(start, length)
            .ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} of a column")))
    }
}

impl Span {
    fn get(&self, start: u64, length: usize) -> Option<Bytes> {
        let start = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(length).filter(|&end| end <= self.bytes.len())?;
        Some(self.bytes.slice(start..end))
    }
}

impl Length for PageSource {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for PageSource {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let header = self.read(start, self.clamped(start, HEADER_BYTES))?;
        // A reader may be held while the page is read, whose memory must be free by then.
        Ok(Bytes::copy_from_slice(&header).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.read(start, length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_are_those_of_the_file_and_memory_is_used_again() {
        let content: Vec<u8> = (0..40_000_u32).map(|i| (i * 31 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let source = PageSource::new(file, 30_000);
        let first = source.get_bytes(100, 9000).unwrap();
        assert_eq!(first, content[100..9100]);
        let address = first.as_ptr();
        drop(first);
        let mut reader = source.get_read(9100).unwrap();
        let second = source.get_bytes(13_000, 9000).unwrap();
        assert_eq!((second.as_ptr(), &second[..]), (address, &content[13_000..22_000]));
        let mut header = Vec::new();
        reader.read_to_end(&mut header).unwrap();
        assert_eq!(header, content[9100..9100 + HEADER_BYTES]);
        // What is in use keeps its bytes.
        let third = source.get_bytes(22_000, 8000).unwrap();
        assert_eq!((&second[..], &third[..]), (&content[13_000..22_000], &content[22_000..30_000]));
        assert!(source.get_bytes(22_000, 8001).is_err(), "beyond the column");
        assert!(source.get_bytes(31_000, 1).is_err());
        assert_eq!(source.get_read(30_000).unwrap().into_inner().len(), 0);
    }
}
