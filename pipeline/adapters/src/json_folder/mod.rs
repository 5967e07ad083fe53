//! JSON memory folders: `global/`, `teams/<team>/`, `agents/<agent>/`, … with files of memories, an
//! `_index.json` for each scope, `archive/` and `ops/consolidation-log.json`.
//!
//! Reading is tolerant: an entry of any of three shapes with an id of any form, its content a text or an
//! object; under `entries`, `memories`, `log`, `decisions` or `events`, in a bare list, or as a file of its own. What cannot be
//! understood is told with its place. Folders and files whose names begin with a dot, `ops/` and `schemas/` hold no
//! memories.
//!
//! Writing changes the members that are other and keeps every other byte. A memory that leaves goes to
//! `archive/<its path>`; the copy there is written and synced before the memory goes. After a crash in between it
//! stands in both places and counts as live, and writing the same units again ends what was begun.

mod folder;
mod entry;
mod index_file;
mod write;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use self::folder::{Folder, Root, leftovers, lock};
use self::write::{LOG, Writer};
use crate::files::{FileLayer, SystemFiles, advice_on, failed};
use crate::json::parse;
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};

/// Names at the top of a memory folder, one of which tells that it is one.
const SIGNS: [&str; 5] = ["_index.json", "agents", "teams", "long-term", "episodic"];

/// The name of this kind of store.
pub(crate) const KIND: &str = "json_folder";

/// An index that lists more asks for a run over what it lists.
const INDEX_ENTRIES_MAX: usize = 100;

/// A call of a run changes so many memories at most.
const CHANGES_MAX: usize = 50;

/// The pause between two updates of indexes.
const INDEX_PAUSE: Duration = Duration::from_millis(100);

/// How a folder is written.
#[derive(Debug)]
struct Options {
    /// Changes per call, at most; units beyond are left for the next call. The first unit is always written.
    changes_max: usize,
    index_pause: Duration,
    /// What began the run, as the log names it.
    trigger: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { changes_max: CHANGES_MAX, index_pause: INDEX_PAUSE, trigger: "manual".to_owned() }
    }
}

/// A folder of memories in JSON files.
#[derive(Debug)]
pub(crate) struct JsonFolder {
    root: Root,
    options: Options,
    files: Box<dyn FileLayer>,
}

/// Tells whether a folder looks like one of memories.
pub(crate) fn is_one(path: &Path) -> bool {
    path.is_dir() && SIGNS.iter().chain([&LOG]).any(|sign| path.join(sign).exists())
}

impl JsonFolder {
    /// Opens a folder. Reads and writes nothing yet.
    pub(crate) fn open(path: &Path) -> Result<Self, OriginError> {
        let root = path.canonicalize().map_err(failed("open", path))?;
        if !root.is_dir() {
            return Err(failed("open", path)(std::io::ErrorKind::NotADirectory.into()));
        }
        let (options, files) = (Options::default(), Box::new(SystemFiles));
        Ok(Self { root: Root::new(root), options, files })
    }

    fn writer<'a>(&'a self, units: &'a [OriginUnit]) -> Result<Writer<'a>, OriginError> {
        Writer::new(&self.root, &*self.files, &self.options, units)
    }

    /// Returns the indexes that list more than so many memories, and how many.
    fn full_indexes(&self, entries_max: usize) -> Result<Vec<(String, usize)>, OriginError> {
        let (folder, _) = Folder::load(&self.root)?;
        let count = |text: &str| parse(text).map_or(0, |index| index_file::items(&index).len());
        let counted = folder.indexes.iter().map(|(path, text)| (path.clone(), count(text)));
        Ok(counted.filter(|(_, count)| *count > entries_max).collect())
    }

    /// Returns the indexes that are not up to date. Writes nothing.
    fn stale_indexes(&self) -> Result<Vec<String>, OriginError> {
        let stale = self.writer(&[])?.stale_indexes("");
        Ok(stale.into_iter().map(|(path, ..)| path).collect())
    }
}

/// Returns the category of the memories that an index lists.
fn category(index: &str) -> Option<String> {
    match index.split('/').collect::<Vec<_>>()[..] {
        ["global", _] => Some("scope:global".to_owned()),
        ["agents" | "teams" | "projects", id, _] => Some(format!("scope_id:{id}")),
        _ => None,
    }
}

impl Origin for JsonFolder {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn rule_profile(&self) -> Option<&'static str> {
        Some("hivemind")
    }

    fn advice(&self) -> Vec<String> {
        let full = self.full_indexes(INDEX_ENTRIES_MAX).unwrap_or_default();
        let told = |(path, count)| {
            format!("{path} lists {count} entries, more than {INDEX_ENTRIES_MAX}: time for a run")
        };
        let stale = self.stale_indexes().unwrap_or_default();
        let stale = stale.into_iter().map(|path| {
            format!("{path} is not up to date: doctor --rebuild-indexes makes it anew")
        });
        let left = leftovers(self.root.path());
        let left = left.iter().map(|path| advice_on(path));
        let log = self.writer(&[]).and_then(|writer| writer.new_log(&[]).map(drop)).err();
        let log = log.map(|error| format!("no run can write: {error}"));
        full.into_iter().map(told).chain(stale).chain(left).chain(log).collect()
    }

    fn begun_by(&mut self, trigger: &str) {
        trigger.clone_into(&mut self.options.trigger);
    }

    fn overflows(&self) -> Result<Vec<(String, Option<String>)>, OriginError> {
        let full = self.full_indexes(INDEX_ENTRIES_MAX)?;
        Ok(full.into_iter().map(|(path, _)| (path.clone(), category(&path))).collect())
    }

    fn rebuild(&self, at: &str) -> Result<Vec<String>, OriginError> {
        let _lock = lock(self.root.path())?;
        self.writer(&[])?.rebuild_indexes(at)
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Folder::load(&self.root).map(|(_, contents)| contents)
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let _lock = lock(self.root.path())?;
        self.writer(units)?.write()
    }
}
