//! [`LargeWrites`]: files that are mapped by large pages.

use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of a write: two large pages of most processors.
const PIECE_BYTES: usize = 4 << 20;

/// Collects what is written to a file, and hands it on in pieces that end at multiples of 4 MiB.
///
/// File systems may keep what is written at once in one run of memory, and where such a run is as long as a large page, one
/// entry maps it: a process that touches a mapped file then comes by 512 pages at a time. What is not
/// flushed is lost.
#[derive(Debug)]
pub struct LargeWrites<W> {
    output: W,
    /// Where the piece begins.
    start: u64,
    piece: Vec<u8>,
}

impl<W: Write + Seek> LargeWrites<W> {
    /// Writes to `output`, which is empty and stands at its beginning.
    pub const fn new(output: W) -> Self {
        Self { output, start: 0, piece: Vec::new() }
    }

    /// Returns how many bytes the piece still takes.
    fn room(&self) -> usize {
        // Less than a piece.
        PIECE_BYTES - (self.start % PIECE_BYTES as u64) as usize - self.piece.len()
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.output.write_all(&self.piece)?;
        self.start += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }
}

impl<W: Write + Seek> Write for LargeWrites<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room() == 0 {
            self.hand_on()?;
        }
        let taken = bytes.len().min(self.room());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.output.flush()
    }
}

impl<W: Write + Seek> Seek for LargeWrites<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.hand_on()?;
        self.start = self.output.seek(to)?;
        Ok(self.start)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Remembers how long writes were.
    struct Lengths(Cursor<Vec<u8>>, Vec<usize>);

    impl Write for Lengths {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.push(bytes.len());
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Lengths {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn pieces_end_at_multiples_of_their_size() {
        let expected: Vec<u8> = (0..2 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        for part in [7_777, PIECE_BYTES, 3 * PIECE_BYTES] {
            let mut output = LargeWrites::new(Lengths(Cursor::new(Vec::new()), Vec::new()));
            for bytes in expected.chunks(part) {
                output.write_all(bytes).unwrap();
            }
            output.seek(SeekFrom::Start(2)).unwrap();
            output.write_all(&expected[..PIECE_BYTES]).unwrap();
            output.flush().unwrap();
            let Lengths(written, lengths) = output.output;
            let again = [PIECE_BYTES - 2, 2];
            assert_eq!(lengths, [&[PIECE_BYTES, PIECE_BYTES, 5][..], &again].concat());
            let written = written.into_inner();
            assert!(written[..2] == expected[..2]);
            assert!(written[2..][..PIECE_BYTES] == expected[..PIECE_BYTES]);
            assert!(written[PIECE_BYTES + 2..] == expected[PIECE_BYTES + 2..]);
        }
    }
}
