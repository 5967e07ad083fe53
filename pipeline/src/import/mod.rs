//! Import: memories on lines of JSON become rows of a `brain.db`, a new one or one that is there.
//!
//! A file is read twice: first every line is checked, so that a bad one stops the import before anything is written;
//! then all rows are inserted in one transaction, each with its search entry and its embedding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;

use jiff::tz::TimeZone;
use memfold_index::Progress;
use memfold_index::file::FileMode;
use memfold_model::memory::VectorSpace;
use memfold_model::time::Instant;
use memfold_store::brain_db::{
    CreateStoreError, ImportedMemory, NewEmbedding, NewStore, Session, SessionError,
    SessionOptions, Writes,
};

use self::line::{Context, Line};

mod line;
mod preset;

pub use preset::{ExportedLines, PRESETS, Preset, export_lines};

/// Bad lines that are named.
const BAD_LINES_MAX: usize = 20;
/// Rows between two looks at the progress.
const BATCH: u64 = 1_000;

/// What to import, and where to.
pub struct ImportOptions<'a> {
    /// The store; it is created where it is missing.
    pub into: &'a Path,
    /// Permissions of a store that is created: at most those of the file that is imported.
    pub mode: FileMode,
    /// The model of vectors that name none.
    pub model: Option<&'a str>,
    /// The zone of naive times, read and written.
    pub time_zone: &'a TimeZone,
    /// When memories are made that do not say so.
    pub now: Instant,
    /// How to open a store that is there.
    pub session: SessionOptions,
    /// How lines of another system are spelled.
    pub preset: Option<Preset>,
    /// Hears of the progress.
    pub progress: &'a dyn Progress,
}

/// What was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Whether the store was created.
    pub is_new: bool,
    /// Lines with a memory.
    pub lines: u64,
    /// Memories that were inserted.
    pub imported: u64,
    /// Memories whose id is in the store already, with the same text; they are left as they are.
    pub known: u64,
    /// Memories whose id is in the store already with another text; they are left as they are too.
    pub known_otherwise: u64,
    /// Vectors inserted, by model and dimension.
    pub vectors: BTreeMap<VectorSpace, u64>,
    /// Lines that their system marks as deleted, which were left out.
    pub deleted: Vec<u64>,
    /// Fields that are no field of a memory and were passed over.
    pub unknown_fields: BTreeSet<String>,
}

impl Imported {
    /// Returns how many memories were inserted without a vector.
    #[must_use]
    pub fn without_vector(&self) -> u64 {
        self.imported - self.vectors.values().sum::<u64>()
    }
}

/// Imports the memories of a file, which is read from its start: all of them or none.
///
/// Importing a file again inserts nothing: what has an id is known by it, and the id of what has none follows from its
/// text, time and source.
///
/// # Errors
/// When a line is no memory, the store cannot be created or written, or when cancelled. Nothing is written then.
pub fn import(file: &mut File, options: &ImportOptions<'_>) -> Result<Imported, ImportError> {
    let checked = check(file, options)?;
    let is_new = options.into.symlink_metadata().is_err();
    let imported = if is_new {
        let store = NewStore::create(options.into, options.mode)?;
        let session = Session::open_beside_runs(store.path(), &options.session)?;
        let imported = insert_all(&session, file, options)?;
        drop(session);
        store.publish()?;
        imported
    } else {
        insert_all(&Session::open(options.into, &options.session)?, file, options)?
    };
    Ok(Imported { is_new, unknown_fields: checked, ..imported })
}

/// Reads every line; returns the fields that are passed over.
fn check(file: &mut File, options: &ImportOptions<'_>) -> Result<BTreeSet<String>, ImportError> {
    options.progress.begin("check lines", None);
    let mut lines = Lines::open(file)?;
    let mut context = Context::new(options);
    let (mut bad, mut bad_count) = (Vec::new(), 0_u64);
    while let Some((number, bytes)) = lines.next()? {
        if number.is_multiple_of(BATCH) {
            if options.progress.cancelled() {
                return Err(ImportError::Cancelled);
            }
            options.progress.advance(BATCH);
        }
        let checked = bytes.and_then(|bytes| read_line(bytes, options, &mut context));
        let checked = checked.map(drop);
        if let Err(reason) = checked {
            bad_count += 1;
            if bad.len() < BAD_LINES_MAX {
                bad.push(BadLine { number, reason });
            }
        }
    }
    options.progress.end();
    match bad_count {
        0 => Ok(context.into_unknown_fields()),
        count => Err(ImportError::Lines { count, bad }),
    }
}

fn insert_all(
    session: &Session,
    file: &mut File,
    options: &ImportOptions<'_>,
) -> Result<Imported, ImportError> {
    session.write(|writes| {
        let mut inserting = Inserting::begin(writes)?;
        options.progress.begin("import", None);
        let mut lines = Lines::open(file)?;
        let mut context = Context::new(options);
        let mut kept = BTreeMap::new();
        while let Some((number, bytes)) = lines.next()? {
            if number.is_multiple_of(BATCH) {
                if options.progress.cancelled() {
                    return Err(ImportError::Cancelled);
                }
                options.progress.advance(BATCH);
            }
            let raw = options.preset.and(bytes.as_ref().ok()).map(|bytes| as_written(bytes));
            let line = bytes.and_then(|bytes| read_line(bytes, options, &mut context));
            // The file was whole a moment ago: somebody changes it.
            let line = line.map_err(|reason| {
                let bad = vec![BadLine { number, reason }];
                ImportError::Lines { count: 1, bad }
            })?;
            let Some(line) = line else {
                inserting.imported.deleted.push(number);
                continue;
            };
            if inserting.insert(&line)? {
                kept.extend(raw.map(|raw| (line.memory.id, (number, raw))));
            }
        }
        if let Some(preset) = &options.preset {
            let at = options.now.to_naive_local(options.time_zone);
            writes.prepare(&at)?;
            preset::keep_lines(writes, preset, &kept, &at)?;
        }
        options.progress.end();
        Ok(inserting.imported)
    })
}

fn read_line(
    bytes: &[u8],
    options: &ImportOptions<'_>,
    context: &mut Context<'_>,
) -> Result<Option<Line>, String> {
    let line = match options.preset {
        Some(preset) => preset.to_line(bytes)?.map(|line| Line::read(&line, context)),
        None => Some(Line::read(bytes, context)),
    };
    line.transpose()
}

/// A line without its end.
fn as_written(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes)).into_owned()
}

/// Rows on their way into a store.
struct Inserting<'a> {
    writes: &'a Writes<'a>,
    layout: memfold_store::brain_db::Layout,
    has_archive: bool,
    imported: Imported,
}

impl<'a> Inserting<'a> {
    fn begin(writes: &'a Writes<'a>) -> Result<Self, SessionError> {
        let (layout, has_archive) = (writes.layout()?, writes.has_archive()?);
        Ok(Self { writes, layout, has_archive, imported: Imported::default() })
    }

    /// Inserts a memory, its search entry and its embedding, unless its id is there; tells whether it did.
    fn insert(&mut self, line: &Line) -> Result<bool, SessionError> {
        let Line { memory, vector } = line;
        self.imported.lines += 1;
        match self.writes.text_of(&memory.id, self.has_archive)? {
            Some(text) if text == memory.content.as_bytes() => self.imported.known += 1,
            Some(_) => self.imported.known_otherwise += 1,
            None => {
                self.writes.insert_imported(&self.layout, memory)?;
                self.imported.imported += 1;
                if let Some((model, vector)) = vector {
                    self.insert_vector(memory, model.as_deref(), vector)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn insert_vector(
        &mut self,
        memory: &ImportedMemory,
        model: Option<&str>,
        vector: &[f32],
    ) -> Result<(), SessionError> {
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

/// A line that is no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
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
    /// The file cannot be read.
    #[error("{source}")]
    Read {
        /// What the system says.
        #[from]
        source: io::Error,
    },
    /// Lines are no memories.
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
    Session(#[from] SessionError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl ImportError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lines { .. } => Some(
                "nothing was imported; mend or remove these lines and import the file again".into(),
            ),
            Self::Create(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Read { .. } | Self::Cancelled => None,
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

/// Longer lines are refused: no memory is this long.
const LINE_BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// A line with its number, or what is wrong with it.
type NumberedLine<'a> = (u64, Result<&'a [u8], String>);

/// Lines of a file with their numbers; blank ones are passed over.
struct Lines<'a> {
    input: BufReader<&'a mut File>,
    buffer: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Begins at the start of the file.
    fn open(file: &'a mut File) -> io::Result<Self> {
        file.rewind()?;
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { input, buffer: Vec::new(), number: 0 })
    }

    /// Returns the next line and its number, or what is wrong with it; `None` at the end.
    fn next(&mut self) -> io::Result<Option<NumberedLine<'_>>> {
        loop {
            self.buffer.clear();
            let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.len() as u64 == LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                self.input.skip_until(b'\n')?;
                let reason = format!("longer than {} MiB", LINE_BYTES_MAX >> 20);
                return Ok(Some((self.number, Err(reason))));
            }
            let is_first = self.number == 1;
            if !without_mark(&self.buffer, is_first).trim_ascii().is_empty() {
                return Ok(Some((self.number, Ok(without_mark(&self.buffer, is_first)))));
            }
        }
    }
}

/// Takes the byte order mark off the first line, which some editors put there.
fn without_mark(line: &[u8], is_first: bool) -> &[u8] {
    if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line }
}
