//! [`JsonFolder`]: the folder as an [`Origin`].

use std::path::Path;
use std::time::Duration;

use super::files::{FileLayer, Root, SystemFiles, leftovers, lock};
use super::folder::Folder;
use super::index_file;
use super::json::parse;
use super::log::LOG;
use super::write::Writer;
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};

/// Names at the top of a memory folder, one of which tells that it is one.
const SIGNS: [&str; 5] = ["_index.json", "agents", "teams", "long-term", "episodic"];

/// The name of this kind of store.
pub const KIND: &str = "json_folder";

/// An index that lists more asks for a run over what it lists.
pub const INDEX_ENTRIES_MAX: usize = 100;

/// How a folder is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFolderOptions {
    /// Changes per call, at most; units beyond are left for the next call. The first unit is always written.
    pub changes_max: Option<usize>,
    /// The pause between two updates of indexes.
    pub index_pause: Duration,
    /// What began the run, as the log names it.
    pub trigger: String,
}

impl JsonFolderOptions {
    /// Returns what the rules of such folders ask for: 50 changes per call, and 100 ms between updates of indexes.
    #[must_use]
    pub fn hivemind() -> Self {
        let (changes_max, index_pause) = (Some(50), Duration::from_millis(100));
        Self { changes_max, index_pause, ..Self::default() }
    }
}

impl Default for JsonFolderOptions {
    fn default() -> Self {
        Self { changes_max: None, index_pause: Duration::ZERO, trigger: "manual".to_owned() }
    }
}

/// A folder of memories in JSON files.
#[derive(Debug)]
pub struct JsonFolder {
    root: Root,
    options: JsonFolderOptions,
    files: Box<dyn FileLayer>,
}

impl JsonFolder {
    /// Tells whether a folder looks like one of memories.
    #[must_use]
    pub fn detect(path: &Path) -> bool {
        path.is_dir() && SIGNS.iter().chain([&LOG]).any(|sign| path.join(sign).exists())
    }

    /// Opens a folder. Reads and writes nothing yet.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(path: &Path, options: JsonFolderOptions) -> Result<Self, OriginError> {
        Self::open_with(path, options, Box::new(SystemFiles))
    }

    pub(super) fn open_with(
        path: &Path,
        options: JsonFolderOptions,
        files: Box<dyn FileLayer>,
    ) -> Result<Self, OriginError> {
        let failed = |source| OriginError::Io { action: "open", path: path.to_owned(), source };
        let root = path.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(std::io::Error::from(std::io::ErrorKind::NotADirectory)));
        }
        Ok(Self { root: Root::new(root), options, files })
    }

    /// Returns the indexes that list more than so many memories, and how many.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn full_indexes(&self, entries_max: usize) -> Result<Vec<(String, usize)>, OriginError> {
        let (folder, _) = Folder::load(&self.root)?;
        let count = |text: &str| parse(text).map_or(0, |index| index_file::items(&index).len());
        let counted = folder.indexes.iter().map(|(path, text)| (path.clone(), count(text)));
        Ok(counted.filter(|(_, count)| *count > entries_max).collect())
    }

    /// Returns the indexes that are not up to date. Writes nothing.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn stale_indexes(&self) -> Result<Vec<String>, OriginError> {
        let writer = Writer::new(&self.root, &*self.files, &self.options, &[])?;
        Ok(writer.stale_indexes("").into_iter().map(|(path, ..)| path).collect())
    }

    /// Makes every index anew from the memories, at a time as RFC 3339. Returns the indexes that were not up to date.
    ///
    /// # Errors
    /// When a file cannot be read or written, or another process writes.
    pub fn rebuild_indexes(&self, at: &str) -> Result<Vec<String>, OriginError> {
        let _lock = lock(self.root.path())?;
        Writer::new(&self.root, &*self.files, &self.options, &[])?.rebuild_indexes(at)
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
        let left = leftovers(self.root.path()).into_iter().map(|path| {
            format!(
                "{} was left by a process that was killed: the next run that writes removes it",
                path.display()
            )
        });
        let writer = Writer::new(&self.root, &*self.files, &self.options, &[]);
        let log = writer.and_then(|writer| writer.new_log(&[]).map(drop)).err();
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
        self.rebuild_indexes(at)
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Folder::load(&self.root).map(|(_, contents)| contents)
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let _lock = lock(self.root.path())?;
        Writer::new(&self.root, &*self.files, &self.options, units)?.write()
    }
}
