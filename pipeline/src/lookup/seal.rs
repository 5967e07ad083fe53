//! [`seal_fresh`]: rows that came since become a segment of the live generation.

use std::path::Path;
use std::time::Duration;

use memfold_index::file::{FileMode, FreshWriter, WriteGenerationError, WriteSectionFileError};
use memfold_simd::Kernels;

use super::fresh::FreshRows;
use super::{OpenIndexError, StoreIndex};
use memfold_store::brain_db::StoreReader;
use memfold_store::{BrainDb, LoadRequest, LoadStoreError, OpenStoreError};

/// Most rows of a segment; a store that has got more wants a new generation.
const ROWS_MAX: usize = 65_536;

/// How to seal.
#[derive(Clone, Copy)]
pub struct SealFresh<'a> {
    /// The folder of generations.
    pub folder: &'a Path,
    /// Permissions of its files: those of the store.
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

/// What became of the rows that came since.
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

/// Why nothing was sealed. The index is what it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] LoadStoreError),
    /// The index cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenIndexError),
    /// The segment cannot be written.
    #[error(transparent)]
    Generation(#[from] WriteGenerationError),
    /// The segment's file cannot be written.
    #[error(transparent)]
    File(#[from] WriteSectionFileError),
    /// Rows were renumbered, or it is another store.
    #[error("the index no longer fits the store")]
    Foreign,
    /// More rows came than a segment takes.
    #[error("more than {ROWS_MAX} rows have come since the index was built")]
    TooMany,
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
}

impl From<OpenStoreError> for SealError {
    fn from(error: OpenStoreError) -> Self {
        LoadStoreError::from(error).into()
    }
}

impl SealError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Open(error) => error.hint(),
            Self::Generation(error) => error.hint(),
            Self::File(_) => None,
            Self::Foreign | Self::TooMany | Self::Damaged(_) => {
                Some("build a new generation with `memfold index build`".to_owned())
            }
        }
    }
}

/// Seals the live rows that came after the index was built and after the last segment, for lookups of every process.
///
/// # Errors
/// When the store cannot be read, the index cannot be opened, fits no longer, or cannot be written, or another process
/// seals for longer than the time to wait.
pub fn seal_fresh(store: &BrainDb, request: &SealFresh<'_>) -> Result<Sealed, SealError> {
    let Some(index) = StoreIndex::open(request.folder)? else { return Ok(Sealed::NoIndex) };
    let mut generation = index.files().generation().clone();
    let writer = FreshWriter::begin(&mut generation, request.mode, request.wait)?;
    // With the segments that others have sealed meanwhile.
    let index = StoreIndex::of(writer.generation().clone())?;
    let rows = store.look_up(&request.load, |reader| fresh_rows(reader, &index))?;
    if rows.texts.len().max(rows.ids.len()) < request.rows_min.max(1) {
        return Ok(Sealed::TooFew { rows: rows.ids.len() });
    }
    rows.write(writer.create()?, (index.files().tiers(), request.kernels))?;
    Ok(Sealed::Segment { number: writer.publish()?, rows: rows.ids.len() })
}

fn fresh_rows(reader: &StoreReader<'_>, index: &StoreIndex) -> Result<FreshRows, SealError> {
    let reaches = reader.reaches(index.marks())?;
    if reaches.is_lost() {
        return Err(SealError::Foreign);
    }
    let origin = index.origin();
    let space = origin.space();
    let mut rows = FreshRows { marks: reader.marks()?, ..FreshRows::default() };
    let texts = &mut rows.texts;
    if !reader.texts_since(reaches.memories, ROWS_MAX, |id, text| texts.push(id, text))?
        || !reader
            .archived_texts_since(reaches.archive, ROWS_MAX, |id, text| texts.push(id, text))?
        || !reader
            .revived_texts_since(reaches.revived, ROWS_MAX, |id, text| texts.push(id, text))?
    {
        return Err(SealError::TooMany);
    }
    reader.since(reaches, (&space, &origin.shapes), |id, vector| {
        let live = reader.live(id, (Some(&space), &origin.shapes))?;
        if live.is_some_and(|live| live.vector == vector) {
            rows.ids.push(id.into());
            rows.vectors.extend_from_slice(vector);
        }
        if rows.ids.len() > ROWS_MAX { Err(SealError::TooMany) } else { Ok(()) }
    })?;
    Ok(rows)
}
