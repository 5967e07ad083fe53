//! [`ColumnsWriter`]: rows into a column file, with bounded memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::ArrowError;
use memfold_index::{Mapped, Row};

use super::batch::BatchBuilder;
use super::{MappedColumns, OpenColumnsError};
use crate::atomic_file::NewFile;
use crate::schema::{BATCH_ROWS, ColumnsMeta, DIM_MAX, key};

/// Buffers start at multiples of this many bytes, a cache line.
pub(crate) const ALIGNMENT: usize = 64;

/// One row to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnRecord<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Microseconds since 1970 in UTC; `None` where unreadable.
    pub created_at: Option<i64>,
    /// Categories in the store's order.
    pub categories: &'a [Box<str>],
    /// As stored.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// Where it came from.
    pub source: &'a str,
    /// The embedding model.
    pub model: &'a str,
    /// The content; written only where the file has a text column.
    pub text: Option<&'a str>,
    /// Provenance as JSON; written only where the file has a lineage column.
    pub lineage: Option<&'a str>,
    /// The vector: finite, of the file's dimension.
    pub vector: &'a [f32],
}

/// Writes a column file in batches of 65,536 rows; holds one in memory.
///
/// # Examples
/// ```
/// use memfold_datasets::{ColumnsMeta, ColumnsWriter};
///
/// let folder = tempfile::tempdir()?;
/// let mut writer = ColumnsWriter::create_unlinked(folder.path(), &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// let columns = writer.finish()?;
/// assert_eq!(columns.vectors().vector(memfold_index::Row(0)), [0.6, 0.8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ColumnsWriter {
    writer: FileWriter<NewFile>,
    path: PathBuf,
    batch: BatchBuilder,
}

/// A column file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteColumnsError {
    /// A vector needs at least one component.
    #[error("dimension must be between 1 and {DIM_MAX}, found {found}")]
    Dimension {
        /// The dimension asked for.
        found: u32,
    },
    /// A vector of another dimension.
    #[error("row {row}: vector has {found} components, expected {expected}")]
    VectorLength {
        /// The row.
        row: u32,
        /// Its components.
        found: usize,
        /// The file's dimension.
        expected: u32,
    },
    /// A vector holds NaN or an infinite value.
    #[error("row {row}: component {component} is {value}")]
    NotFinite {
        /// The row.
        row: u32,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f32,
    },
    /// The file has columns that a bare vector does not fill.
    #[error("row {row}: a bare vector in a file with record columns")]
    RecordExpected {
        /// The row.
        row: u32,
    },
    /// The file has no columns for what was given.
    #[error("row {row}: a record in a file of bare vectors")]
    VectorExpected {
        /// The row.
        row: u32,
    },
    /// Rows are numbered with 32 bits.
    #[error("more than {} rows", u32::MAX - 1)]
    TooManyRows,
    /// The system refused to write.
    #[error("write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The text of one batch does not fit its 32-bit offsets, or the format refused it.
    #[error("write {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        reason: String,
    },
    /// The finished file could not be mapped.
    #[error(transparent)]
    Open(#[from] OpenColumnsError),
}

impl WriteColumnsError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or choose another folder for the file".into())
            }
            Self::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("create the folder first".into())
            }
            _ => None,
        }
    }

    fn arrow(path: &Path, error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => Self::Write { path: path.into(), source },
            other => Self::Encode { path: path.into(), reason: other.to_string() },
        }
    }
}

impl ColumnsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        Self::start(NewFile::create(path), path, meta)
    }

    /// Begins in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn create_in(file: NewFile, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        let path = file.path().to_owned();
        Self::start(Ok(file), &path, meta)
    }

    /// Begins a file without a name in `folder`; only the result of [`finish`](Self::finish) sees it.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create_unlinked(folder: &Path, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        Self::start(NewFile::create_unlinked(folder), folder, meta)
    }

    /// Begins in an empty file that is open for reading and writing.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn from_file(file: File, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        Self::start(Ok(NewFile::from_file(file)), Path::new("unnamed file"), meta)
    }

    fn start(
        file: io::Result<NewFile>,
        path: &Path,
        meta: &ColumnsMeta,
    ) -> Result<Self, WriteColumnsError> {
        let batch = BatchBuilder::new(meta, BATCH_ROWS)?;
        let failed = |error| WriteColumnsError::arrow(path, error);
        let file = file.map_err(|source| WriteColumnsError::Write { path: path.into(), source })?;
        let options =
            IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).map_err(failed)?;
        let writer =
            FileWriter::try_new_with_options(file, batch.schema(), options).map_err(failed)?;
        Ok(Self { writer, path: path.into(), batch })
    }

    /// Returns how many rows were pushed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.batch.row_count() as usize
    }

    /// Tells whether no row was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a row with all its columns and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file holds bare vectors, or writing fails.
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, WriteColumnsError> {
        let row = self.batch.push(record)?;
        self.write_if_full().map(|()| row)
    }

    /// Appends a bare vector and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file has record columns, or writing fails.
    pub fn push_vector(&mut self, vector: &[f32]) -> Result<Row, WriteColumnsError> {
        let row = self.batch.push_vector(vector)?;
        self.write_if_full().map(|()| row)
    }

    fn write_if_full(&mut self) -> Result<(), WriteColumnsError> {
        let Some(batch) = self.batch.take_full() else { return Ok(()) };
        let written = batch.and_then(|batch| self.writer.write(&batch));
        written.map_err(|error| WriteColumnsError::arrow(&self.path, error))
    }

    /// Writes what is left, publishes the file and maps it.
    ///
    /// # Errors
    /// When writing, publishing or mapping fails; the file's place then holds what it held before.
    pub fn finish(self) -> Result<MappedColumns, WriteColumnsError> {
        let (file, path) = self.finish_file()?;
        let mapped = Mapped::from_file(&file).map_err(OpenColumnsError::from)?;
        Ok(MappedColumns::from_mapped(mapped, &path)?)
    }

    /// Writes what is left and publishes the file, without reading any of it again.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn publish(self) -> Result<(), WriteColumnsError> {
        self.finish_file().map(drop)
    }

    fn finish_file(mut self) -> Result<(File, PathBuf), WriteColumnsError> {
        let (mut writer, path) = (self.writer, self.path);
        let failed = |error| WriteColumnsError::arrow(&path, error);
        if let Some(rest) = self.batch.take_rest() {
            rest.and_then(|batch| writer.write(&batch)).map_err(failed)?;
        }
        writer.write_metadata(key::ROW_COUNT, self.batch.row_count().to_string());
        let file = writer.into_inner().map_err(failed)?;
        match file.publish() {
            Ok(file) => Ok((file, path)),
            Err(source) => Err(WriteColumnsError::Write { path, source }),
        }
    }
}

/// Returns the position of the first NaN or infinite value.
pub(crate) fn first_not_finite(values: &[f32]) -> Option<usize> {
    // The whole pass has no branch, so it runs at memory speed; the search is for the rare case.
    let finite = values.iter().fold(true, |finite, value| finite & value.is_finite());
    if finite { None } else { values.iter().position(|value| !value.is_finite()) }
}
