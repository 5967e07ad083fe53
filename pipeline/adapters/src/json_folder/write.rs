//! Writing units: first new entries, then changes and removals, then the indexes, then `ops/consolidation-log.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::index_file::{self, Index, Listed, governing};
use super::{ARCHIVE, DataFile, Folder, GENERATOR, JsonFolder, Place, entry, leftovers};
use crate::json::{Node, Piece, Style, indent_at, parse, quoted, spliced, with_more, with_pieces};
use crate::shared::{Refusal, attribute, digest, note, remove_leftovers};
use memfold_store::origin::{OriginChange, OriginError, OriginRecord, OriginUnit, Published};

/// Where the log stands.
pub(super) const LOG: &str = "ops/consolidation-log.json";

/// Members of the log that hold its entries: the documented one, and the one that files have.
const LOG_KEYS: [&str; 2] = ["entries", "log"];

/// So often a unit is looked at anew because a file changed meanwhile.
const TRIES_MAX: usize = 5;

/// A change of a file.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    path: String,
    edit: Edit,
}

#[derive(Debug, Clone, PartialEq)]
enum Edit {
    /// An entry comes to a list: at this position, else at the end.
    Add { at: Option<usize>, raw: String },
    /// A new file.
    Make { text: String },
    /// Another entry in the place of one.
    Put { id: String, raw: String },
    /// An entry goes.
    Drop { id: String },
}

/// The steps of a change, none where it was written already; `None`: it was written, and a later change took the memory
/// on. An error says why the unit is left alone.
type Outcome = Result<Option<Vec<Step>>, String>;

/// Writes units.
pub(super) struct Writer<'a> {
    store: &'a JsonFolder,
    folder: Folder,
    units: &'a [OriginUnit],
    /// Digests of memories as units of this call left them.
    ours: BTreeMap<String, String>,
    index_writes: usize,
}

impl<'a> Writer<'a> {
    /// Reads the folder.
    pub(super) fn new(store: &'a JsonFolder, units: &'a [OriginUnit]) -> Result<Self, OriginError> {
        let (folder, _) = Folder::load(&store.root)?;
        Ok(Self { store, folder, units, ours: BTreeMap::new(), index_writes: 0 })
    }

    /// Writes the units. Units that were written before a failure are logged all the same.
    pub(super) fn write(mut self) -> Result<Published, OriginError> {
        remove_leftovers(&leftovers(&self.store.root.0))?;
        self.new_log(&self.units.iter().collect::<Vec<_>>())?;
        let mut published = Published::default();
        let written = self.write_units(&mut published);
        let logged = self.log(&published);
        written.and(logged)?;
        Ok(published)
    }

    fn write_units(&mut self, published: &mut Published) -> Result<(), OriginError> {
        let mut changed = 0;
        for (at, unit) in self.units.iter().enumerate() {
            let mut outcome = Err(being_changed(unit));
            for _ in 0..TRIES_MAX {
                let steps = self.steps(unit);
                if self.is_fresh(unit, steps.as_deref().unwrap_or_default())? {
                    let Ok(steps) = steps else {
                        outcome = steps.map(drop);
                        break;
                    };
                    let count = if steps.is_empty() { 0 } else { unit.changes.len() };
                    if count > 0 && changed > 0 && changed + count > self.store.changes_max {
                        return Ok(());
                    }
                    if self.carry_out(unit, &steps)? {
                        changed += count;
                        outcome = Ok(());
                        break;
                    }
                }
                self.folder = Folder::load(&self.store.root)?.0;
            }
            note(published, at, outcome);
        }
        Ok(())
    }

    /// Tells whether the files that a unit is about are on the disk as they were read.
    fn is_fresh(&self, unit: &OriginUnit, steps: &[Step]) -> Result<bool, OriginError> {
        let places = unit.changes.iter().filter_map(|change| self.folder.place(change.id()));
        let mut paths: BTreeSet<&String> = places.map(|place| &place.path).collect();
        paths.extend(steps.iter().map(|step| &step.path));
        for path in paths {
            let known = self.folder.files.get(path).map(|file| &file.text);
            if self.store.root.read(path)?.as_ref() != known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the steps of a unit. `false`: another process changed a file meanwhile, and nothing of the unit is there.
    fn carry_out(&mut self, unit: &OriginUnit, steps: &[Step]) -> Result<bool, OriginError> {
        let listed: Vec<Listed> =
            unit.changes.iter().map(|change| self.listed(change.id())).collect();
        let mut written: Vec<(&str, Option<String>, Option<String>)> = Vec::new();
        for is_new in [true, false] {
            let mut by_path: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
            for Step { path, edit } in steps {
                if matches!(edit, Edit::Add { .. } | Edit::Make { .. }) == is_new {
                    by_path.entry(path).or_default().push(edit);
                }
            }
            for (path, edits) in by_path {
                let file = self.folder.files.get(path);
                let (before, after) = (file.map(|file| file.text.clone()), edited(file, &edits));
                if !self.save(path, before.as_deref(), after.clone())? {
                    for (path, before, after) in written.into_iter().rev() {
                        self.save(path, after.as_deref(), before)?;
                    }
                    return Ok(false);
                }
                written.push((path, before, after));
            }
        }
        self.update_indexes(&listed, &unit.at)?;
        Ok(true)
    }

    /// Puts another text in the place of a file; `false` where another process changed it.
    fn replace(
        &self,
        path: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<bool, OriginError> {
        self.store.files.replace(&self.store.root.join(path)?, before, after, None)
    }

    /// As [`Self::replace`], of a file of memories.
    fn save(
        &mut self,
        path: &str,
        before: Option<&str>,
        after: Option<String>,
    ) -> Result<bool, OriginError> {
        let is_saved = self.replace(path, before, after.as_deref())?;
        if is_saved && let Err(reason) = self.folder.put(path, after) {
            let path = self.store.root.join(path)?;
            return Err(OriginError::Format { path, kind: "memory file", reason });
        }
        Ok(is_saved)
    }

    /// Returns a memory of which an index has to know, with how an index lists it.
    fn listed(&self, id: &str) -> Listed {
        let place = self.folder.place(id);
        let own = place.and_then(|place| governing(&self.folder, &place.path));
        let item = |(path, text): (&String, &String)| {
            let root = parse(text).ok()?;
            let item =
                index_file::items(&root).iter().find(|item| item.text_of("id") == Some(id))?;
            let path = match place {
                Some(place) if own.as_ref() == Some(path) => place.path.clone(),
                Some(place) => counterpart(&place.path),
                None => String::new(),
            };
            Some((item.raw(text).to_owned(), path))
        };
        let naming = || self.folder.indexes.iter().filter(|(_, text)| text.contains(&quoted(id)));
        let moved = naming().filter(|(path, _)| own.as_ref() == Some(path)).find_map(item);
        Listed { id: id.to_owned(), moved: moved.or_else(|| naming().find_map(item)) }
    }

    /// Brings the indexes up to date that list some memories or should: they come in before they go out.
    fn update_indexes(&mut self, listed: &[Listed], at: &str) -> Result<(), OriginError> {
        let mut paths: BTreeSet<String> = BTreeSet::new();
        for memory in listed {
            let quoted = quoted(&memory.id);
            let naming = self.folder.indexes.iter().filter(|(_, text)| text.contains(&quoted));
            paths.extend(naming.map(|(path, _)| path.clone()));
            let place = self.folder.place(&memory.id);
            paths.extend(place.and_then(|place| governing(&self.folder, &place.path)));
        }
        for removing in [false, true] {
            for path in &paths {
                self.save_index(path, |folder, text| {
                    Index { path, folder, text }.update(listed, removing, at)
                })?;
            }
        }
        Ok(())
    }

    /// Brings an index up to date, from its text at that moment.
    fn save_index(
        &mut self,
        path: &str,
        update: impl Fn(&Folder, String) -> String,
    ) -> Result<(), OriginError> {
        for _ in 0..TRIES_MAX {
            let found = self.store.root.read(path)?;
            let old = found.clone().unwrap_or_else(index_file::empty);
            let new = update(&self.folder, old.clone());
            let is_left_over = index_file::is_left_over(&new);
            if new == old && !(is_left_over && self.folder.indexes.contains_key(path)) {
                return Ok(());
            }
            if self.index_writes > 0 {
                std::thread::sleep(self.store.index_pause);
            }
            self.index_writes += 1;
            let new = Some(new).filter(|_| !is_left_over);
            if self.replace(path, found.as_deref(), new.as_deref())? {
                match new {
                    Some(new) => self.folder.indexes.insert(path.to_owned(), new),
                    None => self.folder.indexes.remove(path),
                };
                return Ok(());
            }
        }
        Err(OriginError::Locked { path: self.store.root.join(path)? })
    }

    /// Returns the indexes that are not up to date, as they are and as they should be.
    pub(super) fn stale_indexes(&self, at: &str) -> Vec<(String, String, String)> {
        let rebuilt = self.folder.indexes.iter().map(|(path, text)| {
            let index = Index { path, folder: &self.folder, text: text.clone() };
            (path.clone(), text.clone(), index.rebuild(at))
        });
        rebuilt.filter(|(_, old, new)| old != new).collect()
    }

    /// Makes every index anew; returns the ones that were not up to date.
    pub(super) fn rebuild_indexes(&mut self, at: &str) -> Result<Vec<String>, OriginError> {
        let mut stale = Vec::new();
        for (path, ..) in self.stale_indexes(at) {
            self.save_index(&path, |folder, text| Index { path: &path, folder, text }.rebuild(at))?;
            stale.push(path);
        }
        Ok(stale)
    }

    fn log(&self, published: &Published) -> Result<(), OriginError> {
        let units: Vec<&OriginUnit> =
            published.units.iter().filter_map(|&at| self.units.get(at)).collect();
        if units.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES_MAX {
            let (text, new) = self.new_log(&units)?;
            if text.as_ref() == Some(&new) || self.replace(LOG, text.as_deref(), Some(&new))? {
                return Ok(());
            }
        }
        Err(OriginError::Locked { path: self.store.root.join(LOG)? })
    }

    /// Returns the log as it is, and with the actions of some units; an error where it is no log.
    pub(super) fn new_log(
        &self,
        units: &[&OriginUnit],
    ) -> Result<(Option<String>, String), OriginError> {
        let text = self.store.root.read(LOG)?;
        if let Some(new) = logged(text.as_deref(), units, &self.store.trigger) {
            return Ok((text, new));
        }
        let reason = "it has no list under `entries` or `log`".to_owned();
        let path = self.store.root.join(LOG)?;
        Err(OriginError::Format { path, kind: "consolidation log", reason })
    }

    /// Returns the steps of a unit, or the memory that is in the way and why.
    fn steps(&mut self, unit: &OriginUnit) -> Result<Vec<Step>, Refusal> {
        let mut steps = Vec::new();
        let mut overtaken = None;
        for change in &unit.changes {
            let refused = |reason| (change.id().to_owned(), reason);
            match self.outcome(unit, change).map_err(refused)? {
                Some(more) => steps.extend(more),
                None => overtaken = Some(change.id().to_owned()),
            }
        }
        match overtaken {
            Some(id) if !steps.is_empty() => Err((id, "it is in the archive".to_owned())),
            _ => Ok(steps),
        }
    }

    fn outcome(&mut self, unit: &OriginUnit, change: &OriginChange) -> Outcome {
        if self.folder.ambiguous.contains_key(change.id()) {
            return Err("several memories have its id".to_owned());
        }
        let steps = match change {
            OriginChange::Update { before, record, merged } => {
                return self.update(unit, before, record, merged);
            }
            OriginChange::Create { record, made_of } => self.create(unit, record, made_of),
            OriginChange::Retire { before, id, into, .. } => {
                self.retire(before, id, into.as_deref())
            }
            OriginChange::Restore { before, record } => {
                self.restore(unit, before.as_deref(), record)
            }
            OriginChange::Remove { before, id } => match self.folder.live.get(id) {
                Some(place) if self.is_edited(place, id, before.as_deref()) => changed(),
                Some(place) => Ok(vec![drop_of(place, id)]),
                None => Ok(Vec::new()),
            },
        };
        steps.map(Some)
    }

    /// Tells whether an entry is as it was read, or as this call wrote it.
    fn is_known(&self, id: &str, raw: &str, before: &str) -> bool {
        let digest = digest(raw);
        digest == before || self.ours.get(id) == Some(&digest)
    }

    /// Tells whether others changed an entry that memfold wrote.
    fn is_edited(&self, place: &Place, id: &str, before: Option<&str>) -> bool {
        before.is_some_and(|before| !self.is_known(id, self.folder.raw(place), before))
    }

    fn update(
        &mut self,
        unit: &OriginUnit,
        before: &str,
        record: &OriginRecord,
        merged: &[String],
    ) -> Outcome {
        let Some(place) = self.folder.live.get(&record.id).cloned() else {
            let is_archived = self.folder.archived.contains_key(&record.id);
            return if is_archived { Ok(None) } else { gone() };
        };
        let raw = self.folder.raw(&place).to_owned();
        let new = self.updated(&raw, record, merged, &unit.at)?;
        if new == raw || self.was_updated(&raw, &record.id) {
            self.ours.insert(record.id.clone(), digest(raw));
            return Ok(Some(Vec::new()));
        }
        if !self.is_known(&record.id, &raw, before) {
            return changed();
        }
        self.ours.insert(record.id.clone(), digest(&*new));
        Ok(Some(vec![put_of(&place, &record.id, new)]))
    }

    /// Returns an entry as an update makes it.
    fn updated(
        &self,
        raw: &str,
        record: &OriginRecord,
        merged: &[String],
        at: &str,
    ) -> Result<String, String> {
        let new = entry::updated(raw, record, merged, at)?;
        let older = merged.iter().filter_map(|id| Some((id, self.folder.place(id)?)));
        let keep = |new: String, (id, place): (&String, &Place)| {
            entry::with_lineage(&new, id, self.folder.raw(place))
        };
        Ok(older.fold(new, keep))
    }

    /// Tells whether an entry is as the last update of this call makes it.
    fn was_updated(&self, raw: &str, id: &str) -> bool {
        let changes =
            self.units.iter().flat_map(|unit| unit.changes.iter().map(move |c| (unit, c)));
        let last = changes.rev().find_map(|(unit, change)| match change {
            OriginChange::Update { record, merged, .. } if record.id == id => {
                Some(self.updated(raw, record, merged, &unit.at))
            }
            _ => None,
        });
        last.is_some_and(|new| new.as_deref() == Ok(raw))
    }

    fn retire(&self, before: &str, id: &str, into: Option<&str>) -> Result<Vec<Step>, String> {
        let archived = self.folder.archived.get(id);
        let Some(place) = self.folder.live.get(id).cloned() else {
            return if archived.is_some() { Ok(Vec::new()) } else { gone() };
        };
        let raw = self.folder.raw(&place);
        if !self.is_known(id, raw, before) {
            return changed();
        }
        let retired = entry::retired(raw, into);
        let drop = drop_of(&place, id);
        match archived {
            Some(copy) if self.folder.raw(copy) == retired => Ok(vec![drop]),
            Some(_) => Err("the archive holds another memory with its id".to_owned()),
            None => Ok(vec![self.archive(&place, &retired), drop]),
        }
    }

    /// The step that puts an entry into the archive: into a file of the same name.
    fn archive(&self, place: &Place, retired: &str) -> Step {
        let wanted = format!("{ARCHIVE}/{}", place.path);
        match self.folder.files.get(&place.path).filter(|_| place.at.is_none()) {
            Some(file) => {
                make(&self.free_path(&wanted), spliced(&file.text, &file.root.span, retired))
            }
            None => self.add_to_list(&wanted, None, retired),
        }
    }

    /// The step that adds an entry to a list; a missing file is made.
    fn add_to_list(&self, wanted: &str, at: Option<usize>, raw: &str) -> Step {
        match self.folder.files.get(wanted) {
            Some(file) if file.list().is_none() => self.add_to_list(&next_name(wanted), at, raw),
            _ => Step { path: wanted.to_owned(), edit: Edit::Add { at, raw: raw.to_owned() } },
        }
    }

    fn free_path(&self, wanted: &str) -> String {
        let mut path = wanted.to_owned();
        while self.folder.files.contains_key(&path) {
            path = next_name(&path);
        }
        path
    }

    fn restore(
        &self,
        unit: &OriginUnit,
        before: Option<&str>,
        record: &OriginRecord,
    ) -> Result<Vec<Step>, String> {
        let copy = self.folder.archived.get(&record.id);
        let live = self.folder.live.get(&record.id);
        // An entry that is back already is not looked at: an interrupted call put it there.
        let is_back = |place: &&Place| self.folder.raw(place) == record.raw;
        let mut written = live.filter(|place| !is_back(place)).into_iter().chain(copy);
        if written.any(|place| self.is_edited(place, &record.id, before)) {
            return changed();
        }
        let dropped = copy.map(|copy| drop_of(copy, &record.id));
        if let Some(place) = live {
            let put = (self.folder.raw(place) != record.raw)
                .then(|| put_of(place, &record.id, record.raw.clone()));
            return Ok(put.into_iter().chain(dropped).collect());
        }
        let Some(place) = Place::of(&record.place) else {
            return Err(format!("its place is none: {}", record.place));
        };
        let file = copy.filter(|copy| copy.at.is_none());
        let back = match (place.at, file.and_then(|copy| self.folder.files.get(&copy.path))) {
            (Some(at), _) => {
                let at = at.saturating_sub(self.missing_before(unit, &place, at));
                self.add_to_list(&place.path, Some(at), &record.raw)
            }
            (None, _) if self.folder.files.contains_key(&place.path) => {
                return Err(format!("another memory stands in {}", place.path));
            }
            (None, Some(file)) => {
                make(&place.path, spliced(&file.text, &file.root.span, &record.raw))
            }
            (None, None) => make(&place.path, format!("{}\n", record.raw)),
        };
        Ok([back].into_iter().chain(dropped).collect())
    }

    /// Counts the memories that stood before a place and that later units of this call bring back.
    fn missing_before(&self, unit: &OriginUnit, place: &Place, at: usize) -> usize {
        let others = self.units.iter().filter(|other| !std::ptr::eq(*other, unit));
        let restored = others.flat_map(|unit| &unit.changes).filter_map(|change| match change {
            OriginChange::Restore { record, .. } => Some(&**record),
            _ => None,
        });
        let is_missing = |record: &&OriginRecord| {
            let theirs = Place::of(&record.place);
            theirs.is_some_and(|other| other.path == place.path && other.at < Some(at))
                && !self.folder.live.contains_key(&record.id)
        };
        restored.filter(is_missing).count()
    }

    fn create(
        &self,
        unit: &OriginUnit,
        record: &OriginRecord,
        made_of: &[String],
    ) -> Result<Vec<Step>, String> {
        if self.folder.place(&record.id).is_some() {
            return Ok(Vec::new());
        }
        let source = made_of.first().and_then(|id| self.folder.place(id));
        let example = source.map(|place| self.folder.raw(place));
        let mut record = record.clone();
        record.created_at.get_or_insert_with(|| unit.at.clone());
        let raw = entry::created(&record, made_of, example);
        let scope = |record: &OriginRecord| {
            ["scope", "scope_id"].map(|name| attribute(record, name).map(str::to_owned))
        };
        let scope_of = |id: &String| {
            let raw = self.folder.raw(self.folder.place(id)?);
            entry::record(raw, &parse(raw).ok()?).ok().map(|record| scope(&record))
        };
        // A summary names no scope: it has that of its sources, where they have one.
        let mut scopes = made_of.iter().map(scope_of);
        let first = scopes.next().flatten();
        let is_one = first.is_some() && scopes.all(|scope| scope == first);
        let own = scope(&record);
        let is_beside = first.as_ref() == Some(&own) || is_one && own == [None, None];
        let step = match source.filter(|_| is_beside) {
            Some(place) => self.beside(place, &record.id, &raw),
            None => self.in_folder(&scope_folder(own)?, &raw),
        };
        Ok(vec![step])
    }

    /// The step that puts an entry where another one stands or stood.
    fn beside(&self, place: &Place, id: &str, raw: &str) -> Step {
        let path = place.path.strip_prefix(ARCHIVE).map_or(&*place.path, |path| &path[1..]);
        match place.at {
            Some(_) => self.add_reindented(path, raw),
            None if is_name(id) => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let path = format!("{folder}/{id}.json");
                let path = self.free_path(path.trim_start_matches('/'));
                make(&path, format!("{raw}\n"))
            }
            None => {
                let folder = path.rsplit_once('/').map_or("global", |(folder, _)| folder);
                self.in_folder(folder, raw)
            }
        }
    }

    /// The step that puts an entry into the first list of a folder.
    fn in_folder(&self, folder: &str, raw: &str) -> Step {
        let is_here =
            |path: &&String| path.rsplit_once('/').is_some_and(|(above, _)| above == folder);
        let lists = self.folder.files.iter().filter(|(_, file)| file.list().is_some());
        let first = lists.map(|(path, _)| path).find(is_here);
        let made = format!("{folder}/memories.json");
        self.add_reindented(first.unwrap_or(&made), raw)
    }

    fn add_reindented(&self, path: &str, raw: &str) -> Step {
        let file = self.folder.files.get(path);
        let first = file.and_then(|file| Some((file, file.list()?.items().first()?)));
        let indent = first.map_or("    ", |(file, first)| indent_at(&file.text, first.span.start));
        self.add_to_list(path, None, &entry::indented(raw, indent))
    }
}

/// Returns a file with edits of which all or none are new; `None` where nothing is left of it.
fn edited(file: Option<&DataFile>, edits: &[&Edit]) -> Option<String> {
    let made = edits.iter().find_map(|edit| match edit {
        Edit::Make { text } => Some(text.clone()),
        _ => None,
    });
    let adds = edits.iter().filter_map(|edit| match edit {
        Edit::Add { at, raw } => Some((at.unwrap_or(usize::MAX), raw)),
        _ => None,
    });
    let mut adds: Vec<(usize, &String)> = adds.collect();
    let Some(file) = file.filter(|_| made.is_none()) else {
        let list = || list_file(adds.iter().map(|(_, raw)| (*raw).clone()));
        return made.or_else(|| (!adds.is_empty()).then(list));
    };
    let Some(list) = file.list() else {
        return edits.iter().find_map(|edit| match edit {
            Edit::Put { raw, .. } => Some(spliced(&file.text, &file.root.span, raw)),
            _ => None,
        });
    };
    // Entries are found by their ids: additions may have moved them on.
    let piece = |(at, entry): (usize, &Node)| {
        let change = edits.iter().find_map(|edit| match edit {
            Edit::Put { id, raw } if entry.text_of("id") == Some(id) => {
                Some(Some(Piece::New(raw.clone())))
            }
            Edit::Drop { id } if entry.text_of("id") == Some(id) => Some(None),
            _ => None,
        });
        change.unwrap_or(Some(Piece::Kept(at)))
    };
    let mut pieces: Vec<Piece> = list.items().iter().enumerate().filter_map(piece).collect();
    adds.sort_by_key(|(at, _)| *at);
    for (at, raw) in adds {
        pieces.insert(at.min(pieces.len()), Piece::New(raw.clone()));
    }
    let is_left_over = pieces.is_empty() && file.is_ours();
    (!is_left_over).then(|| with_pieces(&file.text, list, pieces))
}

/// Returns the text of a new file with a list of entries.
fn list_file(raws: impl IntoIterator<Item = String>) -> String {
    let empty = format!("{{\n  \"{GENERATOR}\": \"memfold\",\n  \"entries\": []\n}}\n");
    let root = parse(&empty).ok();
    let list = root.as_ref().and_then(|root| root.get("entries"));
    list.map_or_else(String::new, |list| with_more(&empty, list, raws))
}

fn make(path: &str, text: String) -> Step {
    Step { path: path.to_owned(), edit: Edit::Make { text } }
}

fn put_of(place: &Place, id: &str, raw: String) -> Step {
    Step { path: place.path.clone(), edit: Edit::Put { id: id.to_owned(), raw } }
}

fn drop_of(place: &Place, id: &str) -> Step {
    Step { path: place.path.clone(), edit: Edit::Drop { id: id.to_owned() } }
}

/// Returns the name after a name that is taken: `a.json`, `a-2.json`, `a-3.json`.
fn next_name(path: &str) -> String {
    let stem = path.strip_suffix(".json").unwrap_or(path);
    let numbered = stem.rsplit_once('-').and_then(|(before, number)| {
        let number = number.parse::<u32>().ok().filter(|number| (2..1_000).contains(number))?;
        Some(format!("{before}-{}.json", number + 1))
    });
    numbered.unwrap_or_else(|| format!("{stem}-2.json"))
}

/// Tells whether a text may be the name of a file or folder.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=100).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain)
}

/// Returns the folder of a scope.
fn scope_folder([scope, scope_id]: [Option<String>; 2]) -> Result<String, String> {
    let above = match scope.as_deref() {
        Some("team") => "teams",
        Some("agent") => "agents",
        Some("project") => "projects",
        Some("session") => return Ok("sessions".to_owned()),
        _ => return Ok("global".to_owned()),
    };
    match scope_id {
        Some(id) if is_name(&id) => Ok(format!("{above}/{id}")),
        Some(id) => Err(format!("its scope_id is no name of a folder: {}", quoted(&id))),
        None => Err("its scope has no scope_id".to_owned()),
    }
}

fn gone<T>() -> Result<T, String> {
    Err("it is no longer there".to_owned())
}

fn changed<T>() -> Result<T, String> {
    Err("it was changed after it was read".to_owned())
}

/// The memory that a unit begins with, and why it waits.
fn being_changed(unit: &OriginUnit) -> (String, String) {
    let id = unit.changes.first().map_or("", OriginChange::id).to_owned();
    (id, "its file is being changed by another process".to_owned())
}

/// Returns where a memory stands that moves to the archive or from it.
fn counterpart(path: &str) -> String {
    match path.strip_prefix(ARCHIVE).and_then(|path| path.strip_prefix('/')) {
        Some(path) => path.to_owned(),
        None => format!("{ARCHIVE}/{path}"),
    }
}

/// Returns the log with the actions of units that it lacks; `None` where it is no log.
fn logged(text: Option<&str>, units: &[&OriginUnit], trigger: &str) -> Option<String> {
    let mut text = text.map_or_else(|| "{\n  \"entries\": []\n}\n".to_owned(), str::to_owned);
    list(&parse(&text).ok()?)?;
    for unit in units {
        text = with_unit(&text, unit, trigger)?;
    }
    Some(text)
}

fn with_unit(text: &str, unit: &OriginUnit, trigger: &str) -> Option<String> {
    let root = parse(text).ok()?;
    let list = list(&root)?;
    let is_run = |entry: &Node| entry.text_of("run_id") == Some(&unit.run_id);
    let known = list.items().iter().position(is_run);
    let mut entry = match known {
        Some(at) => serde_json::from_str(list.items()[at].raw(text)).ok()?,
        None => {
            json!({ "timestamp": unit.at, "run_id": unit.run_id, "trigger": trigger, "actions": [] })
        }
    };
    let actions = entry.get_mut("actions")?.as_array_mut()?;
    let new: Vec<Value> =
        actions_of(unit).into_iter().filter(|action| !actions.contains(action)).collect();
    if new.is_empty() {
        return Some(text.to_owned());
    }
    actions.extend(new);
    entry["stats"] = stats(entry["actions"].as_array()?);
    let indent = list.items().first().map_or_else(
        || format!("{}  ", indent_at(text, list.span.start)),
        |first| indent_at(text, first.span.start).to_owned(),
    );
    let entry = Style::of(text).write(&entry, &indent);
    Some(match known {
        Some(at) => spliced(text, &list.items()[at].span, &entry),
        None => with_more(text, list, [entry]),
    })
}

fn list(root: &Node) -> Option<&Node> {
    let member = || LOG_KEYS.iter().find_map(|key| root.get(key).filter(|list| list.is_list()));
    Some(root).filter(|root| root.is_list()).or_else(member)
}

/// Returns the actions of a unit as the log writes them.
fn actions_of(unit: &OriginUnit) -> Vec<Value> {
    let merged: Vec<&String> = unit
        .changes
        .iter()
        .flat_map(|change| match change {
            OriginChange::Update { merged, .. } => &merged[..],
            _ => &[],
        })
        .collect();
    let action = |change: &OriginChange| {
        Some(match change {
            OriginChange::Update { record, merged, .. } if !merged.is_empty() => {
                let sources: Vec<&String> = std::iter::once(&record.id).chain(merged).collect();
                json!({ "type": "merge", "source_ids": sources, "result_id": record.id, "rule": unit.rule })
            }
            OriginChange::Update { record, .. } => {
                json!({ "type": "update", "memory_id": record.id, "rule": unit.rule })
            }
            OriginChange::Create { record, made_of } => {
                let is_copy = record.tags.iter().any(|tag| tag == entry::PROMOTED);
                let kind = if is_copy { "promote" } else { "summarize" };
                json!({ "type": kind, "source_ids": made_of, "result_id": record.id, "rule": unit.rule })
            }
            OriginChange::Retire { id, into: Some(_), .. } if merged.contains(&id) => return None,
            OriginChange::Retire { id, into, reason, .. } => {
                let mut action = json!({ "type": "archive", "memory_id": id, "reason": reason });
                if let Some(into) = into {
                    action["superseded_by"] = into.as_str().into();
                }
                action
            }
            OriginChange::Restore { record, .. } => {
                json!({ "type": "restore", "memory_id": record.id })
            }
            OriginChange::Remove { id, .. } => json!({ "type": "remove", "memory_id": id }),
        })
    };
    unit.changes.iter().filter_map(action).collect()
}

/// Counts memories as the rules document it.
fn stats(actions: &[Value]) -> Value {
    let of = |kind: &'static str| actions.iter().filter(move |action| action["type"] == kind);
    let merged: usize = of("merge")
        .map(|action| action["source_ids"].as_array().map_or(0, |ids| ids.len().saturating_sub(1)))
        .sum();
    json!({
        "memories_merged": merged,
        "memories_archived": of("archive").count(),
        "memories_promoted": of("promote").count(),
    })
}
