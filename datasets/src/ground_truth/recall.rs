//! How much of the truth was found.

use std::collections::BTreeSet;

use memfold_index::{JoinedPairs, Neighbor, Pair, Row, VectorMatrix};
use memfold_simd::canonical;

/// Returns the share of the `k` nearest rows that `found` holds.
///
/// One of the first `k` found counts when it is at least as similar as the last of the true ones, so
/// of rows equally similar any will do; a row that is found again counts once. `truth` is exact, best
/// first; `found` carries canonical similarities ([`with_similarities`] computes them). Without any true
/// rows, or for a `k` of 0, recall is 1.
///
/// # Examples
/// ```
/// use memfold_datasets::ground_truth::recall_at_k;
/// use memfold_index::{Neighbor, Row};
/// use memfold_simd::Similarity;
///
/// let neighbor = |row, cosine| {
///     Similarity::new(cosine).map(|similarity| Neighbor { row: Row(row), similarity })
/// };
/// let truth: Vec<_> = [neighbor(4, 0.9), neighbor(1, 0.8)].into_iter().flatten().collect();
/// let tied: Vec<_> = [neighbor(4, 0.9), neighbor(7, 0.8)].into_iter().flatten().collect();
/// assert_eq!(recall_at_k(&truth, &tied, 2), 1.0);
/// assert_eq!(recall_at_k(&truth, &[truth[0], truth[0]], 2), 0.5);
/// ```
#[must_use]
pub fn recall_at_k(truth: &[Neighbor], found: &[Neighbor], k: usize) -> f64 {
    let truth = &truth[..truth.len().min(k)];
    let Some(last) = truth.last() else { return 1.0 };
    let near = found.iter().take(k).filter(|neighbor| neighbor.similarity >= last.similarity);
    let distinct: BTreeSet<Row> = near.map(|neighbor| neighbor.row).collect();
    distinct.len().min(truth.len()) as f64 / truth.len() as f64
}

/// Returns the share of all logical pairs of `truth` that `found` holds.
///
/// Rows of a pair stand in either order; a pair that is found again counts once, one that is not near
/// not at all. Bit-equal rows need no expansion in `truth`, but every logical pair is expected in
/// `found`. Without any true pairs recall is 1.
#[must_use]
pub fn pair_recall(truth: &JoinedPairs, found: &[(Row, Row)]) -> f64 {
    if truth.logical_pairs == 0 {
        return 1.0;
    }
    let representatives = Representatives::of(truth);
    let ordered = found.iter().map(|&(a, b)| (a.min(b), a.max(b)));
    let distinct: BTreeSet<(Row, Row)> = ordered.filter(|(left, right)| left < right).collect();
    let true_pairs = distinct.iter().filter(|&&(left, right)| {
        let (a, b) = (representatives.get(left), representatives.get(right));
        let sought = (a.min(b), a.max(b));
        let key = |pair: &Pair| (pair.left, pair.right);
        a == b || truth.pairs.binary_search_by_key(&sought, key).is_ok()
    });
    true_pairs.count() as f64 / truth.logical_pairs as f64
}

/// Gives each of `rows` its canonical similarity to `query`, in their order; rows beyond the matrix or
/// without a direction are left out.
///
/// # Panics
/// When the query has another dimension.
#[must_use]
pub fn with_similarities(vectors: &VectorMatrix<'_>, query: &[f32], rows: &[Row]) -> Vec<Neighbor> {
    let inside = rows.iter().filter(|row| row.index() < vectors.len());
    let neighbors = inside.filter_map(|&row| {
        let similarity = canonical::similarity(query, vectors.vector(row))?;
        Some(Neighbor { row, similarity })
    });
    neighbors.collect()
}

/// The smallest bit-equal row of each row.
struct Representatives {
    /// Members of groups with their smallest, ascending.
    members: Vec<(Row, Row)>,
}

impl Representatives {
    fn of(joined: &JoinedPairs) -> Self {
        let members =
            joined.groups.iter().flat_map(|group| group.iter().map(|&row| (row, group[0])));
        let mut members: Vec<_> = members.collect();
        members.sort_unstable();
        Self { members }
    }

    fn get(&self, row: Row) -> Row {
        let position = self.members.binary_search_by_key(&row, |&(member, _)| member);
        position.map_or(row, |at| self.members[at].1)
    }
}
