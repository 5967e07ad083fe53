//! [`Lines`]: lines of a file, none longer than a limit.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};

/// Longer lines are refused: no memory is this long.
const LINE_BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// A line with its number, or what is wrong with it.
type NumberedLine<'a> = (u64, Result<&'a [u8], String>);

/// Lines of a file with their numbers; blank ones are passed over.
pub(super) struct Lines<'a> {
    input: BufReader<&'a mut File>,
    buffer: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Begins at the start of the file.
    pub(super) fn open(file: &'a mut File) -> io::Result<Self> {
        file.rewind()?;
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { input, buffer: Vec::new(), number: 0 })
    }

    /// Returns the next line and its number, or what is wrong with it; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<NumberedLine<'_>>> {
        loop {
            self.buffer.clear();
            let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.len() as u64 == LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                self.input.skip_until(b'\n')?;
                let reason = format!("longer than {} MiB", LINE_BYTES_MAX >> 20);
                return Ok(Some((self.number, Err(reason))));
            }
            let is_first = self.number == 1;
            if !without_mark(&self.buffer, is_first).trim_ascii().is_empty() {
                return Ok(Some((self.number, Ok(without_mark(&self.buffer, is_first)))));
            }
        }
    }
}

/// Takes the byte order mark off the first line, which some editors put there.
fn without_mark(line: &[u8], is_first: bool) -> &[u8] {
    if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line }
}
