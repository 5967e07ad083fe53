//! [`Source`]: an open input file of any format, [`VectorFormat`]: which format it is, [`open`],
//! and [`vectors_of`]: which of its columns holds the vectors.

use std::fmt::Debug;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use memfold_index::Pool;

use super::arrays::{self, TENSOR_HEADER_BYTES_MAX, TENSOR_PREFIX_BYTES};
use super::arrow::{self, ArrowFile};
#[cfg(feature = "hdf5")]
use super::hdf5::open as open_hdf5;
use super::jsonl::JsonLines;
use super::matrix::MatrixFile;
use crate::error::{ColumnRole, EXPECTED_FORMATS, described};
use crate::input::{BYTE_ORDER_MARK, InputBytes};
use crate::parquet::{self, ParquetTable};
use crate::schema::{VECTOR_NAMES, key};
use crate::vectors::{ComponentType, EXPECTED, VectorCells, shape_of};
use crate::{DataError, npy};

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
    fn is_vectors_only(&self) -> bool {
        false
    }

    /// Refuses a file that another program wrote to since it was opened, where rows are still read
    /// from it.
    ///
    /// # Errors
    /// When it was changed.
    fn check_unchanged(&self) -> Result<(), DataError> {
        Ok(())
    }

    /// Returns the columns at `positions`, ascending, of all rows in order; where the format leaves
    /// the choice, in batches of `rows` rows.
    ///
    /// # Errors
    /// When a column cannot be read. A batch that cannot be read is the last.
    fn batches(&self, positions: &[usize], rows: usize) -> Result<Batches, DataError>;

    /// Returns the column at `position` of the requested rows, ascending, in some batches.
    ///
    /// # Errors
    /// When a row cannot be read.
    fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError>;
}

/// Takes rows, ascending, from batches with these numbers of rows, and decodes only the needed
/// ones.
pub(crate) fn rows_of_batches(
    batch_rows: impl Iterator<Item = usize>,
    rows: &[usize],
    mut decode: impl FnMut(usize) -> Result<RecordBatch, DataError>,
) -> Result<Vec<RecordBatch>, DataError> {
    let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
    for (at, count) in batch_rows.enumerate() {
        let end = first_row + count;
        let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
        if !here.is_empty() {
            let batch = decode(at)?;
            taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
        }
        (first_row, rows) = (end, later);
    }
    Ok(taken)
}

/// How an input is opened.
#[derive(Debug, Clone)]
pub(crate) struct SourceOptions<'a> {
    /// Which array of an npz or HDF5 file, tensor, or vector field of JSON lines is read; `None`:
    /// the one that is known to hold vectors.
    pub(crate) member: Option<String>,
    /// Where decoded rows are kept that are read again: rows of JSON lines, and of compressed
    /// arrays.
    pub(crate) scratch_dir: PathBuf,
    /// Parses JSON lines; `None`: a pool of one thread for each core.
    pub(crate) pool: Option<&'a Pool>,
}

impl Default for SourceOptions<'_> {
    fn default() -> Self {
        Self { member: None, scratch_dir: std::env::temp_dir(), pool: None }
    }
}

/// An input and its format.
pub(crate) struct Opened {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) format: VectorFormat,
}

/// Opens the file at `path`; its content decides the format.
///
/// Reads the description of the columns; for JSON lines, which have none, all rows.
pub(crate) fn open(path: &Path, options: &SourceOptions<'_>) -> Result<Opened, DataError> {
    let bytes = InputBytes::open(path)?;
    let format = VectorFormat::detect(&bytes)?;
    let bins = |component| MatrixFile::open_bin(bytes.clone(), component);
    let vecs = |component| MatrixFile::open_vecs(bytes.clone(), component);
    let member = options.member.as_deref();
    let source: Arc<dyn Source> = match format {
        VectorFormat::Columns => Arc::new(ArrowFile::open(bytes)?),
        VectorFormat::Parquet => Arc::new(ParquetTable::open(bytes)?),
        VectorFormat::Npy => Arc::new(MatrixFile::open_npy(bytes)?),
        VectorFormat::Npz => Arc::new(arrays::open_npz(bytes, member, &options.scratch_dir)?),
        VectorFormat::Safetensors => Arc::new(arrays::open_safetensors(bytes, member)?),
        VectorFormat::Hdf5 => Arc::new(open_hdf5(bytes, member)?),
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
    Ok(Opened { source, format })
}

/// Refuses an HDF5 file, which is recognised so that the error names the feature.
#[cfg(not(feature = "hdf5"))]
#[expect(clippy::needless_pass_by_value, reason = "as in a build with the feature")]
fn open_hdf5(bytes: InputBytes, _: Option<&str>) -> Result<MatrixFile, DataError> {
    Err(DataError::Format {
        path: bytes.path().into(),
        found: "an HDF5 file, and this memfold was built without the feature hdf5".into(),
        advice: "build it with `cargo install --path tools/cli --locked --features hdf5`".into(),
    })
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

/// Bytes that tell every format apart.
const START_BYTES: u64 = 64;
/// Bytes of an unknown file that an error shows.
const SHOWN_BYTES: usize = 8;

/// A format that vectors are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorFormat {
    /// Arrow IPC: a file, as [`crate::ColumnsWriter`] makes it, or a stream.
    Columns,
    /// Parquet.
    Parquet,
    /// npy.
    Npy,
    /// npz: a zip file of npy files.
    Npz,
    /// safetensors.
    Safetensors,
    /// HDF5, as ann-benchmarks.com publishes it.
    Hdf5,
    /// JSON lines: an object on each line.
    Jsonl,
    /// fvecs: f32, each row with its length before it.
    Fvecs,
    /// ivecs: i32, each row with its length before it.
    Ivecs,
    /// bvecs: u8, each row with its length before it.
    Bvecs,
    /// fbin: f32 after the numbers of rows and components.
    Fbin,
    /// f16bin: f16 after the numbers of rows and components.
    F16bin,
    /// u8bin: u8 after the numbers of rows and components.
    U8bin,
    /// i8bin: i8 after the numbers of rows and components.
    I8bin,
    /// ibin: i32 after the numbers of rows and components.
    Ibin,
}

/// The formats with their extensions, the first of which is the name, and the one type of
/// components that they hold.
const FORMATS: [(VectorFormat, &[&str], Option<ComponentType>); 15] = [
    (VectorFormat::Columns, &["arrow", "ipc", "feather"], None),
    (VectorFormat::Parquet, &["parquet", "pq"], None),
    (VectorFormat::Jsonl, &["jsonl", "ndjson"], None),
    (VectorFormat::Npy, &["npy"], None),
    (VectorFormat::Npz, &["npz"], None),
    (VectorFormat::Safetensors, &["safetensors"], None),
    (VectorFormat::Fvecs, &["fvecs"], Some(ComponentType::F32)),
    (VectorFormat::Ivecs, &["ivecs"], Some(ComponentType::I32)),
    (VectorFormat::Bvecs, &["bvecs"], Some(ComponentType::U8)),
    (VectorFormat::Fbin, &["fbin"], Some(ComponentType::F32)),
    (VectorFormat::F16bin, &["f16bin"], Some(ComponentType::F16)),
    (VectorFormat::U8bin, &["u8bin"], Some(ComponentType::U8)),
    (VectorFormat::I8bin, &["i8bin"], Some(ComponentType::I8)),
    (VectorFormat::Ibin, &["ibin"], Some(ComponentType::I32)),
    (VectorFormat::Hdf5, &["hdf5", "h5"], None),
];

impl VectorFormat {
    /// The formats that are written.
    pub const WRITTEN: [Self; 14] = {
        let mut written = [Self::Columns; 14];
        let mut at = 0;
        // HDF5 is the last of all.
        while at < written.len() {
            written[at] = FORMATS[at].0;
            at += 1;
        }
        written
    };

    /// Recognises a file that vectors are read from, by its content, else by its extension; `None`
    /// for others.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        match InputBytes::open(path) {
            Ok(bytes) => Self::detect(&bytes).ok(),
            Err(_) => Self::of_extension(path),
        }
    }

    /// Recognises the format of a file.
    pub(crate) fn detect(bytes: &InputBytes) -> Result<Self, DataError> {
        let (path, mut start) = (bytes.path(), Vec::new());
        let read = bytes.cursor(0).take(START_BYTES).read_to_end(&mut start);
        read.map_err(|source| bytes.failed(source))?;
        let by_extension = Self::of_extension(path);
        // Numbers alone may look like text, or like a stream, by chance.
        let format = Self::of_magic(&start)
            .or_else(|| by_extension.filter(|format| format.only_type().is_some()))
            .or_else(|| Self::of_start(&start))
            .or(by_extension);
        format.ok_or_else(|| {
            let shown = start[..start.len().min(SHOWN_BYTES)].escape_ascii();
            let found =
                format!("expected {EXPECTED_FORMATS}, found a file that begins with \"{shown}\"");
            DataError::format(path, found)
        })
    }

    fn entry(self) -> &'static (Self, &'static [&'static str], Option<ComponentType>) {
        let entry = FORMATS.iter().find(|(format, ..)| *format == self);
        entry.expect("every format is in the table")
    }

    /// Returns the format's name, which is its first extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1[0]
    }

    /// Returns the one type of components that the format holds; `None` where it holds all. Files
    /// of these formats have no magic bytes, so only the extension tells them apart.
    pub(crate) fn only_type(self) -> Option<ComponentType> {
        self.entry().2
    }

    /// Returns the format of a name that is written.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|format| format.name() == name)
    }

    /// Returns the format that a file is written in, by its extension.
    #[must_use]
    pub fn of_output(path: &Path) -> Option<Self> {
        Self::of_extension(path).filter(|format| Self::WRITTEN.contains(format))
    }

    /// Tells whether the format holds columns beside the vectors.
    #[must_use]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Columns | Self::Parquet | Self::Jsonl)
    }

    /// Returns the most rows that the format can count.
    pub(crate) const fn rows_max(self) -> u64 {
        match self {
            Self::Fbin | Self::F16bin | Self::U8bin | Self::I8bin | Self::Ibin => u32::MAX as u64,
            _ => u64::MAX,
        }
    }

    fn of_magic(start: &[u8]) -> Option<Self> {
        let formats = [
            (arrow::MAGIC, Self::Columns),
            (parquet::MAGIC, Self::Parquet),
            (npy::MAGIC, Self::Npy),
            (b"PK\x03\x04", Self::Npz),
            (b"\x89HDF\r\n\x1A\n", Self::Hdf5),
        ];
        formats.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, format)| format)
    }

    /// Recognises streams of Arrow, and files that begin with an object in JSON or with its length
    /// before it.
    fn of_start(start: &[u8]) -> Option<Self> {
        if start.starts_with(arrow::STREAM_START) {
            return Some(Self::Columns);
        }
        if let Some((&length, header)) = start.split_first_chunk::<TENSOR_PREFIX_BYTES>()
            && u64::from_le_bytes(length) <= TENSOR_HEADER_BYTES_MAX
            && begins_object(header)
        {
            return Some(Self::Safetensors);
        }
        let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
        begins_object(text.trim_ascii_start()).then_some(Self::Jsonl)
    }

    pub(crate) fn of_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, extensions, _)| extensions.contains(&&*extension));
        found.map(|(format, ..)| *format)
    }
}

/// Tells whether a text begins with an object in JSON.
fn begins_object(text: &[u8]) -> bool {
    let Some(inside) = text.strip_prefix(b"{") else { return false };
    let is_name_or_end = matches!(inside.trim_ascii_start().first(), Some(b'"' | b'}'));
    is_name_or_end && !inside.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_tell_the_format() {
        for format in VectorFormat::WRITTEN {
            assert_eq!(VectorFormat::from_name(format.name()), Some(format));
            let path = format!("a.b/rows.{}", format.name().to_uppercase());
            assert_eq!(VectorFormat::of_output(path.as_ref()), Some(format));
        }
        let feather = VectorFormat::of_output("rows.feather".as_ref());
        assert_eq!(feather, Some(VectorFormat::Columns));
        for name in ["rows.csv", "npy", "rows.hdf5"] {
            assert_eq!(VectorFormat::of_output(name.as_ref()), None);
        }
    }

    #[cfg(not(feature = "hdf5"))]
    #[test]
    fn hdf5_file_names_the_feature() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests-data/hdf5/h5py_contiguous.hdf5");
        let error = open(file.as_ref(), &SourceOptions::default()).err().unwrap();
        assert!(error.to_string().ends_with("built without the feature hdf5"), "{error}");
        assert!(error.hint().unwrap().contains("--features hdf5"), "{error}");
    }
}
