//! [`export`]: rows are written as the store is read.

use std::io;

use memfold_datasets::ColumnsMeta;
use memfold_datasets::columns::WriteColumnsError;

use super::held::Export;
use super::{ExportError, ExportOptions, Exported, RecordWriter, largest, meta, write_record};
use memfold_model::memory::VectorSpace;
use memfold_store::{LiveRow, LiveVisitor, LoadRequest, LoadStoreError, MemoryStore};

/// Begins the file of a space.
pub(super) type Create<'a> =
    dyn Fn(&ColumnsMeta) -> Result<Box<dyn RecordWriter>, WriteColumnsError> + Sync + 'a;

/// Writes the live memories that have a vector of the wanted space, in the order of the store.
///
/// They are written while they are read, and neither held nor written twice; only a store whose tables have no keys is
/// held first, its vectors in the scratch folder. `create` begins a file, once for each space that may be the largest;
/// only that one is finished, and the others leave nothing behind.
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
            let exported = export.write(&mut *writer, request.progress)?;
            writer.finish_file()?;
            Ok(exported)
        }
        Err(error) => Err(match files.failed {
            Some(failed) if matches!(error, LoadStoreError::Sink(_)) => ExportError::Write(failed),
            _ => ExportError::Load(error),
        }),
    }
}

/// The rows of each space, in a file of their own.
struct Files<'a> {
    options: &'a ExportOptions<'a>,
    create: &'a Create<'a>,
    store_id: Box<str>,
    live_rows: u64,
    spaces: Vec<VectorSpace>,
    files: Vec<SpaceFile>,
    /// What the reader is told less of.
    failed: Option<WriteColumnsError>,
}

/// The rows of one space.
struct SpaceFile {
    /// None where the space is not wanted.
    writer: Option<Box<dyn RecordWriter>>,
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
            writer.finish_file()?;
        }
        let without_vector = self.live_rows - rows;
        Ok(Exported { rows, space: self.spaces.swap_remove(chosen), without_vector })
    }

    fn write(
        &mut self,
        row: &LiveRow<'_>,
        (model, vector): (&str, &[f32]),
    ) -> Result<(), WriteColumnsError> {
        let at = self.space(model, vector.len())?;
        let file = &mut self.files[at];
        if let Some(writer) = &mut file.writer {
            write_record(&mut **writer, row, (model, vector), self.options.lineage)?;
        }
        file.rows += 1;
        Ok(())
    }

    /// Returns the position of a space, whose file is begun where it is new.
    fn space(&mut self, model: &str, dim: usize) -> Result<usize, WriteColumnsError> {
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
        vector.map_or(Ok(()), |vector| self.write(row, vector)).map_err(|failed| {
            self.failed = Some(failed);
            io::ErrorKind::Other.into()
        })
    }
}
