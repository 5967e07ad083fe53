//! `memfold export`: the live memories of a store with their vectors, as one file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{self, Args, ValueEnum, ValueHint};
use memfold::export::{self, ExportError, ExportOptions, Exported, ExportedTexts, RecordWriter};
use memfold::import::{ExportedLines, export_lines};
use memfold::machine::{self, MemoryWatch, Stopwatch};
use memfold::ops::{self, Settings, StorePath};
use memfold_datasets::DataError;
use memfold_datasets::atomic_file::NewFile;
use memfold_datasets::texts::Shape;
use memfold_datasets::{ColumnsMeta, ColumnsWriter, TextRowsWriter};
use memfold_guard::text::excerpt;
use memfold_index::file::FileMode;
use memfold_store::LoadRequest;

use crate::args::{GlobalArgs, store_path};
use crate::commands::import::preset;
use crate::context::{mode_like, open_store};
use crate::failure::{Exit, Failure};
use crate::outputs;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::writing::noun;

/// `memfold export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub db: StorePath,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// The format [default: by the file's ending]
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
    /// Further columns
    #[arg(long, value_enum, value_delimiter = ',', value_name = "COLUMN,…")]
    pub with: Vec<ExtraColumn>,
    /// Only vectors of this model [default: the one with most vectors]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Write JSON Lines for the system that `memfold import --preset` read them of
    #[arg(long, value_name = "NAME", value_parser = preset, conflicts_with_all = ["format", "with", "model"])]
    pub preset: Option<&'static Shape>,
}

/// The output of `memfold export --preset --json`.
#[derive(Debug, serde::Serialize)]
struct ExportLinesDocument {
    schema_version: u32,
    /// Lines written.
    lines: u64,
    /// Lines that are as they came in.
    unchanged: u64,
    /// Lines with other values.
    changed: u64,
    /// Lines of memories that did not come from a file.
    added: u64,
    /// Lines that came in and are left out: their memories were merged, archived or forgotten.
    left_out: u64,
    /// The file.
    output: String,
}

/// The output of `memfold export --json` for JSON Lines and CSV.
#[derive(Debug, serde::Serialize)]
struct ExportTextsDocument {
    schema_version: u32,
    /// Memories written.
    rows: u64,
    /// How many of them with a vector.
    with_vector: u64,
    /// The file.
    output: String,
}

/// File formats of memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Arrow IPC, to be mapped
    Arrow,
    /// Parquet, to be exchanged
    Parquet,
    /// JSON Lines with texts, as import reads them
    Jsonl,
    /// CSV with texts
    Csv,
}

/// Columns that an export leaves out unless asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExtraColumn {
    /// The memories' texts; JSON Lines and CSV always have them
    Text,
    /// The vectors, each with its model; Arrow and Parquet always have them
    Vector,
    /// The memory that each memory was merged into
    Lineage,
}

/// The output of `memfold export --json`.
#[derive(Debug, serde::Serialize)]
struct ExportDocument {
    schema_version: u32,
    /// Rows written.
    rows: u64,
    /// Components of each vector.
    dim: u32,
    /// The model of the vectors.
    model: String,
    /// Live memories that were left out because they have no vector of this model.
    without_vector: u64,
    /// The file.
    output: String,
    /// Wall time of reading and writing.
    seconds: f64,
    /// The most memory in use at once; `null` where the system does not tell.
    peak_rss_bytes: Option<u64>,
    /// The same without memory backed by files.
    peak_anon_bytes: Option<u64>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ExportArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if let Some(preset) = args.preset {
        return run_preset(global, args, preset, printer);
    }
    let format = format(args)?;
    outputs::check_export("--output", &args.output, &args.db, args.force)?;
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    if matches!(format, ExportFormat::Jsonl | ExportFormat::Csv) {
        return run_texts(global, args, format, &settings, printer);
    }
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let exported = export(args, format, &settings, &Bars::new(printer))?;
    let seconds = stopwatch.seconds();
    let (peak_rss_bytes, peak_anon_bytes) = watch.finish();
    if global.json {
        printer.document(&ExportDocument {
            schema_version: 1,
            rows: exported.rows,
            dim: exported.space.dim,
            model: exported.space.model.to_string(),
            without_vector: exported.without_vector,
            output: args.output.display().to_string(),
            seconds,
            peak_rss_bytes,
            peak_anon_bytes,
        })?;
    } else {
        let Exported { rows, space, without_vector } = &exported;
        let rate = *rows as f64 / seconds.max(f64::MIN_POSITIVE);
        printer.note(&format!(
            "wrote {rows} {} of {} ({} dimensions) to {} in {seconds:.2} s, {rate:.0} rows/s",
            noun(*rows, "row", "rows"),
            excerpt(&space.model, 60),
            space.dim,
            args.output.display()
        ));
        if *without_vector > 0 {
            let memories = noun(*without_vector, "live memory has", "live memories have");
            printer.note(&format!("{without_vector} {memories} no vector of this model"));
        }
    }
    Ok(Exit::Done)
}

/// Writes JSON Lines or CSV.
fn run_texts(
    global: &GlobalArgs,
    args: &ExportArgs,
    format: ExportFormat,
    settings: &Settings,
    printer: Printer,
) -> Result<Exit, Failure> {
    if args.with.contains(&ExtraColumn::Lineage) {
        let name = if format == ExportFormat::Csv { "CSV" } else { "JSON Lines" };
        let message = format!("{name} has no column lineage");
        return Err(Failure::usage(message, "leave it out, or write Parquet"));
    }
    let bars = Bars::new(printer);
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let request = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
    let scratch_dir = ops::scratch_dir();
    let options = ExportOptions {
        model: args.model.as_deref(),
        text: true,
        lineage: false,
        scratch_dir: &scratch_dir,
    };
    let has_vectors = args.with.contains(&ExtraColumn::Vector);
    let write = || -> Result<ExportedTexts, ExportError> {
        let file = NewFile::create_with(&args.output, mode_like(&args.db));
        let failed = |source| DataError::Io { path: args.output.clone(), source };
        let file = file.map_err(failed)?;
        let is_csv = format == ExportFormat::Csv;
        let mut writer = TextRowsWriter::create_in(file, is_csv, has_vectors)?;
        let exported = export::export_texts(&store, &request, &options, has_vectors, &mut writer)?;
        writer.finish()?;
        Ok(exported)
    };
    let ExportedTexts { rows, with_vector } = write().map_err(|error| failure(args, &error))?;
    drop(bars);
    let output = args.output.display().to_string();
    if global.json {
        let document = ExportTextsDocument { schema_version: 1, rows, with_vector, output };
        printer.document(&document)?;
    } else {
        let with =
            if has_vectors { format!(", {with_vector} with a vector") } else { String::new() };
        let memories = noun(rows, "memory", "memories");
        printer.note(&format!("wrote {rows} {memories} to {output}{with}"));
    }
    Ok(Exit::Done)
}

fn failure(args: &ExportArgs, error: &ExportError) -> Failure {
    match error.is_cancelled() {
        true => Failure::interrupted(),
        false => Failure::of(&format!("export {}", args.db.display()), error),
    }
}

/// Writes JSON Lines as another system spells them.
fn run_preset(
    global: &GlobalArgs,
    args: &ExportArgs,
    preset: &'static Shape,
    printer: Printer,
) -> Result<Exit, Failure> {
    outputs::check_export("--output", &args.output, &args.db, args.force)?;
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let store = open_store(&args.db, &settings)?;
    let exported = export_lines(&store, preset)
        .map_err(|error| Failure::of(&format!("export {}", args.db.display()), &error))?;
    let mode = mode_like(&args.db);
    let written = write_lines(&args.output, mode, &exported.lines);
    written
        .map_err(|error| Failure::new(&format!("write {}", args.output.display()), &error, None))?;
    let ExportedLines { lines, unchanged, changed, added, left_out } = exported;
    let lines = lines.len() as u64;
    if global.json {
        let output = args.output.display().to_string();
        let schema_version = 1;
        printer.document(&ExportLinesDocument {
            schema_version,
            lines,
            unchanged,
            changed,
            added,
            left_out,
            output,
        })?;
    } else {
        printer.note(&format!(
            "wrote {lines} {} to {}: {unchanged} as they came in, {changed} changed, {added} new; \
             {left_out} left out",
            noun(lines, "line", "lines"),
            args.output.display()
        ));
    }
    Ok(Exit::Done)
}

fn write_lines(path: &Path, mode: FileMode, lines: &[String]) -> std::io::Result<()> {
    let mut file = NewFile::create_with(path, mode)?;
    for line in lines {
        file.write_all(line.as_bytes())?;
        file.write_all(b"\n")?;
    }
    file.publish().map(drop)
}

fn format(args: &ExportArgs) -> Result<ExportFormat, Failure> {
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    match (args.format, ending) {
        (Some(format), _) => Ok(format),
        (None, Some("arrow" | "ipc")) => Ok(ExportFormat::Arrow),
        (None, Some("parquet")) => Ok(ExportFormat::Parquet),
        (None, Some("jsonl" | "ndjson")) => Ok(ExportFormat::Jsonl),
        (None, Some("csv")) => Ok(ExportFormat::Csv),
        (None, _) => Err(Failure::usage(
            format!("{} does not tell the format", args.output.display()),
            "end the name in .arrow, .parquet, .jsonl or .csv, or give --format; memfold convert \
             makes npy and other formats of these",
        )),
    }
}

/// Writes the requested file.
pub fn export(
    args: &ExportArgs,
    format: ExportFormat,
    settings: &Settings,
    bars: &Bars,
) -> Result<Exported, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let request = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: bars };
    let options = ExportOptions {
        model: args.model.as_deref(),
        text: args.with.contains(&ExtraColumn::Text),
        lineage: args.with.contains(&ExtraColumn::Lineage),
        scratch_dir: &ops::scratch_dir(),
    };
    // Only readers of the store may read its texts and vectors.
    let mode = mode_like(&args.db);
    let create = |meta: &ColumnsMeta| -> Result<Box<dyn RecordWriter>, DataError> {
        let path = args.output.as_path();
        let file = NewFile::create_with(path, mode)
            .map_err(|source| DataError::Io { path: path.into(), source })?;
        Ok(Box::new(ColumnsWriter::create_in(file, meta, format != ExportFormat::Arrow)?))
    };
    let exported = export::export(&store, &request, &options, &create);
    exported.map_err(|error| failure(args, &error))
}
