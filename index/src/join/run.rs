//! The steps of a join.

use memfold_simd::Similarity;

use super::budget::Budget;
use super::cascade::Cascade;
use super::collect::{Collected, collect};
use super::plan::{Plan, SAMPLED_ROWS};
use super::sample::Sample;
use super::verdict::Verdict;
use super::{JoinCounters, JoinError, JoinOptions, PairStream};
use crate::VectorMatrix;
use crate::distinct::DistinctRows;

/// Finds every pair of rows whose canonical similarity is at least `threshold`.
///
/// Time grows with the square of the distinct rows (36,000 × 384 in a fraction of a second, 1,000,000
/// in minutes); memory with the rows (about 300 bytes each), and with the pairs found (16 bytes each) up to
/// 64 MiB where there is a scratch folder, without bound where there is none.
///
/// # Errors
/// On an invalid vector, when the pair budget is exceeded, or when cancelled.
///
/// # Examples
/// ```
/// use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs};
/// use memfold_simd::Similarity;
///
/// let values = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0];
/// let matrix = VectorMatrix::from_slice(&values, 2)?;
/// let pool = Pool::new(None)?;
/// let options = JoinOptions::new(&pool);
/// let threshold = Similarity::new(0.95).ok_or("not a cosine")?;
/// let joined = join_pairs(&matrix, threshold, &options)?;
/// assert_eq!(joined.distinct_rows(), 3);
/// for pair in joined.pairs() {
///     assert_eq!((pair.left.0, pair.right.0), (0, 2));
/// }
/// assert_eq!(joined.groups().len(), 1); // rows 0 and 3 are equal
/// assert_eq!(joined.logical_pairs(), 3); // also 0 and 3, 2 and 3
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_pairs(
    matrix: &VectorMatrix<'_>,
    threshold: Similarity,
    options: &JoinOptions<'_>,
) -> Result<PairStream, JoinError> {
    let JoinOptions { kernels, pool, progress, .. } = *options;
    let distinct = DistinctRows::of(matrix, kernels, pool, progress)?;
    let verdict = Verdict { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&verdict, SAMPLED_ROWS);
    let budget = Budget { verdict, sample: &sample, options };
    budget.check_sample()?;
    let plan = Plan::choose(&verdict, &sample, options);
    let cascade = Cascade::prepare(verdict, &plan, options)?;
    options.progress.begin("compare pairs", Some(budget.pairs_total()));
    let collected = collect(&cascade, budget.pairs_max(), options);
    options.progress.end();
    let Collected::Pairs(pairs, did) = collected? else { return Err(budget.spent()) };
    let pairs_total = budget.pairs_total();
    let counters = JoinCounters { first_width: cascade.first_width(), pairs_total, ..did };
    Ok(PairStream::new(pairs, distinct, counters, None))
}
