//! [`BlockWriter`]: a file written in large blocks, past the system's cache where that is possible.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use tempfile::NamedTempFile;

use crate::behind::{Behind, Output, Unwritten};

/// Bytes of a block, at whose multiples blocks end.
const BLOCK_BYTES: usize = 4 << 20;

/// What the memory, the place and the length of a write past the cache are multiples of: no disk asks for more.
const ALIGNMENT: usize = 4096;

/// Bytes written through the cache that are made durable together: a thread that writes behind another waits for the
/// disk while the other works on, and little is left for the end.
const PENDING_BYTES_MAX: usize = 64 << 20;

/// Full blocks that wait while one is written.
const BLOCKS_WAITING: usize = 1;

/// Gathers what is written into blocks, which a thread writes, and leaves the last one to [`finish`](Self::finish).
///
/// Full blocks go from here to the disk, where the file system can do that: a copy in the system's cache costs more than
/// everything else there is to do for a row, and drives out what others need. Files of less than a block, and all others
/// where it cannot, are written the ordinary way. An error may show a few blocks later, at the latest in the end.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    file: Behind<BlockFile>,
    block: Block,
}

/// Bytes that stand together in the file, in memory as direct writes want it.
#[derive(Debug, Default)]
struct Block {
    /// A block, and room to align it; none before the first byte.
    memory: Box<[u8]>,
    len: usize,
    /// Where it stands in the file.
    position: u64,
}

/// A file that is written block by block.
#[derive(Debug)]
struct BlockFile {
    file: NamedTempFile,
    past_cache: PastCache,
    /// Bytes written through the cache since the last were made durable.
    pending_bytes: usize,
}

/// Whether writes go past the system's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PastCache {
    Off,
    On,
    /// The file system does not.
    Refused,
}

impl BlockWriter {
    /// Takes an empty file.
    pub(crate) fn new(file: NamedTempFile) -> Self {
        let file = BlockFile { file, past_cache: PastCache::Off, pending_bytes: 0 };
        Self { file: Behind::new(file, "write blocks", BLOCKS_WAITING), block: Block::default() }
    }

    /// Writes what is left, makes everything durable and returns the file.
    pub(crate) fn finish(self) -> io::Result<NamedTempFile> {
        let mut file = self.file.finish().map_err(told)?;
        file.write(&self.block)?;
        file.go_past_cache(false);
        file.file.as_file().sync_all()?;
        Ok(file.file)
    }

    /// Has the full block written, and begins the next.
    fn pass_on(&mut self) -> io::Result<()> {
        let position = self.block.end();
        let written = self.file.write(std::mem::take(&mut self.block)).map_err(told)?;
        self.block = Block { len: 0, position, ..written.unwrap_or_default() };
        Ok(())
    }
}

impl Block {
    /// Returns how many bytes it has when it ends where blocks end.
    const fn full_len(&self) -> usize {
        BLOCK_BYTES - (self.position % BLOCK_BYTES as u64) as usize
    }

    const fn end(&self) -> u64 {
        self.position + self.len as u64
    }

    /// Takes as many bytes as it has room for; returns how many.
    fn push(&mut self, bytes: &[u8]) -> usize {
        if self.memory.is_empty() {
            self.memory = vec![0; BLOCK_BYTES + ALIGNMENT].into();
        }
        let taken = &bytes[..bytes.len().min(self.full_len() - self.len)];
        let at = self.first() + self.len;
        self.memory[at..at + taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        taken.len()
    }

    fn bytes(&self) -> &[u8] {
        let first = self.first();
        &self.memory[first..first + self.len]
    }

    /// Returns where in the memory it begins.
    fn first(&self) -> usize {
        if self.memory.is_empty() { 0 } else { self.memory.as_ptr().align_offset(ALIGNMENT) }
    }
}

impl Output for BlockFile {
    type Item = Block;
    type Error = io::Error;

    /// Writes a block, full or not, where the last one ended.
    fn write(&mut self, block: &Block) -> io::Result<()> {
        let is_aligned = block.position.is_multiple_of(ALIGNMENT as u64);
        self.go_past_cache(is_aligned && block.len == block.full_len());
        let mut rest = block.bytes();
        while !rest.is_empty() {
            match self.file.as_file().write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The ordinary way may go on; where it does not, it has the better reason.
                Err(_) if self.past_cache == PastCache::On => {
                    self.go_past_cache(false);
                    self.past_cache = PastCache::Refused;
                }
                Err(error) => return Err(error),
            }
        }
        if self.past_cache != PastCache::On {
            self.pending_bytes += block.len;
        }
        if self.pending_bytes >= PENDING_BYTES_MAX {
            self.file.as_file().sync_data()?;
            self.pending_bytes = 0;
        }
        Ok(())
    }
}

impl BlockFile {
    fn go_past_cache(&mut self, wanted: bool) {
        let is_on = self.past_cache == PastCache::On;
        if self.past_cache == PastCache::Refused || is_on == wanted {
            return;
        }
        let is_done = set_past_cache(self.file.as_file(), wanted);
        self.past_cache = match (wanted, is_done) {
            (true, true) => PastCache::On,
            (true, false) => PastCache::Refused,
            (false, _) => PastCache::Off,
        };
    }
}

impl Write for BlockWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.block.push(bytes);
        if self.block.len == self.block.full_len() {
            self.pass_on()?;
        }
        Ok(taken)
    }

    /// Does nothing: what is written is there when it is finished.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for BlockWriter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let block = &mut self.block;
        let seek = |file: &mut BlockFile| {
            file.write(block)?;
            file.file.as_file().seek(to)
        };
        let position = self.file.settled(seek).map_err(told)?;
        (self.block.len, self.block.position) = (0, position);
        Ok(position)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.block.end())
    }
}

fn told(unwritten: Unwritten<io::Error>) -> io::Error {
    match unwritten {
        Unwritten::NoThread(error) | Unwritten::Failed(error) => error,
        Unwritten::Ended => io::Error::other("ended by an earlier error"),
    }
}

/// Has an open file written past the cache, or not; whether that was done.
#[cfg(target_os = "linux")]
fn set_past_cache(file: &File, wanted: bool) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let set = |flags: OFlags| {
        let flags = if wanted { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        fcntl_setfl(file, flags)
    };
    fcntl_getfl(file).and_then(set).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn set_past_cache(_: &File, _: bool) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> BlockWriter {
        BlockWriter::new(NamedTempFile::new().unwrap())
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
    }

    fn content(writer: BlockWriter) -> Vec<u8> {
        std::fs::read(writer.finish().unwrap().path()).unwrap()
    }

    #[test]
    fn whatever_is_written_is_there_in_the_end() {
        for len in [0, 1, ALIGNMENT, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5000] {
            let bytes = bytes(len);
            for piece in [1 << 30, BLOCK_BYTES / 3, 999_983] {
                let mut writer = writer();
                for piece in bytes.chunks(piece) {
                    writer.write_all(piece).unwrap();
                }
                assert_eq!(writer.stream_position().unwrap(), len as u64);
                assert!(content(writer) == bytes, "{len} bytes by {piece}");
            }
        }
    }

    #[test]
    fn a_header_can_be_written_again() {
        let mut expected = bytes(2 * BLOCK_BYTES + 77);
        let mut writer = writer();
        writer.write_all(&expected).unwrap();
        writer.seek(SeekFrom::Start(3)).unwrap();
        writer.write_all(b"header").unwrap();
        expected[3..9].copy_from_slice(b"header");
        // From an odd place on, blocks end where the others do.
        writer.seek(SeekFrom::End(0)).unwrap();
        let more = bytes(3 * BLOCK_BYTES);
        writer.write_all(&more).unwrap();
        assert!(writer.block.position.is_multiple_of(BLOCK_BYTES as u64));
        expected.extend(more);
        assert!(content(writer) == expected);
    }

    #[test]
    fn an_abandoned_file_is_gone_at_once() {
        let mut writer = writer();
        writer.write_all(&bytes(3 * BLOCK_BYTES)).unwrap();
        let path = writer.file.settled(|file| Ok(file.file.path().to_owned())).unwrap();
        writer.write_all(&bytes(3 * BLOCK_BYTES)).unwrap();
        drop(writer);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_system_that_wants_the_cache_has_it() {
        let mut writer = writer();
        let refuse = |file: &mut BlockFile| {
            file.past_cache = PastCache::Refused;
            Ok(())
        };
        writer.file.settled(refuse).unwrap();
        let bytes = bytes(PENDING_BYTES_MAX + BLOCK_BYTES);
        writer.write_all(&bytes).unwrap();
        let pending_bytes = writer.file.settled(|file| Ok(file.pending_bytes)).unwrap();
        assert_eq!(pending_bytes, BLOCK_BYTES, "the others are durable");
        assert!(content(writer) == bytes);
    }
}
