//! `memfold import`: a brain.db of a file of texts.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::import::{ImportError, ImportOptions, Imported, import};
use memfold::machine;
use memfold::ops::{self, Settings};
use memfold_core::report::shell_words;
use memfold_datasets::DataError;
use memfold_datasets::texts::{SHAPES, Shape, TextFields, TextFile};
use memfold_guard::text::excerpt;
use memfold_index::file::FileMode;

use crate::args::{GlobalArgs, TextFieldArgs};
use crate::context::data_hint;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::Bars;

/// Permissions of a store that is made of stdin: the process's mask decides.
const MODE_OF_STDIN: u32 = 0o666;
const NAME_CHARS: usize = 60;

/// `memfold import`
#[derive(Debug, Args)]
#[command(after_help = FIELDS)]
pub(crate) struct ImportArgs {
    /// A file of texts: JSON Lines, JSON, CSV, plain text, Parquet or Arrow; `-` reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The brain.db to add them to; it is created where it is missing
    #[arg(long, value_name = "DB")]
    pub(crate) into: PathBuf,
    /// The model of vectors on lines that name none
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The system that wrote the file and gets it back with `memfold export --preset`: mem0, letta,
    /// agentic-memories, chroma, secureyeoman, qdrant, langgraph or langchain [default: recognised]
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub(crate) preset: Option<&'static Shape>,
    #[command(flatten)]
    pub(crate) fields: TextFieldArgs,
}

/// Finds a preset by its name.
pub(crate) fn preset(typed: &str) -> Result<&'static Shape, String> {
    Shape::named(typed).ok_or_else(|| {
        let known: Vec<&str> = SHAPES.iter().map(|shape| shape.name).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// The end of the help of `memfold import`.
const FIELDS: &str = "\
Fields of a record: text or content; id, categories or tags, importance,
access_count, created_at, updated_at, expires_at, source, vector or embedding,
model, and scopes (user_id, agent_id, app_id, namespace, run_id, session_id) may
be left out. A bad line is left out and named. A memory whose id is in the store
stays as it is there, so importing a file again adds nothing.";

/// `memfold import --json`
#[derive(Debug, serde::Serialize)]
struct ImportDocument {
    schema_version: u32,
    store: String,
    /// Whether the store was created.
    created: bool,
    /// Lines with a memory.
    lines: u64,
    /// Memories that were added.
    imported: u64,
    /// Memories with an id that was in the store, or on an earlier line, with the same text.
    known: u64,
    /// Memories with an id that was in the store with another text, which was left as it is.
    known_otherwise: u64,
    /// Memories that were added without a vector.
    without_vector: u64,
    /// Memories that were added without a time of their own, with that of the import.
    without_time: u64,
    /// Lines that were left out because they hold no memory, or a value that cannot be used.
    left_out: u64,
    /// Vectors that were added.
    vectors: Vec<ImportedVectors>,
    /// Fields that say nothing of a memory and were passed over, at most 20.
    unknown_fields: Vec<String>,
}

/// Vectors of one model.
#[derive(Debug, serde::Serialize)]
struct ImportedVectors {
    model: String,
    /// Components of each vector.
    dim: u32,
    rows: u64,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ImportArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.into.clone().into()), &[])?;
    settings.show_notices(&printer);
    if settings.configuration.settings.read_only && args.into.exists() {
        return Err(Failure::plain(
            "read_only is set: nothing is imported into a store that is there",
            "unset it for this command",
        ));
    }
    let file = read_texts(&args.file, &args.fields.fields(args.preset))?;
    let mode = mode_of_store(&args.file)?;
    let notes = Notes::of(&file);
    let time_zone = settings.time_zone()?;
    let bars = Bars::new(printer);
    let options = ImportOptions {
        into: &args.into,
        mode,
        model: args.model.as_deref(),
        time_zone: &time_zone,
        now: machine::clock(),
        session: ops::session_options(&settings),
        preset: args.preset,
        is_strict: args.fields.strict,
        progress: &bars,
    };
    let imported = import(file, &options).map_err(|error| failure(args, &error))?;
    drop(bars);
    if global.json {
        printer.document(&document(args, &imported, notes))?;
    } else {
        printer.data(&screen(args, &imported, &notes))?;
    }
    Ok(Exit::Done)
}

/// Remarks on a file beside its memories.
struct Notes {
    skipped: Vec<String>,
    deleted: Vec<u64>,
    passed_over: Vec<String>,
}

impl Notes {
    fn of(file: &TextFile) -> Self {
        Self {
            skipped: file.skipped_notes(),
            deleted: file.deleted.clone(),
            passed_over: file.passed_over.iter().cloned().collect(),
        }
    }
}

/// Tells whether stdin is named in place of a file.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a file of texts, or stdin.
pub(crate) fn read_texts(path: &Path, fields: &TextFields) -> Result<TextFile, Failure> {
    let read = || match is_stdin(path) {
        true => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            TextFile::read_bytes(path, bytes, fields)
        }
        false => TextFile::read(path, fields),
    };
    read().map_err(|error| read_failure(path, &error))
}

fn read_failure(path: &Path, error: &DataError) -> Failure {
    Failure::new(&format!("read {}", path.display()), error, data_hint(error))
}

/// Returns the permissions of a store that is made of a file.
fn mode_of_store(path: &Path) -> Result<FileMode, Failure> {
    if is_stdin(path) {
        return Ok(FileMode::from_bits(MODE_OF_STDIN));
    }
    let metadata =
        std::fs::metadata(path).map_err(|error| read_failure(path, &DataError::from(error)))?;
    Ok(if metadata.is_file() { FileMode::like(&metadata) } else { FileMode::PRIVATE })
}

fn failure(args: &ImportArgs, error: &ImportError) -> Failure {
    let hint = error.hint();
    match error {
        ImportError::Cancelled => Failure::interrupted(),
        ImportError::Lines { .. } => {
            Failure::new(&format!("import {}", args.file.display()), error, hint)
        }
        error => Failure::new(&format!("import into {}", args.into.display()), error, hint),
    }
}

fn document(args: &ImportArgs, imported: &Imported, notes: Notes) -> ImportDocument {
    let vectors = imported.vectors.iter().map(|(space, &rows)| ImportedVectors {
        model: space.model.to_string(),
        dim: space.dim,
        rows,
    });
    ImportDocument {
        schema_version: 1,
        store: args.into.display().to_string(),
        created: imported.is_new,
        lines: imported.lines,
        imported: imported.imported,
        known: imported.known,
        known_otherwise: imported.known_otherwise,
        without_vector: imported.without_vector(),
        without_time: imported.without_time,
        left_out: imported.left_out,
        vectors: vectors.collect(),
        unknown_fields: notes.passed_over,
    }
}

const LINE_CHARS: usize = 200;
/// Lines that are named.
const LINES_SHOWN: usize = 20;

fn screen(args: &ImportArgs, imported: &Imported, notes: &Notes) -> String {
    let Imported { imported: added, known, known_otherwise, .. } = imported;
    let place = args.into.display();
    let of_store = if imported.is_new { "a new store" } else { "the store" };
    let mut text = format!("{} added to {of_store} {place}\n", memories(*added));
    for (space, rows) in &imported.vectors {
        let model = excerpt(&space.model, NAME_CHARS);
        text.push_str(&format!("  {rows} with a vector of {model} ({} dimensions)\n", space.dim));
    }
    let without = imported.without_vector();
    if without > 0 {
        text.push_str(&format!("  {without} without a vector\n"));
    }
    if imported.without_time > 0 {
        let without = imported.without_time;
        text.push_str(&format!("  {without} without a time of their own: now\n"));
    }
    if *known > 0 {
        text.push_str(&format!("{} known already by id and text\n", memories(*known)));
    }
    if *known_otherwise > 0 {
        let known = memories(*known_otherwise);
        text.push_str(&format!("{known} known already by id with another text, which stays\n"));
    }
    for note in &notes.skipped {
        text.push_str(&format!("{note}\n"));
    }
    for bad in &imported.bad {
        text.push_str(&format!("left out: {}\n", excerpt(&bad.to_string(), LINE_CHARS)));
    }
    if !notes.deleted.is_empty() {
        let shown: Vec<String> =
            notes.deleted.iter().take(LINES_SHOWN).map(u64::to_string).collect();
        text.push_str(&format!(
            "{} left out as deleted there: lines {}\n",
            memories(notes.deleted.len() as u64),
            shown.join(", ")
        ));
    }
    if !notes.passed_over.is_empty() {
        let names: Vec<String> =
            notes.passed_over.iter().map(|name| excerpt(name, NAME_CHARS)).collect();
        text.push_str(&format!("fields passed over: {}\n", names.join(", ")));
    }
    let place = place.to_string();
    if without > 0 {
        let command = shell_words(&["memfold", "embed", &place, "--execute"]);
        text.push_str(&format!("next: {command}\n"));
    }
    let command = shell_words(&["memfold", "consolidate", &place]);
    text.push_str(&format!("next: {command}\n"));
    text
}

fn memories(count: u64) -> String {
    if count == 1 { "1 memory".to_owned() } else { format!("{count} memories") }
}
