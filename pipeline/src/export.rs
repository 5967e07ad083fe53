//! Export: the live memories of a store with their vectors, as one column file.

use std::path::Path;

use memfold_datasets::columns::WriteColumnsError;
use memfold_datasets::{ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, ParquetWriter};
use memfold_index::{Progress, Row};
use serde_json::json;

use crate::columns::{ColumnSink, ColumnsError, VectorColumns};
use crate::memory::{Memory, MemoryIndex, SpaceIndex, Standing, VectorSpace};
use crate::store::{LoadRequest, LoadStoreError, MemoryStore, Snapshot};

/// The model's name in a store of generated vectors: nobody should take them for real ones.
pub const SYNTHETIC_MODEL: &str = "synthetic";

/// What to export, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions<'a> {
    /// Only vectors of this model; `None`: the space with most vectors.
    pub model: Option<&'a str>,
    /// Whether texts are written.
    pub text: bool,
    /// Whether it is written what each memory was folded into.
    pub lineage: bool,
    /// The folder for unlinked temporary files as large as the vectors.
    pub scratch_dir: &'a Path,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Rows written.
    pub rows: u64,
    /// Model and dimension.
    pub space: VectorSpace,
    /// Live memories that were left out because they have no vector of this space.
    pub without_vector: u64,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store could not be read.
    #[error(transparent)]
    Load(#[from] LoadStoreError),
    /// The temporary columns could not be written or mapped.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteColumnsError),
    /// No live memory has a vector (of this model).
    #[error("no vectors to export{}; the store has {}", of(model.as_deref()), listed(found))]
    NoVectors {
        /// The model asked for.
        model: Option<String>,
        /// The spaces there are.
        found: Vec<VectorSpace>,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

fn of(model: Option<&str>) -> String {
    model.map(|model| format!(" of model {model:?}")).unwrap_or_default()
}

fn listed(spaces: &[VectorSpace]) -> String {
    if spaces.is_empty() {
        return "none".to_owned();
    }
    let names = spaces.iter().map(|space| format!("{} ({})", space.model, space.dim));
    names.collect::<Vec<_>>().join(", ")
}

impl ExportError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Write(error) => error.hint(),
            Self::NoVectors { model: Some(_), .. } => {
                Some("name one of the models found with --model".to_owned())
            }
            Self::NoVectors { .. } => {
                Some("`memfold doctor` tells why vectors are left out".to_owned())
            }
            Self::Cancelled => None,
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Load(LoadStoreError::Cancelled))
    }
}

/// A column file being written, whatever its format.
pub trait RecordWriter {
    /// Appends a row.
    ///
    /// # Errors
    /// When the row does not fit or writing fails.
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError>;
}

impl RecordWriter for ColumnsWriter {
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError> {
        self.push(record).map(drop)
    }
}

impl RecordWriter for ParquetWriter {
    fn push_record(&mut self, record: &ColumnRecord<'_>) -> Result<(), WriteColumnsError> {
        self.push(record).map(drop)
    }
}

/// A store that was read for an export: its rows and the space that will be written.
pub struct Export {
    snapshot: Snapshot,
    columns: VectorColumns,
    space: SpaceIndex,
    /// Live memories with a vector of the space, in the order in which they are written.
    rows: Vec<(Row, MemoryIndex)>,
    options: ColumnSet,
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
        let wanted = |space: usize| {
            options.model.is_none_or(|model| *snapshot.spaces[space].model == *model)
                && !by_space[space].is_empty()
        };
        // The largest; among equals the first by name and dimension.
        let chosen = (0..by_space.len()).filter(|&space| wanted(space)).max_by(|&a, &b| {
            let size = by_space[a].len().cmp(&by_space[b].len());
            size.then_with(|| snapshot.spaces[b].cmp(&snapshot.spaces[a]))
        });
        let Some(space) = chosen else {
            let model = options.model.map(str::to_owned);
            return Err(ExportError::NoVectors { model, found: snapshot.spaces });
        };
        let mut rows = std::mem::take(&mut by_space[space]);
        rows.sort_unstable();
        let set = ColumnSet::Records { text: options.text, lineage: options.lineage };
        Ok(Self { snapshot, columns, space: SpaceIndex(space as u32), rows, options: set })
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
        let VectorSpace { model, dim } = self.space();
        ColumnsMeta {
            model: Some(model.clone()),
            source_hash: Some(self.snapshot.store_id.clone()),
            synthetic: **model == *SYNTHETIC_MODEL,
            columns: self.options,
            ..ColumnsMeta::vectors(*dim)
        }
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
                self.write_row(writer, memory, matrix.vector(row))?;
            }
            progress.advance(batch.len() as u64);
        }
        progress.end();
        let rows = self.rows.len() as u64;
        let without_vector = self.snapshot.live_count() - rows;
        Ok(Exported { rows, space: self.space().clone(), without_vector })
    }

    fn write_row(
        &self,
        writer: &mut dyn RecordWriter,
        memory: &Memory,
        vector: &[f32],
    ) -> Result<(), ExportError> {
        let lineage = json!({ "root_source": memory.root_source }).to_string();
        writer.push_record(&ColumnRecord {
            rowid: memory.rowid,
            id: memory.id.as_str(),
            created_at: memory.created_at.instant().map(|at| at.0),
            categories: &memory.categories,
            importance: memory.importance,
            access_count: memory.access_count,
            source: &memory.source,
            model: &self.space().model,
            text: Some(&memory.content),
            lineage: Some(&lineage),
            vector,
        })?;
        Ok(())
    }
}
