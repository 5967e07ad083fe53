//! [`Searches`]: a block of queries on their way over a slab.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use memfold_simd::panel::PACKED_COLUMNS;
use memfold_simd::{Hit, Kernels, RowBlock, ScoredHit, Similarity};

use super::SlabView;
use super::sample::squared_norm;
use crate::transform::{EncodedQuery, PREFIX_CODES};
use crate::{BestNeighbors, Neighbor, Row, ScanError, VectorMatrix};

/// Groups of 32 rows that are tested together: their codes, 128 KiB, stay in the second-level cache for all queries.
const GROUPS_TOGETHER: usize = 64;

/// Rows that passed are judged when there are this many, so that memory stays bounded.
const PASSED_TOGETHER: usize = 4_096;

/// Vectors that are on their way from memory.
const FETCHED_AHEAD: usize = 3;

/// What is scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) slab: SlabView<'a>,
    pub(super) vectors: &'a VectorMatrix<'a>,
    pub(super) kernels: &'static Kernels,
}

/// A block of queries, with memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Searches {
    searches: Vec<Search>,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    passed: Vec<Hit>,
    scored: Vec<ScoredHit>,
}

/// One query and what it found.
#[derive(Debug)]
struct Search {
    squared_norm: f64,
    encoded: EncodedQuery,
    found: Vec<Neighbor>,
    best: BestNeighbors,
    /// The best scores of judged rows, the least on top.
    judged_scores: BinaryHeap<Reverse<i32>>,
    /// Rows that passed and were not judged.
    proposed: Vec<Proposal>,
}

/// A row that passed, with its score without the query's bias; ordered best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Proposal {
    score: Reverse<i32>,
    row: Row,
}

impl Rows<'_> {
    pub(super) fn all_groups(&self) -> Range<usize> {
        0..self.slab.columns.group_count()
    }

    fn similarity(&self, query: &[f32], squared_norm: f64, row: Row) -> Option<Similarity> {
        let vector = self.vectors.vector(row);
        let norms = (squared_norm, self.kernels.dot(vector, vector));
        self.kernels.similarity(query, vector, norms)
    }

    fn prefetch(&self, row: Row) {
        // Padding and damaged rows are beyond the vectors.
        if row.index() < self.vectors.len() {
            self.kernels.prefetch(bytemuck::cast_slice(self.vectors.vector(row)));
        }
    }
}

impl Searches {
    /// Encodes queries, the first of which stands at `position` among those of the caller.
    pub(super) fn prepare(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        position: u32,
    ) -> Result<(), ScanError> {
        self.shifted_codes.clear();
        for (at, &query) in queries.iter().enumerate() {
            let (expected, found) = (rows.slab.dim(), query.len());
            if expected != found {
                return Err(ScanError::Dimension { expected, found });
            }
            let invalid = ScanError::InvalidQuery { query: position + at as u32 };
            let squared_norm = squared_norm(query, rows.kernels).ok_or(invalid)?;
            let mut codes = [0; PREFIX_CODES];
            let transform = rows.slab.transform;
            let encoded = transform.encode_query(query, squared_norm, rows.kernels, &mut codes);
            self.shifted_codes.extend(codes.map(|code| code.cast_unsigned() ^ 0x80));
            match self.searches.get_mut(at) {
                Some(search) => (search.squared_norm, search.encoded) = (squared_norm, encoded),
                None => self.searches.push(Search::new(squared_norm, encoded)),
            }
        }
        Ok(())
    }

    /// Returns what a query found, best first.
    pub(super) fn found(&self, query: usize) -> &[Neighbor] {
        &self.searches[query].found
    }

    /// Hands over what each of the first `count` queries found.
    pub(super) fn into_found(self, count: usize) -> impl Iterator<Item = Vec<Neighbor>> {
        self.searches.into_iter().take(count).map(|search| search.found)
    }

    /// Finds all kept rows of some groups at or above the threshold.
    pub(super) fn range(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        groups: Range<usize>,
        (threshold, keep): (Similarity, impl Fn(Row) -> bool),
    ) {
        self.biases.clear();
        for search in &mut self.searches[..queries.len()] {
            search.found.clear();
            self.biases.push(search.encoded.bias(threshold));
        }
        let end = groups.end;
        for first in groups.step_by(GROUPS_TOGETHER) {
            let columns = rows.slab.columns.group_range(first..end.min(first + GROUPS_TOGETHER));
            let unmoved = self.passed.len();
            let block = block(&self.shifted_codes, &self.biases);
            rows.kernels.hits(&block, columns, &mut self.passed);
            for hit in &mut self.passed[unmoved..] {
                hit.column += first_row(first);
            }
            if self.passed.len() >= PASSED_TOGETHER {
                self.judge_passed(rows, queries, (threshold, &keep));
            }
        }
        self.judge_passed(rows, queries, (threshold, &keep));
        for search in &mut self.searches[..queries.len()] {
            search.found.sort_unstable();
        }
    }

    fn judge_passed(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        (threshold, keep): (Similarity, impl Fn(Row) -> bool),
    ) {
        for (at, hit) in self.passed.iter().enumerate() {
            if let Some(ahead) = self.passed.get(at + FETCHED_AHEAD) {
                rows.prefetch(Row(ahead.column));
            }
            let (query, row) = (hit.row as usize, Row(hit.column));
            if row.index() >= rows.slab.len() || !keep(row) {
                continue;
            }
            let search = &mut self.searches[query];
            let similarity = rows.similarity(queries[query], search.squared_norm, row);
            let found = similarity.filter(|&similarity| similarity >= threshold);
            search.found.extend(found.map(|similarity| Neighbor { row, similarity }));
        }
        self.passed.clear();
    }

    /// Finds the `k` most similar of the kept rows of some groups.
    ///
    /// A row whose score is among the best `k` is judged at once; that raises what others must reach. The rest is judged
    /// at the end, best score first, until no other can be similar enough.
    pub(super) fn k_nearest(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        groups: Range<usize>,
        (k, keep): (usize, impl Fn(Row) -> bool),
    ) {
        let count = queries.len();
        self.searches[..count].iter_mut().for_each(|search| search.begin(k));
        if k == 0 {
            return;
        }
        let end = groups.end;
        for first in groups.step_by(GROUPS_TOGETHER) {
            self.biases.clear();
            self.biases.extend(self.searches[..count].iter().map(Search::bias));
            let columns = rows.slab.columns.group_range(first..end.min(first + GROUPS_TOGETHER));
            self.scored.clear();
            let block = block(&self.shifted_codes, &self.biases);
            rows.kernels.scored_hits(&block, columns, &mut self.scored);
            for &ScoredHit { hit, score } in &self.scored {
                let (query, row) = (hit.row as usize, Row(hit.column + first_row(first)));
                if row.index() < rows.slab.len() && keep(row) {
                    let score = Reverse(score.saturating_sub(self.biases[query]));
                    let proposal = Proposal { score, row };
                    self.searches[query].take(rows, queries[query], proposal, k);
                }
            }
        }
        for (search, query) in self.searches.iter_mut().zip(queries) {
            search.settle(rows, query);
        }
    }
}

impl Search {
    const fn new(squared_norm: f64, encoded: EncodedQuery) -> Self {
        Self {
            squared_norm,
            encoded,
            found: Vec::new(),
            best: BestNeighbors::new(0),
            judged_scores: BinaryHeap::new(),
            proposed: Vec::new(),
        }
    }

    fn begin(&mut self, k: usize) {
        self.found.clear();
        self.best.reset(k);
        self.judged_scores.clear();
        self.proposed.clear();
    }

    /// Returns the bias with which all rows pass that may still be among the best.
    fn bias(&self) -> i32 {
        let similarity_min = self.best.similarity_min();
        similarity_min.map_or(EncodedQuery::bias_of_all(), |least| self.encoded.bias(least))
    }

    fn take(&mut self, rows: &Rows<'_>, query: &[f32], proposal: Proposal, k: usize) {
        if self.judged_scores.len() < k {
            self.judged_scores.push(Reverse(proposal.score.0));
        } else if let Some(mut least) = self.judged_scores.peek_mut()
            && least.0 < proposal.score.0
        {
            *least = Reverse(proposal.score.0);
        } else {
            self.proposed.push(proposal);
            return;
        }
        self.judge(rows, query, proposal.row);
    }

    fn judge(&mut self, rows: &Rows<'_>, query: &[f32], row: Row) {
        if let Some(similarity) = rows.similarity(query, self.squared_norm, row) {
            self.best.offer(Neighbor { row, similarity });
        }
    }

    /// Judges what was proposed, as far as it may matter, and sorts the best.
    fn settle(&mut self, rows: &Rows<'_>, query: &[f32]) {
        let mut proposed = std::mem::take(&mut self.proposed);
        let passes = |proposal: &Proposal, bias: i32| proposal.score.0.saturating_add(bias) >= 0;
        let bias = self.bias();
        proposed.retain(|proposal| passes(proposal, bias));
        proposed.sort_unstable();
        for (at, proposal) in proposed.iter().enumerate() {
            if !passes(proposal, self.bias()) {
                break;
            }
            if let Some(ahead) = proposed.get(at + FETCHED_AHEAD) {
                rows.prefetch(ahead.row);
            }
            self.judge(rows, query, proposal.row);
        }
        self.proposed = proposed;
        self.best.drain_into(&mut self.found);
        self.found.sort_unstable();
    }
}

fn block<'a>(shifted_codes: &'a [u8], biases: &'a [i32]) -> RowBlock<'a> {
    RowBlock { shifted_codes, biases, dim: PREFIX_CODES }
}

/// Returns the first row of a group; there are fewer than 2³².
const fn first_row(group: usize) -> u32 {
    (group * PACKED_COLUMNS) as u32
}
