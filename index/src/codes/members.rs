//! [`Members`]: the rows behind each node.

use crate::Row;
use crate::distinct::DistinctRows;

/// Marks a row whose vector equals that of the row before it.
const REPEATS: u32 = 1 << 31;

/// For each node its rows: vectors of one code lie together, and bit-equal ones beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Where each node's rows start, and where the last one's end.
    pub starts: Vec<u32>,
    /// Rows; the highest bit marks those that equal the one before.
    pub rows: Vec<u32>,
}

/// Borrowed [`Members`].
#[derive(Debug, Clone, Copy)]
pub struct MembersView<'a> {
    /// See [`Members::starts`].
    pub starts: &'a [u32],
    /// See [`Members::rows`].
    pub rows: &'a [u32],
}

impl Members {
    /// The most rows that can be marked.
    pub const ROWS_MAX: usize = REPEATS as usize;

    /// Puts together nodes that are given by positions among the distinct rows.
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n [u32]>, distinct: &DistinctRows) -> Self {
        let mut members = Self { starts: vec![0], rows: Vec::new() };
        for positions in nodes {
            for &position in positions {
                members.push_equal_rows(distinct.rows[position as usize], distinct);
            }
            members.starts.push(members.rows.len() as u32);
        }
        members
    }

    fn push_equal_rows(&mut self, first: Row, distinct: &DistinctRows) {
        self.rows.push(first.0);
        // Groups are sorted by their first row.
        if let Ok(group) = distinct.groups.binary_search_by_key(&first, |group| group[0]) {
            self.rows.extend(distinct.groups[group][1..].iter().map(|row| row.0 | REPEATS));
        }
    }

    /// Returns the rows as slices.
    #[must_use]
    pub fn view(&self) -> MembersView<'_> {
        MembersView { starts: &self.starts, rows: &self.rows }
    }
}

impl<'a> MembersView<'a> {
    /// Returns a node's rows, and whether each has the vector of the one before; none where bytes are damaged.
    pub(crate) fn rows(&self, node: u32) -> impl ExactSizeIterator<Item = (Row, bool)> + use<'a> {
        let node = node as usize;
        let range = match (self.starts.get(node), self.starts.get(node + 1)) {
            (Some(&start), Some(&end)) => start as usize..end as usize,
            _ => 0..0,
        };
        let rows = self.rows.get(range).unwrap_or_default();
        rows.iter()
            .enumerate()
            .map(|(at, &row)| (Row(row & !REPEATS), at > 0 && row & REPEATS != 0))
    }
}
