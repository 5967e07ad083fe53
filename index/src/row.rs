//! [`Row`]: our dense number for a vector, never the store's id.

/// The position of a vector in a [`crate::VectorMatrix`], from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Row(pub u32);

impl Row {
    /// Returns the row as an index into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
