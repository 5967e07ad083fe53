//! Lost nodes: what a search for them does not find is linked from where that search ends.

use std::sync::Mutex;

use super::beam::Beam;
use super::build::Graph;
use super::link::Tools;

/// Nodes with at most so many links to them are looked up: others are found in many ways.
const FEW_LINKS: u32 = 4;

/// The beam of a lookup: narrower than that of searches, so that these find with ease what it finds.
const LOOKUP_WIDTH: usize = 64;

/// Nodes where a lookup ends, from which a lost one is linked.
const LINKED_FROM: usize = 2;

/// Links that make room may lose others; the second and third rounds look.
const ROUNDS: usize = 3;

/// Lookups of a task.
const BATCH_LOOKUPS: usize = 64;

/// Looks up outliers and nodes with few links to them, and links those that are not found; returns how often.
///
/// Outliers beyond a dense clump are lost otherwise: a search for them fills its beam in the clump.
pub(super) fn rescue(graph: &mut Graph, outliers: Vec<u32>, tools: Tools<'_>) -> usize {
    let mut suspects = with_few_links(graph);
    suspects.extend(outliers);
    suspects.sort_unstable();
    suspects.dedup();
    let mut rescued = 0;
    for _ in 0..ROUNDS {
        let lost = lost(graph, &suspects, tools);
        if lost.is_empty() {
            break;
        }
        rescued += lost.len();
        suspects.clear();
        for (node, near) in lost {
            for from in near {
                let table = graph.links_mut();
                let mut links: Vec<u32> = table.view().of(from).collect();
                if !links.contains(&node) {
                    links.insert(0, node);
                    table.set(from, &links);
                    // The last link is the one that is missed least.
                    suspects.extend(links.get(table.degree()));
                }
            }
            suspects.push(node);
        }
        suspects.sort_unstable();
        suspects.dedup();
    }
    rescued
}

fn with_few_links(graph: &Graph) -> Vec<u32> {
    let links = graph.links();
    let mut counts = vec![0_u32; links.len()];
    for link in (0..links.len() as u32).flat_map(|node| links.of(node)) {
        counts[link as usize] += 1;
    }
    (0..).zip(counts).filter(|&(_, count)| count <= FEW_LINKS).map(|(node, _)| node).collect()
}

/// Returns the nodes that are not found, each with the nearest ones that are.
fn lost(graph: &Graph, nodes: &[u32], tools: Tools<'_>) -> Vec<(u32, Vec<u32>)> {
    let view = graph.view();
    let idle = Mutex::new(Vec::new());
    let batches = tools.pool.map(nodes.len().div_ceil(BATCH_LOOKUPS), |batch| {
        let taken = idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut beam = taken.unwrap_or_else(|| Beam::new(tools.kernels));
        let nodes = nodes[batch * BATCH_LOOKUPS..].iter().take(BATCH_LOOKUPS);
        let lost = nodes.filter_map(|&node| {
            beam.query.clear();
            beam.query.extend_from_slice(view.codes.row(node));
            beam.search(&view, LOOKUP_WIDTH);
            let is_found = beam.found().next().is_some_and(|near| near.distance == 0);
            let nearest = || beam.found().take(LINKED_FROM).map(|near| near.node).collect();
            (!is_found).then(|| (node, nearest()))
        });
        let lost: Vec<_> = lost.collect();
        if let Ok(mut idle) = idle.lock() {
            idle.push(beam);
        }
        lost
    });
    batches.concat()
}
