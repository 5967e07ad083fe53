//! Forgetting: a memory is erased everywhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_core::memory::MemoryId;
use memfold_core::report::{Mode, state_report_dir};
use memfold_index::file::Generations;
use memfold_store::upkeep::{self, Erasure, Mentions, mentions, preview_forget};
use serde::Serialize;

use super::store::run_upkeep;
use super::{Failure, Settings, index_folders, now, open_store, remove_kept_vectors, remove_marks};
use crate::lookup::StoreIndex;

/// How long to wait for another process that builds an index.
const INDEX_WAIT: Duration = Duration::from_secs(60);

/// The memory to forget.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct ForgetRequest {
    /// The memory's id.
    pub id: String,
    /// Also forget the memories that were merged into it.
    #[cfg_attr(feature = "clap", arg(long, alias = "with-absorbed"))]
    pub with_merged: bool,
    /// Also delete the reports and backups of memfold that name it or may hold it.
    #[cfg_attr(feature = "clap", arg(long))]
    pub everywhere: bool,
    /// An index of the store in another folder than DB.memfold, to be removed too where it holds the memory.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub index_dir: Option<PathBuf>,
}

/// `memfold forget --json`
#[derive(Debug, Serialize)]
pub struct ForgetDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    /// The rows that were erased, or would be.
    pub erasure: Erasure,
    /// Whether the write-ahead log is free of erased bytes; `null` for a dry run.
    pub is_log_empty: Option<bool>,
    /// Files that name erased memories: left to their owner, or deleted where `everywhere` is set.
    pub files: Mentions,
    /// Folders of indexes that hold erased memories: removed, or to be removed. They can be built
    /// anew.
    pub indexes: Vec<PathBuf>,
}

/// Erases a memory from the store, its indexes and memfold's files beside it, or tells what would be erased.
/// `at` is the time of the writes, in place of the clock's.
///
/// # Errors
/// When the store has no such memory or cannot be written, or a file cannot be removed; the message says whether the
/// memory is erased from the store.
pub fn forget(
    store: &Path,
    settings: &Settings,
    request: &ForgetRequest,
    at: Option<&str>,
    writes: bool,
) -> Result<ForgetDocument, Failure> {
    let (id, with_merged) = (&MemoryId::new(&*request.id), request.with_merged);
    if !writes {
        let time_zone = settings.time_zone()?;
        let (now, opened) = (now(at, &time_zone)?, open_store(store, settings)?);
        let erasure = preview_forget(&opened, id, with_merged, &time_zone, now)
            .map_err(|error| Failure::of("forget", &error))?;
        return Ok(ForgetDocument {
            schema_version: 1,
            mode: Mode::DryRun,
            run_id: None,
            is_log_empty: None,
            files: files(store, &erasure)?,
            indexes: indexes(store, request, &erasure)?,
            erasure,
        });
    }
    let forgotten = run_upkeep(store, settings, at, "forget", "forget", |session, run| {
        upkeep::forget(session, id, with_merged, run)
    })?;
    let indexes = indexes(store, request, &forgotten.erasure)?;
    remove_indexes(&indexes)?;
    remove_marks(store, request.index_dir.as_deref())?;
    remove_kept_vectors(store, request.index_dir.as_deref())?;
    let files = files(store, &forgotten.erasure)?;
    if request.everywhere {
        remove_files(&files)?;
    }
    Ok(ForgetDocument {
        schema_version: 1,
        mode: Mode::Execute,
        run_id: Some(forgotten.run_id),
        erasure: forgotten.erasure,
        is_log_empty: Some(forgotten.is_log_empty),
        files,
        indexes,
    })
}

/// Returns the indexes that hold erased memories: id, text hash and vector.
fn indexes(
    store: &Path,
    request: &ForgetRequest,
    erasure: &Erasure,
) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = index_folders(store, request.index_dir.as_deref())?;
    folders.retain(|folder| StoreIndex::names_any(folder, &erasure.ids) == Some(true));
    Ok(folders)
}

/// Removes indexes; readers that have one open keep it until they close it.
fn remove_indexes(folders: &[PathBuf]) -> Result<(), Failure> {
    for folder in folders {
        Generations::at(folder).remove(INDEX_WAIT).map_err(|error| {
            let what = format!(
                "remove the index {}; the memory is erased from the store",
                folder.display()
            );
            let hint = "delete the folder yourself: an index can be built anew";
            Failure::new(&what, &error, Some(hint.to_owned()))
        })?;
    }
    Ok(())
}

/// Returns the files that still name erased memories.
fn files(store: &Path, erasure: &Erasure) -> Result<Mentions, Failure> {
    let store = store.canonicalize().unwrap_or_else(|_| store.to_path_buf());
    let beside = store.parent().unwrap_or(Path::new(".")).join("reports").join("consolidation");
    let mut folders = vec![beside];
    folders.extend(state_report_dir(&store));
    folders.dedup();
    mentions(&store, &folders, &erasure.ids).map_err(|error| {
        let hint = "what can be read was looked through; look for the id yourself";
        Failure::new("look through the reports", &error, Some(hint.to_owned()))
    })
}

/// Deletes reports and backups, all of which are memfold's.
fn remove_files(files: &Mentions) -> Result<(), Failure> {
    for path in files.reports.iter().chain(&files.backups) {
        std::fs::remove_file(path).map_err(|error| {
            let what = format!("delete {}; the memory is erased from the store", path.display());
            Failure::new(&what, &error, Some("delete the file yourself".to_owned()))
        })?;
    }
    Ok(())
}
