//! [`Ledger`]: what memfold took out of the files of a store and what it wrote there, in a file of its own.
//!
//! Several files cannot be replaced at once. So the ledger is written before the first of them, with what holds of each
//! file as long as that is not replaced, and once more behind the last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use memfold_datasets::atomic_file::NewFile;
use memfold_index::file::FileMode;
use serde::{Deserialize, Serialize};

use super::document::Removed;
use super::scan::{Kind, scan};
use memfold_store::origin::{OriginError, OriginRecord};
use memfold_store::whole_file;

/// What is kept of a store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    pub(super) files: BTreeMap<String, Kept>,
    /// What holds of a file that is not replaced yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<String, Pending>,
}

/// What holds of a file as long as it is not replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) kept: Kept,
    /// The digest of the file, and of the one that replaces it.
    before: String,
    after: String,
    /// How many memories of the file say what is taken out or put back.
    count: usize,
}

/// What is kept of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The digest of the file that the places are of; empty where there is no file.
    pub(super) digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) removed: Vec<Removed>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) written: Vec<Written>,
    /// Where the whole file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) archived: Option<Archived>,
    /// Whether memfold made the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_made: bool,
}

/// A memory whose id does not follow from its text: memfold wrote it, or its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    /// The digits of its text.
    pub(super) hash: String,
    /// What was written before it.
    pub(super) lead: String,
    pub(super) made_of: Vec<String>,
}

/// A file that was moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Archived {
    pub(super) record: Box<OriginRecord>,
    /// The path of the copy.
    pub(super) copy: String,
}

impl Kept {
    /// Tells whether anything is kept but the digest.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self { digest: self.digest.clone(), ..Self::default() }
    }
}

/// The digest by which the ledger knows a file; none of an empty one, which is as one that is missing.
pub(super) fn digest(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
    }
}

impl Ledger {
    /// Reads a ledger; a missing one is empty.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, OriginError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                return Err(OriginError::Io { action: "read", path: path.to_owned(), source });
            }
        };
        serde_json::from_slice(&bytes).map_err(|error| OriginError::Format {
            path: path.to_owned(),
            kind: "list of removed texts",
            reason: error.to_string(),
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Returns what holds of a file with this text.
    pub(super) fn kept(&self, path: &str, text: Option<&str>) -> Kept {
        let after = self.files.get(path).cloned().unwrap_or_default();
        let Some(pending) = self.pending.get(path) else { return after };
        let text = text.unwrap_or_default();
        let is_before = match digest(text) {
            digest if digest == pending.before => true,
            digest if digest == pending.after => false,
            // Others changed the file before it was replaced, or since.
            _ => count_of(text, &pending.kept, &after) == pending.count,
        };
        if is_before { pending.kept.clone() } else { after }
    }
}

impl Pending {
    pub(super) fn new(text: &str, before: Kept, after: &Kept) -> Self {
        let count = count_of(text, &before, after);
        Self { before: digest(text), after: after.digest.clone(), count, kept: before }
    }
}

/// Returns how many memories of a text say what one of two states has and the other one has not.
fn count_of(text: &str, before: &Kept, after: &Kept) -> usize {
    let out = |kept: &Kept| -> BTreeMap<String, String> {
        let records = kept.removed.iter().filter_map(|removed| removed.record.as_ref());
        records.map(|record| (record.id.clone(), record.text.clone())).collect()
    };
    let (before, after) = (out(before), out(after));
    let moved = before.iter().filter(|(id, _)| !after.contains_key(*id));
    let moved = moved.chain(after.iter().filter(|(id, _)| !before.contains_key(*id)));
    let moved: BTreeSet<&String> = moved.map(|(_, text)| text).collect();
    let pieces = scan(text, None);
    let said = pieces.iter().filter_map(|piece| match &piece.kind {
        Kind::Memory(memory) => Some(&memory.text),
        _ => None,
    });
    said.filter(|said| moved.contains(said)).count()
}

/// What changes files. Tests put one in its place that fails at the k-th change.
pub(super) trait FileLayer: std::fmt::Debug + Send + Sync {
    /// Writes a ledger.
    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Replaces a file that holds `expected`, or makes one like `like` where that is `None`. `false`: another process
    /// changed the file, and nothing was written.
    fn write(
        &self,
        path: &Path,
        text: &str,
        expected: Option<&str>,
        like: Option<&Path>,
    ) -> io::Result<bool>;

    /// Removes a file that holds `expected`; `false` where it holds something else.
    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool>;
}

/// The system's files.
#[derive(Debug)]
pub(super) struct SystemFiles;

impl FileLayer for SystemFiles {
    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Texts of files that others may not be allowed to read.
        let mut file = NewFile::create_with(path, FileMode::PRIVATE)?;
        file.write_all(bytes)?;
        file.publish().map(drop)
    }

    fn write(
        &self,
        path: &Path,
        text: &str,
        expected: Option<&str>,
        like: Option<&Path>,
    ) -> io::Result<bool> {
        let Some(like) = like.filter(|_| expected.is_none()) else {
            return whole_file::replace_expected(
                path,
                text.as_bytes(),
                expected.map(str::as_bytes),
            );
        };
        if path.symlink_metadata().is_ok() {
            return Ok(fs::read(path)? == text.as_bytes());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        whole_file::replace(path, text.as_bytes(), Some(like)).map(|()| true)
    }

    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool> {
        match fs::read(path) {
            Ok(bytes) if bytes == expected.as_bytes() => whole_file::remove(path).map(|()| true),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}
