//! [`CodeRows`]: codes as slices, and distances between them.

use memfold_simd::Kernels;

use super::{Pages, hash_codes};

/// Codes in memory, row-major.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCodes {
    pub(crate) codes: Pages<i8>,
    pub(crate) squared_norms: Vec<i32>,
    pub(crate) dim: usize,
}

/// Borrowed codes, often those of a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct CodeRows<'a> {
    /// `dim` codes for each row.
    pub(crate) codes: &'a [i8],
    /// The sum of the squares of each row.
    pub(crate) squared_norms: &'a [i32],
    pub(crate) dim: usize,
}

impl NodeCodes {
    /// Takes `dim` codes for each row.
    pub(crate) fn new(codes: Vec<i8>, dim: usize, kernels: &Kernels) -> Self {
        let squared_norms = codes.chunks_exact(dim).map(|row| kernels.dot_i8(row, row)).collect();
        Self { codes: codes.into(), squared_norms, dim }
    }

    /// Returns the codes as slices.
    #[must_use]
    pub fn view(&self) -> CodeRows<'_> {
        CodeRows { codes: &self.codes, squared_norms: &self.squared_norms, dim: self.dim }
    }
}

impl<'a> CodeRows<'a> {
    /// Returns the number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.squared_norms.len()
    }

    /// Returns the codes of a row.
    #[inline]
    pub(crate) fn row(&self, row: u32) -> &'a [i8] {
        &self.codes[row as usize * self.dim..][..self.dim]
    }

    /// Returns the squared norm of a row.
    #[inline]
    pub(crate) fn squared_norm(&self, row: u32) -> i32 {
        self.squared_norms[row as usize]
    }

    /// Returns the squared distance of a row and one of a squared norm, given the product of their codes.
    #[inline]
    pub(crate) fn distance_from_dot(&self, row: u32, squared_norm: i32, dot: i32) -> i32 {
        squared_distance(self.squared_norm(row), squared_norm, dot)
    }

    /// Returns the hash of a row's codes.
    pub(crate) fn hash(&self, row: u32) -> u64 {
        hash_codes(self.row(row))
    }

    /// Copies some rows.
    pub(crate) fn picked(&self, rows: &[u32]) -> NodeCodes {
        let mut codes = Pages::zeroed(rows.len() * self.dim);
        for (&row, codes) in rows.iter().zip(codes.chunks_exact_mut(self.dim.max(1))) {
            codes.copy_from_slice(self.row(row));
        }
        let squared_norms = rows.iter().map(|&row| self.squared_norm(row)).collect();
        NodeCodes { codes, squared_norms, dim: self.dim }
    }
}

/// Returns the squared distance of two rows of codes, given their squared norms and their product.
///
/// It fits an i32 up to 32,768 codes; damaged norms may wrap it.
#[inline]
pub(crate) const fn squared_distance(left_norm: i32, right_norm: i32, dot: i32) -> i32 {
    left_norm.wrapping_add(right_norm).wrapping_sub(dot.wrapping_mul(2))
}
