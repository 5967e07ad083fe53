//! Export for the join: vectors go to mapped columns as the store is read.

use std::io;
use std::path::{Path, PathBuf};

use memfold_datasets::DataError;
use memfold_datasets::{ColumnsMeta, ColumnsWriter, MappedColumns};
use memfold_index::{Row, VectorMatrix};

use memfold_core::memory::{SpaceIndex, VectorSpace};
use memfold_store::VectorSink;

/// Writes each space to a file without a name, which is gone when the columns are dropped.
pub(crate) struct ColumnSink {
    folder: PathBuf,
    writers: Vec<ColumnsWriter>,
}

/// The temporary columns could not be written or mapped.
#[derive(Debug, thiserror::Error)]
#[error("keep the vectors in {}: {error}", folder.display())]
pub struct ColumnsError {
    folder: PathBuf,
    #[source]
    error: DataError,
}

impl ColumnsError {
    /// A write to a folder of columns failed.
    pub(crate) fn write(folder: &Path, source: io::Error) -> Self {
        let error = DataError::Io { path: folder.to_owned(), source };
        Self { folder: folder.to_owned(), error }
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.error.hint().or_else(|| Some("set TMPDIR to a folder with more space".to_owned()))
    }
}

impl ColumnSink {
    /// Keeps files in `folder`, which needs room for all vectors.
    #[must_use]
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), writers: Vec::new() }
    }

    /// Finishes and maps all columns.
    ///
    /// # Errors
    /// When a file cannot be written or mapped.
    pub(crate) fn finish(self) -> Result<VectorColumns, ColumnsError> {
        let Self { folder, writers } = self;
        let failed = |error| ColumnsError { folder: folder.clone(), error };
        let columns = writers.into_iter().map(|writer| writer.finish().map_err(failed));
        Ok(VectorColumns { columns: columns.collect::<Result<_, _>>()? })
    }

    fn other(error: DataError) -> io::Error {
        match error {
            DataError::Io { source, .. } => source,
            error => io::Error::other(error),
        }
    }
}

impl VectorSink for ColumnSink {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        let meta =
            ColumnsMeta { model: Some(space.model.clone()), ..ColumnsMeta::vectors(space.dim) };
        let writer = ColumnsWriter::create_unlinked(&self.folder, &meta).map_err(Self::other)?;
        self.writers.push(writer);
        Ok(SpaceIndex(self.writers.len() as u32 - 1))
    }

    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        self.writers[space.0 as usize].push_vector(vector).map_err(Self::other)
    }

    fn restart(&mut self) -> io::Result<()> {
        self.writers.clear();
        Ok(())
    }
}

/// The mapped vectors of all spaces.
#[derive(Debug)]
pub(crate) struct VectorColumns {
    columns: Vec<MappedColumns>,
}

impl VectorColumns {
    /// Returns one matrix for each space, in order.
    #[must_use]
    pub(crate) fn matrices(&self) -> Vec<VectorMatrix<'_>> {
        self.columns.iter().map(MappedColumns::vectors).collect()
    }
}
