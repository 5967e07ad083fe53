//! What each change of a unit takes: steps on files, nothing where it was written already, or a conflict.

use super::edit::{Piece, indent_at, spliced, with_pieces};
use super::entry;
use super::folder::{ARCHIVE, DataFile, GENERATOR, Place, Shape};
use super::json::{Node, parse, quoted};
use super::write::Writer;
use memfold_store::origin::{OriginChange, OriginRecord, OriginUnit};

/// A change of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// An entry comes to a file: at this position of its list, else at the end.
    Add { path: String, at: Option<usize>, raw: String },
    /// A new file.
    Make { path: String, text: String },
    /// Another entry in the place of one.
    Put { path: String, id: String, raw: String },
    /// An entry goes.
    Drop { path: String, id: String },
}

impl Step {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Make { path, .. }
            | Self::Put { path, .. }
            | Self::Drop { path, .. } => path,
        }
    }

    fn put(place: &Place, id: &str, raw: String) -> Self {
        Self::Put { path: place.path.clone(), id: id.to_owned(), raw }
    }

    fn drop(place: &Place, id: &str) -> Self {
        Self::Drop { path: place.path.clone(), id: id.to_owned() }
    }

    pub(super) const fn is_new(&self) -> bool {
        matches!(self, Self::Add { .. } | Self::Make { .. })
    }
}

/// What a change takes.
pub(super) enum Outcome {
    /// Nothing where there are no steps.
    Steps(Vec<Step>),
    /// It was written, and a later change took the memory on.
    Overtaken,
    Conflict(String),
}

impl Writer<'_> {
    /// Returns the steps of a unit, or the memory that is in the way and why.
    pub(super) fn steps(&mut self, unit: &OriginUnit) -> Result<Vec<Step>, (String, String)> {
        let mut steps = Vec::new();
        let mut overtaken = None;
        for change in &unit.changes {
            match self.outcome(unit, change) {
                Outcome::Steps(more) => steps.extend(more),
                Outcome::Overtaken => overtaken = Some(change.id().to_owned()),
                Outcome::Conflict(reason) => return Err((change.id().to_owned(), reason)),
            }
        }
        match overtaken {
            Some(id) if !steps.is_empty() => Err((id, "it is in the archive".to_owned())),
            _ => Ok(steps),
        }
    }

    fn outcome(&mut self, unit: &OriginUnit, change: &OriginChange) -> Outcome {
        if self.folder.ambiguous.contains_key(change.id()) {
            return Outcome::Conflict("several memories have its id".to_owned());
        }
        match change {
            OriginChange::Create { record, made_of } => self.create(unit, record, made_of),
            OriginChange::Update { before, record, merged } => {
                self.update(unit, before, record, merged)
            }
            OriginChange::Retire { before, id, into, .. } => {
                self.retire(before, id, into.as_deref())
            }
            OriginChange::Restore { before, record } => {
                self.restore(unit, before.as_deref(), record)
            }
            OriginChange::Remove { before, id } => match self.folder.live.get(id) {
                Some(place) if self.is_edited(place, id, before.as_deref()) => changed(),
                Some(place) => Outcome::Steps(vec![Step::drop(place, id)]),
                None => Outcome::Steps(Vec::new()),
            },
        }
    }

    /// Tells whether an entry is what it was when it was read, or what this call made of it.
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
            return if is_archived { Outcome::Overtaken } else { gone() };
        };
        let raw = self.folder.raw(&place).to_owned();
        let new = match self.updated(&raw, record, merged, &unit.at) {
            Ok(new) => new,
            Err(reason) => return Outcome::Conflict(reason),
        };
        if new == raw || self.was_updated(&raw, &record.id) {
            self.ours.insert(record.id.clone(), digest(&raw));
            return Outcome::Steps(Vec::new());
        }
        if !self.is_known(&record.id, &raw, before) {
            return changed();
        }
        self.ours.insert(record.id.clone(), digest(&new));
        Outcome::Steps(vec![Step::put(&place, &record.id, new)])
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
        let older = merged.iter().filter_map(|id| Some((&**id, self.folder.place(id)?)));
        Ok(older
            .fold(new, |new, (id, place)| entry::with_lineage(&new, id, self.folder.raw(place))))
    }

    /// Tells whether an entry is what the last update of this call makes of it.
    fn was_updated(&self, raw: &str, id: &str) -> bool {
        let changes = self
            .units
            .iter()
            .flat_map(|unit| unit.changes.iter().map(move |change| (unit, change)));
        let last = changes.rev().find_map(|(unit, change)| match change {
            OriginChange::Update { record, merged, .. } if record.id == id => {
                Some((unit, record, merged))
            }
            _ => None,
        });
        last.is_some_and(|(unit, record, merged)| {
            self.updated(raw, record, merged, &unit.at).is_ok_and(|new| new == raw)
        })
    }

    fn retire(&self, before: &str, id: &str, into: Option<&str>) -> Outcome {
        let archived = self.folder.archived.get(id);
        let Some(place) = self.folder.live.get(id).cloned() else {
            return if archived.is_some() { Outcome::Steps(Vec::new()) } else { gone() };
        };
        let raw = self.folder.raw(&place);
        if !self.is_known(id, raw, before) {
            return changed();
        }
        let retired = entry::retired(raw, into);
        let drop = Step::drop(&place, id);
        match archived {
            Some(copy) if self.folder.raw(copy) == retired => Outcome::Steps(vec![drop]),
            Some(_) => Outcome::Conflict("the archive holds another memory with its id".to_owned()),
            None => Outcome::Steps(vec![self.archive(&place, &retired), drop]),
        }
    }

    /// The step that puts an entry into the archive: into a file of the same name.
    fn archive(&self, place: &Place, retired: &str) -> Step {
        let file = self.folder.files.get(&place.path);
        let wanted = format!("{ARCHIVE}/{}", place.path);
        match (place.at, file) {
            (None, Some(file)) => {
                let text = spliced(&file.text, &file.root.span, retired);
                Step::Make { path: self.free_path(&wanted), text }
            }
            _ => self.add_to_list(&wanted, None, retired),
        }
    }

    /// The step that adds an entry to a list, whose file is made where it is missing.
    fn add_to_list(&self, wanted: &str, at: Option<usize>, raw: &str) -> Step {
        match self.folder.files.get(wanted) {
            Some(file) if file.list().is_some() => {
                Step::Add { path: wanted.to_owned(), at, raw: raw.to_owned() }
            }
            Some(_) => self.add_to_list(&next_name(wanted), at, raw),
            None => Step::Make { path: wanted.to_owned(), text: list_file(&[raw]) },
        }
    }

    fn free_path(&self, wanted: &str) -> String {
        let mut path = wanted.to_owned();
        while self.folder.files.contains_key(&path) {
            path = next_name(&path);
        }
        path
    }

    fn restore(&self, unit: &OriginUnit, before: Option<&str>, record: &OriginRecord) -> Outcome {
        let copy = self.folder.archived.get(&record.id);
        let live = self.folder.live.get(&record.id);
        // What is back already is not looked at: a call that was interrupted put it there.
        let is_back = |place: &&Place| self.folder.raw(place) == record.raw;
        let mut written = live.filter(|place| !is_back(place)).into_iter().chain(copy);
        if written.any(|place| self.is_edited(place, &record.id, before)) {
            return changed();
        }
        let dropped = copy.map(|copy| Step::drop(copy, &record.id));
        if let Some(place) = live {
            let put = (self.folder.raw(place) != record.raw)
                .then(|| Step::put(place, &record.id, record.raw.clone()));
            return Outcome::Steps(put.into_iter().chain(dropped).collect());
        }
        let Some(place) = Place::of(&record.place) else {
            return Outcome::Conflict(format!("its place is none: {}", record.place));
        };
        let back = match place.at {
            Some(at) => {
                let at = at.saturating_sub(self.missing_before(unit, &place, at));
                self.add_to_list(&place.path, Some(at), &record.raw)
            }
            None if self.folder.files.contains_key(&place.path) => {
                return Outcome::Conflict(format!("another memory stands in {}", place.path));
            }
            None => {
                let file = copy.filter(|copy| copy.at.is_none());
                let file = file.and_then(|copy| self.folder.files.get(&copy.path));
                let text = match file {
                    Some(file) => spliced(&file.text, &file.root.span, &record.raw),
                    None => format!("{}\n", record.raw),
                };
                Step::Make { path: place.path, text }
            }
        };
        Outcome::Steps(std::iter::once(back).chain(dropped).collect())
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

    fn create(&self, unit: &OriginUnit, record: &OriginRecord, made_of: &[String]) -> Outcome {
        if self.folder.place(&record.id).is_some() {
            return Outcome::Steps(Vec::new());
        }
        let source = made_of.first().and_then(|id| self.folder.place(id));
        let example = source.map(|place| self.folder.raw(place));
        let mut record = record.clone();
        record.created_at.get_or_insert_with(|| unit.at.clone());
        let raw = entry::created(&record, made_of, example);
        let scope = |record: &OriginRecord| {
            let value = |wanted: &str| {
                record
                    .attributes
                    .iter()
                    .find(|(name, _)| name == wanted)
                    .map(|(_, value)| value.clone())
            };
            (value("scope"), value("scope_id"))
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
        let is_beside = first.as_ref() == Some(&own) || is_one && own == (None, None);
        let (kind, name) = own;
        let beside = source.filter(|_| is_beside);
        let step = match beside {
            Some(place) => self.beside(place, &record.id, &raw),
            None => match scope_folder(kind, name) {
                Ok(folder) => self.in_folder(&folder, &raw),
                Err(reason) => return Outcome::Conflict(reason),
            },
        };
        Outcome::Steps(vec![step])
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
                Step::Make { path, text: format!("{raw}\n") }
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

/// Returns a file after its puts and drops; `None` where nothing is left of it.
pub(super) fn remaining(file: Option<&DataFile>, steps: &[&Step]) -> Option<String> {
    let file = file?;
    let Some(list) = file.list() else {
        return steps.iter().find_map(|step| match step {
            Step::Put { raw, .. } => Some(spliced(&file.text, &file.root.span, raw)),
            _ => None,
        });
    };
    // Entries are found by their ids: additions may have moved them on.
    let change = |entry: &Node| {
        steps.iter().find_map(|step| match step {
            Step::Put { id, raw, .. } if entry.text_of("id") == Some(id) => Some(Some(raw)),
            Step::Drop { id, .. } if entry.text_of("id") == Some(id) => Some(None),
            _ => None,
        })
    };
    let pieces = list.items().iter().enumerate().filter_map(|(at, entry)| match change(entry) {
        None => Some(Piece::Kept(at)),
        Some(Some(raw)) => Some(Piece::New(raw.clone())),
        Some(None) => None,
    });
    let pieces: Vec<Piece> = pieces.collect();
    let is_left_over = pieces.is_empty() && file.is_ours();
    (!is_left_over).then(|| with_pieces(&file.text, list, &pieces))
}

/// Returns a file with what comes to it.
pub(super) fn added(file: Option<&DataFile>, steps: &[&Step]) -> Option<String> {
    let made = steps.iter().find_map(|step| match step {
        Step::Make { text, .. } => Some(text.clone()),
        _ => None,
    });
    let (Some(file), None) = (file, &made) else {
        return made_of_all(made, steps);
    };
    let list = file.list()?;
    let mut adds: Vec<(usize, &String)> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Add { at, raw, .. } => Some((at.unwrap_or(usize::MAX), raw)),
            _ => None,
        })
        .collect();
    adds.sort_by_key(|(at, _)| *at);
    let mut pieces: Vec<Piece> = (0..list.items().len()).map(Piece::Kept).collect();
    for (at, raw) in adds {
        pieces.insert(at.min(pieces.len()), Piece::New(raw.clone()));
    }
    Some(with_pieces(&file.text, list, &pieces))
}

/// Several steps of one unit may each have found that their file is missing: it is made of all their entries.
fn made_of_all(made: Option<String>, steps: &[&Step]) -> Option<String> {
    let texts: Vec<&String> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Make { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    if texts.len() < 2 {
        return made;
    }
    let files: Vec<DataFile> =
        texts.into_iter().filter_map(|text| DataFile::of(text.clone()).ok()).collect();
    let raws: Vec<&str> = files
        .iter()
        .flat_map(|file| {
            (0..file.entries().len()).map(|at| file.raw((file.shape != Shape::One).then_some(at)))
        })
        .collect();
    Some(list_file(&raws))
}

/// Returns the text of a new file with a list of entries.
fn list_file(raws: &[&str]) -> String {
    let empty = format!("{{\n  \"{GENERATOR}\": \"memfold\",\n  \"entries\": []\n}}\n");
    let pieces: Vec<Piece> = raws.iter().map(|raw| Piece::New((*raw).to_owned())).collect();
    match parse(&empty) {
        Ok(root) => {
            root.get("entries").map_or_else(String::new, |list| with_pieces(&empty, list, &pieces))
        }
        Err(_) => empty,
    }
}

/// Returns the name after a name that is taken: `a.json`, `a-2.json`, `a-3.json`.
fn next_name(path: &str) -> String {
    let stem = path.strip_suffix(".json").unwrap_or(path);
    match stem.rsplit_once('-') {
        Some((before, number))
            if number.parse::<u32>().is_ok_and(|number| (2..1_000).contains(&number)) =>
        {
            let number: u32 = number.parse().unwrap_or(2);
            format!("{before}-{}.json", number + 1)
        }
        _ => format!("{stem}-2.json"),
    }
}

/// Tells whether a text may be the name of a file or folder.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=100).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain)
}

/// Returns the folder of a scope.
fn scope_folder(scope: Option<String>, scope_id: Option<String>) -> Result<String, String> {
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

fn digest(raw: &str) -> String {
    OriginRecord { raw: raw.to_owned(), ..OriginRecord::default() }.digest()
}

fn gone() -> Outcome {
    Outcome::Conflict("it is no longer there".to_owned())
}

fn changed() -> Outcome {
    Outcome::Conflict("it was changed after it was read".to_owned())
}
