//! [`load`]: from files to the contents of a corpus.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, LargeStringArray, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer, ToByteSlice};
use memfold_index::{Mapped, VectorMatrix};

use super::{Corpus, CorpusOptions, Picked, SkipReason, SkippedRows};
use crate::DataError;
use crate::atomic_file::NewFile;
use crate::error::VectorFault;
use crate::read::{
    CellKind, Cells, DECODE_ROWS, Opened, Source, SourceOptions, first_lengths, open,
};
use crate::vectors::VectorCells;

/// Number of vectors that are read to learn the dimension of a file that does not state it.
const PROBED_VECTORS: usize = 1024;
/// Values copied at once.
const COPIED_VALUES: usize = 1 << 20;
/// Vectors of up to this many bytes stay in memory; larger corpora go to a file without a name, which the system can
/// write to disk where memory is short. The file costs a second copy through the page cache.
const MEMORY_BYTES_MAX: usize = 512 << 20;
/// Most rows that a matrix can number.
const KEPT_ROWS_MAX: usize = u32::MAX as usize - 1;

/// One of the files.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) first_ordinal: u64,
    pub(super) source: Arc<dyn Source>,
    picked: Picked,
}

/// Reads the files.
pub(super) fn load(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Corpus, DataError> {
    let survey = Survey::of(paths, options)?;
    options.progress.begin("read files", Some(survey.row_count));
    let loaded = Loader::new(&survey, options).load(survey.files);
    options.progress.end();
    loaded
}

/// The facts known before rows are read.
struct Survey {
    files: Vec<SourceFile>,
    dim: usize,
    row_count: u64,
}

impl Survey {
    fn of(paths: &[PathBuf], options: &CorpusOptions<'_>) -> Result<Self, DataError> {
        let mut survey = Self { files: Vec::new(), dim: 0, row_count: 0 };
        let mut first_with_dim = None;
        let opened = SourceOptions {
            member: options.vector_column.clone(),
            scratch_dir: options.scratch_dir.clone(),
            pool: options.pool,
        };
        for path in paths {
            if options.progress.cancelled() {
                return Err(DataError::Cancelled);
            }
            let Opened { source, .. } = open(path, &opened)?;
            let picked = Picked::from_source(&*source, path, options)?;
            if let Some(dim) = dim_of(&*source, path, &picked)? {
                let first: &PathBuf = first_with_dim.get_or_insert_with(|| path.clone());
                survey.agree_on_dim(dim, path, first)?;
            }
            let first_ordinal = survey.row_count;
            survey.row_count += source.row_count() as u64;
            let path = path.clone();
            survey.files.push(SourceFile { path, first_ordinal, source, picked });
        }
        survey.check_order(options)?;
        if survey.files.is_empty() {
            return Err(DataError::shape(Path::new(""), "no input files", "at least one"));
        }
        Ok(survey)
    }

    fn agree_on_dim(&mut self, dim: usize, path: &Path, first: &Path) -> Result<(), DataError> {
        if self.dim == 0 {
            self.dim = dim;
        }
        if self.dim == dim {
            return Ok(());
        }
        let found = format!("vectors of {dim} components");
        Err(DataError::differs(path, &found, &self.dim.to_string(), first))
    }

    fn check_order(&self, options: &CorpusOptions<'_>) -> Result<(), DataError> {
        let mut kinds = self.files.iter().filter_map(|file| Some((file, file.picked.order?.1)));
        let Some((first, expected)) = kinds.next() else { return Ok(()) };
        match kinds.find(|(_, kind)| *kind != expected) {
            None => Ok(()),
            Some((file, found)) => {
                let column = options.order_column.as_deref().unwrap_or_default();
                let found = format!("column {column:?} holds {}", found.name());
                Err(DataError::differs(&file.path, &found, expected.name(), &first.path))
            }
        }
    }
}

/// Returns how long the vectors of a file are: as its type says, or as most of its first vectors
/// are; `None` where there are none.
fn dim_of(file: &dyn Source, path: &Path, picked: &Picked) -> Result<Option<usize>, DataError> {
    let found = match picked.width {
        Some(dim) => Some(dim),
        None => most_common(&first_lengths(file, picked.vector, PROBED_VECTORS, 1)?),
    };
    found.map_or(Ok(()), |dim| DataError::check_dim(path, dim)).map(|()| found)
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
    options: &'a CorpusOptions<'a>,
    dim: usize,
    storage: StorageBuilder<'a>,
    skipped: SkippedRows,
    ids: Option<LargeStringBuilder>,
    order: Option<OrderKeys>,
    rows_read: u64,
    rows_kept: usize,
    values: Vec<f32>,
}

impl<'a> Loader<'a> {
    fn new(survey: &Survey, options: &'a CorpusOptions<'_>) -> Self {
        let has_ids = survey.files.iter().any(|file| file.picked.id.is_some());
        let kind = survey.files.iter().find_map(|file| file.picked.order).map(|(_, kind)| kind);
        // A matrix needs a dimension, also where there are no vectors.
        let dim = survey.dim.max(1);
        let is_large = survey.row_count > (MEMORY_BYTES_MAX / (dim * size_of::<f32>())) as u64;
        let memory_bytes_max = if is_large { 0 } else { MEMORY_BYTES_MAX };
        Self {
            options,
            dim: survey.dim,
            storage: StorageBuilder::new(&options.scratch_dir, dim, memory_bytes_max),
            skipped: SkippedRows::default(),
            ids: has_ids.then(LargeStringBuilder::new),
            order: kind.map(OrderKeys::new),
            rows_read: 0,
            rows_kept: 0,
            values: Vec::new(),
        }
    }

    fn load(mut self, files: Vec<SourceFile>) -> Result<Corpus, DataError> {
        for file in &files {
            let positions = file.picked.positions();
            for batch in file.source.batches(&positions, DECODE_ROWS)? {
                if self.options.progress.cancelled() {
                    return Err(DataError::Cancelled);
                }
                let batch = batch?;
                self.take(file, &batch)?;
                self.options.progress.advance(batch.num_rows() as u64);
            }
            if self.rows_read != file.first_ordinal + file.source.row_count() as u64 {
                return Err(DataError::Changed { path: file.path.clone() });
            }
            file.source.check_unchanged()?;
        }
        let storage = self.storage.finish();
        Ok(Corpus {
            files,
            dim: self.dim,
            row_count: self.rows_read,
            storage: storage.map_err(|source| scratch_error(&self.options.scratch_dir, source))?,
            skipped: self.skipped,
            ids: self.ids.map(|mut ids| ids.finish()),
            order_keys: self.order.map(OrderKeys::ranks),
            id_column: self.options.id_column.clone(),
        })
    }

    fn take(&mut self, source: &SourceFile, batch: &RecordBatch) -> Result<(), DataError> {
        let picked = &source.picked;
        let vectors = VectorCells::of(picked.column(batch, picked.vector))
            .expect("the type of the column was checked");
        let verdicts: Vec<Option<SkipReason>> =
            (0..vectors.len()).map(|i| skip_reason(&vectors, i, self.dim)).collect();
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
            let found = format!("{} rows with vectors", self.rows_kept);
            let expected = format!("at most {KEPT_ROWS_MAX}");
            return Err(DataError::shape(&source.path, found, expected));
        }
        self.take_cells(picked, batch, &kept);
        self.take_vectors(&vectors, &kept).map_err(|e| scratch_error(&self.options.scratch_dir, e))
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

    fn take_vectors(&mut self, vectors: &VectorCells, kept: &[usize]) -> io::Result<()> {
        if kept.len() == vectors.len()
            && let Some(values) = vectors.as_f32(self.dim)
        {
            return self.storage.push(values);
        }
        for portion in kept.chunks((COPIED_VALUES / self.dim.max(1)).max(1)) {
            self.values.clear();
            portion.iter().for_each(|&i| vectors.append(i, &mut self.values));
            self.storage.push(&self.values)?;
        }
        Ok(())
    }
}

/// Tells why the vector at `i` cannot be compared; `None` where it can.
fn skip_reason(vectors: &VectorCells, i: usize, dim: usize) -> Option<SkipReason> {
    match vectors.fault(i, dim, true) {
        Some(VectorFault::Null | VectorFault::ComponentNull { .. }) => Some(SkipReason::VectorNull),
        Some(VectorFault::Length { .. }) => Some(SkipReason::VectorLength),
        Some(_) => Some(SkipReason::VectorNotFinite),
        None => vectors.is_zero(i).then_some(SkipReason::VectorZero),
    }
}

fn scratch_error(folder: &Path, source: io::Error) -> DataError {
    DataError::io(folder, source)
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

    /// Returns the dense rank of every row, from 0: equal values have equal ranks, nulls the
    /// lowest.
    pub(super) fn ranks(self) -> Vec<u32> {
        match self {
            Self::Numbers(numbers) => dense_ranks(numbers.len(), |row| numbers[row]),
            Self::Texts(mut texts) => {
                let texts: LargeStringArray = texts.finish();
                // Two zones write one instant in two ways.
                let instants: Option<Vec<i128>> =
                    texts.iter().map(|text| text.map_or(Some(NULL), instant)).collect();
                if let Some(instants) = instants {
                    return dense_ranks(instants.len(), |row| instants[row]);
                }
                dense_ranks(texts.len(), |row| texts.is_valid(row).then(|| texts.value(row)))
            }
        }
    }
}

/// Reads a time, with a blank for `T` or without seconds too, as nanoseconds since 1970; without an
/// offset as UTC.
fn instant(text: &str) -> Option<i128> {
    let text = text.trim();
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    });
    time.map(jiff::Timestamp::as_nanosecond)
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

/// The vectors of all kept rows.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    values: ScalarBuffer<f32>,
    dim: usize,
}

impl Storage {
    /// Returns the vectors.
    pub(super) fn matrix(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.values, self.dim).expect("whole rows of a dimension")
    }
}

/// Takes vectors in order: to memory, and to a file without a name when they are many.
pub(super) struct StorageBuilder<'a> {
    folder: &'a Path,
    dim: usize,
    memory_bytes_max: usize,
    values: Vec<f32>,
    scratch: Option<NewFile>,
}

impl<'a> StorageBuilder<'a> {
    /// Begins with vectors of `dim` components; up to `memory_bytes_max` bytes stay in memory.
    pub(super) const fn new(folder: &'a Path, dim: usize, memory_bytes_max: usize) -> Self {
        Self { folder, dim, memory_bytes_max, values: Vec::new(), scratch: None }
    }

    /// Appends a copy of `values`.
    pub(super) fn push(&mut self, values: &[f32]) -> io::Result<()> {
        if self.scratch.is_none()
            && size_of_val(&*self.values) + size_of_val(values) > self.memory_bytes_max
        {
            let mut file = NewFile::create_unlinked(self.folder)?;
            file.write_all(std::mem::take(&mut self.values).to_byte_slice())?;
            self.scratch = Some(file);
        }
        match &mut self.scratch {
            Some(file) => file.write_all(values.to_byte_slice()),
            None => {
                self.values.extend_from_slice(values);
                Ok(())
            }
        }
    }

    #[cfg(test)]
    pub(super) const fn is_in_file(&self) -> bool {
        self.scratch.is_some()
    }

    pub(super) fn finish(self) -> io::Result<Storage> {
        let values = match self.scratch {
            None => self.values.into(),
            Some(file) => {
                // A file of ours, which has no name: nobody else writes to it.
                let mapped = Mapped::from_file(&file.publish()?).map_err(io::Error::other)?;
                ScalarBuffer::from(Buffer::from(bytes::Bytes::from_owner(mapped)))
            }
        };
        Ok(Storage { values, dim: self.dim })
    }
}
