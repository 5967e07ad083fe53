//! [`VectorFile`]: the vectors of a file of any format, as f32.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

pub use super::source::VectorFormat;
use super::source::{Batches, DECODE_ROWS, Opened, Source, SourceOptions, open};
use crate::DataError;
use crate::error::{ColumnRole, described};
use crate::schema::{ColumnSet, ColumnsMeta, VECTOR_NAMES, key};
use crate::vectors::{EXPECTED, VectorCells, shape_of};

/// Vectors from a file of any format of [`VectorFormat`], as f32.
///
/// The content decides; a file with an unknown beginning is read by its extension, so that the
/// error is that format's. f64 is rounded; integers that f32 does not hold are an error.
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
/// # Ok::<(), memfold_datasets::DataError>(())
/// ```
pub struct VectorFile {
    path: PathBuf,
    format: VectorFormat,
    source: Arc<dyn Source>,
    batches: Batches,
    /// The rest of the current batch.
    begun: Option<RecordBatch>,
    rows_read: usize,
    dim: usize,
}

impl std::fmt::Debug for VectorFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorFile")
            .field("source", &self.source)
            .field("rows_read", &self.rows_read)
            .finish_non_exhaustive()
    }
}

impl VectorFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is of no known format, is damaged or has no vectors of one length.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::open_member(path, None)
    }

    /// Opens the file at `path`, of which the array of an npz or HDF5 file, tensor, column or field
    /// of JSON lines called `member` is read.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when the array does not exist.
    pub(crate) fn open_member(path: &Path, member: Option<&str>) -> Result<Self, DataError> {
        let options =
            SourceOptions { member: member.map(str::to_owned), ..SourceOptions::default() };
        let Opened { source, format, .. } = open(path, &options)?;
        let (position, dim) = vectors_of(&*source, path, member)?;
        let batches = source.batches(&[position], DECODE_ROWS)?;
        let path = path.into();
        Ok(Self { path, format, source, batches, begun: None, rows_read: 0, dim })
    }

    /// Returns the format that was found.
    #[must_use]
    pub const fn format(&self) -> VectorFormat {
        self.format
    }

    /// Returns the file's metadata about its rows; `None` for files of other programs.
    #[must_use]
    pub fn meta(&self) -> Option<ColumnsMeta> {
        let schema = self.source.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let columns = ColumnSet::from_names(&names)?;
        let value = |key: &str| schema.metadata().get(key).map(String::as_str);
        ColumnsMeta::from_metadata(value, columns).ok()
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

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    ///
    /// # Errors
    /// When reading fails, or a vector is missing, of another length or not finite.
    pub fn read_rows(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, DataError> {
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

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub fn read_all(mut self) -> Result<Vec<f32>, DataError> {
        let mut values = Vec::new();
        self.read_rows(usize::MAX, &mut values)?;
        Ok(values)
    }

    /// Appends the rows of a batch.
    fn append(&mut self, batch: &RecordBatch, values: &mut Vec<f32>) -> Result<(), DataError> {
        let cells = VectorCells::of(batch.column(0)).expect("the type was checked");
        for i in 0..cells.len() {
            let fault = cells.fault(i, self.dim, true).or_else(|| cells.inexact(i));
            if let Some(fault) = fault {
                let (path, row) = (self.path.clone(), self.rows_read as u64);
                return Err(DataError::Vector { path, row, fault });
            }
            cells.append(i, values);
            self.rows_read += 1;
        }
        Ok(())
    }
}

/// Finds the column of vectors: the only one of bare vectors, `name`, or the first with a usual
/// name.
pub(crate) fn vector_column(
    source: &dyn Source,
    path: &Path,
    name: Option<&str>,
) -> Result<usize, DataError> {
    if source.is_vectors_only() {
        return Ok(0);
    }
    let names = name.map_or(VECTOR_NAMES.to_vec(), |name| vec![name]);
    let position = find_column(source.schema(), path, &names, ColumnRole::Vector)?;
    let field = source.schema().field(position);
    match shape_of(field.data_type()) {
        Some(_) => Ok(position),
        None => Err(DataError::ColumnType {
            path: path.into(),
            role: ColumnRole::Vector,
            column: field.name().as_str().into(),
            expected: EXPECTED,
            found: field.data_type().to_string(),
        }),
    }
}

/// Finds the first of the columns `names`.
pub(crate) fn find_column(
    schema: &Schema,
    path: &Path,
    names: &[&str],
    role: ColumnRole,
) -> Result<usize, DataError> {
    let found = names.iter().find_map(|name| schema.index_of(name).ok());
    found.ok_or_else(|| DataError::NoColumn {
        path: path.into(),
        role,
        expected: names.join(", "),
        found: described(
            schema.fields().iter().map(|it| format!("{:?} ({})", it.name(), it.data_type())),
        ),
    })
}

/// Finds the column of vectors, and how many components these have: as its type, the first vector
/// or the file's metadata say.
pub(crate) fn vectors_of(
    source: &dyn Source,
    path: &Path,
    name: Option<&str>,
) -> Result<(usize, usize), DataError> {
    let position = vector_column(source, path, name)?;
    let schema = source.schema();
    let stated = || schema.metadata().get(key::DIM)?.parse().ok();
    let width = shape_of(schema.field(position).data_type()).and_then(|(_, width)| width);
    let dim = match width {
        Some(width) => Some(width),
        None => first_lengths(source, position, 1, 0)?.pop().or_else(stated),
    };
    match dim {
        Some(dim) => DataError::check_dim(path, dim).map(|()| (position, dim)),
        // The first row is refused when it is read.
        None if source.row_count() > 0 => Ok((position, 1)),
        None => Err(DataError::shape(path, "no rows", "at least one")),
    }
}

/// Returns how long the first vectors are, as far as they are not shorter than `length_min`.
pub(crate) fn first_lengths(
    source: &dyn Source,
    position: usize,
    count: usize,
    length_min: usize,
) -> Result<Vec<usize>, DataError> {
    let mut lengths = Vec::new();
    for batch in source.batches(&[position], DECODE_ROWS)? {
        let cells = VectorCells::of(batch?.column(0)).expect("the type was checked");
        let some = (0..cells.len()).filter_map(|i| cells.length(i));
        lengths.extend(some.filter(|it| *it >= length_min).take(count - lengths.len()));
        if lengths.len() == count {
            break;
        }
    }
    Ok(lengths)
}
