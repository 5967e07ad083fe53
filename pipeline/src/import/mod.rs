//! Import: the memories of a file of texts become rows of a `brain.db`, a new one or one that is there.
//!
//! Every record is checked before anything is written; then all are inserted in one transaction, each with its search
//! entry and its embedding. A bad record is left out and named, or refuses the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use jiff::tz::TimeZone;
use memfold_core::memory::VectorSpace;
use memfold_core::time::Instant;
use memfold_datasets::texts::{Shape, TextFile};
use memfold_index::Progress;
use memfold_index::file::FileMode;
use memfold_store::StoreError;
use memfold_store::brain_db::{
    CreateStoreError, ImportedMemory, NewEmbedding, NewStore, Session, SessionOptions, Writes,
};
use serde::{Serialize, Serializer};
use serde_json::json;

use self::line::{Context, Line, NamedVector};

mod line;
mod preset;

pub use preset::{ExportedLines, export_lines};

/// Bad records that are named.
const BAD_LINES_MAX: usize = 20;
/// Rows between two progress reports.
const BATCH: usize = 1_000;

/// The store that an import fills, and how records become memories.
#[derive(Debug, Clone, Copy)]
pub struct ImportRequest<'a> {
    /// The store; it is created where it is missing.
    pub into: &'a Path,
    /// Permissions of a store that is created: at most the permissions of the imported file.
    pub mode: FileMode,
    /// The model of vectors that name none.
    pub model: Option<&'a str>,
    /// The system that the lines go back to: they are kept as they came in.
    pub preset: Option<&'static Shape>,
    /// Whether a bad record refuses the file.
    pub is_strict: bool,
}

/// A request with the settings of the store.
pub(crate) struct ImportOptions<'a> {
    pub(crate) request: ImportRequest<'a>,
    /// The zone of naive times, read and written.
    pub(crate) time_zone: &'a TimeZone,
    /// When memories are made that do not say so.
    pub(crate) now: Instant,
    /// How to open a store that is there.
    pub(crate) session: SessionOptions,
    /// Hears of the progress.
    pub(crate) progress: &'a dyn Progress,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Whether the store was created.
    #[serde(rename = "created")]
    pub is_new: bool,
    /// Records with a memory.
    pub lines: u64,
    /// Memories that were inserted.
    pub imported: u64,
    /// Memories with an id that is in the store already, with the same text; they are left as they
    /// are.
    pub known: u64,
    /// Memories with an id that is in the store already with another text; they are left as they
    /// are too.
    pub known_otherwise: u64,
    /// Memories that were inserted without a vector.
    pub without_vector: u64,
    /// Memories inserted of which the file does not say when they were made; they have the time of the import.
    pub without_time: u64,
    /// Records that were left out: without a memory, or with invalid values.
    pub left_out: u64,
    /// Vectors inserted, by model and dimension.
    #[serde(serialize_with = "by_space")]
    pub vectors: BTreeMap<VectorSpace, u64>,
    /// Fields that say nothing of a memory, at most 20.
    #[serde(rename = "unknown_fields")]
    pub passed_over: BTreeSet<String>,
    /// Records with values that cannot be used, which were left out; the first 20.
    #[serde(skip)]
    pub bad: Vec<BadLine>,
    /// Remarks on records without a memory.
    #[serde(skip)]
    pub skipped: Vec<String>,
    /// Places of records that their system marks as deleted.
    #[serde(skip)]
    pub deleted: Vec<u64>,
}

fn by_space<S: Serializer>(
    vectors: &BTreeMap<VectorSpace, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(vectors.iter().map(
        |(VectorSpace { model, dim }, rows)| json!({ "model": model, "dim": dim, "rows": rows }),
    ))
}

/// Imports the memories of a file.
///
/// Importing a file again inserts nothing: a record with an id is known by it, and the id of a
/// record without one is derived from its text, time and source.
///
/// # Errors
/// When no record is a memory, or one is bad and that refuses the file, when the store cannot be created or written, or
/// when cancelled. Nothing is written then.
pub(crate) fn import(file: TextFile, options: &ImportOptions<'_>) -> Result<Imported, ImportError> {
    let (skipped, deleted) = (file.skipped_notes(), file.deleted.clone());
    let passed_over = file.passed_over.clone();
    let Checked { lines, bad, left_out } = check(file, options)?;
    let ImportRequest { into, mode, .. } = options.request;
    let is_new = into.symlink_metadata().is_err();
    let imported = if is_new {
        let store = NewStore::create(into, mode)?;
        let session = Session::open_beside_runs(store.path(), &options.session)?;
        let imported = insert_all(&session, &lines, options)?;
        drop(session);
        store.publish()?;
        imported
    } else {
        insert_all(&Session::open(into, &options.session)?, &lines, options)?
    };
    Ok(Imported { is_new, bad, left_out, skipped, deleted, passed_over, ..imported })
}

/// The records of a file, checked.
struct Checked {
    lines: Vec<Line>,
    /// The first records with invalid values.
    bad: Vec<BadLine>,
    left_out: u64,
}

fn check(mut file: TextFile, options: &ImportOptions<'_>) -> Result<Checked, ImportError> {
    options.progress.begin("check records", Some(file.records.len() as u64));
    let mut context = Context::new(options);
    let kept = options.request.preset.map_or(0, |_| file.records.len());
    let raws: Vec<String> = (0..kept).map(|at| file.line(at)).collect();
    let mut raws = raws.into_iter();
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    for (at, record) in std::mem::take(&mut file.records).into_iter().enumerate() {
        if at.is_multiple_of(BATCH) {
            if options.progress.cancelled() {
                return Err(ImportError::Cancelled);
            }
            options.progress.advance(BATCH as u64);
        }
        let (number, raw) = (record.place, raws.next());
        match Line::of(record, &mut context) {
            Ok(line) => lines.push(Line { raw, ..line }),
            Err(reason) => bad.push(BadLine { number, reason }),
        }
    }
    options.progress.end();
    let left_out = (bad.len() + file.skipped.len()) as u64;
    if left_out > 0 && (options.request.is_strict || lines.is_empty()) {
        let skipped = file.skipped.into_iter();
        bad.extend(skipped.map(|it| BadLine { number: it.place, reason: it.reason }));
        bad.sort_by_key(|line| line.number);
        bad.truncate(BAD_LINES_MAX);
        return Err(ImportError::Lines { count: left_out, bad });
    }
    bad.truncate(BAD_LINES_MAX);
    Ok(Checked { lines, bad, left_out })
}

fn insert_all(
    session: &Session,
    lines: &[Line],
    options: &ImportOptions<'_>,
) -> Result<Imported, ImportError> {
    session.write(|writes| {
        let mut inserting = Inserting::begin(writes)?;
        options.progress.begin("import", Some(lines.len() as u64));
        let mut inserted = Vec::new();
        for batch in lines.chunks(BATCH) {
            if options.progress.cancelled() {
                return Err(ImportError::Cancelled);
            }
            for line in batch {
                if inserting.insert(line)? {
                    inserted.push(line);
                }
            }
            options.progress.advance(batch.len() as u64);
        }
        if let Some(preset) = options.request.preset {
            let at = options.now.to_naive_local(options.time_zone);
            writes.prepare(&at)?;
            preset::keep_lines(writes, preset, &inserted, &at)?;
        }
        options.progress.end();
        Ok(inserting.imported)
    })
}

/// Rows on their way into a store.
struct Inserting<'a> {
    writes: &'a Writes<'a>,
    layout: memfold_store::brain_db::Layout,
    has_archive: bool,
    imported: Imported,
}

impl<'a> Inserting<'a> {
    fn begin(writes: &'a Writes<'a>) -> Result<Self, StoreError> {
        let (layout, has_archive) = (writes.layout()?, writes.has_archive()?);
        Ok(Self { writes, layout, has_archive, imported: Imported::default() })
    }

    /// Inserts a memory, its search entry and its embedding, unless its id is there; tells whether it did.
    fn insert(&mut self, line: &Line) -> Result<bool, StoreError> {
        let Line { memory, vector, .. } = line;
        self.imported.lines += 1;
        match self.writes.text_of(&memory.id, self.has_archive)? {
            Some(text) if text == memory.content.as_bytes() => self.imported.known += 1,
            Some(_) => self.imported.known_otherwise += 1,
            None => {
                self.writes.insert_imported(&self.layout, memory)?;
                self.imported.imported += 1;
                self.imported.without_time += u64::from(!line.has_time);
                match vector {
                    Some(vector) => self.insert_vector(memory, vector)?,
                    None => self.imported.without_vector += 1,
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn insert_vector(
        &mut self,
        memory: &ImportedMemory,
        vector: &NamedVector,
    ) -> Result<(), StoreError> {
        let (model, vector) = (vector.model.as_deref(), &*vector.components);
        self.writes.insert_embedding(
            &self.layout,
            &NewEmbedding {
                memory_id: &memory.id,
                content: &memory.content,
                vector,
                model,
                at: &memory.created_at,
            },
        )?;
        let model = model.unwrap_or(line::MODEL_DEFAULT).into();
        let space = VectorSpace { model, dim: vector.len() as u32 };
        *self.imported.vectors.entry(space).or_default() += 1;
        Ok(())
    }
}

/// A record that is not a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its line or row, from 1.
    pub number: u64,
    /// The defect.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.number, self.reason)
    }
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Records are not memories.
    #[error("{}", listed(*count, bad))]
    Lines {
        /// How many.
        count: u64,
        /// The first of them.
        bad: Vec<BadLine>,
    },
    /// The store cannot be created.
    #[error(transparent)]
    Create(#[from] CreateStoreError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

impl ImportError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lines { .. } => Some(
                "nothing was imported; mend or remove these lines and import the file again".into(),
            ),
            Self::Create(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Cancelled => None,
        }
    }
}

fn listed(count: u64, bad: &[BadLine]) -> String {
    let shown: Vec<String> = bad.iter().map(BadLine::to_string).collect();
    match count - bad.len() as u64 {
        0 if count == 1 => shown.concat(),
        0 => format!("{count} bad lines: {}", shown.join("; ")),
        more => format!("{count} bad lines: {}; and {more} more", shown.join("; ")),
    }
}
