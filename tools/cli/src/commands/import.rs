//! `memfold import`: a brain.db of a file of texts.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::import::{ImportRequest, Imported};
use memfold::ops;
use memfold_core::report::shell_words;
use memfold_datasets::DataError;
use memfold_datasets::texts::{SHAPES, Shape, TextFields, TextFile};
use memfold_guard::text::excerpt;
use memfold_index::file::FileMode;

use crate::args::TextFieldArgs;
use crate::call::Call;
use crate::context::data_hint;
use crate::failure::{Exit, Failure};
use crate::progress::Bars;
use crate::writing::noun;

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

pub(crate) fn run(call: Call<'_>, args: &ImportArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.into.clone().into())?;
    let file = read_texts(&args.file, &args.fields.fields(args.preset))?;
    let request = ImportRequest {
        into: &args.into,
        mode: mode_of_store(&args.file)?,
        model: args.model.as_deref(),
        preset: args.preset,
        is_strict: args.fields.strict,
    };
    let bars = Bars::new(call.printer);
    let found = ops::import(&args.file, file, &settings, request, &bars)?;
    drop(bars);
    call.show(&found, || screen(args, &found.imported))
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

const LINE_CHARS: usize = 200;
/// Lines that are named.
const LINES_SHOWN: usize = 20;

fn screen(args: &ImportArgs, imported: &Imported) -> String {
    let Imported { imported: added, known, known_otherwise, without_vector: without, .. } =
        imported;
    let place = args.into.display();
    let of_store = if imported.is_new { "a new store" } else { "the store" };
    let mut text = format!("{} added to {of_store} {place}\n", memories(*added));
    for (space, rows) in &imported.vectors {
        let model = excerpt(&space.model, NAME_CHARS);
        text.push_str(&format!("  {rows} with a vector of {model} ({} dimensions)\n", space.dim));
    }
    if *without > 0 {
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
    for note in &imported.skipped {
        text.push_str(&format!("{note}\n"));
    }
    for bad in &imported.bad {
        text.push_str(&format!("left out: {}\n", excerpt(&bad.to_string(), LINE_CHARS)));
    }
    if !imported.deleted.is_empty() {
        let shown: Vec<String> =
            imported.deleted.iter().take(LINES_SHOWN).map(u64::to_string).collect();
        text.push_str(&format!(
            "{} left out as deleted there: lines {}\n",
            memories(imported.deleted.len() as u64),
            shown.join(", ")
        ));
    }
    if !imported.passed_over.is_empty() {
        let names: Vec<String> =
            imported.passed_over.iter().map(|name| excerpt(name, NAME_CHARS)).collect();
        text.push_str(&format!("fields passed over: {}\n", names.join(", ")));
    }
    let place = place.to_string();
    if *without > 0 {
        let command = shell_words(&["memfold", "embed", &place, "--execute"]);
        text.push_str(&format!("next: {command}\n"));
    }
    let command = shell_words(&["memfold", "consolidate", &place]);
    text.push_str(&format!("next: {command}\n"));
    text
}

fn memories(count: u64) -> String {
    format!("{count} {}", noun(count, "memory", "memories"))
}
