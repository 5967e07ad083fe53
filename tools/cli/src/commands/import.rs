//! `memfold import`: a brain.db of memories on lines of JSON.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::import::{ImportError, ImportOptions, Imported, PRESETS, Preset, import};
use memfold::machine;
use memfold_index::file::FileMode;
use memfold_model::text::excerpt;

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::printer::{Document, Printer};
use crate::progress::Bars;
use crate::settings::{self, Settings};
use crate::writing::{command_line, session_options};

/// Permissions of a store that is made of stdin: the process's mask decides.
const MODE_OF_STDIN: u32 = 0o666;
const NAME_CHARS: usize = 60;

impl Document for ImportDocument {}

/// `memfold import`
#[derive(Debug, Args)]
#[command(after_help = FIELDS)]
pub(crate) struct ImportArgs {
    /// A file with a memory on each line, as JSON; `-` reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The brain.db to add them to; it is created where it is missing
    #[arg(long, value_name = "DB")]
    pub(crate) into: PathBuf,
    /// The model of vectors on lines that name none
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The system that wrote the file: mem0, letta, chroma, secureyeoman or agentic-memories
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub(crate) preset: Option<Preset>,
}

/// Finds a preset by its name.
pub(crate) fn preset(typed: &str) -> Result<Preset, String> {
    Preset::named(typed).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// Said at the end of the help of `memfold import`.
const FIELDS: &str = "\
Fields of a line: text or content; id, categories, importance, access_count,
created_at, updated_at, expires_at, source, vector or embedding, and model may
be left out. All lines are imported, or none where one is bad. A memory whose id
is in the store stays as it is there, so importing a file again adds nothing.";

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
    /// Memories whose id was in the store, or on an earlier line, with the same text.
    known: u64,
    /// Memories whose id was in the store with another text, which was left as it is.
    known_otherwise: u64,
    /// Memories that were added without a vector.
    without_vector: u64,
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
    let settings = Settings::load(global, Some(&args.into), &[])?;
    settings.show_notices(printer);
    if settings.configuration.settings.read_only && args.into.exists() {
        return Err(Failure::refused(
            "read_only is set: nothing is imported into a store that is there",
            "unset it for this command",
        ));
    }
    let (mut file, mode) = open(&args.file)?;
    let time_zone = settings.time_zone()?;
    let bars = Bars::new(printer);
    let options = ImportOptions {
        into: &args.into,
        mode,
        model: args.model.as_deref(),
        time_zone: &time_zone,
        now: machine::clock(),
        session: session_options(&settings),
        preset: args.preset,
        progress: &bars,
    };
    let imported = import(&mut file, &options).map_err(|error| failure(args, &error))?;
    drop(bars);
    if global.json {
        printer.document(&document(args, &imported))?;
    } else {
        printer.data(&screen(args, &imported))?;
    }
    Ok(Exit::Done)
}

/// Opens a file that can be read twice: what comes through a pipe is kept in a file without a name first.
fn open(path: &Path) -> Result<(File, FileMode), Failure> {
    let failed = |error: io::Error| {
        let hint = (error.kind() == io::ErrorKind::IsADirectory)
            .then(|| "name a file with a memory on each line".to_owned());
        Failure::new(&format!("read {}", path.display()), &error, hint)
    };
    if path == Path::new("-") {
        let file = kept(&mut io::stdin().lock()).map_err(failed)?;
        return Ok((file, FileMode::from_bits(MODE_OF_STDIN)));
    }
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    if metadata.is_file() {
        return Ok((file, FileMode::like(&metadata)));
    }
    let kept = kept(&mut file).map_err(failed)?;
    Ok((kept, FileMode::PRIVATE))
}

fn kept(input: &mut impl io::Read) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(settings::scratch_dir())?;
    io::copy(input, &mut file)?;
    Ok(file)
}

fn failure(args: &ImportArgs, error: &ImportError) -> Failure {
    let hint = error.hint();
    match error {
        ImportError::Cancelled => Failure::interrupted(),
        ImportError::Read { .. } | ImportError::Lines { .. } => {
            Failure::new(&format!("import {}", args.file.display()), error, hint)
        }
        error => Failure::new(&format!("import into {}", args.into.display()), error, hint),
    }
}

fn document(args: &ImportArgs, imported: &Imported) -> ImportDocument {
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
        vectors: vectors.collect(),
        unknown_fields: imported.unknown_fields.iter().cloned().collect(),
    }
}

/// Lines that are named.
const LINES_SHOWN: usize = 20;

fn screen(args: &ImportArgs, imported: &Imported) -> String {
    let Imported { imported: added, known, known_otherwise, unknown_fields, .. } = imported;
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
    if *known > 0 {
        text.push_str(&format!("{} known already by id and text\n", memories(*known)));
    }
    if *known_otherwise > 0 {
        let known = memories(*known_otherwise);
        text.push_str(&format!("{known} known already by id with another text, which stays\n"));
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
    if !unknown_fields.is_empty() {
        let names: Vec<String> =
            unknown_fields.iter().map(|name| excerpt(name, NAME_CHARS)).collect();
        text.push_str(&format!("fields passed over: {}\n", names.join(", ")));
    }
    let place = place.to_string();
    if without > 0 {
        let command = command_line(&["memfold", "embed", &place, "--execute"]);
        text.push_str(&format!("next: {command}\n"));
    }
    let command = command_line(&["memfold", "consolidate", &place]);
    text.push_str(&format!("next: {command}\n"));
    text
}

fn memories(count: u64) -> String {
    if count == 1 { "1 memory".to_owned() } else { format!("{count} memories") }
}
