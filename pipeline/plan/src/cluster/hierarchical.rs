//! Agglomerative clustering of one connected component.

use kodama::{Method, linkage};

use super::components;
use crate::policy::Linkage;

/// Returns how many distances `count` rows have: the upper triangle without the diagonal.
#[must_use]
pub const fn condensed_len(count: usize) -> usize {
    count * count.saturating_sub(1) / 2
}

/// Clusters `count` rows by their distances and cuts the tree at `distance_max`.
///
/// `distances` is the upper triangle, row by row (`d(0,1), d(0,2), …, d(1,2), …`), and is used up.
/// Returns groups, singletons included, by their smallest row; members ascend. Takes O(count²) time and memory.
/// On data without ties the groups equal those of scikit-learn's `AgglomerativeClustering`.
///
/// # Panics
/// When `distances` has another length than [`condensed_len`], or `linkage` is
/// [`Linkage::GreedyComplete`], which needs no distances.
#[must_use]
pub fn agglomerate(
    mut distances: Vec<f64>,
    count: usize,
    method: Linkage,
    distance_max: f64,
) -> Vec<Vec<u32>> {
    assert_eq!(distances.len(), condensed_len(count), "one distance for each pair");
    let method = match method {
        Linkage::Complete => Method::Complete,
        Linkage::Average => Method::Average,
        Linkage::Single => Method::Single,
        Linkage::GreedyComplete => panic!("greedy linkage works on links, not on distances"),
    };
    let tree = linkage(&mut distances, count, method);
    // Node `count + i` is the cluster that step i makes; it lives on in the rows below it.
    let merges =
        tree.steps().iter().enumerate().filter(|(_, step)| step.dissimilarity <= distance_max);
    let edges = merges.flat_map(|(i, step)| {
        let node = (count + i) as u32;
        [(step.cluster1 as u32, node), (step.cluster2 as u32, node)]
    });
    let rows =
        |group: Vec<u32>| group.into_iter().filter(|&v| (v as usize) < count).collect::<Vec<_>>();
    let groups = components(count + tree.steps().len(), edges).into_iter().map(rows);
    groups.filter(|group| !group.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 – 1 – 2 in a line, 3 apart.
    fn line() -> Vec<f64> {
        vec![0.10, 0.21, 0.9, 0.11, 0.9, 0.9]
    }

    #[test]
    fn linkages_differ_on_a_chain() {
        let cut = |method| agglomerate(line(), 4, method, 0.15);
        assert_eq!(cut(Linkage::Single), [vec![0, 1, 2], vec![3]]);
        assert_eq!(cut(Linkage::Complete), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(agglomerate(line(), 4, Linkage::Average, 0.16), [vec![0, 1, 2], vec![3]]);
    }

    #[test]
    fn small_inputs() {
        assert_eq!(agglomerate(vec![], 1, Linkage::Complete, 0.5), [[0]]);
        assert!(agglomerate(vec![], 0, Linkage::Complete, 0.5).is_empty());
    }
}
