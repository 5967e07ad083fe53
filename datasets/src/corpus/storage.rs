//! [`Storage`]: the vectors of all kept rows, mapped.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use arrow_buffer::{Buffer, ScalarBuffer, ToByteSlice};
use memfold_index::{Mapped, VectorMatrix};

use crate::atomic_file::NewFile;

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
    lent: Vec<Lent>,
    /// The file without a name, once there is one: what is lent and whatever came after it.
    scratch: Option<NewFile>,
}

/// Values that stay in a mapped file.
struct Lent {
    file: Buffer,
    bytes: Range<usize>,
}

impl<'a> StorageBuilder<'a> {
    /// Begins with vectors that may stay where they are, or that will be copied to `folder`.
    pub(super) const fn new(folder: &'a Path, dim: usize) -> Self {
        Self { folder, dim, lent: Vec::new(), scratch: None }
    }

    /// Takes values that may stay where they are, in the mapped `file`; returns false where they
    /// cannot: they lie elsewhere or misaligned, or the pieces before them are of unequal lengths.
    pub(super) fn lend(&mut self, values: &[f32], file: Option<&Buffer>) -> bool {
        let (None, Some(file)) = (&self.scratch, file) else { return false };
        let Some(bytes) = range_in(file, values) else { return false };
        let first_length = self.lent.first().map_or(0, |first| first.bytes.len());
        match self.lent.last_mut() {
            Some(last) if last.file.ptr_eq(file) && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
            }
            Some(last) if last.bytes.len() != first_length => return false,
            _ => self.lent.push(Lent { file: file.clone(), bytes }),
        }
        true
    }

    /// Appends a copy of `values`.
    pub(super) fn copy(&mut self, values: &[f32]) -> io::Result<()> {
        let file = match &mut self.scratch {
            Some(file) => file,
            None => self.scratch.insert(copied(&self.lent, self.folder)?),
        };
        file.write_all(values.to_byte_slice())
    }

    /// Maps what was taken.
    pub(super) fn finish(self) -> io::Result<Storage> {
        let dim = self.dim;
        let file = match self.scratch {
            Some(file) => file,
            None => {
                let pieces: Vec<ScalarBuffer<f32>> = self.lent.iter().map(Lent::values).collect();
                let slices = pieces.iter().map(|piece| &piece[..]).collect();
                if VectorMatrix::from_chunks(slices, dim).is_ok() {
                    return Ok(Storage { pieces, dim, is_input: true });
                }
                copied(&self.lent, self.folder)?
            }
        };
        let mapped = Mapped::from_file(&file.publish()?).map_err(io::Error::other)?;
        let bytes = Buffer::from(bytes::Bytes::from_owner(mapped));
        // No rows are no piece: an empty map has no place to be aligned.
        let pieces = if bytes.is_empty() { Vec::new() } else { vec![ScalarBuffer::from(bytes)] };
        Ok(Storage { pieces, dim, is_input: false })
    }
}

/// Copies what is lent to a file without a name in `folder`.
fn copied(lent: &[Lent], folder: &Path) -> io::Result<NewFile> {
    let mut file = NewFile::create_unlinked(folder)?;
    for Lent { file: from, bytes } in lent {
        file.write_all(&from[bytes.clone()])?;
    }
    Ok(file)
}

impl Lent {
    fn values(&self) -> ScalarBuffer<f32> {
        let bytes = self.file.slice_with_length(self.bytes.start, self.bytes.len());
        ScalarBuffer::from(bytes)
    }
}

/// Returns where `values` lie in `file`; `None` where they lie elsewhere. Values are aligned as such,
/// wherever they lie.
fn range_in(file: &Buffer, values: &[f32]) -> Option<Range<usize>> {
    let start = values.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
    let end = start + size_of_val(values);
    (end <= file.len()).then_some(start..end)
}
