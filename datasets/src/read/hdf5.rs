//! [`Hdf5File`]: one data set of an HDF5 file, as ann-benchmarks.com publishes them.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::SchemaRef;
use hdf5_reader::{
    Dataset, Datatype, H5Type, Hdf5File as Reader, OpenOptions, SliceInfo, SliceInfoElem,
};

use super::ReadError;
use super::matrix::{INFLATED_RATIO_MAX, Layout, MapOwner, batch_of, map_file};
use super::npz::{Candidate, NotPicked, pick};
use crate::components::ElementType;
use crate::guarded::guarded;

/// The data set that is searched in.
const TRAIN: &str = "train";
/// Most bytes of a chunk when it is inflated.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Most bytes that are read at once: a batch, or a row of 65,536 components.
const READ_BYTES_MAX: usize = 16 << 20;
/// Most bytes of what describes a data set.
const OBJECT_HEADER_BYTES_MAX: usize = 4 << 20;

/// One data set of an HDF5 file, mapped, as one column `vector`.
#[derive(Clone)]
pub(crate) struct Hdf5File {
    path: PathBuf,
    name: String,
    dataset: Arc<Dataset>,
    layout: Layout,
    schema: SchemaRef,
}

impl fmt::Debug for Hdf5File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hdf5File")
            .field("path", &self.path)
            .field("name", &self.name)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Hdf5File {
    /// Maps the file at `path`, and finds the data set `member`; without a name `train`, or the one
    /// that holds vectors.
    pub(super) fn open(path: &Path, member: Option<&str>) -> Result<Self, ReadError> {
        let bytes = map_file(path)?;
        let length = bytes.len() as u64;
        let damaged = |found| ReadError::Damaged { path: path.into(), found };
        let dataset = decoded(|| {
            let reader = Reader::from_owner(MapOwner(bytes), options())?;
            find(&reader, member)
        });
        let dataset = dataset.map_err(damaged)?.map_err(|NotPicked { expected, found }| {
            ReadError::NoArray { path: path.into(), expected, found }
        })?;
        let name = dataset.name().to_owned();
        let layout = layout_of(&dataset).map_err(|found| ReadError::Header {
            path: path.into(),
            found: format!("data set {name:?}: {found}"),
        })?;
        if layout.data_bytes() > length.saturating_mul(INFLATED_RATIO_MAX) {
            let Layout { rows, dim, .. } = layout;
            let found = format!("data set {name:?}: {rows} × {dim} in a file of {length} bytes");
            return Err(damaged(found));
        }
        let (dataset, schema) = (Arc::new(dataset), layout.schema(HashMap::new()));
        Ok(Self { path: path.into(), name, dataset, layout, schema })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// Returns all rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + use<> {
        let (layout, file) = (self.layout, self.clone());
        layout.spans(layout.copied_rows()).map(move |(start, rows)| file.batch(start, rows))
    }

    /// Returns one row.
    pub(crate) fn batch_of_row(&self, row: usize) -> Result<RecordBatch, ReadError> {
        self.batch(row, 1)
    }

    fn batch(&self, start: usize, rows: usize) -> Result<RecordBatch, ReadError> {
        let read = match self.layout.element {
            ElementType::F32 => self.read::<f32>(start, rows),
            ElementType::F64 => self.read::<f64>(start, rows),
            ElementType::I8 => self.read::<i8>(start, rows),
            ElementType::U8 => self.read::<u8>(start, rows),
            ElementType::I32 => self.read::<i32>(start, rows),
            ElementType::I64 => self.read::<i64>(start, rows),
            ElementType::F16 | ElementType::Bf16 => Err("values of 16 bits".into()),
        };
        let bytes = read.map_err(|found| ReadError::Damaged {
            path: self.path.clone(),
            found: format!("data set {:?}: row {start} and after: {found}", self.name),
        })?;
        Ok(batch_of(&self.schema, self.layout.element, bytes))
    }

    fn read<T: H5Type + ArrowNativeType>(
        &self,
        start: usize,
        rows: usize,
    ) -> Result<Buffer, String> {
        let dim = self.layout.dim;
        let range = |start: usize, end: usize| {
            let (start, end) = (start as u64, end as u64);
            SliceInfoElem::Slice { start, end, step: 1 }
        };
        let selection = SliceInfo { selections: vec![range(start, start + rows), range(0, dim)] };
        let array = decoded(|| self.dataset.read_slice::<T>(&selection))?;
        let values: Vec<T> = array.iter().copied().collect();
        if values.len() != rows * dim {
            return Err(format!("{} values, expected {}", values.len(), rows * dim));
        }
        Ok(Buffer::from_vec(values))
    }
}

/// Limits what a file can ask for; nothing outside of it is looked at.
fn options() -> OpenOptions {
    OpenOptions::default()
        .with_max_chunk_bytes(CHUNK_BYTES_MAX)
        .with_max_read_bytes(READ_BYTES_MAX)
        .with_max_object_header_bytes(OBJECT_HEADER_BYTES_MAX)
}

/// Runs the decoder, whose asserts and errors become texts.
fn decoded<T>(decode: impl FnOnce() -> Result<T, hdf5_reader::error::Error>) -> Result<T, String> {
    guarded(decode).and_then(|decoded| decoded.map_err(|error| error.to_string()))
}

type Found = Result<Dataset, NotPicked>;

/// Finds a data set: `member` by its path, else among those of the root.
fn find(reader: &Reader, member: Option<&str>) -> Result<Found, hdf5_reader::error::Error> {
    let is_nested = member.is_some_and(|member| member.trim_matches('/').contains('/'));
    if let Some(member) = member.filter(|_| is_nested) {
        return Ok(reader.dataset(member).map_err(|error| NotPicked {
            expected: format!("a data set {member:?}"),
            found: error.to_string(),
        }));
    }
    let mut datasets = reader.root_group()?.datasets()?;
    let name_of = |dataset: &Dataset| dataset.name().trim_start_matches('/').to_owned();
    let candidate = |dataset: &Dataset| Candidate {
        name: name_of(dataset),
        is_matrix: layout_of(dataset).is_ok(),
        summary: summary(dataset),
    };
    let candidates: Vec<Candidate> = datasets.iter().map(candidate).collect();
    let has_train = candidates.iter().any(|candidate| candidate.name == TRAIN);
    let member = member.map(|member| member.trim_matches('/')).or(has_train.then_some(TRAIN));
    Ok(pick(&candidates, member).map(|at| datasets.swap_remove(at)))
}

fn layout_of(dataset: &Dataset) -> Result<Layout, String> {
    let element = element_of(dataset.dtype()).ok_or_else(|| {
        let found = type_name(dataset.dtype());
        format!("values of type {found}, expected f32, f64, i8, u8, i32 or i64")
    })?;
    let [rows, dim] = dataset.shape()[..] else {
        return Err(format!("shape {}, expected (rows, dim)", shape_text(dataset)));
    };
    Layout::checked(rows, dim, element)
}

const fn element_of(data_type: &Datatype) -> Option<ElementType> {
    Some(match data_type {
        Datatype::FloatingPoint { size: 4, .. } => ElementType::F32,
        Datatype::FloatingPoint { size: 8, .. } => ElementType::F64,
        Datatype::FixedPoint { size: 1, signed: true, .. } => ElementType::I8,
        Datatype::FixedPoint { size: 1, signed: false, .. } => ElementType::U8,
        Datatype::FixedPoint { size: 4, signed: true, .. } => ElementType::I32,
        Datatype::FixedPoint { size: 8, signed: true, .. } => ElementType::I64,
        _ => return None,
    })
}

fn type_name(data_type: &Datatype) -> String {
    match data_type {
        Datatype::FloatingPoint { size, .. } => format!("f{}", u32::from(*size) * 8),
        Datatype::FixedPoint { size, signed: true, .. } => format!("i{}", u32::from(*size) * 8),
        Datatype::FixedPoint { size, .. } => format!("u{}", u32::from(*size) * 8),
        _ => "other values".into(),
    }
}

fn summary(dataset: &Dataset) -> String {
    format!("{} of {}", shape_text(dataset), type_name(dataset.dtype()))
}

fn shape_text(dataset: &Dataset) -> String {
    let sizes: Vec<String> = dataset.shape().iter().map(u64::to_string).collect();
    format!("({})", sizes.join(", "))
}
