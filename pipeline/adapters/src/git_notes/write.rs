//! Publishing: one commit per ref, each ref moved only from where it was read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::git_notes::adapter::GitNotes;
use crate::git_notes::draft::Draft;
use crate::git_notes::ledger::{Book, SheetKey, edited};
use crate::git_notes::library::Library;
use crate::git_notes::repository::{HeldRepository, NotesRepository, RefUpdate, Updated};
use memfold_store::origin::{OriginError, OriginUnit, Published};

/// How often everything is read again because another process moved a ref.
const TRIES: u32 = 10;

/// Lines that leave a note and lines that come in.
#[derive(Default)]
struct NoteEdit<'a> {
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
}

/// The repositories that are written, by the folder that their work trees share.
type Held<'a> = BTreeMap<&'a Path, HeldRepository<'a>>;

/// The notes of a ref that change, by commit.
type SheetEdit<'a> = BTreeMap<&'a str, NoteEdit<'a>>;

/// Writes units; `before_ref` is asked before each ref is moved.
///
/// A ref that moved meanwhile makes everything be read and decided again: what is written already is
/// recognized.
pub(super) fn write(
    origin: &GitNotes,
    units: &[OriginUnit],
    before_ref: &mut dyn FnMut(&str) -> Result<(), OriginError>,
) -> Result<Published, OriginError> {
    if units.is_empty() {
        return Ok(Published::default());
    }
    let repositories: BTreeMap<PathBuf, NotesRepository> = origin
        .repositories()
        .map(|(_, path)| NotesRepository::open(path).map(|found| (found.common_dir(), found)))
        .collect::<Result<_, _>>()?;
    let held = repositories.iter().map(|(folder, found)| Ok((folder.as_path(), found.hold()?)));
    let held: Held<'_> = held.collect::<Result<_, OriginError>>()?;
    let mut reference = String::new();
    for _ in 0..TRIES {
        let draft = Draft::of(Library::load(origin)?, units);
        match publish(origin, &held, &draft, before_ref)? {
            None => return Ok(draft.published),
            Some(moved) => reference = moved,
        }
    }
    Err(OriginError::Locked { path: reference.into() })
}

/// Moves the refs; returns the first one that somebody else moved.
fn publish(
    origin: &GitNotes,
    held: &Held<'_>,
    draft: &Draft,
    before_ref: &mut dyn FnMut(&str) -> Result<(), OriginError>,
) -> Result<Option<String>, OriginError> {
    let ledger = &draft.library.ledger;
    let mut edits: BTreeMap<&SheetKey, SheetEdit<'_>> = BTreeMap::new();
    for slot in &ledger.removed {
        edits
            .entry(&slot.sheet)
            .or_default()
            .entry(&slot.commit)
            .or_default()
            .removed
            .push(&slot.line);
    }
    for slot in &ledger.added {
        edits
            .entry(&slot.sheet)
            .or_default()
            .entry(&slot.commit)
            .or_default()
            .added
            .push(&slot.line);
    }
    for (key, edit) in in_order(edits) {
        let reference = key.reference(&origin.prefix);
        before_ref(&reference)?;
        let sheet = ledger.sheets.get(key);
        let content =
            |commit: &str| sheet.and_then(|s| s.notes.get(commit)).map_or(&[][..], Vec::as_slice);
        let notes = edit.iter().map(|(commit, edit)| {
            ((*commit).to_owned(), edited(content(commit), &edit.removed, &edit.added))
        });
        let update = RefUpdate {
            name: &reference,
            before: sheet.and_then(|sheet| sheet.tip),
            notes: &notes.collect(),
            seconds: draft.seconds,
            message: "Notes written by memfold",
        };
        let repository = draft.library.repositories.get(&key.domain);
        let held = repository.and_then(|repository| held.get(repository.common_dir().as_path()));
        let Some(held) = held else { continue };
        if held.update(&update)? == Updated::Moved {
            return Ok(Some(reference));
        }
    }
    Ok(None)
}

/// Puts refs in the order in which a kill between two of them loses nothing: a summary is written before
/// its sources are archived, and goes only when they count again.
fn in_order<'a>(
    edits: BTreeMap<&'a SheetKey, SheetEdit<'a>>,
) -> Vec<(&'a SheetKey, SheetEdit<'a>)> {
    let rank = |key: &SheetKey, edit: &SheetEdit<'_>| {
        let only_adds = edit.values().all(|edit| edit.removed.is_empty());
        match key.book {
            Book::Summaries if only_adds => 0,
            Book::Edges => 1,
            Book::Meta => 2,
            Book::Runs => 3,
            Book::Summaries => 4,
        }
    };
    let mut edits: Vec<_> = edits.into_iter().collect();
    edits.sort_by_key(|(key, edit)| (rank(key, edit), *key));
    edits
}
