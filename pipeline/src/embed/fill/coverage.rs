//! [`unembedded`]: which memories lack an embedding.

use std::io;

use memfold_index::Row;
use serde::Serialize;

use super::FillError;
use super::place::named;
use memfold_model::memory::{Embedding, Memory, MemoryId, SpaceIndex, Standing, VectorSpace};
use memfold_plan::detect::newest_first;
use memfold_store::{BrainDb, LoadRequest, MemoryStore, VectorSink};

/// How far embeddings reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Memories in use.
    pub live: u64,
    /// Those of them that have a valid vector of their text.
    pub with_embedding: u64,
    /// Those that have no embedding.
    pub missing: u64,
    /// Those whose embedding is of an earlier text.
    pub stale: u64,
    /// Those whose embedding is no vector.
    pub invalid: u64,
}

/// What a store lacks.
#[derive(Debug, Clone)]
pub struct Unembedded {
    /// Counts.
    pub coverage: Coverage,
    /// The model and dimension of most vectors; `None` where there are none.
    pub space: Option<VectorSpace>,
    /// The memories in use that have no embedding, newest first.
    pub pending: Vec<Pending>,
}

impl Unembedded {
    /// Returns the name of the store's model, where its embeddings name one.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        named(self.space.as_ref())
    }
}

/// A memory without an embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub(super) id: MemoryId,
    pub(super) content: Box<str>,
}

/// Finds the memories that lack an embedding; writes nothing.
///
/// # Errors
/// When the store cannot be read, or takes no embeddings of ours.
pub fn unembedded(store: &BrainDb, request: &LoadRequest<'_>) -> Result<Unembedded, FillError> {
    let mut counts = VectorCounts::default();
    let snapshot = store.load(request, &mut counts)?;
    let mut live: Vec<Memory> = snapshot.memories;
    live.retain(|memory| memory.standing == Standing::Live);
    let coverage = covered(&live);
    if coverage.missing > 0 {
        store.look_on(|reads| reads.layout()?.check_takes_embeddings())?;
    }
    live.retain(|memory| memory.embedding == Embedding::Missing);
    live.sort_by(newest_first);
    let pending = live.into_iter().map(|Memory { id, content, .. }| Pending { id, content });
    Ok(Unembedded { coverage, space: counts.modal(), pending: pending.collect() })
}

fn covered(live: &[Memory]) -> Coverage {
    let mut coverage = Coverage { live: live.len() as u64, ..Coverage::default() };
    for memory in live {
        let count = match memory.embedding {
            Embedding::Vector { .. } => &mut coverage.with_embedding,
            Embedding::Missing => &mut coverage.missing,
            Embedding::Stale => &mut coverage.stale,
            Embedding::Invalid(_) => &mut coverage.invalid,
        };
        *count += 1;
    }
    coverage
}

/// Counts vectors and keeps none.
#[derive(Debug, Default)]
struct VectorCounts {
    spaces: Vec<(VectorSpace, u32)>,
}

impl VectorCounts {
    /// The space of most vectors; of several the first by name.
    fn modal(mut self) -> Option<VectorSpace> {
        self.spaces.sort_by(|(a, count_a), (b, count_b)| count_b.cmp(count_a).then(a.cmp(b)));
        self.spaces.into_iter().next().map(|(space, _)| space)
    }
}

impl VectorSink for VectorCounts {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.spaces.push((space.clone(), 0));
        u32::try_from(self.spaces.len() - 1).map(SpaceIndex).map_err(io::Error::other)
    }

    fn push(&mut self, space: SpaceIndex, _vector: &[f32]) -> io::Result<Row> {
        let (_, count) = &mut self.spaces[space.0 as usize];
        *count += 1;
        Ok(Row(*count - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.spaces.clear();
        Ok(())
    }
}
