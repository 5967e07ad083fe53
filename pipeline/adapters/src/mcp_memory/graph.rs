//! [`Graph`]: both files in memory, changed observation by observation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::archive::{Archive, Retired, Written};
use super::lines::{EntityLine, Line, Pieces, observation_text, with_observations};
use crate::changes::{FreeIds, Reasons, Refusal, attribute, check, digest, retired_standing};
use crate::json::quoted;
use memfold_store::origin::{
    LinkKind, OriginChange, OriginContents, OriginLink, OriginRecord, OriginUnit, Skipped,
};

/// Where observations of memfold go that name no entity.
const ENTITY_DEFAULT: &str = "memories";
/// The type of an entity that memfold makes.
const TYPE_DEFAULT: &str = "memory";
const ID_DIGITS: usize = 12;
/// The file knows none; what `brain.db` calls routine.
const IMPORTANCE: f64 = 1.0;

/// Both files in memory.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    /// The lines of the file, each with its line end.
    lines: Vec<(Vec<u8>, Line)>,
    /// The ids of the observations of each line; none for what is no memory or was taken out.
    ids: Vec<Vec<Option<String>>>,
    /// The position of each observation of a line among all that it ever had, ascending: those that are free of retired
    /// ones.
    positions: Vec<Vec<usize>>,
    /// The line and the position of each id.
    place_by_id: HashMap<String, (usize, usize)>,
    /// Observations that were taken out and still stand in their line, by line.
    taken: BTreeMap<usize, BTreeSet<usize>>,
    /// Lines whose bytes are not what their observations are now.
    edited: BTreeSet<usize>,
    archive: Archive,
    /// Whether the file is one JSON document, which takes no further line.
    is_document: bool,
}

/// An observation that is in the file.
#[derive(Debug, Clone, Copy)]
struct Live<'a> {
    id: &'a str,
    line: usize,
    /// Its position among the observations of the line.
    at: usize,
    entity: &'a EntityLine,
}

impl Live<'_> {
    fn text(&self) -> &str {
        self.entity.observations[self.at].1.as_deref().unwrap_or_default()
    }

    fn raw(&self) -> &str {
        &self.entity.observations[self.at].0
    }

    fn raw_record(&self) -> String {
        raw_record(&self.entity.name, self.entity.entity_type.as_deref(), self.raw())
    }
}

/// Why a record is left alone.
const REASONS: Reasons = Reasons {
    changed: "its entity or its spelling was changed",
    gone: "it is not in the file any more",
    unknown: "it is neither in the file nor archived",
};

impl Graph {
    pub(super) fn of(memory: &[u8], archive: &str) -> Self {
        let pieces = Pieces::of(memory);
        let piece = |(at, bytes): (usize, &&[u8])| match pieces.is_read(at) {
            true => line(bytes),
            false => (bytes.to_vec(), Line::Other),
        };
        let lines: Vec<(Vec<u8>, Line)> = pieces.parts.iter().enumerate().map(piece).collect();
        let mut texts = BTreeSet::new();
        for (_, line) in &lines {
            let Line::Entity(entity) = line else { continue };
            for text in entity.observations.iter().filter_map(|(_, text)| text.as_deref()) {
                texts.insert((entity.name.as_str(), text));
            }
        }
        let archive =
            Archive::read(archive, &digest(memory), |entity, text| texts.contains(&(entity, text)));
        let mut graph = Self {
            ids: ids(&lines, &archive),
            lines,
            positions: Vec::new(),
            place_by_id: HashMap::new(),
            taken: BTreeMap::new(),
            edited: BTreeSet::new(),
            archive,
            is_document: pieces.is_document(),
        };
        let mut retired: HashMap<(&str, usize), BTreeSet<usize>> = HashMap::new();
        for entry in graph.archive.retired.iter() {
            retired.entry((&entry.entity, entry.nth)).or_default().insert(entry.position);
        }
        let mut nth_of: HashMap<&str, usize> = HashMap::new();
        let none = BTreeSet::new();
        let mut positions = Vec::with_capacity(graph.lines.len());
        for (_, line) in &graph.lines {
            let Line::Entity(entity) = line else {
                positions.push(Vec::new());
                continue;
            };
            let nth = nth_of.entry(&entity.name).or_default();
            let retired = retired.get(&(entity.name.as_str(), *nth)).unwrap_or(&none);
            positions.push(free_positions(retired, entity.observations.len()));
            *nth += 1;
        }
        graph.positions = positions;
        (0..graph.lines.len()).for_each(|line| graph.find_places(line));
        graph
    }

    /// Notes where the observations of a line stand.
    fn find_places(&mut self, line: usize) {
        for (id, position) in self.ids[line].iter().zip(&self.positions[line]) {
            if let Some(id) = id {
                self.place_by_id.insert(id.clone(), (line, *position));
            }
        }
    }

    pub(super) const fn archive(&self) -> &Archive {
        &self.archive
    }

    pub(super) fn memory_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (at, (bytes, line)) in self.lines.iter().enumerate() {
            match line {
                Line::Entity(entity) if self.edited.contains(&at) => {
                    let taken = self.taken.get(&at);
                    let is_left = |at: &usize| taken.is_none_or(|taken| !taken.contains(at));
                    let left = (0..entity.observations.len()).filter(is_left);
                    let left: Vec<&str> = left.map(|at| &*entity.observations[at].0).collect();
                    let text = String::from_utf8_lossy(bytes);
                    all.extend_from_slice(with_observations(&text, &left).as_bytes());
                }
                _ => all.extend_from_slice(bytes),
            }
        }
        all
    }

    /// Returns all records: those in the file in its order, then the archived ones.
    pub(super) fn contents(&self, name: &str) -> OriginContents {
        let mut contents = OriginContents::default();
        for (at, (_, line)) in self.lines.iter().enumerate() {
            let place = format!("{name}:{}", at + 1);
            match line {
                Line::Bad(reason) => {
                    contents.skipped.push(Skipped { place, reason: reason.clone() });
                }
                Line::Entity(entity) => contents.skipped.extend(unreadable(entity, &place)),
                Line::Other => {}
            }
        }
        contents.records.extend(self.live().map(|live| self.record(live, name)));
        contents.records.extend(self.archive.retired.iter().map(archived));
        let unknown = self.archive.unknown.iter();
        contents.skipped.extend(unknown.map(|(at, _)| Skipped {
            place: format!("the archive of {name}, line {at}"),
            reason: "not understood, kept as it is".to_owned(),
        }));
        contents
    }

    fn record(&self, live: Live<'_>, name: &str) -> OriginRecord {
        let written = self.archive.written.iter().find(|written| written.id == live.id);
        let made_of = written.map(|written| &*written.made_of).unwrap_or_default();
        let link = |to: &String| OriginLink { kind: LinkKind::Supersedes, to: to.clone() };
        let entity = live.entity;
        OriginRecord {
            place: format!("{name}:{}, observation {}", live.line + 1, live.at + 1),
            raw: live.raw_record(),
            links: made_of.iter().map(link).collect(),
            ..plain(live.id, &entity.name, entity.entity_type.as_deref(), live.text())
        }
    }

    /// Returns the observations in the file, in its order.
    fn live(&self) -> impl Iterator<Item = Live<'_>> {
        let lines = self.lines.iter().zip(&self.ids).enumerate();
        lines.flat_map(|(line, ((_, entity), ids))| {
            let ids = ids.iter().enumerate();
            ids.filter_map(move |(at, id)| {
                let Line::Entity(entity) = entity else { return None };
                Some(Live { id: id.as_deref()?, line, at, entity })
            })
        })
    }

    fn find(&self, id: &str) -> Option<Live<'_>> {
        let (line, position) = *self.place_by_id.get(id)?;
        let at = self.positions.get(line)?.binary_search(&position).ok()?;
        let Line::Entity(entity) = &self.lines[line].1 else { return None };
        Some(Live { id: self.ids[line][at].as_deref()?, line, at, entity })
    }

    /// Tells why a change cannot be made.
    pub(super) fn check(&self, change: &OriginChange) -> Result<(), Refusal> {
        if let OriginChange::Create { record, made_of } = change {
            let is_there = self.find(&record.id).is_some()
                || !self.lines_of(&self.entity_for(record, made_of)).is_empty();
            let reason = "its entity is not in the file, which is one JSON document";
            return match is_there || !self.is_document {
                true => Ok(()),
                false => Err((record.id.clone(), reason.to_owned())),
            };
        }
        let live = self.find(change.id()).map(|live| self.record(live, ""));
        let removed = self.archive.retired.get(change.id()).map(archived);
        check(change, live.as_ref(), removed.as_ref(), &REASONS)
    }

    /// Makes a change that was checked; what is made already is passed over.
    pub(super) fn carry_out(&mut self, change: &OriginChange, unit: &OriginUnit) {
        match change {
            OriginChange::Create { record, made_of } => self.create(record, made_of, unit),
            OriginChange::Update { record, .. } => self.update(record, unit),
            OriginChange::Retire { id, into, reason, .. } => {
                self.retire(id, into.as_deref(), reason, unit);
            }
            OriginChange::Restore { record, .. } => self.restore(record),
            OriginChange::Remove { id, .. } => self.remove(id),
        }
    }

    fn create(&mut self, record: &OriginRecord, made_of: &[String], unit: &OriginUnit) {
        if self.find(&record.id).is_some() {
            return;
        }
        let entity = self.entity_for(record, made_of);
        let line = self.line_of(&entity, 0, record.tags.first().cloned());
        self.compact(line);
        let retired = self.retired_positions(line);
        let after = self.positions[line].last().map_or(0, |last| last + 1);
        let position = (after..).find(|position| !retired.contains(position)).unwrap_or(after);
        self.put(line, position, &record.id, quoted(&record.text));
        self.note(record, entity, made_of.to_vec(), unit);
    }

    /// The file has nothing of a memory but its text: other changes need no write.
    fn update(&mut self, record: &OriginRecord, unit: &OriginUnit) {
        let Some(live) = self.find(&record.id).filter(|live| live.text() != record.text) else {
            return;
        };
        let (line, at, entity) = (live.line, live.at, live.entity.name.clone());
        let raw = quoted(&record.text);
        self.spell(line, at, raw);
        self.note(record, entity, Vec::new(), unit);
    }

    /// Keeps the id of an observation whose text is not that of others.
    fn note(
        &mut self,
        record: &OriginRecord,
        entity: String,
        made_of: Vec<String>,
        unit: &OriginUnit,
    ) {
        self.archive.written.retain(|written| written.id != record.id);
        self.archive.written.push(Written {
            id: record.id.clone(),
            entity,
            observation: record.text.clone(),
            made_of,
            run_id: unit.run_id.clone(),
            at: unit.at.clone(),
        });
    }

    fn retire(&mut self, id: &str, into: Option<&str>, reason: &str, unit: &OriginUnit) {
        if let Some(retired) = self.archive.retired.get_mut(id) {
            retired.merged_into = into.map(str::to_owned);
            return;
        }
        let Some(live) = self.find(id) else { return };
        let Live { line, at, entity, .. } = live;
        let retired = Retired {
            id: id.to_owned(),
            entity: entity.name.clone(),
            entity_type: entity.entity_type.clone(),
            nth: self.nth(line),
            position: self.positions[line][at],
            observation: live.text().to_owned(),
            raw: live.raw().to_owned(),
            merged_into: into.map(str::to_owned),
            reason: reason.to_owned(),
            run_id: unit.run_id.clone(),
            at: unit.at.clone(),
        };
        self.archive.retired.push(retired);
        self.take(line, at);
    }

    fn restore(&mut self, record: &OriginRecord) {
        let Some(retired) = self.archive.retired.remove(&record.id) else {
            return self.rewrite(record);
        };
        let line = self.line_of(&retired.entity, retired.nth, retired.entity_type.clone());
        self.compact(line);
        // Those before it keep their positions, and it takes its own again.
        self.put(line, retired.position, &retired.id, retired.raw);
    }

    /// Gives an observation that is in the file the spelling that it had.
    fn rewrite(&mut self, record: &OriginRecord) {
        let spelling = serde_json::from_str(&record.raw);
        let Ok::<(String, Option<String>, String), _>((entity, _, raw)) = spelling else { return };
        let Some(live) = self.find(&record.id).filter(|live| live.raw() != raw) else { return };
        self.spell(live.line, live.at, raw);
        // An id that follows from the text needs no note.
        let follows = record.id.starts_with(&hashed(&entity, &record.text));
        self.archive.written.retain(|written| written.id != record.id || !follows);
        for written in self.archive.written.iter_mut().filter(|written| written.id == record.id) {
            written.observation.clone_from(&record.text);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(live) = self.find(id) {
            let (line, at) = (live.line, live.at);
            self.take(line, at);
            self.compact(line);
            // Nothing keeps its position.
            let retired = self.retired_positions(line);
            self.positions[line] = free_positions(&retired, self.ids[line].len());
            self.find_places(line);
            self.drop_if_made(line);
        }
        self.archive.written.retain(|written| written.id != id);
    }

    /// Takes an entity away that only held what memfold wrote there.
    fn drop_if_made(&mut self, line: usize) {
        let Line::Entity(entity) = &self.lines[line].1 else { return };
        let is_default = entity.name == ENTITY_DEFAULT && entity.observations.is_empty();
        let is_last = line + 1 == self.lines.len();
        let has_retired =
            self.archive.retired.iter().any(|retired| retired.entity == ENTITY_DEFAULT);
        if is_default && is_last && !has_retired {
            self.lines.pop();
            self.ids.pop();
            self.positions.pop();
        }
    }

    /// The entity that a new observation is of.
    fn entity_for(&self, record: &OriginRecord, made_of: &[String]) -> String {
        let own = attribute(record, "entity").filter(|entity| !entity.is_empty());
        let source = || made_of.iter().find_map(|id| self.entity_of(id));
        own.map(str::to_owned).or_else(source).unwrap_or_else(|| ENTITY_DEFAULT.to_owned())
    }

    fn entity_of(&self, id: &str) -> Option<String> {
        let retired = self.archive.retired.get(id).map(|retired| retired.entity.clone());
        retired.or_else(|| self.find(id).map(|live| live.entity.name.clone()))
    }

    /// Returns the line of an entity, or makes one at the end of the file.
    fn line_of(&mut self, name: &str, nth: usize, entity_type: Option<String>) -> usize {
        let found = self.lines_of(name);
        if let Some(line) = found.get(nth).or(found.last()) {
            return *line;
        }
        if let Some((bytes, _)) = self.lines.last_mut().filter(|(bytes, _)| !bytes.ends_with(b"\n"))
        {
            bytes.push(b'\n');
        }
        let entity_type = entity_type.unwrap_or_else(|| TYPE_DEFAULT.to_owned());
        let text = format!(
            "{{\"type\":\"entity\",\"name\":{},\"entityType\":{},\"observations\":[]}}",
            quoted(name),
            quoted(&entity_type)
        );
        self.lines.push(line(text.as_bytes()));
        self.ids.push(Vec::new());
        self.positions.push(Vec::new());
        self.lines.len() - 1
    }

    fn lines_of(&self, name: &str) -> Vec<usize> {
        let is_it = |line: &Line| matches!(line, Line::Entity(entity) if entity.name == name);
        let lines = self.lines.iter().enumerate();
        lines.filter(|(_, (_, line))| is_it(line)).map(|(at, _)| at).collect()
    }

    /// Which of the lines of its entity a line is.
    fn nth(&self, line: usize) -> usize {
        let Line::Entity(entity) = &self.lines[line].1 else { return 0 };
        self.lines_of(&entity.name).iter().position(|at| *at == line).unwrap_or(0)
    }

    /// The positions of what was taken out of a line.
    fn retired_positions(&self, line: usize) -> BTreeSet<usize> {
        let Line::Entity(entity) = &self.lines[line].1 else { return BTreeSet::new() };
        let nth = self.nth(line);
        let is_of_line = |retired: &&Retired| retired.entity == entity.name && retired.nth == nth;
        let retired = self.archive.retired.iter().filter(is_of_line);
        retired.map(|retired| retired.position).collect()
    }

    /// Puts an observation in, in a line that is [compact](Self::compact). What has its position already stands where it
    /// was never taken out: then it comes behind.
    fn put(&mut self, line: usize, position: usize, id: &str, raw: String) {
        let Line::Entity(entity) = &mut self.lines[line].1 else { return };
        let positions = &mut self.positions[line];
        let at = positions.partition_point(|known| *known < position);
        let is_free = positions.get(at) != Some(&position);
        let text = observation_text(&raw);
        entity.observations.insert(at, (raw, text));
        positions.insert(at, position);
        self.ids[line].insert(at, Some(id.to_owned()));
        self.edited.insert(line);
        if is_free {
            self.place_by_id.insert(id.to_owned(), (line, position));
            return;
        }
        for behind in &mut self.positions[line][at + 1..] {
            *behind += 1;
        }
        self.find_places(line);
    }

    /// Takes an observation out; it stands in its line until that is [compact](Self::compact).
    fn take(&mut self, line: usize, at: usize) {
        if let Some(id) = self.ids[line][at].take() {
            self.place_by_id.remove(&id);
        }
        self.taken.entry(line).or_default().insert(at);
        self.edited.insert(line);
    }

    /// Gives an observation another spelling.
    fn spell(&mut self, line: usize, at: usize, raw: String) {
        let Line::Entity(entity) = &mut self.lines[line].1 else { return };
        let text = observation_text(&raw);
        entity.observations[at] = (raw, text);
        self.edited.insert(line);
    }

    /// Drops what was taken out of a line.
    fn compact(&mut self, line: usize) {
        let Some(taken) = self.taken.remove(&line) else { return };
        let Line::Entity(entity) = &mut self.lines[line].1 else { return };
        retain(&mut entity.observations, &taken);
        retain(&mut self.ids[line], &taken);
        retain(&mut self.positions[line], &taken);
    }

    /// Names the entities that are written in several ways.
    pub(super) fn twins(&self) -> Vec<String> {
        let mut spellings: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, line) in &self.lines {
            let Line::Entity(entity) = line else { continue };
            let kind = entity.entity_type.clone().unwrap_or_default().to_lowercase();
            let key = (entity.name.trim().to_lowercase(), kind);
            spellings.entry(key).or_default().insert(&entity.name);
            *lines.entry(&entity.name).or_default() += 1;
        }
        let several = spellings.into_values().filter(|names| names.len() > 1).map(|names| {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            format!("{} seem to be one entity of one type", names.join(" and "))
        });
        let repeated = lines.into_iter().filter(|(_, count)| *count > 1);
        let repeated =
            repeated.map(|(name, count)| format!("entity {name:?} stands on {count} lines"));
        several.chain(repeated).collect()
    }
}

/// The first positions that no retired observation has.
fn free_positions(retired: &BTreeSet<usize>, count: usize) -> Vec<usize> {
    (0..).filter(|position| !retired.contains(position)).take(count).collect()
}

fn retain<T>(items: &mut Vec<T>, taken: &BTreeSet<usize>) {
    let mut at = 0;
    items.retain(|_| {
        at += 1;
        !taken.contains(&(at - 1))
    });
}

fn line(bytes: &[u8]) -> (Vec<u8>, Line) {
    let read = match std::str::from_utf8(bytes) {
        Ok(text) => Line::read(text),
        Err(_) => Line::Bad("not UTF-8".to_owned()),
    };
    (bytes.to_vec(), read)
}

fn unreadable(entity: &EntityLine, place: &str) -> Vec<Skipped> {
    let observations = entity.observations.iter().enumerate();
    let reasons = observations.filter_map(|(at, (_, text))| {
        let reason = match text.as_deref() {
            None => "is no text",
            Some(text) if text.trim().is_empty() => "is empty",
            Some(_) => return None,
        };
        Some(Skipped {
            place: place.to_owned(),
            reason: format!("observation {} {reason}", at + 1),
        })
    });
    reasons.collect()
}

/// Gives each observation that is a memory its id.
fn ids(lines: &[(Vec<u8>, Line)], archive: &Archive) -> Vec<Vec<Option<String>>> {
    let written = archive.written.iter();
    let written: BTreeMap<(&str, &str), &str> =
        written.map(|w| ((w.entity.as_str(), w.observation.as_str()), w.id.as_str())).collect();
    let retired = archive.retired.iter().map(|retired| retired.id.clone());
    let mut free = FreeIds::default();
    free.taken.extend(retired);
    let mut id = |entity: &str, text: &str| match written.get(&(entity, text)) {
        Some(id) if free.taken.insert((*id).to_owned()) => (*id).to_owned(),
        _ => free.take(&hashed(entity, text)),
    };
    let ids = lines.iter().map(|(_, line)| {
        let Line::Entity(entity) = line else { return Vec::new() };
        let texts = entity.observations.iter().map(|(_, text)| text.as_deref());
        let texts = texts.map(|text| text.filter(|text| !text.trim().is_empty()));
        texts.map(|text| text.map(|text| id(&entity.name, text))).collect()
    });
    ids.collect()
}

/// The id of the first observation with a text.
fn hashed(entity: &str, text: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(entity.as_bytes()).update(&[0]).update(text.as_bytes());
    format!("{entity}#{}", &hasher.finalize().to_hex()[..ID_DIGITS])
}

fn raw_record(entity: &str, entity_type: Option<&str>, raw: &str) -> String {
    serde_json::json!([entity, entity_type, raw]).to_string()
}

fn plain(id: &str, entity: &str, entity_type: Option<&str>, text: &str) -> OriginRecord {
    OriginRecord {
        id: id.to_owned(),
        text: text.to_owned(),
        tags: entity_type.filter(|name| !name.is_empty()).map(str::to_owned).into_iter().collect(),
        attributes: vec![("entity".to_owned(), entity.to_owned())],
        importance: IMPORTANCE,
        source: "mcp".to_owned(),
        ..OriginRecord::default()
    }
}

fn archived(retired: &Retired) -> OriginRecord {
    let Retired { id, entity, entity_type, observation, raw, merged_into, .. } = retired;
    OriginRecord {
        standing: retired_standing(merged_into.as_deref()),
        place: "the archive".to_owned(),
        raw: raw_record(entity, entity_type.as_deref(), raw),
        ..plain(id, entity, entity_type.as_deref(), observation)
    }
}
