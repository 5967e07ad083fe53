//! Report files: whole or not at all, and never over another.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::{NewFile, without_path};
use memfold_index::file::FileMode;

use super::{Report, markdown};
use crate::plan::{PLAN_SCHEMA_VERSION, Plan};

/// A document that can be written as a report.
pub trait Reported {
    /// Returns the run that it is about.
    fn run_id(&self) -> &str;

    /// Returns the document for programs.
    ///
    /// # Errors
    /// When a value has no JSON.
    fn to_json(&self) -> serde_json::Result<Vec<u8>>;

    /// Returns the page for people.
    fn to_markdown(&self) -> String;
}

impl Reported for Report {
    fn run_id(&self) -> &str {
        &self.run_id
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    fn to_markdown(&self) -> String {
        markdown(self)
    }
}

/// Where a report was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPaths {
    /// For programs.
    pub json: PathBuf,
    /// For people.
    pub markdown: PathBuf,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportFileError {
    /// The folder cannot be made.
    #[error("create report folder {}: {error}", path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another report is there.
    #[error("write report {}: a file is there already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("write report {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The file cannot be read.
    #[error("read plan {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The file is no plan.
    #[error("read plan {}: no valid plan: {error}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The fault, and its place.
        #[source]
        error: serde_json::Error,
    },
    /// The plan's format is another.
    #[error("read plan {}: expected schema_version {PLAN_SCHEMA_VERSION}, found {found}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
}

impl ReportFileError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => {
                Some("reports are never overwritten: give --report another name".to_owned())
            }
            Self::CreateFolder { .. } | Self::Write { .. } => {
                Some("give --report-dir a folder that you may write and that has room".to_owned())
            }
            Self::Read { .. } => None,
            Self::Parse { .. } => Some(
                "a plan is what `memfold consolidate DB --plan FILE` writes; a report is not a plan"
                    .to_owned(),
            ),
            Self::Version { .. } => {
                Some("make the plan again with this version of memfold".to_owned())
            }
        }
    }
}

/// Makes sure that a report can be written into a folder, which is made where missing.
///
/// # Errors
/// When the folder cannot be made or written.
pub fn ensure_report_dir(folder: &Path) -> Result<(), ReportFileError> {
    std::fs::create_dir_all(folder)
        .map_err(|error| ReportFileError::CreateFolder { path: folder.to_owned(), error })?;
    NewFile::create_unlinked(folder).map(drop).map_err(|error| ReportFileError::Write {
        path: folder.to_owned(),
        error: without_path(error),
    })
}

/// Returns the folder for reports on a store with a folder that cannot be written, if the user has a home.
#[must_use]
pub fn state_report_dir(store: &Path) -> Option<PathBuf> {
    use etcetera::BaseStrategy as _;
    let strategy = etcetera::choose_base_strategy().ok()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    let name = blake3::hash(store.as_os_str().as_encoded_bytes()).to_hex();
    Some(state.join("memfold").join("reports").join(&name[..16]))
}

/// Writes `<run_id>.json` and `<run_id>.md` into a folder, which is made where missing; where the name
/// is taken, `<run_id>-2` and so on.
///
/// # Errors
/// When the folder cannot be made or written.
pub fn write_report_in(
    folder: &Path,
    report: &dyn Reported,
) -> Result<ReportPaths, ReportFileError> {
    std::fs::create_dir_all(folder)
        .map_err(|error| ReportFileError::CreateFolder { path: folder.to_owned(), error })?;
    let mut number = 1_u32;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        match write_report(&folder.join(format!("{}{suffix}.json", report.run_id())), report) {
            Err(ReportFileError::Exists { .. }) if number < u32::MAX => number += 1,
            done => return done,
        }
    }
}

/// Writes a report to a file, and its Markdown beside it with the ending `.md`.
///
/// # Errors
/// When one of the files is there already or cannot be written; then neither stays.
pub fn write_report(json: &Path, report: &dyn Reported) -> Result<ReportPaths, ReportFileError> {
    let paths = ReportPaths::of(json);
    let mut document = report.to_json().map_err(|error| ReportFileError::Write {
        path: paths.json.clone(),
        error: error.into(),
    })?;
    document.push(b'\n');
    write_new(&paths.markdown, report.to_markdown().as_bytes())?;
    if let Err(error) = write_new(&paths.json, &document) {
        // The Markdown is ours: it was new a moment ago. Its loss is not worth a second error.
        let _ = std::fs::remove_file(&paths.markdown);
        return Err(error);
    }
    Ok(paths)
}

impl ReportPaths {
    /// Returns where a report will stand: the Markdown is beside the JSON and never has its name, whatever its ending.
    #[must_use]
    pub fn of(json: &Path) -> Self {
        let beside = json.with_extension("md");
        let markdown = if beside == json { json.with_extension("md.md") } else { beside };
        Self { json: json.to_owned(), markdown }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), ReportFileError> {
    let write = || {
        let mut file = NewFile::create_with(path, FileMode::PRIVATE)?;
        file.write_all(bytes)?;
        file.publish_new()
    };
    match write() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(ReportFileError::Exists { path: path.to_owned() })
        }
        Err(error) => {
            Err(ReportFileError::Write { path: path.to_owned(), error: without_path(error) })
        }
    }
}

/// Why a plan file or the metrics could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write {what} {}: {error}", path.display())]
pub struct WriteFileError {
    /// `plan` or `metrics`, as the flag that asks for the file.
    pub what: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

impl WriteFileError {
    fn of(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self { what, path: path.to_owned(), error: without_path(error) }
    }

    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self.error.kind() {
            io::ErrorKind::NotFound => Some("create its folder first".to_owned()),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some(format!("give --{} a file in a folder that you may write", self.what))
            }
            _ => None,
        }
    }
}

/// Reads a plan file.
///
/// # Errors
/// When the file cannot be read, is no plan, or is one of another version.
pub fn read_plan(path: &Path) -> Result<Plan, ReportFileError> {
    let path_of = || path.to_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ReportFileError::Read { path: path_of(), error })?;
    let parse = |error| ReportFileError::Parse { path: path_of(), error };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(parse)?;
    match value.get("schema_version") {
        Some(found) if *found != PLAN_SCHEMA_VERSION => {
            Err(ReportFileError::Version { path: path_of(), found: found.to_string() })
        }
        _ => serde_json::from_str(&text).map_err(parse),
    }
}

/// Writes a plan file, whole or not at all; replaces an earlier one.
///
/// # Errors
/// When the file's folder cannot be written.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), WriteFileError> {
    let write = || -> io::Result<()> {
        let mut file = NewFile::create_with(path, FileMode::PRIVATE)?;
        serde_json::to_writer_pretty(&mut file, plan)?;
        file.write_all(b"\n")?;
        file.publish().map(drop)
    };
    write().map_err(|error| WriteFileError::of("plan", path, error))
}

/// Writes the metrics of a run, whole or not at all; replaces the ones of an earlier run.
///
/// All who may read the folder may read the file, as far as the process's umask allows.
///
/// # Errors
/// When the file's folder cannot be written.
pub fn write_metrics(path: &Path, page: &str) -> Result<(), WriteFileError> {
    let write = || {
        let mut file = NewFile::create(path)?;
        file.write_all(page.as_bytes())?;
        file.publish().map(drop)
    };
    write().map_err(|error| WriteFileError::of("metrics", path, error))
}
