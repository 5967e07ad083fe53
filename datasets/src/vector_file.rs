//! [`VectorFile`]: vectors from a file of any format that is read here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use memfold_index::Row;

use crate::columns::{self, MappedColumns, OpenColumnsError, first_not_finite};
use crate::npy::{self, NpyError, NpyReader};
use crate::parquet::{self, ParquetVectors, ReadParquetError};
use crate::schema::ColumnsMeta;

/// Bytes that tell every format apart.
const START_BYTES: u64 = 8;

/// Vectors from a file of any format that is read here: column files, Parquet and npy.
///
/// The content decides; a file that begins like none of them is taken for what its extension says,
/// so that the error is that format's.
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
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Columns { columns: MappedColumns, rows_read: usize, path: PathBuf },
    Parquet(ParquetVectors),
    Npy(NpyReader<BufReader<File>>),
}

/// A format that vectors are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorFormat {
    /// A column file (Arrow IPC) as [`crate::ColumnsWriter`] makes it.
    Columns,
    /// Parquet.
    Parquet,
    /// npy.
    Npy,
}

impl VectorFormat {
    /// Recognises a file that vectors are read from, by its content, else by its extension; `None` for others.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        match Self::detect(path) {
            Ok(found) => found.ok(),
            Err(_) => Self::of_extension(path),
        }
    }

    /// Recognises the format of the file at `path`; `Err` holds its first bytes, escaped.
    pub(crate) fn detect(path: &Path) -> io::Result<Result<Self, String>> {
        let start = read_start(path)?;
        let format = Self::of_content(&start).or_else(|| Self::of_extension(path));
        Ok(format.ok_or_else(|| start.escape_ascii().to_string()))
    }

    fn of_content(start: &[u8]) -> Option<Self> {
        let formats = [
            (columns::MAGIC, Self::Columns),
            (columns::STREAM_START, Self::Columns),
            (parquet::MAGIC, Self::Parquet),
            (npy::MAGIC, Self::Npy),
        ];
        formats.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, format)| format)
    }

    pub(crate) fn of_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "arrow" | "ipc" | "feather" => Some(Self::Columns),
            "parquet" | "pq" => Some(Self::Parquet),
            "npy" => Some(Self::Npy),
            _ => None,
        }
    }
}

/// A file of vectors could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorFileError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Neither content nor extension are those of a format that is read here.
    #[error(
        "{}: expected Arrow IPC, Parquet or npy, found a file that begins with \"{found}\"",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// A column file that cannot be read.
    #[error(transparent)]
    Columns(#[from] OpenColumnsError),
    /// A Parquet file that cannot be read.
    #[error(transparent)]
    Parquet(#[from] ReadParquetError),
    /// An npy file that cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
}

impl VectorFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Unknown { .. } => Some("save it with numpy.save or as Parquet".into()),
            Self::Columns(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Npy(error) => error.hint(),
        }
    }
}

impl VectorFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is of no known format, or is damaged.
    pub fn open(path: &Path) -> Result<Self, VectorFileError> {
        let format = VectorFormat::detect(path)
            .map_err(|source| VectorFileError::Io { path: path.into(), source })?
            .map_err(|found| VectorFileError::Unknown { path: path.into(), found })?;
        let reader = match format {
            VectorFormat::Columns => {
                let columns = MappedColumns::open(path)?;
                Reader::Columns { columns, rows_read: 0, path: path.into() }
            }
            VectorFormat::Parquet => Reader::Parquet(ParquetVectors::open(path)?),
            VectorFormat::Npy => Reader::Npy(NpyReader::open(path)?),
        };
        Ok(Self { reader })
    }

    /// Returns the format that was found.
    #[must_use]
    pub const fn format(&self) -> VectorFormat {
        match self.reader {
            Reader::Columns { .. } => VectorFormat::Columns,
            Reader::Parquet(_) => VectorFormat::Parquet,
            Reader::Npy(_) => VectorFormat::Npy,
        }
    }

    /// Returns what the file says about its rows; `None` for files of other programs.
    #[must_use]
    pub fn meta(&self) -> Option<ColumnsMeta> {
        match &self.reader {
            Reader::Columns { columns, .. } => Some(columns.meta().clone()),
            Reader::Parquet(reader) => reader.meta(),
            Reader::Npy(_) => None,
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.reader {
            Reader::Columns { columns, .. } => columns.len(),
            Reader::Parquet(reader) => reader.len(),
            Reader::Npy(reader) => reader.len(),
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
            Reader::Npy(reader) => reader.dim(),
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
            Reader::Parquet(reader) => Ok(reader.read_rows(rows_max, values)?),
            Reader::Npy(reader) => Ok(reader.read_rows(rows_max, values)?),
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

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::{Component, NpyWriter};
    use crate::{ColumnsWriter, ParquetWriter};

    const ROWS: [f32; 6] = [0.5, -0.0, 1.0, 2.0, f32::MIN_POSITIVE / 2.0, 6.0];

    /// Writes the same rows in every format, under names that do not tell.
    fn write_all(folder: &Path) -> Vec<(PathBuf, VectorFormat)> {
        let path = |name: &str| folder.join(name);
        let meta = ColumnsMeta::vectors(2);
        let mut columns = ColumnsWriter::create(&path("a"), &meta).unwrap();
        let mut parquet = ParquetWriter::create(&path("b.npy"), &meta).unwrap();
        for row in ROWS.chunks(2) {
            columns.push_vector(row).unwrap();
            parquet.push_vector(row).unwrap();
        }
        columns.finish().unwrap();
        parquet.finish().unwrap();
        let mut npy = NpyWriter::create(&path("c.parquet"), 2, Component::F32).unwrap();
        npy.push(&ROWS).unwrap();
        npy.finish().unwrap();
        vec![
            (path("a"), VectorFormat::Columns),
            (path("b.npy"), VectorFormat::Parquet),
            (path("c.parquet"), VectorFormat::Npy),
        ]
    }

    #[test]
    fn every_format_is_read_by_content() {
        let folder = tempfile::tempdir().unwrap();
        for (path, format) in write_all(folder.path()) {
            let mut file = VectorFile::open(&path).unwrap();
            assert_eq!((file.format(), file.len(), file.dim()), (format, 3, 2));
            assert_eq!(file.meta().is_some(), format != VectorFormat::Npy);
            let mut values = vec![9.0];
            assert_eq!(file.read_rows(2, &mut values).unwrap(), 2);
            assert_eq!(values, ROWS[..4]);
            assert_eq!(file.read_rows(2, &mut values).unwrap(), 1);
            assert_eq!(values, ROWS[4..]);
            assert_eq!(file.read_rows(2, &mut values).unwrap(), 0);
            assert!(values.is_empty());
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let all = VectorFile::open(&path).unwrap().read_all().unwrap();
            assert_eq!(bits(&all), bits(&ROWS));
        }
    }

    #[test]
    fn what_fits_no_format_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let error = VectorFile::open(&path).unwrap_err();
            assert!(error.hint().is_some());
            error.to_string().replace(&format!("{}: ", path.display()), "")
        };
        assert_eq!(
            said("rows.csv", b"a,b\n1,2\n"),
            r#"expected Arrow IPC, Parquet or npy, found a file that begins with "a,b\n1,2\n""#
        );
        assert_eq!(
            said("rows", b""),
            r#"expected Arrow IPC, Parquet or npy, found a file that begins with """#
        );
        assert_eq!(said("rows.NPY", b"a,b\n1,2\n"), r#"it begins with "a,b\n1,2\n", no npy file"#);
        assert_eq!(
            said("rows.parquet", b"a,b\n1,2\n"),
            r#"not a readable Parquet file (it begins with "a,b\n")"#
        );
        assert!(said("rows.arrow", b"a,b\n1,2\n").starts_with("not a finished Arrow IPC file"));
        let missing = VectorFile::open(&folder.path().join("missing")).unwrap_err();
        assert!(missing.to_string().contains("missing: "), "{missing}");
    }

    #[test]
    fn a_component_damaged_in_a_column_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = write_all(folder.path()).remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        let needle: Vec<u8> = ROWS[2..4].iter().flat_map(|x| x.to_le_bytes()).collect();
        let at = bytes.windows(8).position(|window| window == needle).unwrap();
        bytes[at + 4..at + 8].copy_from_slice(&f32::INFINITY.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let error = VectorFile::open(&path).unwrap().read_all().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}: damaged: row 1: component 1 is inf", path.display())
        );
    }
}
