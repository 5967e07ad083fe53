//! Units of changes, made in memory first and then in the files; and [`Ledger`]: the memories that memfold took out of
//! the files of a store or wrote there, in a file of its own.
//!
//! Several files cannot be replaced at once. So the ledger is written before the first of them, with the state of each
//! file that holds until its replacement, and once more behind the last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::stay_within;
use serde::{Deserialize, Serialize};

use super::document::{Document, Removed};
use super::scan::{Form, Kind, Memory, scan};
use super::{ARCHIVE, Body, Files, MarkdownFile};
use crate::shared::{
    self, FileLayer, Reasons, Refusal, check, failed, id_digits, note, read_text, retired_status,
};
use memfold_store::origin::{
    OriginChange, OriginError, OriginRecord, OriginStatus, OriginUnit, Published,
};

/// The file for memories that name none.
const FILE_DEFAULT: &str = "MEMORY.md";
/// The title for memories that name none, in a file of sections.
const TITLE_DEFAULT: &str = "Notes";

const REASONS: Reasons = Reasons {
    changed: "it was changed",
    gone: "it is not in its file any more",
    unknown: "it is neither in its file nor among the removed texts",
};
const JOINED: &str = "the text around it would be read otherwise";

/// Files as they become.
pub(super) struct Writer<'a> {
    root: &'a Path,
    /// The store: the root, or a file in it.
    path: &'a Path,
    files: Files,
    /// Files that this call changes.
    changed: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(root: &'a Path, path: &'a Path, files: Files) -> Self {
        Self { root, path, files, changed: BTreeSet::new() }
    }

    /// Makes the changes of all units: at once, or, where a text would be read otherwise then, one by one.
    pub(super) fn apply(&mut self, units: &[OriginUnit]) -> Published {
        let before = self.files.clone();
        let published = self.apply_units(units, false);
        if self.changed.iter().all(|path| self.is_sound(path)) {
            return published;
        }
        (self.files, self.changed) = (before, BTreeSet::new());
        self.apply_units(units, true)
    }

    fn apply_units(&mut self, units: &[OriginUnit], is_careful: bool) -> Published {
        let mut published = Published::default();
        for (at, unit) in units.iter().enumerate() {
            let before = is_careful.then(|| (self.files.clone(), self.changed.clone()));
            let checked = unit.changes.iter().try_for_each(|change| self.check(change));
            let made = checked.and_then(|()| {
                unit.changes.iter().try_for_each(|change| self.make(change))?;
                if is_careful { self.settled(unit) } else { Ok(()) }
            });
            if let Some(before) = before.filter(|_| made.is_err()) {
                (self.files, self.changed) = before;
            }
            note(&mut published, at, made);
        }
        self.changed.clone().iter().for_each(|path| self.settle(path));
        published
    }

    fn settle(&mut self, path: &str) {
        if let Some(MarkdownFile { body: Body::Pieces(document), .. }) =
            self.files.by_path.get_mut(path)
        {
            document.settle();
        }
    }

    /// Settles after a unit; an error where a file is not read as it should.
    fn settled(&mut self, unit: &OriginUnit) -> Result<(), Refusal> {
        for path in self.changed.clone() {
            self.settle(&path);
            if !self.is_sound(&path) {
                let id = unit.changes.first().map(OriginChange::id).unwrap_or_default();
                return Err((id.to_owned(), JOINED.to_owned()));
            }
        }
        Ok(())
    }

    fn is_sound(&self, path: &str) -> bool {
        match self.files.by_path.get(path).map(|file| &file.body) {
            Some(Body::Pieces(document)) => document.is_sound(),
            _ => true,
        }
    }

    fn file_of(&self, id: &str) -> Option<(&str, &MarkdownFile)> {
        let (path, file) = self.files.by_path.get_key_value(self.files.places.get(id)?)?;
        Some((path, file))
    }

    /// Returns a record as it is in its file.
    fn live(&self, id: &str) -> Option<OriginRecord> {
        let (path, file) = self.file_of(id)?;
        match &file.body {
            Body::Topic { record, archived: None } => Some((**record).clone()),
            Body::Topic { .. } => None,
            Body::Pieces(document) => document.find(id).map(|live| file.record(path, live)),
        }
    }

    /// Returns a record as it was taken out.
    fn removed(&self, id: &str) -> Option<&OriginRecord> {
        match &self.file_of(id)?.1.body {
            Body::Topic { record, archived: Some(_) } => Some(record),
            Body::Topic { .. } => None,
            Body::Pieces(document) => document.find_removed(id),
        }
    }

    /// Tells why a change cannot be made.
    fn check(&self, change: &OriginChange) -> Result<(), Refusal> {
        check(change, self.live(change.id()).as_ref(), self.removed(change.id()), &REASONS)
    }

    /// Makes a change that was checked, unless it is made already.
    fn make(&mut self, change: &OriginChange) -> Result<(), Refusal> {
        let made = match change {
            OriginChange::Create { record, made_of } => self.create(record, made_of),
            OriginChange::Update { record, .. } => self.rewrite(record),
            OriginChange::Retire { id, into, .. } => {
                self.retire(id, into.as_deref());
                Ok(())
            }
            OriginChange::Restore { record, .. } => self.restore(record),
            OriginChange::Remove { id, .. } => {
                self.remove(id);
                Ok(())
            }
        };
        made.map_err(|reason| (change.id().to_owned(), reason.to_owned()))
    }

    fn file_mut(&mut self, id: &str) -> Option<(String, &mut MarkdownFile)> {
        let path = self.files.places.get(id)?.clone();
        self.changed.insert(path.clone());
        let file = self.files.by_path.get_mut(&path)?;
        Some((path, file))
    }

    fn retire(&mut self, id: &str, into: Option<&str>) {
        let status = retired_status(into);
        let known = self.live(id).or_else(|| self.removed(id).cloned());
        let Some(record) = known.map(|known| OriginRecord { status, ..known }) else { return };
        let copy = self.archive_path(id);
        let Some((path, file)) = self.file_mut(id) else { return };
        match &mut file.body {
            Body::Pieces(document) => return document.take_out(record),
            Body::Topic { record: known, archived } => {
                let copy = archived.take().map_or(copy, |archived| archived.copy);
                *archived = Some(Archived { record: Box::new(record.clone()), copy });
                **known = record;
            }
        }
        self.follow_links(&path, true);
    }

    /// Returns a free place in the archive.
    fn archive_path(&self, path: &str) -> String {
        let text = self.files.by_path.get(path).and_then(|file| file.before.as_deref());
        let (stem, ending) = path.rsplit_once('.').unwrap_or((path, "md"));
        let name = |number: usize| match number {
            1 => format!("{ARCHIVE}/{path}"),
            number => format!("{ARCHIVE}/{stem}-{number}.{ending}"),
        };
        let is_free = |name: &String| {
            let found = std::fs::read(self.root.join(name));
            // A copy that a killed process left serves as well.
            found.is_err() || found.ok().as_deref() == text.map(str::as_bytes)
        };
        (1..).map(name).find(is_free).unwrap_or_default()
    }

    /// Takes out or puts back the links to a file in all others.
    fn follow_links(&mut self, gone: &str, is_out: bool) {
        for (path, file) in &mut self.files.by_path {
            let Body::Pieces(document) = &mut file.body else { continue };
            let before = document.clone();
            document.follow_links(|target| (resolved(path, target) == gone).then_some(is_out));
            if before != *document {
                self.changed.insert(path.clone());
            }
        }
    }

    fn restore(&mut self, record: &OriginRecord) -> Result<(), &'static str> {
        if self.removed(&record.id).is_none() {
            if let Some((path, MarkdownFile { body: Body::Topic { .. }, .. })) =
                self.file_of(&record.id)
            {
                // A killed process may have left the index without its link.
                let path = path.to_owned();
                self.follow_links(&path, false);
                return Ok(());
            }
            return self.put(&record.id, record.raw.clone(), record);
        }
        let Some((path, file)) = self.file_mut(&record.id) else { return Ok(()) };
        match &mut file.body {
            Body::Pieces(document) => {
                document.put_back(&record.id);
                return Ok(());
            }
            Body::Topic { record: known, archived } => {
                *archived = None;
                known.status = OriginStatus::Live;
            }
        }
        self.follow_links(&path, false);
        Ok(())
    }

    /// Gives a memory another text; a file knows nothing else of it.
    fn rewrite(&mut self, record: &OriginRecord) -> Result<(), &'static str> {
        let Some((_, file)) = self.file_of(&record.id) else { return Ok(()) };
        let Body::Pieces(document) = &file.body else {
            let is_same = self.live(&record.id).is_none_or(|live| live.text == record.text);
            return if is_same { Ok(()) } else { Err("the text of a whole file is not rewritten") };
        };
        let Some(live) = document.find(&record.id) else { return Ok(()) };
        if live.memory.text == record.text {
            return Ok(());
        }
        let raw = spelled(live.raw, live.memory, &record.text)
            .ok_or("a row of a table is not rewritten")?;
        self.put(&record.id, raw, record)
    }

    /// Gives a memory in its file other bytes, and keeps its id.
    fn put(&mut self, id: &str, raw: String, record: &OriginRecord) -> Result<(), &'static str> {
        let is_same = self.live(id).is_none_or(|live| live.raw == raw);
        if is_same {
            return Ok(());
        }
        let Some((path, file)) = self.file_mut(id) else { return Ok(()) };
        let Body::Pieces(document) = &mut file.body else { return Ok(()) };
        document.rewrite(id, raw, &record.text);
        let hash = id_digits(&record.text);
        let follows = id.starts_with(&format!("{path}#{hash}"));
        match file.written.iter_mut().find(|written| written.id == id) {
            Some(written) => written.hash = hash,
            None => file.written.push(Written {
                id: id.to_owned(),
                hash,
                lead: String::new(),
                made_of: Vec::new(),
            }),
        }
        // An id that follows from the text needs no note.
        file.written.retain(|written| written.id != id || !follows || !written.made_of.is_empty());
        Ok(())
    }

    fn create(&mut self, record: &OriginRecord, made_of: &[String]) -> Result<(), &'static str> {
        if self.files.places.contains_key(&record.id) {
            return Ok(());
        }
        let path = self.file_for(made_of);
        let file = self.files.by_path.entry(path.clone()).or_insert_with(|| MarkdownFile {
            before: None,
            front: Default::default(),
            body: Body::Pieces(Document::default()),
            written: Vec::new(),
            is_made: true,
        });
        let Body::Pieces(document) = &mut file.body else { return Err("its file is one memory") };
        let (lead, raw) = appended(document, &record.text);
        document.append(&format!("{lead}{raw}"), &record.id, &record.text);
        if document.find(&record.id).is_none() {
            return Err("its text would be read otherwise in Markdown");
        }
        file.written.push(Written {
            id: record.id.clone(),
            hash: id_digits(&record.text),
            lead,
            made_of: made_of.to_vec(),
        });
        self.files.places.insert(record.id.clone(), path.clone());
        self.changed.insert(path);
        Ok(())
    }

    /// Returns the file for a new memory: that of its sources, else the usual one.
    fn file_for(&self, made_of: &[String]) -> String {
        let has_pieces = |path: &&String| {
            self.files.by_path.get(*path).is_some_and(|file| matches!(file.body, Body::Pieces(_)))
        };
        let of_source = made_of.iter().filter_map(|id| self.files.places.get(id)).find(has_pieces);
        if let Some(path) = of_source {
            return path.clone();
        }
        if self.path != self.root {
            let name = self.path.file_name().unwrap_or_default();
            return name.to_string_lossy().into_owned();
        }
        let mut names = self.files.by_path.keys().filter(has_pieces);
        let found = names.find(|path| path.eq_ignore_ascii_case(FILE_DEFAULT));
        found.map_or_else(|| FILE_DEFAULT.to_owned(), String::clone)
    }

    fn remove(&mut self, id: &str) {
        let Some((_, file)) = self.file_mut(id) else { return };
        let Body::Pieces(document) = &mut file.body else { return };
        let written = file.written.iter().find(|written| written.id == id);
        document.erase(id, written.map_or("", |written| &written.lead));
        file.written.retain(|written| written.id != id);
        self.files.places.remove(id);
    }

    /// Returns the new texts of the files, and the ledger of the memories that are not in them.
    pub(super) fn changes(&self, ledger: &Ledger) -> Changes {
        let mut changes = Changes { after: ledger.clone(), ..Changes::default() };
        changes.after.pending.clear();
        for (path, file) in &self.files.by_path {
            // The decision of an interrupted call is settled too.
            let before = ledger.kept(path, file.before.as_deref());
            let is_changed = self.changed.contains(path);
            let (text, kept) =
                if is_changed { kept(file) } else { (file.before.clone(), before.clone()) };
            let was = file.before.as_deref().unwrap_or_default();
            if text != file.before {
                changes.pending.insert(path.clone(), Pending::new(was, before.clone(), &kept));
                changes.files.push(FileChange {
                    path: path.clone(),
                    before: file.before.clone(),
                    after: text,
                    copy: copy(file).or_else(|| before.archived.map(|archived| archived.copy)),
                });
            } else if let Some(left) = left_copy(ledger, path, &kept) {
                changes.left.push((left, was.to_owned()));
            }
            match kept.is_empty() {
                true => changes.after.files.remove(path),
                false => changes.after.files.insert(path.clone(), kept),
            };
        }
        changes
    }
}

fn copy(file: &MarkdownFile) -> Option<String> {
    match &file.body {
        Body::Topic { archived: Some(archived), .. } => Some(archived.copy.clone()),
        _ => None,
    }
}

/// Returns the text of a file and the ledger's part about it.
fn kept(file: &MarkdownFile) -> (Option<String>, Kept) {
    let written = file.written.clone();
    let mut kept = Kept { written, is_made: file.is_made, ..Kept::default() };
    let text = match &file.body {
        Body::Topic { archived: Some(archived), .. } => {
            kept.archived = Some(archived.clone());
            None
        }
        Body::Topic { record, .. } => Some(record.raw.clone()),
        Body::Pieces(document) => {
            let (text, removed) = document.to_keep();
            kept.removed = removed;
            // A file that memfold made goes with its last memory.
            let is_left = text.is_empty() && file.is_made && kept.removed.is_empty();
            (!is_left && (file.before.is_some() || !text.is_empty())).then_some(text)
        }
    };
    kept.is_made &= text.is_some();
    kept.digest = digest(text.as_deref().unwrap_or_default());
    (text, kept)
}

/// A file that becomes another one.
#[derive(Debug)]
pub(super) struct FileChange {
    path: String,
    before: Option<String>,
    after: Option<String>,
    /// Where a file that goes is copied to, or one that comes back was.
    copy: Option<String>,
}

/// The files and the ledger that a call writes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    files: Vec<FileChange>,
    after: Ledger,
    /// The states of files that are not replaced yet.
    pending: BTreeMap<String, Pending>,
    /// Copies of files that are back, which a killed process left, with their texts.
    left: Vec<(String, String)>,
}

/// Returns the copy of a file that an interrupted call put back.
fn left_copy(ledger: &Ledger, path: &str, kept: &Kept) -> Option<String> {
    let before = ledger.pending.get(path)?.kept.archived.as_ref()?;
    kept.archived.is_none().then(|| before.copy.clone())
}

impl Changes {
    /// Writes the ledger first, then copies, new files, changed files, and removes files at last.
    /// `false`: another program changed a file meanwhile.
    pub(super) fn write(
        mut self,
        root: &Path,
        place: &Path,
        ledger: &Ledger,
        layer: &FileLayer,
    ) -> Result<bool, OriginError> {
        if !self.files.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let begun = Ledger { files: self.after.files.clone(), pending };
            layer.keep(place, &begun.to_bytes())?;
            // New files come before files that go.
            self.files.sort_by_key(|change| (change.before.is_some(), change.after.is_none()));
            for change in &self.files {
                if !change.write(root, layer)? {
                    return Ok(false);
                }
            }
        }
        for (copy, text) in &self.left {
            layer.replace(&place_of(root, copy)?, Some(text), None, None)?;
            remove_empty_folders(root, copy);
        }
        if !self.files.is_empty() || self.after != *ledger {
            layer.keep(place, &self.after.to_bytes())?;
        }
        Ok(true)
    }
}

/// Returns where a path within a folder leads; refuses a path out of it.
fn place_of(root: &Path, path: &str) -> Result<PathBuf, OriginError> {
    let place = root.join(path);
    stay_within(root, &place).map_err(failed("enter", &place))?;
    Ok(place)
}

/// Removes the folders of a copy that hold nothing any more.
fn remove_empty_folders(root: &Path, copy: &str) {
    let folders = Path::new(copy).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    for folder in folders {
        // One that holds something stays.
        let _ = std::fs::remove_dir(root.join(folder));
    }
}

impl FileChange {
    fn write(&self, root: &Path, layer: &FileLayer) -> Result<bool, OriginError> {
        let Self { before, after, copy, .. } = self;
        let (before, after) = (before.as_deref(), after.as_deref());
        let path = place_of(root, &self.path)?;
        let place = copy.as_deref().map(|copy| place_of(root, copy)).transpose()?;
        let is_back = after.is_some() && before.is_none();
        match (place, copy) {
            (Some(place), Some(copy)) if after.is_some() => {
                let like = Some(&*place).filter(|place| is_back && place.is_file());
                let is_written = layer.replace(&path, before, after, like)?;
                let is_written =
                    is_written && (!is_back || layer.replace(&place, after, None, None)?);
                remove_empty_folders(root, copy);
                Ok(is_written)
            }
            (Some(place), _) if !layer.replace(&place, None, before, Some(&path))? => Ok(false),
            _ => layer.replace(&path, before, after, None),
        }
    }
}

/// Returns the file that a link in a file leads to.
fn resolved(from: &str, target: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Writes another text in the place of a memory, with its sign, its indentation and its line ends; `None` in a table.
fn spelled(raw: &str, memory: &Memory, text: &str) -> Option<String> {
    let body = raw.trim_end();
    let line_end = if raw.contains("\r\n") { "\r\n" } else { "\n" };
    let (prefix, columns) = match memory.form {
        Form::Item { prefix, columns } => (raw.get(..prefix)?, columns),
        Form::Paragraph | Form::Block => ("", 0),
        Form::Row => return None,
    };
    let indent = format!("{line_end}{:columns$}", "");
    Some(format!("{prefix}{}{}", text.replace('\n', &indent), &raw[body.len()..]))
}

/// Returns the text at the end of a file for a new memory: the lead before it, and itself.
fn appended(document: &Document, text: &str) -> (String, String) {
    let whole = document.text();
    let line_end = if whole.contains("\r\n") { "\r\n" } else { "\n" };
    let open = if whole.is_empty() || whole.ends_with('\n') { "" } else { line_end };
    if let Some(separator) = document.separator() {
        return (format!("{open}{separator}{line_end}"), text.replace('\n', line_end));
    }
    let mut lead = open.to_owned();
    if document.needs_title(TITLE_DEFAULT) {
        lead += &format!("{line_end}## {TITLE_DEFAULT}{line_end}{line_end}");
    } else if document.needs_line() {
        lead += line_end;
    }
    let indent = format!("{line_end}  ");
    (lead, format!("- {}{line_end}", text.replace('\n', &indent)))
}

/// The ledger of a store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    pub(super) files: BTreeMap<String, Kept>,
    /// The states of files that are not replaced yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<String, Pending>,
}

/// The state of a file until it is replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) kept: Kept,
    /// The digest of the file, and of the one that replaces it.
    before: String,
    after: String,
    /// How many memories of the file have a text that is taken out or put back.
    count: usize,
}

/// The ledger's part about a file.
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

/// A memory with an id that does not follow from its text: memfold wrote it, or its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    /// The digits of its text.
    pub(super) hash: String,
    /// The text before it.
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
    if text.is_empty() { String::new() } else { shared::digest(text) }
}

impl Ledger {
    /// Reads a ledger; a missing one is empty.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, OriginError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        serde_json::from_str(&text).map_err(|error| OriginError::Format {
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

    /// Returns the state of a file with this text.
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

/// Counts the memories with a text that only one of two states has.
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
