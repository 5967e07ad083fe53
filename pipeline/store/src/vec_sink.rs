//! [`VecSink`]: vectors kept in memory.

use std::io;

use memfold_index::Row;

use super::VectorSink;
use memfold_model::memory::{SpaceIndex, VectorSpace};

/// Keeps the vectors of each space in one `Vec<f32>`, row after row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VecSink {
    spaces: Vec<(VectorSpace, Vec<f32>)>,
}

impl VecSink {
    /// Returns the spaces in the order in which they were opened, with their components.
    #[must_use]
    pub fn spaces(&self) -> &[(VectorSpace, Vec<f32>)] {
        &self.spaces
    }

    /// Returns one vector.
    ///
    /// # Panics
    /// When the sink never returned `row` for `space`.
    #[must_use]
    pub fn vector(&self, space: SpaceIndex, row: Row) -> &[f32] {
        let (space, values) = &self.spaces[space.0 as usize];
        let dim = space.dim as usize;
        &values[row.index() * dim..(row.index() + 1) * dim]
    }
}

impl VectorSink for VecSink {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.spaces.push((space.clone(), Vec::new()));
        u32::try_from(self.spaces.len() - 1).map(SpaceIndex).map_err(io::Error::other)
    }

    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        let (space, values) = &mut self.spaces[space.0 as usize];
        let row = values.len() / space.dim as usize;
        values.extend_from_slice(vector);
        u32::try_from(row).map(Row).map_err(io::Error::other)
    }

    fn restart(&mut self) -> io::Result<()> {
        self.spaces.clear();
        Ok(())
    }
}
