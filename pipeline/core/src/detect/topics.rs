//! [`topics`]: groups of memories that speak of one subject, whether or not they say the same.

use std::collections::HashMap;

use crate::memory::{Memory, MemoryIndex};
use memfold_index::JoinOptions;
use memfold_simd::Similarity;

use super::{DetectError, DetectInput, join_spaces, newest_first, separating};
use crate::cluster::{
    LinkGraph, NO_CLIQUE, agglomerate, components, condensed_len, greedy_complete,
};
use crate::policy::Linkage;

/// Further than any two vectors: these are never grouped.
const APART: f64 = 2.5;

/// Which groups are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopicRules {
    /// From which similarity on memories belong together.
    pub similarity_min: Similarity,
    /// Whether each two members must be so near, or the groups of average linkage are wanted, which are those of
    /// scikit-learn's `AgglomerativeClustering` on data without ties.
    pub is_complete: bool,
    /// The smallest and largest group; larger ones are split by time.
    pub members: (usize, usize),
}

/// Groups of memories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topics {
    /// Members newest first, groups by their newest member.
    pub groups: Vec<Vec<MemoryIndex>>,
    /// Memories that were left out: of connected components too large for average linkage, or near to too many others.
    pub left_out: u64,
}

/// Groups `members`, which have vectors, by their similarity; never across spaces or separating categories. The order of
/// `members` does not matter. Costs a join at the threshold, and the square of each connected component for average linkage.
///
/// # Errors
/// When the vectors cannot be joined, or the caller asked to stop.
pub fn topics(
    input: &DetectInput<'_>,
    members: &[MemoryIndex],
    rules: TopicRules,
    options: &JoinOptions<'_>,
) -> Result<Topics, DetectError> {
    let memory = |row: MemoryIndex| &input.snapshot.memories[row.index()];
    let mut rows = members.to_vec();
    rows.sort_by(|&a, &b| newest_first(memory(a), memory(b)));
    rows.dedup();
    let mut topics = Topics::default();
    let Some(edges) = edges(input, &rows, rules.similarity_min, options)? else {
        topics.left_out = rows.len() as u64;
        return Ok(topics);
    };
    let groups = if rules.is_complete {
        greedy_complete(&LinkGraph::new(vec![[NO_CLIQUE; 2]; rows.len()], &edges))
    } else {
        average(input, &rows, &edges, rules.similarity_min, &mut topics.left_out)?
    };
    let (least, most) = rules.members;
    let parts = groups.into_iter().flat_map(|group| evenly(group, most));
    let mut parts: Vec<Vec<u32>> = parts.filter(|part| part.len() >= least).collect();
    parts.sort_unstable_by_key(|part| part[0]);
    let of_rows = |part: Vec<u32>| part.into_iter().map(|at| rows[at as usize]).collect();
    topics.groups = parts.into_iter().map(of_rows).collect();
    Ok(topics)
}

/// Cuts a group into as few runs of at most `most` as can be, of about equal length.
fn evenly(group: Vec<u32>, most: usize) -> Vec<Vec<u32>> {
    let parts = group.len().div_ceil(most.max(1)).max(1);
    let size = group.len().div_ceil(parts).max(1);
    group.chunks(size).map(<[u32]>::to_vec).collect()
}

/// The pairs of rows that are near and of one class, each once; `None` where they are more than the budget.
fn edges(
    input: &DetectInput<'_>,
    rows: &[MemoryIndex],
    similarity_min: Similarity,
    options: &JoinOptions<'_>,
) -> Result<Option<Vec<(u32, u32)>>, DetectError> {
    let spaces = &input.snapshot.spaces;
    let joins = join_spaces(spaces, input.matrices, Some(similarity_min), None, options)?;
    let classes: Vec<Vec<String>> = rows.iter().map(|&row| class(input, row)).collect();
    let mut at_vector: HashMap<u32, Vec<u32>> = HashMap::new();
    for (at, &row) in (0_u32..).zip(rows) {
        if let Some((space, place)) = input.snapshot.memories[row.index()].embedding.vector() {
            let number = joins.distinct.numbers[space.0 as usize][place.index()];
            at_vector.entry(number).or_default().push(at);
        }
    }
    let budget = super::pipeline::pair_budget(rows.len());
    let mut edges = Vec::new();
    let mut add = |a: u32, b: u32| {
        if a != b && classes[a as usize] == classes[b as usize] {
            edges.push((a.min(b), a.max(b)));
        }
        edges.len() as u64 <= budget
    };
    let none = Vec::new();
    let rows_of = |number: u32| at_vector.get(&number).unwrap_or(&none);
    for (x, y, _) in joins.pairs() {
        for &a in rows_of(x) {
            if !rows_of(y).iter().all(|&b| add(a, b)) {
                return Ok(None);
            }
        }
    }
    let mut alike: Vec<&Vec<u32>> = at_vector.values().filter(|alike| alike.len() > 1).collect();
    alike.sort_unstable();
    for alike in alike {
        for (at, &a) in alike.iter().enumerate() {
            if !alike[at + 1..].iter().all(|&b| add(a, b)) {
                return Ok(None);
            }
        }
    }
    edges.sort_unstable();
    Ok(Some(edges))
}

fn class(input: &DetectInput<'_>, row: MemoryIndex) -> Vec<String> {
    let memory = &input.snapshot.memories[row.index()];
    separating(&memory.categories, &input.policy.cluster.separate_by)
}

/// Average linkage within each connected component, cut at the threshold: whatever it joins has one pair that is near.
fn average(
    input: &DetectInput<'_>,
    rows: &[MemoryIndex],
    edges: &[(u32, u32)],
    similarity_min: Similarity,
    left_out: &mut u64,
) -> Result<Vec<Vec<u32>>, DetectError> {
    let mut groups = Vec::new();
    for component in components(rows.len(), edges.iter().copied()) {
        if input.progress.cancelled() {
            return Err(DetectError::Cancelled);
        }
        if component.len() > input.policy.cluster.max_component_rows {
            *left_out += component.len() as u64;
            continue;
        }
        let memory = |at: u32| &input.snapshot.memories[rows[at as usize].index()];
        let classes: Vec<_> = component.iter().map(|&at| class(input, rows[at as usize])).collect();
        let mut condensed = Vec::with_capacity(condensed_len(component.len()));
        for (i, &a) in component.iter().enumerate() {
            condensed.extend(component.iter().enumerate().skip(i + 1).map(|(j, &b)| {
                if classes[i] == classes[j] { distance(input, memory(a), memory(b)) } else { APART }
            }));
        }
        let cut = 1.0 - similarity_min.get();
        let found = agglomerate(condensed, component.len(), Linkage::Average, cut);
        let named = |group: Vec<u32>| group.into_iter().map(|at| component[at as usize]).collect();
        groups.extend(found.into_iter().map(named));
    }
    Ok(groups)
}

fn distance(input: &DetectInput<'_>, a: &Memory, b: &Memory) -> f64 {
    let (Some((space, row)), Some((other_space, other_row))) =
        (a.embedding.vector(), b.embedding.vector())
    else {
        return APART;
    };
    if space != other_space {
        return APART;
    }
    let matrix = &input.matrices[space.0 as usize];
    let (x, y) = (matrix.vector(row), matrix.vector(other_row));
    let kernels = input.kernels;
    let similarity = kernels.similarity(x, y, (kernels.dot(x, x), kernels.dot(y, y)));
    similarity.map_or(APART, |similarity| 1.0 - similarity.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_groups_are_split_evenly() {
        let sizes = |count: u32, most| {
            let parts = evenly((0..count).collect(), most);
            assert_eq!(parts.concat(), (0..count).collect::<Vec<_>>());
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(20, 20), [20]);
        assert_eq!(sizes(21, 20), [11, 10]);
        assert_eq!(sizes(61, 20), [16, 16, 16, 13]);
        assert_eq!(sizes(0, 20), Vec::<usize>::new());
    }
}
