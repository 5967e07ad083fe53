//! Export: the live memories of a store with their vectors, as one column file, or as JSON Lines or CSV.
//!
//! [`export`] writes them as they are read, in the order of the store; [`Export`] holds the store to write them by id.

use std::io;
use std::path::Path;

use memfold_core::Snapshot;
use memfold_core::memory::{Memory, MemoryIndex, SpaceIndex, Status, VectorSpace};
use memfold_datasets::DataError;
use memfold_datasets::{
    Column, ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, TextRowsWriter,
};
use memfold_index::{Progress, Row};
use memfold_store::{LiveRow, LiveVisitor, LoadRequest, MemoryStore, StoreError};
use serde::Serialize;
use serde_json::json;

use super::columns::{ColumnSink, ColumnsError, VectorColumns};

/// The model's name in a store of generated vectors, so that nobody takes them for real ones.
pub const SYNTHETIC_MODEL: &str = "synthetic";

/// The content of an export.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions<'a> {
    /// Only vectors of this model; `None`: the space with most vectors.
    pub model: Option<&'a str>,
    /// Whether texts are written.
    pub text: bool,
    /// Whether the survivor of each merged memory is written.
    pub lineage: bool,
    /// The folder for unlinked temporary files as large as the vectors, where the store has to be held.
    pub scratch_dir: &'a Path,
}

impl ExportOptions<'_> {
    const fn column_set(&self) -> ColumnSet {
        ColumnSet::Records { text: self.text, lineage: self.lineage }
    }
}

/// The result of an export.
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
    Store(#[from] StoreError),
    /// The temporary columns could not be written or mapped.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] DataError),
    /// No live memory has a vector (of this model).
    #[error("no vectors to export{}; the store has {}", of(model.as_deref()), listed(found))]
    NoVectors {
        /// The requested model.
        model: Option<String>,
        /// The existing spaces.
        found: Vec<VectorSpace>,
    },
    /// The caller cancelled.
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
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
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

    fn no_vectors(options: &ExportOptions<'_>, found: Vec<VectorSpace>) -> Self {
        Self::NoVectors { model: options.model.map(str::to_owned), found }
    }

    /// Tells whether the caller cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Store(StoreError::Cancelled))
    }
}

/// Returns which of the spaces that are wanted has most rows; among equals the first by name and dimension.
fn largest(
    spaces: &[VectorSpace],
    sizes: impl Iterator<Item = usize>,
    options: &ExportOptions<'_>,
) -> Option<usize> {
    let sizes: Vec<usize> = sizes.collect();
    let wanted = |&space: &usize| {
        sizes[space] > 0 && options.model.is_none_or(|model| *spaces[space].model == *model)
    };
    (0..spaces.len()).filter(wanted).max_by(|&a, &b| {
        let size = sizes[a].cmp(&sizes[b]);
        size.then_with(|| spaces[b].cmp(&spaces[a]))
    })
}

/// Describes the file of a space.
fn meta(store_id: &str, space: &VectorSpace, columns: ColumnSet) -> ColumnsMeta {
    ColumnsMeta {
        model: Some(space.model.clone()),
        source_hash: Some(store_id.into()),
        synthetic: *space.model == *SYNTHETIC_MODEL,
        columns,
        ..ColumnsMeta::vectors(space.dim)
    }
}

fn write_record(
    writer: &mut ColumnsWriter,
    row: &LiveRow<'_>,
    model: &str,
    vector: &[f32],
    lineage: bool,
) -> Result<(), DataError> {
    let lineage = lineage.then(|| json!({ "root_source": row.root_source }).to_string());
    let record = record(row, model, vector);
    writer.push(&ColumnRecord { lineage: lineage.as_deref(), ..record }).map(drop)
}

/// A memory as columns, without its lineage.
fn record<'a>(row: &LiveRow<'a>, model: &'a str, vector: &'a [f32]) -> ColumnRecord<'a> {
    ColumnRecord {
        rowid: row.rowid,
        id: row.id,
        created_at: row.created_at.map(|at| at.0),
        categories: row.categories,
        importance: row.importance,
        access_count: row.access_count,
        source: row.source,
        model,
        text: Some(row.content),
        lineage: None,
        vector,
    }
}

/// A store that was read for an export: its rows and the space that will be written.
pub struct Export {
    snapshot: Snapshot,
    columns: VectorColumns,
    space: SpaceIndex,
    /// Live memories with a vector of the space, in the order in which they are written.
    rows: Vec<(Row, MemoryIndex)>,
    set: ColumnSet,
}

/// Rows written between two progress reports.
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
            if let (Status::Live, Some((space, row))) = (&memory.status, memory.embedding.vector())
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
        writer: &mut ColumnsWriter,
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
                write_record(
                    writer,
                    &memory.into(),
                    &self.space().model,
                    matrix.vector(row),
                    self.set.contains(Column::Lineage),
                )?;
            }
            progress.advance(batch.len() as u64);
        }
        progress.end();
        let rows = self.rows.len() as u64;
        let without_vector = self.snapshot.live_count() - rows;
        Ok(Exported { rows, space: self.space().clone(), without_vector })
    }
}

/// Begins the file of a space.
type Create<'a> = dyn Fn(&ColumnsMeta) -> Result<ColumnsWriter, DataError> + Sync + 'a;

/// Writes the live memories that have a vector of the wanted space, in the order of the store.
///
/// They are written while they are read, and neither held nor written twice; only a store with
/// tables without keys is held first, its vectors in the scratch folder. `create` begins a file,
/// once for each space that may be the largest; only that one is finished, and the others leave
/// nothing behind.
///
/// # Errors
/// When the store cannot be read, no live memory has a vector of the model, writing fails, or when cancelled. No file is
/// published then.
pub fn export(
    store: &dyn MemoryStore,
    request: &LoadRequest<'_>,
    options: &ExportOptions<'_>,
    create: &Create<'_>,
) -> Result<Exported, ExportError> {
    let mut files = Files::new(options, create);
    match store.visit_live(request, &mut files) {
        Ok(true) => files.finish(),
        Ok(false) => {
            let export = Export::read(store, request, options)?;
            let mut writer = create(&export.meta())?;
            let exported = export.write(&mut writer, request.progress)?;
            writer.publish()?;
            Ok(exported)
        }
        Err(error) => Err(match files.failed {
            Some(failed) if matches!(error, StoreError::Sink(_)) => ExportError::Write(failed),
            _ => ExportError::Store(error),
        }),
    }
}

/// The counts of [`export_texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExportedTexts {
    /// Memories written.
    pub rows: u64,
    /// How many of them with a vector.
    pub with_vector: u64,
}

/// Writes all live memories with their texts, in the order of the store; the caller finishes the file.
///
/// Each has its vector with its model where `writes_vectors`, and where the model is the wanted one.
///
/// # Errors
/// When the store cannot be read, writing fails, or when cancelled.
pub fn export_texts(
    store: &dyn MemoryStore,
    request: &LoadRequest<'_>,
    options: &ExportOptions<'_>,
    writes_vectors: bool,
    writer: &mut TextRowsWriter,
) -> Result<ExportedTexts, ExportError> {
    let mut sink = ColumnSink::new(options.scratch_dir);
    let snapshot = store.load(request, &mut sink)?;
    let columns = sink.finish()?;
    let matrices = columns.matrices();
    let progress = request.progress;
    progress.begin("write", Some(snapshot.live_count()));
    let mut exported = ExportedTexts { rows: 0, with_vector: 0 };
    let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    for memory in live {
        if exported.rows.is_multiple_of(BATCH as u64) && progress.cancelled() {
            return Err(ExportError::Cancelled);
        }
        let row = LiveRow::from(memory);
        let wanted = memory.embedding.vector().filter(|(space, _)| {
            let model = &*snapshot.spaces[space.0 as usize].model;
            writes_vectors && options.model.is_none_or(|wanted| wanted == model)
        });
        let (model, vector) = wanted.map_or(("", &[][..]), |(space, row)| {
            let model = &*snapshot.spaces[space.0 as usize].model;
            (model, matrices[space.0 as usize].vector(row))
        });
        writer.push(&record(&row, model, vector))?;
        exported.rows += 1;
        exported.with_vector += u64::from(!vector.is_empty());
        progress.advance(1);
    }
    progress.end();
    Ok(exported)
}

/// The rows of each space, in a file of their own.
struct Files<'a> {
    options: &'a ExportOptions<'a>,
    create: &'a Create<'a>,
    store_id: Box<str>,
    live_rows: u64,
    spaces: Vec<VectorSpace>,
    files: Vec<SpaceFile>,
    /// The error in full; the reader gets only its kind.
    failed: Option<DataError>,
}

/// The rows of one space.
struct SpaceFile {
    /// None where the space is not wanted.
    writer: Option<ColumnsWriter>,
    rows: u64,
}

impl<'a> Files<'a> {
    fn new(options: &'a ExportOptions<'a>, create: &'a Create<'a>) -> Self {
        Self {
            options,
            create,
            store_id: Box::default(),
            live_rows: 0,
            spaces: Vec::new(),
            files: Vec::new(),
            failed: None,
        }
    }

    /// Finishes the file of the largest space.
    fn finish(mut self) -> Result<Exported, ExportError> {
        let sizes = self.files.iter().map(|file| file.rows as usize);
        let Some(chosen) = largest(&self.spaces, sizes, self.options) else {
            return Err(ExportError::no_vectors(self.options, self.spaces));
        };
        let SpaceFile { writer, rows } = self.files.swap_remove(chosen);
        // The others are removed before the one is made durable.
        drop(self.files);
        if let Some(writer) = writer {
            writer.publish()?;
        }
        let without_vector = self.live_rows - rows;
        Ok(Exported { rows, space: self.spaces.swap_remove(chosen), without_vector })
    }

    fn write(&mut self, row: &LiveRow<'_>, model: &str, vector: &[f32]) -> Result<(), DataError> {
        let at = self.space(model, vector.len())?;
        let file = &mut self.files[at];
        if let Some(writer) = &mut file.writer {
            write_record(writer, row, model, vector, self.options.lineage)?;
        }
        file.rows += 1;
        Ok(())
    }

    /// Returns the position of a space; the file of a new space is begun.
    fn space(&mut self, model: &str, dim: usize) -> Result<usize, DataError> {
        let is_it = |space: &VectorSpace| space.dim as usize == dim && *space.model == *model;
        if let Some(known) = self.spaces.iter().position(is_it) {
            return Ok(known);
        }
        // A valid vector has at most 65,536 components.
        let space = VectorSpace { model: model.into(), dim: dim as u32 };
        let is_wanted = self.options.model.is_none_or(|wanted| wanted == model);
        let meta = meta(&self.store_id, &space, self.options.column_set());
        let writer = if is_wanted { Some((self.create)(&meta)?) } else { None };
        self.spaces.push(space);
        self.files.push(SpaceFile { writer, rows: 0 });
        Ok(self.files.len() - 1)
    }
}

impl LiveVisitor for Files<'_> {
    fn begin(&mut self, store_id: &str) -> io::Result<()> {
        *self = Self::new(self.options, self.create);
        self.store_id = store_id.into();
        Ok(())
    }

    fn visit(&mut self, row: &LiveRow<'_>, vector: Option<(&str, &[f32])>) -> io::Result<()> {
        self.live_rows += 1;
        vector.map_or(Ok(()), |(model, vector)| self.write(row, model, vector)).map_err(|failed| {
            self.failed = Some(failed);
            io::ErrorKind::Other.into()
        })
    }
}
