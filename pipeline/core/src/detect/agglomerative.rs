//! Hierarchical linkages: the distances of each connected component.
//!
//! What is clustered are rows, those that were merged into others among them: on unchanged memories every run then finds
//! the clusters of the first one.

use std::collections::HashMap;

use memfold_simd::Similarity;

use super::judge::NodeLinks;
use super::nodes::{Item, NONE, Nodes, newest_first};
use super::{DetectError, DetectInput};
use crate::cluster::{agglomerate, components, condensed_len};
use crate::decisions::share;
use crate::memory::MemoryIndex;
use crate::policy::Linkage;

/// Further than any two vectors: these are never merged.
const APART: f64 = 2.5;

/// What distances between rows are computed from.
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
pub(super) fn groups(distances: &Distances<'_>) -> Result<Vec<Vec<u32>>, DetectError> {
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

/// The units whose live rows are among those of a group, ascending.
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
        let mut condensed = Vec::with_capacity(condensed_len(rows.len()));
        distances.into_iter().for_each(|row| condensed.extend(row));
        condensed
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
        match self.similarity(n, m) {
            Some(near) if near >= self.threshold && !self.links.linked(self.nodes, n, m) => APART,
            Some(similarity) => 1.0 - similarity.get(),
            None => APART,
        }
    }

    fn similarity(&self, n: u32, m: u32) -> Option<Similarity> {
        let counts = |node: &u32| self.nodes.nodes[*node as usize].vector != NONE;
        let memory = |node: u32| self.nodes.items(node)[0].memory;
        [n, m].iter().all(counts).then(|| self.input.similarity(memory(n), memory(m))).flatten()
    }
}
