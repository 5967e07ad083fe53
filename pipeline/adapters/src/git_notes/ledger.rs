//! The refs that memfold writes: one line per record, attached to the commit of the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use gix::ObjectId;

use crate::git_notes::ids::{Domain, Ids, Place};
use crate::git_notes::line::{self, Fields};
use crate::git_notes::repository::NotesRepository;
use memfold_store::origin::{OriginError, Skipped};

/// What a ref holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Book {
    Summaries,
    Edges,
    Meta,
    Runs,
}

/// A ref below one of the prefixes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SheetKey {
    pub(super) domain: Domain,
    pub(super) book: Book,
    pub(super) namespace: String,
}

/// A ref as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    pub(super) tip: Option<ObjectId>,
    /// Contents of the notes by commit.
    pub(super) notes: BTreeMap<String, Vec<u8>>,
}

/// A line and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) sheet: SheetKey,
    pub(super) commit: String,
    pub(super) line: String,
}

/// All lines, and what changed since they were read.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) sheets: BTreeMap<SheetKey, Sheet>,
    pub(super) skipped: Vec<Skipped>,
    entries: BTreeMap<Rc<Slot>, Fields>,
    /// Lines by the memories they name.
    mentions: BTreeMap<String, BTreeSet<Rc<Slot>>>,
    /// Lines by the unit that wrote them.
    units: BTreeMap<String, BTreeSet<Rc<Slot>>>,
    pub(super) added: BTreeSet<Rc<Slot>>,
    pub(super) removed: BTreeSet<Rc<Slot>>,
}

impl Book {
    pub(super) const ALL: [Self; 4] = [Self::Summaries, Self::Edges, Self::Meta, Self::Runs];

    /// Returns the prefix of the refs, given that of the memories.
    pub(super) fn prefix(self, memories: &str) -> String {
        let name = match self {
            Self::Summaries => "summaries",
            Self::Edges => "edges",
            Self::Meta => "meta",
            Self::Runs => "runs",
        };
        format!("{memories}-{name}")
    }

    /// Returns the fields that name a memory; a run names them in a list.
    const fn mentions(self) -> &'static [&'static str] {
        match self {
            Self::Summaries => &["id"],
            Self::Edges => &["source_id", "target_id"],
            Self::Meta => &["memory_id"],
            Self::Runs => &[],
        }
    }
}

impl SheetKey {
    /// Returns the sheet of a book for the memories of a place.
    pub(super) fn of(book: Book, place: &Place) -> Self {
        Self { domain: place.domain, book, namespace: place.namespace.clone() }
    }

    /// Returns the full name of the ref.
    pub(super) fn reference(&self, memories: &str) -> String {
        format!("{}/{}", self.book.prefix(memories), self.namespace)
    }
}

impl Slot {
    pub(super) fn place(&self) -> Place {
        Place {
            domain: self.sheet.domain,
            namespace: self.sheet.namespace.clone(),
            commit: self.commit.clone(),
        }
    }
}

impl Ledger {
    /// Reads all lines of a repository.
    pub(super) fn load(
        &mut self,
        repository: &NotesRepository,
        domain: Domain,
        memories: &str,
        ids: &Ids,
    ) -> Result<(), OriginError> {
        for book in Book::ALL {
            let prefix = book.prefix(memories);
            let (namespaces, bad) = repository.below(&prefix)?;
            let skipped = |reason| Skipped { place: prefix.clone(), reason };
            self.skipped.extend(bad.into_iter().map(skipped));
            for namespace in namespaces {
                let key = SheetKey { domain, book, namespace };
                let reference = key.reference(memories);
                let read = repository
                    .tip(&reference)
                    .and_then(|tip| Ok((tip, tip.map(|tip| repository.notes(tip)).transpose()?)));
                let (tip, notes) = match read {
                    Err(OriginError::Format { reason, .. }) => {
                        self.skipped.push(Skipped { place: reference, reason });
                        continue;
                    }
                    read => read?,
                };
                let mut sheet = Sheet { tip, notes: BTreeMap::new() };
                for (commit, blob) in notes.unwrap_or_default() {
                    let content = repository.blob(blob)?;
                    let text = String::from_utf8_lossy(&content);
                    let reasons = self.read_note(&key, &commit, &text, ids);
                    let place = format!("{reference}@{commit}");
                    let skipped = |reason| Skipped { place: place.clone(), reason };
                    self.skipped.extend(reasons.into_iter().map(skipped));
                    sheet.notes.insert(commit, content);
                }
                self.sheets.insert(key, sheet);
            }
        }
        Ok(())
    }

    /// Reads the lines of a note; returns what is wrong with those that are no records.
    fn read_note(&mut self, key: &SheetKey, commit: &str, content: &str, ids: &Ids) -> Vec<String> {
        let mut reasons = Vec::new();
        for text in content.lines().filter(|text| !text.trim().is_empty()) {
            match line::decode(text) {
                Ok(fields) => {
                    let (sheet, commit) = (key.clone(), commit.to_owned());
                    let slot = Slot { sheet, commit, line: text.to_owned() };
                    self.index(Rc::new(slot), fields, ids);
                }
                Err(reason) => reasons.push(reason),
            }
        }
        reasons
    }

    /// Adds a line; one that is there already stays as it is.
    pub(super) fn insert(&mut self, slot: Slot, fields: Fields, ids: &Ids) {
        if self.entries.contains_key(&slot) {
            return;
        }
        let slot = Rc::new(slot);
        if !self.removed.remove(&slot) {
            self.added.insert(Rc::clone(&slot));
        }
        self.index(slot, fields, ids);
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, slot: &Rc<Slot>, ids: &Ids) {
        let Some(fields) = self.entries.remove(slot) else { return };
        for id in named(slot.sheet.book, &fields, ids) {
            self.mentions.entry(id).or_default().remove(slot);
        }
        if let Some(unit) = line::text(&fields, "unit") {
            self.units.entry(unit.to_owned()).or_default().remove(slot);
        }
        if !self.added.remove(slot) {
            self.removed.insert(Rc::clone(slot));
        }
    }

    fn index(&mut self, slot: Rc<Slot>, fields: Fields, ids: &Ids) {
        for id in named(slot.sheet.book, &fields, ids) {
            self.mentions.entry(id).or_default().insert(Rc::clone(&slot));
        }
        if let Some(unit) = line::text(&fields, "unit") {
            self.units.entry(unit.to_owned()).or_default().insert(Rc::clone(&slot));
        }
        self.entries.insert(slot, fields);
    }

    /// Returns the lines of a book that name a memory.
    pub(super) fn about<'a>(
        &'a self,
        book: Book,
        id: &str,
    ) -> impl Iterator<Item = (&'a Rc<Slot>, &'a Fields)> {
        let slots = self.mentions.get(id).into_iter().flatten();
        slots
            .filter(move |slot| slot.sheet.book == book)
            .filter_map(|slot| self.entries.get_key_value(slot))
    }

    /// Returns the lines that a unit wrote.
    pub(super) fn of_unit<'a>(
        &'a self,
        unit: &str,
    ) -> impl Iterator<Item = (&'a Rc<Slot>, &'a Fields)> {
        let slots = self.units.get(unit).into_iter().flatten();
        slots.filter_map(|slot| self.entries.get_key_value(slot))
    }

    /// Tells whether a unit has lines of memories, not only of what hangs on them.
    pub(super) fn has_memories(&self, unit: &str) -> bool {
        let mut lines = self.of_unit(unit);
        lines.any(|(slot, _)| matches!(slot.sheet.book, Book::Meta | Book::Summaries))
    }

    /// Returns the unit that wrote a line.
    pub(super) fn unit(&self, slot: &Rc<Slot>) -> Option<&str> {
        self.entries.get(slot).and_then(|fields| line::text(fields, "unit"))
    }

    /// Returns every line of a book.
    pub(super) fn lines(&self, book: Book) -> impl Iterator<Item = (&Rc<Slot>, &Fields)> {
        self.entries.iter().filter(move |(slot, _)| slot.sheet.book == book)
    }
}

/// Returns the memories that a line names.
fn named(book: Book, fields: &Fields, ids: &Ids) -> Vec<String> {
    let mut named: Vec<String> = line::texts(fields, "memory_ids");
    named.extend(
        book.mentions().iter().filter_map(|name| line::text(fields, name)).map(str::to_owned),
    );
    for id in &mut named {
        if let Some(long) = ids.resolve(id) {
            *id = long;
        }
    }
    named
}

/// Returns the content of a note without some lines and with others; none where nothing is left.
///
/// Lines that stand sorted stay sorted, as `cat_sort_uniq` leaves them; otherwise new lines follow the old.
pub(super) fn edited(content: &[u8], removed: &[&str], added: &[&str]) -> Option<Vec<u8>> {
    let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let is_sorted = lines.is_sorted() && lines.iter().all(|line| !line.is_empty());
    lines.retain(|line| !removed.iter().any(|removed| removed.as_bytes() == *line));
    for line in added {
        if !lines.contains(&line.as_bytes()) {
            lines.push(line.as_bytes());
        }
    }
    if is_sorted {
        lines.sort_unstable();
    }
    let mut edited = lines.join(&b'\n');
    edited.push(b'\n');
    lines.iter().any(|line| !line.trim_ascii().is_empty()).then_some(edited)
}

#[cfg(test)]
mod tests {
    use super::edited;

    #[test]
    fn lines_come_and_go() {
        let content = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(content(edited(b"", &[], &["b", "a"])).as_deref(), Some("a\nb\n"));
        assert_eq!(content(edited(b"a\nc\n", &[], &["b"])).as_deref(), Some("a\nb\nc\n"));
        assert_eq!(content(edited(b"a\nb\nc\n", &["b"], &[])).as_deref(), Some("a\nc\n"));
        assert_eq!(content(edited(b"a\n", &["a"], &[])), None);
        // Lines of others keep their order.
        assert_eq!(content(edited(b"z\n\na\n", &[], &["b"])).as_deref(), Some("z\n\na\nb\n"));
        assert_eq!(content(edited(b"z\n\na\nb\n", &["b"], &[])).as_deref(), Some("z\n\na\n"));
        assert_eq!(content(edited(b"a", &[], &["a"])).as_deref(), Some("a\n"));
    }
}
