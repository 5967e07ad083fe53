//! [`CodeRows`]: codes as slices, and distances between them.
//!
//! [`Members`]: the rows behind each node.
//!
//! [`Pages`]: many numbers in memory that is read here and there.

use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memfold_simd::Kernels;
use memmap2::MmapMut;

use super::hash_codes;
use crate::Row;
use crate::distinct::DistinctRows;

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

/// Marks a row whose vector equals that of the row before it.
const REPEATS: u32 = 1 << 31;

/// For each node its rows: vectors of one code lie together, and bit-equal ones beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Where each node's rows start, and where the last one's end.
    pub starts: Vec<u32>,
    /// Rows; the highest bit marks those that equal the one before.
    pub rows: Vec<u32>,
}

/// Borrowed [`Members`].
#[derive(Debug, Clone, Copy)]
pub struct MembersView<'a> {
    /// See [`Members::starts`].
    pub starts: &'a [u32],
    /// See [`Members::rows`].
    pub rows: &'a [u32],
}

impl Members {
    /// The most rows that can be marked.
    pub const ROWS_MAX: usize = REPEATS as usize;

    /// Puts together nodes that are given by positions among the distinct rows.
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n [u32]>, distinct: &DistinctRows) -> Self {
        let mut members = Self { starts: vec![0], rows: Vec::new() };
        for positions in nodes {
            for &position in positions {
                members.push_equal_rows(distinct.rows[position as usize], distinct);
            }
            members.starts.push(members.rows.len() as u32);
        }
        members
    }

    fn push_equal_rows(&mut self, first: Row, distinct: &DistinctRows) {
        self.rows.push(first.0);
        // Groups are sorted by their first row.
        if let Ok(group) = distinct.groups.binary_search_by_key(&first, |group| group[0]) {
            self.rows.extend(distinct.groups[group][1..].iter().map(|row| row.0 | REPEATS));
        }
    }

    /// Returns the rows as slices.
    #[must_use]
    pub fn view(&self) -> MembersView<'_> {
        MembersView { starts: &self.starts, rows: &self.rows }
    }
}

impl<'a> MembersView<'a> {
    /// Returns a node's rows, and whether each has the vector of the one before; none where bytes are damaged.
    pub(crate) fn rows(&self, node: u32) -> impl ExactSizeIterator<Item = (Row, bool)> + use<'a> {
        let node = node as usize;
        let range = match (self.starts.get(node), self.starts.get(node + 1)) {
            (Some(&start), Some(&end)) => start as usize..end as usize,
            _ => 0..0,
        };
        let rows = self.rows.get(range).unwrap_or_default();
        rows.iter()
            .enumerate()
            .map(|(at, &row)| (Row(row & !REPEATS), at > 0 && row & REPEATS != 0))
    }
}

/// What is smaller stays on the heap: two large pages.
const MAPPED_BYTES_MIN: usize = 4 << 20;

/// Numbers on large pages, where they are many and the system has such pages.
///
/// A search reads some thousand rows here and there. On pages of 4 KiB each of them waits for the page's address too, and rows of
/// 384 codes that do not begin where a line of the cache does take seven lines instead of six.
#[derive(Debug)]
pub(crate) struct Pages<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Heap(Vec<T>),
    Mapped(MmapMut),
}

impl<T: Pod> Pages<T> {
    /// Returns so many zeros.
    pub(crate) fn zeroed(count: usize) -> Self {
        let bytes = count * size_of::<T>();
        let mapped = if bytes < MAPPED_BYTES_MIN { None } else { MmapMut::map_anon(bytes).ok() };
        let Some(map) = mapped else { return Self::from(vec![T::zeroed(); count]) };
        // A hint: without it everything works, and takes longer.
        #[cfg(target_os = "linux")]
        let _unheeded = map.advise(memmap2::Advice::HugePage);
        Self(Memory::Mapped(map))
    }
}

impl<T> From<Vec<T>> for Pages<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Memory::Heap(values))
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T: Pod> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(values) => values,
            Memory::Mapped(map) => bytemuck::cast_slice(map),
        }
    }
}

impl<T: Pod> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(values) => values,
            Memory::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl<T: Pod> Clone for Pages<T> {
    fn clone(&self) -> Self {
        let mut clone = Self::zeroed(self.len());
        clone.copy_from_slice(self);
        clone
    }
}

impl<T: Pod + PartialEq> PartialEq for Pages<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Pages<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_numbers_are_the_same() {
        assert!(Pages::<i8>::default().is_empty());
        for count in [0, 1, 1_000, (MAPPED_BYTES_MIN / 4) - 1, MAPPED_BYTES_MIN / 4, 3_000_001] {
            let mut pages = Pages::<u32>::zeroed(count);
            assert_eq!(matches!(pages.0, Memory::Mapped(_)), count * 4 >= MAPPED_BYTES_MIN);
            assert!(pages.len() == count && pages.iter().all(|&number| number == 0));
            (0..).zip(pages.iter_mut()).for_each(|(at, number)| *number = at);
            let numbers: Vec<u32> = (0..count as u32).collect();
            assert_eq!(*pages, *numbers);
            assert!(pages == pages.clone() && pages == Pages::from(numbers));
            if let Some(last) = pages.last_mut() {
                *last += 1;
                assert_ne!(pages, Pages::zeroed(count));
            }
        }
    }
}
