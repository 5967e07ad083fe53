//! [`KeepOrder`]: which row is kept before which.

use std::cmp::Reverse;

use memfold_index::Row;

/// The rows of a matrix in order of keeping: of two near rows the earlier one here stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepOrder {
    row_count: u32,
    /// `None`: rows ascending.
    permutation: Option<Permutation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Permutation {
    rows: Vec<Row>,
    ranks: Vec<u32>,
}

impl KeepOrder {
    /// Keeps the smaller row. `row_count` is that of a matrix, and so fits 32 bits.
    #[must_use]
    pub const fn by_row(row_count: usize) -> Self {
        Self { row_count: row_count as u32, permutation: None }
    }

    /// Keeps the row with the largest key, of several the smallest row; `keys` holds one for each row.
    #[must_use]
    pub fn largest_first(keys: &[u32]) -> Self {
        let mut rows: Vec<u32> = (0..keys.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| (Reverse(keys[row as usize]), row));
        let mut ranks = vec![0; keys.len()];
        for (rank, &row) in rows.iter().enumerate() {
            ranks[row as usize] = rank as u32;
        }
        let rows = rows.into_iter().map(Row).collect();
        Self { row_count: keys.len() as u32, permutation: Some(Permutation { rows, ranks }) }
    }

    /// Returns the number of rows.
    pub(super) const fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Returns a row's place, from 0.
    pub(super) fn rank(&self, row: Row) -> u32 {
        self.permutation.as_ref().map_or(row.0, |permutation| permutation.ranks[row.index()])
    }

    /// Returns the row at a place.
    pub(super) fn row(&self, rank: u32) -> Row {
        self.permutation.as_ref().map_or(Row(rank), |permutation| permutation.rows[rank as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_keys_stand_first_and_of_equal_ones_smaller_rows() {
        let order = KeepOrder::largest_first(&[0, 2, 1, 2, 0]);
        let rows: Vec<u32> = (0..5).map(|rank| order.row(rank).0).collect();
        assert_eq!(rows, [1, 3, 2, 0, 4]);
        assert!((0..5).all(|rank| order.rank(order.row(rank)) == rank));
        assert_eq!((order.row_count(), KeepOrder::by_row(5).row(3)), (5, Row(3)));
    }
}
