//! [`Storage`]: the vectors of all kept rows, mapped.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use arrow_buffer::{Buffer, ScalarBuffer, ToByteSlice};
use memfold_index::{Mapped, VectorMatrix};

use crate::publish::NewFile;

const COMPONENT_BYTES: usize = size_of::<f32>();

/// The vectors of all kept rows in pieces of equally many rows (the last may be shorter).
#[derive(Debug, Clone)]
pub(super) struct Storage {
    pieces: Vec<ScalarBuffer<f32>>,
    dim: usize,
    is_input: bool,
}

impl Storage {
    /// Lends the vectors.
    pub(super) fn matrix(&self) -> VectorMatrix<'_> {
        let pieces = self.pieces.iter().map(|piece| &piece[..]).collect();
        VectorMatrix::from_chunks(pieces, self.dim).expect("checked when the corpus was read")
    }

    /// Tells whether the vectors are lent from the input itself.
    pub(super) const fn is_input(&self) -> bool {
        self.is_input
    }
}

/// Takes vectors in order: notes where they lie as long as they can stay there, copies them to a
/// file without a name as soon as one cannot.
pub(super) struct StorageBuilder<'a> {
    folder: &'a Path,
    dim: usize,
    place: PlaceOfVectors,
}

enum PlaceOfVectors {
    /// Ranges of values in the one input, which is mapped.
    Input { bytes: Buffer, ranges: Vec<Range<usize>> },
    /// A file without a name.
    Scratch(NewFile),
}

impl<'a> StorageBuilder<'a> {
    /// Begins with vectors that may stay in `input`, or that will be copied to `folder`.
    pub(super) fn new(folder: &'a Path, dim: usize, input: Option<Buffer>) -> io::Result<Self> {
        let place = match input {
            Some(bytes) => PlaceOfVectors::Input { bytes, ranges: Vec::new() },
            None => PlaceOfVectors::Scratch(NewFile::create_unlinked(folder)?),
        };
        Ok(Self { folder, dim, place })
    }

    /// Takes values in one piece if they may stay where they are; returns false where they cannot.
    pub(super) fn lend(&mut self, values: &[f32]) -> bool {
        let PlaceOfVectors::Input { bytes, ranges } = &mut self.place else { return false };
        let (start, end) = (bytes.as_ptr().addr(), bytes.as_ptr().addr() + bytes.len());
        let from = values.as_ptr().addr();
        let is_inside = from >= start && from + size_of_val(values) <= end;
        if !is_inside || !(from - start).is_multiple_of(COMPONENT_BYTES) {
            return false;
        }
        let first = (from - start) / COMPONENT_BYTES;
        match ranges.last_mut() {
            Some(last) if last.end == first => last.end += values.len(),
            _ => ranges.push(first..first + values.len()),
        }
        true
    }

    /// Appends a copy of `values`.
    pub(super) fn copy(&mut self, values: &[f32]) -> io::Result<()> {
        self.scratch()?.write_all(values.to_byte_slice())
    }

    /// Returns the file without a name, to which everything so far is copied first.
    fn scratch(&mut self) -> io::Result<&mut NewFile> {
        if let PlaceOfVectors::Input { bytes, ranges } = &self.place {
            let mut file = NewFile::create_unlinked(self.folder)?;
            for Range { start, end } in ranges {
                file.write_all(&bytes[start * COMPONENT_BYTES..end * COMPONENT_BYTES])?;
            }
            self.place = PlaceOfVectors::Scratch(file);
        }
        match &mut self.place {
            PlaceOfVectors::Scratch(file) => Ok(file),
            PlaceOfVectors::Input { .. } => unreachable!("replaced above"),
        }
    }

    /// Maps what was taken.
    pub(super) fn finish(mut self) -> io::Result<Storage> {
        let dim = self.dim;
        if let PlaceOfVectors::Input { bytes, ranges } = &self.place {
            let piece = |range: &Range<usize>| {
                ScalarBuffer::new(bytes.clone(), range.start, range.end - range.start)
            };
            let pieces: Vec<ScalarBuffer<f32>> = ranges.iter().map(piece).collect();
            let slices = pieces.iter().map(|piece| &piece[..]).collect();
            if VectorMatrix::from_chunks(slices, dim).is_ok() {
                return Ok(Storage { pieces, dim, is_input: true });
            }
        }
        let mapped = Mapped::from_file(self.scratch()?.file()).map_err(io::Error::other)?;
        let bytes = Buffer::from(bytes::Bytes::from_owner(mapped));
        let piece = ScalarBuffer::<f32>::from(bytes);
        let pieces = if piece.is_empty() { Vec::new() } else { vec![piece] };
        Ok(Storage { pieces, dim, is_input: false })
    }
}
