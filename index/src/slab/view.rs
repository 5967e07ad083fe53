//! [`SlabView`]: a slab where it lies.

use memfold_simd::Columns;
use memfold_simd::panel::{PACKED_BIASES, PACKED_COLUMNS};

use crate::transform::{DamagedTransform, FINE_CODES, PREFIX_CODES, PrefixTransform};

/// A borrowed slab: of a [`PrefixSlab`](super::PrefixSlab) or of a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct SlabView<'a> {
    pub(super) transform: PrefixTransform<'a>,
    pub(super) columns: Columns<'a>,
    /// [`FINE_CODES`] for each row.
    pub(super) fine_codes: &'a [i8],
    /// One for each row.
    pub(super) fine_lengths: &'a [i32],
}

/// Slices that are no slab.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedSlab {
    /// The transform has another shape.
    #[error(transparent)]
    Transform(#[from] DamagedTransform),
    /// There are codes or norms for more or fewer rows.
    #[error("{found} {what} of {row_count} rows, expected {expected}")]
    Length {
        /// "codes" or "norms".
        what: &'static str,
        /// The rows.
        row_count: usize,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Kernels read whole lines of 64 bytes.
    #[error("codes or norms begin between two multiples of 64 bytes")]
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
    /// When lengths do not fit each other, or codes and norms do not begin at a multiple of 64 bytes.
    pub fn new(
        transform: &'a [f32],
        codes: &'a [i8],
        norms: &'a [i32],
        (row_count, dim): (usize, usize),
    ) -> Result<Self, DamagedSlab> {
        let transform = PrefixTransform::new(transform, dim)?;
        let groups = row_count.div_ceil(PACKED_COLUMNS);
        let first_codes = groups.saturating_mul(PACKED_COLUMNS * PREFIX_CODES);
        let code_count = first_codes.saturating_add(row_count.saturating_mul(FINE_CODES));
        let bias_count = groups.saturating_mul(PACKED_BIASES);
        let norm_count = bias_count.saturating_add(row_count);
        let lengths = [("codes", code_count, codes.len()), ("norms", norm_count, norms.len())];
        for (what, expected, found) in lengths {
            if expected != found {
                return Err(DamagedSlab::Length { what, row_count, expected, found });
            }
        }
        let (first_codes, fine_codes) = codes.split_at(first_codes);
        let (biases, fine_lengths) = norms.split_at(bias_count);
        let columns = Columns::from_packed(first_codes, biases, PREFIX_CODES);
        let columns = columns.ok_or(DamagedSlab::Alignment)?;
        Ok(Self { transform, columns, fine_codes, fine_lengths })
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fine_lengths.len()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fine_lengths.is_empty()
    }

    /// Returns the dimension of the rows.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.transform.dim()
    }
}
