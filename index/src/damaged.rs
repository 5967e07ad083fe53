//! [`Damaged`]: numbers that hold no index.

/// Why numbers, mostly those of a file, hold no index that can be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// A part has another length than the others ask for.
    #[error("{part}: {found} values, expected {expected}")]
    Length {
        /// The part.
        part: &'static str,
        /// Values in it.
        found: usize,
        /// Values that the other parts ask for.
        expected: usize,
    },
    /// A number is out of range.
    #[error("{number} is {found}, expected {expected}")]
    Range {
        /// What the number says.
        number: &'static str,
        /// The number.
        found: usize,
        /// Its range.
        expected: &'static str,
    },
    /// A number must be positive and finite.
    #[error("{number} is not a positive number")]
    NotPositive {
        /// What the number says.
        number: &'static str,
    },
    /// Kernels read whole lines of 64 bytes.
    #[error("codes or norms begin between two multiples of 64 bytes")]
    Alignment,
    /// The vectors are those of another index.
    #[error(
        "an index of {} rows of dimension {}, but {} vectors of dimension {}",
        index[0], index[1], found[0], found[1]
    )]
    Vectors {
        /// Rows and dimension of the index.
        index: [usize; 2],
        /// Vectors given, and their dimension.
        found: [usize; 2],
    },
}
