//! [`PairAudit`]: the true pairs of sampled rows, found by a scan that misses none.

use memfold_simd::Similarity;

use super::recall::{MeasuredRecall, RowTotals};
use super::sample::Sample;
use super::verdict::Verdict;
use super::{JoinError, JoinOptions, Pair};
use crate::slab::{PrefixSlab, SlabScan};
use crate::{Row, ScanError, VectorMatrix};

/// Rows that each worker scans for between two looks at the wish to stop: whole blocks of the scan.
const ROWS_PER_WORKER: usize = 96;

/// All pairs of some distinct rows: those with the smallest hashes of their vectors, whatever the order of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairAudit {
    /// The sampled rows, ascending.
    rows: Vec<Row>,
    /// The similarities of each one's pairs, best first.
    similarities: Vec<Vec<Similarity>>,
    distinct_rows: u64,
}

impl PairAudit {
    /// Finds all pairs of up to `row_count` of the distinct rows, which `distinct` holds in their order.
    ///
    /// Cost: an exact scan of all distinct rows for each sampled one.
    pub(super) fn of(
        verdict: &Verdict<'_>,
        distinct: &VectorMatrix<'_>,
        row_count: usize,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let mut positions = Sample::draw(verdict, row_count).positions().to_vec();
        positions.sort_unstable();
        options.progress.begin("audit pairs", Some(positions.len() as u64));
        let similarities = scan(verdict, distinct, &positions, options);
        options.progress.end();
        let rows = positions.iter().map(|&at| verdict.distinct.rows[at]).collect();
        let distinct_rows = verdict.distinct.len() as u64;
        Ok(Self { rows, similarities: similarities?, distinct_rows })
    }

    /// Estimates how many of all distinct pairs at or above `threshold` are among `pairs`, which were found.
    ///
    /// `threshold` is not below that of the audited join.
    #[must_use]
    pub fn recall(
        &self,
        pairs: impl Iterator<Item = Pair>,
        threshold: Similarity,
    ) -> MeasuredRecall {
        let mut found: Vec<u32> = Vec::new();
        let mut count = |row: Row| {
            if found.len() <= row.index() {
                found.resize(row.index() + 1, 0);
            }
            found[row.index()] += 1;
        };
        let mut found_pairs = 0_u64;
        for pair in pairs.filter(|pair| pair.similarity >= threshold) {
            found_pairs += 1;
            count(pair.left);
            count(pair.right);
        }
        let is_all = self.rows.len() as u64 == self.distinct_rows;
        let mut totals = RowTotals::new(is_all);
        let mut true_pairs = 0;
        for (row, similarities) in self.rows.iter().zip(&self.similarities) {
            let pairs = similarities.partition_point(|&similarity| similarity >= threshold) as u64;
            true_pairs += pairs;
            totals.add(pairs, found.get(row.index()).copied().unwrap_or(0).into());
        }
        let share = self.rows.len().max(1) as f64 / self.distinct_rows.max(1) as f64;
        let expected = (true_pairs as f64 / 2.0 / share).max(found_pairs as f64);
        totals.recall(mean_weighted_by_itself(&found), expected)
    }
}

/// Returns the similarities of all pairs of the distinct rows at some positions, best first.
fn scan(
    verdict: &Verdict<'_>,
    distinct: &VectorMatrix<'_>,
    positions: &[usize],
    options: &JoinOptions<'_>,
) -> Result<Vec<Vec<Similarity>>, JoinError> {
    let mut similarities = Vec::with_capacity(positions.len());
    if positions.is_empty() {
        return Ok(similarities);
    }
    let slab = PrefixSlab::build(distinct, options.pool, options.kernels).map_err(unscanned)?;
    let scan = SlabScan::new(slab.view(), distinct, options.kernels)
        .expect("the slab was built of these rows");
    for positions in positions.chunks(ROWS_PER_WORKER * options.pool.threads()) {
        if options.progress.cancelled() {
            return Err(JoinError::Cancelled);
        }
        let vectors = positions.iter().map(|&at| verdict.vector(at)).collect();
        let queries = VectorMatrix::from_chunks(vectors, distinct.dim())
            .expect("rows of a matrix have its dimension");
        let found =
            scan.range_batch(&queries, verdict.threshold, options.pool).map_err(unscanned)?;
        similarities.extend(positions.iter().zip(found).map(|(&position, found)| {
            let others = found.iter().filter(|other| other.row.index() != position);
            others.map(|other| other.similarity).collect::<Vec<_>>()
        }));
        options.progress.advance(positions.len() as u64);
    }
    Ok(similarities)
}

fn mean_weighted_by_itself(counts: &[u32]) -> f64 {
    let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let squares: f64 = counts.iter().map(|&count| f64::from(count) * f64::from(count)).sum();
    squares / sum.max(1) as f64
}

/// A row of the join that has no direction: there is none, they were all checked.
fn unscanned(error: ScanError) -> JoinError {
    JoinError::Index { reason: error.to_string() }
}
