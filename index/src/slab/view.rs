//! [`SlabView`]: a slab where it lies.

use memfold_simd::Columns;
use memfold_simd::panel::{PACKED_BIASES, PACKED_COLUMNS};

use crate::transform::{DamagedTransform, PREFIX_CODES, PrefixTransform};

/// A borrowed slab: of a [`PrefixSlab`](super::PrefixSlab) or of a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct SlabView<'a> {
    pub(super) transform: PrefixTransform<'a>,
    pub(super) columns: Columns<'a>,
    pub(super) row_count: usize,
}

/// Slices that are no slab.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedSlab {
    /// The transform has another shape.
    #[error(transparent)]
    Transform(#[from] DamagedTransform),
    /// There are codes or biases for more or fewer rows.
    #[error("{found} {what} of {row_count} rows, expected {expected}")]
    Length {
        /// "codes" or "biases".
        what: &'static str,
        /// The rows.
        row_count: usize,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Kernels read whole lines of 64 bytes.
    #[error("codes or biases begin between two multiples of 64 bytes")]
    Alignment,
    /// The vectors are those of another slab.
    #[error(
        "a slab of {slab_rows} rows of dimension {slab_dim}, but {rows} vectors of dimension {dim}"
    )]
    Vectors {
        /// Rows of the slab.
        slab_rows: usize,
        /// Dimension of the slab's rows.
        slab_dim: usize,
        /// Vectors given.
        rows: usize,
        /// Their dimension.
        dim: usize,
    },
}

impl<'a> SlabView<'a> {
    /// Takes what a [`PrefixSlab`](super::PrefixSlab) of `row_count` vectors of `dim` values stored, in constant time.
    ///
    /// # Errors
    /// When lengths do not fit each other, or codes and biases do not begin at a multiple of 64 bytes.
    pub fn new(
        transform: &'a [f32],
        codes: &'a [i8],
        biases: &'a [i32],
        (row_count, dim): (usize, usize),
    ) -> Result<Self, DamagedSlab> {
        let transform = PrefixTransform::new(transform, dim)?;
        let groups = row_count.div_ceil(PACKED_COLUMNS);
        let code_count = groups.saturating_mul(PACKED_COLUMNS * PREFIX_CODES);
        let bias_count = groups.saturating_mul(PACKED_BIASES);
        let lengths = [("codes", code_count, codes.len()), ("biases", bias_count, biases.len())];
        for (what, expected, found) in lengths {
            if expected != found {
                return Err(DamagedSlab::Length { what, row_count, expected, found });
            }
        }
        let columns = Columns::from_packed(codes, biases, PREFIX_CODES);
        Ok(Self { transform, columns: columns.ok_or(DamagedSlab::Alignment)?, row_count })
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.row_count
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Returns the dimension of the rows.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.transform.dim()
    }
}
