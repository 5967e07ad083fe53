//! [`NearestList`] and [`Comparer`]: the nearest nodes among many, by the sign test of panels.

use memfold_simd::panel::BIAS_MAX;
use memfold_simd::{ColumnPanel, Kernels, RowBlock, ScoredHit};

use crate::codes::CodeRows;

/// A node and its squared distance; ordered by distance, then node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Near {
    pub(super) distance: i32,
    pub(super) node: u32,
}

/// Keeps the nearest `limit` of the nodes offered to it, in any order of offering.
///
/// They are sorted out when three times as many have come: cheaper than keeping them in order.
#[derive(Debug)]
pub(super) struct NearestList {
    kept: Vec<Near>,
    limit: usize,
    /// Nothing farther is among the nearest.
    distance_max: i32,
}

impl NearestList {
    pub(super) fn new(limit: usize) -> Self {
        Self { kept: Vec::with_capacity(3 * limit + 1), limit, distance_max: i32::MAX }
    }

    #[inline]
    pub(super) fn offer(&mut self, near: Near) {
        if near.distance <= self.distance_max {
            self.kept.push(near);
            if self.kept.len() > 3 * self.limit {
                self.sort_out();
            }
        }
    }

    /// Forgets what is not among the nearest.
    pub(super) fn sort_out(&mut self) {
        if self.kept.len() > self.limit {
            let (_, last, _) = self.kept.select_nth_unstable(self.limit - 1);
            self.distance_max = last.distance;
            self.kept.truncate(self.limit);
        }
    }

    /// Returns the nearest, nearest first.
    pub(super) fn into_sorted(mut self) -> Vec<Near> {
        self.sort_out();
        self.kept.sort_unstable();
        self.kept
    }
}

/// Some nodes, packed to be compared with many.
#[derive(Debug, Default)]
pub(super) struct PackedNodes {
    pub(super) nodes: Vec<u32>,
    squared_norms: Vec<i32>,
    panel: ColumnPanel,
}

impl PackedNodes {
    /// Packs the codes at some positions, which stand for `names`.
    pub(super) fn pack(codes: CodeRows<'_>, positions: &[u32], names: Vec<u32>) -> Self {
        let picked = codes.picked(positions);
        let biases: Vec<i32> = picked.squared_norms.iter().map(|&norm| -half_up(norm)).collect();
        let mut panel = ColumnPanel::default();
        panel.pack(&picked.codes, &biases, picked.dim);
        Self { nodes: names, squared_norms: picked.squared_norms, panel }
    }

    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }
}

const fn half_up(norm: i32) -> i32 {
    norm / 2 + norm % 2
}

/// Compares rows with packed nodes, with memory that is used again.
///
/// `|x − y|² ≤ d ⇔ ⟨x, y⟩ − |y|²/2 + (d − |x|²)/2 ≥ 0`: columns have one bias for good, rows have one that grows
/// tighter as their lists fill.
pub(super) struct Comparer {
    kernels: &'static Kernels,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    hits: Vec<ScoredHit>,
}

impl Comparer {
    pub(super) const fn new(kernels: &'static Kernels) -> Self {
        Self { kernels, shifted_codes: Vec::new(), biases: Vec::new(), hits: Vec::new() }
    }

    /// Offers every packed node to the lists of the rows that `picked` names by their position in `rows`; a row is
    /// not offered to itself.
    pub(super) fn compare(
        &mut self,
        codes: CodeRows<'_>,
        rows: &[u32],
        picked: &[u32],
        lists: &mut [NearestList],
        packed: &PackedNodes,
    ) {
        self.shifted_codes.clear();
        self.biases.clear();
        for &at in picked {
            let (row, list) = (rows[at as usize], &lists[at as usize]);
            let shifted = codes.row(row).iter().map(|&code| code.cast_unsigned() ^ 0x80);
            self.shifted_codes.extend(shifted);
            let beyond = i64::from(list.distance_max) - i64::from(codes.squared_norm(row));
            let limit = i64::from(BIAS_MAX);
            self.biases.push((beyond.div_euclid(2) + 1).clamp(-limit, limit) as i32);
        }
        let block = RowBlock {
            shifted_codes: &self.shifted_codes,
            biases: &self.biases,
            dim: codes.dim,
            group_counts: &[],
        };
        self.hits.clear();
        self.kernels.scored_hits(&block, packed.panel.columns(), &mut self.hits);
        for &ScoredHit { hit, score } in &self.hits {
            let at = picked[hit.row as usize] as usize;
            let (node, norm) =
                (packed.nodes[hit.column as usize], packed.squared_norms[hit.column as usize]);
            if node != rows[at] {
                let dot = score - self.biases[hit.row as usize] + half_up(norm);
                let distance = codes.distance_from_dot(rows[at], norm, dot);
                lists[at].offer(Near { distance, node });
            }
        }
    }
}
