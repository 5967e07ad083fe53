//! How the planner compares memories: by the guard and by canonical similarity, both given to it.

use memfold_simd::Similarity;

use memfold_guard::{Absorption, Guard, Judgement};
use memfold_model::memory::{Memory, MemoryIndex};
use memfold_model::text;

/// Canonical similarity of two memories; `None` unless both have vectors of one space.
pub type SimilarityOf<'a> = dyn Fn(MemoryIndex, MemoryIndex) -> Option<Similarity> + 'a;

/// The guard's view of the memories of a snapshot.
pub trait FactGuard {
    /// Judges two texts.
    fn judge(&self, older: MemoryIndex, newer: MemoryIndex) -> Judgement;

    /// Tells whether the survivor's text carries everything that the row's says.
    fn absorbs(&self, survivor: MemoryIndex, row: MemoryIndex) -> Absorption;

    /// Returns how much a text says, for `canonical: most_informative`: words with a digit or a
    /// capital inside, then distinct words.
    fn informativeness(&self, row: MemoryIndex) -> (usize, usize);
}

/// A [`Guard`] over the texts of memories. Reads both texts anew for each question.
#[derive(Debug, Clone, Copy)]
pub struct GuardedTexts<'a> {
    /// The guard.
    pub guard: &'a Guard,
    /// The memories of the snapshot.
    pub memories: &'a [Memory],
}

impl GuardedTexts<'_> {
    fn content(&self, index: MemoryIndex) -> &str {
        &self.memories[index.index()].content
    }
}

impl FactGuard for GuardedTexts<'_> {
    fn judge(&self, older: MemoryIndex, newer: MemoryIndex) -> Judgement {
        let (older, newer) = (self.content(older), self.content(newer));
        self.guard.judge(&self.guard.read(older), &self.guard.read(newer))
    }

    fn absorbs(&self, survivor: MemoryIndex, row: MemoryIndex) -> Absorption {
        let (survivor, row) = (self.content(survivor), self.content(row));
        self.guard.absorbs(&self.guard.read(survivor), &self.guard.read(row))
    }

    fn informativeness(&self, row: MemoryIndex) -> (usize, usize) {
        informativeness(self.content(row))
    }
}

/// Counts the distinct words of a text that look specific, and all distinct words.
pub(super) fn informativeness(content: &str) -> (usize, usize) {
    let mut words: Vec<&str> = text::tokens(content).map(|token| token.text).collect();
    words.sort_unstable();
    words.dedup();
    let is_specific = |word: &&&str| {
        word.chars().any(|c| c.is_numeric()) || word.chars().skip(1).any(char::is_uppercase)
    };
    (words.iter().filter(is_specific).count(), words.len())
}
