//! [`FreshSegment`]: rows that came after a generation was built, sealed.
//!
//! | section | numbers |
//! |---|---|
//! | prefix codes, prefix norms | as in `index.mfi`, made by its prefix transform |
//! | vectors | f32, row after row |
//! | ids | u8: each with its length (u32) before it |
//! | text keys, text ids, text id ends | as in `texts.mft`: every row that came, with or without a vector |
//! | last seen rows | u8: JSON as in `origin.json` |

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memfold_core::memory::MemoryId;
use memfold_index::file::{
    FileHead, FileKind, FileMode, FreshWriter, Generation, Generations, SectionFile,
    SectionFileWriter, SectionId,
};
use memfold_index::flat::{FlatIndex, FlatView};
use memfold_index::index_file::PREFIX_TRANSFORM;
use memfold_index::index_file::{IndexView, OpenIndexFileError};
use memfold_index::{VectorError, VectorMatrix};
use memfold_simd::Kernels;
use memfold_store::brain_db::{Marks, SpaceShapes, StoreReader};
use memfold_store::{BrainDb, LoadRequest};

use super::files::{IndexFiles, NewTextRows, TEXTS_FILE, TextRows, text_hash};
use super::search::{IdOf, Tier};
use super::{IndexError, Origin, SearchError};

/// How far into the store a segment reaches.
const WATERMARKS: SectionId = SectionId::new(10);
/// Vectors of the rows, which no column file holds.
const VECTORS: SectionId = SectionId::new(12);
/// The store's ids of the rows.
const IDS: SectionId = SectionId::new(15);

/// Sealed rows where they lie in a mapped file.
#[derive(Debug, Clone)]
pub struct FreshSegment {
    file: SectionFile,
    ids: Vec<Box<str>>,
    marks: Marks,
}

/// Rows to be sealed.
#[derive(Debug, Default)]
pub(super) struct FreshRows {
    pub(super) ids: Vec<Box<str>>,
    pub(super) vectors: Vec<f32>,
    pub(super) texts: NewTextRows,
    pub(super) marks: Marks,
}

impl FreshSegment {
    /// Reads ids and last seen rows; an error describes the defect of the file.
    pub(super) fn open(file: SectionFile) -> Result<Self, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let bytes = file.section::<u8>(IDS).map_err(|error| said(&error))?;
        let rows = file.head().row_count as usize;
        let ids = split(bytes, rows).ok_or("its ids do not fit its rows")?;
        let marks = file.section::<u8>(WATERMARKS).map_err(|error| said(&error))?;
        let marks = serde_json::from_slice(marks).map_err(|error| said(&error))?;
        let segment = Self { ids, marks, file };
        TextRows::open(&segment.file)?;
        segment.matrix().map_err(|error| said(&error))?;
        Ok(segment)
    }

    /// Returns where the store ended.
    pub(super) const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the rows that came, by their texts.
    pub(super) fn texts(&self) -> Result<TextRows<'_>, String> {
        TextRows::open(&self.file)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns how many rows came, with or without a vector.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.texts().map_or(0, |texts| texts.len() as u64).max(self.len() as u64)
    }

    /// Tells whether there are no rows with a vector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn id(&self, row: usize) -> &str {
        &self.ids[row]
    }

    pub(super) fn matrix(&self) -> Result<VectorMatrix<'_>, VectorError> {
        let values = self.file.section::<f32>(VECTORS).unwrap_or_default();
        let dim = self.file.head().dim as usize;
        let matrix = VectorMatrix::from_slice(values, dim)?;
        match matrix.len() == self.ids.len() {
            true => Ok(matrix),
            false => Err(VectorError::Chunk {
                chunk: 0,
                found: values.len(),
                expected: self.len() * dim,
            }),
        }
    }

    pub(super) fn flat<'a>(
        &'a self,
        transform: &'a [f32],
    ) -> Result<FlatView<'a>, OpenIndexFileError> {
        FlatView::open_rows(&self.file, transform)
    }
}

impl FreshRows {
    /// Writes a segment, encoded by the transform of the generation.
    pub(super) fn write(
        &self,
        output: std::fs::File,
        index: &SectionFile,
        kernels: &Kernels,
    ) -> Result<(), IndexError> {
        let head = index.head();
        let damaged = |error: &dyn std::error::Error| IndexError::Damaged(error.to_string());
        let matrix = VectorMatrix::from_slice(&self.vectors, head.dim as usize);
        let matrix = matrix.map_err(|error| damaged(&error))?;
        let transform = index.section(PREFIX_TRANSFORM).map_err(|e| damaged(&e))?;
        let flat = FlatIndex::encode(&matrix, transform, kernels).map_err(|e| damaged(&e))?;
        let ids = self
            .ids
            .iter()
            .flat_map(|id| [&(id.len() as u32).to_le_bytes(), id.as_bytes()].concat());
        let ids: Vec<u8> = ids.collect();
        let watermarks = serde_json::to_vec(&self.marks).map_err(|error| damaged(&error))?;
        // At most 65,536 rows.
        let rows = self.ids.len() as u32;
        let head = FileHead {
            kind: FileKind::Fresh,
            row_count: rows,
            node_count: rows,
            dim: head.dim,
            store_identity: head.store_identity,
            parameters: head.parameters.clone(),
        };
        let output = flat.write_rows(SectionFileWriter::new(output, head)?)?;
        let output = output.section(VECTORS, &self.vectors)?.section(IDS, &ids)?;
        self.texts.write(output)?.section(WATERMARKS, &watermarks)?.finish()?;
        Ok(())
    }
}

/// Splits ids; `None` unless there are as many as rows and nothing else.
fn split(mut bytes: &[u8], rows: usize) -> Option<Vec<Box<str>>> {
    let mut ids = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (id, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        ids.push(std::str::from_utf8(id).ok()?.into());
        bytes = rest;
    }
    (bytes.is_empty() && ids.len() == rows).then_some(ids)
}

/// An index of a store: mapped files of one generation, and their origin.
#[derive(Debug, Clone)]
pub struct StoreIndex {
    files: IndexFiles,
    origin: Origin,
    texts: SectionFile,
    fresh: Vec<FreshSegment>,
}

/// The index of a store, kept for repeated lookups: it stays open until there is another one, or it
/// has more segments.
#[derive(Debug)]
pub struct KeptIndex {
    folder: PathBuf,
    index: Mutex<Option<Arc<StoreIndex>>>,
}

impl KeptIndex {
    /// Names the folder; nothing is opened yet.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder, index: Mutex::new(None) }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the live index; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn live(&self) -> Result<Option<Arc<StoreIndex>>, IndexError> {
        let Ok(mut known) = self.index.lock() else { return Ok(None) };
        if let Some(index) = known.as_ref() {
            let generation = index.files().generation();
            let generations = Generations::at(&self.folder);
            if generations.is_current(generation)? && !generation.has_more_fresh() {
                return Ok(Some(Arc::clone(index)));
            }
        }
        *known = StoreIndex::open(&self.folder)?.map(Arc::new);
        Ok(known.clone())
    }

    /// Returns the index that was opened last, whether or not it is still the live one.
    #[must_use]
    pub(crate) fn opened_last(&self) -> Option<Arc<StoreIndex>> {
        self.index.try_lock().ok()?.clone()
    }
}

impl StoreIndex {
    /// Opens the live generation in a folder; `None` where nothing was ever published.
    ///
    /// Costs some system calls and a few pages, for any size, and the ids of rows sealed since.
    ///
    /// # Errors
    /// When a file is missing, damaged, of another version, or does not fit the others.
    pub fn open(folder: &Path) -> Result<Option<Self>, IndexError> {
        Generations::at(folder).current()?.map(Self::of).transpose()
    }

    /// Reads a generation and the segments that it has seen.
    pub(super) fn of(generation: Generation) -> Result<Self, IndexError> {
        let (files, origin) = IndexFiles::open(generation, Origin::from_json, |origin| origin.dim)?;
        let texts = files.mapped(TEXTS_FILE)?;
        let path = files.generation().folder().join(TEXTS_FILE);
        let texts = SectionFile::from_mapped(texts.clone(), &path, FileKind::Texts)
            .map_err(|error| IndexError::Generation(error.into()))?;
        TextRows::open(&texts).map_err(|reason| IndexError::Origin { path, reason })?;
        let mut fresh = Vec::new();
        for file in files.generation().fresh() {
            let path = file.path().to_owned();
            let opened = FreshSegment::open(file.clone());
            fresh.push(opened.map_err(|reason| IndexError::Origin { path, reason })?);
        }
        Ok(Self { files, origin, texts, fresh })
    }

    /// Returns its files.
    #[must_use]
    pub const fn files(&self) -> &IndexFiles {
        &self.files
    }

    /// Returns its origin.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the rows that were sealed since, in the order in which they came.
    #[must_use]
    pub fn fresh(&self) -> &[FreshSegment] {
        &self.fresh
    }

    /// Returns how many rows with a vector were sealed since.
    #[must_use]
    pub fn sealed_rows(&self) -> u64 {
        self.fresh.iter().map(|segment| segment.len() as u64).sum()
    }

    /// Returns the file of rows that are known by their text alone.
    pub(super) const fn texts(&self) -> &SectionFile {
        &self.texts
    }

    /// Returns the ids of rows that may have a text with the loose key of this one, ascending. Some
    /// may be gone.
    ///
    /// # Errors
    /// When the index is damaged.
    pub(crate) fn ids_of_text(&self, text: &str) -> Result<Vec<String>, SearchError> {
        let (hash, columns) = (text_hash(text), self.files.columns());
        let tiers = IndexView::open(self.files.tiers())?;
        let rows = tiers.text_keys.rows(hash).filter(|row| row.index() < columns.len());
        let mut ids = rows
            .map(|row| Ok(columns.id_at(row)?.to_owned()))
            .collect::<Result<Vec<_>, SearchError>>()?;
        let others = TextRows::open(&self.texts).map_err(SearchError::Damaged)?;
        ids.extend(others.ids(hash).map(str::to_owned));
        for segment in &self.fresh {
            ids.extend(segment.texts().map_err(SearchError::Damaged)?.ids(hash).map(str::to_owned));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Tells whether the index holds a memory with this text and vector.
    ///
    /// # Errors
    /// When the index is damaged.
    pub(crate) fn holds(
        &self,
        id: &str,
        text: &str,
        vector: Option<&[f32]>,
    ) -> Result<bool, SearchError> {
        let vectors = self.files.columns().vectors();
        let indexed = self.files.row_of(id)?.map(|row| vectors.vector(row));
        Ok(indexed == vector && self.ids_of_text(text)?.iter().any(|found| found == id))
    }

    /// Visits each set of rows with its tier, vectors and ids: rows sealed since, then the rest.
    pub(super) fn each_part<'i>(
        &'i self,
        kernels: &'static Kernels,
        mut visit: impl FnMut(Tier<'_>, &VectorMatrix<'_>, IdOf<'i, '_>) -> Result<(), SearchError>,
    ) -> Result<(), SearchError> {
        let (file, idle) = (self.files.tiers(), self.files.idle());
        let tiers = IndexView::open(file)?;
        let transform = file.section(PREFIX_TRANSFORM).map_err(SearchError::damaged)?;
        for segment in self.fresh.iter().filter(|segment| !segment.is_empty()) {
            let vectors = segment.matrix().map_err(SearchError::damaged)?;
            let flat = segment.flat(transform)?;
            let tier = idle.scan(flat, &vectors, kernels)?;
            visit(tier, &vectors, &|row| Ok(segment.id(row.index())))?;
        }
        let vectors = self.files.columns().vectors();
        let tier = idle.tier(&tiers, &vectors, kernels)?;
        visit(tier, &vectors, &|row| Ok(self.files.columns().id_at(row)?))
    }

    /// Tells whether the index in a folder names one of the memories, or cannot be read; `None` where there is no index.
    #[must_use]
    pub fn names_any(folder: &Path, ids: &[MemoryId]) -> Option<bool> {
        match Self::open(folder) {
            Ok(None) => None,
            Ok(Some(index)) => Some(index.names(ids).unwrap_or(true)),
            Err(_) => Some(true),
        }
    }

    fn names(&self, ids: &[MemoryId]) -> Result<bool, SearchError> {
        let is_one = |id: &str| ids.iter().any(|wanted| wanted.as_str() == id);
        let columns = self.files.columns();
        if columns.ids()?.iter().flatten().any(is_one) {
            return Ok(true);
        }
        let others = TextRows::open(&self.texts).map_err(SearchError::Damaged)?;
        if others.all_ids().any(is_one) {
            return Ok(true);
        }
        for segment in &self.fresh {
            let texts = segment.texts().map_err(SearchError::Damaged)?;
            let rows = 0..segment.len();
            if texts.all_ids().any(is_one) || rows.into_iter().any(|row| is_one(segment.id(row))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns where the store ended when it was built, or rows were sealed last.
    pub(crate) fn marks(&self) -> &Marks {
        self.fresh.last().map_or(&self.origin.marks, FreshSegment::marks)
    }
}

/// Most rows of a segment; a store that has got more wants a new generation.
pub(super) const ROWS_MAX: usize = 65_536;

/// How to seal.
#[derive(Clone, Copy)]
pub struct SealFresh<'a> {
    /// The folder of generations.
    pub folder: &'a Path,
    /// Permissions of its files: the store's.
    pub mode: FileMode,
    /// How to read the store.
    pub load: LoadRequest<'a>,
    /// Fewer rows are left as they are.
    pub rows_min: usize,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// How long to wait for another process that seals; zero tries once.
    pub wait: Duration,
}

/// The outcome for new rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// They are a segment now.
    Segment {
        /// Its number, from 1.
        number: u32,
        /// Its rows.
        rows: usize,
    },
    /// They are too few.
    TooFew {
        /// How many.
        rows: usize,
    },
    /// There is no index to seal them into.
    NoIndex,
}

/// Seals the live rows that came after the index was built and after the last segment, for lookups of every process.
///
/// # Errors
/// When the store cannot be read, the index cannot be opened, fits no longer, or cannot be written, or another process
/// seals for longer than the time to wait.
pub fn seal_fresh(store: &BrainDb, request: &SealFresh<'_>) -> Result<Sealed, IndexError> {
    let Some(index) = StoreIndex::open(request.folder)? else { return Ok(Sealed::NoIndex) };
    let mut generation = index.files().generation().clone();
    let writer = FreshWriter::begin(&mut generation, request.mode, request.wait)?;
    // With the segments that others have sealed meanwhile.
    let index = StoreIndex::of(writer.generation().clone())?;
    let rows = store.look_up(&request.load, |reader| fresh_rows(reader, &index))?;
    if rows.texts.len().max(rows.ids.len()) < request.rows_min.max(1) {
        return Ok(Sealed::TooFew { rows: rows.ids.len() });
    }
    rows.write(writer.create()?, index.files().tiers(), request.kernels)?;
    Ok(Sealed::Segment { number: writer.publish()?, rows: rows.ids.len() })
}

fn fresh_rows(reader: &StoreReader<'_>, index: &StoreIndex) -> Result<FreshRows, IndexError> {
    let reaches = reader.reaches(index.marks())?;
    if reaches.is_lost() {
        return Err(IndexError::Foreign);
    }
    let origin = index.origin();
    let space = origin.space();
    let mut rows = FreshRows { marks: reader.marks()?, ..FreshRows::default() };
    let texts = &mut rows.texts;
    if !reader.all_texts_since(reaches, ROWS_MAX, |id, text| texts.push(id, text))? {
        return Err(IndexError::TooMany);
    }
    reader.since(
        reaches,
        SpaceShapes { space: &space, shapes: &origin.shapes },
        |id, vector| {
            let live = reader.live(id, Some(&space), &origin.shapes)?;
            if live.is_some_and(|live| live.vector == vector) {
                rows.ids.push(id.into());
                rows.vectors.extend_from_slice(vector);
            }
            if rows.ids.len() > ROWS_MAX { Err(IndexError::TooMany) } else { Ok(()) }
        },
    )?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn ids_are_split_or_refused() {
        let bytes = [&[2, 0, 0, 0][..], b"ab", &[0; 4], &[1, 0, 0, 0], b"c"].concat();
        assert_eq!(split(&bytes, 3).unwrap().concat(), "abc");
        assert!(split(&bytes, 2).is_none() && split(&bytes[..bytes.len() - 1], 3).is_none());
        assert!(split(&[255; 4], 1).is_none() && split(&[1, 0, 0, 0, 0xFF], 1).is_none());
        assert!(split(&[], 0).unwrap().is_empty());
    }
}
