//! HDF5 files, as ann-benchmarks.com publishes them: [`open`].

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer};
use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::storage::RangeRequestStorage;
use hdf5_reader::{
    Dataset, Datatype, H5Type, Hdf5File as Reader, OpenOptions, SliceInfo, SliceInfoElem,
};

use super::arrays::{Candidate, INFLATED_RATIO_MAX, pick, shape_text};
use super::matrix::{Layout, MatrixFile};
use crate::DataError;
use crate::catch_panic::decoded;
use crate::input::InputBytes;
use crate::vectors::ComponentType;

/// The data set that is searched in.
const TRAIN: &str = "train";
/// Most bytes of a chunk when it is inflated.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Most bytes that are read at once: a batch, or a row of 65,536 components.
const READ_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of the header of a data set.
const OBJECT_HEADER_BYTES_MAX: usize = 4 << 20;
/// Maximum depth of nested groups that are searched.
const DEPTH_MAX: usize = 16;
/// Maximum number of a file's data sets that are examined.
const DATASETS_MAX: usize = 10_000;

/// The data set that holds the vectors.
#[derive(Clone)]
pub(super) struct DataSet {
    name: String,
    dataset: Arc<Dataset>,
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSet").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Finds the data set `member`; without a name `train`, or the one that holds vectors, in any
/// group.
pub(super) fn open(bytes: InputBytes, member: Option<&str>) -> Result<MatrixFile, DataError> {
    let damaged = |found| DataError::damaged(bytes.path(), found);
    let read = bytes.clone();
    let storage = RangeRequestStorage::new(bytes.len(), move |start, count| {
        let mut to = vec![0; count];
        read.fill(start, &mut to).map_err(Error::from)?;
        Ok(to)
    });
    let mut datasets = decoded(|| -> Result<_, Error> {
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
    Ok(MatrixFile::of_data_set(bytes, layout, DataSet { name, dataset: Arc::new(dataset) }))
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

impl DataSet {
    /// Reads the components of some rows.
    pub(super) fn read(
        &self,
        path: &Path,
        layout: Layout,
        start: usize,
        rows: usize,
    ) -> Result<Buffer, DataError> {
        let range = |start: usize, end: usize| {
            let (start, end) = (start as u64, end as u64);
            SliceInfoElem::Slice { start, end, step: 1 }
        };
        let count = rows * layout.dim;
        let rows = SliceInfo { selections: vec![range(start, start + rows), range(0, layout.dim)] };
        let read = match layout.component {
            ComponentType::F32 => self.values::<f32>(&rows, count),
            ComponentType::F64 => self.values::<f64>(&rows, count),
            ComponentType::I8 => self.values::<i8>(&rows, count),
            ComponentType::U8 => self.values::<u8>(&rows, count),
            ComponentType::I32 => self.values::<i32>(&rows, count),
            ComponentType::I64 => self.values::<i64>(&rows, count),
            ComponentType::F16 | ComponentType::Bf16 => Err("values of 16 bits".into()),
        };
        read.map_err(|found| {
            let found = format!("data set {:?}: row {start} and after: {found}", self.name);
            DataError::damaged(path, found)
        })
    }

    fn values<T: H5Type + ArrowNativeType>(
        &self,
        rows: &SliceInfo,
        count: usize,
    ) -> Result<Buffer, String> {
        let array = decoded(|| self.dataset.read_slice::<T>(rows))?;
        let values: Vec<T> = array.iter().copied().collect();
        match values.len() == count {
            true => Ok(Buffer::from_vec(values)),
            false => Err(format!("{} values, expected {count}", values.len())),
        }
    }
}

/// Limits the resources that a file can demand; nothing outside of it is read.
fn limits() -> OpenOptions {
    OpenOptions::default()
        .with_max_chunk_bytes(CHUNK_BYTES_MAX)
        .with_max_read_bytes(READ_BYTES_MAX)
        .with_max_object_header_bytes(OBJECT_HEADER_BYTES_MAX)
}

fn layout_of(dataset: &Dataset) -> Result<Layout, String> {
    let found = type_name(dataset.dtype());
    let is_read = |it: &ComponentType| *it != ComponentType::F16 && it.name() == found;
    let component = ComponentType::every()
        .find(is_read)
        .ok_or_else(|| format!("values of type {found}, expected f32, f64, i8, u8, i32 or i64"))?;
    let [rows, dim] = dataset.shape()[..] else {
        return Err(format!("shape {}, expected (rows, dim)", shape_text(dataset.shape())));
    };
    Layout::checked(rows, dim, component)
}

fn type_name(data_type: &Datatype) -> String {
    match data_type {
        Datatype::FloatingPoint { size, .. } => format!("f{}", u32::from(*size) * 8),
        Datatype::FixedPoint { size, signed: true, .. } => format!("i{}", u32::from(*size) * 8),
        Datatype::FixedPoint { size, .. } => format!("u{}", u32::from(*size) * 8),
        _ => "other values".into(),
    }
}
