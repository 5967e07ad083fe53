//! Memories in git notes, as git-notes-memory keeps them.
//!
//! Memories are read from `refs/notes/mem/<namespace>`, which is never written. Changes are written
//! beside it: `refs/notes/mem-meta/<namespace>` (tier, accesses, the survivor of a merge),
//! `mem-summaries` (memories made of others), `mem-edges` and `mem-runs`. Plain git reads all of it, and its
//! `cat_sort_uniq` merges it, because a record is one line and the last one of a memory counts.
//!
//! `repository` knows git; `ledger` holds the lines that memfold wrote; `library` reads the notes of the owner and puts all
//! together; `apply` turns units into lines, and takes lines out for an undo; they are published here: one commit per
//! ref, each ref moved only from where it was read.

mod repository;
mod ledger;
mod library;
mod apply;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::apply::Applied;
use self::ledger::{RefKey, RefKind, edited};
use self::library::{Domain, Library};
use self::repository::{HeldRepository, NotesRepository, RefUpdate, unsupported};
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};

/// The name of the format.
pub(crate) const KIND: &str = "git_notes";

/// Where the owner keeps its refs.
const PREFIX: &str = "refs/notes/mem";
/// How often everything is read again because another process moved a ref.
const TRIES: u32 = 10;

/// Memories in the notes of a git repository, and of a second one for the user's own.
pub struct GitNotes {
    project: PathBuf,
    user: Option<PathBuf>,
}

/// Tells whether a path is a git repository with memories in its notes.
pub(crate) fn is_one(path: &Path) -> bool {
    match NotesRepository::open(path) {
        Ok(repository) => {
            repository.below(PREFIX).is_ok_and(|(namespaces, _)| !namespaces.is_empty())
        }
        // Opening it again names the unsupported feature.
        Err(_) => unsupported(path).is_some(),
    }
}

/// Returns the top of a repository that is named by a folder in it or by its `.git`.
pub(crate) fn root(path: &Path) -> PathBuf {
    let repository = NotesRepository::open(path);
    repository.map_or_else(|_| path.to_owned(), |repository| repository.root().to_owned())
}

/// Opens the repository at a path as an origin. Nothing is read yet; only a build without git notes refuses.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Origin>, OriginError> {
    Ok(Box::new(GitNotes::new(path)))
}

impl GitNotes {
    /// Names a repository by its work tree or a folder in it, its `.git` or, when bare, itself. Nothing is read yet.
    pub fn new(repository: impl Into<PathBuf>) -> Self {
        Self { project: repository.into(), user: None }
    }

    /// Adds the memories of the user, which are in a repository of their own.
    pub fn with_user_domain(mut self, repository: impl Into<PathBuf>) -> Self {
        self.user = Some(repository.into());
        self
    }

    fn repositories(&self) -> impl Iterator<Item = (Domain, &Path)> {
        let user = self.user.iter().map(|path| (Domain::User, path.as_path()));
        [(Domain::Project, self.project.as_path())].into_iter().chain(user)
    }
}

impl Origin for GitNotes {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn separate_by(&self) -> &'static [&'static str] {
        // The user's own memories do not go into a shared repository.
        &["domain:*"]
    }

    fn advice(&self) -> Vec<String> {
        let repositories = self.repositories().flat_map(|(_, path)| NotesRepository::open(path));
        let advice = repositories.flat_map(|repository| {
            RefKind::ALL.map(|kind| repository.advice_on_locks(&kind.prefix()))
        });
        advice.flatten().collect()
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Ok(Library::load(self)?.contents())
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        write(self, units, &mut |_| Ok(()))
    }
}

/// The repositories that are written, by the folder that their work trees share.
type Held<'a> = BTreeMap<&'a Path, HeldRepository<'a>>;

/// The lines that leave notes of a ref, and the lines that come in, by commit.
type RefNotes<'a> = BTreeMap<&'a str, [Vec<&'a str>; 2]>;

/// Writes units; `before_ref` is asked before each ref is moved.
///
/// A ref that moved meanwhile makes everything be read and decided again: lines that are written already are
/// recognized.
fn write(
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
        let applied = Applied::of(Library::load(origin)?, units);
        match publish(&held, &applied, before_ref)? {
            None => return Ok(applied.published),
            Some(moved) => reference = moved,
        }
    }
    Err(OriginError::Locked { path: reference.into() })
}

/// Moves the refs; returns the first one that somebody else moved.
///
/// A kill between two of them loses nothing: a summary is written before its sources are archived, and goes only when
/// they count again.
fn publish(
    held: &Held<'_>,
    applied: &Applied,
    before_ref: &mut dyn FnMut(&str) -> Result<(), OriginError>,
) -> Result<Option<String>, OriginError> {
    let ledger = &applied.library.ledger;
    let mut edits: BTreeMap<&RefKey, RefNotes<'_>> = BTreeMap::new();
    for (entries, is_added) in [(&ledger.removed, false), (&ledger.added, true)] {
        for entry in entries {
            let edit = edits.entry(&entry.key).or_default().entry(&entry.commit).or_default();
            edit[usize::from(is_added)].push(&entry.line);
        }
    }
    let rank = |key: &RefKey, edit: &RefNotes<'_>| match key.kind {
        RefKind::Summaries if edit.values().all(|[removed, _]| removed.is_empty()) => 0,
        RefKind::Edges => 1,
        RefKind::Meta => 2,
        RefKind::Runs => 3,
        RefKind::Summaries => 4,
    };
    let mut edits: Vec<_> = edits.into_iter().collect();
    edits.sort_by_key(|(key, edit)| (rank(key, edit), *key));
    for (key, edit) in edits {
        let reference = key.reference();
        before_ref(&reference)?;
        let written = ledger.refs.get(key);
        let content = |commit: &str| {
            written.and_then(|written| written.notes.get(commit)).map_or(&[][..], Vec::as_slice)
        };
        let notes = edit.iter().map(|(commit, [removed, added])| {
            ((*commit).to_owned(), edited(content(commit), removed, added))
        });
        let update = RefUpdate {
            name: &reference,
            before: written.and_then(|written| written.tip),
            notes: &notes.collect(),
            seconds: applied.seconds,
            message: "Notes written by memfold",
        };
        let repository = applied.library.repositories.get(&key.domain);
        let held = repository.and_then(|repository| held.get(repository.common_dir().as_path()));
        let Some(held) = held else { continue };
        if !held.update(&update)? {
            return Ok(Some(reference));
        }
    }
    Ok(None)
}
