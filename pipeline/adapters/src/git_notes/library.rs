//! All that the repositories hold, read at once.
//!
//! The owner's search index, `.memory/index.db`, has the vectors of memories, and it alone knows their status. Vectors are
//! in `vec_memories`, a `vec0` table of the SQLite extension sqlite-vec.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use rusqlite::{Connection, Row};
use serde_json::Value;

use super::ledger::{self, Entry, Fields, Ledger, RefKind, text, texts};
use super::record::{Domain, Ids, NoteRecord, Place, records};
use super::repository::{NotesRef, NotesRepository};
use super::{GitNotes, PREFIX};
use crate::sqlite_file::{self, Chunk};
use memfold_store::origin::{
    LinkKind, OriginContents, OriginError, OriginLink, OriginRecord, OriginStanding, Skipped,
};

/// The owner's index, at the top of the work tree.
const INDEX: &str = ".memory/index.db";
/// The model whose vectors it holds.
const MODEL: &str = "all-MiniLM-L6-v2";
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
#[derive(Debug, Clone)]
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
            record.standing = OriginStanding::Archived;
        }
        Some(record)
    }

    /// Returns the id of a memory under any of its forms, else what is given.
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

/// Reads a summary. Those of others keep facts beside the text; they are part of what is compared.
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
        importance: fields.get("importance").and_then(Value::as_f64).unwrap_or(IMPORTANCE_DEFAULT),
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
    known.map_or(IMPORTANCE_DEFAULT, |(_, importance)| *importance)
}

const VECTORS: &str = "vec_memories";

/// A memory as the index has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IndexedMemory {
    /// The id, in either form.
    pub(super) id: String,
    /// What was embedded: summary, newline, content; without white space around it.
    pub(super) text: String,
    pub(super) status: String,
    pub(super) vector: Option<Vec<f32>>,
}

/// Reads an index, `None` where there is none.
///
/// # Errors
/// When it cannot be read; the memories are in the notes, so this is a reason to go without.
pub(super) fn read_index(path: &Path) -> Result<Option<Vec<IndexedMemory>>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    sqlite_file::read(path, memories).map(Some).map_err(|error| error.to_string())
}

fn memories(connection: &Connection) -> rusqlite::Result<Vec<IndexedMemory>> {
    let has_vectors = sqlite_file::has_vectors(connection, VECTORS)?;
    let sql = if has_vectors {
        "SELECT m.id, m.summary, m.content, m.status, r.chunk_id, r.chunk_offset
         FROM memories m LEFT JOIN vec_memories_rowids r ON r.id = m.id
         ORDER BY r.chunk_id, r.chunk_offset, m.id"
    } else {
        "SELECT id, summary, content, status, NULL, NULL FROM memories ORDER BY id"
    };
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut chunk: Option<Chunk> = None;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut memory = indexed(row)?;
        if let (Some(id), Some(offset)) =
            (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?)
        {
            if chunk.as_ref().is_none_or(|chunk| chunk.id != id) {
                chunk = Chunk::read(connection, VECTORS, id)?;
            }
            memory.vector = chunk.as_ref().and_then(|chunk| chunk.vector(offset));
        }
        found.push(memory);
    }
    Ok(found)
}

fn indexed(row: &Row<'_>) -> rusqlite::Result<IndexedMemory> {
    let [summary, content, status] = [1, 2, 3].map(|column| row.get::<_, Option<String>>(column));
    let (summary, content) = (summary?.unwrap_or_default(), content?.unwrap_or_default());
    Ok(IndexedMemory {
        id: row.get(0)?,
        text: format!("{summary}\n{content}").trim().to_owned(),
        status: status?.unwrap_or_else(|| "active".to_owned()),
        vector: None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Path, read_index};
    use rusqlite::Connection;

    /// A memory to lay out in an index: id, summary, content, status, vector.
    pub(in crate::git_notes) type Row<'a> = (&'a str, &'a str, &'a str, &'a str, Option<Vec<f32>>);

    /// Places of a chunk; sqlite-vec has 1,024, a small number makes several chunks.
    const PLACES: usize = 8;

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
        for (id, summary, content, status, _) in rows {
            let sql = "INSERT INTO memories (id, summary, content, status) VALUES (?, ?, ?, ?)";
            db.execute(sql, [id, summary, content, status]).unwrap();
        }
        let vectors: Vec<_> = rows.iter().filter_map(|row| Some((row.0, row.4.clone()?))).collect();
        for (chunk, vectors) in (1..).zip(vectors.chunks(PLACES)) {
            write_chunk(&db, chunk, vectors);
        }
        db.execute_batch("COMMIT").unwrap();
    }

    fn write_chunk(db: &Connection, chunk: i64, vectors: &[(&str, Vec<f32>)]) {
        let mut validity = vec![0_u8; PLACES / 8];
        let mut blob = Vec::new();
        for (offset, (id, vector)) in vectors.iter().enumerate() {
            validity[offset / 8] |= 1 << (offset % 8);
            blob.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
            let sql =
                "INSERT INTO vec_memories_rowids (id, chunk_id, chunk_offset) VALUES (?, ?, ?)";
            db.execute(sql, (id, chunk, i64::try_from(offset).unwrap())).unwrap();
        }
        blob.resize(PLACES * 4 * vectors[0].1.len(), 0);
        let sql = "INSERT INTO vec_memories_chunks (size, validity, rowids) VALUES (?, ?, ?)";
        db.execute(sql, (i64::try_from(PLACES).unwrap(), validity, vec![0_u8; PLACES * 8]))
            .unwrap();
        db.execute("INSERT INTO vec_memories_vector_chunks00 VALUES (?, ?)", (chunk, blob))
            .unwrap();
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
}
