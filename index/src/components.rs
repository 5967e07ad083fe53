//! Connected components, named by their smallest vertex.

/// Returns for each of `count` vertices the smallest vertex of its connected component.
///
/// The order of `edges` does not matter; no edge is kept. Takes 4 bytes for each vertex.
///
/// # Errors
/// The first error among `edges`.
pub fn component_firsts<E>(
    count: usize,
    edges: impl IntoIterator<Item = Result<(u32, u32), E>>,
) -> Result<Vec<u32>, E> {
    let mut parents: Vec<u32> = (0..count as u32).collect();
    for edge in edges {
        let (a, b) = edge?;
        let (a, b) = (root(&mut parents, a), root(&mut parents, b));
        // The smaller root wins, so a component is named by its smallest vertex.
        parents[a.max(b) as usize] = a.min(b);
    }
    // Parents are smaller: vertices before this one are settled.
    for vertex in 0..count {
        parents[vertex] = parents[parents[vertex] as usize];
    }
    Ok(parents)
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
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_error_ends_the_work() {
        let edges = [Ok((2, 1)), Err("the disk is gone")];
        assert_eq!(component_firsts(3, edges), Err("the disk is gone"));
        let Ok(firsts) = component_firsts(4, [(2, 1), (3, 2)].map(Ok::<_, Infallible>));
        assert_eq!(firsts, [0, 1, 1, 1]);
    }
}
