//! All that the repositories hold, read at once: the records of notes with their ids, and the lines about them.
//!
//! A record is YAML between two fences (`---`), then Markdown. A body may hold rules of three hyphens. A fence opens a
//! record only where the lines up to the next fence read like front matter, so that other rules stay in their body.
//!
//! Capturing writes ids `namespace:<40 hex digits>:<index>`, reindexing writes `namespace:<7 hex digits>:<index>`, both
//! with `user:` before them in the user domain. They count differently where a body holds a rule: capturing counts the
//! rules of the note so far, reindexing counts records. Ours are of the first form, because it depends on nothing that
//! comes later in the note.
//!
//! The owner's search index, `.memory/index.db`, has the vectors of memories, and it alone knows their status. Vectors are
//! in `vec_memories`, a `vec0` table of the SQLite extension sqlite-vec.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::rc::Rc;

use rusqlite::{Connection, Row};
use serde::Deserialize;
use serde::de::{self, SeqAccess, Visitor};
use serde_json::Value;

use super::ledger::{self, Entry, Fields, Ledger, RefKind, text, texts};
use super::repository::{NotesRef, NotesRepository};
use super::{GitNotes, PREFIX};
use crate::{shared, sqlite_file};
use memfold_store::origin::{
    LinkKind, OriginContents, OriginError, OriginLink, OriginRecord, OriginStatus, Skipped,
};

/// The owner's index, at the top of the work tree.
const INDEX: &str = ".memory/index.db";
/// The model of its vectors.
const MODEL: &str = "all-MiniLM-L6-v2";
/// The source of the memories of this origin.
const SOURCE: &str = "git-notes";
/// Statuses of memories that the owner has put away.
const ARCHIVED_STATUSES: [&str; 2] = ["archived", "tombstone"];
/// Importance by namespace: the table of retention (0.5 to 1.0) on the scale of `brain.db`, 4 · share − 1.
///
/// Decisions would be 3, from which on a memory is protected as critical; they are put just below, because
/// a namespace alone says nothing of one memory.
const IMPORTANCE: [(&str, f64); 10] = [
    ("decisions", 2.9),
    ("learnings", 2.6),
    ("patterns", 2.4),
    ("retrospective", 2.2),
    ("inception", 1.8),
    ("blockers", 1.8),
    ("research", 1.4),
    ("elicitation", 1.4),
    ("progress", 1.0),
    ("reviews", 1.0),
];

/// A memory as its note has it, whatever has been written about it since.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) place: Place,
    pub(super) record: OriginRecord,
    is_archived: bool,
}

/// The memories of all repositories and the lines about them.
pub(super) struct Library {
    pub(super) repositories: BTreeMap<Domain, NotesRepository>,
    pub(super) ids: Ids,
    pub(super) ledger: Ledger,
    /// Memories in notes, by id.
    notes: BTreeMap<String, Base>,
    /// Their ids in the order of namespaces, commits and positions.
    order: Vec<String>,
    skipped: Vec<Skipped>,
}

impl Library {
    /// Reads the notes of every repository.
    pub(super) fn load(origin: &GitNotes) -> Result<Self, OriginError> {
        let mut library = Self {
            repositories: BTreeMap::new(),
            ids: Ids::default(),
            ledger: Ledger::default(),
            notes: BTreeMap::new(),
            order: Vec::new(),
            skipped: Vec::new(),
        };
        for (domain, path) in origin.repositories() {
            let repository = NotesRepository::open(path)?;
            for found in repository.read_below(PREFIX, &mut library.skipped)? {
                library.read_namespace(&repository, domain, found);
            }
            library.repositories.insert(domain, repository);
        }
        for (domain, repository) in &library.repositories {
            library.ledger.load(repository, *domain, &library.ids)?;
        }
        Ok(library)
    }

    fn read_namespace(&mut self, repository: &NotesRepository, domain: Domain, found: NotesRef) {
        for (commit, blob) in found.notes {
            let place = Place { domain, namespace: found.namespace.clone(), commit };
            let user = if domain == Domain::User { "user:" } else { "" };
            let shown = format!("{user}{}@{}", found.name, place.commit);
            let note = repository.blob(blob).map_err(|error| error.to_string());
            let note = note.and_then(|note| {
                String::from_utf8(note).map_err(|error| format!("no UTF-8: {}", error.utf8_error()))
            });
            match note {
                Ok(note) => self.read_note(&place, &note, &shown),
                Err(reason) => self.skipped.push(Skipped { place: shown, reason }),
            }
        }
    }

    fn read_note(&mut self, place: &Place, note: &str, shown: &str) {
        let (found, malformed) = records(note);
        for record in found {
            self.ids.add(place, record.capture_index);
            let base = base(place, &record, shown);
            self.order.push(base.record.id.clone());
            self.notes.insert(base.record.id.clone(), base);
        }
        for malformed in malformed {
            let place = format!("{shown} line {}", malformed.line);
            self.skipped.push(Skipped { place, reason: malformed.reason });
        }
    }

    /// Returns a memory as its note or its summary has it.
    pub(super) fn base(&self, id: &str) -> Option<Base> {
        if let Some(base) = self.notes.get(id) {
            return Some(base.clone());
        }
        let summaries = self.ledger.about(RefKind::Summaries, id);
        let (entry, fields) =
            summaries.max_by_key(|(entry, fields)| ledger::order(fields, &entry.line))?;
        Some(summary(id, entry, fields))
    }

    /// Returns the line that counts for a memory, among some.
    pub(super) fn meta(
        &self,
        id: &str,
        counts: impl Fn(&Rc<Entry>, &Fields) -> bool,
    ) -> Option<(&Rc<Entry>, &Fields)> {
        let lines = self.ledger.about(RefKind::Meta, id);
        let counted = lines.filter(|(entry, fields)| counts(entry, fields));
        counted.max_by_key(|(entry, fields)| ledger::order(fields, &entry.line))
    }

    /// Returns a memory as it is with some of its lines.
    pub(super) fn state(
        &self,
        id: &str,
        counts: impl Fn(&Rc<Entry>, &Fields) -> bool,
    ) -> Option<OriginRecord> {
        let base = self.base(id)?;
        let mut record = base.record;
        if let Some((entry, fields)) = self.meta(id, counts) {
            ledger::overlay(&mut record, fields, &entry.line, |id| self.resolve(id));
        } else if base.is_archived {
            record.status = OriginStatus::Archived;
        }
        Some(record)
    }

    /// Returns the id of a memory under any of its forms, else the given text.
    pub(super) fn resolve(&self, id: &str) -> String {
        self.ids.resolve(id).unwrap_or_else(|| id.to_owned())
    }

    /// Returns all memories with their links and vectors.
    pub(super) fn contents(mut self) -> OriginContents {
        let indexed = self.read_indexes();
        for (id, memory) in &indexed {
            if ARCHIVED_STATUSES.contains(&memory.status.as_str())
                && let Some(base) = self.notes.get_mut(id)
            {
                base.is_archived = true;
            }
        }
        let summaries = self.ledger.lines(RefKind::Summaries);
        let summaries: BTreeSet<&str> = summaries.filter_map(|(_, f)| text(f, "id")).collect();
        let ids = self.order.iter().map(String::as_str);
        let ids = ids.chain(summaries.into_iter().filter(|id| !self.notes.contains_key(*id)));
        let mut records: Vec<OriginRecord> =
            ids.filter_map(|id| self.state(id, |_, _| true)).collect();
        for record in &mut records {
            self.add_links(record);
            let vector = indexed.get(&record.id).filter(|memory| memory.text == record.text.trim());
            let vector = vector.and_then(|memory| memory.vector.clone());
            record.vector = vector.map(|vector| (MODEL.to_owned(), vector));
        }
        self.add_superseded(&mut records);
        let mut skipped = self.skipped;
        skipped.append(&mut self.ledger.skipped);
        OriginContents { records, skipped }
    }

    fn read_indexes(&mut self) -> BTreeMap<String, IndexedMemory> {
        let mut indexed = BTreeMap::new();
        for repository in self.repositories.values() {
            let path = repository.root().join(INDEX);
            match read_index(&path) {
                Ok(memories) => {
                    let known = memories.into_iter().flatten();
                    indexed.extend(known.filter_map(|m| Some((self.ids.resolve(&m.id)?, m))));
                }
                Err(reason) => {
                    let reason = format!("the index is not read: {reason}");
                    self.skipped.push(Skipped { place: path.display().to_string(), reason });
                }
            }
        }
        indexed
    }

    /// Adds the edges that begin at a memory, and gives all links their long form.
    fn add_links(&self, record: &mut OriginRecord) {
        for link in &mut record.links {
            link.to = self.resolve(&link.to);
        }
        for (_, fields) in self.ledger.about(RefKind::Edges, &record.id) {
            let (Some(source), Some(target)) =
                (text(fields, "source_id"), text(fields, "target_id"))
            else {
                continue;
            };
            let kind =
                match text(fields, "edge_type").unwrap_or_default().to_ascii_lowercase().as_str() {
                    "references" => LinkKind::References,
                    "supersedes" => LinkKind::Supersedes,
                    _ => continue,
                };
            let link = OriginLink { kind, to: self.resolve(target) };
            if self.resolve(source) == record.id && !record.links.contains(&link) {
                record.links.push(link);
            }
        }
    }

    /// Turns `superseded_by` round: the newer memory links to the older one.
    fn add_superseded(&self, records: &mut [OriginRecord]) {
        let positions: BTreeMap<String, usize> =
            records.iter().enumerate().map(|(at, record)| (record.id.clone(), at)).collect();
        for id in positions.keys() {
            let newer =
                self.meta(id, |_, _| true).and_then(|(_, fields)| text(fields, "superseded_by"));
            let Some(&at) = newer.and_then(|newer| positions.get(&self.resolve(newer))) else {
                continue;
            };
            let link = OriginLink { kind: LinkKind::Supersedes, to: id.clone() };
            if !records[at].links.contains(&link) {
                records[at].links.push(link);
            }
        }
    }
}

fn base(place: &Place, record: &NoteRecord<'_>, shown: &str) -> Base {
    let front = &record.front;
    let summary = front.summary.as_deref().unwrap_or_default();
    let status = front.status.clone().unwrap_or_else(|| "active".to_owned());
    let is_archived = ARCHIVED_STATUSES.contains(&status.as_str());
    let kind = front.kind.clone().unwrap_or_else(|| place.namespace.clone());
    let attributes = [
        ("domain", Some(place.domain.name().to_owned())),
        ("namespace", Some(place.namespace.clone())),
        ("phase", front.phase.clone()),
        ("spec", front.spec.clone()),
        ("status", Some(status)),
        ("type", Some(kind)),
    ];
    let attributes =
        attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let links = front.relates_to.0.iter();
    let links = links.map(|id| OriginLink { kind: LinkKind::References, to: id.clone() }).collect();
    let record = OriginRecord {
        id: place.id(record.capture_index),
        text: format!("{summary}\n{}", record.body).trim_end().to_owned(),
        tags: front.tags.0.clone(),
        attributes: attributes.collect(),
        importance: importance(&place.namespace),
        created_at: front.timestamp.clone(),
        source: SOURCE.to_owned(),
        links,
        place: format!("{shown}#{}", record.capture_index),
        raw: record.raw.to_owned(),
        ..OriginRecord::default()
    };
    Base { place: place.clone(), record, is_archived }
}

/// Reads a summary. Summaries of others keep facts beside the text; these are compared too.
fn summary(id: &str, entry: &Entry, fields: &Fields) -> Base {
    let place = entry.place();
    let mut lines = vec![text(fields, "summary").unwrap_or_default().to_owned()];
    lines.extend(texts(fields, "key_facts").into_iter().map(|fact| format!("- {fact}")));
    let attributes = fields.get("attributes").and_then(Value::as_object);
    let mut attributes = attributes.map(ledger::attributes_of).unwrap_or_default();
    let usual = [
        ("domain", place.domain.name()),
        ("namespace", place.namespace.as_str()),
        ("type", "summary"),
    ];
    for (name, value) in usual {
        if !attributes.iter().any(|(known, _)| known == name) {
            attributes.push((name.to_owned(), value.to_owned()));
        }
    }
    attributes.sort();
    let time = |name| text(fields, name).map(str::to_owned);
    let record = OriginRecord {
        id: id.to_owned(),
        text: lines.join("\n"),
        tags: texts(fields, "tags"),
        attributes,
        importance: fields.get("importance").and_then(Value::as_f64).unwrap_or(shared::IMPORTANCE),
        access_count: fields.get("activation_count").and_then(Value::as_i64).unwrap_or(0),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        last_accessed: time("last_accessed"),
        expires_at: time("expires_at"),
        source: time("source").unwrap_or_else(|| "consolidation".to_owned()),
        place: format!("{place} {id}"),
        raw: entry.line.clone(),
        ..OriginRecord::default()
    };
    Base { place, record, is_archived: false }
}

fn importance(namespace: &str) -> f64 {
    let known = IMPORTANCE.iter().find(|(name, _)| *name == namespace);
    known.map_or(shared::IMPORTANCE, |(_, importance)| *importance)
}

const VECTORS: &str = "vec_memories";

/// A memory as the index has it.
#[derive(Debug, Clone, PartialEq)]
struct IndexedMemory {
    /// The id, in either form.
    id: String,
    /// The embedded text: summary, newline, content; without white space around it.
    text: String,
    status: String,
    vector: Option<Vec<f32>>,
}

/// Reads an index, `None` where there is none.
///
/// # Errors
/// When it cannot be read; the memories are in the notes, so this is a reason to go without.
fn read_index(path: &Path) -> Result<Option<Vec<IndexedMemory>>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    sqlite_file::read(path, memories).map(Some).map_err(|error| error.to_string())
}

fn memories(connection: &Connection) -> rusqlite::Result<Vec<IndexedMemory>> {
    let mut vectors = match sqlite_file::has_vectors(connection, VECTORS)? {
        true => sqlite_file::vec0_vectors(connection, VECTORS, true)?,
        false => HashMap::new(),
    };
    let sql = "SELECT id, ifnull(summary, ''), ifnull(content, ''), ifnull(status, 'active')
               FROM memories ORDER BY id";
    let mut statement = connection.prepare(sql)?;
    let memory = |row: &Row<'_>| {
        let (id, summary, content): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let text = format!("{summary}\n{content}").trim().to_owned();
        let vector = vectors.remove(&id);
        Ok(IndexedMemory { id, text, status: row.get(3)?, vector })
    };
    statement.query_map([], memory)?.collect()
}

/// Longest front matter that is parsed, as the owner has it.
const FRONT_MATTER_BYTES_MAX: usize = 65_536;
/// Keys of every record; two of them make front matter of the lines between two fences.
const USUAL_KEYS: [&str; 3] = ["type:", "timestamp:", "summary:"];
const USUAL_KEYS_MIN: usize = 2;

/// A record as it stands in a note.
#[derive(Debug, PartialEq, Eq)]
struct NoteRecord<'a> {
    /// The position that capturing gave it.
    capture_index: usize,
    front: FrontMatter,
    /// The text below the front matter, without blank lines around it.
    body: &'a str,
    /// The record exactly as written, without the blank lines after it.
    raw: &'a str,
}

/// Something in a note that is no record.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    /// The number of the line it begins with.
    line: usize,
    reason: String,
}

/// The fields of a record.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct FrontMatter {
    #[serde(rename = "type")]
    kind: Option<String>,
    timestamp: Option<String>,
    summary: Option<String>,
    spec: Option<String>,
    phase: Option<String>,
    status: Option<String>,
    tags: Words,
    relates_to: Words,
}

/// A list of words, or one text with commas.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words(Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = items.next_element::<Option<String>>()? {
            words.extend(word.filter(|word| !word.trim().is_empty()));
        }
        Ok(Words(words))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
        Ok(Words(shared::words(text)))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_none<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Words, E> {
        Ok(Words(vec![flag.to_string()]))
    }
}

/// A fence: where its line begins, where the next one does, and its number.
#[derive(Debug, Clone, Copy)]
struct Fence {
    start: usize,
    end: usize,
    line: usize,
}

/// A stretch of a note that begins with front matter.
struct Piece {
    opening: Fence,
    content: Result<(FrontMatter, usize), String>,
}

/// Takes the records of a note apart.
fn records(note: &str) -> (Vec<NoteRecord<'_>>, Vec<Malformed>) {
    let fences = fences(note);
    let pieces = pieces(note, &fences);
    let mut malformed = Vec::new();
    let first = pieces.first().map_or(note.len(), |piece| piece.opening.start);
    if !note[..first].trim().is_empty() {
        let reason = "no front matter (type, timestamp, summary between two lines ---)".to_owned();
        malformed.push(Malformed { line: 1, reason });
    }
    let mut records = Vec::new();
    let ends = pieces.iter().skip(1).map(|piece| piece.opening.start).chain([note.len()]);
    let ends: Vec<usize> = ends.collect();
    let mut free_index = 0;
    for (piece, end) in pieces.into_iter().zip(ends) {
        match piece.content {
            Ok((front, body_start)) => {
                // Fences with spaces or carriage returns are not counted by capturing.
                let capture_index = capture_index(note, piece.opening.start).max(free_index);
                free_index = capture_index + 1;
                records.push(NoteRecord {
                    capture_index,
                    front,
                    body: without_blank_lines(&note[body_start.min(end)..end]),
                    raw: note[piece.opening.start..end].trim_end(),
                });
            }
            Err(reason) => malformed.push(Malformed { line: piece.opening.line, reason }),
        }
    }
    (records, malformed)
}

/// Counts as capturing does: half of the rules before the record, rounded up.
fn capture_index(note: &str, start: usize) -> usize {
    if note[..start].trim().is_empty() {
        return 0;
    }
    // The owner looks at the note before it appends, without the line that opens the new record.
    note[..start].matches("\n---\n").count() / 2 + 1
}

fn fences(note: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut start = 0;
    for (number, line) in note.split_inclusive('\n').enumerate() {
        let end = start + line.len();
        if line.trim_end() == "---" {
            fences.push(Fence { start, end, line: number + 1 });
        }
        start = end;
    }
    fences
}

fn pieces(note: &str, fences: &[Fence]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let (Some(&opening), Some(closing)) = (fences.get(at), fences.get(at + 1)) {
        let between = &note[opening.end..closing.start];
        if !reads_like_front_matter(between) {
            at += 1;
            continue;
        }
        let content = front_matter(between).map(|front| (front, closing.end));
        // Where the front matter does not end, the closing fence may open the next record.
        at += if content.is_ok() { 2 } else { 1 };
        pieces.push(Piece { opening, content });
    }
    pieces
}

fn reads_like_front_matter(text: &str) -> bool {
    let has = |key: &&&str| text.lines().any(|line| line.starts_with(**key));
    USUAL_KEYS.iter().filter(has).count() >= USUAL_KEYS_MIN
}

fn front_matter(text: &str) -> Result<FrontMatter, String> {
    if text.len() > FRONT_MATTER_BYTES_MAX {
        let length = text.len();
        return Err(format!(
            "{length} bytes of front matter, at most {FRONT_MATTER_BYTES_MAX} are read"
        ));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let front: FrontMatter = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("front matter is no YAML: {error}"))?;
    if front.summary.as_ref().is_none_or(|summary| summary.trim().is_empty()) {
        return Err("front matter without a summary".to_owned());
    }
    Ok(front)
}

/// Strips white space at the end and blank lines at the beginning; an indented first line stays so.
fn without_blank_lines(text: &str) -> &str {
    let text = text.trim_end();
    let content = text.len() - text.trim_start().len();
    text[..content].rfind('\n').map_or(text, |newline| &text[newline + 1..])
}

/// Fewest digits by which a commit is named.
const SHA_DIGITS_MIN: usize = 4;
/// Digits of a whole SHA-1 name.
pub(super) const SHA_DIGITS: usize = 40;

/// The owner of the memories of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Domain {
    Project,
    User,
}

/// The namespace and commit a record is attached to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) domain: Domain,
    pub(super) namespace: String,
    /// The commit's name, 40 hexadecimal digits.
    pub(super) commit: String,
}

/// Finds the id of a memory under any of its forms.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The capture index of each record of a note, in the order of the note.
    notes: BTreeMap<Place, Vec<usize>>,
}

/// An id taken apart.
struct Parts<'a> {
    domain: Domain,
    namespace: &'a str,
    sha: String,
    index: usize,
}

impl Domain {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

impl Place {
    /// Returns the id of the record with this capture index.
    pub(super) fn id(&self, index: usize) -> String {
        let prefix = match self.domain {
            Domain::Project => "",
            Domain::User => "user:",
        };
        format!("{prefix}{}:{}:{index}", self.namespace, self.commit)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain == Domain::User {
            f.write_str("user: ")?;
        }
        write!(f, "{} {}", self.namespace, self.commit)
    }
}

impl Ids {
    /// Adds the next record of a note.
    pub(super) fn add(&mut self, place: &Place, capture_index: usize) {
        self.notes.entry(place.clone()).or_default().push(capture_index);
    }

    /// Returns the id of the record that `id` names, `None` where it names none or several.
    pub(super) fn resolve(&self, id: &str) -> Option<String> {
        let parts = Parts::of(id)?;
        let (place, indexes) = self.note(&parts)?;
        let by_position = indexes.get(parts.index).copied();
        let by_capture = indexes.contains(&parts.index).then_some(parts.index);
        let index = if parts.sha.len() == SHA_DIGITS {
            by_capture.or(by_position)
        } else {
            by_position.or(by_capture)
        };
        index.map(|index| place.id(index))
    }

    fn note(&self, parts: &Parts<'_>) -> Option<(&Place, &Vec<usize>)> {
        let from = Place {
            domain: parts.domain,
            namespace: parts.namespace.to_owned(),
            commit: parts.sha.clone(),
        };
        let is_named = |place: &Place| {
            (place.domain, &place.namespace) == (from.domain, &from.namespace)
                && place.commit.starts_with(&parts.sha)
        };
        let mut found = self
            .notes
            .range((Bound::Included(&from), Bound::Unbounded))
            .take_while(|(place, _)| is_named(place));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }
}

impl<'a> Parts<'a> {
    fn of(id: &'a str) -> Option<Self> {
        let id = id.trim();
        let (domain, rest) = match id.strip_prefix("user:") {
            Some(rest) => (Domain::User, rest),
            None => (Domain::Project, id.strip_prefix("project:").unwrap_or(id)),
        };
        let (rest, index) = rest.rsplit_once(':')?;
        let (namespace, sha) = rest.rsplit_once(':')?;
        let is_sha = (SHA_DIGITS_MIN..=SHA_DIGITS).contains(&sha.len())
            && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        let sha = is_sha.then(|| sha.to_ascii_lowercase())?;
        Some(Self { domain, namespace, sha, index: index.parse().ok()? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A memory to lay out in an index: id, summary, content, status, vector.
    pub(in crate::git_notes) type Row<'a> = (&'a str, &'a str, &'a str, &'a str, Option<Vec<f32>>);

    /// Places of a chunk, one of them in use; sqlite-vec has 1,024.
    const PLACES: i64 = 2;

    /// Lays an index out as sqlite-vec 0.1.9 does.
    pub(in crate::git_notes) fn write_index(path: &Path, rows: &[Row<'_>]) {
        let db = Connection::open(path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT);
             INSERT INTO metadata VALUES ('schema_version', '4');
             CREATE TABLE memories (id TEXT PRIMARY KEY, commit_sha TEXT, namespace TEXT, summary TEXT, content TEXT,
                 timestamp TEXT, domain TEXT DEFAULT 'project', repo_path TEXT, spec TEXT, phase TEXT, tags TEXT,
                 status TEXT DEFAULT 'active', relates_to TEXT, created_at TEXT, updated_at TEXT);
             CREATE TABLE vec_memories_chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL,
                 validity BLOB NOT NULL, rowids BLOB NOT NULL);
             CREATE TABLE vec_memories_rowids (rowid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
                 chunk_id INTEGER, chunk_offset INTEGER);
             CREATE TABLE vec_memories_vector_chunks00 (rowid PRIMARY KEY, vectors BLOB NOT NULL);",
        )
        .unwrap();
        db.execute_batch("BEGIN").unwrap();
        for (at, (id, summary, content, status, vector)) in (0..).zip(rows) {
            let sql = "INSERT INTO memories (id, summary, content, status) VALUES (?, ?, ?, ?)";
            db.execute(sql, [id, summary, content, status]).unwrap();
            let Some(vector) = vector else { continue };
            let (chunk, offset) = (at + 1, at % PLACES);
            let sql =
                "INSERT INTO vec_memories_rowids (id, chunk_id, chunk_offset) VALUES (?, ?, ?)";
            db.execute(sql, (id, chunk, offset)).unwrap();
            let sql = "INSERT INTO vec_memories_chunks VALUES (?, ?, ?, zeroblob(16))";
            db.execute(sql, (chunk, PLACES, [1_u8 << offset])).unwrap();
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut blob = vec![0; bytes.len() * PLACES as usize];
            blob[bytes.len() * offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            let sql = "INSERT INTO vec_memories_vector_chunks00 VALUES (?, ?)";
            db.execute(sql, (chunk, blob)).unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
    }

    #[test]
    fn vectors_of_several_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let ids: Vec<String> = (0..20).map(|n| format!("decisions:abc{n:04}:0")).collect();
        let vector = |n: usize| vec![n as f32, 0.5, -1.0];
        let rows: Vec<Row<'_>> = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.as_str(), "s", "c ", "active", (n != 3).then(|| vector(n))))
            .collect();
        write_index(&path, &rows);
        let mut read = read_index(&path).unwrap().unwrap();
        read.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(read.len(), 20);
        for (n, memory) in read.iter().enumerate() {
            assert_eq!((memory.id.as_str(), memory.text.as_str()), (ids[n].as_str(), "s\nc"));
            assert_eq!(memory.vector, (n != 3).then(|| vector(n)));
        }
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["index.db"], "reading leaves no file behind");
    }

    #[test]
    fn freed_places_and_broken_chunks_have_no_vector() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let rows = [
            ("a", "", "", "active", Some(vec![1.0, 2.0])),
            ("b", "", "", "active", Some(vec![f32::NAN, 2.0])),
        ];
        write_index(&path, &rows);
        let vectors = || -> Vec<_> {
            read_index(&path).unwrap().unwrap().into_iter().map(|memory| memory.vector).collect()
        };
        assert_eq!(vectors(), [Some(vec![1.0, 2.0]), None]);
        let db = Connection::open(&path).unwrap();
        db.execute("UPDATE vec_memories_chunks SET validity = x'02'", []).unwrap();
        assert_eq!(vectors(), [None, None]);
        db.execute_batch("UPDATE vec_memories_chunks SET validity = x'03'; UPDATE vec_memories_vector_chunks00 SET vectors = x'00'")
            .unwrap();
        assert_eq!(vectors(), [None, None]);
        db.execute("DROP TABLE vec_memories_vector_chunks00", []).unwrap();
        assert_eq!(vectors(), [None, None]);
        drop(db);
        std::fs::write(&path, "not a database").unwrap();
        assert!(read_index(&path).is_err());
        assert_eq!(read_index(&folder.path().join("none.db")), Ok(None));
    }

    /// A file that sqlite-vec itself wrote, with each vector as JSON in the content of its memory.
    #[test]
    #[ignore = "needs a file of sqlite-vec, named by MEMFOLD_VEC0_INDEX"]
    fn a_real_index_is_read() {
        let path = std::env::var_os("MEMFOLD_VEC0_INDEX").unwrap();
        let read = read_index(Path::new(&path)).unwrap().unwrap();
        assert!(!read.is_empty());
        for memory in read {
            let expected: Vec<f32> =
                serde_json::from_str(&memory.text[memory.text.find('[').unwrap()..]).unwrap();
            assert_eq!(memory.vector, Some(expected), "{}", memory.id);
        }
    }

    fn record(summary: &str, body: &str) -> String {
        format!(
            "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: {summary}\n---\n\n{body}"
        )
    }

    #[test]
    fn several_records_and_rules_in_bodies() {
        let first = record("one", "above\n\n---\n\nbelow");
        let second = record("two", "a\n---\nb: c\n---\nd");
        let third = record("three", "");
        let note = format!("{first}\n\n{second}\n\n{third}");
        let (found, malformed) = records(&note);
        assert_eq!(malformed, []);
        let summaries: Vec<_> = found.iter().map(|r| r.front.summary.clone().unwrap()).collect();
        assert_eq!(summaries, ["one", "two", "three"]);
        assert_eq!(found[0].body, "above\n\n---\n\nbelow");
        assert_eq!(found[1].body, "a\n---\nb: c\n---\nd");
        assert_eq!(found[2].body, "");
        assert_eq!(found[1].raw, second);
        // 2 rules before the second record: 2 / 2 + 1; 6 before the third.
        let indexes: Vec<_> = found.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 2, 4]);
    }

    #[test]
    fn appended_records_are_numbered_in_order() {
        let note = [record("a", "x"), record("b", "y"), record("c", "z")].join("\n\n");
        let indexes: Vec<_> = records(&note).0.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 1, 2]);
    }

    #[test]
    fn malformed_records_have_reasons_and_hide_no_other() {
        let unclosed = "---\ntype: decisions\ntimestamp: x\nsummary: lost\n\nbody without: an: end";
        let broken = "---\ntype: [\nsummary: broken\n---\nbody";
        let empty = "---\ntype: decisions\nsummary: ''\n---\nbody";
        let long = format!("---\ntype: x\nsummary: {}\n---\n", "y".repeat(70_000));
        let good = record("good", "fine");
        let note = format!("stray text\n{unclosed}\n{good}\n\n{broken}\n\n{empty}\n{long}\n{good}");
        let (found, malformed) = records(&note);
        assert_eq!(found.len(), 2, "{malformed:?}");
        assert!(found.iter().all(|record| record.front.summary.as_deref() == Some("good")));
        let reasons: Vec<_> = malformed.iter().map(|m| m.reason.as_str()).collect();
        assert_eq!(reasons.len(), 5, "{reasons:?}");
        assert!(reasons[0].starts_with("no front matter"), "{reasons:?}");
        assert!(reasons[1].starts_with("front matter is no YAML"), "{reasons:?}");
        assert!(reasons[3].contains("without a summary"), "{reasons:?}");
        assert!(reasons[4].contains("65536"), "{reasons:?}");
    }

    #[test]
    fn other_line_ends_and_odd_notes() {
        let note = record("crlf", "body").replace('\n', "\r\n");
        let (found, malformed) = records(&note);
        assert_eq!((found.len(), malformed.len()), (1, 0));
        assert_eq!(found[0].body, "body");
        let two = format!("{note}\r\n\r\n{note}\r\n\r\n{note}");
        let indexes: Vec<_> = records(&two).0.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 1, 2]);
        for odd in ["", "\n\n", "---", "---\n---", "---\n---\n---\n"] {
            let (found, _) = records(odd);
            assert_eq!(found.len(), 0, "{odd:?}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb =
            String::from("---\ntype: x\nsummary: y\na: &a [x, x, x, x, x, x, x, x, x]\n");
        for (from, to) in ["a", "b", "c", "d", "e", "f", "g", "h"].windows(2).map(|w| (w[0], w[1]))
        {
            bomb.push_str(&format!("{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n"));
        }
        bomb.push_str("---\nbody");
        let (found, malformed) = records(&bomb);
        assert!(found.len() + malformed.len() == 1);
    }

    fn place(domain: Domain, commit: &str) -> Place {
        let commit = commit.to_owned() + &"0".repeat(40 - commit.len());
        Place { domain, namespace: "decisions".to_owned(), commit }
    }

    #[test]
    fn both_forms_name_the_same_memory() {
        let mut ids = Ids::default();
        let (one, user) = (place(Domain::Project, "abcdef12"), place(Domain::User, "abcdef12"));
        ids.add(&one, 0);
        ids.add(&one, 1);
        ids.add(&user, 0);
        let long = one.id(1);
        assert_eq!(ids.resolve(&long), Some(long.clone()));
        assert_eq!(ids.resolve("decisions:abcdef1:1"), Some(long.clone()));
        assert_eq!(ids.resolve(" project:decisions:ABCDEF1:1 "), Some(long));
        assert_eq!(ids.resolve("user:decisions:abcdef1:0"), Some(user.id(0)));
        for unknown in
            ["decisions:abcdef1:2", "decisions:abc:0", "x", "blockers:abcdef1:0", "a:b:c"]
        {
            assert_eq!(ids.resolve(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_prefix_of_two_commits_names_neither() {
        let mut ids = Ids::default();
        ids.add(&place(Domain::Project, "abcd1"), 0);
        ids.add(&place(Domain::Project, "abcd2"), 0);
        assert_eq!(ids.resolve("decisions:abcd:0"), None);
        assert!(ids.resolve("decisions:abcd2:0").is_some());
    }

    #[test]
    fn a_rule_in_a_body_shifts_the_long_form_alone() {
        let mut ids = Ids::default();
        let place = place(Domain::Project, "abcdef12");
        for capture_index in [0, 2, 3] {
            ids.add(&place, capture_index);
        }
        assert_eq!(ids.resolve(&place.id(2)), Some(place.id(2)));
        assert_eq!(ids.resolve("decisions:abcdef1:2"), Some(place.id(3)));
        assert_eq!(ids.resolve("decisions:abcdef1:1"), Some(place.id(2)));
    }
}
