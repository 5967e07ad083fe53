//! [`load`]: from files to what a corpus holds.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, LargeStringArray, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer, ToByteSlice};
use arrow_schema::SchemaRef;
use memfold_index::{Mapped, Progress, VectorMatrix};

use super::open::{CorpusOptions, Picked};
use super::vectors::{SkipReason, SkippedRows, VectorCells, Width};
use crate::atomic_file::NewFile;
use crate::parquet::TypesFrom;
use crate::read::ReadError;
use crate::read::{CellKind, Cells, InputFile, InputOptions};
use crate::schema::DIM_MAX;

/// Vectors whose lengths are looked at to learn the dimension of a file that does not tell.
const PROBED_VECTORS: usize = 1024;
/// Values copied at once.
const COPIED_VALUES: usize = 1 << 20;
/// Most rows that a matrix can number.
const KEPT_ROWS_MAX: usize = u32::MAX as usize - 1;

/// What a corpus holds.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) files: Vec<SourceFile>,
    pub(super) dim: usize,
    pub(super) row_count: u64,
    pub(super) storage: Storage,
    pub(super) skipped: SkippedRows,
    pub(super) ids: Option<LargeStringArray>,
    pub(super) order_keys: Option<Vec<u32>>,
}

/// One of the files.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) first_ordinal: u64,
    pub(super) row_count: u64,
    options: InputOptions,
    schema: SchemaRef,
    picked: Picked,
}

impl SourceFile {
    /// Opens the file again.
    pub(super) fn open(&self) -> Result<InputFile, ReadError> {
        let file = InputFile::open_with(&self.path, &self.options)?;
        if file.schema() != &self.schema || file.row_count() as u64 != self.row_count {
            return Err(ReadError::Changed { path: self.path.clone() });
        }
        Ok(file)
    }
}

impl Loaded {
    /// Returns the position of the file that holds the row at `ordinal`, and the row's place there.
    pub(super) fn place(&self, ordinal: u64) -> (usize, u64) {
        assert!(ordinal < self.row_count, "row {ordinal} of {}", self.row_count);
        let file = self.files.partition_point(|file| file.first_ordinal <= ordinal) - 1;
        // Files without rows share their first ordinal with the next; the last of them has the row.
        (file, ordinal - self.files[file].first_ordinal)
    }
}

/// Reads the files.
pub(super) fn load(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Loaded, ReadError> {
    let survey = Survey::of(paths, options)?;
    options.progress.begin("read files", Some(survey.row_count));
    let loaded = Loader::new(&survey, options).load(survey.files);
    options.progress.end();
    loaded
}

/// What is known before rows are read.
struct Survey {
    files: Vec<SourceFile>,
    dim: usize,
    row_count: u64,
}

impl Survey {
    fn of(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Self, ReadError> {
        let mut survey = Self { files: Vec::new(), dim: 0, row_count: 0 };
        let mut first_with_dim = None;
        let input =
            InputOptions { types: TypesFrom::Parquet, member: options.vector_column.clone() };
        for path in paths {
            if options.progress.cancelled() {
                return Err(ReadError::Cancelled);
            }
            let file = InputFile::open_with(path, &input)?;
            let picked = Picked::from_file(&file, path, options)?;
            if let Some(dim) = dim_of(&file, path, &picked)? {
                let first: &PathBuf = first_with_dim.get_or_insert_with(|| path.clone());
                survey.agree_on_dim(dim, path, first)?;
            }
            let first_ordinal = survey.row_count;
            let row_count = file.row_count() as u64;
            survey.row_count += row_count;
            survey.files.push(SourceFile {
                path: path.clone(),
                first_ordinal,
                row_count,
                options: input.clone(),
                schema: Arc::clone(file.schema()),
                picked,
            });
        }
        survey.check_order(options)?;
        if survey.files.is_empty() { Err(ReadError::NoInputs) } else { Ok(survey) }
    }

    fn agree_on_dim(&mut self, dim: usize, path: &Path, first: &Path) -> Result<(), ReadError> {
        if self.dim == 0 {
            self.dim = dim;
        }
        if self.dim == dim {
            return Ok(());
        }
        Err(ReadError::DimensionsDiffer {
            path: path.into(),
            found: dim,
            first: first.into(),
            expected: self.dim,
        })
    }

    fn check_order(&self, options: &CorpusOptions<'_>) -> Result<(), ReadError> {
        let mut kinds = self.files.iter().filter_map(|file| Some((file, file.picked.order?.1)));
        let Some((first, expected)) = kinds.next() else { return Ok(()) };
        match kinds.find(|(_, kind)| *kind != expected) {
            None => Ok(()),
            Some((file, found)) => Err(ReadError::OrderKindsDiffer {
                path: file.path.clone(),
                column: options.order_column.as_deref().unwrap_or_default().into(),
                found: found.name(),
                first: first.path.clone(),
                expected: expected.name(),
            }),
        }
    }
}

/// Returns how long the vectors of a file are: as its type says, or as most of its first vectors
/// are; `None` where there are none.
fn dim_of(file: &InputFile, path: &Path, picked: &Picked) -> Result<Option<usize>, ReadError> {
    let found = match picked.width {
        Width::Fixed(dim) => Some(dim),
        Width::OfRow => most_common(&first_lengths(file, picked.vector)?),
    };
    match found {
        Some(found) if found == 0 || found > DIM_MAX => {
            Err(ReadError::CorpusDimension { path: path.into(), found })
        }
        found => Ok(found),
    }
}

fn first_lengths(file: &InputFile, vector: usize) -> Result<Vec<usize>, ReadError> {
    let mut lengths = Vec::new();
    for batch in file.batches(&[vector])? {
        let Some(cells) = VectorCells::of(batch?.column(0)) else { break };
        let some = (0..cells.len()).filter_map(|i| cells.length(i)).filter(|length| *length > 0);
        lengths.extend(some.take(PROBED_VECTORS - lengths.len()));
        if lengths.len() == PROBED_VECTORS {
            break;
        }
    }
    Ok(lengths)
}

/// Returns the most common value, of several the one that comes first.
fn most_common(values: &[usize]) -> Option<usize> {
    let mut counts: Vec<(usize, usize)> = Vec::new();
    for &value in values {
        match counts.iter_mut().find(|(other, _)| *other == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.iter().find(|(_, count)| *count == most).map(|(value, _)| *value)
}

/// Reads rows in order.
struct Loader<'a> {
    dim: usize,
    storage: StorageBuilder<'a>,
    scratch_dir: &'a Path,
    progress: &'a dyn Progress,
    skipped: SkippedRows,
    ids: Option<LargeStringBuilder>,
    order: Option<OrderKeys>,
    rows_read: u64,
    rows_kept: usize,
    values: Vec<f32>,
}

impl<'a> Loader<'a> {
    fn new(survey: &Survey, options: &'a CorpusOptions<'_>) -> Self {
        let scratch_dir = options.scratch_dir.as_path();
        let has_ids = survey.files.iter().any(|file| file.picked.id.is_some());
        let kind = survey.files.iter().find_map(|file| file.picked.order).map(|(_, kind)| kind);
        Self {
            dim: survey.dim,
            // A matrix needs a dimension, also where there are no vectors.
            storage: StorageBuilder::new(scratch_dir, survey.dim.max(1)),
            scratch_dir,
            progress: options.progress,
            skipped: SkippedRows::default(),
            ids: has_ids.then(LargeStringBuilder::new),
            order: kind.map(OrderKeys::new),
            rows_read: 0,
            rows_kept: 0,
            values: Vec::new(),
        }
    }

    fn load(mut self, files: Vec<SourceFile>) -> Result<Loaded, ReadError> {
        for source in &files {
            let file = source.open()?;
            let positions = source.picked.positions();
            for batch in file.batches(&positions)? {
                if self.progress.cancelled() {
                    return Err(ReadError::Cancelled);
                }
                let batch = batch?;
                self.take(source, &batch, file.mapped())?;
                self.progress.advance(batch.num_rows() as u64);
            }
        }
        let storage = self.storage.finish();
        Ok(Loaded {
            files,
            dim: self.dim,
            row_count: self.rows_read,
            storage: storage.map_err(|source| scratch_error(self.scratch_dir, source))?,
            skipped: self.skipped,
            ids: self.ids.map(|mut ids| ids.finish()),
            order_keys: self.order.map(OrderKeys::ranks),
        })
    }

    fn take(
        &mut self,
        source: &SourceFile,
        batch: &RecordBatch,
        mapped: Option<&Buffer>,
    ) -> Result<(), ReadError> {
        let picked = &source.picked;
        let vectors = VectorCells::of(picked.column(batch, picked.vector))
            .expect("the type of the column was checked");
        let verdicts: Vec<Option<SkipReason>> =
            (0..vectors.len()).map(|i| vectors.judge(i, self.dim)).collect();
        for (i, reason) in verdicts.iter().enumerate() {
            if let Some(reason) = reason {
                let ordinal = self.rows_read + i as u64;
                let row = ordinal - source.first_ordinal;
                self.skipped.add(ordinal, *reason, || (source.path.clone(), row));
            }
        }
        let kept: Vec<usize> = (0..vectors.len()).filter(|&i| verdicts[i].is_none()).collect();
        self.rows_read += batch.num_rows() as u64;
        self.rows_kept += kept.len();
        if self.rows_kept > KEPT_ROWS_MAX {
            return Err(ReadError::TooManyRows);
        }
        self.take_cells(picked, batch, &kept);
        self.take_vectors(&vectors, &kept, mapped).map_err(|e| scratch_error(self.scratch_dir, e))
    }

    fn take_cells(&mut self, picked: &Picked, batch: &RecordBatch, kept: &[usize]) {
        let cells = |position| Cells::of(picked.column(batch, position));
        if let Some(ids) = &mut self.ids {
            let cells = picked.id.and_then(cells);
            for &i in kept {
                if cells.as_ref().is_some_and(|cells| cells.write(i, ids)) {
                    ids.append_value("");
                } else {
                    ids.append_null();
                }
            }
        }
        if let Some((order, (position, _))) = self.order.as_mut().zip(picked.order)
            && let Some(cells) = cells(position)
        {
            kept.iter().for_each(|&i| order.push(&cells, i));
        }
    }

    fn take_vectors(
        &mut self,
        vectors: &VectorCells,
        kept: &[usize],
        mapped: Option<&Buffer>,
    ) -> std::io::Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let all = kept.len() == vectors.len();
        if let Some(values) = vectors.in_one_piece(self.dim).filter(|_| all) {
            let is_lent = self.storage.lend(values, mapped);
            return if is_lent { Ok(()) } else { self.storage.copy(values) };
        }
        for portion in kept.chunks((COPIED_VALUES / self.dim.max(1)).max(1)) {
            self.values.clear();
            portion.iter().for_each(|&i| vectors.append(i, &mut self.values));
            self.storage.copy(&self.values)?;
        }
        Ok(())
    }
}

fn scratch_error(folder: &Path, source: std::io::Error) -> ReadError {
    ReadError::Scratch { folder: folder.into(), source }
}

/// Stands below every value.
const NULL: i128 = i128::MIN;

/// Gathers the values of the order column of all kept rows.
pub(super) enum OrderKeys {
    Numbers(Vec<i128>),
    Texts(LargeStringBuilder),
}

impl OrderKeys {
    /// Begins a column of `kind`.
    pub(super) fn new(kind: CellKind) -> Self {
        match kind {
            CellKind::Text => Self::Texts(LargeStringBuilder::new()),
            _ => Self::Numbers(Vec::new()),
        }
    }

    /// Appends the value at `i`.
    pub(super) fn push(&mut self, cells: &Cells, i: usize) {
        match (self, cells) {
            (Self::Texts(texts), Cells::Text(cells)) => texts.append_option(cells.get(i)),
            (Self::Texts(texts), _) => texts.append_null(),
            (Self::Numbers(numbers), cells) => numbers.push(match cells {
                Cells::Integer(values) | Cells::Time(values) => values[i].unwrap_or(NULL),
                Cells::Float(values) => {
                    values[i].filter(|value| !value.is_nan()).map_or(NULL, sortable)
                }
                Cells::Text(_) | Cells::Binary(_) => NULL,
            }),
        }
    }

    /// Returns the dense rank of every row, from 0: equal values have equal ranks, nulls the lowest.
    pub(super) fn ranks(self) -> Vec<u32> {
        match self {
            Self::Numbers(numbers) => dense_ranks(numbers.len(), |row| numbers[row]),
            Self::Texts(mut texts) => {
                let texts: LargeStringArray = texts.finish();
                dense_ranks(texts.len(), |row| texts.is_valid(row).then(|| texts.value(row)))
            }
        }
    }
}

/// Returns an integer that sorts as `value` does; both zeros are one.
fn sortable(value: f64) -> i128 {
    let bits = (value + 0.0).to_bits().cast_signed();
    i128::from(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
}

fn dense_ranks<K: Ord>(row_count: usize, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..row_count as u32).collect();
    rows.sort_unstable_by_key(|&row| key(row as usize));
    let mut ranks = vec![0; row_count];
    let mut rank = 0;
    for (position, &row) in rows.iter().enumerate() {
        let is_new = position > 0 && key(rows[position - 1] as usize) != key(row as usize);
        rank += u32::from(is_new);
        ranks[row as usize] = rank;
    }
    ranks
}

/// The vectors of all kept rows in pieces of equally many rows (the last may be shorter).
#[derive(Debug, Clone)]
pub(super) struct Storage {
    pieces: Vec<ScalarBuffer<f32>>,
    dim: usize,
    is_input: bool,
}

impl Storage {
    /// Lends the vectors.
    pub(super) fn matrix(&self) -> VectorMatrix<'_> {
        let pieces = self.pieces.iter().map(|piece| &piece[..]).collect();
        VectorMatrix::from_chunks(pieces, self.dim).expect("checked when the corpus was read")
    }

    /// Tells whether the vectors are lent from the input itself.
    pub(super) const fn is_input(&self) -> bool {
        self.is_input
    }
}

/// Takes vectors in order: notes where they lie as long as they can stay there, copies them to a
/// file without a name as soon as one cannot.
pub(super) struct StorageBuilder<'a> {
    folder: &'a Path,
    dim: usize,
    lent: Vec<Lent>,
    /// The file without a name, once there is one: what is lent and whatever came after it.
    scratch: Option<NewFile>,
}

/// Values that stay in a mapped file.
struct Lent {
    file: Buffer,
    bytes: Range<usize>,
}

impl<'a> StorageBuilder<'a> {
    /// Begins with vectors that may stay where they are, or that will be copied to `folder`.
    pub(super) const fn new(folder: &'a Path, dim: usize) -> Self {
        Self { folder, dim, lent: Vec::new(), scratch: None }
    }

    /// Takes values that may stay where they are, in the mapped `file`; returns false where they
    /// cannot: they lie elsewhere or misaligned, or the pieces before them are of unequal lengths.
    pub(super) fn lend(&mut self, values: &[f32], file: Option<&Buffer>) -> bool {
        let (None, Some(file)) = (&self.scratch, file) else { return false };
        let Some(bytes) = range_in(file, values) else { return false };
        let first_length = self.lent.first().map_or(0, |first| first.bytes.len());
        match self.lent.last_mut() {
            Some(last) if last.file.ptr_eq(file) && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
            }
            Some(last) if last.bytes.len() != first_length => return false,
            _ => self.lent.push(Lent { file: file.clone(), bytes }),
        }
        true
    }

    /// Appends a copy of `values`.
    pub(super) fn copy(&mut self, values: &[f32]) -> io::Result<()> {
        let file = match &mut self.scratch {
            Some(file) => file,
            None => self.scratch.insert(copied(&self.lent, self.folder)?),
        };
        file.write_all(values.to_byte_slice())
    }

    /// Maps what was taken.
    pub(super) fn finish(self) -> io::Result<Storage> {
        let dim = self.dim;
        let file = match self.scratch {
            Some(file) => file,
            None => {
                let pieces: Vec<ScalarBuffer<f32>> = self.lent.iter().map(Lent::values).collect();
                let slices = pieces.iter().map(|piece| &piece[..]).collect();
                if VectorMatrix::from_chunks(slices, dim).is_ok() {
                    return Ok(Storage { pieces, dim, is_input: true });
                }
                copied(&self.lent, self.folder)?
            }
        };
        let mapped = Mapped::from_file(&file.publish()?).map_err(io::Error::other)?;
        let bytes = Buffer::from(bytes::Bytes::from_owner(mapped));
        // No rows are no piece: an empty map has no place to be aligned.
        let pieces = if bytes.is_empty() { Vec::new() } else { vec![ScalarBuffer::from(bytes)] };
        Ok(Storage { pieces, dim, is_input: false })
    }
}

/// Copies what is lent to a file without a name in `folder`.
fn copied(lent: &[Lent], folder: &Path) -> io::Result<NewFile> {
    let mut file = NewFile::create_unlinked(folder)?;
    for Lent { file: from, bytes } in lent {
        file.write_all(&from[bytes.clone()])?;
    }
    Ok(file)
}

impl Lent {
    fn values(&self) -> ScalarBuffer<f32> {
        let bytes = self.file.slice_with_length(self.bytes.start, self.bytes.len());
        ScalarBuffer::from(bytes)
    }
}

/// Returns where `values` lie in `file`; `None` where they lie elsewhere. Values are aligned as such,
/// wherever they lie.
fn range_in(file: &Buffer, values: &[f32]) -> Option<Range<usize>> {
    let start = values.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
    let end = start + size_of_val(values);
    (end <= file.len()).then_some(start..end)
}
