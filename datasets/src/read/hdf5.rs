//! HDF5 files, as ann-benchmarks.com publishes them: [`open`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::SchemaRef;
use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::storage::RangeRequestStorage;
use hdf5_reader::{
    Dataset, Datatype, H5Type, Hdf5File as Reader, OpenOptions, SliceInfo, SliceInfoElem,
};

use super::arrays::{Candidate, pick, shape_text};
use super::matrix::{Layout, batch_of};
use super::source::{Batches, Source};
use crate::DataError;
use crate::catch_panic::catch_panic;
use crate::input::InputBytes;
use crate::vectors::ComponentType;

/// The data set that is searched in.
const TRAIN: &str = "train";
/// Most bytes that a deflated byte stands for: 258 of them take at least two bits.
const INFLATED_RATIO_MAX: u64 = 1032;
/// Most bytes of a chunk when it is inflated.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Most bytes that are read at once: a batch, or a row of 65,536 components.
const READ_BYTES_MAX: usize = 16 << 20;
/// Most bytes of what describes a data set.
const OBJECT_HEADER_BYTES_MAX: usize = 4 << 20;
/// Groups within groups that are looked into.
const DEPTH_MAX: usize = 16;
/// Most data sets of a file that are looked at.
const DATASETS_MAX: usize = 10_000;

/// One data set of an HDF5 file, as one column `vector`.
#[derive(Clone)]
pub(crate) struct Hdf5File {
    bytes: InputBytes,
    name: String,
    dataset: Arc<Dataset>,
    layout: Layout,
    schema: SchemaRef,
}

impl fmt::Debug for Hdf5File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hdf5File")
            .field("bytes", &self.bytes)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Finds the data set `member`; without a name `train`, or the one that holds vectors, in any
/// group.
pub(super) fn open(bytes: InputBytes, member: Option<&str>) -> Result<Arc<dyn Source>, DataError> {
    let damaged = |found| DataError::damaged(bytes.path(), found);
    let read = bytes.clone();
    let storage = RangeRequestStorage::new(bytes.len(), move |start, count| {
        let mut to = vec![0; count];
        read.fill(start, &mut to).map_err(Error::from)?;
        Ok(to)
    });
    let mut datasets = decoded(|| {
        let reader = Reader::from_storage_with_options(Arc::new(storage), limits())?;
        let mut datasets = Vec::new();
        collect(&reader.root_group()?, "", DEPTH_MAX, &mut datasets)?;
        Ok(datasets)
    })
    .map_err(damaged)?;
    let candidates: Vec<Candidate> = datasets
        .iter()
        .map(|(name, dataset)| Candidate {
            name: name.clone(),
            is_matrix: layout_of(dataset).is_ok(),
            summary: format!("{} of {}", shape_text(dataset.shape()), type_name(dataset.dtype())),
        })
        .collect();
    let has_train = candidates.iter().any(|candidate| candidate.name == TRAIN);
    let member = member.map(|member| member.trim_matches('/')).or(has_train.then_some(TRAIN));
    let (name, dataset) = datasets.swap_remove(pick(&bytes, &candidates, member)?);
    let layout = layout_of(&dataset)
        .map_err(|found| DataError::format(bytes.path(), format!("data set {name:?}: {found}")))?;
    if layout.data_bytes() > bytes.len().saturating_mul(INFLATED_RATIO_MAX) {
        let (Layout { rows, dim, .. }, length) = (layout, bytes.len());
        return Err(damaged(format!(
            "data set {name:?}: {rows} × {dim} in a file of {length} bytes"
        )));
    }
    let (dataset, schema) = (Arc::new(dataset), layout.schema(HashMap::new()));
    Ok(Arc::new(Hdf5File { bytes, name, dataset, layout, schema }))
}

/// Collects the data sets of a group and the groups in it, with their paths.
fn collect(
    group: &Group,
    prefix: &str,
    depth_left: usize,
    datasets: &mut Vec<(String, Dataset)>,
) -> Result<(), Error> {
    let (groups, found) = group.members()?;
    let path = |name: &str| format!("{prefix}{}", name.rsplit('/').next().unwrap_or(name));
    datasets.extend(found.into_iter().map(|dataset| (path(dataset.name()), dataset)));
    for group in groups {
        // Groups may contain each other.
        if depth_left > 0 && datasets.len() < DATASETS_MAX {
            collect(&group, &format!("{}/", path(group.name())), depth_left - 1, datasets)?;
        }
    }
    Ok(())
}

impl Source for Hdf5File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn row_count(&self) -> usize {
        self.layout.rows
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        self.bytes.check_unchanged()
    }

    fn is_vectors_only(&self) -> bool {
        true
    }

    fn batches(&self, _: &[usize], _: usize) -> Result<Batches, DataError> {
        let (layout, file) = (self.layout, self.clone());
        let batches = layout.spans(layout.batch_rows());
        Ok(Box::new(batches.map(move |(start, rows)| file.batch(start, rows))))
    }
}

impl Hdf5File {
    fn batch(&self, start: usize, rows: usize) -> Result<RecordBatch, DataError> {
        let component = self.layout.component;
        let read = match component {
            ComponentType::F32 => self.read::<f32>(start, rows),
            ComponentType::F64 => self.read::<f64>(start, rows),
            ComponentType::I8 => self.read::<i8>(start, rows),
            ComponentType::U8 => self.read::<u8>(start, rows),
            ComponentType::I32 => self.read::<i32>(start, rows),
            ComponentType::I64 => self.read::<i64>(start, rows),
            ComponentType::F16 | ComponentType::Bf16 => Err("values of 16 bits".into()),
        };
        let bytes = read.map_err(|found| {
            let found = format!("data set {:?}: row {start} and after: {found}", self.name);
            DataError::damaged(self.bytes.path(), found)
        })?;
        Ok(batch_of(&self.schema, component, bytes))
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
fn limits() -> OpenOptions {
    OpenOptions::default()
        .with_max_chunk_bytes(CHUNK_BYTES_MAX)
        .with_max_read_bytes(READ_BYTES_MAX)
        .with_max_object_header_bytes(OBJECT_HEADER_BYTES_MAX)
}

/// Runs the decoder, whose asserts and errors become texts.
fn decoded<T>(decode: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
    catch_panic(decode).and_then(|decoded| decoded.map_err(|error| error.to_string()))
}

fn layout_of(dataset: &Dataset) -> Result<Layout, String> {
    let component = component_of(dataset.dtype()).ok_or_else(|| {
        let found = type_name(dataset.dtype());
        format!("values of type {found}, expected f32, f64, i8, u8, i32 or i64")
    })?;
    let [rows, dim] = dataset.shape()[..] else {
        return Err(format!("shape {}, expected (rows, dim)", shape_text(dataset.shape())));
    };
    Layout::checked(rows, dim, component)
}

const fn component_of(data_type: &Datatype) -> Option<ComponentType> {
    Some(match data_type {
        Datatype::FloatingPoint { size: 4, .. } => ComponentType::F32,
        Datatype::FloatingPoint { size: 8, .. } => ComponentType::F64,
        Datatype::FixedPoint { size: 1, signed: true, .. } => ComponentType::I8,
        Datatype::FixedPoint { size: 1, signed: false, .. } => ComponentType::U8,
        Datatype::FixedPoint { size: 4, signed: true, .. } => ComponentType::I32,
        Datatype::FixedPoint { size: 8, signed: true, .. } => ComponentType::I64,
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
