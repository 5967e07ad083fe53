//! [`ParquetVectors`]: the vectors of a Parquet file, some rows at a time.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ListArray};
use arrow_schema::DataType;

use super::ReadParquetError;
use super::batches::ColumnSource;
use crate::columns::first_not_finite;
use crate::input::Components;
use crate::schema::{ColumnSet, ColumnsMeta, DIM_MAX, VECTOR_NAMES};

const EXPECTED: &str =
    "a list of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary of 4-byte floats";

/// Reads vectors from a Parquet file, some rows at a time.
///
/// The column is a list (of any kind) of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary that
/// holds little-endian f32; all rows have the length of the first. f64 is rounded, integers that f32
/// does not hold are an error.
///
/// # Examples
/// ```no_run
/// use memfold_datasets::ParquetVectors;
///
/// let mut reader = ParquetVectors::open("embeddings.parquet".as_ref())?;
/// let mut values = Vec::new();
/// while reader.read_rows(4096, &mut values)? > 0 {
///     assert!(values.len() % reader.dim() == 0);
/// }
/// # Ok::<(), memfold_datasets::parquet::ReadParquetError>(())
/// ```
#[derive(Debug)]
pub struct ParquetVectors {
    source: ColumnSource,
    dim: usize,
    /// Decoded values, of which those before `position` are handed out.
    decoded: Vec<f32>,
    position: usize,
}

impl ParquetVectors {
    /// Opens the column `vector`, `embedding`, `embeddings` or `emb` of the file at `path`, and
    /// decodes its first rows.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet file, has no such column, or its first rows are
    /// no vectors of one length.
    pub fn open(path: &Path) -> Result<Self, ReadParquetError> {
        Self::from_source(ColumnSource::open(path, &VECTOR_NAMES)?)
    }

    /// Opens the column `name` of the file at `path`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_column(path: &Path, name: &str) -> Result<Self, ReadParquetError> {
        Self::from_source(ColumnSource::open(path, &[name])?)
    }

    fn from_source(source: ColumnSource) -> Result<Self, ReadParquetError> {
        let is_vector = match source.data_type() {
            DataType::FixedSizeBinary(bytes) => bytes % 4 == 0,
            DataType::List(field) => Components::accept(field.data_type()),
            _ => false,
        };
        if !is_vector {
            return Err(source.type_error(EXPECTED));
        }
        let mut reader = Self { source, dim: 0, decoded: Vec::new(), position: 0 };
        reader.decode_rows()?;
        if reader.dim == 0 {
            reader.dim = reader.dim_of_empty()?;
        }
        Ok(reader)
    }

    /// Returns the dimension of a file without rows, where its metadata or type say it.
    fn dim_of_empty(&self) -> Result<usize, ReadParquetError> {
        let dim = match (self.meta(), self.source.data_type()) {
            (Some(meta), _) => Some(meta.dim as usize),
            (None, DataType::FixedSizeBinary(bytes)) => usize::try_from(bytes / 4).ok(),
            _ => None,
        };
        dim.filter(|dim| (1..=DIM_MAX).contains(dim)).ok_or_else(|| ReadParquetError::Empty {
            path: self.source.path(),
            column: self.source.column(),
        })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.source.row_count()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns what the file says about its rows; `None` for files of other programs.
    #[must_use]
    pub fn meta(&self) -> Option<ColumnsMeta> {
        let columns = ColumnSet::from_names(&self.source.file().column_names())?;
        ColumnsMeta::from_metadata(|key| self.source.file().metadata_value(key), columns).ok()
    }

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    ///
    /// # Errors
    /// When reading fails, or a row is null, of another length or not finite.
    pub fn read_rows(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, ReadParquetError> {
        values.clear();
        let wanted = rows_max.saturating_mul(self.dim);
        while values.len() < wanted {
            if self.position == self.decoded.len() && !self.decode_rows()? {
                break;
            }
            let end = self.decoded.len().min(self.position.saturating_add(wanted - values.len()));
            values.extend_from_slice(&self.decoded[self.position..end]);
            self.position = end;
        }
        Ok(values.len() / self.dim)
    }

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub fn read_all(mut self) -> Result<Vec<f32>, ReadParquetError> {
        let mut values = Vec::new();
        self.read_rows(usize::MAX, &mut values)?;
        Ok(values)
    }

    /// Decodes the next rows; returns false at the end.
    fn decode_rows(&mut self) -> Result<bool, ReadParquetError> {
        self.decoded.clear();
        self.position = 0;
        let Some((first_row, rows)) = self.source.next_rows()? else { return Ok(false) };
        if let Some(row) = rows.nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(ReadParquetError::NullRow {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + row,
            });
        }
        if let Some(lists) = rows.as_list_opt::<i32>() {
            self.decode_lists(first_row, lists)?;
        } else if let Some(blobs) = rows.as_fixed_size_binary_opt() {
            self.check_length(first_row, blobs.value_size() / 4)?;
            let bytes = blobs.value_data().as_chunks().0.iter();
            self.decoded.extend(bytes.map(|chunk| f32::from_le_bytes(*chunk)));
        } else {
            return Err(self.source.type_error(EXPECTED));
        }
        match first_not_finite(&self.decoded) {
            None => Ok(true),
            Some(at) => Err(ReadParquetError::NotFinite {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
                value: self.decoded[at],
            }),
        }
    }

    fn decode_lists(
        &mut self,
        first_row: usize,
        lists: &ListArray,
    ) -> Result<(), ReadParquetError> {
        for (row, length) in lists.offsets().lengths().enumerate() {
            self.check_length(first_row + row, length)?;
        }
        let (Some(&start), Some(&end)) = (lists.offsets().first(), lists.offsets().last()) else {
            return Ok(());
        };
        // Offsets are never negative and never fall: the array was built with that check.
        let values = lists.values().slice(start as usize, (end - start) as usize);
        if let Some(at) = values.nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(ReadParquetError::NullComponent {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
            });
        }
        let components = Components::of(&values).ok_or_else(|| self.source.type_error(EXPECTED))?;
        if let Some((at, value)) = components.first_inexact(0..values.len()) {
            return Err(ReadParquetError::Inexact {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
                value,
            });
        }
        components.append(0..values.len(), &mut self.decoded);
        Ok(())
    }

    /// Checks a row's length against the first's, which it sets.
    fn check_length(&mut self, row: usize, found: usize) -> Result<(), ReadParquetError> {
        let (path, column) = (|| self.source.path(), || self.source.column());
        if self.dim == 0 {
            if found == 0 || found > DIM_MAX {
                return Err(ReadParquetError::Dimension { path: path(), column: column(), found });
            }
            self.dim = found;
        }
        let expected = self.dim;
        if found == expected {
            return Ok(());
        }
        Err(ReadParquetError::Length { path: path(), column: column(), row, found, expected })
    }
}
