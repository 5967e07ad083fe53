//! Groups by the distances of each connected component: hierarchical linkages of rows that may say the same, and [`topics`],
//! memories that speak of one subject.
//!
//! Hierarchical linkages cluster rows, merged ones among them: on unchanged memories every run then finds the clusters of the
//! first one.

use std::collections::HashMap;

use memfold_index::JoinOptions;
use memfold_simd::Similarity;

use super::judge::NodeLinks;
use super::nodes::{Item, NONE, Nodes, newest_first, separating};
use super::{DetectError, DetectInput, join_spaces};
use crate::cluster::{LinkGraph, NO_CLIQUE, agglomerate, components, greedy_complete};
use crate::decisions::share;
use crate::memory::MemoryIndex;
use crate::policy::Linkage;

/// Further than any two vectors: these are never merged.
const APART: f64 = 2.5;

/// The distance of two vectors that may be in one group; `None`: they may not, or there are none.
fn distance(similarity: Option<Similarity>) -> f64 {
    similarity.map_or(APART, |similarity| 1.0 - similarity.get())
}

/// The inputs of distances between rows.
pub(super) struct Distances<'a> {
    pub(super) input: &'a DetectInput<'a>,
    pub(super) nodes: &'a Nodes,
    pub(super) links: &'a NodeLinks,
    pub(super) threshold: Similarity,
}

/// A row of a component.
struct ClusteredRow {
    item: Item,
    node: u32,
    /// Keep-both groups, ascending.
    apart: Vec<u32>,
}

/// Clusters every connected component; returns groups of two or more units, newest first.
pub(super) fn hierarchical_groups(distances: &Distances<'_>) -> Result<Vec<Vec<u32>>, DetectError> {
    let policy = &distances.input.policy.cluster;
    let linkage = match policy.linkage {
        Linkage::Complete => "complete",
        Linkage::Average => "average",
        Linkage::Single => "single",
        Linkage::GreedyComplete => "greedy complete",
    };
    let mut groups = Vec::new();
    for nodes in components(distances.nodes.nodes.len(), distances.edges()) {
        let component = distances.rows(&nodes);
        if component.len() > policy.max_component_rows {
            let (rows, rows_max) = (component.len(), policy.max_component_rows);
            return Err(DetectError::Component { rows, rows_max, linkage });
        }
        if distances.input.progress.cancelled() {
            return Err(DetectError::Cancelled);
        }
        if component.len() < 2 {
            continue;
        }
        let condensed = distances.condensed(&component);
        let cut = 1.0 - distances.threshold.get();
        let found = agglomerate(condensed, component.len(), policy.linkage, cut);
        groups.extend(found.into_iter().map(|group| live_units(&group, &component)));
    }
    groups.retain(|group: &Vec<u32>| group.len() > 1);
    groups.sort_unstable_by_key(|group| group[0]);
    Ok(groups)
}

/// The units with live rows in a group, ascending.
fn live_units(group: &[u32], component: &[ClusteredRow]) -> Vec<u32> {
    let items = group.iter().map(|&row| component[row as usize].item);
    let mut units: Vec<u32> = items.filter(|item| item.live).map(|item| item.unit).collect();
    units.sort_unstable();
    units
}

impl Distances<'_> {
    /// Links between nodes. Nodes of one text, or of one vector where that links, are connected through the first.
    fn edges(&self) -> Vec<(u32, u32)> {
        let mut edges = self.links.near.clone();
        let mut first_of_key: HashMap<u32, u32> = HashMap::new();
        let mut first_of_vector: HashMap<(u32, u32), u32> = HashMap::new();
        for (at, node) in (0_u32..).zip(&self.nodes.nodes) {
            if node.key != NONE {
                edges.push((*first_of_key.entry(node.key).or_insert(at), at));
            }
            if self.links.equal_vectors_link && node.vector != NONE {
                let first = first_of_vector.entry((node.vector, node.class)).or_insert(at);
                edges.push((*first, at));
            }
        }
        edges.retain(|(a, b)| a != b);
        edges
    }

    /// The rows of some nodes, newest first.
    fn rows(&self, nodes: &[u32]) -> Vec<ClusteredRow> {
        let snapshot = self.input.snapshot;
        let apart = |memory: MemoryIndex| {
            let id = &snapshot.memories[memory.index()].id;
            snapshot.decisions.keep_both.separating_groups_of(id).collect()
        };
        let of_node = |&node: &u32| {
            let items = self.nodes.items(node).iter();
            items.map(move |&item| ClusteredRow { item, node, apart: apart(item.memory) })
        };
        let mut rows: Vec<ClusteredRow> = nodes.iter().flat_map(of_node).collect();
        let memory = |row: &ClusteredRow| &snapshot.memories[row.item.memory.index()];
        rows.sort_by(|a, b| newest_first(memory(a), memory(b)));
        rows
    }

    fn condensed(&self, rows: &[ClusteredRow]) -> Vec<f64> {
        let distances = self.input.pool.map(rows.len(), |i| {
            rows[i + 1..].iter().map(|other| self.between(&rows[i], other)).collect::<Vec<_>>()
        });
        distances.concat()
    }

    fn between(&self, a: &ClusteredRow, b: &ClusteredRow) -> f64 {
        if share(&a.apart, &b.apart) { APART } else { self.between_nodes(a.node, b.node) }
    }

    fn between_nodes(&self, n: u32, m: u32) -> f64 {
        let (a, b) = (&self.nodes.nodes[n as usize], &self.nodes.nodes[m as usize]);
        if n == m || (a.key == b.key && a.key != NONE) {
            return 0.0;
        }
        if a.class != b.class {
            return APART;
        }
        let is_linked =
            |near: &Similarity| *near < self.threshold || self.links.linked(self.nodes, n, m);
        distance(self.similarity(n, m).filter(is_linked))
    }

    fn similarity(&self, n: u32, m: u32) -> Option<Similarity> {
        let counts = |node: &u32| self.nodes.nodes[*node as usize].vector != NONE;
        let memory = |node: u32| self.nodes.items(node)[0].memory;
        [n, m].iter().all(counts).then(|| self.input.similarity(memory(n), memory(m))).flatten()
    }
}

/// Which groups are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopicRules {
    /// From which similarity on memories belong together.
    pub similarity_min: Similarity,
    /// Whether each two members must be so near, or the groups of average linkage are wanted, which are the ones of
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

pub(super) fn class(input: &DetectInput<'_>, row: MemoryIndex) -> Vec<String> {
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
        let classes: Vec<_> = component.iter().map(|&at| class(input, rows[at as usize])).collect();
        let row = |i: usize| rows[component[i] as usize];
        let between = |i: usize, j: usize| {
            let is_one_class = classes[i] == classes[j];
            distance(is_one_class.then(|| input.similarity(row(i), row(j))).flatten())
        };
        let condensed = (0..component.len())
            .flat_map(|i| (i + 1..component.len()).map(move |j| (i, j)))
            .map(|(i, j)| between(i, j))
            .collect();
        let cut = 1.0 - similarity_min.get();
        let found = agglomerate(condensed, component.len(), Linkage::Average, cut);
        let named = |group: Vec<u32>| group.into_iter().map(|at| component[at as usize]).collect();
        groups.extend(found.into_iter().map(named));
    }
    Ok(groups)
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
