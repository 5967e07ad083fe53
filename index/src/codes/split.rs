//! [`SplitCodes`]: codes in the order in which searches read them.

use memfold_simd::Kernels;

use super::coding::CodeRows;
use super::pages::Pages;
use super::rotation::LEAD_DIMS;
use crate::sample::hash_codes;

/// Codes in memory as they are searched: of each row the first ones, then of each row the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitCodes {
    codes: Pages<i8>,
    dim: usize,
}

/// Borrowed [`SplitCodes`], often those of a mapped file.
///
/// Most rows that a search comes to are too far by their first codes alone, which are one line of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitRows<'a> {
    pub(crate) lead: &'a [i8],
    rest: &'a [i8],
    lead_dim: usize,
    rest_dim: usize,
}

impl SplitCodes {
    /// Copies rows.
    pub(crate) fn of(rows: CodeRows<'_>) -> Self {
        let mut codes = Pages::zeroed(rows.codes.len());
        let (lead_dim, rest_dim) = split_dims(rows.dim);
        let (lead, rest) = codes.split_at_mut(lead_dim * rows.len());
        let places = lead.chunks_exact_mut(lead_dim.max(1));
        for (row, place) in rows.codes.chunks_exact(rows.dim.max(1)).zip(places) {
            place.copy_from_slice(&row[..lead_dim]);
        }
        if rest_dim > 0 {
            let places = rest.chunks_exact_mut(rest_dim);
            for (row, place) in rows.codes.chunks_exact(rows.dim).zip(places) {
                place.copy_from_slice(&row[lead_dim..]);
            }
        }
        Self { codes, dim: rows.dim }
    }

    pub(crate) fn as_codes(&self) -> &[i8] {
        &self.codes
    }

    pub(crate) fn view(&self) -> SplitRows<'_> {
        SplitRows::new(&self.codes, self.dim)
    }
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

    /// Adds to distances by the first codes those by the others, of a query and rows in their order; `more` is memory
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::NodeCodes;

    #[test]
    fn rows_and_distances_are_those_of_whole_codes() {
        let kernels = Kernels::active();
        for dim in [4, 60, 64, 68, 384] {
            let codes: Vec<i8> = (0..dim * 9).map(|at| (at * 7_919 % 251) as i8).collect();
            let rows = NodeCodes::new(codes, dim, kernels);
            let (rows, split) = (rows.view(), SplitCodes::of(rows.view()));
            let view = split.view();
            assert_eq!((view.len(), split.as_codes().len()), (9, 9 * dim));
            assert_eq!(view.row(5).concat(), rows.row(5));
            assert_eq!(view.row(5)[0].len(), split_dims(dim).0);
            let [by_lead, found] = view.squared_distances(2, &[8, 2], kernels);
            let dot = kernels.dot_i8(rows.row(2), rows.row(8));
            assert_eq!(found, [rows.distance_from_dot(2, rows.squared_norm(8), dot), 0]);
            assert!(by_lead[0] > 0 && by_lead[0] <= found[0] && by_lead[1] == 0);
        }
        assert_eq!(SplitCodes::of(NodeCodes::new(vec![], 80, kernels).view()).view().len(), 0);
    }
}
