//! Reachability: every node can be reached from the entry.

use memfold_simd::Kernels;

use super::links::LinkTable;
use super::nearest::Near;
use crate::codes::CodeRows;

/// Nodes before and after a lost one among which one that can be reached is looked for: they are near, since nodes
/// are numbered cell by cell.
const WINDOW: u32 = 256;

/// The parent of a node that has not been reached.
const NONE: u32 = u32::MAX;

/// Links all nodes that `entry` cannot reach to near ones that it can; returns how many links that took.
///
/// Links are added where there is room; otherwise the farthest one is replaced that no other node depends on.
pub(super) fn repair(
    codes: CodeRows<'_>,
    links: &mut LinkTable,
    entry: u32,
    kernels: &Kernels,
) -> usize {
    let mut repair = Repair { codes, links, parents: vec![NONE; codes.len()], kernels };
    repair.reach(entry, entry);
    let mut added = 0;
    for node in 0..codes.len() as u32 {
        if !repair.is_reached(node) {
            let parent = repair.attach(node);
            repair.reach(node, parent);
            added += 1;
        }
    }
    added
}

struct Repair<'a> {
    codes: CodeRows<'a>,
    links: &'a mut LinkTable,
    /// From which node each was reached first: these links stay.
    parents: Vec<u32>,
    kernels: &'a Kernels,
}

impl Repair<'_> {
    fn is_reached(&self, node: u32) -> bool {
        self.parents[node as usize] != NONE
    }

    /// Follows all links from a node that has been reached from `parent`.
    fn reach(&mut self, node: u32, parent: u32) {
        self.parents[node as usize] = parent;
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            for next in self.links.view().of(node) {
                let parent = &mut self.parents[next as usize];
                if *parent == NONE {
                    *parent = node;
                    waiting.push(next);
                }
            }
        }
    }

    /// Gives a node a link from one that is reached; returns that one.
    fn attach(&mut self, node: u32) -> u32 {
        let near = self.reached_near(node);
        let mut parents = near.into_iter().chain(0..self.codes.len() as u32);
        let parent =
            parents.find(|&parent| self.is_reached(parent) && self.give_link(parent, node));
        parent.expect("a tree of n nodes has n − 1 links, and there is room for 2 n")
    }

    /// Returns nodes that are reached, nearest first: its own links, and nodes of near numbers.
    fn reached_near(&self, node: u32) -> Vec<u32> {
        let window = node.saturating_sub(WINDOW)..(node + WINDOW).min(self.codes.len() as u32);
        let linked = self.links.view().of(node);
        let mut near: Vec<u32> =
            linked.chain(window).filter(|&other| self.is_reached(other)).collect();
        near.sort_unstable();
        near.dedup();
        let distance = |other: u32| {
            let dot = self.kernels.dot_i8(self.codes.row(node), self.codes.row(other));
            self.codes.distance_from_dot(node, self.codes.squared_norm(other), dot)
        };
        near.sort_by_cached_key(|&other| Near { distance: distance(other), node: other });
        near
    }

    /// Links `parent` to `node` if it has room or a link that nothing depends on.
    fn give_link(&mut self, parent: u32, node: u32) -> bool {
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
