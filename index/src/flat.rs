//! The scan tier: which rows are near this vector, by a scan of 64 int8 codes per row?
//!
//! A [`FlatIndex`] holds for each row the codes of its coordinates along the 64 principal directions of all rows, and
//! a bias: 72 bytes that every scan reads. Another 132, the codes along 128 further directions, are read where the
//! first let a row pass, which keeps k-nearest searches from the vectors. It lies in a file as it lies in memory: a
//! [`FlatView`] borrows both alike, in constant time.
//!
//! A [`FlatScan`] tests every row with one integer sign test, rows that pass with a second, and reranks the rest by the
//! canonical similarity over the vectors themselves, which may lie in a mapped column. The tests let
//! everything near pass (`crate::transform` has the proof), so answers equal a plain
//! [`Scan`](crate::Scan), row for row and bit for bit, at a fraction of its reads.
//!
//! # The same bytes everywhere
//!
//! Directions are learned from the 4,096 distinct vectors of the smallest hashes, by canonical dot products and
//! f64 arithmetic that is neither fused nor reordered. So a flat index is a function of its rows, whatever the machine and
//! the number of threads.
//!
//! # In a file
//!
//! | section | numbers | count |
//! |---|---|---|
//! | prefix transform | f32: step, step of the fine codes, bound of the squared norm, `width` middles, `width` directions | 3 + width · (1 + dim), width ≤ 192 |
//! | prefix codes | i8: groups of 32 rows, 4 codes of each row side by side; then the fine codes, row after row | 2,048 for each group, 128 for each row |
//! | prefix norms | i32: groups of 32 biases for rows shifted to unsigned codes and 32 as they are; then squared lengths of fine codes, −1 where they do not count | 64 for each group, 1 for each row |
//!
//! The last group is padded with rows that never pass. Damaged numbers give answers with rows missing,
//! never wrong rows: each was reranked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use memfold_simd::panel::{PACKED_BIASES, PACKED_COLUMNS};
use memfold_simd::{ColumnPanel, Columns, Kernels, RowBlock, ScoredHit, Similarity};

use crate::sample::hash_values;
use crate::scan::{query_norm, squared_norm};
use crate::transform::{
    CoordinateRanges, FINE_CODES, LearnedDirections, PREFIX_CODES, PrefixCodes, PrefixTransform,
    QueryBounds, push_unit,
};
use crate::{
    BestNeighbors, Damaged, Neighbor, NoProgress, Pool, Progress, Row, VectorError, VectorMatrix,
};

#[cfg(test)]
mod tests;

/// A borrowed flat index: of a [`FlatIndex`] or of a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct FlatView<'a> {
    transform: PrefixTransform<'a>,
    columns: Columns<'a>,
    /// [`FINE_CODES`] for each row.
    fine_codes: &'a [i8],
    /// One for each row.
    fine_lengths: &'a [i32],
}

impl<'a> FlatView<'a> {
    /// Takes the numbers of a [`FlatIndex`] of `row_count` vectors of `dim` values, in constant time.
    ///
    /// # Errors
    /// When lengths do not fit each other, or codes and norms do not begin at a multiple of 64 bytes.
    pub(crate) fn new(
        transform: &'a [f32],
        codes: &'a [i8],
        norms: &'a [i32],
        row_count: usize,
        dim: usize,
    ) -> Result<Self, Damaged> {
        let transform = PrefixTransform::new(transform, dim)?;
        let groups = row_count.div_ceil(PACKED_COLUMNS);
        let first_codes = groups.saturating_mul(PACKED_COLUMNS * PREFIX_CODES);
        let code_count = first_codes.saturating_add(row_count.saturating_mul(FINE_CODES));
        let bias_count = groups.saturating_mul(PACKED_BIASES);
        let norm_count = bias_count.saturating_add(row_count);
        let lengths = [("codes", code_count, codes.len()), ("norms", norm_count, norms.len())];
        for (part, expected, found) in lengths {
            if expected != found {
                return Err(Damaged::Length { part, found, expected });
            }
        }
        let (first_codes, fine_codes) = codes.split_at(first_codes);
        let (biases, fine_lengths) = norms.split_at(bias_count);
        let columns = Columns::from_packed(first_codes, biases, PREFIX_CODES);
        let columns = columns.ok_or(Damaged::Alignment)?;
        Ok(Self { transform, columns, fine_codes, fine_lengths })
    }

    /// Returns the number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.fine_lengths.len()
    }

    /// Returns the dimension of the rows.
    pub(crate) const fn dim(&self) -> usize {
        self.transform.dim()
    }
}

/// Distinct vectors from which directions are learned.
const SAMPLED_ROWS: usize = 4_096;

/// Rows of a task.
const BATCH_ROWS: usize = 1_024;

/// Returns the unit vectors of up to [`SAMPLED_ROWS`] distinct rows, chosen by the smallest hashes, and checks that
/// every row has a direction.
fn sampled_units(
    matrix: &VectorMatrix<'_>,
    pool: &Pool,
    kernels: &Kernels,
) -> Result<Vec<f32>, VectorError> {
    let batches = pool.map(matrix.len().div_ceil(BATCH_ROWS), |batch| {
        let rows = batch * BATCH_ROWS..matrix.len().min((batch + 1) * BATCH_ROWS);
        let mut bits = Vec::with_capacity(matrix.dim());
        let mut hashed: Vec<(u64, Row)> = rows
            .map(|row| {
                // A matrix has fewer than 2³² rows.
                let row = Row(row as u32);
                let vector = matrix.vector(row);
                squared_norm(vector, kernels).ok_or(VectorError::InvalidRow { row: row.0 })?;
                Ok((hash_values(vector, &mut bits), row))
            })
            .collect::<Result<_, VectorError>>()?;
        keep_smallest(&mut hashed);
        Ok(hashed)
    });
    let mut sample = Vec::new();
    for batch in batches {
        sample.extend(batch?);
        if sample.len() > 16 * SAMPLED_ROWS {
            keep_smallest(&mut sample);
        }
    }
    keep_smallest(&mut sample);
    let mut units = Vec::with_capacity(sample.len() * matrix.dim());
    for (_, row) in sample {
        let vector = matrix.vector(row);
        push_unit(vector, kernels.dot(vector, vector), &mut units);
    }
    Ok(units)
}

/// Keeps the smallest hashes, each once, in order.
fn keep_smallest(hashed: &mut Vec<(u64, Row)>) {
    hashed.sort_unstable();
    hashed.dedup_by_key(|&mut (hash, _)| hash);
    hashed.truncate(SAMPLED_ROWS);
}

/// Rows of a task: whole groups.
const TASK_ROWS: usize = 2_048;

/// The codes of all rows and their transform, in memory.
///
/// Transform, codes and norms are stored as they lie in memory; a [`FlatView`] takes them from there.
#[derive(Debug)]
pub struct FlatIndex {
    transform: Vec<f32>,
    encoded: Encoded,
    dim: usize,
}

/// Rows with their codes.
#[derive(Debug, Default)]
struct Encoded {
    panel: ColumnPanel,
    fine_codes: Vec<i8>,
    fine_lengths: Vec<i32>,
}

impl FlatIndex {
    /// Learns a transform from the rows and encodes them.
    ///
    /// Reads every row three times; cost: about `rows · dim · 256` multiplications in f64. Holds 204 bytes for each row.
    ///
    /// # Errors
    /// When a row has no direction.
    pub fn build(
        matrix: &VectorMatrix<'_>,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Result<Self, VectorError> {
        let built = Self::build_watched(matrix, pool, kernels, &NoProgress)?;
        Ok(built.expect("nobody asks to stop"))
    }

    /// As [`build`](Self::build); `None` where the caller asked to stop.
    pub(crate) fn build_watched(
        matrix: &VectorMatrix<'_>,
        pool: &Pool,
        kernels: &Kernels,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, VectorError> {
        let dim = matrix.dim();
        let units = sampled_units(matrix, pool, kernels)?;
        if progress.cancelled() {
            return Ok(None);
        }
        let (directions, sampled) = LearnedDirections::of(&units, dim, pool, kernels);
        // A matrix has fewer than 2³² rows.
        let vector = |row: usize| matrix.vector(Row(row as u32));
        let ranges = pool.map_batches(matrix.len(), TASK_ROWS, progress, |rows| {
            let mut ranges = CoordinateRanges::none(PREFIX_CODES);
            for vector in rows.map(vector) {
                let squared_norm = kernels.dot(vector, vector);
                directions.widen(&mut ranges, vector, squared_norm, kernels);
            }
            ranges
        });
        let Some(ranges) = ranges else { return Ok(None) };
        let ranges = ranges.iter().fold(sampled, CoordinateRanges::joined);
        let numbers = directions.into_numbers(&ranges, kernels);
        let transform = transform_of(&numbers, dim);
        let batches = pool.map_batches(matrix.len(), TASK_ROWS, progress, |rows| {
            Encoded::of(rows.map(vector), &transform, kernels)
        });
        let Some(batches) = batches else { return Ok(None) };
        let mut encoded = Encoded::default();
        batches.into_iter().for_each(|batch| encoded.append(&batch));
        Ok(Some(Self { transform: numbers, encoded, dim }))
    }

    /// Encodes rows by the numbers of a transform that was learned from others: complete all the same, only slower to scan
    /// where these lie elsewhere.
    ///
    /// # Errors
    /// When the numbers are no transform of these rows' dimension.
    pub fn encode(
        matrix: &VectorMatrix<'_>,
        transform: &[f32],
        kernels: &Kernels,
    ) -> Result<Self, Damaged> {
        let dim = matrix.dim();
        let rows = matrix.rows().map(|row| matrix.vector(row));
        let encoded = Encoded::of(rows, &PrefixTransform::new(transform, dim)?, kernels);
        Ok(Self { transform: transform.to_vec(), encoded, dim })
    }

    /// Returns the transform's numbers.
    pub(crate) fn transform(&self) -> &[f32] {
        &self.transform
    }

    /// Returns the codes of the sign test in groups of 32 rows, then the fine codes row after row.
    pub(crate) fn codes(&self) -> [&[i8]; 2] {
        [self.encoded.panel.as_packed().0, &self.encoded.fine_codes]
    }

    /// Returns the biases in groups of 32 rows, then the squared lengths of fine codes.
    pub(crate) fn norms(&self) -> [&[i32]; 2] {
        [self.encoded.panel.as_packed().1, &self.encoded.fine_lengths]
    }

    /// Returns the bytes of transform, codes and norms.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        let codes: usize = self.codes().iter().map(|codes| codes.len()).sum();
        let norms: usize = self.norms().iter().map(|norms| norms.len()).sum();
        (codes + 4 * (norms + self.transform.len())) as u64
    }

    /// Lends the flat index to a scan.
    #[must_use]
    pub fn view(&self) -> FlatView<'_> {
        FlatView {
            transform: transform_of(&self.transform, self.dim),
            columns: self.encoded.panel.columns(),
            fine_codes: &self.encoded.fine_codes,
            fine_lengths: &self.encoded.fine_lengths,
        }
    }
}

fn transform_of(numbers: &[f32], dim: usize) -> PrefixTransform<'_> {
    PrefixTransform::new(numbers, dim).expect("whole directions and positive steps were learned")
}

impl Encoded {
    fn of<'a>(
        vectors: impl Iterator<Item = &'a [f32]>,
        transform: &PrefixTransform<'_>,
        kernels: &Kernels,
    ) -> Self {
        let mut encoded = Self::default();
        let (mut codes, mut biases) = (Vec::new(), Vec::new());
        for vector in vectors {
            let squared_norm = kernels.dot(vector, vector);
            let (row, bounds) = transform.encode_row(vector, squared_norm, kernels);
            codes.extend_from_slice(&row.first);
            biases.push(bounds.bias);
            encoded.fine_codes.extend_from_slice(&row.fine);
            encoded.fine_lengths.push(bounds.fine_length);
        }
        encoded.panel.pack(&codes, &biases, PREFIX_CODES);
        encoded
    }

    fn append(&mut self, other: &Self) {
        self.panel.append(&other.panel);
        self.fine_codes.extend_from_slice(&other.fine_codes);
        self.fine_lengths.extend_from_slice(&other.fine_lengths);
    }
}

/// Groups of 32 rows that are tested together: their codes, 128 KiB, stay in the second-level cache for all queries.
const GROUPS_TOGETHER: usize = 64;

/// Proposals of a range are reranked when there are this many, so that memory stays bounded.
const PROPOSED_TOGETHER: usize = 4_096;

/// Fine codes, and vectors, that are on their way from memory.
const FINE_AHEAD: usize = 8;
const VECTORS_AHEAD: usize = 3;

/// The index and vectors of a scan.
#[derive(Debug, Clone, Copy)]
struct Rows<'a> {
    flat: FlatView<'a>,
    vectors: &'a VectorMatrix<'a>,
    kernels: &'static Kernels,
}

/// A block of queries, with memory that is used again.
#[derive(Debug, Default)]
struct Searches {
    searches: Vec<Search>,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    scored: Vec<ScoredHit>,
}

/// One query and its results.
#[derive(Debug)]
struct Search {
    squared_norm: f64,
    codes: PrefixCodes,
    bounds: QueryBounds,
    /// Rows that passed the first test, and rows that passed both.
    proposed: Vec<Proposal>,
    candidates: Vec<Candidate>,
    best: BestNeighbors,
    /// The best scores of reranked rows, the least on top.
    reranked_scores: BinaryHeap<Reverse<i32>>,
    found: Vec<Neighbor>,
}

/// A row that passed the sign test, with its score without the query's bias.
#[derive(Debug, Clone, Copy)]
struct Proposal {
    score: i32,
    row: Row,
}

/// A row that passed both tests, with the squared distance of its codes.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    squared_distance: f64,
    row: Row,
}

impl Rows<'_> {
    /// Returns all groups of the flat index.
    fn all_groups(&self) -> Range<usize> {
        0..self.flat.columns.group_count()
    }

    fn fine_codes(&self, row: Row) -> &[i8] {
        &self.flat.fine_codes[row.index() * FINE_CODES..][..FINE_CODES]
    }
}

impl Searches {
    /// Encodes queries, the first of which stands at `position` among the queries of the caller.
    fn prepare(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        position: u32,
    ) -> Result<(), VectorError> {
        self.shifted_codes.clear();
        for (at, &query) in queries.iter().enumerate() {
            let position = position + at as u32;
            let squared_norm = query_norm(query, rows.flat.dim(), position, rows.kernels)?;
            let (codes, bounds) =
                rows.flat.transform.encode_query(query, squared_norm, rows.kernels);
            self.shifted_codes.extend(codes.first.map(|code| code.cast_unsigned() ^ 0x80));
            match self.searches.get_mut(at) {
                Some(search) => search.begin(squared_norm, codes, bounds),
                None => self.searches.push(Search::new(squared_norm, codes, bounds)),
            }
        }
        Ok(())
    }

    /// Returns the results of a query, best first.
    fn found(&self, query: usize) -> &[Neighbor] {
        &self.searches[query].found
    }

    /// Hands over the results of the first `count` queries.
    fn into_found(self, count: usize) -> impl Iterator<Item = Vec<Neighbor>> {
        self.searches.into_iter().take(count).map(|search| search.found)
    }

    /// Finds all rows of some groups at or above the threshold.
    fn range(
        &mut self,
        rows: &Rows<'_>,
        queries: &[&[f32]],
        groups: Range<usize>,
        threshold: Similarity,
    ) {
        for groups in together(groups) {
            let bias = |search: &Search| search.bounds.bias(threshold);
            self.test(rows, queries.len(), groups, bias, |search, query, proposal| {
                search.proposed.push(proposal);
                if search.proposed.len() >= PROPOSED_TOGETHER {
                    search.rerank_range(rows, queries[query], threshold);
                }
            });
        }
        for (search, query) in self.searches.iter_mut().zip(queries) {
            search.rerank_range(rows, query, threshold);
            search.found.sort_unstable();
        }
    }

    /// Finds the `k` most similar rows of some groups.
    ///
    /// A row whose score is among the best `k` is reranked at once; that raises the bar for others. The rest is reranked
    /// at the end, nearest codes first, until no other can be similar enough.
    fn k_nearest(&mut self, rows: &Rows<'_>, queries: &[&[f32]], groups: Range<usize>, k: usize) {
        if k == 0 {
            return;
        }
        self.searches[..queries.len()].iter_mut().for_each(|search| search.best.reset(k));
        for groups in together(groups) {
            self.test(rows, queries.len(), groups, Search::bias, |search, query, proposal| {
                search.take(rows, queries[query], proposal, k);
            });
        }
        for (search, query) in self.searches.iter_mut().zip(queries) {
            search.settle(rows, query);
        }
    }

    /// Tests the first `count` queries with the rows of some groups and hands over the rows that pass.
    fn test(
        &mut self,
        rows: &Rows<'_>,
        count: usize,
        groups: Range<usize>,
        bias: impl Fn(&Search) -> i32,
        mut take: impl FnMut(&mut Search, usize, Proposal),
    ) {
        // There are fewer than 2³² rows.
        let first_row = (groups.start * PACKED_COLUMNS) as u32;
        self.biases.clear();
        self.biases.extend(self.searches[..count].iter().map(bias));
        let block = RowBlock {
            shifted_codes: &self.shifted_codes,
            biases: &self.biases,
            dim: PREFIX_CODES,
            group_counts: &[],
        };
        let columns = rows.flat.columns.group_range(groups);
        self.scored.clear();
        rows.kernels.scored_hits(&block, columns, &mut self.scored);
        for &ScoredHit { hit, score } in &self.scored {
            let (query, row) = (hit.row as usize, Row(first_row + hit.column));
            // Padding passes in damaged flat indexes only, where numbers may be any.
            if row.index() < rows.flat.len() {
                let score = score.saturating_sub(self.biases[query]);
                take(&mut self.searches[query], query, Proposal { score, row });
            }
        }
    }
}

impl Search {
    const fn new(squared_norm: f64, codes: PrefixCodes, bounds: QueryBounds) -> Self {
        Self {
            squared_norm,
            codes,
            bounds,
            proposed: Vec::new(),
            candidates: Vec::new(),
            best: BestNeighbors::new(0),
            reranked_scores: BinaryHeap::new(),
            found: Vec::new(),
        }
    }

    fn begin(&mut self, squared_norm: f64, codes: PrefixCodes, bounds: QueryBounds) {
        (self.squared_norm, self.codes, self.bounds) = (squared_norm, codes, bounds);
        self.proposed.clear();
        self.reranked_scores.clear();
        self.found.clear();
    }

    /// Adds all proposed rows at or above the threshold.
    fn rerank_range(&mut self, rows: &Rows<'_>, query: &[f32], threshold: Similarity) {
        self.refine(rows, self.bounds.squared_distance_max(threshold));
        for (at, candidate) in self.candidates.iter().enumerate() {
            prefetch(rows, self.candidates.get(at + VECTORS_AHEAD));
            let neighbor = self.rerank(rows, query, candidate.row);
            self.found.extend(neighbor.filter(|found| found.similarity >= threshold));
        }
    }

    /// Returns the bias with which all rows pass that may still be among the best.
    fn bias(&self) -> i32 {
        let similarity_min = self.best.similarity_min();
        similarity_min.map_or(QueryBounds::BIAS_OF_ALL, |least| self.bounds.bias(least))
    }

    /// Judges a row of one of the best scores so far, and keeps others for later.
    fn take(&mut self, rows: &Rows<'_>, query: &[f32], proposal: Proposal, k: usize) {
        if self.reranked_scores.len() < k {
            self.reranked_scores.push(Reverse(proposal.score));
        } else if let Some(mut least) = self.reranked_scores.peek_mut()
            && least.0 < proposal.score
        {
            *least = Reverse(proposal.score);
        } else {
            self.proposed.push(proposal);
            return;
        }
        if let Some(neighbor) = self.rerank(rows, query, proposal.row) {
            self.best.offer(neighbor);
        }
    }

    /// Reranks the rows kept for later, as far as they may matter, and sorts the best.
    fn settle(&mut self, rows: &Rows<'_>, query: &[f32]) {
        let bias = self.bias();
        self.proposed.retain(|proposal| proposal.score.saturating_add(bias) >= 0);
        self.refine(rows, self.squared_distance_max());
        self.candidates.sort_unstable_by(|a, b| {
            a.squared_distance.total_cmp(&b.squared_distance).then(a.row.cmp(&b.row))
        });
        for at in 0..self.candidates.len() {
            let candidate = self.candidates[at];
            if candidate.squared_distance > self.squared_distance_max() {
                break;
            }
            prefetch(rows, self.candidates.get(at + VECTORS_AHEAD));
            if let Some(neighbor) = self.rerank(rows, query, candidate.row) {
                self.best.offer(neighbor);
            }
        }
        self.best.drain_into(&mut self.found);
        self.found.sort_unstable();
    }

    fn squared_distance_max(&self) -> f64 {
        let similarity_min = self.best.similarity_min();
        similarity_min.map_or(f64::INFINITY, |least| self.bounds.squared_distance_max(least))
    }

    /// Turns proposals with codes near enough into candidates.
    fn refine(&mut self, rows: &Rows<'_>, squared_distance_max: f64) {
        self.candidates.clear();
        for (at, &Proposal { score, row }) in self.proposed.iter().enumerate() {
            if let Some(ahead) = self.proposed.get(at + FINE_AHEAD) {
                rows.kernels.prefetch(bytemuck::cast_slice(rows.fine_codes(ahead.row)));
            }
            let fine_dot = rows.kernels.dot_i8(&self.codes.fine, rows.fine_codes(row));
            let fine_length = rows.flat.fine_lengths[row.index()];
            let squared_distance = self.bounds.squared_distance(score, fine_dot, fine_length);
            if squared_distance <= squared_distance_max {
                self.candidates.push(Candidate { squared_distance, row });
            }
        }
        self.proposed.clear();
    }

    fn rerank(&self, rows: &Rows<'_>, query: &[f32], row: Row) -> Option<Neighbor> {
        let vector = rows.vectors.vector(row);
        let norms = [self.squared_norm, rows.kernels.dot(vector, vector)];
        let similarity = rows.kernels.similarity(query, vector, norms)?;
        Some(Neighbor { row, similarity })
    }
}

/// Cuts groups into runs that are tested together.
fn together(groups: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = groups.end;
    groups.step_by(GROUPS_TOGETHER).map(move |first| first..end.min(first + GROUPS_TOGETHER))
}

fn prefetch(rows: &Rows<'_>, candidate: Option<&Candidate>) {
    if let Some(candidate) = candidate {
        rows.kernels.prefetch(bytemuck::cast_slice(rows.vectors.vector(candidate.row)));
    }
}

/// Queries that are scanned together: whole tiles of every kernel.
const QUERIES_TOGETHER: usize = 24;

/// Groups of the smallest part into which a flat index is cut: shorter ones, of 65,536 rows, are scanned before another
/// thread has woken up. Tests have few rows, and parts too.
const PART_GROUPS_MIN: usize = if cfg!(test) { 4 } else { 2_048 };

/// Answers queries over a flat index and the vectors that it was built from, with memory that is used again: after some
/// queries, one allocates nothing.
///
/// Answers are exact, as by [`Scan`](crate::Scan). Cost: 64 multiplications of int8 for each row, and a canonical
/// similarity for each row that passes.
///
/// # Examples
/// ```
/// use memfold_index::flat::{FlatIndex, FlatScan};
/// use memfold_index::{Pool, Row, VectorMatrix};
/// use memfold_simd::Kernels;
///
/// let (pool, kernels) = (Pool::new(None)?, Kernels::active());
/// let vectors = VectorMatrix::from_slice(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2)?;
/// let flat = FlatIndex::build(&vectors, &pool, kernels)?;
/// let mut scan = FlatScan::new(flat.view(), &vectors, kernels)?;
/// let nearest = scan.k_nearest(&[2.0, 1.0], 2)?;
/// assert_eq!([nearest[0].row, nearest[1].row], [Row(2), Row(0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FlatScan<'a> {
    rows: Rows<'a>,
    searches: Searches,
}

/// The memory of a [`FlatScan`], which another one may use again, also for another flat index.
#[derive(Debug, Default)]
pub struct ScanMemory(Searches);

impl<'a> FlatScan<'a> {
    /// Takes a flat index and the vectors that it was built from, in constant time.
    ///
    /// # Errors
    /// When they have different numbers of rows or dimensions.
    pub fn new(
        flat: FlatView<'a>,
        vectors: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, Damaged> {
        if (flat.len(), flat.dim()) != (vectors.len(), vectors.dim()) {
            return Err(Damaged::Vectors {
                index: [flat.len(), flat.dim()],
                found: [vectors.len(), vectors.dim()],
            });
        }
        Ok(Self { rows: Rows { flat, vectors, kernels }, searches: Searches::default() })
    }

    /// Searches with the memory of an earlier scan.
    #[must_use]
    pub fn with_memory(self, memory: ScanMemory) -> Self {
        Self { searches: memory.0, ..self }
    }

    /// Returns the memory for another scan.
    #[must_use]
    pub fn into_memory(self) -> ScanMemory {
        ScanMemory(self.searches)
    }

    /// Returns the `k` rows most similar to `query`, best first; of rows equally similar the smaller ones. Fewer when
    /// there are fewer rows.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<&[Neighbor], VectorError> {
        self.searches.prepare(&self.rows, &[query], 0)?;
        self.searches.k_nearest(&self.rows, &[query], self.rows.all_groups(), k);
        Ok(self.searches.found(0))
    }

    /// Returns every row with a similarity of at least `threshold`, best first.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<&[Neighbor], VectorError> {
        self.searches.prepare(&self.rows, &[query], 0)?;
        self.searches.range(&self.rows, &[query], self.rows.all_groups(), threshold);
        Ok(self.searches.found(0))
    }

    /// Answers [`range`](Self::range) for every row of `queries`, in their order, on all threads: several queries share a
    /// pass over the flat index, and where there are fewer blocks of 24 than threads, a large flat index is cut into parts.
    ///
    /// # Errors
    /// When the queries have another dimension or one has no direction.
    pub fn range_batch(
        &self,
        queries: &VectorMatrix<'_>,
        threshold: Similarity,
        pool: &Pool,
    ) -> Result<Vec<Vec<Neighbor>>, VectorError> {
        let block_count = queries.len().div_ceil(QUERIES_TOGETHER);
        let group_count = self.rows.all_groups().len();
        let part_count =
            pool.threads().div_ceil(block_count.max(1)).min(group_count / PART_GROUPS_MIN).max(1);
        let part_groups = group_count.div_ceil(part_count);
        let found = pool.map(block_count * part_count, |task| {
            let (block, part) = (task / part_count, task % part_count);
            let first = block * QUERIES_TOGETHER;
            let end = queries.len().min(first + QUERIES_TOGETHER);
            // A matrix has fewer than 2³² rows.
            let block: Vec<&[f32]> =
                (first as u32..end as u32).map(|at| queries.vector(Row(at))).collect();
            let mut searches = Searches::default();
            searches.prepare(&self.rows, &block, first as u32)?;
            let groups = part * part_groups..group_count.min((part + 1) * part_groups);
            searches.range(&self.rows, &block, groups, threshold);
            Ok(searches.into_found(block.len()).collect::<Vec<_>>())
        });
        let mut joined: Vec<Vec<Neighbor>> = Vec::with_capacity(queries.len());
        for (task, found) in found.into_iter().enumerate() {
            let found = found?;
            if task % part_count == 0 {
                joined.extend(found);
                continue;
            }
            let start = joined.len() - found.len();
            joined[start..].iter_mut().zip(found).for_each(|(joined, found)| joined.extend(found));
        }
        if part_count > 1 {
            joined.iter_mut().for_each(|found| found.sort_unstable());
        }
        Ok(joined)
    }
}
