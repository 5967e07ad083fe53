//! [`Corpus`] and how it is asked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch};
use arrow_schema::Schema;
use memfold_index::{NoProgress, Progress, Row, VectorMatrix};

use super::load::{Loaded, load};
use super::skipped::SkippedRows;
use crate::DataError;
use crate::error::ColumnRole;
use crate::read::vector_file::vector_column;
use crate::read::{CellKind, Source, Texts, find_column, shape_of};
use crate::schema::Column;

/// How a corpus is read.
pub struct CorpusOptions<'a> {
    /// The vector column, or the array of an npz or HDF5 file, or tensor; `None`: `vector`,
    /// `embedding`, `embeddings` or `emb`, or the array that is known to hold vectors. Other files of
    /// bare vectors have no names.
    pub vector_column: Option<String>,
    /// The column of ids, which every file must have; `None`: `id`, where a file has it.
    pub id_column: Option<String>,
    /// The column whose largest value survives, which every file must have.
    pub order_column: Option<String>,
    /// Where the vectors of a large corpus are kept: as large as the vectors in f32.
    pub scratch_dir: PathBuf,
    /// Told how many rows were read, and asked whether to stop.
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

/// The rows of several files, and the vectors of those that have one.
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
    loaded: Loaded,
    id_column: Option<String>,
}

impl Corpus {
    /// Reads the rows of the files at `paths`, in this order.
    ///
    /// Everything that two files may disagree about is looked at before rows are read.
    ///
    /// # Errors
    /// When a file cannot be read, is of no known format or damaged, lacks a column that was asked
    /// for, or holds vectors of another dimension than the first; when the scratch folder cannot
    /// take the vectors, or the caller asks to stop. Rows without a usable vector are no error.
    pub fn open(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Self, DataError> {
        let loaded = load(paths, options)?;
        Ok(Self { loaded, id_column: options.id_column.clone() })
    }

    /// Returns the vectors of the kept rows.
    ///
    /// Where no file tells a dimension, the matrix is empty.
    #[must_use]
    pub fn matrix(&self) -> VectorMatrix<'_> {
        self.loaded.storage.matrix()
    }

    /// Returns the number of components of each vector; 0 where no file tells.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.loaded.dim
    }

    /// Returns the number of rows of all files, also of those that were skipped.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.loaded.row_count
    }

    /// Returns the rows that were skipped.
    #[must_use]
    pub const fn skipped(&self) -> &SkippedRows {
        &self.loaded.skipped
    }

    /// Returns the paths of the files in their order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.loaded.files.iter().map(|file| file.path.as_path())
    }

    /// Returns the files, open, with their paths.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Path, &dyn Source)> {
        self.loaded.files.iter().map(|file| (file.path.as_path(), &*file.source))
    }

    /// Returns the position of a kept row over all files. Costs a binary search over skipped rows.
    #[must_use]
    pub fn ordinal(&self, row: Row) -> u64 {
        self.loaded.skipped.ordinal(row)
    }

    /// Returns the kept row at `ordinal`; `None` where it was skipped or there is none.
    #[must_use]
    pub fn row_at(&self, ordinal: u64) -> Option<Row> {
        (ordinal < self.rows()).then(|| self.loaded.skipped.row(ordinal))?
    }

    /// Returns the file of the row at `ordinal`, and its position there.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn place(&self, ordinal: u64) -> Place<'_> {
        let (file, row) = self.loaded.place(ordinal);
        Place { path: &self.loaded.files[file].path, row }
    }

    /// Tells whether at least one file has ids.
    #[must_use]
    pub const fn has_ids(&self) -> bool {
        self.loaded.ids.is_some()
    }

    /// Returns the name of the column that was asked for, or `id` where a file has it.
    #[must_use]
    pub fn id_column(&self) -> Option<&str> {
        self.has_ids().then(|| self.id_column.as_deref().unwrap_or("id"))
    }

    /// Returns the id of a kept row as text; bytes are hexadecimal.
    #[must_use]
    pub fn id(&self, row: Row) -> Option<&str> {
        let ids: &LargeStringArray = self.loaded.ids.as_ref()?;
        ids.is_valid(row.index()).then(|| ids.value(row.index()))
    }

    /// Returns the dense rank of each kept row in the order column, from 0: the row with the larger
    /// value has the larger rank, equal values have equal ranks, nulls and NaN the lowest.
    ///
    /// Numbers and times are compared as such, texts as times where each of them is one, else by their bytes. `None` where no order was asked
    /// for.
    #[must_use]
    pub fn order_keys(&self) -> Option<&[u32]> {
        self.loaded.order_keys.as_deref()
    }

    /// Reads the texts of some rows from the files again: column `text` or `content`.
    ///
    /// The result is in the order of `rows`; `None` where there is no such column, or no text. Meant
    /// for a few rows: each costs about a page of its file.
    ///
    /// # Errors
    /// When a file cannot be read any more.
    pub fn excerpts(&self, rows: &[Row]) -> Result<Vec<Option<String>>, DataError> {
        let mut wanted: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for (at, &row) in rows.iter().enumerate() {
            let (file, row) = self.loaded.place(self.ordinal(row));
            wanted.entry(file).or_default().entry(row as usize).or_default().push(at);
        }
        let mut texts = vec![None; rows.len()];
        for (file, rows) in wanted {
            let positions: Vec<usize> = rows.keys().copied().collect();
            let found = texts_of(&*self.loaded.files[file].source, &positions)?;
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
pub(super) struct Picked {
    pub(super) vector: usize,
    /// Components of each vector, where the type says how many.
    pub(super) width: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) order: Option<(usize, CellKind)>,
}

impl Picked {
    pub(super) fn from_source(
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
    pub(super) fn positions(&self) -> Vec<usize> {
        let mut positions = vec![self.vector];
        positions.extend(self.id);
        positions.extend(self.order.map(|(position, _)| position));
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Returns the column at `position` of the file, from a batch of [`positions`](Self::positions).
    pub(super) fn column<'a>(&self, batch: &'a RecordBatch, position: usize) -> &'a ArrayRef {
        let at = self.positions().iter().position(|&other| other == position);
        batch.column(at.expect("the position is one of those read"))
    }
}

/// Returns the position of the column that holds a row's text.
pub(super) fn text_column(schema: &Schema) -> Option<usize> {
    let position = TEXT_NAMES.iter().find_map(|name| schema.index_of(name).ok())?;
    let kind = CellKind::of(schema.field(position).data_type());
    (kind == Some(CellKind::Text)).then_some(position)
}

/// Returns what the column at `position` holds, which must be of use for its role.
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
