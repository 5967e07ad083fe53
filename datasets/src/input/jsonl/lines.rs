//! [`Lines`]: the lines of a mapped file.

use std::ops::Range;

use arrow_buffer::Buffer;

/// Longest line, without its end.
const LINE_BYTES_MAX: usize = 64 << 20;
/// What some programs write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A place between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) position: usize,
    /// Lines before it.
    pub(super) lines: u64,
}

/// The lines of a mapped file that are not blank.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    bytes: Buffer,
    place: Place,
}

impl Lines {
    /// Begins at the start of a file.
    pub(super) fn new(bytes: Buffer) -> Self {
        let position = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Self { bytes, place: Place { position, lines: 0 } }
    }

    /// Begins at a place of the file.
    pub(super) const fn at(bytes: Buffer, place: Place) -> Self {
        Self { bytes, place }
    }

    /// Returns where the next line begins.
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Returns the number of the line that was returned last, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.place.lines
    }

    /// Returns where the next line lies that is not blank; `Err` says what is wrong with it.
    pub(super) fn next_line(&mut self) -> Result<Option<Range<usize>>, String> {
        while self.place.position < self.bytes.len() {
            let start = self.place.position;
            let rest = &self.bytes[start..];
            let within = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
            self.place.lines += 1;
            let length = match within.iter().position(|&byte| byte == b'\n') {
                Some(length) => length,
                None if within.len() > LINE_BYTES_MAX => {
                    return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
                }
                None => within.len(),
            };
            // At the end of the file there is no line end to skip.
            self.place.position = self.bytes.len().min(start + length + 1);
            if !rest[..length].trim_ascii().is_empty() {
                return Ok(Some(start..start + length));
            }
        }
        Ok(None)
    }

    pub(super) fn bytes(&self) -> &Buffer {
        &self.bytes
    }
}
