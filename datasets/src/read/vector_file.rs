//! [`VectorFile`]: the vectors of a file of any format, as f32.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use memfold_index::Row;

pub use super::format::VectorFormat;
use crate::columns::{ColumnFileError, MappedColumns, first_not_finite};
use crate::components::Components;
use crate::parquet::{ParquetVectors, column_list};
use crate::read::{Batches, InputFile, InputOptions, ReadError};
use crate::schema::{ColumnsMeta, VECTOR_NAMES};

/// Vectors from a file of any format of [`VectorFormat`], as f32.
///
/// The content decides; a file that begins like none of them is taken for what its extension says,
/// so that the error is that format's. f64 is rounded; integers that f32 does not hold are an error.
///
/// # Examples
/// ```no_run
/// use memfold_datasets::VectorFile;
///
/// let mut file = VectorFile::open("vectors.npy".as_ref())?;
/// let mut values = Vec::new();
/// while file.read_rows(4096, &mut values)? > 0 {
///     assert!(values.len() % file.dim() == 0);
/// }
/// # Ok::<(), memfold_datasets::ReadError>(())
/// ```
#[derive(Debug)]
pub struct VectorFile {
    format: VectorFormat,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Columns { columns: MappedColumns, rows_read: usize, path: PathBuf },
    Parquet(ParquetVectors),
    Input(InputRows),
}

impl VectorFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is of no known format, or is damaged.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_member(path, None)
    }

    /// Opens the file at `path`, of which the array of an npz file, the tensor, the data set, the
    /// Parquet column or the field of JSON lines called `member` is read; other formats have no such
    /// names.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no such array.
    pub(crate) fn open_member(path: &Path, member: Option<&str>) -> Result<Self, ReadError> {
        let format = InputFile::detect(path)?;
        let reader = match format {
            VectorFormat::Columns => {
                let columns = MappedColumns::open(path)?;
                Reader::Columns { columns, rows_read: 0, path: path.into() }
            }
            VectorFormat::Parquet => Reader::Parquet(match member {
                None => ParquetVectors::open(path)?,
                Some(name) => ParquetVectors::open_column(path, name)?,
            }),
            _ => {
                let member = member.map(str::to_owned);
                let options = InputOptions { member, ..InputOptions::default() };
                let file = InputFile::open_as(path, format, &options)?;
                Reader::Input(InputRows::new(&file, path, options.member.as_deref())?)
            }
        };
        Ok(Self { format, reader })
    }

    /// Returns the format that was found.
    #[must_use]
    pub const fn format(&self) -> VectorFormat {
        self.format
    }

    /// Returns what the file says about its rows; `None` for files of other programs.
    #[must_use]
    pub fn meta(&self) -> Option<ColumnsMeta> {
        match &self.reader {
            Reader::Columns { columns, .. } => Some(columns.meta().clone()),
            Reader::Parquet(reader) => reader.meta(),
            Reader::Input(_) => None,
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.reader {
            Reader::Columns { columns, .. } => columns.len(),
            Reader::Parquet(reader) => reader.len(),
            Reader::Input(rows) => rows.len(),
        }
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        match &self.reader {
            Reader::Columns { columns, .. } => columns.dim(),
            Reader::Parquet(reader) => reader.dim(),
            Reader::Input(rows) => rows.dim(),
        }
    }

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    ///
    /// # Errors
    /// When reading fails, or a vector is missing, of another length or not finite.
    pub fn read_rows(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, ReadError> {
        match &mut self.reader {
            Reader::Columns { columns, rows_read, path } => {
                let count = copy_rows(columns, *rows_read, rows_max, values)
                    .map_err(|found| ColumnFileError::Damaged { path: path.clone(), found })?;
                *rows_read += count;
                Ok(count)
            }
            Reader::Parquet(reader) => Ok(reader.read_rows(rows_max, values)?),
            Reader::Input(rows) => rows.read(rows_max, values),
        }
    }

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub fn read_all(mut self) -> Result<Vec<f32>, ReadError> {
        let mut values = Vec::new();
        self.read_rows(usize::MAX, &mut values)?;
        Ok(values)
    }
}

/// Copies the rows from `start` on; a mapped file's components were not looked at before.
fn copy_rows(
    columns: &MappedColumns,
    start: usize,
    rows_max: usize,
    values: &mut Vec<f32>,
) -> Result<usize, String> {
    let count = rows_max.min(columns.len() - start);
    let (matrix, dim) = (columns.vectors(), columns.dim());
    values.clear();
    values.reserve(count * dim);
    for row in start..start + count {
        // A column file numbers its rows with 32 bits.
        values.extend_from_slice(matrix.vector(Row(row as u32)));
    }
    match first_not_finite(values) {
        None => Ok(count),
        Some(at) => {
            Err(format!("row {}: component {} is {}", start + at / dim, at % dim, values[at]))
        }
    }
}

/// The vectors of an input, as f32.
pub(super) struct InputRows {
    path: PathBuf,
    batches: Batches,
    /// What is left of the batch that was begun.
    begun: Option<RecordBatch>,
    row_count: usize,
    rows_read: usize,
    dim: usize,
}

impl std::fmt::Debug for InputRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputRows")
            .field("path", &self.path)
            .field("row_count", &self.row_count)
            .field("rows_read", &self.rows_read)
            .field("dim", &self.dim)
            .finish_non_exhaustive()
    }
}

impl InputRows {
    /// Finds the vectors of `file`: its only column, `member`, or the first with a usual name.
    pub(super) fn new(
        file: &InputFile,
        path: &Path,
        member: Option<&str>,
    ) -> Result<Self, ReadError> {
        let schema = file.schema();
        let usual = member.map_or(&VECTOR_NAMES[..], |_| &[]).iter().copied();
        let names = || member.into_iter().chain(usual.clone());
        let position = if file.is_bare() {
            Some(0)
        } else {
            names().find_map(|name| schema.index_of(name).ok())
        };
        let vectors = position.and_then(|position| match schema.field(position).data_type() {
            DataType::FixedSizeList(item, dim) if Components::accept(item.data_type()) => {
                Some((position, usize::try_from(*dim).ok()?))
            }
            _ => None,
        });
        let Some((position, dim)) = vectors else {
            let expected = names().collect::<Vec<_>>().join(", ");
            let found = column_list(schema);
            return Err(ReadError::NoVectors { path: path.into(), expected, found });
        };
        let (batches, row_count) = (file.batches(&[position])?, file.row_count());
        Ok(Self { path: path.into(), batches, begun: None, row_count, rows_read: 0, dim })
    }

    pub(super) const fn len(&self) -> usize {
        self.row_count
    }

    pub(super) const fn dim(&self) -> usize {
        self.dim
    }

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    pub(super) fn read(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, ReadError> {
        values.clear();
        let mut count = 0;
        while count < rows_max {
            let batch = match self.begun.take() {
                Some(batch) => batch,
                None => match self.batches.next() {
                    Some(batch) => batch?,
                    None => break,
                },
            };
            let taken = batch.num_rows().min(rows_max - count);
            self.append(&batch.slice(0, taken), values)?;
            let left = batch.num_rows() - taken;
            self.begun = (left > 0).then(|| batch.slice(taken, left));
            count += taken;
        }
        Ok(count)
    }

    /// Appends the rows of a batch.
    fn append(&mut self, batch: &RecordBatch, values: &mut Vec<f32>) -> Result<(), ReadError> {
        let path = || self.path.clone();
        let vectors = batch.column(0).as_fixed_size_list();
        let row_of = |component: usize| self.rows_read + component / self.dim;
        if let Some(at) = (0..vectors.len()).find(|&i| vectors.is_null(i)) {
            return Err(ReadError::VectorFileNullRow { path: path(), row: self.rows_read + at });
        }
        let components = Components::of(vectors.values()).expect("the type was checked");
        let (first, start) = (vectors.offset() * self.dim, values.len());
        let range = first..first + vectors.len() * self.dim;
        if let Some((at, value)) = components.first_inexact(range.clone()) {
            let (row, component) = (row_of(at - first), (at - first) % self.dim);
            return Err(ReadError::VectorFileInexact { path: path(), row, component, value });
        }
        components.append(range, values);
        if let Some(at) = first_not_finite(&values[start..]) {
            let (row, component, value) = (row_of(at), at % self.dim, values[start + at]);
            return Err(ReadError::NotFinite { path: path(), row, component, value });
        }
        self.rows_read += vectors.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
