//! [`Graph`]: both files in memory, changed observation by observation; and the archive, `memory.memfold-archive.jsonl`: the
//! observations that memfold took out of `memory.jsonl`, and the ones that it put in.
//!
//! The server knows nothing of archived observations and drops fields that it does not know when it writes, so they
//! stand in a file of their own. One JSON object on a line. Two files cannot be replaced at once: before `memory.jsonl`
//! is replaced, the archive has its new state and its old one, with the digest of the new file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lines::{EntityLine, Line, Pieces, observation_text, with_observations};
use crate::json::quoted;
use crate::shared::{
    FreeIds, IMPORTANCE, Reasons, Refusal, attribute, check, digest, failed, id_digits, read_text,
    remove, retired_status, supersedes,
};
use memfold_store::origin::{
    OriginChange, OriginContents, OriginError, OriginRecord, OriginUnit, Skipped,
};
use memfold_store::whole_file::{self, OsLock, PATIENCE};

/// Where observations of memfold go that name no entity.
const ENTITY_DEFAULT: &str = "memories";
/// The type of an entity that memfold makes.
const TYPE_DEFAULT: &str = "memory";

/// Both files in memory.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    rows: Vec<Row>,
    /// The line and the position of each id.
    place_by_id: HashMap<String, (usize, usize)>,
    archive: Archive,
    /// Whether the file is one JSON document, which takes no further line.
    is_document: bool,
}

/// A line of the file, with its line end.
#[derive(Debug, Clone)]
struct Row {
    bytes: Vec<u8>,
    line: Line,
    /// The observations of an entity by their positions.
    observations: Vec<Observation>,
    /// Whether the observations have changed since the bytes were read.
    is_edited: bool,
}

/// An observation of a line.
#[derive(Debug, Clone)]
struct Observation {
    /// As written, and its text where it is one.
    raw: String,
    text: Option<String>,
    /// None of a text that is not a memory, or was taken out.
    id: Option<String>,
    /// Its position among all that the line ever had: one that no retired observation has.
    position: usize,
    /// Whether it was taken out and still stands in its line.
    is_taken: bool,
}

/// An observation that is in the file.
#[derive(Debug, Clone, Copy)]
struct Live<'a> {
    id: &'a str,
    line: usize,
    /// Its place among the observations of the line.
    at: usize,
    entity: &'a EntityLine,
    observation: &'a Observation,
}

impl Live<'_> {
    fn text(&self) -> &str {
        self.observation.text.as_deref().unwrap_or_default()
    }
}

impl Row {
    fn of(bytes: &[u8], is_read: bool) -> Self {
        let mut line = match std::str::from_utf8(bytes) {
            _ if !is_read => Line::Other,
            Ok(text) => Line::read(text),
            Err(_) => Line::Bad("not UTF-8".to_owned()),
        };
        let observations = match &mut line {
            Line::Entity(entity) => std::mem::take(&mut entity.observations),
            _ => Vec::new(),
        };
        let observation =
            |(raw, text)| Observation { raw, text, id: None, position: 0, is_taken: false };
        let observations = observations.into_iter().map(observation).collect();
        Self { bytes: bytes.to_vec(), line, observations, is_edited: false }
    }

    const fn entity(&self) -> Option<&EntityLine> {
        if let Line::Entity(entity) = &self.line { Some(entity) } else { None }
    }

    /// Gives the observations the first positions that no retired one has.
    fn number(&mut self, retired: &BTreeSet<usize>) {
        let free = (0..).filter(|position| !retired.contains(position));
        for (observation, position) in self.observations.iter_mut().zip(free) {
            observation.position = position;
        }
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        if !self.is_edited {
            return Cow::Borrowed(&self.bytes);
        }
        let left = self.observations.iter().filter(|observation| !observation.is_taken);
        let left: Vec<&str> = left.map(|observation| &*observation.raw).collect();
        with_observations(&String::from_utf8_lossy(&self.bytes), &left).into_bytes().into()
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
        let parts = pieces.parts.iter().enumerate();
        let mut rows: Vec<Row> =
            parts.map(|(at, bytes)| Row::of(bytes, pieces.is_read(at))).collect();
        let mut texts = BTreeSet::new();
        for (row, entity) in rows.iter().filter_map(|row| Some((row, row.entity()?))) {
            let own = row.observations.iter().filter_map(|observation| observation.text.as_deref());
            texts.extend(own.map(|text| (entity.name.as_str(), text)));
        }
        let archive =
            Archive::read(archive, &digest(memory), |entity, text| texts.contains(&(entity, text)));
        let mut retired: HashMap<(&str, usize), BTreeSet<usize>> = HashMap::new();
        for entry in archive.retired.iter() {
            retired.entry((&entry.entity, entry.nth)).or_default().insert(entry.position);
        }
        let mut ids = Ids::new(&archive);
        let mut nth_of: HashMap<String, usize> = HashMap::new();
        for row in &mut rows {
            let Some(EntityLine { name, .. }) = row.entity().cloned() else { continue };
            let nth = nth_of.entry(name.clone()).or_default();
            row.number(retired.get(&(name.as_str(), *nth)).unwrap_or(&BTreeSet::new()));
            *nth += 1;
            for observation in &mut row.observations {
                let text = observation.text.as_deref().filter(|text| !text.trim().is_empty());
                observation.id = text.map(|text| ids.take(&name, text));
            }
        }
        let is_document = pieces.is_document();
        let mut graph = Self { rows, place_by_id: HashMap::new(), archive, is_document };
        (0..graph.rows.len()).for_each(|line| graph.find_places(line));
        graph
    }

    /// Notes where the observations of a line stand.
    fn find_places(&mut self, line: usize) {
        for observation in &self.rows[line].observations {
            if let Some(id) = &observation.id {
                self.place_by_id.insert(id.clone(), (line, observation.position));
            }
        }
    }

    fn memory_bytes(&self) -> Vec<u8> {
        self.rows.iter().map(Row::bytes).collect::<Vec<_>>().concat()
    }

    /// Returns all records: the ones in the file in its order, then the archived ones.
    pub(super) fn contents(&self, name: &str) -> OriginContents {
        let mut skipped = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut skip = |reason| {
                skipped.push(Skipped { place: format!("{name}:{}", at + 1), reason });
            };
            if let Line::Bad(reason) = &row.line {
                skip(reason.clone());
            }
            for (at, Observation { text, .. }) in row.observations.iter().enumerate() {
                match text.as_deref().map(str::trim) {
                    None => skip(format!("observation {} is no text", at + 1)),
                    Some("") => skip(format!("observation {} is empty", at + 1)),
                    Some(_) => {}
                }
            }
        }
        let unknown = self.archive.unknown.iter();
        skipped.extend(unknown.map(|(at, _)| Skipped {
            place: format!("the archive of {name}, line {at}"),
            reason: "not understood, kept as it is".to_owned(),
        }));
        let ids = self.rows.iter().flat_map(|row| &row.observations);
        let live = ids.filter_map(|observation| self.find(observation.id.as_deref()?));
        let live = live.map(|live| self.record(live, name));
        let records = live.chain(self.archive.retired.iter().map(archived)).collect();
        OriginContents { records, skipped }
    }

    fn record(&self, live: Live<'_>, name: &str) -> OriginRecord {
        let written = self.archive.written.iter().find(|written| written.id == live.id);
        let made_of = written.map(|written| &*written.made_of).unwrap_or_default();
        let entity = live.entity;
        OriginRecord {
            place: format!("{name}:{}, observation {}", live.line + 1, live.at + 1),
            raw: raw_record(&entity.name, entity.entity_type.as_deref(), &live.observation.raw),
            links: supersedes(made_of),
            ..plain(live.id, &entity.name, entity.entity_type.as_deref(), live.text())
        }
    }

    fn find(&self, id: &str) -> Option<Live<'_>> {
        let (line, position) = *self.place_by_id.get(id)?;
        let row = self.rows.get(line)?;
        let at = row.observations.binary_search_by_key(&position, |one| one.position).ok()?;
        let observation = &row.observations[at];
        Some(Live { id: observation.id.as_deref()?, line, at, entity: row.entity()?, observation })
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

    /// Makes a change that was checked, unless it is made already.
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
        let after = self.rows[line].observations.last().map_or(0, |last| last.position + 1);
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
        self.spell(line, at, quoted(&record.text));
        self.note(record, entity, Vec::new(), unit);
    }

    /// Keeps the id of an observation that memfold wrote.
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
        let Live { line, at, entity, observation, .. } = live;
        let retired = Retired {
            id: id.to_owned(),
            entity: entity.name.clone(),
            entity_type: entity.entity_type.clone(),
            nth: self.nth(line),
            position: observation.position,
            observation: live.text().to_owned(),
            raw: observation.raw.clone(),
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
        // The observations before it keep their positions, and it takes its own again.
        self.put(line, retired.position, &retired.id, retired.raw);
    }

    /// Gives an observation that is in the file the spelling that it had.
    fn rewrite(&mut self, record: &OriginRecord) {
        let spelling = serde_json::from_str(&record.raw);
        let Ok::<(String, Option<String>, String), _>((entity, _, raw)) = spelling else { return };
        let Some(live) = self.find(&record.id).filter(|live| live.observation.raw != raw) else {
            return;
        };
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
            self.rows[line].number(&retired);
            self.find_places(line);
            self.drop_if_made(line);
        }
        self.archive.written.retain(|written| written.id != id);
    }

    /// Takes an entity away that memfold made and that is empty.
    fn drop_if_made(&mut self, line: usize) {
        let row = &self.rows[line];
        let is_default = row.entity().is_some_and(|entity| entity.name == ENTITY_DEFAULT);
        let has_retired =
            self.archive.retired.iter().any(|retired| retired.entity == ENTITY_DEFAULT);
        let is_last = line + 1 == self.rows.len();
        if is_default && row.observations.is_empty() && is_last && !has_retired {
            self.rows.pop();
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
        if let Some(last) = self.rows.last_mut().filter(|last| !last.bytes.ends_with(b"\n")) {
            last.bytes.push(b'\n');
        }
        let entity_type = entity_type.unwrap_or_else(|| TYPE_DEFAULT.to_owned());
        let text = format!(
            "{{\"type\":\"entity\",\"name\":{},\"entityType\":{},\"observations\":[]}}",
            quoted(name),
            quoted(&entity_type)
        );
        self.rows.push(Row::of(text.as_bytes(), true));
        self.rows.len() - 1
    }

    fn lines_of(&self, name: &str) -> Vec<usize> {
        let is_it = |row: &Row| row.entity().is_some_and(|entity| entity.name == name);
        (0..self.rows.len()).filter(|at| is_it(&self.rows[*at])).collect()
    }

    /// Which of the lines of its entity a line is.
    fn nth(&self, line: usize) -> usize {
        let Some(entity) = self.rows[line].entity() else { return 0 };
        self.lines_of(&entity.name).iter().position(|at| *at == line).unwrap_or(0)
    }

    /// The positions of the retired observations of a line.
    fn retired_positions(&self, line: usize) -> BTreeSet<usize> {
        let Some(entity) = self.rows[line].entity() else { return BTreeSet::new() };
        let nth = self.nth(line);
        let is_of_line = |retired: &&Retired| retired.entity == entity.name && retired.nth == nth;
        let retired = self.archive.retired.iter().filter(is_of_line);
        retired.map(|retired| retired.position).collect()
    }

    /// Puts an observation in, in a line that is [compact](Self::compact). An observation that has its position already was
    /// never taken out: then it comes behind that one.
    fn put(&mut self, line: usize, position: usize, id: &str, raw: String) {
        let Row { observations, is_edited, .. } = &mut self.rows[line];
        let at = observations.partition_point(|known| known.position < position);
        let is_free = observations.get(at).is_none_or(|known| known.position != position);
        let (text, own_id) = (observation_text(&raw), Some(id.to_owned()));
        observations.insert(at, Observation { raw, text, id: own_id, position, is_taken: false });
        *is_edited = true;
        if is_free {
            self.place_by_id.insert(id.to_owned(), (line, position));
            return;
        }
        for behind in &mut observations[at + 1..] {
            behind.position += 1;
        }
        self.find_places(line);
    }

    /// Takes an observation out; it stands in its line until that is [compact](Self::compact).
    fn take(&mut self, line: usize, at: usize) {
        let Row { observations, is_edited, .. } = &mut self.rows[line];
        if let Some(id) = observations[at].id.take() {
            self.place_by_id.remove(&id);
        }
        (observations[at].is_taken, *is_edited) = (true, true);
    }

    /// Gives an observation another spelling.
    fn spell(&mut self, line: usize, at: usize, raw: String) {
        let row = &mut self.rows[line];
        let observation = &mut row.observations[at];
        (observation.text, observation.raw) = (observation_text(&raw), raw);
        row.is_edited = true;
    }

    /// Drops the observations that were taken out of a line.
    fn compact(&mut self, line: usize) {
        self.rows[line].observations.retain(|observation| !observation.is_taken);
    }

    /// Names the entities that are written in several ways.
    pub(super) fn twins(&self) -> Vec<String> {
        let mut spellings: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for entity in self.rows.iter().filter_map(Row::entity) {
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

/// The ids of observations; the ones that memfold wrote keep theirs.
struct Ids<'a> {
    written: BTreeMap<(&'a str, &'a str), &'a str>,
    free: FreeIds,
}

impl<'a> Ids<'a> {
    fn new(archive: &'a Archive) -> Self {
        let written = archive.written.iter();
        let mut free = FreeIds::default();
        free.taken.extend(archive.retired.iter().map(|retired| retired.id.clone()));
        Self { written: written.map(|w| ((&*w.entity, &*w.observation), &*w.id)).collect(), free }
    }

    fn take(&mut self, entity: &str, text: &str) -> String {
        match self.written.get(&(entity, text)) {
            Some(id) if self.free.taken.insert((*id).to_owned()) => (*id).to_owned(),
            _ => self.free.take(&hashed(entity, text)),
        }
    }
}

/// The id of the first observation with a text.
fn hashed(entity: &str, text: &str) -> String {
    format!("{entity}#{}", id_digits(format!("{entity}\0{text}")))
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
        status: retired_status(merged_into.as_deref()),
        place: "the archive".to_owned(),
        raw: raw_record(entity, entity_type.as_deref(), raw),
        ..plain(id, entity, entity_type.as_deref(), observation)
    }
}

/// A line of the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    /// Marks the lines behind it: they hold as long as `memory.jsonl` has not this digest.
    Until {
        /// The digest.
        until: String,
        /// The digest of the file that they are beside; archives of earlier versions lack it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
    /// An observation that was taken out.
    Retired(Retired),
    /// An observation that memfold wrote.
    Written(Written),
}

/// An observation that was taken out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Retired {
    id: String,
    entity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity_type: Option<String>,
    /// Which of several lines of that name, from 0.
    #[serde(default)]
    nth: usize,
    /// Its position among the observations of the line, the retired ones counted.
    position: usize,
    /// The text.
    observation: String,
    /// The text as it was written, in JSON.
    raw: String,
    /// The observation that says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merged_into: Option<String>,
    reason: String,
    run_id: String,
    at: String,
}

/// An observation that memfold wrote, under the id that its mirror gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Written {
    id: String,
    entity: String,
    observation: String,
    /// Its sources.
    made_of: Vec<String>,
    run_id: String,
    at: String,
}

/// Observations that were taken out, in that order, found by their ids.
#[derive(Debug, Clone, Default, PartialEq)]
struct RetiredList {
    by_number: BTreeMap<u64, Retired>,
    numbers: HashMap<String, u64>,
}

impl FromIterator<Retired> for RetiredList {
    fn from_iter<I: IntoIterator<Item = Retired>>(entries: I) -> Self {
        let mut list = Self::default();
        entries.into_iter().for_each(|entry| list.push(entry));
        list
    }
}

impl RetiredList {
    fn iter(&self) -> impl Iterator<Item = &Retired> {
        self.by_number.values()
    }

    fn get(&self, id: &str) -> Option<&Retired> {
        self.by_number.get(self.numbers.get(id)?)
    }

    fn get_mut(&mut self, id: &str) -> Option<&mut Retired> {
        self.by_number.get_mut(self.numbers.get(id)?)
    }

    /// Adds an entry at the end; of several with one id the first one is found.
    fn push(&mut self, entry: Retired) {
        let number = self.by_number.last_key_value().map_or(0, |(last, _)| last + 1);
        self.numbers.entry(entry.id.clone()).or_insert(number);
        self.by_number.insert(number, entry);
    }

    fn remove(&mut self, id: &str) -> Option<Retired> {
        self.by_number.remove(&self.numbers.remove(id)?)
    }
}

/// The content of the archive.
#[derive(Debug, Clone, Default, PartialEq)]
struct Archive {
    retired: RetiredList,
    written: Vec<Written>,
    /// Lines that cannot be understood, kept as they are, each with its number.
    unknown: Vec<(usize, String)>,
}

impl Archive {
    /// Reads an archive that stands beside a file of this digest; `is_live` tells whether an observation of an entity is
    /// in that file.
    fn read(text: &str, digest: &str, is_live: impl Fn(&str, &str) -> bool) -> Self {
        let (mut after, mut before) = (Self::default(), Self::default());
        let mut until = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let half = if until.is_some() { &mut before } else { &mut after };
            match serde_json::from_str(line) {
                Ok(Entry::Until { until: digest, since }) => until = Some((digest, since)),
                Ok(Entry::Retired(entry)) => half.retired.push(entry),
                Ok(Entry::Written(entry)) => half.written.push(entry),
                Err(_) => half.unknown.push((at + 1, line.to_owned())),
            }
        }
        match until {
            None => after,
            Some((until, _)) if until == digest => after,
            Some((_, Some(since))) if since == digest => before,
            Some(_) => Self::of_both(after, before, is_live),
        }
    }

    /// Somebody changed the file: where the two halves differ, the file decides.
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
    fn to_text(&self) -> String {
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

    /// Writes the archive as it will be when the file has the digest `until`, with its state beside a file of the digest
    /// `since`.
    fn to_text_before(&self, until: &str, since: &str, before: &Self) -> String {
        let until = Entry::Until { until: until.to_owned(), since: Some(since.to_owned()) };
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

/// Other programs empty the file before they write it anew: so long a reader waits for them.
const REWRITE: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Opens and reads a file; one that is empty only once it stays so.
pub(super) fn settled(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let mut left = REWRITE;
    loop {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if !bytes.is_empty() || left.is_zero() {
            return Ok((file, bytes));
        }
        std::thread::sleep(BETWEEN_LOOKS);
        left = left.saturating_sub(BETWEEN_LOOKS);
    }
}

/// Locks the file for the lifetime of the lock.
pub(super) fn lock(path: &Path) -> Result<OsLock, OriginError> {
    let lock = OsLock::take_on(path, PATIENCE).map_err(failed("lock", path))?;
    lock.ok_or_else(|| OriginError::Locked { path: path.to_owned() })
}

impl Files {
    /// Reads both files; a missing archive is an empty one.
    pub(super) fn read(path: &Path) -> Result<Self, OriginError> {
        let (_, memory) = settled(path).map_err(failed("read", path))?;
        let archive = read_text(&archive_path(path))?.unwrap_or_default();
        Ok(Self { memory, archive })
    }

    /// Writes a graph, the archive before the file. Nothing is written where nothing changed.
    pub(super) fn replace(
        &self,
        path: &Path,
        after: &Graph,
        before: &Graph,
    ) -> Result<(), OriginError> {
        let memory = after.memory_bytes();
        let archive = archive_path(path);
        let settled = after.archive.to_text();
        if memory != self.memory {
            let (until, since) = (digest(&memory), digest(&self.memory));
            let both = after.archive.to_text_before(&until, &since, &before.archive);
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

/// Replaces a file by one with the permissions of `like`: who may read the file may read the archive.
fn put(path: &Path, bytes: &[u8], like: &Path) -> Result<(), OriginError> {
    whole_file::replace(path, bytes, Some(like)).map(drop).map_err(failed("write", path))
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
        let text = after.to_text_before("new", "old", &before);
        // The file was replaced.
        assert_eq!(Archive::read(&text, "new", |_, _| false), after);
        // It was not. A survivor may have the text of x: then the file alone does not tell.
        assert_eq!(Archive::read(&text, "old", |_, _| true), before);
        // As an earlier version wrote it: y is still there, x not yet.
        let earlier = text.replace(",\"since\":\"old\"", "");
        assert_ne!(earlier, text);
        let read = Archive::read(&earlier, "old", |_, observation| observation == "two");
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
