//! Memories from a file of texts, and into files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::NewFile;
use memfold_datasets::texts::{Shape, TextFile};
use memfold_datasets::{ColumnsMeta, ColumnsWriter, DataError, TextRowsWriter};
use memfold_index::file::FileMode;
use memfold_store::LoadRequest;
use serde::Serialize;

use super::{Failure, Listener, Settings, mode_like, open_store, scratch_dir, session_options};
use crate::export::{self, ExportError, ExportOptions, Exported, ExportedTexts};
use crate::import::{self, ExportedLines, ImportError, ImportOptions, ImportRequest, Imported};
use crate::machine::{self, MemoryWatch, Stopwatch};

/// `memfold import --json`
#[derive(Debug, Serialize)]
pub struct ImportDocument {
    schema_version: u32,
    store: String,
    /// What was imported.
    #[serde(flatten)]
    pub imported: Imported,
}

/// Imports the memories of a file of texts with the name `from`.
///
/// # Errors
/// When the configuration forbids it, no record is a memory, or the store cannot be written; nothing
/// is imported then.
pub fn import(
    from: &Path,
    file: TextFile,
    settings: &Settings,
    request: ImportRequest<'_>,
    listener: &dyn Listener,
) -> Result<ImportDocument, Failure> {
    let into = request.into;
    if settings.configuration.settings.read_only && into.exists() {
        return Err(Failure::plain(
            "read_only is set: nothing is imported into a store that is there",
            "unset it for this command",
        ));
    }
    let options = ImportOptions {
        request,
        time_zone: &settings.time_zone()?,
        now: machine::clock(),
        session: session_options(settings),
        progress: listener,
    };
    let imported = import::import(file, &options).map_err(|error| {
        let what = match error {
            ImportError::Lines { .. } => format!("import {}", from.display()),
            _ => format!("import into {}", into.display()),
        };
        Failure::of(&what, &error)
    })?;
    Ok(ImportDocument { schema_version: 1, store: into.display().to_string(), imported })
}

/// File formats of memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ExportFormat {
    /// Arrow IPC, to be mapped.
    Arrow,
    /// Parquet, to be exchanged.
    Parquet,
    /// JSON Lines with texts, as import reads them.
    Jsonl,
    /// CSV with texts.
    Csv,
}

/// Columns that an export leaves out unless asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ExtraColumn {
    /// The memories' texts; JSON Lines and CSV always have them.
    Text,
    /// The vectors, each with its model; Arrow and Parquet always have them.
    Vector,
    /// The memory that each memory was merged into.
    Lineage,
}

/// The file of an export.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct ExportRequest {
    /// The file to write.
    #[cfg_attr(feature = "clap", arg(long, short, value_name = "FILE"))]
    pub output: PathBuf,
    /// The format [default: by the file's ending].
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub format: Option<ExportFormat>,
    /// Further columns.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, value_delimiter = ',', value_name = "COLUMN,…")
    )]
    pub with: Vec<ExtraColumn>,
    /// Only vectors of this model [default: the one with most vectors].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub model: Option<String>,
}

/// `memfold export --json`
#[derive(Debug, Serialize)]
pub struct ExportDocument {
    schema_version: u32,
    /// Rows written.
    pub rows: u64,
    /// Components of each vector.
    pub dim: u32,
    /// The model of the vectors.
    pub model: String,
    /// Live memories that were left out because they have no vector of this model.
    pub without_vector: u64,
    /// The file.
    output: String,
    /// Wall time of reading and writing.
    pub seconds: f64,
    /// The most memory in use at once; `null` where the system does not tell.
    peak_rss_bytes: Option<u64>,
    /// The same without memory backed by files.
    peak_anon_bytes: Option<u64>,
}

/// What was written, and the file: `memfold export --json` of lines and texts.
#[derive(Debug, Serialize)]
pub struct ExportedDocument<T> {
    schema_version: u32,
    /// The counts.
    #[serde(flatten)]
    pub exported: T,
    /// The file.
    pub output: String,
}

impl ExportRequest {
    /// Returns the format: the requested one, or by the ending of the file.
    ///
    /// # Errors
    /// When the ending tells none.
    pub fn format(&self) -> Result<ExportFormat, Failure> {
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        let format = match (self.format, ending) {
            (Some(format), _) => format,
            (None, Some("arrow" | "ipc")) => ExportFormat::Arrow,
            (None, Some("parquet")) => ExportFormat::Parquet,
            (None, Some("jsonl" | "ndjson")) => ExportFormat::Jsonl,
            (None, Some("csv")) => ExportFormat::Csv,
            (None, _) => {
                return Err(Failure::usage(
                    format!("{} does not tell the format", self.output.display()),
                    "end the name in .arrow, .parquet, .jsonl or .csv, or give --format; memfold \
                     convert makes npy and other formats of these",
                ));
            }
        };
        Ok(format)
    }

    fn options<'a>(&'a self, text: bool, scratch_dir: &'a Path) -> ExportOptions<'a> {
        ExportOptions {
            model: self.model.as_deref(),
            text: text || self.with.contains(&ExtraColumn::Text),
            lineage: self.with.contains(&ExtraColumn::Lineage),
            scratch_dir,
        }
    }

    /// Creates the file: only readers of the store may read its texts and vectors.
    fn create(&self, mode: FileMode) -> Result<NewFile, DataError> {
        NewFile::create_with(&self.output, mode)
            .map_err(|source| DataError::Io { path: self.output.clone(), source })
    }
}

/// Writes the live memories with a vector to a file of columns: Parquet, or Arrow.
///
/// # Errors
/// When the store cannot be read, or the file not be written.
pub fn export(
    db: &Path,
    settings: &Settings,
    request: &ExportRequest,
    format: ExportFormat,
    listener: &dyn Listener,
) -> Result<ExportDocument, Failure> {
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let (scratch_dir, mode, time_zone) = (scratch_dir(), mode_like(db), settings.time_zone()?);
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: listener };
    let create = |meta: &ColumnsMeta| -> Result<ColumnsWriter, DataError> {
        let is_parquet = format != ExportFormat::Arrow;
        ColumnsWriter::create_in(request.create(mode)?, meta, is_parquet)
    };
    let store = open_store(db, settings)?;
    let exported = export::export(&store, &load, &request.options(false, &scratch_dir), &create);
    let Exported { rows, space, without_vector } =
        exported.map_err(|error| Failure::of(&format!("export {}", db.display()), &error))?;
    let (peak_rss_bytes, peak_anon_bytes) = watch.finish();
    Ok(ExportDocument {
        schema_version: 1,
        rows,
        dim: space.dim,
        model: space.model.to_string(),
        without_vector,
        output: request.output.display().to_string(),
        seconds: stopwatch.seconds(),
        peak_rss_bytes,
        peak_anon_bytes,
    })
}

/// Writes the live memories with their texts: JSON Lines, or CSV.
///
/// # Errors
/// When a column is requested that the format lacks, the store cannot be read, or the file not be
/// written.
pub fn export_texts(
    db: &Path,
    settings: &Settings,
    request: &ExportRequest,
    format: ExportFormat,
    listener: &dyn Listener,
) -> Result<ExportedDocument<ExportedTexts>, Failure> {
    let is_csv = format == ExportFormat::Csv;
    if request.with.contains(&ExtraColumn::Lineage) {
        let name = if is_csv { "CSV" } else { "JSON Lines" };
        let message = format!("{name} has no column lineage");
        return Err(Failure::usage(message, "leave it out, or write Parquet"));
    }
    let (store, time_zone) = (open_store(db, settings)?, settings.time_zone()?);
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: listener };
    let (scratch_dir, has_vectors) = (scratch_dir(), request.with.contains(&ExtraColumn::Vector));
    let write = || -> Result<ExportedTexts, ExportError> {
        let file = request.create(mode_like(db))?;
        let mut writer = TextRowsWriter::create_in(file, is_csv, has_vectors)?;
        let options = request.options(true, &scratch_dir);
        let exported = export::export_texts(&store, &load, &options, has_vectors, &mut writer)?;
        writer.finish()?;
        Ok(exported)
    };
    let exported =
        write().map_err(|error| Failure::of(&format!("export {}", db.display()), &error))?;
    Ok(ExportedDocument::of(exported, &request.output))
}

/// Writes the memories as the lines of the system that they were imported from.
///
/// # Errors
/// When the store cannot be read, or the file not be written.
pub fn export_lines(
    db: &Path,
    settings: &Settings,
    output: &Path,
    preset: &'static Shape,
) -> Result<ExportedDocument<ExportedLines>, Failure> {
    let exported = import::export_lines(&open_store(db, settings)?, preset)
        .map_err(|error| Failure::of(&format!("export {}", db.display()), &error))?;
    let write = || -> std::io::Result<()> {
        let mut file = NewFile::create_with(output, mode_like(db))?;
        for line in &exported.lines {
            file.write_all(line.as_bytes())?;
            file.write_all(b"\n")?;
        }
        file.publish().map(drop)
    };
    let what = format!("write {}", output.display());
    write().map_err(|error| Failure::new(&what, &error, None))?;
    Ok(ExportedDocument::of(exported, output))
}

impl<T> ExportedDocument<T> {
    fn of(exported: T, output: &Path) -> Self {
        Self { schema_version: 1, exported, output: output.display().to_string() }
    }
}
