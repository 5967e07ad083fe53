//! Vectors as they come in, and tables as they go out.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float32Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use memfold_datasets::corpus::{Corpus, CorpusOptions};
use memfold_datasets::schema::VECTOR_NAMES;
use memfold_datasets::{DataError, MappedColumns};
use memfold_index::{Pool, Progress, Row, VectorError, VectorMatrix};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{
    ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule,
};
use pyo3_arrow::input::AnyArray;

use crate::work::{Kind, error, input, interrupted};

/// Vectors that were handed in: a C-contiguous array of float32, Arrow data, or paths.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    /// Lent by numpy.
    #[pyo3(transparent)]
    Numpy(Bound<'py, PyArray2<f32>>),
    /// Borrowed from the owner of the Arrow data, or copied.
    #[pyo3(transparent)]
    Arrow(PyRef<'py, ArrowVectors>),
    /// Files, and the name of their vector column.
    #[pyo3(transparent)]
    Files((Vec<PathBuf>, Option<String>)),
}

/// Vectors that are kept as long as a result refers to them.
pub(crate) enum Kept {
    Numpy(Py<PyArray2<f32>>),
    Arrow(Float32Array, usize),
    /// The rows of either that have a direction, and their numbers.
    Usable {
        values: Vec<f32>,
        dim: usize,
        rows: Vec<u64>,
        skipped: Vec<u64>,
    },
    Corpus(Box<Corpus>),
    Columns(MappedColumns),
}

impl Kept {
    /// Takes the input; reads no file yet.
    pub(crate) fn of(source: Source<'_>) -> Result<Self, (Vec<PathBuf>, Option<String>)> {
        match source {
            Source::Numpy(array) => Ok(Self::Numpy(array.unbind())),
            Source::Arrow(vectors) => Ok(Self::Arrow(vectors.values.clone(), vectors.dim)),
            Source::Files(files) => Err(files),
        }
    }

    /// Reads files.
    pub(crate) fn read(
        paths: Vec<PathBuf>,
        vector_column: Option<String>,
        progress: &dyn Progress,
    ) -> PyResult<Self> {
        let options =
            CorpusOptions { vector_column, progress, ..CorpusOptions::new(&std::env::temp_dir()) };
        let corpus = Corpus::open(&paths, &options).map_err(|failed| match failed {
            DataError::Cancelled => interrupted(),
            failed => error(Kind::Input, &failed, failed.hint()),
        })?;
        Ok(Self::Corpus(Box::new(corpus)))
    }

    /// Leaves out the rows that have no direction; rows that all have one stay where they are.
    pub(crate) fn usable(self, py: Python<'_>) -> PyResult<Self> {
        if matches!(self, Self::Corpus(_) | Self::Columns(_)) {
            return Ok(self);
        }
        let found = self.with(py, |matrix| {
            let has_direction = |row: u32| {
                let vector = matrix.vector(Row(row)).iter();
                let squared: f64 = vector.map(|&value| f64::from(value).powi(2)).sum();
                squared.is_finite() && squared > 0.0
            };
            // A matrix has fewer than 2³² rows.
            let (rows, skipped): (Vec<u32>, Vec<u32>) =
                (0..matrix.len() as u32).partition(|&row| has_direction(row));
            if skipped.is_empty() {
                return Ok(None);
            }
            let values = rows.iter().flat_map(|&row| matrix.vector(Row(row))).copied().collect();
            let numbers = |rows: Vec<u32>| rows.into_iter().map(u64::from).collect();
            let dim = matrix.dim();
            Ok(Some(Self::Usable { values, dim, rows: numbers(rows), skipped: numbers(skipped) }))
        })?;
        Ok(found.unwrap_or(self))
    }

    /// Lends the matrix to `work`, which may release the interpreter's lock.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&VectorMatrix<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        match self {
            Self::Numpy(array) => {
                let array = array.bind(py);
                let dim = array.shape()[1];
                let array = array
                    .try_readonly()
                    .map_err(|borrowed| input(borrowed, "wait until nobody writes to the array"))?;
                let values = array
                    .as_slice()
                    .map_err(|shape| input(shape, "pass numpy.ascontiguousarray(vectors)"))?;
                work(&matrix(values, dim)?)
            }
            Self::Arrow(values, dim) => work(&matrix(values.values(), *dim)?),
            Self::Usable { values, dim, .. } => work(&matrix(values, *dim)?),
            Self::Corpus(corpus) => work(&corpus.matrix()),
            Self::Columns(columns) => work(&columns.vectors()),
        }
    }

    /// Returns the number by which a row of the matrix is known outside.
    pub(crate) fn ordinal(&self, row: Row) -> u64 {
        match self {
            Self::Corpus(corpus) => corpus.ordinal(row),
            Self::Usable { rows, .. } => rows[row.index()],
            _ => row.0.into(),
        }
    }

    /// Returns the rows without a usable vector, ascending.
    pub(crate) fn skipped(&self) -> &[u64] {
        match self {
            Self::Corpus(corpus) => corpus.skipped().ordinals(),
            Self::Usable { skipped, .. } => skipped,
            _ => &[],
        }
    }
}

pub(crate) fn matrix(values: &[f32], dim: usize) -> PyResult<VectorMatrix<'_>> {
    VectorMatrix::from_slice(values, dim).map_err(unusable)
}

/// Returns the exception of vectors that cannot be used.
pub(crate) fn unusable(failed: VectorError) -> PyErr {
    let hint = match failed {
        VectorError::Dimension { .. } => "embed the queries with the model of the indexed vectors",
        VectorError::InvalidQuery { .. } | VectorError::InvalidRow { .. } => {
            "embed it again, or leave it out: it has no direction"
        }
        _ => "pass an array of shape (rows, dim)",
    };
    input(failed, hint)
}

/// Starts the workers of one call.
pub(crate) fn pool(threads: Option<usize>) -> PyResult<Pool> {
    let threads = threads.map(|threads| {
        std::num::NonZeroUsize::new(threads)
            .ok_or_else(|| input("threads is 0", "use 1 or more, or None for one per core"))
    });
    Pool::new(threads.transpose()?)
        .map_err(|failed| error(Kind::Input, failed, Some("use fewer threads".to_owned())))
}

/// Arrow data as vectors; for `memfold`'s own use.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct ArrowVectors {
    values: Float32Array,
    dim: usize,
    #[pyo3(get)]
    copied: Option<String>,
}

#[pymethods]
impl ArrowVectors {
    /// Imports an Arrow array, chunked array, record batch or table. A table's vector column is `vector_column`,
    /// else the first of vector, embedding, embeddings and emb.
    #[new]
    fn new(data: AnyArray, vector_column: Option<&str>) -> PyResult<Self> {
        let data = data.into_chunked_array()?;
        let (chunks, field) = data.into_inner();
        let (chunks, found) = match field.data_type() {
            DataType::Struct(fields) => {
                let position = vector_field(fields, vector_column)?;
                let column = |chunk: &ArrayRef| Arc::clone(chunk.as_struct().column(position));
                (chunks.iter().map(column).collect(), fields[position].data_type().clone())
            }
            found => (chunks, found.clone()),
        };
        let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        if rows == 0 {
            return Err(input("the Arrow data has no rows", "pass at least one vector"));
        }
        if let ([chunk], DataType::FixedSizeList(item, _)) = (&chunks[..], &found)
            && *item.data_type() == DataType::Float32
        {
            let list = chunk.as_fixed_size_list();
            let values = list.values().as_primitive::<Float32Type>();
            if list.null_count() == 0 && values.null_count() == 0 {
                return Self::checked(values.clone(), list.value_length() as usize, None);
            }
        }
        let (values, dim) = gathered(&chunks, &found)?;
        let copied = format!("{rows} vectors of type {found} were copied to float32");
        Self::checked(values.into(), dim, Some(copied))
    }

    /// The number of rows and of components.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.values.len() / self.dim, self.dim)
    }
}

impl ArrowVectors {
    fn checked(values: Float32Array, dim: usize, copied: Option<String>) -> PyResult<Self> {
        matrix(values.values(), dim)?;
        Ok(Self { values, dim, copied })
    }
}

/// Finds the column of vectors.
fn vector_field(fields: &arrow_schema::Fields, wanted: Option<&str>) -> PyResult<usize> {
    let names: Vec<&str> = wanted.map_or_else(|| VECTOR_NAMES.to_vec(), |name| vec![name]);
    let position =
        names.iter().find_map(|name| fields.iter().position(|field| field.name() == name));
    position.ok_or_else(|| {
        let found: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        input(
            format!("no column {}, found {}", names.join(", "), found.join(", ")),
            "name the column of vectors: vector_column=\"NAME\"",
        )
    })
}

/// Copies lists of numbers, all equally long, into one row of f32.
fn gathered(chunks: &[ArrayRef], found: &DataType) -> PyResult<(Vec<f32>, usize)> {
    let (mut values, mut dim, mut row) = (Vec::new(), None, 0);
    for chunk in chunks {
        for at in 0..chunk.len() {
            let list = match (chunk.is_null(at), found) {
                (true, _) => {
                    let message = format!("row {row} has no vector");
                    return Err(input(message, "embed this row, or leave it out"));
                }
                (_, DataType::FixedSizeList(..)) => chunk.as_fixed_size_list().value(at),
                (_, DataType::List(_)) => chunk.as_list::<i32>().value(at),
                (_, DataType::LargeList(_)) => chunk.as_list::<i64>().value(at),
                _ => return Err(not_vectors(found)),
            };
            let expected = *dim.get_or_insert(list.len());
            if list.len() != expected {
                let message =
                    format!("row {row} has {} components, expected {expected}", list.len());
                return Err(input(message, "compare vectors of one embedding model at a time"));
            }
            if list.null_count() > 0 {
                let message = format!("row {row} has a null component");
                return Err(input(message, "embed this row again, or leave it out"));
            }
            extend(&mut values, &list).ok_or_else(|| not_vectors(found))?;
            row += 1;
        }
    }
    Ok((values, dim.unwrap_or_default()))
}

fn extend(values: &mut Vec<f32>, list: &ArrayRef) -> Option<()> {
    match list.data_type() {
        DataType::Float16 => {
            let list = list.as_primitive::<Float16Type>();
            values.extend(list.values().iter().map(|value| value.to_f32()));
        }
        DataType::Float32 => values.extend_from_slice(list.as_primitive::<Float32Type>().values()),
        DataType::Float64 => {
            // Too large ones become infinite, which the engine refuses with their row.
            let list = list.as_primitive::<Float64Type>();
            values.extend(list.values().iter().map(|&value| value as f32));
        }
        _ => return None,
    }
    Some(())
}

fn not_vectors(found: &DataType) -> PyErr {
    input(
        format!("expected lists of float16, float32 or float64, found {found}"),
        "pass the column of vectors, or a table with vector_column=\"NAME\"",
    )
}

/// Columns of results, which other libraries take through the Arrow PyCapsule interface.
#[pyclass(frozen, module = "memfold")]
pub struct Table(RecordBatch);

impl Table {
    pub(crate) fn new(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        // Columns of one table are equally long.
        let fields = columns.iter().map(|(name, column)| {
            Field::new(*name, column.data_type().clone(), column.null_count() > 0)
        });
        let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(schema, columns);
        Ok(Self(batch.map_err(|failed| error(Kind::Input, failed, None))?))
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.num_rows()
    }

    fn array(&self) -> (Arc<Field>, StructArray) {
        let array = StructArray::from(self.0.clone());
        (Arc::new(Field::new("", array.data_type().clone(), false)), array)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __repr__(&self) -> String {
        format!("<memfold.Table: {} rows, columns {}>", self.rows(), self.column_names().join(", "))
    }

    /// Returns a column of numbers as a new numpy array, a column of texts or lists as a Python list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.0.column_by_name(name).ok_or_else(|| {
            pyo3::exceptions::PyKeyError::new_err(format!(
                "no column {name:?}, there are {}",
                self.column_names().join(", ")
            ))
        })?;
        match column.data_type() {
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values();
                Ok(PyArray1::from_slice(py, values).into_any())
            }
            DataType::Float64 => {
                let column = column.as_primitive::<Float64Type>();
                let values: Vec<f64> =
                    column.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
                Ok(PyArray1::from_vec(py, values).into_any())
            }
            DataType::Utf8 => {
                let texts: Vec<Option<&str>> = column.as_string::<i32>().iter().collect();
                texts.into_pyobject(py)
            }
            _ => {
                let lists = column.as_list::<i32>().iter().map(|list| {
                    let texts = list.iter().flat_map(|list| list.as_string::<i32>().iter());
                    texts.map(|text| text.unwrap_or_default().to_owned()).collect()
                });
                lists.collect::<Vec<Vec<String>>>().into_pyobject(py)
            }
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (field, array) = self.array();
        Ok(to_array_pycapsules(py, field, &array, requested_schema)?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (field, array) = self.array();
        let array: ArrayRef = Arc::new(array);
        let reader = ArrayIterator::new(std::iter::once(Ok(array)), field);
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.0.schema().as_ref())?)
    }
}
