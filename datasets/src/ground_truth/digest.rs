//! [`VectorsDigest`]: which vectors an answer belongs to.

use std::fmt;

use memfold_index::VectorMatrix;

/// Bytes gathered before they are hashed.
const BUFFER_VALUES: usize = 16_384;

/// blake3 of a matrix: row count and dimension as u64, then all components as f32, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorsDigest(pub [u8; 32]);

impl VectorsDigest {
    /// Reads every row once; the chunks of the matrix leave no trace.
    #[must_use]
    pub fn of(matrix: &VectorMatrix<'_>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(matrix.len() as u64).to_le_bytes());
        hasher.update(&(matrix.dim() as u64).to_le_bytes());
        let mut bytes = Vec::with_capacity(BUFFER_VALUES * size_of::<f32>());
        for row in matrix.rows() {
            for values in matrix.vector(row).chunks(BUFFER_VALUES) {
                bytes.clear();
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                hasher.update(&bytes);
            }
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for VectorsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_leave_no_trace_but_shape_does() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let whole = VectorMatrix::from_slice(&values, 2).unwrap();
        let chunked = VectorMatrix::from_chunks(vec![&values[..2], &values[2..]], 2).unwrap();
        assert_eq!(VectorsDigest::of(&whole), VectorsDigest::of(&chunked));
        let other = VectorMatrix::from_slice(&values, 4).unwrap();
        assert_ne!(VectorsDigest::of(&whole), VectorsDigest::of(&other));
        assert_eq!(VectorsDigest::of(&other).to_string().len(), 64);
    }
}
