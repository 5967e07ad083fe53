//! `memory.memfold-archive.jsonl`: the observations that memfold took out of `memory.jsonl`, and those that it put in.
//!
//! The server knows nothing of archived observations and drops fields that it does not know when it writes, so they
//! stand in a file of their own. One JSON object on a line. Two files cannot be replaced at once: before `memory.jsonl`
//! is replaced, the archive says what it will hold then and what it held before, with the digest of the new file.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::graph::Graph;
use crate::changes::digest;
use crate::files::{failed, read_text, remove};
use memfold_store::origin::OriginError;
use memfold_store::whole_file::{self, OsLock, PATIENCE};

/// A line of the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Entry {
    /// Marks the lines behind it as those that hold as long as `memory.jsonl` has not this digest.
    Until {
        /// The digest.
        until: String,
    },
    /// An observation that was taken out.
    Retired(Retired),
    /// An observation that memfold wrote.
    Written(Written),
}

/// An observation that was taken out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Retired {
    pub(super) id: String,
    pub(super) entity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entity_type: Option<String>,
    /// Which of several lines of that name, from 0.
    #[serde(default)]
    pub(super) nth: usize,
    /// Its position among the observations of the line, the retired ones counted.
    pub(super) position: usize,
    /// The text.
    pub(super) observation: String,
    /// The text as it was written, in JSON.
    pub(super) raw: String,
    /// The observation that says what it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merged_into: Option<String>,
    pub(super) reason: String,
    pub(super) run_id: String,
    pub(super) at: String,
}

/// An observation that memfold wrote, under the id that its mirror gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) entity: String,
    pub(super) observation: String,
    /// What it was made of.
    pub(super) made_of: Vec<String>,
    pub(super) run_id: String,
    pub(super) at: String,
}

/// Observations that were taken out, in that order, found by their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct RetiredList {
    by_number: BTreeMap<u64, Retired>,
    numbers: HashMap<String, u64>,
}

impl PartialEq for RetiredList {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<Retired> for RetiredList {
    fn from_iter<I: IntoIterator<Item = Retired>>(entries: I) -> Self {
        let mut list = Self::default();
        entries.into_iter().for_each(|entry| list.push(entry));
        list
    }
}

impl RetiredList {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Retired> {
        self.by_number.values()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Retired> {
        self.by_number.get(self.numbers.get(id)?)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Retired> {
        self.by_number.get_mut(self.numbers.get(id)?)
    }

    /// Adds an entry at the end; of several with one id the first one is found.
    pub(super) fn push(&mut self, entry: Retired) {
        let number = self.by_number.last_key_value().map_or(0, |(last, _)| last + 1);
        self.numbers.entry(entry.id.clone()).or_insert(number);
        self.by_number.insert(number, entry);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Retired> {
        self.by_number.remove(&self.numbers.remove(id)?)
    }
}

/// What the archive holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Archive {
    pub(super) retired: RetiredList,
    pub(super) written: Vec<Written>,
    /// Lines that cannot be understood, kept as they are, each with its number.
    pub(super) unknown: Vec<(usize, String)>,
}

impl Archive {
    /// Reads an archive that stands beside a file of this digest; `is_live` tells whether an observation of an entity is
    /// in that file.
    pub(super) fn read(text: &str, digest: &str, is_live: impl Fn(&str, &str) -> bool) -> Self {
        let (mut after, mut before) = (Self::default(), Self::default());
        let mut until = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let half = if until.is_some() { &mut before } else { &mut after };
            match serde_json::from_str(line) {
                Ok(Entry::Until { until: digest }) => until = Some(digest),
                Ok(Entry::Retired(entry)) => half.retired.push(entry),
                Ok(Entry::Written(entry)) => half.written.push(entry),
                Err(_) => half.unknown.push((at + 1, line.to_owned())),
            }
        }
        match until {
            None => after,
            Some(until) if until == digest => after,
            Some(_) => Self::of_both(after, before, is_live),
        }
    }

    /// The file was not replaced, or somebody changed it since: where the two halves differ, the file decides.
    fn of_both(after: Self, before: Self, is_live: impl Fn(&str, &str) -> bool) -> Self {
        let held = |entry: &Retired| {
            let is_common =
                after.retired.get(&entry.id).is_some() && before.retired.get(&entry.id).is_some();
            is_common || !is_live(&entry.entity, &entry.observation)
        };
        let new = after.retired.iter().filter(|entry| before.retired.get(&entry.id).is_none());
        let retired = before.retired.iter().chain(new).filter(|entry| held(entry)).cloned();
        let retired: RetiredList = retired.collect();
        let mut archive = Self { retired, ..before };
        for entry in after.written {
            if !archive.written.iter().any(|other| other.id == entry.id) {
                archive.written.push(entry);
            }
        }
        archive
    }

    /// Writes the archive.
    pub(super) fn to_text(&self) -> String {
        let retired = self.retired.iter().cloned().map(Entry::Retired);
        let written = self.written.iter().cloned().map(Entry::Written);
        let mut text = String::new();
        for (_, line) in &self.unknown {
            text.push_str(line);
            text.push('\n');
        }
        for entry in retired.chain(written) {
            text.push_str(&serde_json::to_string(&entry).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Writes the archive as it will be when the file has this digest, with what holds until then.
    pub(super) fn to_text_before(&self, digest: &str, before: &Self) -> String {
        let until = Entry::Until { until: digest.to_owned() };
        let mark = serde_json::to_string(&until).unwrap_or_default();
        format!("{}{mark}\n{}", self.to_text(), before.to_text())
    }
}

/// Both files as they were read.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) memory: Vec<u8>,
    pub(super) archive: String,
}

/// Returns the archive of a file: `memory.memfold-archive.jsonl`.
pub(super) fn archive_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".memfold-archive.jsonl");
    path.with_file_name(name)
}

/// Returns the first bytes of a file; none where it cannot be read.
pub(super) fn head(path: &Path, bytes: usize) -> Vec<u8> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes as u64).read_to_end(&mut head));
    // A file that cannot be read is not recognised; opening it says why.
    if read.is_err() { Vec::new() } else { head }
}

/// Other programs empty the file before they write it anew: so long is waited for what they write.
const REWRITE: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Reads a file; one that is empty only once it stays so.
pub(super) fn settled(path: &Path) -> io::Result<Vec<u8>> {
    let mut left = REWRITE;
    loop {
        let bytes = fs::read(path)?;
        if !bytes.is_empty() || left.is_zero() {
            return Ok(bytes);
        }
        std::thread::sleep(BETWEEN_LOOKS);
        left = left.saturating_sub(BETWEEN_LOOKS);
    }
}

/// Locks the file for the lifetime of what is returned.
pub(super) fn lock(path: &Path) -> Result<OsLock, OriginError> {
    let lock = OsLock::take_on(path, PATIENCE).map_err(failed("lock", path))?;
    lock.ok_or_else(|| OriginError::Locked { path: path.to_owned() })
}

impl Files {
    /// Reads both files; a missing archive is an empty one.
    pub(super) fn read(path: &Path) -> Result<Self, OriginError> {
        let memory = settled(path).map_err(failed("read", path))?;
        let archive = read_text(&archive_path(path))?.unwrap_or_default();
        Ok(Self { memory, archive })
    }

    /// Writes what a graph is now, the archive before the file. Nothing is written where nothing changed.
    pub(super) fn replace(
        &self,
        path: &Path,
        after: &Graph,
        before: &Graph,
    ) -> Result<(), OriginError> {
        let memory = after.memory_bytes();
        let archive = archive_path(path);
        let settled = after.archive().to_text();
        if memory != self.memory {
            let both = after.archive().to_text_before(&digest(&memory), before.archive());
            put(&archive, both.as_bytes(), path)?;
            let replaced = whole_file::replace_expected(path, &memory, Some(&self.memory));
            if !replaced.map_err(failed("write", path))? {
                return Err(OriginError::Locked { path: path.to_owned() });
            }
        }
        if settled != self.archive || memory != self.memory {
            return match settled.is_empty() {
                true => remove(&archive),
                false => put(&archive, settled.as_bytes(), path),
            };
        }
        Ok(())
    }
}

/// Returns the temporary files that killed processes left of both files.
pub(super) fn leftovers(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let mut found = whole_file::leftovers(folder, Some(path));
    found.extend(whole_file::leftovers(folder, Some(&archive_path(path))));
    found
}

/// Replaces a file by one with the permissions of `like`: the archive is for those who may read the file.
fn put(path: &Path, bytes: &[u8], like: &Path) -> Result<(), OriginError> {
    whole_file::replace(path, bytes, Some(like)).map_err(failed("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired(id: &str, observation: &str) -> Retired {
        Retired {
            id: id.to_owned(),
            entity: "A".to_owned(),
            entity_type: None,
            nth: 0,
            position: 0,
            observation: observation.to_owned(),
            raw: format!("{observation:?}"),
            merged_into: None,
            reason: "R1".to_owned(),
            run_id: "r".to_owned(),
            at: "t".to_owned(),
        }
    }

    #[test]
    fn an_interrupted_change_is_told_by_the_file() {
        let before =
            Archive { retired: [retired("x", "one")].into_iter().collect(), ..Archive::default() };
        let after =
            Archive { retired: [retired("y", "two")].into_iter().collect(), ..Archive::default() };
        let text = after.to_text_before("new", &before);
        // The file was replaced.
        assert_eq!(Archive::read(&text, "new", |_, _| false), after);
        // It was not: y is still there, x not yet.
        let read = Archive::read(&text, "old", |_, observation| observation == "two");
        assert_eq!(read, before);
        // It was, and somebody changed it since: x is there, y is gone.
        let read = Archive::read(&text, "third", |_, observation| observation == "one");
        assert_eq!(read, after);
    }

    #[test]
    fn lines_of_others_are_kept() {
        let archive = Archive::read("{\"later\":1}\n\nnonsense\n", "d", |_, _| false);
        assert_eq!(archive.unknown.len(), 2);
        assert_eq!(archive.to_text(), "{\"later\":1}\nnonsense\n");
    }
}
