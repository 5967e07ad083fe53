//! From codes to links: candidates by cells and by samples, pruned, with reverse links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memfold_simd::Kernels;

use super::partition::{Comparer, Near, Partition, Probes};
use super::{BuildGraphError, GraphOptions, LinkTable};
use crate::codes::{CodeRows, SplitRows};
use crate::{Pool, Progress};

/// Each sample has an eighth of the nodes of the one before.
const SAMPLE_BITS: u32 = 3;

/// Smaller samples add nothing.
const SAMPLE_NODES_MIN: usize = 100;

/// Nodes of each sample that are candidates, and cells of it in which they are looked for.
const SAMPLE_CANDIDATES: usize = 8;
const SAMPLE_PROBES: usize = 2;

/// The nearest of a node's links and reverse links, from which the final ones are pruned.
const MERGED_MAX: usize = 128;

/// By how many of its nearest nodes each one is linked for certain, unless too many ask that of one.
const DEPENDED_ON: usize = 2;

/// Nodes of a task of the last step.
const BATCH_NODES: usize = 512;

/// Tasks for each thread in which candidates are looked for, and nodes of each at least and at most.
///
/// Nodes of a task are compared with many of the same cells, each of which comes from memory once: of a million nodes this step
/// takes 73 s where a task has the nodes of a cell, and 49, 40 and 40 s where it has 4,096, 8,192 and 16,384
/// (`bench/results/build-tasks.jsonl`).
const TASKS_OF_THREAD: usize = 8;
const TASK_NODES_MIN: usize = 512;
const TASK_NODES_MAX: usize = 8_192;

/// Options and tools of a build.
#[derive(Clone, Copy)]
pub(super) struct Tools<'a> {
    pub(super) options: GraphOptions,
    pub(super) pool: &'a Pool,
    pub(super) kernels: &'static Kernels,
    pub(super) progress: &'a dyn Progress,
}

/// Returns up to the options' number of links for each node, nearest and most different first.
///
/// Candidates are the nearest nodes, and nearest ones of ever smaller samples: long links, without which a search
/// could not come from afar.
pub(super) fn link(
    codes: CodeRows<'_>,
    partition: &Partition,
    probes: &Probes,
    tools: Tools<'_>,
) -> Result<LinkTable, BuildGraphError> {
    let degree = 2 * tools.options.degree;
    let samples = samples(codes, tools);
    let nodes = partition.nodes();
    let task_nodes = nodes.len() / (TASKS_OF_THREAD * tools.pool.threads());
    let tasks: Vec<&[u32]> =
        nodes.chunks(task_nodes.clamp(TASK_NODES_MIN, TASK_NODES_MAX)).collect();
    tools.progress.begin("find neighbours", Some(codes.len() as u64));
    let pruned = tools.pool.map(tasks.len(), |task| {
        if tools.progress.cancelled() {
            return Err(BuildGraphError::Cancelled);
        }
        let nodes = tasks[task];
        let mut comparer = Comparer::new(tools.kernels);
        let own = nodes.iter().map(|&node| probes.of(node as usize));
        let mut found =
            partition.search(codes, nodes, own, tools.options.candidates, &mut comparer);
        for sample in &samples {
            let probes = sample.probes(codes, nodes, SAMPLE_PROBES, &mut comparer);
            let cells = (0..nodes.len()).map(|row| probes.of(row));
            let sampled = sample.search(codes, nodes, cells, SAMPLE_CANDIDATES, &mut comparer);
            found.iter_mut().zip(sampled).for_each(|(found, sampled)| found.extend(sampled));
        }
        let mut pruner = Pruner::new(codes, tools.kernels);
        for candidates in &mut found {
            candidates.sort_unstable();
            candidates.dedup();
            pruner.prune(candidates, &[], degree);
        }
        tools.progress.advance(nodes.len() as u64);
        Ok(found)
    });
    tools.progress.end();
    let mut forward = vec![Vec::new(); codes.len()];
    for (nodes, pruned) in tasks.into_iter().zip(pruned) {
        for (&node, links) in nodes.iter().zip(pruned?) {
            forward[node as usize] = links;
        }
    }
    merge(codes, &forward, degree, tools)
}

fn samples(codes: CodeRows<'_>, tools: Tools<'_>) -> Vec<Partition> {
    let mut samples = Vec::new();
    let mut bits = SAMPLE_BITS;
    while codes.len() >> bits >= SAMPLE_NODES_MIN {
        // The lowest bits: levels are made of the highest.
        let sampled = |&node: &u32| codes.hash(node) & ((1 << bits) - 1) == 0;
        let names: Vec<u32> = (0..codes.len() as u32).filter(sampled).collect();
        let picked = codes.picked(&names);
        samples.push(Partition::of(picked.view(), &names, 1, tools.pool, tools.kernels).0);
        bits += SAMPLE_BITS;
    }
    samples
}

/// Adds reverse links to each node's links, and prunes the surplus.
fn merge(
    codes: CodeRows<'_>,
    forward: &[Vec<Near>],
    degree: usize,
    tools: Tools<'_>,
) -> Result<LinkTable, BuildGraphError> {
    let backward = Backward::of(forward);
    tools.progress.begin("link nodes", Some(codes.len() as u64));
    let batches = tools.pool.map_batches(codes.len(), BATCH_NODES, tools.progress, |nodes| {
        let mut pruner = Pruner::new(codes, tools.kernels);
        let mut lists: Vec<Vec<u32>> = Vec::with_capacity(nodes.len());
        let (mut merged, mut kept, count) = (Vec::new(), Vec::new(), nodes.len());
        for node in nodes {
            merged.clear();
            merged.extend_from_slice(&forward[node]);
            merged.extend_from_slice(backward.of_node(node));
            merged.sort_unstable();
            merged.dedup();
            merged.truncate(MERGED_MAX);
            if merged.len() > degree {
                backward.depending_on(node, forward, &mut kept);
                kept.truncate(degree / 2);
                pruner.prune(&mut merged, &kept, degree);
            }
            lists.push(merged.iter().map(|near| near.node).collect());
        }
        tools.progress.advance(count as u64);
        LinkTable::new(codes.len(), degree, &lists)
    });
    tools.progress.end();
    let batches = batches.ok_or(BuildGraphError::Cancelled)?;
    Ok(LinkTable::joined(codes.len(), degree, &batches))
}

/// For each node the nodes that link to it.
struct Backward {
    starts: Vec<usize>,
    near: Vec<Near>,
}

impl Backward {
    fn of(forward: &[Vec<Near>]) -> Self {
        let mut starts = vec![0_usize; forward.len() + 1];
        for link in forward.iter().flatten() {
            starts[link.node as usize + 1] += 1;
        }
        for node in 0..forward.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let total = starts.last().copied().unwrap_or(0);
        let mut near = vec![Near { distance: 0, node: 0 }; total];
        for (node, links) in (0..).zip(forward) {
            for link in links {
                let at = &mut next[link.node as usize];
                near[*at] = Near { distance: link.distance, node };
                *at += 1;
            }
        }
        Self { starts, near }
    }

    /// Collects the nodes of which `node` is among the nearest few, nearest first: by whom should they be found, if
    /// not by it?
    fn depending_on(&self, node: usize, forward: &[Vec<Near>], depending: &mut Vec<Near>) {
        depending.clear();
        let depends = |near: &&Near| {
            let nearest = forward[near.node as usize].iter().take(DEPENDED_ON);
            nearest.into_iter().any(|link| link.node as usize == node)
        };
        depending.extend(self.of_node(node).iter().filter(depends));
        depending.sort_unstable();
    }

    fn of_node(&self, node: usize) -> &[Near] {
        &self.near[self.starts[node]..self.starts[node + 1]]
    }
}

/// Links with which a candidate is compared at a time.
const COMPARED_TOGETHER: usize = 8;

/// The nearest candidates are links whatever hides them: among near-duplicates, nearly everything hides.
const RESERVED: usize = 4;

/// Tells whether a candidate hides behind a link: `numerator / 64 · d²(link, candidate) < d²(node, candidate)`.
///
/// Equal distances hide nothing: nodes at one distance of each other keep their links.
fn hides(numerator: i64, between: i32, candidate: i32) -> bool {
    numerator * i64::from(between) < 64 * i64::from(candidate)
}

/// The first pass takes a candidate that is no nearer to a taken one than to the node.
const STRICT: i64 = 64;

/// The second pass, for places that are left, one that is not much nearer: 64/72 of the squared distance.
const RELAXED: i64 = 72;

/// How far the links taken so far hide a candidate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hidden {
    No,
    /// From the first pass only.
    FromStrict,
    FromBoth,
}

/// Chooses links, with memory that is used again.
pub(super) struct Pruner<'a> {
    codes: CodeRows<'a>,
    kernels: &'static Kernels,
    taken_codes: Vec<i8>,
    dots: Vec<i32>,
    skipped: Vec<Near>,
}

impl<'a> Pruner<'a> {
    pub(super) const fn new(codes: CodeRows<'a>, kernels: &'static Kernels) -> Self {
        Self { codes, kernels, taken_codes: Vec::new(), dots: Vec::new(), skipped: Vec::new() }
    }

    /// Leaves at most `limit` of the candidates, which are sorted and different: all of `kept`, which are fewer,
    /// then the nearest ones of each pass.
    pub(super) fn prune(&mut self, candidates: &mut Vec<Near>, kept: &[Near], limit: usize) {
        self.taken_codes.clear();
        self.skipped.clear();
        let mut taken = Vec::with_capacity(limit);
        for &link in kept {
            self.take(link, &mut taken);
        }
        let reserved = kept.len() + RESERVED;
        for &candidate in &*candidates {
            if taken.len() == limit {
                break;
            }
            if kept.contains(&candidate) {
                continue;
            }
            let hidden = match taken.len() < reserved {
                true => Hidden::No,
                false => self.hidden(candidate, &taken, STRICT),
            };
            match hidden {
                Hidden::No => self.take(candidate, &mut taken),
                Hidden::FromStrict => self.skipped.push(candidate),
                Hidden::FromBoth => {}
            }
        }
        for candidate in std::mem::take(&mut self.skipped) {
            if taken.len() == limit {
                break;
            }
            if self.hidden(candidate, &taken, RELAXED) == Hidden::No {
                self.take(candidate, &mut taken);
            }
        }
        *candidates = taken;
    }

    fn take(&mut self, candidate: Near, taken: &mut Vec<Near>) {
        self.taken_codes.extend_from_slice(self.codes.row(candidate.node));
        taken.push(candidate);
    }

    /// Compares a candidate with the taken ones, as far as the first few of which one hides it.
    fn hidden(&mut self, candidate: Near, taken: &[Near], numerator: i64) -> Hidden {
        let codes = self.codes.row(candidate.node);
        let norm = self.codes.squared_norm(candidate.node);
        let parts = taken.chunks(COMPARED_TOGETHER);
        for (links, link_codes) in
            parts.zip(self.taken_codes.chunks(COMPARED_TOGETHER * self.codes.dim))
        {
            self.dots.clear();
            self.kernels.dots_i8(codes, link_codes, &mut self.dots);
            let hides = links.iter().zip(&self.dots).map(|(link, &dot)| {
                let between = self.codes.distance_from_dot(link.node, norm, dot);
                match hides(numerator, between, candidate.distance) {
                    false => Hidden::No,
                    true if hides(RELAXED, between, candidate.distance) => Hidden::FromBoth,
                    true => Hidden::FromStrict,
                }
            });
            match hides.max() {
                None | Some(Hidden::No) => {}
                Some(hidden) => return hidden,
            }
        }
        Hidden::No
    }
}

/// Nodes before and after a lost one among which one that can be reached is looked for: they are near, since nodes
/// are numbered cell by cell.
const WINDOW: u32 = 256;

/// The parent of a node that has not been reached.
const NO_PARENT: u32 = u32::MAX;

/// Links all nodes that `entry` cannot reach to near ones that it can; returns how many nodes were tried as parents.
///
/// Links are added where there is room; otherwise the farthest one is replaced that no other node depends on.
pub(super) fn repair(
    codes: SplitRows<'_>,
    links: &mut LinkTable,
    entry: u32,
    kernels: &Kernels,
) -> usize {
    let parents = vec![NO_PARENT; codes.len()];
    let mut repair = Repair { codes, links, parents, open: BinaryHeap::new(), tried: 0, kernels };
    repair.reach(entry, entry);
    for node in 0..codes.len() as u32 {
        if !repair.is_reached(node) {
            let parent = repair.attach(node);
            repair.reach(node, parent);
        }
    }
    repair.tried
}

struct Repair<'a> {
    codes: SplitRows<'a>,
    links: &'a mut LinkTable,
    /// From which node each was reached first: these links stay.
    parents: Vec<u32>,
    /// Reached nodes that may have room, the first on top. One without room never gets any: all its links stay.
    open: BinaryHeap<Reverse<u32>>,
    tried: usize,
    kernels: &'a Kernels,
}

impl Repair<'_> {
    fn is_reached(&self, node: u32) -> bool {
        self.parents[node as usize] != NO_PARENT
    }

    /// Follows all links from a node that has been reached from `parent`.
    fn reach(&mut self, node: u32, parent: u32) {
        self.parents[node as usize] = parent;
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            self.open.push(Reverse(node));
            for next in self.links.view().of(node) {
                let parent = &mut self.parents[next as usize];
                if *parent == NO_PARENT {
                    *parent = node;
                    waiting.push(next);
                }
            }
        }
    }

    /// Gives a node a link from one that is reached; returns that one.
    fn attach(&mut self, node: u32) -> u32 {
        let near = self.reached_near(node);
        if let Some(parent) = near.into_iter().find(|&parent| self.give_link(parent, node)) {
            return parent;
        }
        loop {
            let open = self.open.peek();
            let &Reverse(first) = open.expect("n nodes have n − 1 parents, and 2 n links at least");
            if self.give_link(first, node) {
                return first;
            }
            self.open.pop();
        }
    }

    /// Returns nodes that are reached, nearest first: its own links, and nodes of near numbers.
    fn reached_near(&self, node: u32) -> Vec<u32> {
        let window = node.saturating_sub(WINDOW)..(node + WINDOW).min(self.codes.len() as u32);
        let linked = self.links.view().of(node);
        let mut near: Vec<u32> =
            linked.chain(window).filter(|&other| self.is_reached(other)).collect();
        near.sort_unstable();
        near.dedup();
        let [_, distances] = self.codes.squared_distances(node, &near, self.kernels);
        let pairs = distances.into_iter().zip(near);
        let mut near: Vec<Near> = pairs.map(|(distance, node)| Near { distance, node }).collect();
        near.sort_unstable();
        near.into_iter().map(|near| near.node).collect()
    }

    /// Links `parent` to `node` if it has room or a link that nothing depends on.
    fn give_link(&mut self, parent: u32, node: u32) -> bool {
        self.tried += 1;
        let mut links: Vec<u32> = self.links.view().of(parent).collect();
        if links.len() < self.links.degree() {
            links.push(node);
        } else {
            // The last link is about the farthest.
            let is_spare = |&next: &u32| self.parents[next as usize] != parent;
            let Some(place) = links.iter().rposition(is_spare) else { return false };
            links[place] = node;
        }
        self.links.set(parent, &links);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{NodeCodes, split};

    /// For each lost node all nodes were tried from the first on, whatever had been learned about them before: quadratic
    /// where many nodes are lost and the near ones have no room.
    #[test]
    fn a_full_node_is_tried_once() {
        const TREES: usize = 16;
        const PARENTS: usize = 511;
        let kernels = Kernels::active();
        // Full binary trees: first the parents of all trees, none of which has room, then all leaves.
        let leaves = TREES * PARENTS;
        let mut lists = vec![Vec::new(); leaves + TREES * (PARENTS + 1)];
        for tree in 0..TREES {
            let child = |at: usize| match at < PARENTS {
                true => (tree * PARENTS + at) as u32,
                false => (leaves + tree * (PARENTS + 1) + at - PARENTS) as u32,
            };
            for at in 0..PARENTS {
                lists[tree * PARENTS + at] = vec![child(2 * at + 1), child(2 * at + 2)];
            }
        }
        let mut links = LinkTable::new(lists.len(), 2, &lists);
        let codes = NodeCodes::new(vec![0; lists.len() * 4], 4, kernels);
        let codes = split(codes.view());
        let codes = SplitRows::new(&codes, 4);
        let tried = repair(codes, &mut links, 0, kernels);
        assert!(tried <= leaves + TREES * (2 * WINDOW as usize + 3), "{tried} of {leaves}");
        assert_eq!(repair(codes, &mut links, 0, kernels), 0, "all are reached");
    }
}
