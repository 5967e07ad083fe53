//! int8 panels: how codes are laid out so that the sign test of the join reads them in a stream.
//!
//! A panel holds groups of 32 columns. A group is a run of steps; a step holds
//! 4 consecutive codes of each of its columns, column after column, which is one operand
//! of a multiply-and-add of bytes:
//!
//! ```text
//! step 0: c0[0..4] c1[0..4] … c31[0..4]     step 1: c0[4..8] c1[4..8] … c31[4..8]     …
//! ```
//!
//! Rows are unsigned (`code + 128`), since the x86-64 instructions multiply unsigned by signed
//! bytes. `Σ (row + 128) · column = Σ row · column + 128 Σ column`, so packing subtracts
//! `128 Σ column` from the column's bias. Levels that multiply signed bytes shift the rows back and
//! use the bias as it was given. Sums may wrap on the way; the score itself fits an i32 as long as
//! biases are within ±[`BIAS_MAX`] and `dim` is at most [`DIM_MAX`]: 2²⁹ + 2²⁹ + 2¹⁵ · 2¹⁴ < 2³¹.
//!
//! The last group is padded with columns of zeros (and tiles with rows of zeros); their bias is so
//! low that they never pass.

use crate::arch::packed;

/// Columns of one group.
pub(crate) const GROUP_COLUMNS: usize = 32;

/// Columns that lie together in a panel: stored panels hold whole groups of them.
pub const PACKED_COLUMNS: usize = GROUP_COLUMNS;

/// Numbers that hold the biases of a group, for unsigned rows and for rows shifted back.
pub const PACKED_BIASES: usize = 2 * GROUP_COLUMNS;

/// Rows that are compared with the same columns: see [`RowBlock::group_counts`].
pub const RUN_ROWS: usize = 8;

/// Consecutive dimensions of one step.
pub(crate) const STEP_DIMS: usize = 4;

/// The largest magnitude of a row or column bias.
pub const BIAS_MAX: i32 = 1 << 29;

/// The largest `dim` of a panel.
pub const DIM_MAX: usize = 1 << 15;

/// The largest magnitude of a code of 7 bits.
pub const I7_CODE_MAX: i8 = 63;

/// The largest sum of squares of a row's or a column's codes of 7 bits: a product is within ±(2¹⁴ − 1) then, and with
/// biases of at least −2¹³ no sign is lost in 16 bits.
pub const I7_SQUARED_LENGTH_MAX: i32 = (1 << 14) - 1;

/// The bias of padding: negative beside every legal bias, and two of them do not wrap.
pub(crate) const NEVER: i32 = -(1 << 30);

/// The unsigned form of code 0.
pub(crate) const SHIFTED_ZERO: u8 = 128;

/// A block of rows: codes and biases as the caller holds them.
#[derive(Debug, Clone, Copy)]
pub struct RowBlock<'a> {
    /// `dim` codes for each row, shifted to unsigned: code + 128.
    pub shifted_codes: &'a [u8],
    /// One bias for each row, within ±[`BIAS_MAX`].
    pub biases: &'a [i32],
    /// Codes per row; a multiple of 4.
    pub dim: usize,
    /// For each run of [`RUN_ROWS`] rows, the number of leading groups of [`PACKED_COLUMNS`]
    /// columns to compare it with; empty: compare every row with all columns. Kernels may compare
    /// more groups than requested.
    pub group_counts: &'a [u32],
}

impl RowBlock<'_> {
    /// Returns the groups that at least one of `row_count` rows is compared with.
    #[inline]
    pub(crate) fn groups<'c>(
        &self,
        columns: Columns<'c>,
        first_row: usize,
        row_count: usize,
    ) -> impl Iterator<Item = Group<'c>> {
        let runs = self.group_counts.iter().take((first_row + row_count).div_ceil(RUN_ROWS));
        let largest = runs.skip(first_row / RUN_ROWS).max();
        columns.groups().take(largest.map_or(usize::MAX, |&count| count as usize))
    }
}

/// A panel of columns, packed in groups of columns with 4 dimensions interleaved.
///
/// Packing adds the correction for the rows' shift by 128 to the column biases.
#[derive(Debug, Clone, Default)]
pub struct ColumnPanel {
    steps: Vec<GroupStep>,
    biases: Vec<GroupBiases>,
    column_count: usize,
    dim: usize,
}

/// Codes and biases from which a panel picks its columns.
#[derive(Debug, Clone, Copy)]
pub struct CodeRows<'a> {
    /// `stride` codes for each row.
    pub codes: &'a [i8],
    /// One bias for each row, within ±[`BIAS_MAX`].
    pub biases: &'a [i32],
    /// The sum of the codes of each row that are packed.
    pub sums: &'a [i32],
    /// Codes from one row to the next.
    pub stride: usize,
}

/// A column on its way into a panel.
struct PackedColumn<'a> {
    codes: &'a [[i8; STEP_DIMS]],
    bias: i32,
    /// The sum of the codes.
    sum: i32,
}

/// The columns of a panel, or the first of them.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    steps: &'a [GroupStep],
    biases: &'a [GroupBiases],
    dim: usize,
}

/// A row of the block and a column of the panel that passed the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// The row's position in its block.
    pub row: u32,
    /// The column's position in its panel.
    pub column: u32,
}

/// A [`Hit`] with its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScoredHit {
    /// Which row and which column.
    pub hit: Hit,
    /// `Σ row code · column code + row bias + column bias`, not negative.
    pub score: i32,
}

/// [`STEP_DIMS`] codes of each column of a group.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct GroupStep(pub(crate) [i8; GROUP_COLUMNS * STEP_DIMS]);

/// The bias of each column of a group.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct GroupBiases {
    /// For unsigned rows.
    pub(crate) shifted: [i32; GROUP_COLUMNS],
    /// For rows shifted back to signed codes.
    pub(crate) signed: [i32; GROUP_COLUMNS],
}

/// A group of a panel, as kernels read it.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    /// The panel position of the group's first column.
    pub(crate) first_column: usize,
    pub(crate) steps: &'a [GroupStep],
    pub(crate) biases: &'a GroupBiases,
}

impl ColumnPanel {
    /// Packs `codes` (`dim` for each column, row-major; `dim` a multiple of 4) and their biases
    /// (within ±[`BIAS_MAX`]) into this panel, reusing its memory.
    ///
    /// # Panics
    /// When `dim` is zero, not a multiple of 4 or above [`DIM_MAX`], the lengths do not agree, or a
    /// bias is out of range.
    pub fn pack(&mut self, codes: &[i8], biases: &[i32], dim: usize) {
        assert_eq!(codes.len(), biases.len() * dim, "codes and biases of different column counts");
        self.start(dim);
        let group_codes = codes.chunks(GROUP_COLUMNS * dim.max(1));
        for (codes, biases) in group_codes.zip(biases.chunks(GROUP_COLUMNS)) {
            self.push_group(codes.chunks_exact(dim).zip(biases).map(|(codes, &bias)| {
                PackedColumn {
                    codes: codes.as_chunks().0,
                    bias,
                    sum: codes.iter().map(|&code| i32::from(code)).sum(),
                }
            }));
        }
    }

    /// Packs the first `dim` codes of the rows that `picked` names, in that order, reusing this panel's
    /// memory. `rows.sums` must hold the sums of just these codes.
    ///
    /// # Panics
    /// When `dim` is zero, not a multiple of 4, above [`DIM_MAX`] or above the stride, a row does not
    /// exist, or a bias is out of range.
    pub fn pack_picked(&mut self, rows: &CodeRows<'_>, picked: &[u32], dim: usize) {
        self.start(dim);
        for picked in picked.chunks(GROUP_COLUMNS) {
            self.push_group(picked.iter().map(|&row| {
                let row = row as usize;
                let codes = &rows.codes[row * rows.stride..row * rows.stride + dim];
                let (bias, sum) = (rows.biases[row], rows.sums[row]);
                PackedColumn { codes: codes.as_chunks().0, bias, sum }
            }));
        }
    }

    /// Appends the columns of another panel of the same `dim`: panels packed side by side become one.
    ///
    /// # Panics
    /// When `dim` differs, or this panel does not end with a whole group of 32.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.dim = other.dim;
        }
        assert_eq!(self.dim, other.dim, "panels of different dim");
        assert!(
            self.column_count.is_multiple_of(GROUP_COLUMNS),
            "a group in the middle is not full"
        );
        self.steps.extend_from_slice(&other.steps);
        self.biases.extend_from_slice(&other.biases);
        self.column_count += other.column_count;
    }

    /// Returns the panel's memory as [`Columns::from_packed`] takes it: codes and biases, group after group.
    #[must_use]
    pub fn as_packed(&self) -> (&[i8], &[i32]) {
        (packed::codes(&self.steps), packed::biases(&self.biases))
    }

    /// Returns all columns.
    #[must_use]
    pub fn columns(&self) -> Columns<'_> {
        self.first_columns(self.column_count)
    }

    /// Returns the first `count` columns, rounded up to whole groups of 32.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn first_columns(&self, count: usize) -> Columns<'_> {
        let groups = count.div_ceil(GROUP_COLUMNS);
        Columns {
            steps: &self.steps[..groups * (self.dim / STEP_DIMS)],
            biases: &self.biases[..groups],
            dim: self.dim,
        }
    }

    /// Returns the number of columns.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.column_count
    }

    /// Tells whether the panel has no columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.column_count == 0
    }

    /// Returns the codes per column; 0 for a panel into which nothing was packed.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    fn start(&mut self, dim: usize) {
        assert!(
            dim > 0 && dim.is_multiple_of(STEP_DIMS) && dim <= DIM_MAX,
            "dim {dim} is not a multiple of {STEP_DIMS} in 1..={DIM_MAX}"
        );
        self.column_count = 0;
        self.dim = dim;
        self.steps.clear();
        self.biases.clear();
    }

    /// Appends a group of up to 32 columns.
    fn push_group<'a>(&mut self, columns: impl ExactSizeIterator<Item = PackedColumn<'a>>) {
        const EMPTY: &[[i8; STEP_DIMS]] = &[];
        let count = columns.len();
        let mut codes = [EMPTY; GROUP_COLUMNS];
        let mut biases =
            GroupBiases { shifted: [NEVER; GROUP_COLUMNS], signed: [NEVER; GROUP_COLUMNS] };
        for (at, column) in columns.enumerate() {
            let bias = column.bias;
            assert!(
                bias.unsigned_abs() <= BIAS_MAX.unsigned_abs(),
                "column bias beyond {BIAS_MAX}"
            );
            codes[at] = column.codes;
            biases.signed[at] = bias;
            biases.shifted[at] = bias.wrapping_sub(column.sum.wrapping_mul(SHIFTED_ZERO.into()));
        }
        self.biases.push(biases);
        self.column_count += count;
        let step_count = self.dim / STEP_DIMS;
        let zeros = vec![[0; STEP_DIMS]; if count < GROUP_COLUMNS { step_count } else { 0 }];
        codes[count..].fill(&zeros);
        // Slices of one known length: the loop needs no further checks.
        let codes = codes.map(|codes| &codes[..step_count]);
        self.steps.extend((0..step_count).map(|step| {
            let mut packed = GroupStep([0; GROUP_COLUMNS * STEP_DIMS]);
            for (to, codes) in packed.0.as_chunks_mut().0.iter_mut().zip(&codes) {
                *to = codes[step];
            }
            packed
        }));
    }
}

impl<'a> Columns<'a> {
    /// Takes columns that a panel packed and that were stored since: [`PACKED_COLUMNS`]` · dim` codes and
    /// [`PACKED_BIASES`] numbers for each group; `None` where the lengths do not fit each other, `dim` is not a multiple
    /// of 4 in 1..=[`DIM_MAX`], or the slices do not begin at a multiple of 64 bytes.
    ///
    /// Nothing is copied. Safety: any byte values are valid; wrong ones give wrong scores, not undefined behaviour.
    #[must_use]
    pub fn from_packed(codes: &'a [i8], biases: &'a [i32], dim: usize) -> Option<Self> {
        if dim == 0 || !dim.is_multiple_of(STEP_DIMS) || dim > DIM_MAX {
            return None;
        }
        let (steps, biases) = (packed::steps(codes)?, packed::group_biases(biases)?);
        let fits = biases.len().checked_mul(dim / STEP_DIMS) == Some(steps.len());
        fits.then_some(Self { steps, biases, dim })
    }

    /// Returns the number of groups of [`PACKED_COLUMNS`] columns.
    #[must_use]
    pub const fn group_count(&self) -> usize {
        self.biases.len()
    }

    /// Returns a run of groups; hits count columns from its first.
    ///
    /// # Panics
    /// When there are fewer groups.
    #[must_use]
    pub fn group_range(self, groups: std::ops::Range<usize>) -> Self {
        let steps = self.dim / STEP_DIMS;
        Self {
            steps: &self.steps[groups.start * steps..groups.end * steps],
            biases: &self.biases[groups],
            dim: self.dim,
        }
    }

    /// Returns the codes per column.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Tells whether there are no columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.biases.is_empty()
    }

    /// Returns the groups in column order.
    pub(crate) fn groups(self) -> impl Iterator<Item = Group<'a>> {
        let steps = self.steps.chunks_exact((self.dim / STEP_DIMS).max(1));
        steps.zip(self.biases).enumerate().map(|(index, (steps, biases))| Group {
            first_column: index * GROUP_COLUMNS,
            steps,
            biases,
        })
    }
}

/// Rows of a block that are tested together, laid out as a panel's steps are: the [`STEP_DIMS`]
/// codes of each row as one `T` that a kernel broadcasts.
pub(crate) struct RowTile<T, const ROWS: usize> {
    few_steps: [[T; ROWS]; FEW_STEPS],
    many_steps: Vec<[T; ROWS]>,
    step_count: usize,
    pub(crate) biases: [i32; ROWS],
}

/// Tiles of up to this many steps (64 codes of each row, as scans have) are kept on the stack.
const FEW_STEPS: usize = 16;

impl<T: Copy + Default, const ROWS: usize> RowTile<T, ROWS> {
    pub(crate) fn new() -> Self {
        Self {
            few_steps: [[T::default(); ROWS]; FEW_STEPS],
            many_steps: Vec::new(),
            step_count: 0,
            biases: [NEVER; ROWS],
        }
    }

    /// Returns the codes of all rows, step by step.
    #[inline]
    pub(crate) fn steps(&self) -> &[[T; ROWS]] {
        self.few_steps.get(..self.step_count).unwrap_or(&self.many_steps)
    }

    /// Lays out the rows from `first_row` on; rows beyond the block's end never pass.
    pub(crate) fn fill(
        &mut self,
        block: &RowBlock<'_>,
        first_row: usize,
        join: impl Fn([u8; STEP_DIMS]) -> T,
    ) {
        let row_count = ROWS.min(block.biases.len() - first_row);
        self.biases = [NEVER; ROWS];
        self.biases[..row_count].copy_from_slice(&block.biases[first_row..first_row + row_count]);
        self.step_count = block.dim / STEP_DIMS;
        let zeros = [join([SHIFTED_ZERO; STEP_DIMS]); ROWS];
        let steps = match self.few_steps.get_mut(..self.step_count) {
            Some(steps) => {
                steps.fill(zeros);
                steps
            }
            None => {
                self.many_steps.clear();
                self.many_steps.resize(self.step_count, zeros);
                &mut self.many_steps
            }
        };
        let codes = block.shifted_codes[first_row * block.dim..].chunks_exact(block.dim);
        for (row, codes) in codes.take(row_count).enumerate() {
            for (step, codes) in steps.iter_mut().zip(codes.as_chunks().0) {
                step[row] = join(*codes);
            }
        }
    }
}

/// Returns unsigned row codes as the signed codes they stand for.
#[inline]
pub(crate) fn signed_codes(shifted: [u8; STEP_DIMS]) -> [i8; STEP_DIMS] {
    shifted.map(|code| (code ^ SHIFTED_ZERO).cast_signed())
}

/// A result of a sweep: a hit with or without its score.
pub(crate) trait Found: Sized {
    /// Makes it from a hit and its score, `scores[at]`.
    fn new(hit: Hit, at: usize, scores: &[i32; GROUP_COLUMNS]) -> Self;

    /// Tells whether scores are wanted.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other levels have scores in memory in any case")
    )]
    const HAS_SCORES: bool;

    /// Appends a hit of `row` for each set bit of `mask`; bit `k` is column `first_column + k`,
    /// with the score at `k` where scores are wanted.
    #[inline]
    fn push(
        found: &mut Vec<Self>,
        row: usize,
        first_column: usize,
        mut mask: u32,
        scores: &[i32; GROUP_COLUMNS],
    ) {
        while mask != 0 {
            let at = mask.trailing_zeros() as usize;
            // A panel or block of 2³² rows would hold 16 GiB of codes at the least dim; positions are u32.
            let hit = Hit { row: row as u32, column: (first_column + at) as u32 };
            found.push(Self::new(hit, at, scores));
            mask &= mask - 1;
        }
    }
}

impl Found for Hit {
    const HAS_SCORES: bool = false;

    #[inline]
    fn new(hit: Hit, _at: usize, _scores: &[i32; GROUP_COLUMNS]) -> Self {
        hit
    }
}

impl Found for ScoredHit {
    const HAS_SCORES: bool = true;

    #[inline]
    fn new(hit: Hit, at: usize, scores: &[i32; GROUP_COLUMNS]) -> Self {
        Self { hit, score: scores[at] }
    }
}
