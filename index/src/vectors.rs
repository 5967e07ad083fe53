//! [`VectorMatrix`]: a borrowed matrix of f32 rows, in one or more contiguous chunks.

use crate::scan::VectorError;

/// Borrowed f32 vectors of one dimension, stored in chunks of equally many rows (the last may be shorter).
///
/// Chunks let a mapped file be read batch by batch without a copy.
#[derive(Debug, Clone)]
pub struct VectorMatrix<'a> {
    chunks: Vec<&'a [f32]>,
    chunk_rows: usize,
    dim: usize,
    row_count: usize,
}

impl<'a> VectorMatrix<'a> {
    /// Makes a matrix of `values.len() / dim` rows from one contiguous slice.
    ///
    /// # Errors
    /// When the dimension is out of range or the slice holds no whole number of rows.
    pub fn from_slice(values: &'a [f32], dim: usize) -> Result<Self, VectorError> {
        let chunks = if values.is_empty() { Vec::new() } else { vec![values] };
        Self::from_chunks(chunks, dim)
    }

    /// Makes a matrix from chunks; every chunk but the last has as many rows as the first.
    ///
    /// # Errors
    /// When the dimension is out of range, a chunk breaks the rule above, or there are too many rows.
    pub fn from_chunks(chunks: Vec<&'a [f32]>, dim: usize) -> Result<Self, VectorError> {
        if dim == 0 || dim > 65_536 {
            return Err(VectorError::MatrixDimension { found: dim });
        }
        let full = chunks.first().map_or(dim, |chunk| chunk.len());
        for (i, chunk) in chunks.iter().enumerate() {
            let last = i + 1 == chunks.len();
            let whole = chunk.len() % dim == 0 && !chunk.is_empty();
            if !whole || chunk.len() > full || (!last && chunk.len() != full) {
                return Err(VectorError::Chunk { chunk: i, found: chunk.len(), expected: full });
            }
        }
        let row_count = chunks.iter().map(|chunk| chunk.len() / dim).sum::<usize>();
        if u32::try_from(row_count).is_err() || row_count == u32::MAX as usize {
            return Err(VectorError::TooManyRows { found: row_count });
        }
        Ok(Self { chunks, chunk_rows: full / dim, dim, row_count })
    }

    /// Returns the first `row_count` rows, or all where there are fewer.
    #[must_use]
    pub fn head(&self, row_count: usize) -> Self {
        let row_count = row_count.min(self.row_count);
        let chunk_count = row_count.div_ceil(self.chunk_rows.max(1));
        let mut chunks = self.chunks[..chunk_count].to_vec();
        if let Some(last) = chunks.last_mut() {
            let before = (chunk_count - 1) * self.chunk_rows;
            *last = &last[..(row_count - before) * self.dim];
        }
        Self { chunks, row_count, ..*self }
    }

    /// Returns the number of components of each vector.
    #[must_use]
    #[inline]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of rows.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.row_count
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Returns the vector at `row`.
    ///
    /// # Panics
    /// When `row` is not smaller than [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn vector(&self, row: Row) -> &'a [f32] {
        let chunk = self.chunks[row.index() / self.chunk_rows];
        let start = row.index() % self.chunk_rows * self.dim;
        &chunk[start..start + self.dim]
    }

    /// Returns all rows in order.
    #[inline]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row> + use<> {
        (0..self.row_count as u32).map(Row)
    }
}

/// The position of a vector in a [`crate::VectorMatrix`], from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Row(pub u32);

impl Row {
    /// Returns the row as an index into a slice.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_within_any_chunk() {
        let values: Vec<f32> = (0..14_u8).map(f32::from).collect();
        let chunks = vec![&values[..6], &values[6..12], &values[12..]];
        let matrix = VectorMatrix::from_chunks(chunks, 2).unwrap();
        for row_count in 0..=8 {
            let head = matrix.head(row_count);
            assert_eq!(head.len(), row_count.min(7));
            let rows: Vec<f32> = head.rows().flat_map(|row| head.vector(row).to_vec()).collect();
            assert_eq!(rows, values[..2 * head.len()]);
        }
    }

    #[test]
    fn rows_are_found_in_their_chunks() {
        let chunks: [&[f32]; 3] = [&[0.0, 1.0, 2.0, 3.0], &[4.0, 5.0, 6.0, 7.0], &[8.0, 9.0]];
        let matrix = VectorMatrix::from_chunks(chunks.to_vec(), 2).unwrap();
        assert_eq!((matrix.len(), matrix.dim()), (5, 2));
        let all: Vec<f32> = matrix.rows().flat_map(|row| matrix.vector(row)).copied().collect();
        assert_eq!(all, chunks.concat());
    }

    #[test]
    fn no_chunks_are_no_rows() {
        let matrix = VectorMatrix::from_slice(&[], 7).unwrap();
        assert!(matrix.is_empty());
        assert_eq!(matrix.rows().len(), 0);
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        let dimension = |dim| VectorMatrix::from_slice(&[1.0], dim).unwrap_err();
        assert_eq!(dimension(0), VectorError::MatrixDimension { found: 0 });
        assert_eq!(dimension(65_537), VectorError::MatrixDimension { found: 65_537 });
        assert_eq!(dimension(2), VectorError::Chunk { chunk: 0, found: 1, expected: 1 });
        let short_first: Vec<&[f32]> = vec![&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0]];
        let error = VectorMatrix::from_chunks(short_first, 2).unwrap_err();
        assert_eq!(error, VectorError::Chunk { chunk: 1, found: 4, expected: 2 });
    }
}
