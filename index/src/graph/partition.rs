//! [`Partition`]: cells of near nodes, in which the nearest ones of others are looked for.

use memfold_simd::panel::BIAS_MAX;
use memfold_simd::{ColumnPanel, Kernels, RowBlock, ScoredHit};

use crate::Pool;
use crate::codes::{CodeRows, NodeCodes};
use crate::sample::k_means;

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

    /// Drops all but the nearest.
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

/// Nodes of a cell, about.
const CELL_NODES: usize = 256;

/// More cells would cost more than they save: every node is compared with every centroid.
const CELLS_MAX: usize = 8_192;

/// Nodes of a part: larger cells are cut, so that a node can be compared with some of them.
const PART_NODES_MAX: usize = 1_024;

/// Nodes with which one is compared at most; beyond, cells are so large that they tell nothing.
const COMPARED_MAX: usize = 16_384;

/// Nodes for each cell from which centroids are learned.
const SAMPLED_FOR_CELL: usize = 16;

/// Rounds of Lloyd's algorithm.
const ROUNDS: usize = 3;

/// Centroids that are compared at a time.
const PACKED_CENTROIDS: usize = 256;

/// Nodes of a task.
const BATCH_NODES: usize = 192;

/// Stands for a centroid beside nodes: no node has this number.
const CENTROID: u32 = 1 << 31;

/// Nodes in cells around centroids. All arithmetic is of integers.
pub(super) struct Partition {
    centroids: Vec<PackedNodes>,
    /// The parts of each cell: `first_parts[cell]..first_parts[cell + 1]`.
    first_parts: Vec<u32>,
    /// Nodes of one cell, or some of them, by their names in the whole.
    parts: Vec<PackedNodes>,
}

/// The cells nearest to each of some rows, nearest first.
pub(super) struct Probes {
    pub(super) cells: Vec<u32>,
    /// How many each row has.
    pub(super) count: usize,
}

impl Partition {
    /// Divides `codes`, with rows called `names`, in an order that does not depend on theirs where hashes differ.
    ///
    /// Returns the cells nearest to each row too.
    pub(super) fn of(
        codes: CodeRows<'_>,
        names: &[u32],
        probe_count: usize,
        pool: &Pool,
        kernels: &'static Kernels,
    ) -> (Self, Probes) {
        let mut order: Vec<(u64, u32)> =
            (0..codes.len() as u32).map(|row| (codes.hash(row), row)).collect();
        pool.sort_by_key(&mut order, |&one| one);
        let order: Vec<u32> = order.into_iter().map(|(_, row)| row).collect();
        let cell_count = (codes.len() / CELL_NODES).clamp(1, CELLS_MAX);
        let mut partition = Self {
            centroids: learn(codes, &order, cell_count, pool, kernels),
            first_parts: Vec::new(),
            parts: Vec::new(),
        };
        let all: Vec<u32> = (0..codes.len() as u32).collect();
        let probes = partition.probes_of_all(codes, &all, probe_count, pool, kernels);
        let mut cells = vec![Vec::new(); cell_count];
        for row in order {
            cells[probes.of(row as usize)[0] as usize].push(row);
        }
        let mut parts = Vec::new();
        for cell in &cells {
            partition.first_parts.push(parts.len() as u32);
            parts.extend(cell.chunks(PART_NODES_MAX));
        }
        partition.first_parts.push(parts.len() as u32);
        partition.parts = pool.map(parts.len(), |part| {
            let nodes = parts[part].iter().map(|&row| names[row as usize]).collect();
            PackedNodes::pack(codes, parts[part], nodes)
        });
        (partition, probes)
    }

    /// Returns the nodes, cell by cell.
    pub(super) fn nodes(&self) -> Vec<u32> {
        self.parts.iter().flat_map(|part| &part.nodes).copied().collect()
    }

    /// Calls nodes by their place in the parts, so that near ones are near in memory; returns the former name of each,
    /// which must have been its row, and the probes in the new order.
    pub(super) fn renumber(&mut self, probes: &Probes) -> (Vec<u32>, Probes) {
        let mut before = Vec::with_capacity(probes.cells.len() / probes.count.max(1));
        for part in &mut self.parts {
            let start = before.len() as u32;
            before.extend_from_slice(&part.nodes);
            part.nodes = (start..before.len() as u32).collect();
        }
        let cells = before.iter().flat_map(|&row| probes.of(row as usize)).copied().collect();
        (before, Probes { cells, count: probes.count })
    }

    /// Finds the cells nearest to each of `rows`.
    pub(super) fn probes(
        &self,
        codes: CodeRows<'_>,
        rows: &[u32],
        count: usize,
        comparer: &mut Comparer,
    ) -> Probes {
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let count = count.min(self.centroids.iter().map(PackedNodes::len).sum());
        let mut lists: Vec<_> = rows.iter().map(|_| NearestList::new(count)).collect();
        for centroids in &self.centroids {
            comparer.compare(codes, rows, &all, &mut lists, centroids);
            lists.iter_mut().for_each(NearestList::sort_out);
        }
        let cells = lists.into_iter().flat_map(NearestList::into_sorted);
        Probes { cells: cells.map(|near| near.node & !CENTROID).collect(), count }
    }

    fn probes_of_all(
        &self,
        codes: CodeRows<'_>,
        rows: &[u32],
        count: usize,
        pool: &Pool,
        kernels: &'static Kernels,
    ) -> Probes {
        let batches: Vec<&[u32]> = rows.chunks(BATCH_NODES).collect();
        let probes = pool.map(batches.len(), |batch| {
            self.probes(codes, batches[batch], count, &mut Comparer::new(kernels))
        });
        let count = probes.first().map_or(1, |probes| probes.count);
        Probes { cells: probes.into_iter().flat_map(|probes| probes.cells).collect(), count }
    }

    /// Finds the nearest nodes of each row in its nearest cells, nearest first.
    pub(super) fn search<'p>(
        &self,
        codes: CodeRows<'_>,
        rows: &[u32],
        probes: impl Iterator<Item = &'p [u32]>,
        limit: usize,
        comparer: &mut Comparer,
    ) -> Vec<Vec<Near>> {
        let mut lists: Vec<_> = rows.iter().map(|_| NearestList::new(limit)).collect();
        // The nearest cell first: near nodes make the tests of the lists sharp.
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (at, probes) in (0..).zip(probes) {
            let mut compared = 0;
            for (rank, &cell) in probes.iter().enumerate() {
                let parts = self.first_parts[cell as usize]..self.first_parts[cell as usize + 1];
                let pairs = if rank == 0 { &mut first } else { &mut others };
                for part in parts.clone() {
                    // Rows begin at different parts of a large cell.
                    let part =
                        parts.start + (part - parts.start + rows[at as usize]) % parts.len() as u32;
                    if compared < COMPARED_MAX {
                        pairs.push((part, at));
                        compared += self.parts[part as usize].len();
                    }
                }
            }
        }
        for mut pairs in [first, others] {
            pairs.sort_unstable();
            for pairs in pairs.chunk_by(|a, b| a.0 == b.0) {
                let picked: Vec<u32> = pairs.iter().map(|&(_, at)| at).collect();
                let packed = &self.parts[pairs[0].0 as usize];
                comparer.compare(codes, rows, &picked, &mut lists, packed);
            }
            lists.iter_mut().for_each(NearestList::sort_out);
        }
        lists.into_iter().map(NearestList::into_sorted).collect()
    }
}

impl Probes {
    /// Returns the cells of a row.
    pub(super) fn of(&self, row: usize) -> &[u32] {
        &self.cells[row * self.count..][..self.count]
    }
}

/// Learns centroids by Lloyd's algorithm from rows in an order that is as good as random.
fn learn(
    codes: CodeRows<'_>,
    order: &[u32],
    count: usize,
    pool: &Pool,
    kernels: &'static Kernels,
) -> Vec<PackedNodes> {
    if codes.len() == 0 {
        return pack_all(&NodeCodes::new(vec![0; codes.dim], codes.dim, kernels));
    }
    let sample = &order[..order.len().min(count * SAMPLED_FOR_CELL)];
    let nearest = |centroids: &[i8]| {
        let centroids = pack_all(&NodeCodes::new(centroids.to_vec(), codes.dim, kernels));
        let partition = Partition { centroids, first_parts: Vec::new(), parts: Vec::new() };
        partition.probes_of_all(codes, sample, 1, pool, kernels).cells
    };
    let first = codes.picked(&order[..count]).codes.to_vec();
    let rounds = if count > 1 { ROUNDS } else { 0 };
    let rows = || sample.iter().map(|&row| codes.row(row));
    let centroids = k_means(first, codes.dim, rounds, rows, nearest);
    pack_all(&NodeCodes::new(centroids, codes.dim, kernels))
}

fn pack_all(centroids: &NodeCodes) -> Vec<PackedNodes> {
    let all: Vec<u32> = (0..centroids.squared_norms.len() as u32).collect();
    all.chunks(PACKED_CENTROIDS)
        .map(|cells| {
            let names = cells.iter().map(|cell| cell | CENTROID).collect();
            PackedNodes::pack(centroids.view(), cells, names)
        })
        .collect()
}
