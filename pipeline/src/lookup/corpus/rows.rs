//! [`SearchedRows`]: the rows to search, in an index or in the file, and their ids.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memfold_datasets::Corpus;
use memfold_datasets::corpus::CorpusOptions;
use memfold_index::file::Generations;
use memfold_index::graph::verify;
use memfold_index::{Pool, Progress, Row, VectorMatrix};
use memfold_simd::Kernels;

use crate::lookup::SearchError;
use crate::lookup::files::{VERSION, read_origin};
use crate::lookup::inspect::{HasTexts, IndexDifference, VerifiedIndex, verify_files};
use crate::lookup::{IndexError, IndexFiles};

/// The rows to search.
#[derive(Debug, Clone, Copy)]
pub enum SearchedRows<'a> {
    /// In an index, which fits its file.
    Index(&'a CorpusIndex),
    /// In the file itself.
    Corpus(&'a Corpus),
}

impl<'a> SearchedRows<'a> {
    pub(super) fn matrix(self) -> VectorMatrix<'a> {
        match self {
            Self::Index(index) => index.files().columns().vectors(),
            Self::Corpus(corpus) => corpus.matrix(),
        }
    }

    /// Returns the rows of the file, including rows without a vector.
    pub(super) const fn count(self) -> u64 {
        match self {
            Self::Index(index) => index.origin().rows,
            Self::Corpus(corpus) => corpus.rows(),
        }
    }

    const fn has_ids(self) -> bool {
        match self {
            Self::Index(index) => index.origin().has_ids,
            Self::Corpus(corpus) => corpus.has_ids(),
        }
    }

    /// Returns a row's place in the file.
    pub(super) fn ordinal(self, row: Row) -> Result<u64, SearchError> {
        Ok(match self {
            Self::Index(index) => index.files().columns().rowid_at(row)?.cast_unsigned(),
            Self::Corpus(corpus) => corpus.ordinal(row),
        })
    }

    /// Returns a row's id; an empty one is none.
    pub(super) fn id(self, row: Row) -> Result<Option<&'a str>, SearchError> {
        let id = match self {
            Self::Index(index) => Some(index.files().columns().id_at(row)?),
            Self::Corpus(corpus) => corpus.id(row),
        };
        Ok(id.filter(|id| !id.is_empty()))
    }

    /// Finds the row at a place of the file.
    pub(super) fn at(self, ordinal: u64) -> Result<Row, SearchError> {
        let rows = self.count();
        if ordinal >= rows {
            return Err(SearchError::NoRow { row: ordinal, rows });
        }
        let found = match self {
            Self::Index(index) => index.files().columns().find_rowid(ordinal.cast_signed())?,
            Self::Corpus(corpus) => corpus.row_at(ordinal),
        };
        found.ok_or(SearchError::NoVector { row: ordinal })
    }

    /// Finds the row with an id; of several the first in the file.
    pub(super) fn with_id(self, id: &str) -> Result<Row, SearchError> {
        if !self.has_ids() {
            return Err(SearchError::NoIds);
        }
        let found = match self {
            _ if id.is_empty() => None,
            Self::Index(index) => self.first_indexed(index, id)?,
            Self::Corpus(corpus) => corpus.matrix().rows().find(|&row| corpus.id(row) == Some(id)),
        };
        found.ok_or_else(|| SearchError::NoId { id: id.into() })
    }

    /// Finds the row in an index, where rows are in the order of ids, then of vectors.
    fn first_indexed(self, index: &CorpusIndex, id: &str) -> Result<Option<Row>, SearchError> {
        let mut first = None;
        let count = index.files().columns().len() as u32;
        for row in (index.files().first_row(id)?.0..count).map(Row) {
            if index.files().columns().id_at(row)? != id {
                break;
            }
            let found = (self.ordinal(row)?, row);
            first = Some(first.map_or(found, |first| std::cmp::min(first, found)));
        }
        Ok(first.map(|(_, row)| row))
    }
}

/// The columns of a file to read; `None`: the usual names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct CorpusColumns {
    /// The column of the vectors of INPUT, or its array in an npz, HDF5 or safetensors file
    /// [default: vector, embedding, embeddings or emb].
    #[cfg_attr(
        feature = "clap",
        arg(id = "vector_column", long = "vector-column", value_name = "NAME")
    )]
    pub vector: Option<String>,
    /// The column of the ids of INPUT [default: id, where there is one].
    #[cfg_attr(feature = "clap", arg(id = "id_column", long = "id-column", value_name = "NAME"))]
    pub id: Option<String>,
}

impl CorpusColumns {
    /// Returns how a file is read by these columns; see [`CorpusOptions`].
    #[must_use]
    pub fn options<'a>(&self, scratch_dir: &Path, progress: &'a dyn Progress) -> CorpusOptions<'a> {
        let (vector_column, id_column) = (self.vector.clone(), self.id.clone());
        CorpusOptions { vector_column, id_column, progress, ..CorpusOptions::new(scratch_dir) }
    }
}

/// The origin of a generation, as in its `origin.json`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CorpusOrigin {
    version: u32,
    /// The file.
    pub corpus: FileVersion,
    /// The requested columns.
    pub columns: CorpusColumns,
    /// Components of each vector.
    pub dim: u32,
    /// Rows of the file.
    pub rows: u64,
    /// Rows without a usable vector.
    pub skipped: u64,
    /// Whether rows have ids.
    pub has_ids: bool,
}

/// The counts and properties found while reading a file.
pub(super) struct ReadRows {
    pub(super) dim: u32,
    pub(super) rows: u64,
    pub(super) skipped: u64,
    pub(super) has_ids: bool,
}

impl CorpusOrigin {
    pub(super) fn new(corpus: FileVersion, columns: CorpusColumns, read: ReadRows) -> Self {
        let ReadRows { dim, rows, skipped, has_ids } = read;
        Self { version: VERSION, corpus, columns, dim, rows, skipped, has_ids }
    }

    /// Reads the file; an error describes the defect.
    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        read_origin(bytes, "model", "a store, not of a file of vectors")
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("maps with text keys can be written as JSON")
    }
}

/// Bytes read at each end.
const END_BYTES: u64 = 65_536;

/// Detects changes of a file without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileVersion {
    /// Its name, for people; files may be renamed.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written last, in UTC; `None` where the system does not tell.
    pub modified: Option<String>,
    /// The blake3 of its first and its last 65,536 bytes, in hexadecimal digits.
    pub ends: String,
}

impl FileVersion {
    /// Reads the version of the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let mut ends = Vec::new();
        file.by_ref().take(END_BYTES).read_to_end(&mut ends)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(END_BYTES)))?;
        file.take(END_BYTES).read_to_end(&mut ends)?;
        let modified = metadata.modified().ok().map(jiff::Timestamp::try_from);
        Ok(Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes,
            modified: modified.and_then(Result::ok).map(|at| at.to_string()),
            ends: blake3::hash(&ends).to_string(),
        })
    }

    /// Tells whether a file is the same, under any name.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        (self.bytes, &self.modified, &self.ends) == (other.bytes, &other.modified, &other.ends)
    }
}

/// By the bytes of the id (rows without one first), then of the vector, then as in the file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowOrder<'a>(&'a str, VectorBytes<'a>, Row);

/// A vector by its bytes: f32, little-endian.
#[derive(Debug)]
struct VectorBytes<'a>(&'a [f32]);

impl VectorBytes<'_> {
    fn bytes(&self) -> impl Iterator<Item = [u8; 4]> {
        self.0.iter().map(|component| component.to_le_bytes())
    }
}

impl PartialEq for VectorBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for VectorBytes<'_> {}

impl PartialOrd for VectorBytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VectorBytes<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes().cmp(other.bytes())
    }
}

/// Returns the kept rows of a corpus in that order.
pub(super) fn sorted(corpus: &Corpus, matrix: &VectorMatrix<'_>, pool: &Pool) -> Vec<Row> {
    let mut rows: Vec<Row> = matrix.rows().collect();
    pool.sort_by_key(&mut rows, |&row| {
        let id = corpus.id(row).unwrap_or_default();
        RowOrder(id, VectorBytes(matrix.vector(row)), row)
    });
    rows
}

/// An index of a file: mapped files of one generation, and their origin.
#[derive(Debug, Clone)]
pub struct CorpusIndex {
    files: IndexFiles,
    origin: CorpusOrigin,
}

impl CorpusIndex {
    /// Opens the live generation in a folder, in constant time; `None` where nothing was ever published.
    ///
    /// # Errors
    /// When a file is missing, damaged, of another version, does not fit the others, or is of a store.
    pub fn open(folder: &Path) -> Result<Option<Self>, IndexError> {
        let Some(generation) = Generations::at(folder).current()? else { return Ok(None) };
        let (files, origin) =
            IndexFiles::open(generation, CorpusOrigin::from_json, |origin| origin.dim)?;
        Ok(Some(Self { files, origin }))
    }

    /// Tells whether the file at `path` looks as it did when it was indexed: length, time of the last change, both ends.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn fits(&self, path: &Path) -> io::Result<bool> {
        Ok(self.origin.corpus.fits(&FileVersion::take(path)?))
    }

    /// Returns its files.
    #[must_use]
    pub const fn files(&self) -> &IndexFiles {
        &self.files
    }

    /// Returns its origin.
    #[must_use]
    pub const fn origin(&self) -> &CorpusOrigin {
        &self.origin
    }
}

/// Verifies every byte of an index against its checksums, and looks up rows in its graph: 10,000,
/// or all of them where it is compared with its file too.
///
/// # Errors
/// The first damage found, or cancellation by the caller.
pub fn verify_corpus_index(
    index: &CorpusIndex,
    corpus: Option<&Corpus>,
    pool: &Pool,
    kernels: &'static Kernels,
    progress: &dyn Progress,
) -> Result<VerifiedIndex, IndexError> {
    let lookups = if corpus.is_some() { usize::MAX } else { verify::SAMPLED_LOOKUPS };
    let verified = verify_files(index.files(), HasTexts(false), lookups, pool, kernels, progress)?;
    let difference = corpus.map(|corpus| difference(index, corpus)).transpose()?;
    Ok(VerifiedIndex { difference, ..verified })
}

/// Compares every row with the one at its place in the file.
fn difference(index: &CorpusIndex, corpus: &Corpus) -> Result<IndexDifference, IndexError> {
    let columns = index.files().columns();
    let (indexed, matrix) = (columns.vectors(), corpus.matrix());
    let mut found = IndexDifference::default();
    for row in indexed.rows() {
        match corpus.row_at(columns.rowid_at(row)?.cast_unsigned()) {
            None => found.gone += 1,
            Some(at) => {
                let is_same = matrix.vector(at) == indexed.vector(row)
                    && corpus.id(at).unwrap_or_default() == columns.id_at(row)?;
                *(if is_same { &mut found.same } else { &mut found.changed }) += 1;
            }
        }
    }
    found.fresh = matrix.len() as u64 - found.same - found.changed;
    Ok(found)
}
