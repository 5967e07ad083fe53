//! [`Vertices`]: rows as they are clustered, bit-equal ones as one.

use memfold_index::{Pair, Row};

use super::KeepOrder;
use memfold_plan::cluster::Link;

/// The vertex of each row: the place in the order of keeping of the first row that is bit-equal to it.
pub(super) struct Vertices {
    of_row: Vec<u32>,
    /// How many rows are bit-equal to each first row of a group; empty where there are no groups.
    multiplicities: Vec<u32>,
}

impl Vertices {
    pub(super) fn of(groups: &[Vec<Row>], order: &KeepOrder) -> Self {
        let mut of_row: Vec<u32> = (0..order.row_count()).map(|row| order.rank(Row(row))).collect();
        let mut multiplicities = Vec::new();
        if !groups.is_empty() {
            multiplicities.resize(of_row.len(), 1);
        }
        for group in groups {
            let first = group.iter().map(|&row| order.rank(row)).min();
            for row in group {
                of_row[row.index()] = first.unwrap_or_default();
            }
            multiplicities[group[0].index()] = group.len() as u32;
        }
        Self { of_row, multiplicities }
    }

    /// Returns the vertex of a row.
    pub(super) fn vertex(&self, row: Row) -> u32 {
        self.of_row[row.index()]
    }

    /// Returns the two vertices of a pair in processing order.
    pub(super) fn link(&self, pair: &Pair) -> Link {
        let (a, b) = (self.vertex(pair.left), self.vertex(pair.right));
        Link { later: a.max(b), earlier: a.min(b) }
    }

    /// Returns how many pairs of rows stand behind a pair of distinct rows.
    pub(super) fn logical_pairs(&self, pair: &Pair) -> u64 {
        let count = |row: Row| self.multiplicities.get(row.index()).map_or(1, |&n| u64::from(n));
        count(pair.left) * count(pair.right)
    }
}
