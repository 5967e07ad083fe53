//! A folder as it was read: its files, and where each memory stands.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::{entry, index_file};
use crate::files::{failed, leftovers_below, read_text, walk};
use crate::json::{Node, parse};
use memfold_store::origin::{OriginContents, OriginError, OriginRecord, OriginStanding, Skipped};
use memfold_store::whole_file::OsLock;

/// The folder of what no longer counts.
pub(super) const ARCHIVE: &str = "archive";

/// Folders at the top that hold no memories.
const OTHER_FOLDERS: [&str; 2] = ["ops", "schemas"];

/// Names of files that list memories and hold none.
const INDEX_NAMES: [&str; 2] = ["_index.json", "index.json"];

/// Members that hold a list of memories, the usual first.
const LIST_KEYS: [&str; 5] = ["entries", "memories", "log", "decisions", "events"];

/// A member of files that memfold made: such a file goes when nothing is left in it.
pub(super) const GENERATOR: &str = "generator";

/// A folder and the paths within it, which are written with `/`.
#[derive(Debug, Clone)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where a path within the folder leads; refuses what leads out of it.
    pub(super) fn join(&self, within: &str) -> Result<PathBuf, OriginError> {
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
    pub(super) fn read(&self, within: &str) -> Result<Option<String>, OriginError> {
        read_text(&self.join(within)?)
    }
}

/// Returns the temporary files that killed processes left anywhere in a folder.
pub(super) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    leftovers_below(folder, usize::MAX, &|_| true)
}

/// Takes the lock beside a folder: one process writes.
pub(super) fn lock(root: &Path) -> Result<OsLock, OriginError> {
    let mut name = root.as_os_str().to_owned();
    name.push(".memfold-lock");
    let path = PathBuf::from(name);
    match OsLock::take(&path, root, Duration::ZERO) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(OriginError::Locked { path }),
        Err(error) => Err(failed("lock", &path)(error)),
    }
}

/// A file of memories.
#[derive(Debug, Clone)]
pub(super) struct DataFile {
    pub(super) text: String,
    pub(super) root: Node,
    pub(super) shape: Shape,
}

/// How a file holds memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// It is one.
    One,
    /// It is a list, or has one under a key.
    List(Option<&'static str>),
}

/// Where a memory stands: a file and, in a list, its position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) at: Option<usize>,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) files: BTreeMap<String, DataFile>,
    /// Files of indexes.
    pub(super) indexes: BTreeMap<String, String>,
    /// Memories outside the archive.
    pub(super) live: BTreeMap<String, Place>,
    /// Memories in the archive.
    pub(super) archived: BTreeMap<String, Place>,
    /// Ids of several memories outside the archive, and where those stand: nobody knows which one is meant.
    pub(super) ambiguous: BTreeMap<String, Vec<Place>>,
}

impl DataFile {
    /// Reads a file; an error says why it holds no memories.
    pub(super) fn of(text: String) -> Result<Self, String> {
        let root = parse(&text)?;
        let list_key =
            || LIST_KEYS.into_iter().find(|key| root.get(key).is_some_and(Node::is_list)).map(Some);
        let shape = if root.is_list() {
            Shape::List(None)
        } else if root.get("content").is_some() {
            Shape::One
        } else if let Some(key) = list_key() {
            Shape::List(key)
        } else if root.get("id").is_some() {
            Shape::One
        } else {
            let within = lists_within(&root, "");
            return Err(match within.first() {
                Some(path) => nested(path),
                None => "it is neither a memory nor a list of memories".to_owned(),
            });
        };
        Ok(Self { text, root, shape })
    }

    /// The list; `None` of a file that is one memory.
    pub(super) fn list(&self) -> Option<&Node> {
        match self.shape {
            Shape::One => None,
            Shape::List(None) => Some(&self.root),
            Shape::List(Some(key)) => self.root.get(key),
        }
    }

    /// The memories, or what stands in their places.
    pub(super) fn entries(&self) -> &[Node] {
        self.list().map_or(std::slice::from_ref(&self.root), Node::items)
    }

    /// Where its memories stand.
    pub(super) fn places<'f>(&'f self, path: &'f str) -> impl Iterator<Item = Place> + 'f {
        let place = |at| Place { path: path.to_owned(), at: self.list().map(|_| at) };
        (0..self.entries().len()).map(place)
    }

    /// The lists of memories that are not read: a file has one.
    fn other_lists(&self) -> Vec<String> {
        match self.shape {
            Shape::List(Some(key)) => {
                let mut lists = lists_within(&self.root, "");
                lists.retain(|path| path != key);
                lists
            }
            Shape::One | Shape::List(None) => Vec::new(),
        }
    }

    pub(super) fn entry(&self, at: Option<usize>) -> Option<&Node> {
        self.entries().get(at.unwrap_or(0))
    }

    pub(super) fn raw(&self, at: Option<usize>) -> &str {
        self.entry(at).map_or("", |entry| entry.raw(&self.text))
    }

    /// Tells whether memfold made the file.
    pub(super) fn is_ours(&self) -> bool {
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
    /// Reads what [`Display`](std::fmt::Display) wrote.
    pub(super) fn of(text: &str) -> Option<Self> {
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
pub(super) fn is_archive(path: &str) -> bool {
    path.strip_prefix(ARCHIVE).is_some_and(|rest| rest.starts_with('/'))
}

impl Folder {
    /// Reads a folder, in the order of its names.
    pub(super) fn load(root: &Root) -> Result<(Self, OriginContents), OriginError> {
        let mut folder = Self::default();
        let mut contents = OriginContents::default();
        let is_wanted = |path: &str, is_folder: bool| {
            let (top, name) = (path.split('/').next(), path.rsplit('/').next());
            !name.is_some_and(|name| name.starts_with('.'))
                && !top.is_some_and(|top| OTHER_FOLDERS.contains(&top))
                && (is_folder || path.ends_with(".json"))
        };
        for (path, reason) in walk(root.path(), "", usize::MAX, &is_wanted)? {
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

    /// Reads a file; returns what of it is passed over, and why.
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

    /// Reads the memories of all files: live ones first, so that a copy in the archive of what is live still counts
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
        if in_archive && record.standing == OriginStanding::Live {
            record.standing = OriginStanding::Archived;
        }
        Ok(record)
    }

    /// Returns a memory's entry as written.
    pub(super) fn raw(&self, place: &Place) -> &str {
        self.files.get(&place.path).map_or("", |file| file.raw(place.at))
    }

    /// Returns where a memory stands: outside the archive if it does.
    pub(super) fn place(&self, id: &str) -> Option<&Place> {
        self.live.get(id).or_else(|| self.archived.get(id))
    }

    /// Puts another text in a file's place; `None` takes the file away.
    pub(super) fn put(&mut self, path: &str, text: Option<String>) -> Result<(), String> {
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
pub(super) fn read(file: &DataFile, place: &Place) -> Result<OriginRecord, String> {
    let entry = file.entry(place.at).ok_or("nothing stands there")?;
    let record = entry::record(file.raw(place.at), entry)?;
    Ok(OriginRecord { place: place.to_string(), ..record })
}
