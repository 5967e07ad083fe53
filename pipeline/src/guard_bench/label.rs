//! [`Label`]: what somebody says of a pair.

use std::fmt;

/// The relation of two texts by the judgement of others: bands of similarity in ascending order, then words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A similarity from 0 to 5, as in STS-Benchmark.
    Band(Band),
    /// Any word.
    Word(String),
}

/// A range of similarities from 0, unrelated, to 5, the same. The lower bound belongs to it; 5 to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Band(u8);

/// Lower bounds and names.
const BANDS: [(f64, &str); 6] =
    [(0.0, "0-1"), (1.0, "1-2"), (2.0, "2-3"), (3.0, "3-4"), (4.0, "4-4.5"), (4.5, "4.5-5")];

impl Label {
    /// The word that calls a pair contradictory.
    pub const CONTRADICTION: &str = "contradiction";

    /// Tells whether the pair is said to contradict itself.
    #[must_use]
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Self::Word(word) if word == Self::CONTRADICTION)
    }
}

impl Band {
    /// Returns the band of a similarity; `None` outside 0 to 5.
    #[must_use]
    pub fn of(similarity: f64) -> Option<Self> {
        let is_in_range = (0.0..=5.0).contains(&similarity);
        let position = BANDS.iter().rposition(|(least, _)| similarity >= *least)?;
        is_in_range.then_some(Self(position as u8))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Band(Band(position)) => formatter.write_str(BANDS[usize::from(*position)].1),
            Self::Word(word) => formatter.write_str(word),
        }
    }
}
