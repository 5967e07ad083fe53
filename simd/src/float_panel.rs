//! f32 panels: vectors laid out so that their products with many others run from registers.
//!
//! A panel holds groups of 32 columns. A step of a group is one component of each of them, so that a component
//! of a row multiplies whole registers of columns, and no sum is taken across a register:
//!
//! ```text
//! step 0: c0[0] c1[0] … c31[0]     step 1: c0[1] c1[1] … c31[1]     …
//! ```

/// Columns of one group.
pub(crate) const GROUP_COLUMNS: usize = 32;

/// Vectors packed for products with many rows: [`Kernels::products_f32`](crate::Kernels::products_f32).
#[derive(Debug, Clone)]
pub struct FloatPanel {
    /// `dim` steps for each group; the last group is padded with zeros.
    steps: Vec<FloatStep>,
    column_count: usize,
    dim: usize,
}

/// One component of each column of a group.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct FloatStep(pub(crate) [f32; GROUP_COLUMNS]);

/// The products of some rows with the columns of a group.
pub(crate) type FloatTile<const ROWS: usize> = [[f32; GROUP_COLUMNS]; ROWS];

impl FloatPanel {
    /// Packs `vectors`, `dim` components each.
    ///
    /// # Panics
    /// When `dim` is zero or `vectors` holds no whole number of vectors.
    #[must_use]
    pub fn pack(vectors: &[f32], dim: usize) -> Self {
        assert!(dim > 0, "vectors without components");
        assert!(vectors.len().is_multiple_of(dim), "no whole number of vectors of {dim}");
        let mut steps = Vec::with_capacity(vectors.len().div_ceil(GROUP_COLUMNS * dim) * dim);
        for group in vectors.chunks(GROUP_COLUMNS * dim) {
            steps.extend((0..dim).map(|at| {
                let mut step = FloatStep([0.0; GROUP_COLUMNS]);
                for (to, vector) in step.0.iter_mut().zip(group.chunks_exact(dim)) {
                    *to = vector[at];
                }
                step
            }));
        }
        Self { steps, column_count: vectors.len() / dim, dim }
    }

    /// Returns the number of vectors.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.column_count
    }

    /// Tells whether there are no vectors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.column_count == 0
    }

    /// Returns the components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Appends the products of all rows with the first `count` columns, row by row, `ROWS` rows at a time.
    pub(crate) fn sweep<const ROWS: usize>(
        &self,
        rows: &[&[f32]],
        count: usize,
        products: &mut Vec<f32>,
        tile: impl Fn(&[&[f32]; ROWS], &[FloatStep]) -> FloatTile<ROWS>,
    ) {
        let start = products.len();
        products.resize(start + rows.len() * count, 0.0);
        let groups = || self.steps.chunks_exact(self.dim).take(count.div_ceil(GROUP_COLUMNS));
        let products = products[start..].chunks_mut((ROWS * count).max(1));
        for (rows, products) in rows.chunks(ROWS).zip(products) {
            // The last rows fill their tile up by repeating.
            let rows = std::array::from_fn(|at| &rows[at.min(rows.len() - 1)][..self.dim]);
            for (group, steps) in groups().enumerate() {
                let found = tile(&rows, steps);
                let first = group * GROUP_COLUMNS;
                let columns = first..count.min(first + GROUP_COLUMNS);
                for (to, found) in products.chunks_exact_mut(count).zip(&found) {
                    to[columns.clone()].copy_from_slice(&found[..columns.len()]);
                }
            }
        }
    }
}
