//! Plan files: JSON for people and programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::{place_of, without_path};

use crate::plan::{PLAN_SCHEMA_VERSION, Plan};

/// Why a plan file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadPlanError {
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
        /// What is wrong with it, and where.
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

impl ReadPlanError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
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

/// Why a plan file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write plan {}: {error}", path.display())]
pub struct WritePlanError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

impl WritePlanError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self.error.kind() {
            io::ErrorKind::NotFound => Some("create its folder first".to_owned()),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("give --plan a file in a folder that you may write".to_owned())
            }
            _ => None,
        }
    }
}

/// Reads a plan file.
///
/// # Errors
/// When the file cannot be read, is no plan, or is one of another version.
pub fn read_plan(path: &Path) -> Result<Plan, ReadPlanError> {
    let path_of = || path.to_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ReadPlanError::Read { path: path_of(), error })?;
    let parse = |error| ReadPlanError::Parse { path: path_of(), error };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(parse)?;
    match value.get("schema_version") {
        Some(found) if *found != PLAN_SCHEMA_VERSION => {
            Err(ReadPlanError::Version { path: path_of(), found: found.to_string() })
        }
        _ => serde_json::from_str(&text).map_err(parse),
    }
}

/// Writes a plan file, whole or not at all; replaces an earlier one.
///
/// # Errors
/// When the file's folder cannot be written.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), WritePlanError> {
    let write = || -> io::Result<()> {
        let path = place_of(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        let mut json = serde_json::to_vec_pretty(plan)?;
        json.push(b'\n');
        file.write_all(&json)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| WritePlanError { path: path.to_owned(), error: without_path(error) })
}
