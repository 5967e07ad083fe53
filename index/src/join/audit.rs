//! [`PairAudit`]: the true pairs of sampled rows, found by a scan that misses none.

use std::cmp::Reverse;

use memfold_simd::Similarity;

use super::recall::{MeasuredRecall, RowTotals};
use super::sample::Sample;
use super::stream::PairRecord;
use super::verdict::Verdict;
use super::{JoinError, JoinOptions, Pair};
use crate::slab::{PrefixSlab, SlabScan};
use crate::{Row, ScanError, Sorted, VectorMatrix};

/// Rows that each worker scans for between two looks at the wish to stop: whole blocks of the scan.
const ROWS_PER_WORKER: usize = 96;

/// Sampled rows without a pair do not prove that there is none: pairs that may be seen of so many at least are expected.
const UNSEEN_PAIRS: f64 = 3.84;

/// All pairs of some distinct rows, found exactly.
///
/// Half of them are the rows of which the join has found most pairs, where these are more than one: a few rows often hold most
/// pairs. The others are those with the smallest hashes of their vectors. Neither depends on the order of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairAudit {
    /// All rows with many pairs, and a sample of the others.
    strata: [Stratum; 2],
}

/// Rows that stand for some more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stratum {
    rows: Vec<Row>,
    /// The similarities of each one's pairs, best first.
    similarities: Vec<Vec<Similarity>>,
    /// How many rows they stand for.
    population: u64,
}

impl PairAudit {
    /// Finds all pairs of up to `row_count` distinct rows; `found` are the pairs to be audited.
    ///
    /// Cost: an exact scan of all distinct rows for each sampled one.
    pub(super) fn of(
        verdict: &Verdict<'_>,
        found: &Sorted<PairRecord>,
        row_count: usize,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let rows = &verdict.distinct.rows;
        let by_hash = Sample::draw(verdict, rows.len());
        let [many, few] = sampled(by_hash.positions(), row_count, {
            let counts = pairs_by_row(found.iter().map(Pair::from));
            move |at| counts.get(rows[at].index()).copied().unwrap_or(0)
        });
        options.progress.begin("audit pairs", Some((many.len() + few.len()) as u64));
        let similarities = scan(verdict, &[&many[..], &few].concat(), options);
        options.progress.end();
        let mut many_similarities = similarities?;
        let few_similarities = many_similarities.split_off(many.len());
        let stratum = |positions: &[usize], similarities, population: usize| Stratum {
            rows: positions.iter().map(|&at| rows[at]).collect(),
            similarities,
            population: population as u64,
        };
        let others = rows.len() - many.len();
        Ok(Self {
            strata: [
                stratum(&many, many_similarities, many.len()),
                stratum(&few, few_similarities, others),
            ],
        })
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
        let mut found = pairs_by_row(pairs.filter(|pair| pair.similarity >= threshold));
        let [many, few] = &self.strata;
        let of_many = many.recall(&found, threshold);
        for row in &many.rows {
            if let Some(count) = found.get_mut(row.index()) {
                *count = 0;
            }
        }
        let of_few = few.recall(&found, threshold);
        match (many.population, few.population) {
            (_, 0) => of_many,
            (0, _) => of_few,
            _ => MeasuredRecall::combined(&[of_few, of_many]).unwrap_or(of_few),
        }
    }
}

impl Stratum {
    /// Estimates the recall of the pairs of its rows; `found` counts those of all rows that it stands for.
    fn recall(&self, found: &[u32], threshold: Similarity) -> MeasuredRecall {
        let is_all = self.rows.len() as u64 == self.population;
        let mut totals = RowTotals::new(is_all);
        let mut true_pairs = 0;
        for (row, similarities) in self.rows.iter().zip(&self.similarities) {
            let pairs = similarities.partition_point(|&similarity| similarity >= threshold) as u64;
            true_pairs += pairs;
            totals.add(pairs, found.get(row.index()).copied().unwrap_or(0).into());
        }
        let rows_each = self.population as f64 / self.rows.len().max(1) as f64;
        let mut expected = true_pairs as f64 * rows_each;
        if !is_all {
            let found: u64 = found.iter().map(|&count| u64::from(count)).sum();
            expected = expected.max(found as f64).max(UNSEEN_PAIRS * rows_each);
        }
        // Each pair has two rows.
        totals.recall(mean_weighted_by_itself(found), expected / 2.0)
    }
}

/// Returns the positions of rows with many found pairs, and a sample of the others; both by hash or by count and hash.
fn sampled(by_hash: &[usize], row_count: usize, found: impl Fn(usize) -> u32) -> [Vec<usize>; 2] {
    if by_hash.len() <= row_count {
        return [by_hash.to_vec(), Vec::new()];
    }
    let mut order: Vec<usize> = (0..by_hash.len()).collect();
    order.sort_unstable_by_key(|&place| (Reverse(found(by_hash[place])), place));
    let has_many = |&&place: &&usize| found(by_hash[place]) > 1;
    let many_count = order.iter().take(row_count / 2).take_while(has_many).count();
    let (many, others) = order.split_at_mut(many_count);
    others.sort_unstable();
    let positions = |places: &[usize]| places.iter().map(|&place| by_hash[place]).collect();
    [positions(many), positions(&others[..row_count - many_count])]
}

/// Counts the pairs of each row.
fn pairs_by_row(pairs: impl Iterator<Item = Pair>) -> Vec<u32> {
    let mut counts: Vec<u32> = Vec::new();
    for row in pairs.flat_map(|pair| [pair.left, pair.right]) {
        if counts.len() <= row.index() {
            counts.resize(row.index() + 1, 0);
        }
        counts[row.index()] += 1;
    }
    counts
}

/// Returns the similarities of all pairs of the distinct rows at some positions, best first.
fn scan(
    verdict: &Verdict<'_>,
    positions: &[usize],
    options: &JoinOptions<'_>,
) -> Result<Vec<Vec<Similarity>>, JoinError> {
    let mut similarities = Vec::with_capacity(positions.len());
    if positions.is_empty() {
        return Ok(similarities);
    }
    let distinct = &distinct_vectors(verdict);
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

/// Returns the distinct rows alone, in their order, without a copy.
fn distinct_vectors<'a>(verdict: &Verdict<'a>) -> VectorMatrix<'a> {
    if verdict.distinct.groups.is_empty() {
        return verdict.matrix.clone();
    }
    let rows = (0..verdict.distinct.len()).map(|position| verdict.vector(position)).collect();
    VectorMatrix::from_chunks(rows, verdict.matrix.dim()).expect("chunks of one row each")
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
