//! The table of kernels of one level.

use std::sync::OnceLock;

use crate::float_panel::FloatPanel;
use crate::panel::{BIAS_MAX, Columns, Hit, RUN_ROWS, RowBlock, ScoredHit};
use crate::{Level, Similarity, arch, portable};

/// Maximum length of int8 vectors so that the dot product always fits an i32.
pub const DOT_I8_DIM_MAX: usize = 65_536;

/// Maximum length of int8 vectors so that the squared distance always fits an i32.
pub const SQUARED_DISTANCE_DIM_MAX: usize = 32_768;

/// Takes a vector, rows of its length, which of these, and where the distances go.
type SquaredDistances = fn(&[i8], &[i8], &[u32], &mut Vec<i32>);

/// The kernels of one ISA level.
///
/// A table for a level can only be obtained when the processor has it. Kernels of all levels give
/// the same bits, except [`dot_f32`](Self::dot_f32) and [`products_f32`](Self::products_f32), which only propose.
pub struct Kernels {
    pub(crate) level: Level,
    pub(crate) dot: fn(&[f32], &[f32]) -> f64,
    pub(crate) dot_f32: fn(&[f32], &[f32]) -> f32,
    pub(crate) products_f32: fn(&[&[f32]], &FloatPanel, usize, &mut Vec<f32>),
    pub(crate) dot_i8: fn(&[i8], &[i8]) -> i32,
    pub(crate) dots_i8: fn(&[i8], &[i8], &mut Vec<i32>),
    pub(crate) squared_distances: SquaredDistances,
    pub(crate) prefetch: fn(&[u8]),
    pub(crate) hits: fn(&RowBlock<'_>, Columns<'_>, &mut Vec<Hit>),
    pub(crate) hits_i7: fn(&RowBlock<'_>, Columns<'_>, &mut Vec<Hit>),
    pub(crate) scored_hits: fn(&RowBlock<'_>, Columns<'_>, &mut Vec<ScoredHit>),
}

impl Kernels {
    /// Returns the table for this machine: the best level, or the one `MEMFOLD_ISA` names.
    ///
    /// An unknown or unavailable name is ignored here; programs check [`Level::requested`] first.
    #[must_use]
    pub fn active() -> &'static Self {
        static ACTIVE: OnceLock<&'static Kernels> = OnceLock::new();
        ACTIVE.get_or_init(|| {
            let level = Level::requested().ok().flatten().unwrap_or_else(Level::best);
            Self::at(level).unwrap_or(&portable::KERNELS)
        })
    }

    /// Returns the table for `level`, or `None` where the processor lacks it.
    #[must_use]
    pub fn at(level: Level) -> Option<&'static Self> {
        match level {
            Level::Scalar => Some(&portable::KERNELS),
            _ => arch::kernels(level),
        }
    }

    /// Returns the level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Returns the canonical dot product in f64. See [`crate::canonical`].
    ///
    /// # Panics
    /// When the lengths differ.
    #[must_use]
    #[inline]
    pub fn dot(&self, a: &[f32], b: &[f32]) -> f64 {
        assert_eq!(a.len(), b.len(), "vectors of different length");
        (self.dot)(a, b)
    }

    /// Returns the canonical similarity, given both canonical squared norms (`[dot(a, a), dot(b, b)]`);
    /// `None` where a norm is zero or not finite.
    ///
    /// # Panics
    /// When the lengths differ.
    #[must_use]
    #[inline]
    pub fn similarity(&self, a: &[f32], b: &[f32], norms: [f64; 2]) -> Option<Similarity> {
        Similarity::from_dot(self.dot(a, b), norms)
    }

    /// Returns a fast f32 dot product. The last bits depend on the level: it only proposes.
    ///
    /// # Panics
    /// When the lengths differ.
    #[must_use]
    #[inline]
    pub fn dot_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of different length");
        (self.dot_f32)(a, b)
    }

    /// Appends fast f32 dot products of each row with the first `count` vectors of the panel, row
    /// by row. The last bits depend on the level: they only propose.
    ///
    /// # Panics
    /// When a row has another length than the panel's vectors, or the panel has fewer of these.
    pub fn products_f32(
        &self,
        rows: &[&[f32]],
        panel: &FloatPanel,
        count: usize,
        products: &mut Vec<f32>,
    ) {
        assert!(rows.iter().all(|row| row.len() == panel.dim()), "vectors of different length");
        assert!(count <= panel.len(), "{count} vectors of a panel of {}", panel.len());
        (self.products_f32)(rows, panel, count, products);
    }

    /// Returns the exact integer dot product of two int8 vectors of up to [`DOT_I8_DIM_MAX`] codes.
    ///
    /// # Panics
    /// When the lengths differ or are too large.
    #[must_use]
    #[inline]
    pub fn dot_i8(&self, a: &[i8], b: &[i8]) -> i32 {
        assert_eq!(a.len(), b.len(), "vectors of different length");
        assert!(a.len() <= DOT_I8_DIM_MAX, "{} codes may overflow an i32", a.len());
        (self.dot_i8)(a, b)
    }

    /// Appends the exact integer dot products of `vector` with each of `rows` (row-major, of its length).
    ///
    /// # Panics
    /// When the vector is empty or longer than [`DOT_I8_DIM_MAX`], or `rows` holds no whole number of rows.
    #[inline]
    pub fn dots_i8(&self, vector: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
        assert!(vector.len() <= DOT_I8_DIM_MAX, "{} codes may overflow an i32", vector.len());
        assert!(!vector.is_empty(), "a vector without codes");
        assert!(rows.len().is_multiple_of(vector.len()), "rows of another length than the vector");
        (self.dots_i8)(vector, rows, dots);
    }

    /// Appends the exact squared Euclidean distances of `vector` to the rows of `rows` (row-major,
    /// of its length) at the indices in `picked`, in that order; rows are prefetched.
    ///
    /// # Panics
    /// When the vector is empty or longer than [`SQUARED_DISTANCE_DIM_MAX`], or a picked row does not exist.
    pub fn squared_distances(
        &self,
        vector: &[i8],
        rows: &[i8],
        picked: &[u32],
        distances: &mut Vec<i32>,
    ) {
        let length = vector.len();
        assert!(length <= SQUARED_DISTANCE_DIM_MAX, "{length} codes may overflow an i32");
        assert!(!vector.is_empty(), "a vector without codes");
        let row_count = rows.len() / vector.len();
        assert!(picked.iter().all(|&row| (row as usize) < row_count), "picked beyond {row_count}");
        (self.squared_distances)(vector, rows, picked, distances);
    }

    /// Prefetches bytes that will soon be read; a hint without an observable effect.
    #[inline]
    pub fn prefetch(&self, bytes: &[u8]) {
        (self.prefetch)(bytes);
    }

    /// Appends every `(row, column)` of the block × panel with a score that is not negative, in no
    /// particular order: `score = Σ row code · column code + row bias + column bias ≥ 0`, exact.
    ///
    /// No matrix of scores is written. A block with one row is a scan of the panel. With `group_counts`, hits of later
    /// groups may also be reported.
    ///
    /// # Panics
    /// When block and panel have different `dim`, the block's lengths do not agree, or a row bias
    /// is beyond ±[`BIAS_MAX`].
    pub fn hits(&self, rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<Hit>) {
        if may_hit(rows, columns) {
            (self.hits)(rows, columns, hits);
        }
    }

    /// Appends the same where codes are at most [`I7_CODE_MAX`](crate::panel::I7_CODE_MAX) and
    /// their squares add up to at most
    /// [`I7_SQUARED_LENGTH_MAX`](crate::panel::I7_SQUARED_LENGTH_MAX) in each row and column, and
    /// biases are at least minus half of that: twice as many in one instruction where
    /// [`prefers_i7`](Self::prefers_i7) holds. Of other codes, any pairs may be appended.
    ///
    /// # Panics
    /// As [`hits`](Self::hits).
    pub fn hits_i7(&self, rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<Hit>) {
        if may_hit(rows, columns) {
            (self.hits_i7)(rows, columns, hits);
        }
    }

    /// Tells whether 7-bit codes are compared faster than 8-bit codes.
    #[must_use]
    pub fn prefers_i7(&self) -> bool {
        self.level == Level::Avx2
    }

    /// Appends the hits of [`hits`](Self::hits) with their scores. A search for the nearest columns
    /// of each row uses it with biases that let a column pass only if it is nearer than the
    /// farthest one kept.
    ///
    /// # Panics
    /// As [`hits`](Self::hits).
    pub fn scored_hits(
        &self,
        rows: &RowBlock<'_>,
        columns: Columns<'_>,
        hits: &mut Vec<ScoredHit>,
    ) {
        if may_hit(rows, columns) {
            (self.scored_hits)(rows, columns, hits);
        }
    }
}

/// Validates the arguments of [`Kernels::hits`] and returns whether there is anything to compare.
fn may_hit(rows: &RowBlock<'_>, columns: Columns<'_>) -> bool {
    assert_eq!(
        rows.shifted_codes.len(),
        rows.biases.len() * rows.dim,
        "codes and biases of different row counts"
    );
    if rows.biases.is_empty() || columns.is_empty() {
        return false;
    }
    assert_eq!(rows.dim, columns.dim(), "block and panel of different dim");
    assert!(
        [0, rows.biases.len().div_ceil(RUN_ROWS)].contains(&rows.group_counts.len()),
        "counts of groups of other rows"
    );
    assert!(
        rows.biases.iter().all(|bias| bias.unsigned_abs() <= BIAS_MAX.unsigned_abs()),
        "row bias beyond {BIAS_MAX}"
    );
    true
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("level", &self.level).finish_non_exhaustive()
    }
}
