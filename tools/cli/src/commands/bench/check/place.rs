//! The store that is measured: the user's, or a copy of it where writers take part.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use memfold_pipeline::store::BrainDb;
use tempfile::TempDir;

use crate::args::StorePlaceArgs;
use crate::commands::consolidate::open_options;
use crate::commands::index::place;
use crate::failure::Failure;
use crate::settings::Settings;

/// A store and its index.
pub(super) struct Place {
    args: StorePlaceArgs,
    index: PathBuf,
    _copy: Option<TempDir>,
}

impl Place {
    /// Takes the user's own store, or a copy beside it that is gone afterwards.
    pub(super) fn of(
        args: &StorePlaceArgs,
        settings: &Settings,
        is_written: bool,
    ) -> Result<Self, Failure> {
        let index = place::to_read(&args.into())?;
        if !is_written {
            return Ok(Self { args: args.clone(), index, _copy: None });
        }
        let failed = |error: &(dyn std::error::Error + 'static)| {
            let hint = "the store is copied so that writers may write; name a place with TMPDIR";
            Failure::new("copy the store", error, Some(hint.to_owned()))
        };
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let copy = folder.path().join("brain.db");
        let store = BrainDb::at(&args.db, open_options(settings));
        store.copy_to(&copy).map_err(|error| failed(&error))?;
        let copied_index = folder.path().join("brain.db.memfold");
        if index.is_dir() {
            link_all(&index, &copied_index).map_err(|error| failed(&error))?;
        }
        let args = StorePlaceArgs { db: copy, index_dir: Some(copied_index.clone()) };
        Ok(Self { args, index: copied_index, _copy: Some(folder) })
    }

    pub(super) const fn args(&self) -> &StorePlaceArgs {
        &self.args
    }

    /// All files that a check may read.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.args.db.clone()];
        let mut folders = vec![self.index.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

/// Puts the files of a folder into another one; they never change, so links do where they can be made.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            link_all(&path, &target)?;
        } else if name != "MANIFEST" && fs::hard_link(&path, &target).is_ok() {
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
