//! [`InputRows`]: the vectors of an input, as f32.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::error::VectorFileError;
use crate::columns::first_not_finite;
use crate::input::{Batches, Components, InputFile};
use crate::parquet::column_list;
use crate::schema::VECTOR_NAMES;

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
    ) -> Result<Self, VectorFileError> {
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
            return Err(VectorFileError::NoVectors { path: path.into(), expected, found });
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
    ) -> Result<usize, VectorFileError> {
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
    fn append(
        &mut self,
        batch: &RecordBatch,
        values: &mut Vec<f32>,
    ) -> Result<(), VectorFileError> {
        let path = || self.path.clone();
        let vectors = batch.column(0).as_fixed_size_list();
        let row_of = |component: usize| self.rows_read + component / self.dim;
        if let Some(at) = (0..vectors.len()).find(|&i| vectors.is_null(i)) {
            return Err(VectorFileError::NullRow { path: path(), row: self.rows_read + at });
        }
        let components = Components::of(vectors.values()).expect("the type was checked");
        let (first, start) = (vectors.offset() * self.dim, values.len());
        let range = first..first + vectors.len() * self.dim;
        if let Some((at, value)) = components.first_inexact(range.clone()) {
            let (row, component) = (row_of(at - first), (at - first) % self.dim);
            return Err(VectorFileError::Inexact { path: path(), row, component, value });
        }
        components.append(range, values);
        if let Some(at) = first_not_finite(&values[start..]) {
            let (row, component, value) = (row_of(at), at % self.dim, values[start + at]);
            return Err(VectorFileError::NotFinite { path: path(), row, component, value });
        }
        self.rows_read += vectors.len();
        Ok(())
    }
}
