//! A folder as it was read: its files, and where each memory stands.

use std::collections::BTreeMap;
use std::fs;

use super::entry;
use super::files::Root;
use super::json::{Node, parse};
use memfold_store::origin::{OriginContents, OriginError, OriginRecord, OriginStanding, Skipped};

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
        self.entry(at).map_or("", |entry| &self.text[entry.span.clone()])
    }

    /// Tells whether memfold made the file.
    pub(super) fn is_ours(&self) -> bool {
        self.root.text_of(GENERATOR).is_some()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// Reads a folder; calls back for each memory and for everything else, in the folder's order.
    pub(super) fn load(root: &Root) -> Result<(Self, OriginContents), OriginError> {
        let mut folder = Self::default();
        let mut contents = OriginContents::default();
        folder.walk(root, "", &mut contents)?;
        folder.read_all(&mut contents);
        Ok((folder, contents))
    }

    fn walk(
        &mut self,
        root: &Root,
        within: &str,
        contents: &mut OriginContents,
    ) -> Result<(), OriginError> {
        let folder = if within.is_empty() { root.path().to_owned() } else { root.join(within)? };
        let failed = |source| OriginError::Io { action: "read", path: folder.clone(), source };
        let mut found = fs::read_dir(&folder).map_err(failed)?.collect::<Result<Vec<_>, _>>();
        let found = found
            .as_mut()
            .map_err(|error| failed(std::io::Error::new(error.kind(), error.to_string())))?;
        found.sort_by_key(fs::DirEntry::file_name);
        for item in found {
            let name = item.file_name();
            let shown = name.to_string_lossy();
            let path =
                if within.is_empty() { shown.to_string() } else { format!("{within}/{shown}") };
            let kind = item.file_type().map_err(failed)?;
            let reason = if shown.starts_with('.')
                || within.is_empty() && OTHER_FOLDERS.contains(&&*shown)
            {
                continue;
            } else if kind.is_symlink() {
                "it is a link, and links are not followed"
            } else if name.to_str().is_none() {
                "its name is no UTF-8"
            } else if kind.is_dir() {
                self.walk(root, &path, contents)?;
                continue;
            } else if !shown.ends_with(".json") {
                continue;
            } else if !kind.is_file() {
                "it is no regular file"
            } else {
                self.open(root, &path, contents)?;
                continue;
            };
            contents.skipped.push(Skipped { place: path, reason: reason.to_owned() });
        }
        Ok(())
    }

    fn open(
        &mut self,
        root: &Root,
        path: &str,
        contents: &mut OriginContents,
    ) -> Result<(), OriginError> {
        let mut skip = |reason: String| {
            contents.skipped.push(Skipped { place: path.to_owned(), reason });
        };
        let text = match root.read(path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(OriginError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::InvalidData =>
            {
                skip("it is no UTF-8".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if is_data(path) {
            match DataFile::of(text) {
                Ok(file) => {
                    file.other_lists().iter().for_each(|path| skip(nested(path)));
                    self.files.insert(path.to_owned(), file);
                }
                Err(reason) => skip(reason),
            }
            return Ok(());
        }
        match parse(&text) {
            Ok(index) => {
                for (at, item) in super::index_file::items(&index).iter().enumerate() {
                    if item.get("content").is_some() {
                        contents.skipped.push(Skipped {
                            place: format!("{path}#{at}"),
                            reason: "a whole memory in an index: only files beside it are read"
                                .into(),
                        });
                    }
                }
                self.indexes.insert(path.to_owned(), text);
            }
            Err(reason) => skip(reason),
        }
        Ok(())
    }

    /// Reads the memories of all files: live ones first, so that a copy in the archive of what is live still counts
    /// as the copy.
    fn read_all(&mut self, contents: &mut OriginContents) {
        self.ambiguous = ambiguous(&self.files);
        let (live, archived) = (&mut self.live, &mut self.archived);
        for in_archive in [false, true] {
            for (path, file) in &self.files {
                if is_archive(path) != in_archive {
                    continue;
                }
                for at in 0..file.entries().len() {
                    let place =
                        Place { path: path.clone(), at: (file.shape != Shape::One).then_some(at) };
                    let shown = place.to_string();
                    let mut skip =
                        |reason| contents.skipped.push(Skipped { place: shown.clone(), reason });
                    let mut record = match read(file, &place) {
                        Ok(record) => record,
                        Err(reason) => {
                            skip(reason);
                            continue;
                        }
                    };
                    if let Some(places) = self.ambiguous.get(&record.id) {
                        let places: Vec<String> = places.iter().map(Place::to_string).collect();
                        skip(format!(
                            "its id stands at {}: give each memory an id of its own",
                            places.join(" and ")
                        ));
                        continue;
                    }
                    let known = if in_archive { &mut *archived } else { &mut *live };
                    if let Some(other) = known.get(&record.id) {
                        skip(format!("another memory has its id: {other}"));
                        continue;
                    }
                    known.insert(record.id.clone(), place);
                    if in_archive && record.standing == OriginStanding::Live {
                        record.standing = OriginStanding::Archived;
                    }
                    match live.get(&record.id).filter(|_| in_archive) {
                        Some(other) if is_copy(&self.files, other, &record) => {
                            skip(format!("a copy of {other}, left by a move that did not end"))
                        }
                        Some(other) => skip(format!("another memory with the id of {other}")),
                        None => contents.records.push(record),
                    }
                }
            }
        }
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
        let Some(text) = text else {
            self.files.remove(path);
            return Ok(());
        };
        let file = DataFile::of(text)?;
        let places = if is_archive(path) { &mut self.archived } else { &mut self.live };
        for (at, entry) in file.entries().iter().enumerate() {
            let at = (file.shape != Shape::One).then_some(at);
            if let Some(id) = entry.text_of("id").filter(|id| !self.ambiguous.contains_key(*id)) {
                let place = Place { path: path.to_owned(), at };
                places.entry(id.to_owned()).or_insert(place);
            }
        }
        self.files.insert(path.to_owned(), file);
        Ok(())
    }
}

/// Returns the ids that stand at several places outside the archive.
fn ambiguous(files: &BTreeMap<String, DataFile>) -> BTreeMap<String, Vec<Place>> {
    let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    for (path, file) in files.iter().filter(|(path, _)| !is_archive(path)) {
        for at in 0..file.entries().len() {
            let at = (file.shape != Shape::One).then_some(at);
            let place = Place { path: path.clone(), at };
            if let Ok(record) = read(file, &place) {
                places.entry(record.id).or_default().push(place);
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// Tells whether a memory of the archive says what the one at a place says.
fn is_copy(files: &BTreeMap<String, DataFile>, place: &Place, archived: &OriginRecord) -> bool {
    let live = files.get(&place.path).and_then(|file| read(file, place).ok());
    live.is_some_and(|live| live.text == archived.text)
}

/// Returns the record of a place.
pub(super) fn read(file: &DataFile, place: &Place) -> Result<OriginRecord, String> {
    let entry = file.entry(place.at).ok_or("nothing stands there")?;
    let record = entry::record(file.raw(place.at), entry)?;
    Ok(OriginRecord { place: place.to_string(), ..record })
}
