//! Memories in Markdown: files and folders that agents keep for themselves.
//!
//! A memory is a bullet with everything nested in it, a paragraph, a row of a table, a block between separators, or a
//! whole file with front matter. `scan` finds them; nothing else of a file is touched.
//!
//! **Ids.** The file, `#` and 12 hex digits of a hash of the text; the second and later ones of one text get `#2`, `#3`.
//! A whole file has its path as its id.
//!
//! **Apart.** The titles above a memory are its attribute `section`. The ones that name a subject, and a name of
//! the file that does, are its attribute `topic`, and memories of two topics are never merged: "Port 8080" below
//! "Staging" and below "Production" are two facts. Memories of days have the attribute `log`, and merge among
//! themselves only: agents load the last days, and a lasting file must keep its memories.
//!
//! **Writing.** A memory is taken out by its bytes, with its line end and the headings that have no content then; a whole
//! file moves to `archive/`, and its link leaves the index. Removed texts are kept nowhere else than in a file that
//! the caller names, so that must last: it does not belong in a cache.

mod scan;
mod document;
mod write;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde_json::Value;

use self::document::{Document, Live};
use self::scan::{Memory, front_matter};
use self::write::{Archived, Kept, Ledger, Writer, Written, digest};
use crate::shared::{
    FileLayer, FreeIds, IMPORTANCE, advice_on, advice_on_removed, failed, id_digits,
    leftovers_below, remove_leftovers, supersedes, walk, words,
};
use memfold_store::origin::{
    Origin, OriginContents, OriginError, OriginRecord, OriginStatus, OriginUnit, Published, Skipped,
};
use memfold_store::whole_file::{self, OsLock};

/// The kind, as `--store-kind` spells it.
pub const KIND: &str = "markdown";
/// How often a write is tried while other programs change the files.
const TRIES: usize = 5;

/// A file or a folder of memories in Markdown.
pub(crate) struct MarkdownMemories {
    path: PathBuf,
    is_file: bool,
    /// Where removed texts are kept.
    removed: Option<PathBuf>,
    layer: FileLayer,
}

impl MarkdownMemories {
    /// Opens a file or a folder. Writes nothing.
    pub(crate) fn open(path: &Path) -> Result<Self, OriginError> {
        let path = path.canonicalize().map_err(failed("open", path))?;
        let is_file = !path.is_dir();
        Ok(Self { path, is_file, removed: None, layer: FileLayer::default() })
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
            false => {
                let is_read =
                    |name: &str| !name.starts_with('.') && !OTHER_FOLDERS[1..].contains(&name);
                leftovers_below(&self.path, DEPTH_MAX + 1, &is_read)
            }
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
            if changes.write(self.root(), place, &ledger, &self.layer)? {
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
        let kept = advice_on_removed(self.removed.as_deref(), "texts").into_iter();
        kept.chain(self.leftovers().iter().map(|path| advice_on(path))).collect()
    }
}

/// The folder of files that memfold took out.
const ARCHIVE: &str = "archive";
/// A file that is longer is left out.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Folders are read to this depth.
const DEPTH_MAX: usize = 8;
/// Folders that hold no memories.
const OTHER_FOLDERS: [&str; 4] = [ARCHIVE, "node_modules", "skills", "reports"];
/// Files that hold no memories.
const OTHER_FILES: [&str; 2] = ["skill.md", "readme.md"];
/// Files of instructions at the top of a project.
const PROJECT_FILES: [&str; 4] = ["claude.md", "claude.local.md", "agents.md", "gemini.md"];
/// Files of memories at the top of a workspace, beside its folder of days.
const WORKSPACE_FILES: [&str; 2] = ["memory.md", "user.md"];
/// The folder of days in a workspace.
const DAYS: &str = "memory";
/// A value of front matter that is longer is no category.
const VALUE_CHARS_MAX: usize = 64;
/// Marks within a text that protect a memory from changes.
const PROTECTING: [&str; 3] = ["!important", "never delete", "never-delete"];
/// The category of protected memories, one of the defaults of `protection.categories`.
const PROTECTED: &str = "protected";
/// Words of titles and names of files that say nothing of the subject of a memory. A title of other words does: "Port 8080"
/// below "Staging" is another fact than below "Production".
const GENERAL_WORDS: &str = "\
    a about agents an and april august auto claude context conventions curated daily day days \
    debugging december decisions facts february feedback for friday from general guidelines \
    history important in index insights instructions january july june key learned learnings \
    lessons log logs long march may memories memory misc monday notes note november october of \
    on other overview patterns preferences project reference remember rule rules saturday saved \
    september session sessions short summary sunday system term the things thursday to tuesday \
    wednesday";

/// The front matter and the name of a file, for its memories.
#[derive(Debug, Clone, Default, PartialEq)]
struct Front {
    tags: Vec<String>,
    attributes: BTreeMap<String, String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    description: String,
    /// Whether the whole file is one memory.
    is_topic: bool,
    /// Whether the file stands for the store: its name and its title say nothing that is not of all.
    is_main: bool,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
enum Body {
    Pieces(Document),
    /// One memory, in the file or in the archive.
    Topic {
        record: Box<OriginRecord>,
        archived: Option<Archived>,
    },
}

/// A file of memories.
#[derive(Debug, Clone, PartialEq)]
struct MarkdownFile {
    /// The text that was read; `None` where there is no such file.
    before: Option<String>,
    front: Front,
    body: Body,
    /// Memories with ids that do not follow from their texts.
    written: Vec<Written>,
    /// Whether memfold made the file.
    is_made: bool,
}

/// All files of a store.
#[derive(Debug, Clone, Default)]
struct Files {
    by_path: BTreeMap<String, MarkdownFile>,
    /// The file of each memory.
    places: BTreeMap<String, String>,
    skipped: Vec<Skipped>,
}

/// Which files of a folder are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Every file.
    Memories,
    /// Some at the top, and a folder of days.
    Workspace,
    /// Instructions at the top.
    Project,
}

/// Tells whether a file or a folder holds memories in Markdown.
pub(crate) fn is_one(path: &Path) -> bool {
    if path.is_file() {
        return is_markdown(&path.to_string_lossy());
    }
    path.is_dir() && layout(path).is_some()
}

fn is_markdown(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(".md") || name.ends_with(".markdown")
}

fn layout(folder: &Path) -> Option<Layout> {
    let files = names(folder, |kind| kind.is_file());
    let has =
        |wanted: &[&str]| files.iter().any(|name| wanted.contains(&&*name.to_ascii_lowercase()));
    let markdown = |folder: &Path| -> Vec<String> {
        let names = names(folder, |kind| kind.is_file());
        names.into_iter().filter(|name| is_markdown(name)).collect()
    };
    let own = markdown(folder);
    let is_day = |name: &String| day_of(name).is_some();
    let is_named = folder.file_name().is_some_and(|name| name == "memory" || name == "memories");
    if !markdown(&folder.join(DAYS)).is_empty() {
        return Some(Layout::Workspace);
    }
    if has(&WORKSPACE_FILES) || own.iter().any(is_day) || is_named && !own.is_empty() {
        return Some(Layout::Memories);
    }
    let has_front = |within: &str, name: &String| {
        let text = fs::File::open(folder.join(within).join(name)).and_then(|file| {
            let mut text = Vec::new();
            file.take(1 << 16).read_to_end(&mut text).map(|_| text)
        });
        text.is_ok_and(|text| front_matter(&String::from_utf8_lossy(&text)).is_some())
    };
    let fronts = own.iter().filter(|name| has_front("", name)).count();
    if fronts > 0 && fronts * 2 >= own.len()
        || markdown(&folder.join("system")).iter().any(|name| has_front("system", name))
    {
        return Some(Layout::Memories);
    }
    if has(&PROJECT_FILES) {
        return Some(Layout::Project);
    }
    let visible = files.iter().filter(|name| !name.starts_with('.')).count();
    let notes = own.iter().filter(|name| Layout::Memories.reads(name, false)).count();
    (notes > 0 && own.len() * 2 > visible).then_some(Layout::Memories)
}

fn names(folder: &Path, is_wanted: impl Fn(&fs::FileType) -> bool) -> Vec<String> {
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = items.filter(|item| item.file_type().is_ok_and(|kind| is_wanted(&kind)));
    wanted.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the day that a name begins with, as `2026-11-28`.
fn day_of(name: &str) -> Option<String> {
    let day = name.get(..10)?;
    let is_whole = !name[10..].starts_with(|c: char| c.is_ascii_digit());
    day.parse::<Date>().ok().filter(|_| is_whole).map(|_| day.to_owned())
}

impl Files {
    /// Reads the files of a store, and puts removed pieces back in their places.
    fn load(path: &Path, is_file: bool, ledger: &Ledger) -> Result<Self, OriginError> {
        let mut texts = BTreeMap::new();
        let mut skipped = Vec::new();
        if is_file {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            read(path, &name, &mut texts, &mut skipped)?;
        } else {
            // A folder that somebody named to be one.
            let layout = layout(path).unwrap_or(Layout::Memories);
            let is_wanted = |path: &str, is_folder| {
                !name_of(path).starts_with('.') && layout.reads(path, is_folder)
            };
            for (within, reason) in walk(path, "", DEPTH_MAX, &is_wanted)? {
                match reason.map(str::to_owned) {
                    Some(reason) => skipped.push(Skipped { place: within, reason }),
                    None => read(&path.join(&within), &within, &mut texts, &mut skipped)?,
                }
            }
        }
        let mut files = Self { skipped, ..Self::default() };
        let known: BTreeSet<&String> = ledger.files.keys().chain(ledger.pending.keys()).collect();
        let known = known.into_iter().filter(|path| !texts.contains_key(*path));
        let missing: Vec<(String, Option<String>)> =
            known.map(|path| (path.clone(), None)).collect();
        for (path, text) in texts.into_iter().map(|(path, text)| (path, Some(text))).chain(missing)
        {
            let kept = ledger.kept(&path, text.as_deref());
            files.put(&path, text, &kept, is_file);
        }
        Ok(files)
    }

    fn put(&mut self, path: &str, before: Option<String>, kept: &Kept, is_file: bool) {
        let text = before.as_deref().unwrap_or_default();
        let front = match front(path, text, is_file) {
            Ok(front) => front,
            Err(reason) => {
                self.skipped.push(Skipped { place: path.to_owned(), reason });
                return;
            }
        };
        let body = match &kept.archived {
            Some(archived) if before.is_none() => {
                Body::Topic { record: archived.record.clone(), archived: Some(archived.clone()) }
            }
            _ if front.is_topic => {
                Body::Topic { record: Box::new(topic(path, text, &front)), archived: None }
            }
            _ => Body::Pieces(document(path, text, kept)),
        };
        let file = MarkdownFile {
            before: before.clone(),
            front,
            body,
            written: kept.written.clone(),
            is_made: kept.is_made,
        };
        // A file that others removed, with its removed memories.
        let ids = file.ids();
        if before.is_some() || !ids.is_empty() {
            self.places.extend(ids.into_iter().map(|id| (id, path.to_owned())));
            self.by_path.insert(path.to_owned(), file);
        }
    }

    /// Returns all records: the ones in files, then the removed ones.
    fn contents(self) -> OriginContents {
        let mut contents = OriginContents { skipped: self.skipped, ..OriginContents::default() };
        for (path, file) in &self.by_path {
            contents.records.extend(file.records(path).filter(|record| !record.text.is_empty()));
        }
        contents.records.sort_by_key(|record| record.status != OriginStatus::Live);
        contents
    }
}

impl MarkdownFile {
    fn ids(&self) -> Vec<String> {
        match &self.body {
            Body::Topic { record, .. } => vec![record.id.clone()],
            Body::Pieces(document) => {
                let live = document.live().map(|live| live.id.to_owned());
                live.chain(document.removed().map(|record| record.id.clone())).collect()
            }
        }
    }

    /// Returns the records of the file, also the removed ones.
    fn records<'a>(&'a self, path: &'a str) -> Box<dyn Iterator<Item = OriginRecord> + 'a> {
        match &self.body {
            Body::Topic { record, .. } => Box::new(std::iter::once((**record).clone())),
            Body::Pieces(document) => {
                let live = document.live().map(|live| self.record(path, live));
                Box::new(live.chain(document.removed().cloned()))
            }
        }
    }

    fn record(&self, path: &str, live: Live<'_>) -> OriginRecord {
        let Memory { text, section, .. } = live.memory;
        let mut attributes = self.front.attributes.clone();
        if !section.is_empty() {
            attributes.insert("section".to_owned(), section.join("/"));
        }
        let topic = match (self.front.is_main, &self.body) {
            (true, Body::Pieces(_)) => {
                subject("", section.get(usize::from(live.is_titled)..).unwrap_or_default())
            }
            _ => subject(path, section),
        };
        if !topic.is_empty() {
            attributes.insert("topic".to_owned(), topic.join("/"));
        }
        let written = self.written.iter().find(|written| written.id == live.id);
        let made_of = written.map(|written| &*written.made_of).unwrap_or_default();
        OriginRecord {
            id: live.id.to_owned(),
            tags: tags(&self.front.tags, text),
            attributes: attributes.into_iter().collect(),
            place: format!("{path}:{}", live.line),
            raw: live.raw.to_owned(),
            links: supersedes(made_of),
            ..plain(text, &self.front)
        }
    }
}

fn plain(text: &str, front: &Front) -> OriginRecord {
    OriginRecord {
        text: text.to_owned(),
        importance: IMPORTANCE,
        created_at: front.created_at.clone(),
        updated_at: front.updated_at.clone(),
        source: KIND.to_owned(),
        ..OriginRecord::default()
    }
}

/// The memory that a whole file is: the description in its front matter, and its text.
fn topic(path: &str, text: &str, front: &Front) -> OriginRecord {
    let body = front_matter(text).map_or(text, |(bytes, _)| &text[bytes..]);
    let body = body.trim().replace("\r\n", "\n");
    let is_said = front.description.is_empty() || body.contains(&front.description);
    let said = if is_said { body } else { format!("{}\n{body}", front.description) };
    let mut attributes = front.attributes.clone();
    let above = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let subject = subject(above, &[]);
    if !subject.is_empty() {
        attributes.insert("topic".to_owned(), subject.join("/"));
    }
    OriginRecord {
        id: path.to_owned(),
        tags: tags(&front.tags, &said),
        attributes: attributes.into_iter().collect(),
        place: path.to_owned(),
        raw: text.to_owned(),
        ..plain(said.trim(), front)
    }
}

fn tags(tags: &[String], text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let is_protected = PROTECTING.iter().any(|mark| text.contains(mark));
    let protected = is_protected.then(|| PROTECTED.to_owned());
    tags.iter().filter(|tag| *tag != PROTECTED || !is_protected).cloned().chain(protected).collect()
}

fn document(path: &str, text: &str, kept: &Kept) -> Document {
    let mut document = Document::new(text, &kept.removed, kept.digest == digest(text));
    let mut free = FreeIds::default();
    free.taken.extend(document.removed().map(|record| record.id.clone()));
    free.taken.extend(kept.written.iter().map(|written| written.id.clone()));
    let mut written: Vec<&Written> = kept.written.iter().collect();
    document.name(|memory| {
        let hash = id_digits(&memory.text);
        match written.iter().position(|written| written.hash == hash) {
            Some(at) => written.remove(at).id.clone(),
            None => free.take(&format!("{path}#{hash}")),
        }
    });
    document
}

/// Returns the subject of a memory by its file and the titles above it, without general words.
fn subject(path: &str, section: &[String]) -> Vec<String> {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let parts = stem.split('/').chain(section.iter().map(String::as_str));
    parts.filter(|part| !is_general(part)).map(str::to_lowercase).collect()
}

fn is_general(title: &str) -> bool {
    let title = title.to_lowercase();
    let mut words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.is_empty()
            || ["am", "pm", "th", "st", "nd", "rd", "t", "z"].contains(&digits) && digits != word
            || GENERAL_WORDS.split(' ').any(|general| general == word)
    })
}

/// Reads the front matter of a file; an error says why it cannot be understood.
fn front(path: &str, text: &str, is_file: bool) -> Result<Front, String> {
    let name = name_of(path);
    let lower = path.to_ascii_lowercase();
    let mut front = Front {
        created_at: day_of(name).map(at_midnight),
        is_main: is_file || lower == WORKSPACE_FILES[0] || PROJECT_FILES.contains(&&*lower),
        ..Front::default()
    };
    if front.created_at.is_some() && !is_file {
        front.attributes.insert("log".to_owned(), "days".to_owned());
    }
    let Some((_, yaml)) = front_matter(text) else { return Ok(front) };
    let options = serde_saphyr::options! { with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| format!("its front matter is no YAML: {error}"))?;
    let mut has = BTreeSet::new();
    let nested = value["metadata"].as_object();
    for (key, value) in value.as_object().into_iter().chain(nested).flatten() {
        let key = key.to_lowercase();
        front.take(&key, value);
        has.insert(key);
    }
    // A file of instructions or a block with a limit may be described too, and holds many memories.
    let has = |key: &str| has.contains(key);
    front.is_topic = !is_file
        && (has("name") || has("title") || has("type"))
        && !(has("limit") || has("label") || has("read_only") || has("paths") || has("globs"));
    Ok(front)
}

impl Front {
    fn take(&mut self, key: &str, value: &Value) {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Array(items) => {
                let items: Vec<String> =
                    items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                match key {
                    "tags" => return self.tags = items,
                    _ => items.join(","),
                }
            }
            _ => return,
        };
        let is_time = |text: &str| text.get(..10).is_some_and(|day| day.parse::<Date>().is_ok());
        match key {
            "description" => self.description = text,
            "name" | "title" => {}
            "tags" => self.tags = words(&text),
            "created" | "created_at" | "date" if is_time(&text) => {
                self.created_at = Some(at_midnight(text))
            }
            "updated" | "updated_at" | "modified" | "last_updated" if is_time(&text) => {
                self.updated_at = Some(at_midnight(text));
            }
            "read_only" if text == "true" => self.tags.push(PROTECTED.to_owned()),
            "user" | "user_id" | "userid" | "owner" => self.attribute("user", text),
            "agent" | "agent_id" | "agentid" => self.attribute("agent", text),
            "paths" | "globs" => self.attribute("topic", text),
            key if key.ends_with("id") || key.contains("session") || key.contains("hash") => {}
            key => self.attribute(key, text),
        }
    }

    fn attribute(&mut self, name: &str, value: String) {
        let is_category = !value.is_empty()
            && value.chars().count() <= VALUE_CHARS_MAX
            && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
        if is_category {
            self.attributes.insert(name.to_owned(), value);
        }
    }
}

/// Makes a time of a day.
fn at_midnight(text: String) -> String {
    if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.replacen(' ', "T", 1) }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Layout {
    /// Tells whether a file or a folder is one to read.
    fn reads(self, path: &str, is_folder: bool) -> bool {
        let lower = path.to_ascii_lowercase();
        let name = name_of(&lower);
        if is_folder && OTHER_FOLDERS.contains(&name) {
            return false;
        }
        let is_file = is_markdown(name) && !OTHER_FILES.contains(&name);
        let is_days = lower == DAYS || lower.starts_with("memory/");
        match self {
            Self::Memories => is_folder || is_file,
            Self::Workspace if is_days => is_folder || is_file,
            Self::Workspace => WORKSPACE_FILES.contains(&&*lower),
            Self::Project => PROJECT_FILES.contains(&&*lower),
        }
    }
}

fn read(
    path: &Path,
    within: &str,
    texts: &mut BTreeMap<String, String>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), OriginError> {
    let mut skip = |reason: String| skipped.push(Skipped { place: within.to_owned(), reason });
    let failed = failed("read", path);
    let bytes = match fs::File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(&failed)?;
            bytes
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            skip("it may not be read".to_owned());
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        skip(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
    } else if let Ok(text) = String::from_utf8(bytes) {
        texts.insert(within.to_owned(), text);
    } else {
        skip("it is not UTF-8".to_owned());
    }
    Ok(())
}
