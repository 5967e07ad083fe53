//! [`export`]: rows are written as the store is read.

use std::io;

use memfold_datasets::ColumnsMeta;
use memfold_datasets::columns::WriteColumnsError;
use memfold_index::Row;

use super::{ExportError, ExportOptions, Exported, RecordWriter, largest, meta, write_record};
use crate::memory::{Memory, SpaceIndex, Standing, VectorSpace};
use crate::store::{LoadRequest, LoadStoreError, MemoryStore, VectorSink};

/// Begins the file of a space.
type Create<'a> = dyn Fn(&ColumnsMeta) -> Result<Box<dyn RecordWriter>, WriteColumnsError> + 'a;

/// Writes the live memories that have a vector of the wanted space, in the order of the store's embeddings, while they
/// are read; no vector is written twice or held.
///
/// `create` begins a file, once for each space that may be the largest; only that one is finished, and the others leave
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
    let mut sink = FileSink {
        options,
        create,
        store_id: Box::default(),
        spaces: Vec::new(),
        files: Vec::new(),
        failed: None,
    };
    let snapshot = store.load(request, &mut sink).map_err(|error| match sink.failed.take() {
        Some(failed) if matches!(error, LoadStoreError::Sink(_)) => ExportError::Write(failed),
        _ => ExportError::Load(error),
    })?;
    let FileSink { spaces, mut files, .. } = sink;
    let sizes = files.iter().map(|file| file.live_rows as usize);
    let Some(chosen) = largest(&spaces, sizes, options) else {
        return Err(ExportError::no_vectors(options, spaces));
    };
    let SpaceFile { writer, live_rows: rows, .. } = files.swap_remove(chosen);
    // The others are removed before the one is made durable.
    drop(files);
    if let Some(writer) = writer {
        writer.finish_file()?;
    }
    let without_vector = snapshot.live_count() - rows;
    Ok(Exported { rows, space: spaces[chosen].clone(), without_vector })
}

/// Writes live memories into a file for each space.
struct FileSink<'a> {
    options: &'a ExportOptions<'a>,
    create: &'a Create<'a>,
    store_id: Box<str>,
    spaces: Vec<VectorSpace>,
    files: Vec<SpaceFile>,
    /// What the reader is told less of.
    failed: Option<WriteColumnsError>,
}

/// The rows of one space.
struct SpaceFile {
    /// None before the first live row, and where the space is not wanted.
    writer: Option<Box<dyn RecordWriter>>,
    rows: u32,
    live_rows: u64,
}

impl FileSink<'_> {
    fn write(
        &mut self,
        memory: &Memory,
        space: usize,
        vector: &[f32],
    ) -> Result<(), WriteColumnsError> {
        let (named, file) = (&self.spaces[space], &mut self.files[space]);
        if file.writer.is_none() {
            let meta = meta(&self.store_id, named, self.options.column_set());
            file.writer = Some((self.create)(&meta)?);
        }
        if let Some(writer) = &mut file.writer {
            write_record(&mut **writer, memory, &named.model, vector)?;
        }
        Ok(())
    }
}

impl VectorSink for FileSink<'_> {
    fn begin(&mut self, store_id: &str) {
        self.store_id = store_id.into();
    }

    fn needs_digests(&self) -> bool {
        false
    }

    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        let next = u32::try_from(self.spaces.len()).map_err(io::Error::other)?;
        self.spaces.push(space.clone());
        self.files.push(SpaceFile { writer: None, rows: 0, live_rows: 0 });
        Ok(SpaceIndex(next))
    }

    fn push(&mut self, memory: &Memory, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        let at = space.0 as usize;
        let is_wanted = self.options.model.is_none_or(|model| *self.spaces[at].model == *model);
        if memory.standing == Standing::Live {
            if is_wanted && let Err(failed) = self.write(memory, at, vector) {
                self.failed = Some(failed);
                return Err(io::ErrorKind::Other.into());
            }
            self.files[at].live_rows += 1;
        }
        self.files[at].rows += 1;
        Ok(Row(self.files[at].rows - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.spaces.clear();
        self.files.clear();
        Ok(())
    }
}
