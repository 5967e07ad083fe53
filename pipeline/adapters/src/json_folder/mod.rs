//! JSON memory folders: `global/`, `teams/<team>/`, `agents/<agent>/`, … with files of memories, an
//! `_index.json` for each scope, `archive/` and `ops/consolidation-log.json`.
//!
//! Reading is tolerant: an entry of any of three shapes with an id of any form, its content a text or an
//! object; under `entries`, `memories`, `log`, `decisions` or `events`, in a bare list, or as a file of its own. Other
//! entries are reported with their places. Folders and files with names that begin with a dot, `ops/` and `schemas/` hold no
//! memories.
//!
//! Writing changes the members that are other and keeps every other byte. A memory that leaves goes to
//! `archive/<its path>`; the copy there is written and synced before the memory goes. After a crash in between it
//! stands in both places and counts as live, and writing the same units again completes the move.

mod entry;
mod index_file;
mod write;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use self::write::{LOG, Writer};
use crate::json::{Node, parse};
use crate::shared::{FileLayer, advice_on, failed, leftovers_below, read_text, walk};
use memfold_store::origin::{
    Origin, OriginContents, OriginError, OriginRecord, OriginStatus, OriginUnit, Published, Skipped,
};
use memfold_store::whole_file::OsLock;

/// Names at the top of a memory folder, one of which tells that it is one.
const SIGNS: [&str; 5] = ["_index.json", "agents", "teams", "long-term", "episodic"];

/// The name of this kind of store.
pub(crate) const KIND: &str = "json_folder";

/// An index that lists more asks for a run over its memories.
const INDEX_ENTRIES_MAX: usize = 100;

/// A call of a run changes so many memories at most.
const CHANGES_MAX: usize = 50;

/// The pause between two updates of indexes.
const INDEX_PAUSE: Duration = Duration::from_millis(100);

/// A folder of memories in JSON files.
pub(crate) struct JsonFolder {
    root: Root,
    files: FileLayer,
    /// Changes per call, at most; units beyond are left for the next call. The first unit is always written.
    changes_max: usize,
    index_pause: Duration,
    /// The trigger of the run, as the log names it.
    trigger: String,
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
        let (changes_max, index_pause) = (CHANGES_MAX, INDEX_PAUSE);
        let (files, trigger) = (FileLayer::default(), "manual".to_owned());
        Ok(Self { root: Root(root), files, changes_max, index_pause, trigger })
    }

    fn writer<'a>(&'a self, units: &'a [OriginUnit]) -> Result<Writer<'a>, OriginError> {
        Writer::new(self, units)
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
        let left = leftovers(&self.root.0);
        let left = left.iter().map(|path| advice_on(path));
        let log = self.writer(&[]).and_then(|writer| writer.new_log(&[]).map(drop)).err();
        let log = log.map(|error| format!("no run can write: {error}"));
        full.into_iter().map(told).chain(stale).chain(left).chain(log).collect()
    }

    fn begun_by(&mut self, trigger: &str) {
        trigger.clone_into(&mut self.trigger);
    }

    fn overflows(&self) -> Result<Vec<(String, Option<String>)>, OriginError> {
        let full = self.full_indexes(INDEX_ENTRIES_MAX)?;
        Ok(full.into_iter().map(|(path, _)| (path.clone(), category(&path))).collect())
    }

    fn rebuild(&self, at: &str) -> Result<Vec<String>, OriginError> {
        let _lock = OsLock::beside(&self.root.0, &self.root.0)?;
        self.writer(&[])?.rebuild_indexes(at)
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Folder::load(&self.root).map(|(_, contents)| contents)
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let _lock = OsLock::beside(&self.root.0, &self.root.0)?;
        self.writer(units)?.write()
    }
}

/// The folder of memories that no longer count.
const ARCHIVE: &str = "archive";

/// Folders at the top that hold no memories.
const OTHER_FOLDERS: [&str; 2] = ["ops", "schemas"];

/// Names of files that list memories and hold none.
const INDEX_NAMES: [&str; 2] = ["_index.json", "index.json"];

/// Members that hold a list of memories, the usual first.
const LIST_KEYS: [&str; 5] = ["entries", "memories", "log", "decisions", "events"];

/// A member of files that memfold made: a file with it goes when nothing is left in it.
const GENERATOR: &str = "generator";

/// A folder and the paths within it, which are written with `/`.
#[derive(Debug, Clone)]
struct Root(PathBuf);

impl Root {
    /// Returns where a path within the folder leads; refuses a path out of it.
    fn join(&self, within: &str) -> Result<PathBuf, OriginError> {
        let refused = |reason: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
            OriginError::Io { action: "enter", path: self.0.join(within), source }
        };
        if !Path::new(within).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused("it leads out of the folder"));
        }
        let mut path = self.0.clone();
        for part in within.split('/').filter(|part| !part.is_empty()) {
            path.push(part);
            if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                return Err(refused("it is a link, and links are not followed"));
            }
        }
        Ok(path)
    }

    /// Reads a file; `None` where there is none.
    fn read(&self, within: &str) -> Result<Option<String>, OriginError> {
        read_text(&self.join(within)?)
    }
}

/// Returns the temporary files that killed processes left anywhere in a folder.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    leftovers_below(folder, usize::MAX, &|_| true)
}

/// A file of memories.
#[derive(Debug, Clone)]
struct DataFile {
    text: String,
    root: Node,
    /// The member that has the list of memories; `""` where the file is a list, `None` where it is a memory.
    list: Option<&'static str>,
}

/// Where a memory stands: a file and, in a list, its position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: String,
    at: Option<usize>,
}

/// Everything that was read.
#[derive(Debug, Default)]
struct Folder {
    files: BTreeMap<String, DataFile>,
    /// Files of indexes.
    indexes: BTreeMap<String, String>,
    /// Memories outside the archive.
    live: BTreeMap<String, Place>,
    /// Memories in the archive.
    archived: BTreeMap<String, Place>,
    /// Ids of several memories outside the archive, and their places: nobody knows which one is meant.
    ambiguous: BTreeMap<String, Vec<Place>>,
}

impl DataFile {
    /// Reads a file; an error says why it holds no memories.
    fn of(text: String) -> Result<Self, String> {
        let root = parse(&text)?;
        let key = LIST_KEYS.into_iter().find(|key| root.get(key).is_some_and(Node::is_list));
        let list = if root.is_list() {
            Some("")
        } else if root.get("content").is_some() {
            None
        } else if key.is_some() || root.get("id").is_some() {
            key
        } else {
            let within = lists_within(&root, "");
            return Err(match within.first() {
                Some(path) => nested(path),
                None => "it is neither a memory nor a list of memories".to_owned(),
            });
        };
        Ok(Self { text, root, list })
    }

    /// The list; `None` of a file that is one memory.
    fn list(&self) -> Option<&Node> {
        match self.list? {
            "" => Some(&self.root),
            key => self.root.get(key),
        }
    }

    /// The memories, or other values in their places.
    fn entries(&self) -> &[Node] {
        self.list().map_or(std::slice::from_ref(&self.root), Node::items)
    }

    /// Where its memories stand.
    fn places<'f>(&'f self, path: &'f str) -> impl Iterator<Item = Place> + 'f {
        let place = |at| Place { path: path.to_owned(), at: self.list().map(|_| at) };
        (0..self.entries().len()).map(place)
    }

    /// The lists of memories that are not read: a file has one.
    fn other_lists(&self) -> Vec<String> {
        let Some(key) = self.list.filter(|key| !key.is_empty()) else { return Vec::new() };
        let mut lists = lists_within(&self.root, "");
        lists.retain(|path| path != key);
        lists
    }

    fn entry(&self, at: Option<usize>) -> Option<&Node> {
        self.entries().get(at.unwrap_or(0))
    }

    fn raw(&self, at: Option<usize>) -> &str {
        self.entry(at).map_or("", |entry| entry.raw(&self.text))
    }

    /// Tells whether memfold made the file.
    fn is_ours(&self) -> bool {
        self.root.text_of(GENERATOR).is_some()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}#{at}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

impl Place {
    /// Reads a place that [`Display`](std::fmt::Display) wrote.
    fn of(text: &str) -> Option<Self> {
        let (path, at) = match text.rsplit_once('#') {
            Some((path, at)) => (path, Some(at.parse().ok()?)),
            None => (text, None),
        };
        is_data(path).then(|| Self { path: path.to_owned(), at })
    }
}

fn nested(path: &str) -> String {
    format!("a list of memories under {path}: only one list at the top of a file is read")
}

/// Returns where lists of objects with an id and a content stand, as `member.member`; memories are not searched.
fn lists_within(node: &Node, above: &str) -> Vec<String> {
    let mut found = Vec::new();
    for member in node.members() {
        let path =
            if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
        let is_memory = |item: &Node| item.get("id").is_some() && item.get("content").is_some();
        if member.value.items().iter().any(is_memory) {
            found.push(path);
        } else if member.value.is_object() {
            found.extend(lists_within(&member.value, &path));
        }
    }
    found
}

/// Tells whether a file may hold memories.
fn is_data(path: &str) -> bool {
    let mut parts = path.split('/');
    let name = parts.next_back().unwrap_or_default();
    !path.split('/').any(|part| part.starts_with('.') || part.is_empty())
        && !OTHER_FOLDERS.contains(&path.split('/').next().unwrap_or_default())
        && name.ends_with(".json")
        && !INDEX_NAMES.contains(&name)
}

/// Tells whether a file is in the archive.
fn is_archive(path: &str) -> bool {
    path.strip_prefix(ARCHIVE).is_some_and(|rest| rest.starts_with('/'))
}

impl Folder {
    /// Reads a folder, in the order of its names.
    fn load(root: &Root) -> Result<(Self, OriginContents), OriginError> {
        let mut folder = Self::default();
        let mut contents = OriginContents::default();
        let is_wanted = |path: &str, is_folder: bool| {
            let (top, name) = (path.split('/').next(), path.rsplit('/').next());
            !name.is_some_and(|name| name.starts_with('.'))
                && !top.is_some_and(|top| OTHER_FOLDERS.contains(&top))
                && (is_folder || path.ends_with(".json"))
        };
        for (path, reason) in walk(&root.0, "", usize::MAX, &is_wanted)? {
            let reasons = match reason {
                Some(reason) => vec![(None, reason.to_owned())],
                None => folder.open(root, &path)?,
            };
            contents.skipped.extend(reasons.into_iter().map(|(at, reason)| Skipped {
                place: Place { path: path.clone(), at }.to_string(),
                reason,
            }));
        }
        folder.read_all(&mut contents);
        Ok((folder, contents))
    }

    /// Reads a file; returns the skipped parts, and why.
    fn open(
        &mut self,
        root: &Root,
        path: &str,
    ) -> Result<Vec<(Option<usize>, String)>, OriginError> {
        let text = match root.read(path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(Vec::new()),
            Err(OriginError::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidData => {
                return Ok(vec![(None, "it is no UTF-8".to_owned())]);
            }
            Err(error) => return Err(error),
        };
        let read = match is_data(path) {
            true => DataFile::of(text).map(|file| {
                let others = file.other_lists().into_iter().map(|list| (None, nested(&list)));
                let others = others.collect();
                self.files.insert(path.to_owned(), file);
                others
            }),
            false => parse(&text).map(|index| {
                let items = index_file::items(&index).iter().enumerate();
                let whole = items.filter(|(_, item)| item.get("content").is_some());
                let reason = "a whole memory in an index: only files beside it are read";
                self.indexes.insert(path.to_owned(), text);
                whole.map(|(at, _)| (Some(at), reason.to_owned())).collect()
            }),
        };
        Ok(read.unwrap_or_else(|reason| vec![(None, reason)]))
    }

    /// Reads the memories of all files: live ones first, so that a copy in the archive of a live one still counts
    /// as the copy.
    fn read_all(&mut self, contents: &mut OriginContents) {
        let records = |(path, file): (&String, &DataFile)| -> Vec<_> {
            file.places(path).map(|place| (read(file, &place), place)).collect()
        };
        let found: Vec<_> = self.files.iter().flat_map(records).collect();
        let (archived, live): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, place)| is_archive(&place.path));
        for (record, place) in &live {
            if let Ok(record) = record {
                self.ambiguous.entry(record.id.clone()).or_default().push(place.clone());
            }
        }
        self.ambiguous.retain(|_, places| places.len() > 1);
        for (record, place) in live.into_iter().chain(archived) {
            let shown = place.to_string();
            match record.and_then(|record| self.admit(record, place)) {
                Ok(record) => contents.records.push(record),
                Err(reason) => contents.skipped.push(Skipped { place: shown, reason }),
            }
        }
    }

    /// Notes where a memory stands; an error says why it does not count.
    fn admit(&mut self, mut record: OriginRecord, place: Place) -> Result<OriginRecord, String> {
        if let Some(places) = self.ambiguous.get(&record.id) {
            let places: Vec<String> = places.iter().map(Place::to_string).collect();
            let places = places.join(" and ");
            return Err(format!("its id stands at {places}: give each memory an id of its own"));
        }
        let in_archive = is_archive(&place.path);
        let known = if in_archive { &mut self.archived } else { &mut self.live };
        if let Some(other) = known.get(&record.id) {
            return Err(format!("another memory has its id: {other}"));
        }
        known.insert(record.id.clone(), place);
        if let Some(other) = self.live.get(&record.id).filter(|_| in_archive) {
            let live = self.files.get(&other.path).and_then(|file| read(file, other).ok());
            return Err(match live.is_some_and(|live| live.text == record.text) {
                true => format!("a copy of {other}, left by a move that did not end"),
                false => format!("another memory with the id of {other}"),
            });
        }
        if in_archive && record.status == OriginStatus::Live {
            record.status = OriginStatus::Archived;
        }
        Ok(record)
    }

    /// Returns a memory's entry as written.
    fn raw(&self, place: &Place) -> &str {
        self.files.get(&place.path).map_or("", |file| file.raw(place.at))
    }

    /// Returns where a memory stands: outside the archive if it does.
    fn place(&self, id: &str) -> Option<&Place> {
        self.live.get(id).or_else(|| self.archived.get(id))
    }

    /// Puts another text in a file's place; `None` takes the file away.
    fn put(&mut self, path: &str, text: Option<String>) -> Result<(), String> {
        for places in [&mut self.live, &mut self.archived] {
            places.retain(|_, place| place.path != path);
        }
        self.files.remove(path);
        let Some(text) = text else { return Ok(()) };
        let file = DataFile::of(text)?;
        let places = if is_archive(path) { &mut self.archived } else { &mut self.live };
        for place in file.places(path) {
            let id = file.entry(place.at).and_then(|entry| entry.text_of("id"));
            if let Some(id) = id.filter(|id| !self.ambiguous.contains_key(*id)) {
                places.entry(id.to_owned()).or_insert(place);
            }
        }
        self.files.insert(path.to_owned(), file);
        Ok(())
    }
}

/// Returns the record of a place.
fn read(file: &DataFile, place: &Place) -> Result<OriginRecord, String> {
    let entry = file.entry(place.at).ok_or("nothing stands there")?;
    let record = entry::record(file.raw(place.at), entry)?;
    Ok(OriginRecord { place: place.to_string(), ..record })
}
