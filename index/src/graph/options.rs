//! [`GraphOptions`].

/// How a graph is built. All of it is part of what the graph's bytes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphOptions {
    /// M: a node has up to 2 M links in each layer. Upper layers are too small to be worth fewer.
    pub degree: usize,
    /// How many nearest neighbours of each node are candidates for its links.
    pub candidates: usize,
    /// Cells of the partition in which a node's neighbours are looked for.
    pub probes: usize,
}

impl GraphOptions {
    /// The largest M.
    pub const DEGREE_MAX: usize = 64;

    /// Returns the places for links of each node: 2 M.
    pub(super) const fn link_count(&self) -> usize {
        2 * self.degree
    }

    pub(crate) const fn validated(self) -> Option<Self> {
        let degree_fits = self.degree >= 2 && self.degree <= Self::DEGREE_MAX;
        let fits = degree_fits && self.candidates >= self.degree && self.candidates <= 1_024;
        if fits && self.probes >= 1 && self.probes <= 256 { Some(self) } else { None }
    }
}

impl Default for GraphOptions {
    /// What reached a recall@10 of 0.99 at the least cost; see decisions 0032 and 0040.
    fn default() -> Self {
        Self { degree: 20, candidates: 64, probes: 8 }
    }
}
