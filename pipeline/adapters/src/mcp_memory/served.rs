//! [`GraphFile`]: `memory.jsonl` with the operations of the reference server, for several processes at once.
//!
//! The reference server reads the file for each request and writes it whole, so that of two writes at once one is lost.
//! Here every request holds the lock of the file, as a publication does. New entities and relations are appended, every
//! other change replaces the file by a rename, and both are synced before the answer. Lines that cannot be understood keep their
//! places byte for byte.
//!
//! A graph that was read stays in memory. Of a file that others appended to, only the new bytes are read; of one that
//! others replaced, only lines that differ are parsed. An append is synced after the lock is released, so that several
//! processes sync at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memfold_guard::text::loose_key;
use memfold_guard::{Guard, Verdict};
use memfold_store::whole_file::{self, OsLock};
use serde::{Deserialize, Serialize};

use super::graph::settled;
use super::lines::{EntityLine, Line, Pieces, Relation, with_observations};
use crate::json::quoted;

/// Bytes at the end of the part that was read that must still be there for the rest to count as appended.
const TAIL_BYTES: usize = 4096;

/// An entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its name.
    pub name: String,
    /// Its type.
    pub entity_type: String,
    /// Facts about it.
    pub observations: Vec<String>,
}

/// A graph, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Nodes {
    /// The entities in the order of the file.
    pub entities: Vec<Entity>,
    /// The relations in the order of the file.
    pub relations: Vec<Relation>,
}

/// Observations of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observations {
    /// The name of the entity.
    pub entity: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// The result of an addition to an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedObservations {
    /// The name of the entity.
    pub entity: String,
    /// The observations that are new.
    pub added: Vec<String>,
    /// Observations that another one is proven to say, in other characters.
    pub known: Vec<KnownObservation>,
}

/// An observation that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownObservation {
    /// The text that was not added.
    pub text: String,
    /// The observation that says it.
    pub says_it: String,
}

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The file cannot be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no such entity. The words are the reference server's.
    #[error("Entity with name {name} not found")]
    NoEntity {
        /// The name.
        name: String,
    },
}

/// The file of a knowledge graph.
pub struct GraphFile {
    path: PathBuf,
    guard: Guard,
    loaded: Option<Loaded>,
}

impl std::fmt::Debug for GraphFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A line of the file.
#[derive(Debug)]
struct Item {
    bytes: Vec<u8>,
    line: Line,
}

/// The file as it was read.
#[derive(Debug, Default)]
struct Loaded {
    /// Held open, so that the system gives its number to no other file; none where there is no file.
    file: Option<File>,
    length: u64,
    modified: Option<SystemTime>,
    tail: Vec<u8>,
    /// Whether the file is one JSON document; the first write makes it one of lines.
    is_document: bool,
    items: Vec<Item>,
    /// The first entity of each name.
    entities: HashMap<String, usize>,
    relations: HashSet<Relation>,
    /// Observations of an entity by the words that they share with others that may say the same.
    words: HashMap<usize, HashMap<String, Vec<usize>>>,
}

impl GraphFile {
    /// Names a file. Nothing is read.
    #[must_use]
    pub fn new(path: &Path, guard: Guard) -> Self {
        Self { path: path.to_owned(), guard, loaded: None }
    }

    /// Reads the whole graph.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_graph(&mut self) -> Result<Nodes, GraphError> {
        self.reading(|graph| graph.nodes(|_| true, |_| true))
    }

    /// Finds entities whose name, type or observations contain a text in any case, with all their relations.
    ///
    /// # Errors
    /// As [`Self::read_graph`].
    pub fn search_nodes(&mut self, query: &str) -> Result<Nodes, GraphError> {
        let query = query.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&query);
        self.reading(|graph| {
            graph.with_relations(|entity| {
                has(&entity.name)
                    || entity.entity_type.as_deref().is_some_and(has)
                    || entity.texts().any(has)
            })
        })
    }

    /// Returns entities by their names, with all their relations.
    ///
    /// # Errors
    /// As [`Self::read_graph`].
    pub fn open_nodes(&mut self, names: &[String]) -> Result<Nodes, GraphError> {
        self.reading(|graph| graph.with_relations(|entity| names.contains(&entity.name)))
    }

    /// Adds entities with new names; returns them.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn create_entities(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, GraphError> {
        self.writing(|graph, _| {
            let is_new = |entity: &Entity| !graph.entities.contains_key(&entity.name);
            let new: Vec<Entity> = entities.into_iter().filter(is_new).collect();
            let items = new.iter().map(|entity| Item::new("entity", entity)).collect();
            Ok((new, Edit::Append(items)))
        })
    }

    /// Adds new relations; returns them.
    ///
    /// # Errors
    /// As [`Self::create_entities`].
    pub fn create_relations(
        &mut self,
        relations: Vec<Relation>,
    ) -> Result<Vec<Relation>, GraphError> {
        self.writing(|graph, _| {
            let is_new = |relation: &Relation| !graph.relations.contains(relation);
            let new: Vec<Relation> = relations.into_iter().filter(is_new).collect();
            let items = new.iter().map(|relation| Item::new("relation", relation)).collect();
            Ok((new, Edit::Append(items)))
        })
    }

    /// Adds observations to entities, where nothing there is proven to say the same.
    ///
    /// # Errors
    /// As [`Self::create_entities`], and when there is no entity of a name; then nothing is added.
    pub fn add_observations(
        &mut self,
        observations: Vec<Observations>,
    ) -> Result<Vec<AddedObservations>, GraphError> {
        self.writing(|graph, guard| {
            let mut entities = observations.iter().map(|observations| &observations.entity);
            if let Some(name) = entities.find(|name| !graph.entities.contains_key(*name)) {
                return Err(GraphError::NoEntity { name: name.clone() });
            }
            let add = |of: Observations| graph.add(guard, of.entity, of.texts);
            let results: Vec<AddedObservations> = observations.into_iter().map(add).collect();
            let is_changed = results.iter().any(|result| !result.added.is_empty());
            Ok((results, Edit::rewrite(is_changed)))
        })
    }

    /// Deletes entities with all their relations.
    ///
    /// # Errors
    /// As [`Self::create_entities`].
    pub fn delete_entities(&mut self, names: &[String]) -> Result<(), GraphError> {
        self.deleting(|line| match line {
            Line::Entity(entity) => names.contains(&entity.name),
            Line::Relation(relation) => {
                names.contains(&relation.from) || names.contains(&relation.to)
            }
            Line::Other | Line::Bad(_) => false,
        })
    }

    /// Deletes relations.
    ///
    /// # Errors
    /// As [`Self::create_entities`].
    pub fn delete_relations(&mut self, relations: &[Relation]) -> Result<(), GraphError> {
        self.deleting(|line| matches!(line, Line::Relation(found) if relations.contains(found)))
    }

    /// Deletes observations of entities.
    ///
    /// # Errors
    /// As [`Self::create_entities`].
    pub fn delete_observations(&mut self, deletions: &[Observations]) -> Result<(), GraphError> {
        self.writing(|graph, _| {
            let mut is_changed = false;
            for Observations { entity, texts } in deletions {
                let Some(at) = graph.entities.get(entity).copied() else { continue };
                is_changed |=
                    graph.keep_observations(at, |text| !texts.iter().any(|gone| gone == text));
            }
            Ok(((), Edit::rewrite(is_changed)))
        })
    }

    fn deleting(&mut self, is_gone: impl Fn(&Line) -> bool) -> Result<(), GraphError> {
        self.writing(|graph, _| {
            let before = graph.items.len();
            graph.items.retain(|item| !is_gone(&item.line));
            let is_changed = graph.items.len() < before;
            if is_changed {
                graph.index();
            }
            Ok(((), Edit::rewrite(is_changed)))
        })
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> GraphError + use<> {
        let path = self.path.clone();
        move |source| GraphError::Io { action, path: path.clone(), source }
    }

    fn reading<T>(&mut self, work: impl FnOnce(&Loaded) -> T) -> Result<T, GraphError> {
        let _lock = match OsLock::wait_on(&self.path) {
            // A file that is missing is an empty graph.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(work(&Loaded::default()));
            }
            lock => lock.map_err(self.failed("lock"))?,
        };
        let loaded = self.load()?;
        let done = work(&loaded);
        self.loaded = Some(loaded);
        Ok(done)
    }

    fn writing<T>(
        &mut self,
        work: impl FnOnce(&mut Loaded, &Guard) -> Result<(T, Edit), GraphError>,
    ) -> Result<T, GraphError> {
        if !self.path.exists() {
            let made = OpenOptions::new().create(true).append(true).open(&self.path);
            made.map_err(self.failed("make"))?;
        }
        let lock = OsLock::wait_on(&self.path).map_err(self.failed("lock"))?;
        // After a failure in the middle the file is read anew.
        let mut loaded = self.load()?;
        let (done, edit) = match work(&mut loaded, &self.guard) {
            Ok(done) => done,
            Err(error) => {
                self.loaded = Some(loaded);
                return Err(error);
            }
        };
        let written = match edit {
            Edit::Append(items) if items.is_empty() => Ok(None),
            Edit::Append(items) if loaded.is_document => {
                items.into_iter().for_each(|item| loaded.insert(item));
                loaded.rewrite(&self.path).map(|()| None)
            }
            Edit::Append(items) => loaded.append(&self.path, items).map(Some),
            Edit::Rewrite => loaded.rewrite(&self.path).map(|()| None),
        };
        let appended = written.map_err(self.failed("write"))?;
        drop(lock);
        if let Some(file) = appended {
            file.sync_data().map_err(self.failed("write"))?;
        }
        self.loaded = Some(loaded);
        Ok(done)
    }

    /// Returns the file with the writes of others.
    fn load(&mut self) -> Result<Loaded, GraphError> {
        let failed = self.failed("read");
        let found = fs::metadata(&self.path).map_err(&failed)?;
        let mut loaded = self.loaded.take().unwrap_or_default();
        if !loaded.follow(&found).map_err(&failed)? {
            loaded.read(&self.path).map_err(failed)?;
        }
        Ok(loaded)
    }
}

/// How the file is changed.
enum Edit {
    Append(Vec<Item>),
    Rewrite,
}

impl Edit {
    const fn rewrite(is_changed: bool) -> Self {
        if is_changed { Self::Rewrite } else { Self::Append(Vec::new()) }
    }
}

impl Item {
    /// Writes a node as a line.
    fn new<T: Serialize>(kind: &str, node: &T) -> Self {
        #[derive(Serialize)]
        struct Typed<'a, T> {
            r#type: &'a str,
            #[serde(flatten)]
            node: &'a T,
        }
        Self::read(&serde_json::to_vec(&Typed { r#type: kind, node }).unwrap_or_default())
    }

    fn read(bytes: &[u8]) -> Self {
        let line = std::str::from_utf8(bytes).map_or(Line::Other, Line::read);
        Self { bytes: bytes.to_vec(), line }
    }

    /// Tells whether both are entities of one name.
    fn has_the_name_of(&self, other: &Self) -> bool {
        matches!((&self.line, &other.line), (Line::Entity(one), Line::Entity(two)) if one.name == two.name)
    }

    /// Writes the line anew, with the observations that its entity has now.
    fn write_observations(&mut self) {
        if let Line::Entity(entity) = &self.line {
            let raw: Vec<&str> = entity.observations.iter().map(|(raw, _)| raw.as_str()).collect();
            self.bytes =
                with_observations(&String::from_utf8_lossy(&self.bytes), &raw).into_bytes();
        }
    }
}

/// Returns a line without its end; `None` where it is blank.
fn trimmed(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    (!line.trim_ascii().is_empty()).then_some(line)
}

impl Loaded {
    /// Reads the whole file.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        // Other programs empty the file before they write it anew.
        let (file, bytes) = settled(path)?;
        let found = file.metadata()?;
        let pieces = Pieces::of(&bytes);
        self.file = Some(file);
        self.is_document = pieces.is_document();
        // The text between the members of a document is not a line.
        let parts = pieces.parts.iter().enumerate().filter(|(at, _)| pieces.is_read(*at));
        self.take_in(parts.map(|(_, part)| *part));
        self.tail.clear();
        self.note(&bytes, &found);
        Ok(())
    }

    /// Puts lines in place of the lines that were read before; equal ones are not parsed again.
    fn take_in<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) {
        let mut at = 0;
        for line in lines.filter_map(trimmed) {
            match self.items.get(at) {
                Some(known) if known.bytes == line => {}
                Some(known) => {
                    let item = Item::read(line);
                    if known.has_the_name_of(&item) {
                        self.items[at] = item;
                        self.words.remove(&at);
                    } else {
                        // Lines came between, or went.
                        self.truncate(at);
                        self.insert(item);
                    }
                }
                None => self.insert(Item::read(line)),
            }
            at += 1;
        }
        self.truncate(at);
    }

    fn truncate(&mut self, count: usize) {
        if count < self.items.len() {
            self.items.truncate(count);
            self.index();
        }
    }

    fn insert(&mut self, item: Item) {
        let at = self.items.len();
        match &item.line {
            Line::Entity(entity) => {
                self.entities.entry(entity.name.clone()).or_insert(at);
            }
            Line::Relation(relation) => {
                self.relations.insert(relation.clone());
            }
            Line::Other | Line::Bad(_) => {}
        }
        self.items.push(item);
    }

    fn index(&mut self) {
        self.entities.clear();
        self.relations.clear();
        self.words.clear();
        for item in std::mem::take(&mut self.items) {
            self.insert(item);
        }
    }

    /// Notes the state of the file with these bytes at its end.
    fn note(&mut self, bytes: &[u8], found: &fs::Metadata) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        (self.length, self.modified) = (found.len(), found.modified().ok());
    }

    /// Takes in appended lines; `false` where the file must be read anew.
    fn follow(&mut self, found: &fs::Metadata) -> io::Result<bool> {
        let Some(file) = &mut self.file else { return Ok(false) };
        if !is_same(&file.metadata()?, found) || found.len() < self.length {
            return Ok(false);
        }
        if found.len() == self.length {
            return Ok(found.modified().ok() == self.modified);
        }
        if self.is_document {
            return Ok(false);
        }
        let start = self.length - self.tail.len() as u64;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let now = file.metadata()?;
        let Some(appended) = bytes.strip_prefix(&*self.tail) else { return Ok(false) };
        let begins_line =
            appended.starts_with(b"\n") || self.tail.ends_with(b"\n") || self.length == 0;
        if !begins_line {
            return Ok(false);
        }
        let appended = appended.to_vec();
        let lines = appended.split(|byte| *byte == b'\n').filter_map(trimmed);
        lines.for_each(|line| self.insert(Item::read(line)));
        self.note(&appended, &now);
        Ok(true)
    }

    /// Appends lines; returns the file, which is not synced.
    fn append(&mut self, path: &Path, items: Vec<Item>) -> io::Result<File> {
        let mut bytes = Vec::new();
        for item in &items {
            let is_within_line = match bytes.is_empty() {
                true => self.length > 0 && !self.tail.ends_with(b"\n"),
                false => true,
            };
            if is_within_line {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(&item.bytes);
        }
        let mut file = OpenOptions::new().append(true).open(path)?;
        file.write_all(&bytes)?;
        let found = file.metadata()?;
        items.into_iter().for_each(|item| self.insert(item));
        self.note(&bytes, &found);
        Ok(file)
    }

    fn rewrite(&mut self, path: &Path) -> io::Result<()> {
        if self.is_document {
            // A member may stand on several lines; within a text there is no line end.
            let is_within = |byte: &u8| !matches!(byte, b'\n' | b'\r');
            self.items.iter_mut().for_each(|item| item.bytes.retain(is_within));
        }
        let lines: Vec<&[u8]> = self.items.iter().map(|item| &*item.bytes).collect();
        let bytes = lines.join(&b'\n');
        let found = whole_file::replace(path, &bytes, Some(path))?;
        let file = File::open(path)?;
        // The name may be that of a file that others wrote since; then it is read anew.
        let is_ours = is_same(&file.metadata()?, &found);
        self.file = Some(file);
        if !is_ours {
            self.length = u64::MAX;
            return Ok(());
        }
        self.is_document = false;
        self.tail.clear();
        self.note(&bytes, &found);
        Ok(())
    }

    fn nodes(
        &self,
        is_wanted: impl Fn(&EntityLine) -> bool,
        is_related: impl Fn(&Relation) -> bool,
    ) -> Nodes {
        let mut nodes = Nodes::default();
        let mut seen = HashSet::new();
        for item in &self.items {
            match &item.line {
                Line::Entity(entity) if is_wanted(entity) => nodes.entities.push(Entity {
                    name: entity.name.clone(),
                    entity_type: entity.entity_type.clone().unwrap_or_default(),
                    observations: entity.texts().map(str::to_owned).collect(),
                }),
                Line::Relation(relation) if is_related(relation) && seen.insert(relation) => {
                    nodes.relations.push(relation.clone());
                }
                _ => {}
            }
        }
        nodes
    }

    /// Returns entities with the relations that have one of them at an end.
    fn with_relations(&self, is_wanted: impl Fn(&EntityLine) -> bool) -> Nodes {
        let entities = self.nodes(is_wanted, |_| false).entities;
        let names: BTreeSet<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let touches =
            |relation: &Relation| names.contains(&*relation.from) || names.contains(&*relation.to);
        let relations = self.nodes(|_| false, touches).relations;
        Nodes { entities, relations }
    }

    fn add(&mut self, guard: &Guard, name: String, texts: Vec<String>) -> AddedObservations {
        let mut result = AddedObservations { entity: name, added: Vec::new(), known: Vec::new() };
        let Some(at) = self.entities.get(&result.entity).copied() else { return result };
        let Self { items, words, .. } = self;
        let Line::Entity(entity) = &mut items[at].line else { return result };
        let words = words.entry(at).or_insert_with(|| {
            let mut words: HashMap<String, Vec<usize>> = HashMap::new();
            for (at, text) in entity.texts().enumerate() {
                words.entry(words_of(text)).or_default().push(at);
            }
            words
        });
        let mut new = Vec::new();
        for text in texts {
            let key = words_of(&text);
            // Texts of one request are compared with earlier ones alone, as the reference server does.
            let near = words.get(&key).into_iter().flatten();
            let near: Vec<&str> = near.map(|near| entity.text(*near)).collect();
            if near.contains(&&*text) {
                continue;
            }
            match near.into_iter().find(|near| says_the_same(guard, near, &text)) {
                Some(says_it) => {
                    let says_it = says_it.to_owned();
                    result.known.push(KnownObservation { says_it, text });
                }
                None => new.push((key, text)),
            }
        }
        for (key, text) in new {
            words.entry(key).or_default().push(entity.observations.len());
            entity.observations.push((quoted(&text), Some(text.clone())));
            result.added.push(text);
        }
        if !result.added.is_empty() {
            items[at].write_observations();
        }
        result
    }

    /// Keeps some observations of an entity; tells whether any went.
    fn keep_observations(&mut self, at: usize, is_kept: impl Fn(&str) -> bool) -> bool {
        let Line::Entity(entity) = &mut self.items[at].line else { return false };
        let before = entity.observations.len();
        entity.observations.retain(|(raw, text)| is_kept(text.as_ref().unwrap_or(raw)));
        if entity.observations.len() == before {
            return false;
        }
        self.items[at].write_observations();
        self.words.remove(&at);
        true
    }
}

/// The words of a text, whatever their order and case: texts that differ in them are not compared.
fn words_of(text: &str) -> String {
    let key = loose_key(text).unwrap_or_else(|| text.to_owned());
    let mut words: Vec<&str> = key.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

fn says_the_same(guard: &Guard, known: &str, new: &str) -> bool {
    let (known, new) = (guard.read(known), guard.read(new));
    guard.judge(&known, &new).verdict == Verdict::Same
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The time at which it was made tells a file from the one that takes its place.
#[cfg(not(unix))]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.created().ok() == other.created().ok()
}
