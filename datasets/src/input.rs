//! [`InputBytes`]: a user's file, or bytes in memory, read where needed.
//!
//! Other programs may write to a user's file, so it is never mapped: where it became shorter,
//! reading ends with an error.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use crate::DataError;

/// The mark that some programs write before a text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Files that stay open; more are opened again when they are read. Systems allow a process 1,024.
const OPEN_FILES_MAX: usize = 256;
/// Bytes that a [`Cursor`] reads at once.
const READ_AHEAD: usize = 64 << 10;

/// The kind of error of a file that became shorter.
const CHANGED: io::ErrorKind = io::ErrorKind::UnexpectedEof;

/// Files that are kept open now.
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// An input; clones share its handle.
#[derive(Debug, Clone)]
pub(crate) struct InputBytes {
    path: Arc<Path>,
    length: u64,
    modified: Option<SystemTime>,
    place: Place,
}

/// Where the bytes are.
#[derive(Debug, Clone)]
enum Place {
    /// A file that stays open.
    Kept(Arc<Kept>),
    /// A file that is opened for each read, because too many are open.
    Closed,
    /// Memory: a map of a file of ours, or bytes that a caller read.
    Memory(Buffer),
}

#[derive(Debug)]
struct Kept(File);

impl Drop for Kept {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InputBytes {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |source| DataError::io(path, source);
        // Before opening: opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(DataError::format(path, "a folder, pipe or device, not a file"));
        }
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        Ok(Self::of(file, path, &found, OPEN_FILES_MAX))
    }

    /// Takes a file without a name that is complete; errors call it `path`.
    pub(crate) fn of_scratch(file: File, path: &Path) -> Result<Self, DataError> {
        let found = file.metadata().map_err(|source| DataError::io(path, source))?;
        Ok(Self::of(file, path, &found, usize::MAX))
    }

    /// Takes bytes in memory; errors call them `path`.
    pub(crate) fn in_memory(path: &Path, bytes: Buffer) -> Self {
        let (length, modified) = (bytes.len() as u64, None);
        Self { path: path.into(), length, modified, place: Place::Memory(bytes) }
    }

    fn of(file: File, path: &Path, found: &Metadata, open_max: usize) -> Self {
        let is_kept = OPEN_FILES.fetch_add(1, Ordering::Relaxed) < open_max;
        let kept = Arc::new(Kept(file));
        let place = if is_kept { Place::Kept(kept) } else { Place::Closed };
        Self { path: path.into(), length: found.len(), modified: found.modified().ok(), place }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn len(&self) -> u64 {
        self.length
    }

    /// Returns the bytes that are in memory; none of a file.
    pub(crate) fn memory(&self) -> &[u8] {
        if let Place::Memory(bytes) = &self.place { bytes } else { &[] }
    }

    /// Refuses a file that another program wrote to since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), DataError> {
        let found = match &self.place {
            Place::Kept(kept) => kept.0.metadata(),
            Place::Closed => std::fs::metadata(&self.path),
            Place::Memory(_) => return Ok(()),
        };
        let found = found.map_err(|source| DataError::io(&self.path, source))?;
        if self.is_same(&found) { Ok(()) } else { Err(self.failed(CHANGED.into())) }
    }

    fn is_same(&self, found: &Metadata) -> bool {
        found.len() == self.length && found.modified().ok() == self.modified
    }

    /// Returns `count` bytes from `start` on; bytes in memory are not copied.
    pub(crate) fn read(&self, start: u64, count: usize) -> Result<Buffer, DataError> {
        if let Place::Memory(bytes) = &self.place {
            let range = self.range(start, count).map_err(|source| self.failed(source))?;
            return Ok(bytes.slice_with_length(range.start, range.len()));
        }
        let mut bytes = MutableBuffer::from_len_zeroed(count);
        self.fill(start, &mut bytes).map_err(|source| self.failed(source))?;
        Ok(bytes.into())
    }

    /// Returns a reader of the bytes from `start` on.
    pub(crate) fn cursor(&self, start: u64) -> Cursor {
        let positioned = Positioned { bytes: self.clone(), position: start };
        BufReader::with_capacity(READ_AHEAD, positioned)
    }

    /// Says why reading failed.
    pub(crate) fn failed(&self, source: io::Error) -> DataError {
        match source.kind() {
            CHANGED => DataError::Changed { path: self.path().into() },
            _ => DataError::io(&self.path, source),
        }
    }

    /// Fills `bytes` from `start` on.
    pub(crate) fn fill(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match &self.place {
            Place::Kept(kept) => read_exact_at(&kept.0, start, bytes),
            Place::Closed => read_exact_at(&self.reopened()?, start, bytes),
            Place::Memory(memory) => {
                bytes.copy_from_slice(&memory[self.range(start, bytes.len())?]);
                Ok(())
            }
        }
    }

    /// Returns where some bytes in memory are.
    fn range(&self, start: u64, count: usize) -> io::Result<Range<usize>> {
        let end = start.checked_add(count as u64).filter(|end| *end <= self.length);
        Ok(start as usize..end.ok_or(CHANGED)? as usize)
    }

    fn reopened(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        if self.is_same(&file.metadata()?) { Ok(file) } else { Err(CHANGED.into()) }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut start: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, bytes, start)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (start, bytes) = (start + count as u64, &mut bytes[count..]);
    }
    Ok(())
}

/// Reads an input from front to back, and seeks.
pub(crate) type Cursor = BufReader<Positioned>;

/// A position in an input.
#[derive(Debug)]
pub(crate) struct Positioned {
    bytes: InputBytes,
    position: u64,
}

impl Read for Positioned {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.length.saturating_sub(self.position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(to.len());
        self.bytes.fill(self.position, &mut to[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.bytes.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl Length for InputBytes {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for InputBytes {
    type T = Cursor;

    fn get_read(&self, start: u64) -> ParquetResult<Cursor> {
        Ok(self.cursor(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let is_inside = start.checked_add(length as u64).is_some_and(|end| end <= self.length);
        if !is_inside {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} of {}", self.length)));
        }
        let mut bytes = vec![0; length];
        self.fill(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn truncated_file_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let bytes = InputBytes::open(file.path()).unwrap();
        assert_eq!(bytes.read(99_990, 10).unwrap().as_slice(), [7; 10]);
        let mut cursor = bytes.cursor(0);
        file.as_file().set_len(50_000).unwrap();
        for failed in [bytes.read(60_000, 10).unwrap_err(), bytes.read(0, 100_000).unwrap_err()] {
            assert!(matches!(failed, DataError::Changed { .. }), "{failed}");
        }
        assert!(cursor.read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn cursor_reads_what_is_there() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&content).unwrap();
        let bytes = InputBytes::open(file.path()).unwrap();
        let mut cursor = bytes.cursor(3);
        let mut found = vec![0; 10];
        cursor.read_exact(&mut found).unwrap();
        assert_eq!(found, content[3..13]);
        cursor.seek(SeekFrom::Current(-5)).unwrap();
        found.clear();
        cursor.read_to_end(&mut found).unwrap();
        assert!(found == content[8..]);
        cursor.seek(SeekFrom::End(-2)).unwrap();
        assert_eq!(cursor.read(&mut [0; 9]).unwrap(), 2);
        assert!(cursor.seek(SeekFrom::Current(-300_000)).is_err());
    }

    #[test]
    fn files_beyond_the_limit_are_opened_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        let found = file.as_file().metadata().unwrap();
        let handle = file.reopen().unwrap();
        let bytes = InputBytes::of(handle, file.path(), &found, 0);
        assert!(matches!(bytes.place, Place::Closed));
        assert_eq!(bytes.read(2, 3).unwrap().as_slice(), b"234");
        file.write_all(b"!").unwrap();
        assert!(matches!(bytes.read(2, 3), Err(DataError::Changed { .. })));
        assert!(matches!(bytes.check_unchanged(), Err(DataError::Changed { .. })));
    }

    #[test]
    fn bytes_in_memory_are_read_within_their_end() {
        let bytes = InputBytes::in_memory(Path::new("m"), Buffer::from(b"0123456789"));
        assert_eq!(bytes.read(8, 2).unwrap().as_slice(), b"89");
        assert!(bytes.read(8, 3).is_err() && bytes.read(u64::MAX, 3).is_err());
        assert_eq!(bytes.cursor(3).bytes().count(), 7);
        bytes.check_unchanged().unwrap();
    }
}
