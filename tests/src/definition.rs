//! Greedy complete linkage as it is defined, pair by pair.

use memfold_index::{Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

/// For each row the rows near it, in ascending order, with their canonical similarity.
pub type NeighborLists = Vec<Vec<(u32, Similarity)>>;

/// How far the fast product may be from the canonical one, with much to spare.
const PROPOSAL_MARGIN: f64 = 1e-3;

/// Compares every two rows.
///
/// # Panics
/// When a vector is zero.
#[must_use]
pub fn neighbor_lists(vectors: &[f32], dim: usize, threshold: f64) -> NeighborLists {
    let matrix = VectorMatrix::from_slice(vectors, dim).expect("whole rows");
    let kernels = Kernels::active();
    let norm = |row| kernels.dot(matrix.vector(row), matrix.vector(row));
    let norms: Vec<f64> = matrix.rows().map(norm).collect();
    let near = |left: usize| -> Vec<(u32, Similarity)> {
        let x = matrix.vector(Row(left as u32));
        let beside = |right: u32| {
            let y = matrix.vector(Row(right));
            let both = (norms[left], norms[right as usize]);
            let proposed = f64::from(kernels.dot_f32(x, y)) / (both.0 * both.1).sqrt();
            if proposed < threshold - PROPOSAL_MARGIN || right == left as u32 {
                return None;
            }
            let similarity = kernels.similarity(x, y, both).expect("no vector is zero");
            (similarity.get() >= threshold).then_some((right, similarity))
        };
        (0..matrix.len() as u32).filter_map(beside).collect()
    };
    Pool::new(None).expect("threads start").map(matrix.len(), near)
}

/// Clusters newest first, which is the highest row first: each row joins the first cluster to whose
/// every member it is linked, else it opens one. Returns the clusters of two or more.
#[must_use]
pub fn greedy_definition(lists: &NeighborLists, threshold: f64) -> Vec<Vec<u32>> {
    let linked = |a: u32, b: u32| {
        let list = &lists[a as usize];
        let found = list.binary_search_by_key(&b, |&(row, _)| row);
        found.is_ok_and(|at| list[at].1.get() >= threshold)
    };
    let mut clusters: Vec<Vec<u32>> = Vec::new();
    let mut cluster_of = vec![usize::MAX; lists.len()];
    for row in (0..lists.len() as u32).rev() {
        // Only a cluster with a neighbour in it can take the row.
        let mut candidates: Vec<usize> = lists[row as usize]
            .iter()
            .map(|&(near, _)| cluster_of[near as usize])
            .filter(|&cluster| cluster != usize::MAX)
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let fits = |&cluster: &usize| clusters[cluster].iter().all(|&m| linked(row, m));
        let home = candidates.into_iter().find(fits).unwrap_or(clusters.len());
        if home == clusters.len() {
            clusters.push(Vec::new());
        }
        clusters[home].push(row);
        cluster_of[row as usize] = home;
    }
    clusters.retain(|cluster| cluster.len() > 1);
    clusters
}
