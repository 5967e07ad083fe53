//! [`MemoryStore`], the trait every adapter implements, and what a load needs and feeds.

use std::io;

use jiff::tz::TimeZone;
use memfold_index::{Progress, Row};

use super::{LoadStoreError, Snapshot};
use crate::memory::{Memory, SpaceIndex, VectorSpace};
use crate::time::Instant;

/// A place that holds memories.
pub trait MemoryStore {
    /// Reads everything in one read transaction that is closed before this returns; writes nothing.
    ///
    /// Valid vectors go to `sink` as they are read; the memory remembers where.
    ///
    /// # Errors
    /// When the store cannot be opened or read, or when cancelled.
    fn load(
        &self,
        request: &LoadRequest<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, LoadStoreError>;
}

/// How to read a store.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// The run's time: decides what has expired.
    pub now: Instant,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
}

/// Takes the vectors of a store as they are read.
pub trait VectorSink {
    /// Tells which store the vectors come from, before the first of them; again after a restart.
    fn begin(&mut self, _store_id: &str) {}

    /// Tells whether digests of the snapshot are to cover embeddings, as plans need them (the default): hashing every
    /// vector takes longer than reading it.
    fn needs_digests(&self) -> bool {
        true
    }

    /// Opens a space (one model, one dimension); called once for each, before its first vector.
    ///
    /// Spaces are numbered 0, 1, … in the order of these calls.
    ///
    /// # Errors
    /// When the columns cannot be written.
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex>;

    /// Appends the valid vector of a memory (finite, not zero, −0 made +0) and returns its row. What the memory says
    /// of its embedding is not known yet.
    ///
    /// # Errors
    /// When the columns cannot be written.
    fn push(&mut self, memory: &Memory, space: SpaceIndex, vector: &[f32]) -> io::Result<Row>;

    /// Forgets all spaces and vectors, because the store changed under the reader, who starts again.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] (the default) where the sink cannot; the load then fails.
    fn restart(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
