//! Connected components with canonical labels.

use std::convert::Infallible;

use memfold_index::components::component_firsts;

/// Returns the connected components of `count` vertices, singletons included, by their smallest
/// vertex; members ascend. The order of `edges` does not matter.
pub fn components(count: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let Ok(firsts) = component_firsts(count, edges.into_iter().map(Ok::<_, Infallible>));
    let mut slots = vec![usize::MAX; count];
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (vertex, &first) in firsts.iter().enumerate() {
        let slot = &mut slots[first as usize];
        if *slot == usize::MAX {
            *slot = groups.len();
            groups.push(Vec::new());
        }
        groups[*slot].push(vertex as u32);
    }
    groups
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
