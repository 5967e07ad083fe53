//! All that the repositories hold, read at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;

use crate::git_notes::adapter::GitNotes;
use crate::git_notes::ids::{Domain, Ids, Place};
use crate::git_notes::index_db::{IndexedMemory, read_index};
use crate::git_notes::ledger::{Book, Ledger, Slot};
use crate::git_notes::line::{Fields, text, texts};
use crate::git_notes::meta;
use crate::git_notes::record::{NoteRecord, records};
use crate::git_notes::repository::NotesRepository;
use memfold_store::origin::{
    LinkKind, OriginContents, OriginError, OriginLink, OriginRecord, OriginStanding, Skipped,
};

/// What a memory of this origin names as its source.
const SOURCE: &str = "git-notes";
/// Statuses of memories that the owner has put away.
const ARCHIVED_STATUSES: [&str; 2] = ["archived", "tombstone"];
/// The importance of a namespace that the table lacks.
const IMPORTANCE_DEFAULT: f64 = 1.0;

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
pub(super) struct Base {
    pub(super) place: Place,
    pub(super) record: OriginRecord,
    is_archived: bool,
}

/// The memories of all repositories and what has been written about them.
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
            let (namespaces, bad) = repository.below(&origin.prefix)?;
            let skipped = |reason| Skipped { place: origin.prefix.clone(), reason };
            library.skipped.extend(bad.into_iter().map(skipped));
            for namespace in namespaces {
                let read = library.read_namespace(&repository, domain, &origin.prefix, &namespace);
                match read {
                    // One ref that cannot be read hides no other.
                    Err(OriginError::Format { reason, .. }) => {
                        let place = format!("{}/{namespace}", origin.prefix);
                        library.skipped.push(Skipped { place, reason });
                    }
                    read => read?,
                }
            }
            library.repositories.insert(domain, repository);
        }
        for (domain, repository) in &library.repositories {
            library.ledger.load(repository, *domain, &origin.prefix, &library.ids)?;
        }
        Ok(library)
    }

    fn read_namespace(
        &mut self,
        repository: &NotesRepository,
        domain: Domain,
        prefix: &str,
        namespace: &str,
    ) -> Result<(), OriginError> {
        let reference = format!("{prefix}/{namespace}");
        let Some(tip) = repository.tip(&reference)? else { return Ok(()) };
        for (commit, blob) in repository.notes(tip)? {
            let place = Place { domain, namespace: namespace.to_owned(), commit };
            let shown = match domain {
                Domain::Project => format!("{reference}@{}", place.commit),
                Domain::User => format!("user:{reference}@{}", place.commit),
            };
            let note = repository.blob(blob).map_err(|error| error.to_string());
            let note = note.and_then(|note| {
                String::from_utf8(note).map_err(|error| format!("no UTF-8: {}", error.utf8_error()))
            });
            match note {
                Ok(note) => self.read_note(&place, &note, &shown),
                Err(reason) => self.skipped.push(Skipped { place: shown, reason }),
            }
        }
        Ok(())
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
            let Base { place, record, is_archived } = base;
            return Some(Base {
                place: place.clone(),
                record: record.clone(),
                is_archived: *is_archived,
            });
        }
        let summaries = self.ledger.about(Book::Summaries, id);
        let (slot, fields) =
            summaries.max_by_key(|(slot, fields)| meta::order(fields, &slot.line))?;
        Some(summary(id, slot, fields))
    }

    /// Returns the line that counts for a memory, among some.
    pub(super) fn meta(
        &self,
        id: &str,
        counts: impl Fn(&Rc<Slot>, &Fields) -> bool,
    ) -> Option<(&Rc<Slot>, &Fields)> {
        let lines = self.ledger.about(Book::Meta, id);
        let counted = lines.filter(|(slot, fields)| counts(slot, fields));
        counted.max_by_key(|(slot, fields)| meta::order(fields, &slot.line))
    }

    /// Returns a memory as it is with some of its lines.
    pub(super) fn state(
        &self,
        id: &str,
        counts: impl Fn(&Rc<Slot>, &Fields) -> bool,
    ) -> Option<OriginRecord> {
        let base = self.base(id)?;
        let mut record = base.record;
        if let Some((slot, fields)) = self.meta(id, counts) {
            meta::overlay(&mut record, fields, &slot.line, |id| self.resolve(id));
        } else if base.is_archived {
            record.standing = OriginStanding::Archived;
        }
        Some(record)
    }

    /// Returns the id of a memory under any of its forms, else what is given.
    pub(super) fn resolve(&self, id: &str) -> String {
        self.ids.resolve(id).unwrap_or_else(|| id.to_owned())
    }

    /// Returns all memories with their links and vectors.
    pub(super) fn contents(mut self, origin: &GitNotes) -> OriginContents {
        let indexed = self.read_indexes(origin);
        for (id, memory) in &indexed {
            if ARCHIVED_STATUSES.contains(&memory.status.as_str())
                && let Some(base) = self.notes.get_mut(id)
            {
                base.is_archived = true;
            }
        }
        let summaries = self.ledger.lines(Book::Summaries);
        let summaries: BTreeSet<&str> = summaries.filter_map(|(_, f)| text(f, "id")).collect();
        let ids = self.order.iter().map(String::as_str);
        let ids = ids.chain(summaries.into_iter().filter(|id| !self.notes.contains_key(*id)));
        let mut records: Vec<OriginRecord> =
            ids.filter_map(|id| self.state(id, |_, _| true)).collect();
        for record in &mut records {
            self.add_links(record);
            let vector = indexed.get(&record.id).filter(|memory| memory.text == record.text.trim());
            let vector = vector.and_then(|memory| memory.vector.clone());
            record.vector = vector.map(|vector| (origin.model.clone(), vector));
        }
        self.add_superseded(&mut records);
        let mut skipped = self.skipped;
        skipped.append(&mut self.ledger.skipped);
        OriginContents { records, skipped }
    }

    fn read_indexes(&mut self, origin: &GitNotes) -> BTreeMap<String, IndexedMemory> {
        let mut indexed = BTreeMap::new();
        for (domain, repository) in &self.repositories {
            let path: PathBuf = match origin.index(*domain) {
                Some(path) => path.to_path_buf(),
                None => repository.root().join(".memory/index.db"),
            };
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
        for (_, fields) in self.ledger.about(Book::Edges, &record.id) {
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

/// Reads a summary. Those of others keep facts beside the text; they are part of what is compared.
fn summary(id: &str, slot: &Slot, fields: &Fields) -> Base {
    let place = slot.place();
    let mut lines = vec![text(fields, "summary").unwrap_or_default().to_owned()];
    lines.extend(texts(fields, "key_facts").into_iter().map(|fact| format!("- {fact}")));
    let attributes = fields.get("attributes").and_then(Value::as_object);
    let mut attributes = attributes.map(meta::attributes_of).unwrap_or_default();
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
        importance: fields.get("importance").and_then(Value::as_f64).unwrap_or(IMPORTANCE_DEFAULT),
        access_count: fields.get("activation_count").and_then(Value::as_i64).unwrap_or(0),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        last_accessed: time("last_accessed"),
        expires_at: time("expires_at"),
        source: time("source").unwrap_or_else(|| "consolidation".to_owned()),
        place: format!("{place} {id}"),
        raw: slot.line.clone(),
        ..OriginRecord::default()
    };
    Base { place, record, is_archived: false }
}

fn importance(namespace: &str) -> f64 {
    let known = IMPORTANCE.iter().find(|(name, _)| *name == namespace);
    known.map_or(IMPORTANCE_DEFAULT, |(_, importance)| *importance)
}
