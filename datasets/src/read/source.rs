//! [`Source`]: an open input file of any format, and [`open`].

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::arrow::ArrowFile;
use super::format::VectorFormat;
use super::jsonl::JsonLines;
use super::matrix::MatrixFile;
use super::{hdf5, npz, safetensors};
use crate::DataError;
use crate::components::ComponentType;
use crate::input::InputBytes;
use crate::parquet::ParquetTable;

/// Rows that are decoded at once: some MB of vectors.
pub(crate) const DECODE_ROWS: usize = 1024;

/// Record batches of a file, which they keep open.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, DataError>> + Send>;

/// An open input: its columns, and its rows in batches.
pub(crate) trait Source: Debug + Send + Sync {
    /// Returns the columns.
    fn schema(&self) -> &SchemaRef;

    /// Returns the number of rows.
    fn row_count(&self) -> usize;

    /// Tells whether the file holds nothing but vectors: its one column has no name of its own.
    fn is_bare(&self) -> bool {
        false
    }

    /// Returns the columns at `positions`, ascending, of all rows in order; where the format leaves the
    /// choice, in batches of `rows` rows.
    ///
    /// # Errors
    /// When a column cannot be read. A batch that cannot be read is the last.
    fn batches(&self, positions: &[usize], rows: usize) -> Result<Batches, DataError>;

    /// Returns the column at `position` of the rows asked for, ascending, in some batches.
    ///
    /// # Errors
    /// When a row cannot be read.
    fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError> {
        let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
        for batch in self.batches(&[position], DECODE_ROWS)? {
            let batch = batch?;
            let end = first_row + batch.num_rows();
            let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
            taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
            (first_row, rows) = (end, later);
            if rows.is_empty() {
                break;
            }
        }
        Ok(taken)
    }
}

/// How an input is opened.
#[derive(Debug, Clone)]
pub(crate) struct SourceOptions {
    /// Which array of an npz or HDF5 file, tensor, or vector field of JSON lines is read; `None`: the
    /// one that is known to hold vectors.
    pub(crate) member: Option<String>,
    /// Where decoded rows are kept that are read again: those of JSON lines, and of compressed arrays.
    pub(crate) scratch_dir: PathBuf,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self { member: None, scratch_dir: std::env::temp_dir() }
    }
}

/// Opens the file at `path`, whose content tells the format, which is returned too.
///
/// Reads what describes the columns; of JSON lines, which nothing describes, all rows.
pub(crate) fn open(
    path: &Path,
    options: &SourceOptions,
) -> Result<(Arc<dyn Source>, VectorFormat), DataError> {
    let bytes = InputBytes::open(path)?;
    let format = VectorFormat::detect(&bytes)?;
    let bins = |component| MatrixFile::open_bin(bytes.clone(), component);
    let vecs = |component| MatrixFile::open_vecs(bytes.clone(), component);
    let member = options.member.as_deref();
    let source: Arc<dyn Source> = match format {
        VectorFormat::Columns => Arc::new(ArrowFile::open(bytes)?),
        VectorFormat::Parquet => Arc::new(ParquetTable::open(bytes)?),
        VectorFormat::Npy => Arc::new(MatrixFile::open_npy(bytes)?),
        VectorFormat::Npz => Arc::new(npz::open(bytes, member, &options.scratch_dir)?),
        VectorFormat::Safetensors => Arc::new(safetensors::open(bytes, member)?),
        VectorFormat::Hdf5 => hdf5::open(bytes, member)?,
        VectorFormat::Jsonl => Arc::new(JsonLines::open(&bytes, options)?),
        VectorFormat::Fvecs => Arc::new(vecs(ComponentType::F32)?),
        VectorFormat::Ivecs => Arc::new(vecs(ComponentType::I32)?),
        VectorFormat::Bvecs => Arc::new(vecs(ComponentType::U8)?),
        VectorFormat::Fbin => Arc::new(bins(ComponentType::F32)?),
        VectorFormat::F16bin => Arc::new(bins(ComponentType::F16)?),
        VectorFormat::U8bin => Arc::new(bins(ComponentType::U8)?),
        VectorFormat::I8bin => Arc::new(bins(ComponentType::I8)?),
        VectorFormat::Ibin => Arc::new(bins(ComponentType::I32)?),
    };
    Ok((source, format))
}
