//! Vectors of several files as one matrix: [`Corpus`].
//!
//! Rows keep the place that they have over all files in the order of the arguments, their
//! *ordinal*. Rows without a usable vector are skipped and counted; the others, in order, are the
//! rows of the matrix. Vectors are copied, small corpora to memory and large ones to a file without
//! a name: changes to the files by other programs do not affect them.

mod load;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch};
use arrow_schema::Schema;
use memfold_index::{NoProgress, Pool, Progress, Row, VectorMatrix};

use self::load::{SourceFile, Storage, load};
use crate::DataError;
use crate::error::ColumnRole;
use crate::read::{CellKind, Source, Texts, find_column, vector_column};
use crate::schema::{Column, key};
use crate::vectors::shape_of;

/// How a corpus is read.
pub struct CorpusOptions<'a> {
    /// The vector column, or the array of an npz or HDF5 file, or tensor; `None`: `vector`,
    /// `embedding`, `embeddings` or `emb`, or the array that is known to hold vectors. Other files
    /// of bare vectors have no names.
    pub vector_column: Option<String>,
    /// The column of ids, which every file must have; `None`: `id`, where a file has it.
    pub id_column: Option<String>,
    /// The column of which the largest value survives; every file must have it.
    pub order_column: Option<String>,
    /// Where the vectors of a large corpus are kept: as large as the vectors in f32.
    pub scratch_dir: PathBuf,
    /// Parses JSON lines; `None`: a pool of one thread for each core.
    pub pool: Option<&'a Pool>,
    /// Receives the number of rows read, and says whether to cancel.
    pub progress: &'a dyn Progress,
}

impl CorpusOptions<'static> {
    /// The columns by their usual names, no order, no progress.
    #[must_use]
    pub fn new(scratch_dir: &Path) -> Self {
        Self {
            vector_column: None,
            id_column: None,
            order_column: None,
            scratch_dir: scratch_dir.into(),
            pool: None,
            progress: &NoProgress,
        }
    }
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its position in the file, from 0.
    pub row: u64,
}

/// The rows of several files, and their vectors.
///
/// Each file is opened once and stays open: excerpts and annotated copies are read from it.
///
/// # Examples
/// ```
/// use memfold_datasets::corpus::{Corpus, CorpusOptions};
/// use memfold_datasets::npy::{Component, NpyWriter};
/// use memfold_index::Row;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("vectors.npy");
/// let mut writer = NpyWriter::create(&path, 2, Component::F32)?;
/// writer.push(&[0.6, 0.8, 0.0, 0.0, 1.0, 0.0])?;
/// writer.finish()?;
///
/// let corpus = Corpus::open(&[path], &CorpusOptions::new(folder.path()))?;
/// assert_eq!((corpus.rows(), corpus.matrix().len(), corpus.skipped().len()), (3, 2, 1));
/// assert_eq!(corpus.ordinal(Row(1)), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Corpus {
    files: Vec<SourceFile>,
    dim: usize,
    row_count: u64,
    storage: Storage,
    skipped: SkippedRows,
    ids: Option<LargeStringArray>,
    order_keys: Option<Vec<u32>>,
    /// The requested column.
    id_column: Option<String>,
}

impl Corpus {
    /// Reads the rows of the files at `paths`, in this order.
    ///
    /// All possible differences between files are checked before rows are read.
    ///
    /// # Errors
    /// When a file cannot be read, is of no known format or damaged, lacks a requested column, or
    /// holds vectors of another dimension than the first; when the scratch folder cannot take the
    /// vectors, or the caller cancels. Rows without a usable vector are not an error.
    pub fn open(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Self, DataError> {
        load(paths, options)
    }

    /// Returns the vectors of the kept rows.
    ///
    /// Where no file tells a dimension, the matrix is empty.
    #[must_use]
    pub fn matrix(&self) -> VectorMatrix<'_> {
        self.storage.matrix()
    }

    /// Returns the number of components of each vector; 0 where no file tells.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of rows of all files, including skipped ones.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.row_count
    }

    /// Returns the rows that were skipped.
    #[must_use]
    pub const fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    /// Returns the paths of the files in their order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns the embedding model that the metadata of the first file name.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let metadata = self.files.first()?.source.schema().metadata();
        metadata.get(key::MODEL).map(String::as_str)
    }

    /// Returns the files, open, with their paths.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Path, &dyn Source)> {
        self.files.iter().map(|file| (file.path.as_path(), &*file.source))
    }

    /// Refuses files that another program wrote to since they were opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), DataError> {
        self.files.iter().try_for_each(|file| file.source.check_unchanged())
    }

    /// Returns the position of a kept row over all files. Costs a binary search over skipped rows.
    #[must_use]
    pub fn ordinal(&self, row: Row) -> u64 {
        self.skipped.ordinal(row)
    }

    /// Returns the kept row at `ordinal`; `None` where it was skipped or there is none.
    #[must_use]
    pub fn row_at(&self, ordinal: u64) -> Option<Row> {
        (ordinal < self.rows()).then(|| self.skipped.row(ordinal))?
    }

    /// Returns the file of the row at `ordinal`, and its position there.
    ///
    /// # Panics
    /// When the row does not exist.
    #[must_use]
    pub fn place(&self, ordinal: u64) -> Place<'_> {
        let (file, row) = self.file_of(ordinal);
        Place { path: &self.files[file].path, row }
    }

    /// Returns the position of the file that holds the row at `ordinal`, and the row's place there.
    fn file_of(&self, ordinal: u64) -> (usize, u64) {
        assert!(ordinal < self.row_count, "row {ordinal} of {}", self.row_count);
        let file = self.files.partition_point(|file| file.first_ordinal <= ordinal) - 1;
        // Files without rows share their first ordinal with the next; the last of them has the row.
        (file, ordinal - self.files[file].first_ordinal)
    }

    /// Tells whether at least one file has ids.
    #[must_use]
    pub const fn has_ids(&self) -> bool {
        self.ids.is_some()
    }

    /// Returns the name of the requested column, or `id` where a file has it.
    #[must_use]
    pub fn id_column(&self) -> Option<&str> {
        self.has_ids().then(|| self.id_column.as_deref().unwrap_or("id"))
    }

    /// Returns the id of a kept row as text; bytes are hexadecimal.
    #[must_use]
    pub fn id(&self, row: Row) -> Option<&str> {
        let ids: &LargeStringArray = self.ids.as_ref()?;
        ids.is_valid(row.index()).then(|| ids.value(row.index()))
    }

    /// Returns the dense rank of each kept row in the order column, from 0: the row with the larger
    /// value has the larger rank, equal values have equal ranks, nulls and NaN the lowest.
    ///
    /// Numbers and times are compared by value, texts as times if each of them is one, else by
    /// their bytes. `None` where no order was requested.
    #[must_use]
    pub fn order_keys(&self) -> Option<&[u32]> {
        self.order_keys.as_deref()
    }

    /// Reads the texts of some rows from the files again: column `text` or `content`.
    ///
    /// The result is in the order of `rows`; `None` where the column is missing, or has no text.
    /// Meant for a few rows: each costs about a page of its file.
    ///
    /// # Errors
    /// When a file cannot be read any more, or was changed.
    pub fn excerpts(&self, rows: &[Row]) -> Result<Vec<Option<String>>, DataError> {
        self.check_unchanged()?;
        let mut wanted: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for (at, &row) in rows.iter().enumerate() {
            let (file, row) = self.file_of(self.ordinal(row));
            wanted.entry(file).or_default().entry(row as usize).or_default().push(at);
        }
        let mut texts = vec![None; rows.len()];
        for (file, rows) in wanted {
            let positions: Vec<usize> = rows.keys().copied().collect();
            let found = texts_of(&*self.files[file].source, &positions)?;
            for (text, takers) in found.into_iter().zip(rows.values()) {
                takers.iter().for_each(|&at| texts[at].clone_from(&text));
            }
        }
        Ok(texts)
    }
}

/// Reads the texts of some rows of a file, ascending.
fn texts_of(file: &dyn Source, rows: &[usize]) -> Result<Vec<Option<String>>, DataError> {
    let Some(position) = text_column(file.schema()) else { return Ok(Vec::new()) };
    let mut texts = Vec::with_capacity(rows.len());
    for batch in file.batches_of_rows(position, rows)? {
        let column = Texts::of(batch.column(0));
        let text = |i| column.as_ref().and_then(|column| column.get(i)).map(str::to_owned);
        texts.extend((0..batch.num_rows()).map(text));
    }
    Ok(texts)
}

/// Columns that hold a row's text, the first that is there counts.
const TEXT_NAMES: [&str; 2] = ["text", "content"];

/// The columns of one file that a corpus reads, by their positions in the file.
#[derive(Debug, Clone, Copy)]
struct Picked {
    vector: usize,
    /// Components of each vector, where the type says how many.
    width: Option<usize>,
    id: Option<usize>,
    order: Option<(usize, CellKind)>,
}

impl Picked {
    fn from_source(
        source: &dyn Source,
        path: &Path,
        options: &CorpusOptions<'_>,
    ) -> Result<Self, DataError> {
        let schema = source.schema();
        let vector = vector_column(source, path, options.vector_column.as_deref())?;
        let (_, width) =
            shape_of(schema.field(vector).data_type()).expect("the column holds vectors");
        let find = |name: &str, role| {
            let position = find_column(schema, path, &[name], role)?;
            Ok::<_, DataError>((position, kind_of(schema, path, position, role)?))
        };
        let id = match &options.id_column {
            Some(name) => Some(find(name, ColumnRole::Id)?.0),
            None if schema.index_of(Column::Id.name()).is_ok() => {
                Some(find(Column::Id.name(), ColumnRole::Id)?.0)
            }
            None => None,
        };
        let order = options.order_column.as_deref().map(|name| find(name, ColumnRole::Order));
        Ok(Self { vector, width, id, order: order.transpose()? })
    }

    /// Returns the positions of all columns, ascending.
    fn positions(&self) -> Vec<usize> {
        let mut positions = vec![self.vector];
        positions.extend(self.id);
        positions.extend(self.order.map(|(position, _)| position));
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Returns the column at `position` of the file, from a batch of
    /// [`positions`](Self::positions).
    fn column<'a>(&self, batch: &'a RecordBatch, position: usize) -> &'a ArrayRef {
        let at = self.positions().iter().position(|&other| other == position);
        batch.column(at.expect("the position is one of those read"))
    }
}

/// Returns the position of the column that holds a row's text.
fn text_column(schema: &Schema) -> Option<usize> {
    let position = TEXT_NAMES.iter().find_map(|name| schema.index_of(name).ok())?;
    let kind = CellKind::of(schema.field(position).data_type());
    (kind == Some(CellKind::Text)).then_some(position)
}

/// Returns the kind of the column at `position`, which must suit its role.
fn kind_of(
    schema: &Schema,
    path: &Path,
    position: usize,
    role: ColumnRole,
) -> Result<CellKind, DataError> {
    let field = schema.field(position);
    let (refused, expected) = match role {
        ColumnRole::Id => (CellKind::Time, "text, numbers or bytes"),
        _ => (CellKind::Binary, "numbers, times or text"),
    };
    let kind = CellKind::of(field.data_type()).filter(|kind| *kind != refused);
    kind.ok_or_else(|| DataError::ColumnType {
        path: path.into(),
        role,
        column: field.name().as_str().into(),
        expected,
        found: field.data_type().to_string(),
    })
}

/// Rows named for each reason.
const NAMED_ROWS_MAX: usize = 3;

/// Why a row takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// The vector, or one of its components, is null.
    VectorNull,
    /// The vector has another length than most.
    VectorLength,
    /// A component is NaN or infinite, or too large for 32 bits.
    VectorNotFinite,
    /// All components are zero, so there is no direction to compare.
    VectorZero,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [Self; 4] =
        [Self::VectorNull, Self::VectorLength, Self::VectorNotFinite, Self::VectorZero];

    /// Returns the reason's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VectorNull => "vector_null",
            Self::VectorLength => "vector_length",
            Self::VectorNotFinite => "vector_not_finite",
            Self::VectorZero => "vector_zero",
        }
    }
}

/// A row that was skipped, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// Why.
    pub reason: SkipReason,
    /// Its file.
    pub path: PathBuf,
    /// Its position in the file, from 0.
    pub row: u64,
}

/// Rows without a usable vector, counted by reason and kept in their place.
#[derive(Debug, Clone, Default)]
pub struct SkippedRows {
    counts: [u64; SkipReason::ALL.len()],
    examples: Vec<SkippedRow>,
    /// Ascending.
    ordinals: Vec<u64>,
}

impl SkippedRows {
    /// Adds the row at `ordinal`, the largest so far; `row` tells its place.
    fn add(&mut self, ordinal: u64, reason: SkipReason, place: impl FnOnce() -> (PathBuf, u64)) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count <= NAMED_ROWS_MAX as u64 {
            let (path, row) = place();
            self.examples.push(SkippedRow { reason, path, row });
        }
        self.ordinals.push(ordinal);
    }

    /// Returns how many rows were skipped.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Tells whether no row was skipped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Returns the reasons that occurred, in the order of [`SkipReason::ALL`], with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let all = SkipReason::ALL.into_iter().zip(self.counts);
        all.filter(|(_, count)| *count > 0)
    }

    /// Returns the first rows of each reason, in the order in which they were met.
    #[must_use]
    pub fn examples(&self) -> &[SkippedRow] {
        &self.examples
    }

    /// Returns the ordinals of the skipped rows, ascending.
    #[must_use]
    pub fn ordinals(&self) -> &[u64] {
        &self.ordinals
    }

    /// Returns the ordinal of the kept row `row`.
    fn ordinal(&self, row: Row) -> u64 {
        let row = u64::from(row.0);
        // Before the i-th skipped row lie all rows with smaller ordinals but the i skipped ones.
        let mut skipped = (0, self.ordinals.len());
        while skipped.0 < skipped.1 {
            let middle = usize::midpoint(skipped.0, skipped.1);
            if self.ordinals[middle] - middle as u64 <= row {
                skipped.0 = middle + 1;
            } else {
                skipped.1 = middle;
            }
        }
        row + skipped.0 as u64
    }

    /// Returns the kept row at `ordinal`; `None` where it was skipped.
    fn row(&self, ordinal: u64) -> Option<Row> {
        let before = self.ordinals.binary_search(&ordinal).err()?;
        u32::try_from(ordinal - before as u64).ok().map(Row)
    }
}

#[cfg(test)]
mod tests;
