//! [`MemoryStore`], the trait every adapter implements, and the request and the sinks of a load.

use std::io;

use jiff::tz::TimeZone;

use crate::error::StoreError;
use memfold_core::Snapshot;
use memfold_core::memory::{Memory, SpaceIndex, VectorSpace};
use memfold_core::time::Instant;
use memfold_index::{Progress, Row};

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
    ) -> Result<Snapshot, StoreError>;

    /// Shows the live memories one by one in the order of their table, in one read transaction, and holds none of them;
    /// `false` where this store can only be loaded (the default).
    ///
    /// The visitor gets the memories that [`load`](Self::load) finds; it forgets them when it has
    /// to begin again.
    ///
    /// # Errors
    /// When the store cannot be opened or read, the visitor refuses, or when cancelled.
    fn visit_live(
        &self,
        _request: &LoadRequest<'_>,
        _visitor: &mut dyn LiveVisitor,
    ) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// How to read a store.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// The run's time: decides which memories have expired.
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

/// Takes vectors and keeps none.
#[derive(Debug, Default)]
pub struct NoVectors {
    spaces: u32,
    rows: u32,
}

impl VectorSink for NoVectors {
    fn open_space(&mut self, _space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.spaces += 1;
        Ok(SpaceIndex(self.spaces - 1))
    }

    fn push(&mut self, _space: SpaceIndex, _vector: &[f32]) -> io::Result<Row> {
        self.rows += 1;
        Ok(Row(self.rows - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        *self = Self::default();
        Ok(())
    }
}

/// A live memory while it is read.
#[derive(Debug, Clone, Copy)]
pub struct LiveRow<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Its text.
    pub content: &'a str,
    /// Categories in the store's order, without repeats.
    pub categories: &'a [Box<str>],
    /// Importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made; `None` where unreadable.
    pub created_at: Option<Instant>,
    /// Where it came from, as stored.
    pub source: &'a str,
    /// The first source, before any consolidation.
    pub root_source: &'a str,
}

impl<'a> From<&'a Memory> for LiveRow<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self {
            rowid: memory.rowid,
            id: memory.id.as_str(),
            content: &memory.content,
            categories: &memory.categories,
            importance: memory.importance,
            access_count: memory.access_count,
            created_at: memory.created_at.instant(),
            source: &memory.source,
            root_source: &memory.root_source,
        }
    }
}

/// Visits the live memories of a store, one by one; a thread other than the reading one may call
/// it.
pub trait LiveVisitor: Send {
    /// Receives the store's id before the first row, and again where everything is visited again,
    /// because the store changed under the reader or turned out to be another than it seemed.
    ///
    /// # Errors
    /// When the visitor cannot go on.
    fn begin(&mut self, store_id: &str) -> io::Result<()>;

    /// Receives a memory with the model and the components of its vector, where it has a valid one
    /// (finite, not zero, −0 made +0) that was made for its text.
    ///
    /// # Errors
    /// When the visitor cannot go on.
    fn visit(&mut self, row: &LiveRow<'_>, vector: Option<(&str, &[f32])>) -> io::Result<()>;
}

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
