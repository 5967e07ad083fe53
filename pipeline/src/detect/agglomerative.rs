//! Hierarchical linkages: the distances of each connected component.

use memfold_simd::Similarity;

use super::apart::ApartUnits;
use super::links::NodeLinks;
use super::nodes::{NONE, Nodes};
use super::vertices::Vertices;
use super::{DetectError, DetectInput, Joins};
use crate::cluster::{LinkGraph, agglomerate, components, condensed_len};
use crate::policy::Linkage;

/// Further than any two vectors: these never fold together.
const APART: f64 = 2.5;

/// What distances between units are computed from.
pub(super) struct Distances<'a> {
    pub(super) input: &'a DetectInput<'a>,
    pub(super) nodes: &'a Nodes,
    pub(super) joins: &'a Joins,
    pub(super) links: &'a NodeLinks,
    pub(super) apart: &'a ApartUnits,
    pub(super) threshold: Similarity,
}

/// Clusters every connected component; returns groups of two or more units, newest first.
pub(super) fn groups(
    distances: &Distances<'_>,
    graph: &LinkGraph,
    vertices: &Vertices,
) -> Result<Vec<Vec<u32>>, DetectError> {
    let policy = &distances.input.policy.cluster;
    let linkage = match policy.linkage {
        Linkage::Complete => "complete",
        Linkage::Average => "average",
        Linkage::Single => "single",
        Linkage::GreedyComplete => "greedy complete",
    };
    let mut groups = Vec::new();
    for component in super::pipeline::expand(components(graph.len(), links_of(graph)), vertices) {
        if component.len() > policy.max_component_rows {
            let (rows, rows_max) = (component.len(), policy.max_component_rows);
            return Err(DetectError::Component { rows, rows_max, linkage });
        }
        if distances.input.progress.cancelled() {
            return Err(DetectError::Cancelled);
        }
        let condensed = distances.condensed(&component);
        let cut = 1.0 - distances.threshold.get();
        let found = agglomerate(condensed, component.len(), policy.linkage, cut);
        let units = |group: Vec<u32>| group.into_iter().map(|i| component[i as usize]).collect();
        groups.extend(found.into_iter().filter(|group| group.len() > 1).map(units));
    }
    groups.sort_unstable_by_key(|group: &Vec<u32>| group[0]);
    Ok(groups)
}

/// A clique is connected when each member is linked to the first.
fn links_of(graph: &LinkGraph) -> impl Iterator<Item = (u32, u32)> {
    (0..graph.len() as u32).flat_map(|v| {
        let clique = graph.cliques(v).map(move |members| (v, members[0]));
        graph.neighbors(v).iter().map(move |&w| (v, w)).chain(clique).collect::<Vec<_>>()
    })
}

impl Distances<'_> {
    fn condensed(&self, units: &[u32]) -> Vec<f64> {
        let rows = self.input.pool.map(units.len(), |i| {
            units[i + 1..].iter().map(|&other| self.between(units[i], other)).collect::<Vec<_>>()
        });
        let mut condensed = Vec::with_capacity(condensed_len(units.len()));
        rows.into_iter().for_each(|row| condensed.extend(row));
        condensed
    }

    /// The distance of two units is that of their farthest rows; units with equal live rows have none,
    /// unless a person keeps them apart.
    fn between(&self, a: u32, b: u32) -> f64 {
        if self.apart.are_apart(a, b) {
            return APART;
        }
        if self.nodes.live_nodes[a as usize] == self.nodes.live_nodes[b as usize] {
            return 0.0;
        }
        let nodes = |unit: u32| &self.nodes.unit_nodes[unit as usize];
        let pairs = nodes(a).iter().flat_map(|&n| nodes(b).iter().map(move |&m| (n, m)));
        pairs.map(|(n, m)| self.between_nodes(n, m)).fold(0.0, f64::max)
    }

    fn between_nodes(&self, n: u32, m: u32) -> f64 {
        let (a, b) = (&self.nodes.nodes[n as usize], &self.nodes.nodes[m as usize]);
        if n == m || (a.key == b.key && a.key != NONE) {
            return 0.0;
        }
        if a.class != b.class {
            return APART;
        }
        match self.similarity(a.vector, b.vector) {
            Some(near) if near >= self.threshold && !self.links.linked(self.nodes, n, m) => APART,
            Some(similarity) => 1.0 - similarity.get(),
            None => APART,
        }
    }

    fn similarity(&self, x: u32, y: u32) -> Option<Similarity> {
        let place = |number: u32| self.joins.distinct.places.get(number as usize).copied();
        let ((space, row), (other_space, other_row)) = (place(x)?, place(y)?);
        if space != other_space {
            return None;
        }
        let matrix = &self.input.matrices[space.0 as usize];
        let (a, b) = (matrix.vector(row), matrix.vector(other_row));
        let kernels = self.input.kernels;
        kernels.similarity(a, b, (kernels.dot(a, a), kernels.dot(b, b)))
    }
}
