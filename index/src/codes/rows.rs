//! Codes of many rows: [`CodeRows`] for building, [`SplitRows`] for searching, [`Members`] behind them, [`Pages`] for all.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memfold_simd::Kernels;
use memmap2::MmapMut;

use super::LEAD_DIMS;
use crate::Row;
use crate::distinct::DistinctRows;
use crate::sample::hash_codes;

/// Codes in memory, row-major.
#[derive(Debug)]
pub(crate) struct NodeCodes {
    pub(crate) codes: Pages<i8>,
    pub(crate) squared_norms: Vec<i32>,
    pub(crate) dim: usize,
}

/// Borrowed [`NodeCodes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeRows<'a> {
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
    pub(crate) fn view(&self) -> CodeRows<'_> {
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
        self.squared_norm(row) + squared_norm - 2 * dot
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

/// Marks a row with the vector of the row before it.
const REPEATS: u32 = 1 << 31;

/// For each node its rows: vectors of one code lie together, and bit-equal ones beside each other.
#[derive(Debug, Clone)]
pub(crate) struct Members<'a> {
    /// Where each node's rows start, and where the last one's end.
    pub(crate) starts: Cow<'a, [u32]>,
    /// Rows; the highest bit marks rows equal to the one before.
    pub(crate) rows: Cow<'a, [u32]>,
}

impl Members<'_> {
    /// The most rows that can be marked.
    pub(crate) const ROWS_MAX: usize = REPEATS as usize;

    /// Puts together nodes that are given by positions among the distinct rows.
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n [u32]>, distinct: &DistinctRows) -> Self {
        let (mut starts, mut rows) = (vec![0], Vec::new());
        for positions in nodes {
            for &position in positions {
                let first = distinct.rows[position as usize];
                rows.push(first.0);
                // Groups are sorted by their first row.
                if let Ok(group) = distinct.groups.binary_search_by_key(&first, |group| group[0]) {
                    rows.extend(distinct.groups[group][1..].iter().map(|row| row.0 | REPEATS));
                }
            }
            starts.push(rows.len() as u32);
        }
        Self { starts: starts.into(), rows: rows.into() }
    }

    /// Returns a node's rows, and whether each has the vector of the one before; none where bytes are damaged.
    pub(crate) fn rows(&self, node: u32) -> impl ExactSizeIterator<Item = (Row, bool)> {
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

/// Codes as they are searched, often in a mapped file: of each row the first ones, then of each row the others.
///
/// Most rows that a search comes to are too far by their first codes alone, which are one line of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitRows<'a> {
    pub(crate) lead: &'a [i8],
    rest: &'a [i8],
    lead_dim: usize,
    rest_dim: usize,
}

/// Copies rows in the order of [`SplitRows`].
pub(crate) fn split(rows: CodeRows<'_>) -> Pages<i8> {
    let mut codes = Pages::zeroed(rows.codes.len());
    let (lead_dim, rest_dim) = split_dims(rows.dim);
    let (lead, rest) = codes.split_at_mut(lead_dim * rows.len());
    for (at, row) in rows.codes.chunks_exact(rows.dim.max(1)).enumerate() {
        let (first, others) = row.split_at(lead_dim);
        lead[at * lead_dim..][..lead_dim].copy_from_slice(first);
        rest[at * rest_dim..][..rest_dim].copy_from_slice(others);
    }
    codes
}

/// Returns how many codes come first, and how many others there are.
const fn split_dims(dim: usize) -> (usize, usize) {
    if dim < LEAD_DIMS { (dim, 0) } else { (LEAD_DIMS, dim - LEAD_DIMS) }
}

impl<'a> SplitRows<'a> {
    /// Takes `dim` codes for each row.
    pub(crate) fn new(codes: &'a [i8], dim: usize) -> Self {
        let (lead_dim, rest_dim) = split_dims(dim);
        let (lead, rest) = codes.split_at(codes.len() / dim.max(1) * lead_dim);
        Self { lead, rest, lead_dim, rest_dim }
    }

    /// Returns the number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.lead.len() / self.lead_dim
    }

    /// Returns the two parts of a row's codes.
    pub(crate) fn row(&self, row: u32) -> [&'a [i8]; 2] {
        let row = row as usize;
        let lead = &self.lead[row * self.lead_dim..][..self.lead_dim];
        [lead, &self.rest[row * self.rest_dim..][..self.rest_dim]]
    }

    /// Returns how far a row is from others, in their order: by the first codes, and by all.
    pub(crate) fn squared_distances(
        &self,
        row: u32,
        others: &[u32],
        kernels: &Kernels,
    ) -> [Vec<i32>; 2] {
        let [lead, rest] = self.row(row);
        let mut by_lead = Vec::new();
        kernels.squared_distances(lead, self.lead, others, &mut by_lead);
        let mut distances = by_lead.clone();
        self.add_rest(rest, others, kernels, &mut distances, &mut Vec::new());
        [by_lead, distances]
    }

    /// Adds the distances by the other codes to distances by the first, of a query and rows in their order; `more` is memory
    /// that is used again.
    pub(crate) fn add_rest(
        &self,
        query: &[i8],
        rows: &[u32],
        kernels: &Kernels,
        distances: &mut [i32],
        more: &mut Vec<i32>,
    ) {
        if !query.is_empty() {
            more.clear();
            kernels.squared_distances(query, self.rest, rows, more);
            distances.iter_mut().zip(more).for_each(|(distance, more)| *distance += *more);
        }
    }

    /// Splits the codes of a query in the same way.
    pub(crate) fn split<'q>(&self, query: &'q [i8]) -> (&'q [i8], &'q [i8]) {
        query.split_at(self.lead_dim)
    }

    /// Returns the hash of a row's first codes.
    pub(crate) fn lead_hash(&self, row: u32) -> u64 {
        hash_codes(self.row(row)[0])
    }
}

/// Smaller memory stays on the heap: two large pages.
const MAPPED_BYTES_MIN: usize = 4 << 20;

/// Numbers on large pages, where they are many and the system has them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_distances_are_those_of_whole_codes() {
        let kernels = Kernels::active();
        for dim in [4, 60, 64, 68, 384] {
            let codes: Vec<i8> = (0..dim * 9).map(|at| (at * 7_919 % 251) as i8).collect();
            let rows = NodeCodes::new(codes, dim, kernels);
            let (rows, split) = (rows.view(), split(rows.view()));
            let view = SplitRows::new(&split, dim);
            assert_eq!((view.len(), split.len()), (9, 9 * dim));
            assert_eq!(view.row(5).concat(), rows.row(5));
            assert_eq!(view.row(5)[0].len(), split_dims(dim).0);
            let [by_lead, found] = view.squared_distances(2, &[8, 2], kernels);
            let dot = kernels.dot_i8(rows.row(2), rows.row(8));
            assert_eq!(found, [rows.distance_from_dot(2, rows.squared_norm(8), dot), 0]);
            assert!(by_lead[0] > 0 && by_lead[0] <= found[0] && by_lead[1] == 0);
        }
        assert!(split(NodeCodes::new(vec![], 80, kernels).view()).is_empty());
    }

    #[test]
    fn few_and_many_numbers_are_the_same() {
        for count in [0, 1, 1_000, (MAPPED_BYTES_MIN / 4) - 1, MAPPED_BYTES_MIN / 4, 3_000_001] {
            let mut pages = Pages::<u32>::zeroed(count);
            assert_eq!(matches!(pages.0, Memory::Mapped(_)), count * 4 >= MAPPED_BYTES_MIN);
            assert!(pages.len() == count && pages.iter().all(|&number| number == 0));
            (0..).zip(pages.iter_mut()).for_each(|(at, number)| *number = at);
            let numbers: Vec<u32> = (0..count as u32).collect();
            assert_eq!(*pages, *numbers);
        }
    }
}
