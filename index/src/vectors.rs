//! [`VectorMatrix`]: a borrowed matrix of f32 rows, in one or more contiguous chunks. [`VectorError`] and [`Damaged`]: why
//! vectors, or an index of them, cannot be used.

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

/// Why vectors, or a query among them, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The query has another dimension than the rows.
    #[error("query of dimension {found}, expected {expected}")]
    Dimension {
        /// The rows' dimension.
        expected: usize,
        /// The query's.
        found: usize,
    },
    /// The query holds NaN, an infinite value, or only zeros.
    #[error("query {query} has no direction: it holds NaN, an infinite value or only zeros")]
    InvalidQuery {
        /// The query's position, 0 for a single one.
        query: u32,
    },
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row} has no direction: it holds NaN, an infinite value or only zeros")]
    InvalidRow {
        /// The row.
        row: u32,
    },
    /// A vector needs at least one component.
    #[error("dimension must be between 1 and 65,536, found {found}")]
    MatrixDimension {
        /// The dimension asked for.
        found: usize,
    },
    /// A chunk does not hold whole rows, or not as many as the first one.
    #[error("chunk {chunk} holds {found} values, expected {expected}")]
    Chunk {
        /// The chunk's position.
        chunk: usize,
        /// Values in it.
        found: usize,
        /// Values that would fit.
        expected: usize,
    },
    /// Rows are numbered with 32 bits.
    #[error("{found} rows are more than a matrix can number (4,294,967,295)")]
    TooManyRows {
        /// Rows given.
        found: usize,
    },
}

impl VectorError {
    /// Says which query of many it was.
    #[must_use]
    pub fn at(self, position: u32) -> Self {
        match self {
            Self::InvalidQuery { .. } => Self::InvalidQuery { query: position },
            error => error,
        }
    }
}

/// Why numbers, mostly those of a file, hold no index that can be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// A part has another length than the others ask for.
    #[error("{part}: {found} values, expected {expected}")]
    Length {
        /// The part.
        part: &'static str,
        /// Values in it.
        found: usize,
        /// Values that the other parts ask for.
        expected: usize,
    },
    /// A number is out of range.
    #[error("{number} is {found}, expected {expected}")]
    Range {
        /// The meaning of the number.
        number: &'static str,
        /// The number.
        found: usize,
        /// Its range.
        expected: &'static str,
    },
    /// A number must be positive and finite.
    #[error("{number} is not a positive number")]
    NotPositive {
        /// The meaning of the number.
        number: &'static str,
    },
    /// Kernels read whole lines of 64 bytes.
    #[error("codes or norms begin between two multiples of 64 bytes")]
    Alignment,
    /// The vectors belong to another index.
    #[error(
        "an index of {} rows of dimension {}, but {} vectors of dimension {}",
        index[0], index[1], found[0], found[1]
    )]
    Vectors {
        /// Rows and dimension of the index.
        index: [usize; 2],
        /// Vectors given, and their dimension.
        found: [usize; 2],
    },
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
