//! Memories in Markdown: files and folders that agents keep for themselves.
//!
//! A memory is a bullet with everything nested in it, a paragraph, a row of a table, a block between separators, or a
//! whole file with front matter. `scan` finds them; nothing else of a file is touched.
//!
//! **Ids.** The file, `#` and 12 hex digits of a hash of the text; the second and later ones of one text get `#2`, `#3`.
//! A whole file has its path as its id.
//!
//! **Apart.** The titles above a memory are its attribute `section`. Those of them that name a subject, and a name of
//! the file that does, are its attribute `topic`, and memories of two topics are never merged: "Port 8080" below
//! "Staging" and below "Production" are two facts. Memories of days have the attribute `log`, and merge among
//! themselves only: agents load the last days, and what a lasting file says must stay there.
//!
//! **Writing.** A memory is taken out by its bytes, with its line end and the headings that have no content then; a whole
//! file moves to `archive/`, and its link leaves the index. What was taken out is kept nowhere else than in a file that
//! the caller names, so that must last: it does not belong in a cache.

mod scan;
mod document;
mod ledger;
mod folder;
mod write;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use self::folder::Files;
use self::ledger::Ledger;
use self::write::Writer;
use crate::files::{FileLayer, SystemFiles, advice_on, failed, remove_leftovers};
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};
use memfold_store::whole_file::{self, OsLock};

/// The kind, as `--store-kind` spells it.
pub const KIND: &str = "markdown";
/// How often a write is tried while other programs change the files.
const TRIES: usize = 5;

/// A file or a folder of memories in Markdown.
#[derive(Debug)]
pub struct MarkdownMemories {
    path: PathBuf,
    is_file: bool,
    /// Where removed texts are kept.
    removed: Option<PathBuf>,
    layer: Box<dyn FileLayer>,
}

/// Tells whether a file is Markdown, or a folder holds memories in it.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    folder::is_one(path)
}

impl MarkdownMemories {
    /// Opens a file or a folder. Writes nothing.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(path: &Path) -> Result<Self, OriginError> {
        let path = path.canonicalize().map_err(failed("open", path))?;
        let is_file = !path.is_dir();
        Ok(Self { path, is_file, removed: None, layer: Box::new(SystemFiles) })
    }

    /// The folder that the files are in.
    fn root(&self) -> &Path {
        match self.is_file {
            true => self.path.parent().unwrap_or(Path::new("")),
            false => &self.path,
        }
    }

    fn load(&self) -> Result<(Ledger, Files), OriginError> {
        let ledger = Ledger::read(self.removed.as_deref())?;
        let files = Files::load(&self.path, self.is_file, &ledger)?;
        Ok((ledger, files))
    }

    /// Returns the temporary files that killed processes left.
    fn leftovers(&self) -> Vec<PathBuf> {
        match self.is_file {
            true => whole_file::leftovers(self.root(), Some(&self.path)),
            false => folder::leftovers(&self.path),
        }
    }
}

impl Origin for MarkdownMemories {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Ok(self.load()?.1.contents())
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let Some(place) = &self.removed else {
            let reason = std::io::Error::other("nobody said where removed texts are kept");
            return Err(failed("write", &self.path)(reason));
        };
        let _lock = OsLock::beside(place, place)?;
        remove_leftovers(&self.leftovers())?;
        for _ in 0..TRIES {
            let (ledger, files) = self.load()?;
            let mut writer = Writer::new(self.root(), &self.path, files);
            let published = writer.apply(units);
            let changes = writer.changes(&ledger);
            if changes.write(self.root(), place, &ledger, &*self.layer)? {
                return Ok(published);
            }
        }
        Err(OriginError::Locked { path: self.path.clone() })
    }

    fn separate_by(&self) -> &'static [&'static str] {
        &["topic:*", "log:*"]
    }

    fn keep_removed_in(&mut self, file: &Path) {
        self.removed = Some(file.to_owned());
    }

    fn keeps_removed(&self) -> bool {
        true
    }

    fn advice(&self) -> Vec<String> {
        let kept = self.removed.iter().filter(|path| path.exists()).map(|path| {
            format!(
                "{} has the only copy of removed texts: back it up, do not delete it",
                path.display()
            )
        });
        kept.chain(self.leftovers().iter().map(|path| advice_on(path))).collect()
    }
}
