//! [`Export`]: a store that is held until its rows are written in another order than its own.

use memfold_datasets::{Column, ColumnSet, ColumnsMeta};
use memfold_index::{Progress, Row};

use super::{ExportError, ExportOptions, Exported, RecordWriter, largest, meta, write_record};
use crate::columns::{ColumnSink, VectorColumns};
use memfold_model::memory::{Memory, MemoryIndex, SpaceIndex, Standing, VectorSpace};
use memfold_store::{LoadRequest, MemoryStore, Snapshot};

/// A store that was read for an export: its rows and the space that will be written.
pub struct Export {
    snapshot: Snapshot,
    columns: VectorColumns,
    space: SpaceIndex,
    /// Live memories with a vector of the space, in the order in which they are written.
    rows: Vec<(Row, MemoryIndex)>,
    set: ColumnSet,
}

/// Rows written between two looks at the progress.
const BATCH: usize = 4096;

impl Export {
    /// Reads a store and chooses the space.
    ///
    /// # Errors
    /// When the store cannot be read, or no live memory has a vector of the model.
    pub fn read(
        store: &dyn MemoryStore,
        request: &LoadRequest<'_>,
        options: &ExportOptions<'_>,
    ) -> Result<Self, ExportError> {
        let mut sink = ColumnSink::new(options.scratch_dir);
        let snapshot = store.load(request, &mut sink)?;
        let columns = sink.finish()?;
        let mut by_space: Vec<Vec<(Row, MemoryIndex)>> = vec![Vec::new(); snapshot.spaces.len()];
        for (i, memory) in snapshot.memories.iter().enumerate() {
            if let (Standing::Live, Some((space, row))) =
                (&memory.standing, memory.embedding.vector())
            {
                by_space[space.0 as usize].push((row, MemoryIndex(i as u32)));
            }
        }
        let sizes = by_space.iter().map(Vec::len);
        let Some(space) = largest(&snapshot.spaces, sizes, options) else {
            return Err(ExportError::no_vectors(options, snapshot.spaces));
        };
        let rows = std::mem::take(&mut by_space[space]);
        let set = options.column_set();
        Ok(Self { snapshot, columns, space: SpaceIndex(space as u32), rows, set })
    }

    /// Writes rows in the order of their ids' bytes, which outlives every rewriting of the store.
    #[must_use]
    pub fn by_id(mut self) -> Self {
        let memories = &self.snapshot.memories;
        self.rows
            .sort_unstable_by(|(_, a), (_, b)| memories[a.index()].id.cmp(&memories[b.index()].id));
        self
    }

    /// Returns the memories in the order in which they are written.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &Memory> {
        self.rows.iter().map(|(_, index)| &self.snapshot.memories[index.index()])
    }

    /// Returns all other memories of the store, live or not, ordered by id.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Memory> {
        let mut is_written = vec![false; self.snapshot.memories.len()];
        for (_, index) in &self.rows {
            is_written[index.index()] = true;
        }
        let memories = self.snapshot.memories.iter().zip(is_written);
        let mut others: Vec<&Memory> =
            memories.filter(|(_, is_written)| !is_written).map(|(memory, _)| memory).collect();
        others.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        others.into_iter()
    }

    /// Describes the file to write.
    #[must_use]
    pub fn meta(&self) -> ColumnsMeta {
        meta(&self.snapshot.store_id, self.space(), self.set)
    }

    fn space(&self) -> &VectorSpace {
        &self.snapshot.spaces[self.space.0 as usize]
    }

    /// Writes every row; the caller finishes the file.
    ///
    /// # Errors
    /// When writing fails, or when cancelled.
    pub fn write(
        &self,
        writer: &mut dyn RecordWriter,
        progress: &dyn Progress,
    ) -> Result<Exported, ExportError> {
        let matrices = self.columns.matrices();
        let matrix = &matrices[self.space.0 as usize];
        progress.begin("write", Some(self.rows.len() as u64));
        for batch in self.rows.chunks(BATCH) {
            if progress.cancelled() {
                return Err(ExportError::Cancelled);
            }
            for &(row, index) in batch {
                let memory = &self.snapshot.memories[index.index()];
                let vector = (&*self.space().model, matrix.vector(row));
                write_record(writer, &memory.into(), vector, self.set.contains(Column::Lineage))?;
            }
            progress.advance(batch.len() as u64);
        }
        progress.end();
        let rows = self.rows.len() as u64;
        let without_vector = self.snapshot.live_count() - rows;
        Ok(Exported { rows, space: self.space().clone(), without_vector })
    }
}
