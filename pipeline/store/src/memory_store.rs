//! [`MemoryStore`], the trait every adapter implements, and what a load needs and feeds.

use std::io;

use jiff::tz::TimeZone;
use memfold_index::{Progress, Row};

use super::{LiveVisitor, LoadStoreError, Snapshot};
use memfold_model::memory::{SpaceIndex, VectorSpace};
use memfold_model::time::Instant;

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

    /// Shows the live memories one by one in the order of their table, in one read transaction, and holds none of them;
    /// `false` where this store can only be loaded (the default).
    ///
    /// Shown is what [`load`](Self::load) finds; the visitor forgets what it was shown when it is told to begin again.
    ///
    /// # Errors
    /// When the store cannot be opened or read, the visitor refuses, or when cancelled.
    fn visit_live(
        &self,
        _request: &LoadRequest<'_>,
        _visitor: &mut dyn LiveVisitor,
    ) -> Result<bool, LoadStoreError> {
        Ok(false)
    }
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
    /// Opens a space (one model, one dimension); called once for each, before its first vector.
    ///
    /// Spaces are numbered 0, 1, … in the order of these calls.
    ///
    /// # Errors
    /// When the columns cannot be written.
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex>;

    /// Appends a valid vector (finite, not zero, −0 made +0) and returns its row.
    ///
    /// # Errors
    /// When the columns cannot be written.
    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row>;

    /// Forgets all spaces and vectors, because the store changed under the reader, who starts again.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] (the default) where the sink cannot; the load then fails.
    fn restart(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
