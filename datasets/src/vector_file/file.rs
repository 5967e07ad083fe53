//! [`VectorFile`]: the vectors of a file of any format, as f32.

use std::path::{Path, PathBuf};

use memfold_index::Row;

use super::error::VectorFileError;
use super::format::VectorFormat;
use super::rows::InputRows;
use crate::columns::{MappedColumns, OpenColumnsError, first_not_finite};
use crate::input::{InputError, InputFile, InputOptions};
use crate::parquet::ParquetVectors;
use crate::schema::ColumnsMeta;

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
/// # Ok::<(), memfold_datasets::vector_file::VectorFileError>(())
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
    pub fn open(path: &Path) -> Result<Self, VectorFileError> {
        Self::open_member(path, None)
    }

    /// Opens the file at `path`, of which the array of an npz file, the tensor, the data set, the
    /// Parquet column or the field of JSON lines called `member` is read; other formats have no such
    /// names.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no such array.
    pub fn open_member(path: &Path, member: Option<&str>) -> Result<Self, VectorFileError> {
        let format = InputFile::detect(path)?;
        let reader = match format {
            VectorFormat::Columns => {
                let columns = MappedColumns::open(path)?;
                Reader::Columns { columns, rows_read: 0, path: path.into() }
            }
            VectorFormat::Parquet => Reader::Parquet(match member {
                None => ParquetVectors::open(path).map_err(InputError::from)?,
                Some(name) => ParquetVectors::open_column(path, name).map_err(InputError::from)?,
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
    ) -> Result<usize, VectorFileError> {
        match &mut self.reader {
            Reader::Columns { columns, rows_read, path } => {
                let count = copy_rows(columns, *rows_read, rows_max, values)
                    .map_err(|found| OpenColumnsError::Damaged { path: path.clone(), found })?;
                *rows_read += count;
                Ok(count)
            }
            Reader::Parquet(reader) => {
                Ok(reader.read_rows(rows_max, values).map_err(InputError::from)?)
            }
            Reader::Input(rows) => rows.read(rows_max, values),
        }
    }

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub fn read_all(mut self) -> Result<Vec<f32>, VectorFileError> {
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
