//! Connected components with canonical labels.

/// Returns the connected components of `count` vertices, singletons included, by their smallest
/// vertex; members ascend. The order of `edges` does not matter.
pub fn components(count: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let mut parents: Vec<u32> = (0..count as u32).collect();
    for (a, b) in edges {
        let (a, b) = (root(&mut parents, a), root(&mut parents, b));
        // The smaller root wins, so a component is named by its smallest vertex.
        parents[a.max(b) as usize] = a.min(b);
    }
    let mut slots = vec![usize::MAX; count];
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for vertex in 0..count as u32 {
        let root = root(&mut parents, vertex) as usize;
        if slots[root] == usize::MAX {
            slots[root] = groups.len();
            groups.push(Vec::new());
        }
        groups[slots[root]].push(vertex);
    }
    groups
}

fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
    while parents[vertex as usize] != vertex {
        let grandparent = parents[parents[vertex as usize] as usize];
        parents[vertex as usize] = grandparent;
        vertex = grandparent;
    }
    vertex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_depend_on_edge_order() {
        let edges = [(5, 3), (3, 1), (0, 6), (2, 2)];
        let expected = vec![vec![0, 6], vec![1, 3, 5], vec![2], vec![4]];
        assert_eq!(components(7, edges), expected);
        assert_eq!(components(7, edges.into_iter().rev()), expected);
    }

    #[test]
    fn nothing_has_no_components() {
        assert_eq!(components(0, []), Vec::<Vec<u32>>::new());
    }
}
